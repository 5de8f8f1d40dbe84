//! Programs: checked, and with a register for each value.

use super::{MAX_CONSTANTS, MAX_INSTRUCTIONS, MAX_LIVE, MAX_SOURCES, MAX_TARGETS};
use crate::dense::{Activation, Region};
use det_post_types::{Error, ErrorKind, Result};

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

/// A checked program.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) sources: Vec<Kind>,
    pub(super) code: Vec<Placed>,
    /// As bits.
    pub(super) constants: Vec<u32>,
    pub(super) results: Vec<(Kind, Place)>,
}

impl Op {
    fn num_operands(self) -> usize {
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
    fn result(self, operands: &[Kind]) -> Option<Kind> {
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

/// A value that has a register.
#[derive(Clone, Copy)]
struct Held {
    kind: Kind,
    register: u8,
    /// The last instruction that reads it.
    last_read: usize,
}

struct Placer {
    sources: Vec<Held>,
    results: Vec<Held>,
    code: Vec<Placed>,
    constants: Vec<u32>,
    /// The last reads of the results to come.
    last_reads: Vec<usize>,
}

impl Placer {
    fn new(sources: &[Kind], instructions: &[Instruction], results: &[Operand]) -> Self {
        let mut of_sources = vec![0; sources.len()];
        let mut last_reads = vec![0; instructions.len()];
        let reads = instructions.iter().map(|instruction| &instruction.operands[..]);
        for (index, operands) in reads.chain([results]).enumerate() {
            for operand in operands {
                let read = match *operand {
                    Operand::Source(at) => of_sources.get_mut(at),
                    Operand::Result(at) => last_reads.get_mut(at),
                    Operand::Constant(_) => None,
                };
                if let Some(read) = read {
                    *read = index;
                }
            }
        }
        let sources = (0..).zip(sources).zip(of_sources);
        let held = |((register, &kind), last_read)| Held { kind, register, last_read };
        Self {
            sources: sources.map(held).collect(),
            results: Vec::new(),
            code: Vec::new(),
            constants: Vec::new(),
            last_reads,
        }
    }

    fn find(&mut self, index: usize, operand: Operand) -> Result<(Kind, Place)> {
        let (list, at) = match operand {
            Operand::Source(at) => (&self.sources, at),
            Operand::Result(at) => (&self.results, at),
            Operand::Constant(constant) => return self.constant(constant),
        };
        let Some(held) = list.get(at) else {
            return Err(refused(&format!("instruction {index}: {operand:?} is not before it")));
        };
        Ok((held.kind, Place::Register(held.register)))
    }

    fn constant(&mut self, constant: Constant) -> Result<(Kind, Place)> {
        let (kind, bits) = match constant {
            Constant::F32(value) => (Kind::F32, value.to_bits()),
            Constant::I32(value) => (Kind::I32, value.cast_unsigned()),
        };
        let found = self.constants.iter().position(|&found| found == bits);
        let at = found.unwrap_or(self.constants.len());
        if at == MAX_CONSTANTS {
            return Err(refused(&format!("more than {MAX_CONSTANTS} constants")));
        }
        if found.is_none() {
            self.constants.push(bits);
        }
        Ok((kind, Place::Constant(at as u8)))
    }

    fn place(&mut self, index: usize, instruction: &Instruction) -> Result<()> {
        let Instruction { op, operands } = instruction;
        let found = operands.iter().map(|&operand| self.find(index, operand));
        let found = found.collect::<Result<Vec<_>>>()?;
        let kinds: Vec<Kind> = found.iter().map(|&(kind, _)| kind).collect();
        let result = op.result(&kinds).filter(|_| kinds.len() == op.num_operands());
        let Some(kind) = result else {
            return Err(refused(&format!("instruction {index}: {op:?} of {kinds:?}")));
        };
        let mut places = [found[0].1; 3];
        for (place, (_, found)) in places.iter_mut().zip(&found) {
            *place = *found;
        }
        // What this instruction reads last gives its register to the result.
        let live = self.sources.iter().chain(&self.results).filter(|held| held.last_read > index);
        let live: Vec<u8> = live.map(|held| held.register).collect();
        let Some(register) = (0..MAX_LIVE as u8).find(|register| !live.contains(register)) else {
            return Err(refused(&format!(
                "instruction {index}: more than {MAX_LIVE} values are still to be read"
            )));
        };
        let last_read = self.last_reads[index];
        self.results.push(Held { kind, register, last_read });
        let kind = kinds[kinds.len() - 1];
        self.code.push(Placed { op: *op, kind, operands: places, register });
        Ok(())
    }
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::Argument, "pointwise", message)
}
