//! An enum that no column holds: with data, and with a number that is too large.

use tombolo::Enum;

#[derive(Enum, Clone, Copy)]
enum Shape {
    Point,
    Circle { radius: i32 },
}

#[derive(Enum, Clone, Copy)]
enum Size {
    Small = 1,
    Large = 70_000,
}

fn main() {}
