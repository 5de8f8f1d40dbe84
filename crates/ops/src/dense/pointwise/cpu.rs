//! The reference: an element at a time.

use half::f16;

use super::instruction::{Kind, Place, Placed};
use super::{MAX_LIVE, Op, Program};
use crate::dense::activation::erf;
use crate::dense::{HostArena, Region};
use det_post_types::{ElementType, Result};

/// Runs a program on every element of windows of the same dims.
///
/// # Errors
/// `Argument` when the windows are not those of the program, not of the same dims, or not within
/// their buffers.
pub fn pointwise(
    arena: &mut HostArena,
    program: &Program,
    sources: &[Region],
    targets: &[Region],
) -> Result<()> {
    let is_integer = |region: &Region| Ok(arena.element(region.buffer)? == ElementType::I32);
    program.check(sources, targets, is_integer)?;
    let mut read = Vec::new();
    for source in sources {
        read.push(bits_of(arena, source)?);
    }
    let num_items = targets.first().map_or(0, |target| target.window.len());
    let mut written = vec![vec![0; num_items]; targets.len()];
    for i in 0..num_items {
        let mut registers = [0; MAX_LIVE];
        for (register, source) in registers.iter_mut().zip(&read) {
            *register = source[i];
        }
        for instruction in &program.code {
            let operands = instruction.operands.map(|place| of_place(program, &registers, place));
            registers[usize::from(instruction.register)] = execute(instruction, operands);
        }
        for (written, &(_, place)) in written.iter_mut().zip(&program.results) {
            written[i] = of_place(program, &registers, place);
        }
    }
    for (target, bits) in targets.iter().zip(written) {
        if arena.element(target.buffer)? == ElementType::I32 {
            let values: Vec<i32> = bits.into_iter().map(u32::cast_signed).collect();
            arena.write_indices(target, &values)?;
        } else {
            let values: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
            arena.write(target, &values)?;
        }
    }
    Ok(())
}

fn bits_of(arena: &HostArena, region: &Region) -> Result<Vec<u32>> {
    if arena.element(region.buffer)? == ElementType::I32 {
        return Ok(arena.read_indices(region)?.into_iter().map(i32::cast_unsigned).collect());
    }
    Ok(arena.read(region)?.into_iter().map(f32::to_bits).collect())
}

fn of_place(program: &Program, registers: &[u32; MAX_LIVE], place: Place) -> u32 {
    match place {
        Place::Register(at) => registers[usize::from(at)],
        Place::Constant(at) => program.constants[usize::from(at)],
    }
}

fn execute(instruction: &Placed, operands: [u32; 3]) -> u32 {
    match (instruction.op, instruction.kind) {
        (Op::Where, _) => operands[if operands[0] != 0 { 1 } else { 2 }],
        (Op::ToI32, _) => (f32::from_bits(operands[0]) as i32).cast_unsigned(),
        (Op::ToBool, _) => u32::from(f32::from_bits(operands[0]) != 0.0),
        (Op::Equal, Kind::F32) => {
            u32::from(f32::from_bits(operands[0]) == f32::from_bits(operands[1]))
        }
        (Op::Less, Kind::F32) => {
            u32::from(f32::from_bits(operands[0]) < f32::from_bits(operands[1]))
        }
        (Op::LessOrEqual, Kind::F32) => {
            u32::from(f32::from_bits(operands[0]) <= f32::from_bits(operands[1]))
        }
        (Op::ToF32, _) => (operands[0].cast_signed() as f32).to_bits(),
        (op, Kind::F32) => {
            of_floats(op, f32::from_bits(operands[0]), f32::from_bits(operands[1])).to_bits()
        }
        (op, Kind::I32) => {
            of_integers(op, operands[0].cast_signed(), operands[1].cast_signed()).cast_unsigned()
        }
    }
}

fn of_floats(op: Op, a: f32, b: f32) -> f32 {
    match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div => a / b,
        Op::Min => {
            if a < b || a.is_nan() {
                a
            } else {
                b
            }
        }
        Op::Max => {
            if a > b || a.is_nan() {
                a
            } else {
                b
            }
        }
        Op::Pow => a.powf(b),
        Op::Neg => -a,
        Op::Abs => a.abs(),
        Op::Sign => {
            if a > 0.0 {
                1.0
            } else if a < 0.0 {
                -1.0
            } else {
                a
            }
        }
        Op::Sqrt => a.sqrt(),
        Op::Floor => a.floor(),
        Op::Ceil => a.ceil(),
        Op::Round => a.round_ties_even(),
        Op::Exp => a.exp(),
        Op::Log => a.ln(),
        Op::Erf => erf(a),
        Op::Sin => a.sin(),
        Op::Cos => a.cos(),
        Op::RoundToF16 => f16::from_f32(a).to_f32(),
        Op::Activation(activation) => activation.apply(a),
        // Of integers: a checked program has none of f32.
        _ => a,
    }
}

fn of_integers(op: Op, a: i32, b: i32) -> i32 {
    match op {
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.wrapping_sub(b),
        Op::Mul => a.wrapping_mul(b),
        Op::Div => {
            if b == 0 {
                0
            } else {
                a.wrapping_div(b)
            }
        }
        Op::Mod => match a.checked_rem(b) {
            Some(rest) if rest != 0 && (rest < 0) != (b < 0) => rest + b,
            Some(rest) => rest,
            None => 0,
        },
        Op::Min => a.min(b),
        Op::Max => a.max(b),
        Op::Equal => i32::from(a == b),
        Op::Less => i32::from(a < b),
        Op::LessOrEqual => i32::from(a <= b),
        Op::And => i32::from(a != 0 && b != 0),
        Op::Or => i32::from(a != 0 || b != 0),
        Op::Xor => i32::from((a != 0) != (b != 0)),
        Op::Not => i32::from(a == 0),
        Op::Neg => a.wrapping_neg(),
        Op::Abs => a.wrapping_abs(),
        // Of floats: a checked program has none of i32.
        _ => a,
    }
}
