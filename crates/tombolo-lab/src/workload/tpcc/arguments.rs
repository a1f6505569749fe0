//! Inputs of New Order and Payment, the paper's mix, as bytes for a command log (`tombolo_engine::command_log`).
//!
//! # Layout
//! Numbers are as long as they must be (seven bits a byte); the paper's New Order takes some 45
//! bytes. All belong to version 1 of the procedures named here.
//!
//! | input | bytes |
//! |---|---|
//! | New Order | time; warehouse; customer; district; shape; then each line |
//! | shape | 1 byte: lines, +16 if all are supplied at home |
//! | line | 16 × item + quantity, or + 15 and how much more it is; its warehouse, if not all are at home |
//! | Payment | time; amount; warehouse; district; flags; if +1, the customer's warehouse and district; customer |
//! | flags | 1 byte: +1 not at home, +2 customer by name |
//! | customer | number; or 1 byte of length and the last name |
//! | time | twice the milliseconds since 2000-01-02; or 1 and the microseconds since then |
//!
//! Times and amounts may be negative (zigzag); other numbers are read as unsigned.

use tombolo_engine::command_log::{Arguments, BadArguments, Decoder, Encoder};

use super::input::{CustomerInput, LineInput, NewOrderInput, PaymentInput};
use super::text::Text;
use super::{DAY, MILLISECOND, ORDER_LINES_MAX};

/// The names under which the two procedures are registered, with [`VERSION`].
pub const NEW_ORDER: &str = "tpcc.new_order";
/// See [`NEW_ORDER`].
pub const PAYMENT: &str = "tpcc.payment";
/// The version of the procedures that take these bytes.
pub const VERSION: u32 = 1;

const LINES: u8 = 0x0f;
const ALL_AT_HOME: u8 = 0x10;
const AWAY: u8 = 1;
const BY_NAME: u8 = 2;
const QUANTITY_BITS: u32 = 4;
/// In a line: the quantity is as much or more.
const LARGE: u64 = (1 << QUANTITY_BITS) - 1;
const NAME_BYTES_MAX: usize = 16;

/// The most bytes a number of 32 and one of 16 bits take, and a time.
const INTEGER: usize = 5;
const SMALL: usize = 3;
const TIME: usize = 1 + Encoder::NUMBER_BYTES_MAX;
const CUSTOMER: usize = 1 + NAME_BYTES_MAX;
const LINE: usize = INTEGER + 1 + SMALL + INTEGER;

fn put_time(out: &mut Encoder<'_>, time: i64) {
    let since = time.wrapping_sub(DAY);
    if since % MILLISECOND == 0 {
        let number = since / MILLISECOND;
        out.number(((number << 1) ^ (number >> 63)) as u64 * 2);
    } else {
        out.number(1);
        out.signed(since);
    }
}

fn time(from: &mut Decoder<'_>) -> Result<i64, BadArguments> {
    const NO_TIME: BadArguments = BadArguments::new("that is no time");
    let since = match from.number::<u64>()? {
        1 => from.signed().and_then(|since| match since % MILLISECOND {
            0 => Err(NO_TIME),
            _ => Ok(since),
        })?,
        number if number % 2 == 0 => {
            let number = number / 2;
            let milliseconds = (number >> 1) as i64 ^ -((number & 1) as i64);
            milliseconds.checked_mul(MILLISECOND).ok_or(NO_TIME)?
        }
        _ => return Err(NO_TIME),
    };
    Ok(since.wrapping_add(DAY))
}

#[inline(always)]
fn put_integer(out: &mut Encoder<'_>, number: i32) {
    out.number((number as u32).into());
}

fn integer(from: &mut Decoder<'_>) -> Result<i32, BadArguments> {
    from.number::<u32>().map(|number| number as i32)
}

#[inline(always)]
fn put_small(out: &mut Encoder<'_>, number: i16) {
    out.number((number as u16).into());
}

fn small(from: &mut Decoder<'_>) -> Result<i16, BadArguments> {
    from.number::<u16>().map(|number| number as i16)
}

fn customer_flag(customer: &CustomerInput) -> u8 {
    if let CustomerInput::LastName(_) = customer { BY_NAME } else { 0 }
}

fn put_customer(out: &mut Encoder<'_>, customer: &CustomerInput) {
    match customer {
        CustomerInput::Id(c_id) => put_integer(out, *c_id),
        CustomerInput::LastName(name) => {
            out.byte(name.len() as u8);
            out.bytes(name.as_bytes());
        }
    }
}

fn customer(from: &mut Decoder<'_>, flags: u8) -> Result<CustomerInput, BadArguments> {
    if flags & BY_NAME == 0 {
        return integer(from).map(CustomerInput::Id);
    }
    let length = from.byte()?.into();
    let name = from.bytes(length)?;
    if length > NAME_BYTES_MAX || !name.is_ascii() {
        return Err(BadArguments::new("that is no last name"));
    }
    Ok(CustomerInput::LastName(Text::from_row(name)))
}

fn flags(from: &mut Decoder<'_>, known: u8) -> Result<u8, BadArguments> {
    match from.byte()? {
        flags if flags & !known == 0 => Ok(flags),
        _ => Err(BadArguments::new("a flag is not known")),
    }
}

impl Arguments for NewOrderInput {
    #[inline(always)]
    fn bytes_max(&self) -> usize {
        TIME + 2 * INTEGER + SMALL + 1 + ORDER_LINES_MAX as usize * LINE
    }

    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        let lines = self.lines();
        let at_home = lines.iter().all(|line| line.supply_w_id == self.w_id);
        put_time(out, self.entry_d);
        put_integer(out, self.w_id);
        put_integer(out, self.c_id);
        put_small(out, self.d_id);
        out.byte(lines.len() as u8 | if at_home { ALL_AT_HOME } else { 0 });
        for line in lines {
            let quantity = u64::from(line.quantity as u16);
            let item = u64::from(line.i_id as u32) << QUANTITY_BITS;
            out.number(item | quantity.min(LARGE));
            if quantity >= LARGE {
                out.number(quantity - LARGE);
            }
            if !at_home {
                put_integer(out, line.supply_w_id);
            }
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        let entry_d = time(from)?;
        let (w_id, c_id, d_id) = (integer(from)?, integer(from)?, small(from)?);
        let shape = flags(from, LINES | ALL_AT_HOME)?;
        let at_home = shape & ALL_AT_HOME != 0;
        let mut lines = [LineInput::default(); ORDER_LINES_MAX as usize];
        let lines = &mut lines[..usize::from(shape & LINES)];
        for line in lines.iter_mut() {
            let number: u64 = from.number()?;
            let mut quantity = number & LARGE;
            if quantity == LARGE {
                quantity += from.number::<u64>()?.min(1 << 16);
            }
            const TOO_LARGE: BadArguments = BadArguments::new("a line's number is too large");
            let i_id = u32::try_from(number >> QUANTITY_BITS).map_err(|_| TOO_LARGE)? as i32;
            let quantity = u16::try_from(quantity).map_err(|_| TOO_LARGE)? as i16;
            let supply_w_id = if at_home { w_id } else { integer(from)? };
            *line = LineInput { i_id, supply_w_id, quantity };
        }
        if !at_home && lines.iter().all(|line| line.supply_w_id == w_id) {
            return Err(BadArguments::new("lines at home say where that is"));
        }
        Ok(Self::of_lines(entry_d, w_id, d_id, c_id, lines))
    }
}

impl Arguments for PaymentInput {
    #[inline(always)]
    fn bytes_max(&self) -> usize {
        TIME + Encoder::NUMBER_BYTES_MAX + 2 * (INTEGER + SMALL) + 1 + CUSTOMER
    }

    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        let away = (self.c_w_id, self.c_d_id) != (self.w_id, self.d_id);
        put_time(out, self.h_date);
        out.signed(self.h_amount);
        put_integer(out, self.w_id);
        put_small(out, self.d_id);
        out.byte(if away { AWAY } else { 0 } | customer_flag(&self.customer));
        if away {
            put_integer(out, self.c_w_id);
            put_small(out, self.c_d_id);
        }
        put_customer(out, &self.customer);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        let (h_date, h_amount) = (time(from)?, from.signed()?);
        let (w_id, d_id) = (integer(from)?, small(from)?);
        let flags = flags(from, AWAY | BY_NAME)?;
        let (mut c_w_id, mut c_d_id) = (w_id, d_id);
        if flags & AWAY != 0 {
            (c_w_id, c_d_id) = (integer(from)?, small(from)?);
            if (c_w_id, c_d_id) == (w_id, d_id) {
                return Err(BadArguments::new("a customer at home says where that is"));
            }
        }
        let customer = customer(from, flags)?;
        Ok(Self { h_date, h_amount, w_id, c_w_id, d_id, c_d_id, customer })
    }
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
