//! Registers for the values of a program.

use super::instruction::{Constant, Instruction, Kind, Operand, Place, Placed, refused};
use super::{MAX_CONSTANTS, MAX_LIVE};
use det_post_types::Result;

/// A value that has a register.
#[derive(Clone, Copy)]
struct Held {
    kind: Kind,
    register: u8,
    /// The last instruction that reads it.
    last_read: usize,
}

pub(super) struct Placer {
    sources: Vec<Held>,
    results: Vec<Held>,
    pub(super) code: Vec<Placed>,
    pub(super) constants: Vec<u32>,
    /// The last reads of the results to come.
    last_reads: Vec<usize>,
}

impl Placer {
    pub(super) fn new(sources: &[Kind], instructions: &[Instruction], results: &[Operand]) -> Self {
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

    pub(super) fn find(&mut self, index: usize, operand: Operand) -> Result<(Kind, Place)> {
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

    pub(super) fn place(&mut self, index: usize, instruction: &Instruction) -> Result<()> {
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
