//! Instructions of programs, and the places of their values.

use crate::dense::Activation;
use det_post_types::{Error, ErrorKind};

/// What an instruction computes. Operands are of one type unless stated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// The remainder with the sign of the divisor, of i32.
    Mod,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// `a` to the power of `b`, of f32.
    Pow,
    /// Whether `a == b`.
    Equal,
    /// Whether `a < b`.
    Less,
    /// Whether `a <= b`.
    LessOrEqual,
    /// Whether both are true, of i32.
    And,
    /// Whether one is true, of i32.
    Or,
    /// Whether exactly one is true, of i32.
    Xor,
    /// Whether it is 0, of i32.
    Not,
    /// The second operand where the first, an i32, is true; else the third.
    Where,
    /// `-a`.
    Neg,
    /// The magnitude.
    Abs,
    /// -1, 0 or 1, of f32; NaN stays.
    Sign,
    /// The square root.
    Sqrt,
    /// The next integer below.
    Floor,
    /// The next integer above.
    Ceil,
    /// The nearest integer, of two the even one.
    Round,
    /// The exponential.
    Exp,
    /// The natural logarithm.
    Log,
    /// The error function.
    Erf,
    /// The sine.
    Sin,
    /// The cosine.
    Cos,
    /// The nearest value of f16, as f32.
    RoundToF16,
    /// An i32 as f32, to nearest even.
    ToF32,
    /// An f32 as i32.
    ToI32,
    /// Whether an f32 is not 0; NaN is not.
    ToBool,
    /// An activation, of f32.
    Activation(Activation),
}

/// A constant.
#[derive(Clone, Copy, Debug)]
pub enum Constant {
    /// Of f32.
    F32(f32),
    /// Of i32.
    I32(i32),
}

/// What an instruction reads.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// The element of a source.
    Source(usize),
    /// A constant.
    Constant(Constant),
    /// The result of an instruction.
    Result(usize),
}

/// An instruction: its operands are as many as the operation has.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// What it computes.
    pub op: Op,
    /// Of what.
    pub operands: Vec<Operand>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    F32,
    I32,
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Register(u8),
    Constant(u8),
}

/// An instruction whose values have places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) op: Op,
    /// The type of the last operand, by which integers and floats differ.
    pub(super) kind: Kind,
    pub(super) operands: [Place; 3],
    pub(super) register: u8,
}

impl Op {
    /// The number of its operands.
    pub(super) fn num_operands(self) -> usize {
        match self {
            Self::Where => 3,
            Self::Add
            | Self::Sub
            | Self::Mul
            | Self::Div
            | Self::Mod
            | Self::Min
            | Self::Max
            | Self::Pow
            | Self::Equal
            | Self::Less
            | Self::LessOrEqual
            | Self::And
            | Self::Or
            | Self::Xor => 2,
            _ => 1,
        }
    }

    /// The type of the result for types of operands; `None` where the operation has none for them.
    pub(super) fn result(self, operands: &[Kind]) -> Option<Kind> {
        use Kind::{F32, I32};
        Some(match (self, operands) {
            (Self::Where, [I32, F32, F32]) => F32,
            (Self::Where, [I32, I32, I32]) => I32,
            (Self::Add | Self::Sub | Self::Mul | Self::Div | Self::Min | Self::Max, [a, b])
                if a == b =>
            {
                *a
            }
            (Self::Equal | Self::Less | Self::LessOrEqual, [a, b]) if a == b => I32,
            (Self::Pow, [F32, F32]) => F32,
            (Self::Mod | Self::And | Self::Or | Self::Xor, [I32, I32]) => I32,
            (Self::Neg | Self::Abs, [a]) => *a,
            (Self::ToF32, [I32]) => F32,
            (Self::Not, [I32]) | (Self::ToI32 | Self::ToBool, [F32]) => I32,
            (
                Self::Sign
                | Self::Sqrt
                | Self::Floor
                | Self::Ceil
                | Self::Round
                | Self::Exp
                | Self::Log
                | Self::Erf
                | Self::Sin
                | Self::Cos
                | Self::RoundToF16
                | Self::Activation(_),
                [F32],
            ) => F32,
            _ => return None,
        })
    }
}

pub(super) fn refused(message: &str) -> Error {
    Error::new(ErrorKind::Argument, "pointwise", message)
}
