//! What is understood, and what is refused at which place.

use super::*;

fn table(text: &str) -> Result<Table> {
    syn::parse_str(text).and_then(|input| Table::new(&input))
}

/// The message of the mistake in `text`, and what it points at.
fn mistake(text: &str) -> (String, String) {
    let error = table(text).err().unwrap();
    let at = error.span().source_text().unwrap_or_default();
    (error.to_string(), at)
}

#[test]
fn fields_and_attributes_become_columns_and_indexes() {
    let table = table(
        r#"
        #[index(ByOwner(owner, id))]
        #[index(ByCode(code), unique, hash, name = "codes")]
        pub(crate) struct BankAccount {
            #[key] #[column(range = -5..=99)] id: i32,
            owner: Option<String>,
            #[column(sql = Decimal<12, 2>, hot)] balance: i64,
            #[key] r#type: i16,
            code: [u8; 16],
            picture: Vec<u8>,
            #[column(added, default = -7)] limit: Option<i64>,
        }
        "#,
    )
    .unwrap();
    assert_eq!(table.name, "bank_account");
    let last = table.columns.last().unwrap();
    let default = last.default.as_ref().map(ToString::to_string);
    assert_eq!((last.added, default.as_deref()), (true, Some("- 7")));
    let reported: Vec<_> = table
        .columns
        .iter()
        .map(|column| {
            let range = column.range.as_ref().map(|(low, high)| format!("{low}..={high}"));
            let sql = column.sql.as_ref().map(|sql| quote!(#sql).to_string().replace(' ', ""));
            (column.name(), sql, range, column.hot)
        })
        .collect();
    let mut expected = ["id", "owner", "balance", "type", "code", "picture", "limit"]
        .map(|name| (name.to_owned(), None, None, false));
    expected[0].2 = Some("- 5..=99".to_owned());
    (expected[2].1, expected[2].3) = (Some("Decimal<12,2>".to_owned()), true);
    assert_eq!(reported, expected);
    let reported: Vec<_> = table
        .indexes
        .iter()
        .map(|i| (i.ident.to_string(), i.name.as_str(), &i.columns[..], i.unique, i.hash))
        .collect();
    assert_eq!(
        reported,
        [
            ("BankAccountKey".to_owned(), "bank_account_key", &[0, 3][..], true, false),
            ("ByOwner".to_owned(), "bank_account_by_owner", &[1, 0], false, false),
            ("ByCode".to_owned(), "codes", &[4], true, true),
        ]
    );
    let named =
        self::table(r#"#[table(name = "a", crate = "x::y")] struct B { #[key] c: bool }"#).unwrap();
    assert_eq!((named.name.as_str(), named.indexes[0].name.as_str()), ("a", "a_key"));
    let library = &named.library;
    assert_eq!(quote!(#library).to_string().replace(' ', ""), "x::y");
}

#[test]
fn mistakes_point_at_what_makes_them() {
    let cases = [
        ("struct A { id: Option<Option<i32>> }", "Option<Option<i32>>", "one Option"),
        ("#[index(ByN(m))] struct A { n: i32 }", "m", "no field `m`: the fields are `n`"),
        ("#[index(ByN(n), hash)] struct A { n: i32 }", "hash", "add `unique`"),
        (
            "#[index(ByN(n), uniq)] struct A { n: i32 }",
            "uniq",
            "unknown option: an index has `unique`",
        ),
        ("#[index(ByN())] struct A { n: i32 }", "ByN", "at least one column"),
        ("#[index(AKey(n))] struct A { #[key] n: i32 }", "AKey", "the same name"),
        (
            "#[table(nam = \"b\")] struct A { n: i32 }",
            "nam",
            "unknown option: a table has `name = ",
        ),
        ("#[table(name = \"\")] struct A { n: i32 }", "\"\"", "at least one letter"),
        ("struct A { #[column(cold)] n: i32 }", "cold", "unknown option: a column has `sql"),
        ("struct A { #[column(range = 1..9)] n: i32 }", ".", "expected `..=`"),
        ("struct A { ä: i32 }", "ä", "ASCII"),
        ("struct A<T> { n: T }", "<T>", "no generics"),
        ("struct A(i32);", "A", "named fields"),
        ("struct A {}", "A", "at least one column"),
        ("enum A { B }", "A", "named fields"),
    ];
    for (text, at, what) in cases {
        let (message, found) = mistake(text);
        assert!(message.contains(what), "{text}: {message}");
        assert_eq!(found, at, "{text}: {message}");
    }
}
