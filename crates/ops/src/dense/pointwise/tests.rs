use super::*;
use crate::dense::testing::Tensors;
use crate::dense::{Activation, Region};

fn of(op: Op, operands: &[Operand]) -> Instruction {
    Instruction { op, operands: operands.to_vec() }
}

fn float(value: f32) -> Operand {
    Operand::Constant(Constant::F32(value))
}

/// The result of one operation on floats.
fn one(op: Op, operands: &[f32]) -> f32 {
    let operands: Vec<Operand> = operands.iter().map(|&value| float(value)).collect();
    let code = [of(op, &operands), of(Op::ToF32, &[Operand::Result(0)])];
    let is_float = Program::new(&[], &code[..1], &[Operand::Result(0)]).unwrap();
    let is_float = is_float.results[0].0 == instruction::Kind::F32;
    let code = if is_float { &code[..1] } else { &code[..] };
    let program = Program::new(&[], code, &[Operand::Result(code.len() - 1)]).unwrap();
    let mut tensors = Tensors::default();
    let output = tensors.output(&[1]);
    pointwise(&mut tensors.arena, &program, &[], &[output]).unwrap();
    tensors.read(&output)[0]
}

#[test]
fn a_table_of_floats() {
    let inf = f32::INFINITY;
    for (op, operands, expected) in [
        (Op::Add, &[1.5, 2.0][..], 3.5),
        (Op::Sub, &[1.5, 2.0], -0.5),
        (Op::Mul, &[1.5, 2.0], 3.0),
        (Op::Div, &[1.0, 0.0], inf),
        (Op::Min, &[1.0, -inf], -inf),
        (Op::Max, &[1.0, 2.0], 2.0),
        (Op::Pow, &[2.0, 10.0], 1024.0),
        (Op::Equal, &[0.0, -0.0], 1.0),
        (Op::Equal, &[f32::NAN, f32::NAN], 0.0),
        (Op::Less, &[1.0, 2.0], 1.0),
        (Op::Less, &[1.0, f32::NAN], 0.0),
        (Op::LessOrEqual, &[2.0, 2.0], 1.0),
        (Op::Neg, &[2.0], -2.0),
        (Op::Abs, &[-2.0], 2.0),
        (Op::Sign, &[-2.0], -1.0),
        (Op::Sign, &[0.0], 0.0),
        (Op::Sqrt, &[9.0], 3.0),
        (Op::Floor, &[-1.5], -2.0),
        (Op::Ceil, &[-1.5], -1.0),
        (Op::Round, &[2.5], 2.0),
        (Op::Round, &[-1.5], -2.0),
        (Op::Exp, &[0.0], 1.0),
        (Op::Log, &[1.0], 0.0),
        (Op::Erf, &[inf], 1.0),
        (Op::Sin, &[0.0], 0.0),
        (Op::Cos, &[0.0], 1.0),
        (Op::RoundToF16, &[1.0 / 3.0], 0.333_251_95),
        (Op::ToI32, &[-1.9], -1.0),
        (Op::ToI32, &[f32::NAN], 0.0),
        (Op::ToI32, &[1e20], 2_147_483_648.0),
        (Op::ToBool, &[-0.5], 1.0),
        (Op::ToBool, &[-0.0], 0.0),
        (Op::Activation(Activation::Relu), &[-3.0], 0.0),
    ] {
        assert_eq!(one(op, operands), expected, "{op:?} {operands:?}");
    }
    for op in [Op::Min, Op::Max] {
        assert!(one(op, &[f32::NAN, 1.0]).is_nan() && one(op, &[1.0, f32::NAN]).is_nan());
    }
    assert!(one(Op::Sign, &[f32::NAN]).is_nan());
}

#[test]
fn a_table_of_integers() {
    // Quotients truncate, remainders have the sign of the divisor: test_mod_mixed_sign_int32.
    let a = [-4, 7, 5, 4, -7, 8, i32::MIN, 3];
    let b = [2, -3, 8, -2, 3, 5, -1, 0];
    let source = |at| Operand::Source(at);
    for (op, expected) in [
        (Op::Mod, [0, -2, 5, 0, 2, 3, 0, 0]),
        (Op::Div, [-2, -2, 0, -2, -2, 1, i32::MIN, 0]),
        (Op::Add, [-2, 4, 13, 2, -4, 13, i32::MAX, 3]),
        (Op::Min, [-4, -3, 5, -2, -7, 5, i32::MIN, 0]),
        (Op::Less, [1, 0, 1, 0, 1, 0, 1, 0]),
        (Op::And, [1, 1, 1, 1, 1, 1, 1, 0]),
        (Op::Xor, [0, 0, 0, 0, 0, 0, 0, 1]),
    ] {
        let code = [of(op, &[source(0), source(1)])];
        let program = Program::new(&[true, true], &code, &[Operand::Result(0)]).unwrap();
        let mut tensors = Tensors::default();
        let sources = [tensors.indices(&[8], &a), tensors.indices(&[8], &b)];
        let output = tensors.index_output(&[8]);
        pointwise(&mut tensors.arena, &program, &sources, &[output]).unwrap();
        assert_eq!(tensors.arena.read_indices(&output).unwrap(), expected, "{op:?}");
    }
}

#[test]
fn windows_broadcast_and_registers_are_used_again() {
    // y = ((x + c) * x + c) * x ... of more values than there are registers.
    let mut code = vec![of(Op::Add, &[Operand::Source(0), Operand::Source(1)])];
    for at in 0..7 {
        code.push(of(Op::Mul, &[Operand::Result(2 * at), Operand::Source(0)]));
        code.push(of(Op::Add, &[Operand::Result(2 * at + 1), Operand::Source(1)]));
    }
    let results = [Operand::Result(14), Operand::Source(1), float(2.0)];
    let program = Program::new(&[false, false], &code, &results).unwrap();
    let mut tensors = Tensors::default();
    let x = tensors.floats(&[2, 2], &[1.0, -1.0, 2.0, 0.0]);
    let c = tensors.floats(&[2, 1], &[1.0, 3.0]);
    let c = Region { window: c.window.broadcast(&[2, 2]).unwrap(), ..c };
    let targets = [(); 3].map(|()| tensors.output(&[2, 2]));
    pointwise(&mut tensors.arena, &program, &[x, c], &targets).unwrap();
    assert_eq!(tensors.read(&targets[0]), [9.0, 1.0, 1021.0, 3.0]);
    assert_eq!(tensors.read(&targets[1]), [1.0, 1.0, 3.0, 3.0]);
    assert_eq!(tensors.read(&targets[2]), [2.0; 4]);
    assert!(!program.is_copy() && Program::copy(false).unwrap().is_copy());
}

#[test]
fn what_is_no_program_is_refused() {
    let add = of(Op::Add, &[Operand::Source(0), Operand::Source(1)]);
    let result = [Operand::Result(0)];
    let new = |sources: &[bool], code: &[Instruction], results: &[Operand]| {
        Program::new(sources, code, results)
    };
    assert!(new(&[false, false], std::slice::from_ref(&add), &result).is_ok());
    // Types, sources, and numbers of operands.
    assert!(new(&[false, true], std::slice::from_ref(&add), &result).is_err());
    assert!(new(&[false], std::slice::from_ref(&add), &result).is_err());
    assert!(new(&[false], &[of(Op::Add, &[Operand::Source(0)])], &result).is_err());
    assert!(new(&[false], &[of(Op::Neg, &[Operand::Source(0); 2])], &result).is_err());
    assert!(new(&[false], &[of(Op::Neg, &[])], &result).is_err());
    // Results that come later, or not at all.
    assert!(new(&[false], &[of(Op::Neg, &[Operand::Result(0)])], &result).is_err());
    assert!(new(&[false], &[], &result).is_err());
    assert!(new(&[false], &[], &[]).is_err());
    assert!(new(&[false; 7], &[], &[Operand::Source(0)]).is_err());
    assert!(new(&[false], &vec![of(Op::Neg, &[Operand::Source(0)]); 17], &result).is_err());
    // Nine values that the end needs.
    let mut code: Vec<_> =
        (0..9).map(|at| of(Op::Add, &[Operand::Source(0), float(at as f32)])).collect();
    code.extend((0..7).map(|at| of(Op::Add, &[Operand::Result(at), Operand::Result(at + 2)])));
    let error = new(&[false], &code, &[Operand::Result(15)]).unwrap_err();
    assert!(error.to_string().contains("more than 8 values"), "{error}");
    // Windows of other dims or elements.
    let program = new(&[false, false], &[add], &result).unwrap();
    let mut tensors = Tensors::default();
    let (a, b) = (tensors.output(&[2]), tensors.output(&[3]));
    let indices = tensors.index_output(&[2]);
    assert!(pointwise(&mut tensors.arena, &program, &[a, a], &[a]).is_ok());
    for sources in [&[a, b][..], &[a, indices], &[a]] {
        assert!(pointwise(&mut tensors.arena, &program, sources, &[a]).is_err());
    }
}
