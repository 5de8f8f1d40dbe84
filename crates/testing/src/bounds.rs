//! How far apart the numbers of two devices may be: the table in docs/numerics.md.

use std::sync::LazyLock;

const NUMERICS: &str = include_str!("../../../docs/numerics.md");

/// The largest difference of a number between two devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Steps from one f32 to the next.
    Ulp(u32),
    /// Multiples of 2^-23 of the coordinate or of the longest side of its box,
    /// whichever is larger.
    UlpOfSide(u32),
    /// In the unit of the number.
    Unit(f64),
}

impl Bound {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ').unwrap_or((text, "")) {
            (num, "ULP") => num.parse().ok().map(Self::Ulp),
            (num, "ULP of the side") => num.parse().ok().map(Self::UlpOfSide),
            (num, "px" | "m" | "rad" | "") => num.parse().ok().map(Self::Unit),
            _ => None,
        }
    }

    /// Whether two numbers of a box with this longest side are within the bound.
    pub fn holds(self, a: f32, b: f32, side: f32) -> bool {
        let difference = (a - b).abs();
        match self {
            Self::Ulp(num) => a.to_bits().abs_diff(b.to_bits()) <= num,
            Self::UlpOfSide(num) => difference <= num as f32 * f32::EPSILON * b.abs().max(side),
            Self::Unit(most) => f64::from(difference) <= most,
        }
    }

    /// The difference in the unit of the number.
    pub fn in_unit(self) -> f64 {
        match self {
            Self::Unit(most) => most,
            other => panic!("{other:?} has no unit"),
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    pub op: &'static str,
    pub part: &'static str,
    pub number: &'static str,
    pub bound: Bound,
}

/// The rows of the table, in its order.
pub static ROWS: LazyLock<Vec<Row>> = LazyLock::new(rows);

fn rows() -> Vec<Row> {
    let (_, table) = NUMERICS.split_once("| op | of | number | at most apart |\n").unwrap();
    let lines = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    lines
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [op, part, number, bound] = cells[..] else { panic!("{line}: not four cells") };
            let bound = Bound::parse(bound).unwrap_or_else(|| panic!("{line}: no such bound"));
            Row { op, part, number, bound }
        })
        .collect()
}

/// The bound of a number; the table must have it.
#[track_caller]
pub fn bound(op: &str, part: &str, number: &str) -> Bound {
    let row = ROWS.iter().find(|r| (r.op, r.part, r.number) == (op, part, number));
    row.unwrap_or_else(|| panic!("docs/numerics.md: no bound for {op}, {part}, {number}")).bound
}
