//! Functions of elements in a row: what one launch computes.

use det_post_ops::dense::Activation;
use det_post_ops::dense::pointwise::{
    Constant, Instruction as OpsInstruction, Op, Operand as OpsOperand, Program,
};

use super::function::Function;
use det_post_types::Result;

/// A program over values of one shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Instructions {
    /// Each reads inputs of the node, scalars and results of those before it.
    pub(super) list: Vec<Instruction>,
    /// The instruction, or input, that each output of the node is.
    pub(super) outputs: Vec<Operand>,
}

/// A function of operands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Instruction {
    pub(super) function: Function,
    pub(super) operands: Vec<Operand>,
}

/// What an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operand {
    /// An input of the node.
    Input(usize),
    /// The result of an instruction.
    Result(usize),
    /// A float.
    Scalar(f32),
    /// An integer; 0 and 1 of a condition.
    Integer(i32),
}

impl Instructions {
    /// The program as the operation takes it. `is_integer` says of every input whether it is of i32.
    ///
    /// # Errors
    /// `Argument` when it exceeds a limit of the operation.
    pub(super) fn build(&self, is_integer: &[bool]) -> Result<Program> {
        let mut list = Vec::with_capacity(self.list.len());
        // Where each result is among the instructions of the operation.
        let mut places = Vec::with_capacity(self.list.len());
        for instruction in &self.list {
            let operands: Vec<OpsOperand> =
                instruction.operands.iter().map(|&operand| placed(operand, &places)).collect();
            spell(instruction.function, &operands, &mut list);
            places.push(list.len().saturating_sub(1));
        }
        let results: Vec<OpsOperand> =
            self.outputs.iter().map(|&output| placed(output, &places)).collect();
        Program::new(is_integer, &list, &results)
    }
}

fn placed(operand: Operand, places: &[usize]) -> OpsOperand {
    match operand {
        Operand::Input(at) => OpsOperand::Source(at),
        Operand::Result(at) => OpsOperand::Result(places.get(at).copied().unwrap_or(usize::MAX)),
        Operand::Scalar(value) => OpsOperand::Constant(Constant::F32(value)),
        Operand::Integer(value) => OpsOperand::Constant(Constant::I32(value)),
    }
}

/// Adds the instructions of a function; the last one has its result.
fn spell(function: Function, operands: &[OpsOperand], list: &mut Vec<OpsInstruction>) {
    let mut push = |op: Op, operands: &[OpsOperand]| {
        list.push(OpsInstruction { op, operands: operands.to_vec() });
    };
    let swapped: Vec<OpsOperand> = operands.iter().rev().copied().collect();
    match function {
        Function::Greater => push(Op::Less, &swapped),
        Function::GreaterOrEqual => push(Op::LessOrEqual, &swapped),
        Function::Reciprocal => {
            let one = OpsOperand::Constant(Constant::F32(1.0));
            push(Op::Div, &[&[one], operands].concat());
        }
        Function::Exp => push(Op::Exp, operands),
        _ => match function.activation() {
            Some(activation) => push(Op::Activation(activation), operands),
            None => push(plain(function), operands),
        },
    }
}

fn plain(function: Function) -> Op {
    match function {
        Function::Neg => Op::Neg,
        Function::Abs => Op::Abs,
        Function::Sign => Op::Sign,
        Function::Sqrt => Op::Sqrt,
        Function::Log => Op::Log,
        Function::Erf => Op::Erf,
        Function::Sin => Op::Sin,
        Function::Cos => Op::Cos,
        Function::Floor => Op::Floor,
        Function::Ceil => Op::Ceil,
        Function::Round => Op::Round,
        Function::Not => Op::Not,
        Function::Add => Op::Add,
        Function::Sub => Op::Sub,
        Function::Mul => Op::Mul,
        Function::Div => Op::Div,
        Function::Pow => Op::Pow,
        Function::Min => Op::Min,
        Function::Max => Op::Max,
        Function::Equal => Op::Equal,
        Function::Less | Function::Greater => Op::Less,
        Function::LessOrEqual | Function::GreaterOrEqual => Op::LessOrEqual,
        Function::And => Op::And,
        Function::Or => Op::Or,
        Function::Xor => Op::Xor,
        Function::Where => Op::Where,
        Function::Mod => Op::Mod,
        Function::ToFloat => Op::ToF32,
        Function::ToInteger => Op::ToI32,
        // The others are activations.
        _ => Op::Activation(Activation::None),
    }
}
