//! Every input comes back; cut or changed bytes never make the same one.

use tombolo_engine::rng::Rng;

use super::*;
use crate::workload::tpcc::input::{Generator, Input, Mix};
use crate::workload::tpcc::nurand::Constants;

fn encoded<A: Arguments>(input: &A) -> Vec<u8> {
    let mut room = vec![0; input.bytes_max()];
    let mut out = Encoder::new(&mut room);
    input.encode(&mut out);
    let length = out.len();
    room.truncate(length);
    room
}

fn decoded<A: Arguments>(bytes: &[u8]) -> Result<A, BadArguments> {
    let mut from = Decoder::new(bytes);
    let input = A::decode(&mut from)?;
    from.end()?;
    Ok(input)
}

/// How many bytes an input takes, once all that holds of them was verified.
fn verified<A: Arguments + PartialEq + std::fmt::Debug>(input: &A) -> usize {
    let bytes = encoded(input);
    assert_eq!(decoded::<A>(&bytes).as_ref(), Ok(input));
    for length in 0..bytes.len() {
        assert!(decoded::<A>(&bytes[..length]).is_err(), "{length} bytes of {input:?}");
    }
    assert!(decoded::<A>(&[&bytes[..], &[0]].concat()).is_err());
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Ok(other) = decoded::<A>(&changed) {
            assert_ne!(&other, input, "bit {bit}");
            // One encoding of each input.
            assert_eq!(encoded(&other), changed, "bit {bit} of {input:?}");
        }
    }
    bytes.len()
}

fn verify(input: &Input) -> usize {
    match input {
        Input::NewOrder(input) => verified(input),
        Input::Payment(input) => verified(input),
        _ => 0, // only the paper's mix is encoded
    }
}

#[test]
fn every_input_of_the_mixes_comes_back() {
    for mix in [Mix::Paper, Mix::Standard] {
        for input in Generator::new(5, mix, 7, Constants::from_seed(5)).take(1_500) {
            verify(&input);
        }
    }
}

#[test]
fn inputs_of_the_paper_are_short() {
    let inputs = Generator::new(1, Mix::Paper, 5, Constants::from_seed(1)).take(2_000);
    let (orders, payments): (Vec<_>, Vec<_>) =
        inputs.partition(|input| matches!(input, Input::NewOrder(_)));
    let mean = |inputs: &[Input]| inputs.iter().map(verify).sum::<usize>() / inputs.len();
    assert!((35..50).contains(&mean(&orders)), "{}", mean(&orders));
    assert!((8..16).contains(&mean(&payments)), "{}", mean(&payments));
}

/// Values that no generator makes, at the ends of their types.
#[test]
fn extreme_inputs_come_back() {
    let mut rng = Rng::stream(3, &[]);
    let longs = [i64::MIN, -1, 0, 1, DAY, DAY + 1, DAY - MILLISECOND, i64::MAX];
    let integers = [i32::MIN, -1, 0, 1, 127, 128, i32::MAX];
    let smalls = [i16::MIN, -1, 0, 14, 15, 16, i16::MAX];
    for _ in 0..3_000 {
        let mut long = || longs[rng.below(8) as usize];
        let (time, amount) = (long(), long());
        let mut integer = || integers[rng.below(7) as usize];
        let (w_id, c_w_id, c_id) = (integer(), integer(), integer());
        let items: Vec<_> = (0..15).map(|_| (integer(), integer())).collect();
        let mut small = || smalls[rng.below(7) as usize];
        let (d_id, c_d_id) = (small(), small());
        let lines: Vec<_> = items
            .into_iter()
            .map(|(i_id, supply_w_id)| LineInput { i_id, supply_w_id, quantity: small() })
            .collect();
        let lines = &lines[..rng.below(16) as usize];
        verified(&NewOrderInput::of_lines(time, w_id, d_id, c_id, lines));
        let customer = match rng.below(2) {
            0 => CustomerInput::Id(c_id),
            _ => CustomerInput::LastName(Text::from_row(
                &b"BARBARBARBARBARX"[..rng.below(17) as usize],
            )),
        };
        let (h_date, h_amount) = (time, amount);
        verified(&PaymentInput { h_date, h_amount, w_id, c_w_id, d_id, c_d_id, customer });
    }
}
