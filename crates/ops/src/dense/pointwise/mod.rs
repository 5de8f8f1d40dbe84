//! A straight-line program on every element of tensors of one shape: arithmetic, functions,
//! comparisons, casts, and copies between layouts.
//!
//! Up to [`MAX_SOURCES`] tensors are read and up to [`MAX_TARGETS`] written, all through windows
//! of the same dims; broadcast tensors have strides of 0. A program of no instruction copies. An
//! instruction reads tensors, constants and results of instructions before it. f16 is widened
//! when it is read and rounded once, to nearest even, when it is written; between them, values
//! are f32 or i32. Booleans are the i32 0 and 1; a condition is true where it is not 0.
//!
//! Of f32: `+ - * /`, the square root and roundings are IEEE's; `Min` and `Max` give NaN where an
//! operand is NaN; comparisons with NaN are false; `Round` is to even; [`Op::ToI32`] truncates, NaN
//! becomes 0 and what is beyond i32 its limit. Of i32: sums and products wrap; `Div` truncates and
//! `Mod` has the sign of the divisor, both 0 where the divisor is 0. An activation is as
//! [`Activation`] states.
//!
//! CPU and CUDA are equal for programs whose operations are ([`Program::is_exact`]). `Pow`, `Exp`,
//! `Log`, `Erf`, `Sin`, `Cos` and activations with one of them are within the bounds of
//! docs/numerics.md.
//!
//! A target may be the same window as a source: an element is read before it is written.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod instruction;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
mod placer;
mod program;
#[cfg(test)]
mod tests;

pub use cpu::pointwise;
pub use instruction::{Constant, Instruction, Op, Operand};
pub use program::Program;

#[cfg(doc)]
use super::Activation;

use super::Region;

/// A program and its windows, which have the same dims.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// What runs.
    pub program: &'a Program,
    /// What it reads.
    pub sources: &'a [Region],
    /// What it writes.
    pub targets: &'a [Region],
}

/// The most tensors that a program reads.
pub const MAX_SOURCES: usize = 6;
/// The most tensors that a program writes.
pub const MAX_TARGETS: usize = 4;
/// The most instructions of a program.
pub const MAX_INSTRUCTIONS: usize = 16;
/// The most sources and results that are still to be read, at any instruction.
pub const MAX_LIVE: usize = 8;
/// The most different constants of a program.
pub const MAX_CONSTANTS: usize = 16;
