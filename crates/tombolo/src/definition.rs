//! Compares the tables of a directory with those of the program, and names the first difference.
//!
//! Tables, indexes and columns that are declared as added may be missing on either side: those that the
//! directory lacks are added, and those that the program does not name are maintained by the store. Not here:
//! the code that does that (`open.rs`), columns and indexes as text (storage `words.rs`).

use std::fmt;

use tombolo_storage::schema::{ColumnDef, TableDef};
use tombolo_storage::words::{column_text, index_text};

/// A difference between a program's definition of a table and the directory's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The table.
    pub table: String,
    /// The part of the table: `column balance`, `index account_pk`.
    pub part: String,
    /// The part as it is in the directory, or `missing`.
    pub was: String,
    /// The part as the program defines it, or `missing`.
    pub is: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, part, was, is } = self;
        write!(f, "table {table}, {part}: the directory has {was}, the program has {is}; ")?;
        f.write_str(match &**was {
            MISSING => "declare the column as added (`#[column(added)]`), after all others",
            was if was.starts_with(DROPPED) => {
                "declare it as dropped, with its type (`Dropped<…>`)"
            }
            _ => "define the table as it was, or open another directory",
        })
    }
}

const MISSING: &str = "missing";
const DROPPED: &str = "a dropped column, ";

/// The first difference between a table as it is `stored` and as it is `given`.
pub(crate) fn difference(stored: &TableDef, given: &TableDef) -> Option<Difference> {
    let (part, was, is) =
        column_difference(stored, given).or_else(|| index_difference(stored, given))?;
    Some(Difference { table: stored.name.to_string(), part, was, is })
}

type Part = (String, String, String);

fn column_difference(stored: &TableDef, given: &TableDef) -> Option<Part> {
    // Columns that were added since, by another program or to be by this one, are no difference.
    let both = stored.columns.len().min(given.columns.len());
    let behind = [&stored.columns[both..], &given.columns[both..]];
    let are_added = behind.iter().all(|columns| columns.iter().all(|column| column.added));
    let count = match are_added {
        true => both,
        false => stored.columns.len().max(given.columns.len()),
    };
    (0..count).find_map(|at| match (stored.columns.get(at), given.columns.get(at)) {
        (Some(was), Some(is)) if was == is => None,
        (Some(was), Some(is)) if was.name == is.name => {
            Some((format!("column {}", was.name), column_text(was), column_text(is)))
        }
        (was, is) => {
            let named = |column: Option<&ColumnDef>| {
                column.map_or(MISSING.to_owned(), |column| match column.is_dropped() {
                    true => format!("{DROPPED}{}", column_text(column)),
                    false => format!("{} {}", column.name, column_text(column)),
                })
            };
            Some((format!("column number {}", at + 1), named(was), named(is)))
        }
    })
}

fn index_difference(stored: &TableDef, given: &TableDef) -> Option<Part> {
    given.indexes.iter().find_map(|is| {
        let was = stored.indexes.iter().find(|was| was.name == is.name)?;
        let part = format!("index {}", was.name);
        (was != is).then(|| (part, index_text(stored, was), index_text(given, is)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_storage::schema::{IndexDef, IndexKind};
    use tombolo_storage::types::{BigInt, Dropped, Integer, Nullable, SqlType, Text};

    fn table() -> TableDef {
        let columns = vec![
            ColumnDef::of::<Integer>("id").within(0, 9),
            ColumnDef::of::<BigInt>("balance"),
            ColumnDef::of::<Nullable<Text>>("note"),
        ];
        let key = IndexDef {
            name: "account_pk".into(),
            columns: vec![0],
            unique: true,
            kind: IndexKind::Tree,
        };
        TableDef { name: "account".into(), columns, indexes: vec![key] }
    }

    fn refusal_text(change: impl FnOnce(&mut TableDef)) -> String {
        let mut given = table();
        change(&mut given);
        difference(&table(), &given).unwrap().to_string()
    }

    #[test]
    fn every_difference_is_named_with_both_sides() {
        assert_eq!(difference(&table(), &table()), None);
        let cases = [
            (
                refusal_text(|t| t.columns[1].sql = SqlType::Decimal { precision: 12, scale: 2 }),
                "column balance: the directory has bigint not null, the program has numeric(12,2)",
            ),
            (
                refusal_text(|t| t.columns[0].range = Some((0, 99))),
                "column id: the directory has integer not null from 0 to 9, the program has \
                 integer not null from 0 to 99",
            ),
            (
                refusal_text(|t| t.columns[2].nullable = false),
                "has text, the program has text not null",
            ),
            (refusal_text(|t| t.columns[1].hot = true), "the program has bigint not null (hot)"),
            (
                refusal_text(|t| t.columns.truncate(2)),
                "column number 3: the directory has note text, the program has missing",
            ),
            (
                refusal_text(|t| t.columns[2].name = "remark".into()),
                "has note text, the program has remark text",
            ),
            (
                refusal_text(|t| t.indexes[0].columns = vec![1, 0]),
                "index account_pk: the directory has unique tree (id), the program has unique \
                 tree (balance, id)",
            ),
        ];
        for (text, expected) in cases {
            assert!(text.starts_with("table account, ") && text.contains(expected), "{text}");
        }
        // What was dropped is declared so.
        let mut less = table();
        less.columns[1] = ColumnDef::of::<Dropped<BigInt>>("any name");
        let of_less = difference(&less, &table()).unwrap().to_string();
        let expected = "the directory has a dropped column, bigint not null, the program has \
                        balance bigint not null; declare it as dropped";
        assert!(of_less.contains(expected), "{of_less}");
        assert_eq!(difference(&less, &less), None);
        let of_more = difference(&table(), &less).unwrap().to_string();
        let expected = "has balance bigint not null, the program has a dropped column";
        assert!(of_more.contains(expected), "{of_more}");
        // A column more is added if it says that it is one; one less was added since.
        let text = refusal_text(|t| t.columns.push(ColumnDef::of::<Nullable<BigInt>>("limit")));
        assert!(
            text.contains("has missing, the program has limit bigint; declare the column as added"),
            "{text}"
        );
        let mut more = table();
        more.columns.push(ColumnDef::of::<Nullable<BigInt>>("limit").added().or(7));
        assert_eq!(difference(&table(), &more), None);
        let of_other = difference(&more, &{
            let mut other = more.clone();
            other.columns[3].default = Some(8);
            other
        });
        let text = of_other.unwrap().to_string();
        assert!(text.contains("has bigint default 7 (added), the program has bigint default 8"));
        assert_eq!(difference(&more, &table()), None);
        // What one of them lacks is no difference.
        let mut fewer = table();
        fewer.indexes.clear();
        assert_eq!(difference(&table(), &fewer), None);
        assert_eq!(difference(&fewer, &table()), None);
    }
}
