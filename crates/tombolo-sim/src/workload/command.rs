//! Requests as bytes: what a log of commands holds, and what is run again from it.
//!
//! | part | bytes |
//! |---|---|
//! | length of what follows | 2 |
//! | what is asked | 1 |
//! | client, number | 4, 8 |
//! | numbers of the work, each | 8 |
//!
//! A step that makes a table has nothing behind what is asked. All numbers are little-endian. The
//! format is the simulator's own and lives no longer than a seed. Not here: which commands are
//! logged.

use super::request::{Request, Text, Work};
use super::step::Step;

const TABLE: u8 = 0;
const LENGTH_BYTES: usize = 2;

/// Adds `step` to `out`.
///
/// # Panics
/// When it adds something, or is for what is added or carries an id.
pub(crate) fn encode(step: &Step, out: &mut Vec<u8>) {
    assert!(!matches!(step, Step::Added(_)), "nothing is added where commands are logged");
    let start = out.len();
    out.extend([0; LENGTH_BYTES]);
    if let Step::Request(Request { client, number, work, .. }) = step {
        let (tag, numbers) = numbers_of(work);
        out.push(tag);
        out.extend(client.to_le_bytes());
        out.extend(number.to_le_bytes());
        numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
    } else {
        out.push(TABLE);
    }
    let length = (out.len() - start - LENGTH_BYTES) as u16;
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// The steps in `bytes`, if they are whole ones and nothing else.
pub(crate) fn decode_all(mut bytes: &[u8]) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() {
        let (step, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        steps.push(decode(step)?);
        bytes = rest;
    }
    bytes.is_empty().then_some(steps)
}

fn numbers_of(work: &Work) -> (u8, Vec<i64>) {
    let text = |text: &Text| i64::from(text.bytes) << 8 | i64::from(text.fill);
    let key = |(group, number): (i16, i32)| i64::from(group) << 32 | i64::from(number);
    match work {
        Work::Open => (1, vec![]),
        Work::Transfer { from, to, amount } => (2, vec![i64::from(*from), i64::from(*to), *amount]),
        Work::Note { account, note } => {
            (3, vec![i64::from(*account), note.as_ref().map_or(-1, text)])
        }
        Work::Insert { item, name, body } => (4, vec![key(*item), i64::from(*name), text(body)]),
        Work::Change { item, name, body } => {
            (5, vec![key(*item), i64::from(*name), body.as_ref().map_or(-1, text)])
        }
        Work::Delete { item } => (6, vec![key(*item)]),
        Work::Restock { group, items, account, to, body } => {
            let numbers = [i64::from(*group), i64::from(*items), i64::from(*account)];
            (7, [&numbers[..], &[i64::from(*to), text(body)]].concat())
        }
        Work::Rate { .. } | Work::Remark { .. } | Work::Outcome { .. } => {
            panic!("there are no added columns and no ids where commands are logged")
        }
        Work::ReadAccount { account } => (8, vec![i64::from(*account)]),
        Work::ReadGroup { group } => (9, vec![i64::from(*group)]),
        Work::Audit => (10, vec![]),
        Work::Fail { account, item, panics } => {
            (11, vec![i64::from(*account), key(*item), i64::from(*panics)])
        }
    }
}

fn decode(bytes: &[u8]) -> Option<Step> {
    let (tag, bytes) = bytes.split_first()?;
    if *tag == TABLE {
        return bytes.is_empty().then_some(Step::Table);
    }
    let (client, bytes) = bytes.split_first_chunk::<4>()?;
    let (numbers, rest) = bytes.as_chunks::<8>();
    let numbers: Vec<i64> = numbers.iter().map(|number| i64::from_le_bytes(*number)).collect();
    let (number, numbers) = numbers.split_first()?;
    let work = work_of(*tag, numbers)?;
    let request =
        Request { client: i32::from_le_bytes(*client), number: *number, work, sent_before: None };
    rest.is_empty().then_some(Step::Request(request))
}

fn work_of(tag: u8, numbers: &[i64]) -> Option<Work> {
    let text = |number: i64| Text { bytes: (number >> 8) as u16, fill: number as u8 };
    let maybe_text = |number: i64| (number >= 0).then(|| text(number));
    let key = |number: i64| ((number >> 32) as i16, number as i32);
    Some(match (tag, numbers) {
        (1, []) => Work::Open,
        (2, &[from, to, amount]) => Work::Transfer { from: from as i32, to: to as i32, amount },
        (3, &[account, note]) => Work::Note { account: account as i32, note: maybe_text(note) },
        (4, &[item, name, body]) => {
            Work::Insert { item: key(item), name: name as u8, body: text(body) }
        }
        (5, &[item, name, body]) => {
            Work::Change { item: key(item), name: name as u8, body: maybe_text(body) }
        }
        (6, &[item]) => Work::Delete { item: key(item) },
        (7, &[group, items, account, to, body]) => Work::Restock {
            group: group as i16,
            items: items as i32,
            account: account as i32,
            to: to as i32,
            body: text(body),
        },
        (8, &[account]) => Work::ReadAccount { account: account as i32 },
        (9, &[group]) => Work::ReadGroup { group: group as i16 },
        (10, []) => Work::Audit,
        (11, &[account, item, panics]) => {
            Work::Fail { account: account as i32, item: key(item), panics: panics != 0 }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::request::Kinds;
    use super::*;
    use tombolo_engine::rng::Rng;

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut rng = Rng::from_seed(1);
        let draw = |number| {
            let kinds =
                Kinds { panics: true, columns: false, ids: false, long_texts: number % 2 == 0 };
            let work = if number == 7 { Work::Open } else { Work::draw(&mut rng, kinds) };
            Step::Request(Request { client: number as i32 % 5, number, work, sent_before: None })
        };
        let mut steps: Vec<Step> = (0..500).map(draw).collect();
        steps.insert(3, Step::Table);
        let mut bytes = Vec::new();
        steps.iter().for_each(|step| encode(step, &mut bytes));
        assert_eq!(decode_all(&bytes), Some(steps));
        assert_eq!(decode_all(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode_all(&bytes[1..]), None);
    }
}
