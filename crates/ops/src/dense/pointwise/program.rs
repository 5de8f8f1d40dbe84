//! Programs: checked, and with a register for each value.

use super::instruction::{Instruction, Kind, Op, Operand, Place, Placed, refused};
use super::placer::Placer;
use super::{MAX_INSTRUCTIONS, MAX_SOURCES, MAX_TARGETS};
use crate::dense::Region;
use det_post_types::Result;

/// A checked program.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) sources: Vec<Kind>,
    pub(super) code: Vec<Placed>,
    /// As bits.
    pub(super) constants: Vec<u32>,
    pub(super) results: Vec<(Kind, Place)>,
}

impl Program {
    /// Checks types and gives values their registers. `is_integer` says of every source whether
    /// it is i32; `results` are stored in the targets, in this order.
    ///
    /// # Errors
    /// `Argument` with the instruction when there are more than the limits of this module, an
    /// operand comes later or is not there, or types or the number of operands do not fit.
    pub fn new(
        is_integer: &[bool],
        instructions: &[Instruction],
        results: &[Operand],
    ) -> Result<Self> {
        let fits = is_integer.len() <= MAX_SOURCES
            && instructions.len() <= MAX_INSTRUCTIONS
            && (1..=MAX_TARGETS).contains(&results.len());
        if !fits {
            return Err(refused(&format!(
                "{} sources, {} instructions and {} results; at most {MAX_SOURCES}, \
                 {MAX_INSTRUCTIONS} and {MAX_TARGETS} are allowed",
                is_integer.len(),
                instructions.len(),
                results.len()
            )));
        }
        let kind = |&is_integer: &bool| if is_integer { Kind::I32 } else { Kind::F32 };
        let sources: Vec<Kind> = is_integer.iter().map(kind).collect();
        let mut placer = Placer::new(&sources, instructions, results);
        for (index, instruction) in instructions.iter().enumerate() {
            placer.place(index, instruction)?;
        }
        let last = instructions.len();
        let results = results.iter().map(|&result| placer.find(last, result));
        let results = results.collect::<Result<Vec<_>>>()?;
        let Placer { code, constants, .. } = placer;
        Ok(Self { sources, code, constants, results })
    }

    /// A program that copies f32 and f16 (`is_integer`: i32).
    ///
    /// # Errors
    /// None.
    pub fn copy(is_integer: bool) -> Result<Self> {
        Self::new(&[is_integer], &[], &[Operand::Source(0)])
    }

    /// Whether the program only copies its source.
    pub fn is_copy(&self) -> bool {
        let [(_, result)] = self.results[..] else { return false };
        self.code.is_empty() && self.sources.len() == 1 && result == Place::Register(0)
    }

    /// Whether CPU and CUDA are equal.
    pub fn is_exact(&self) -> bool {
        self.code.iter().all(|instruction| match instruction.op {
            Op::Pow | Op::Exp | Op::Log | Op::Erf | Op::Sin | Op::Cos => false,
            Op::Activation(activation) => activation.is_exact(),
            _ => true,
        })
    }

    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.code.len()
    }

    /// Whether there are no instructions: the program copies.
    pub fn is_empty(&self) -> bool {
        self.code.is_empty()
    }

    /// Refuses windows that do not fit the program or each other.
    pub(super) fn check(
        &self,
        sources: &[Region],
        targets: &[Region],
        is_integer: impl Fn(&Region) -> Result<bool>,
    ) -> Result<()> {
        let kinds = self.sources.iter().copied().chain(self.results.iter().map(|of| of.0));
        let regions = sources.iter().chain(targets);
        if sources.len() != self.sources.len() || targets.len() != self.results.len() {
            return Err(refused(&format!(
                "{} sources and {} targets for a program of {} and {}",
                sources.len(),
                targets.len(),
                self.sources.len(),
                self.results.len()
            )));
        }
        let dims = targets[0].window.dims();
        for (kind, region) in kinds.zip(regions) {
            if is_integer(region)? != (kind == Kind::I32) || region.window.dims() != dims {
                return Err(refused(&format!(
                    "{region:?} for {kind:?} of {dims:?}: element type and dims have to be equal"
                )));
            }
        }
        Ok(())
    }
}
