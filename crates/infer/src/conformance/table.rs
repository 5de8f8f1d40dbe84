//! The operators that rten computes as ONNX defines them, a row each.
//!
//! The rows were found by the operator test vectors of the package onnx, which
//! `crates/infer/tests/reference/onnx_vectors.rs` runs, and by reading rten 0.27 beside the definitions.

use super::rules::{self, Rule};
use super::scope::Gives;

/// The newest operator set whose vectors were run.
pub(super) const NEWEST_SET: i64 = 28;

/// A row.
pub(super) struct Operator {
    /// The operator, of ONNX's own set.
    pub(super) name: &'static str,
    /// The first operator set whose definition rten computes.
    pub(super) since: i64,
    /// Types of the inputs, a letter each: `f` float16, float and double, which rten computes as float; `i`
    /// int32 and int64, which it computes as int32; `b` bool; `u` int8 and uint8. The last entry is that of all further
    /// inputs.
    pub(super) takes: &'static [&'static str],
    /// Types of the outputs; the last entry is that of all further outputs.
    pub(super) gives: &'static [Gives],
    /// What is rewritten or refused.
    pub(super) rule: Option<Rule>,
}

/// The row of an operator.
pub(super) fn find(name: &str) -> Option<&'static Operator> {
    OPERATORS.iter().find(|operator| operator.name == name)
}

const FLOAT: Gives = Gives::Type(1);
const INT32: Gives = Gives::Type(6);
const INT64: Gives = Gives::Type(7);
const BOOL: Gives = Gives::Type(9);
const SAME: Gives = Gives::Input(0);

const fn row(
    name: &'static str,
    since: i64,
    takes: &'static [&'static str],
    gives: &'static [Gives],
) -> Operator {
    Operator { name, since, takes, gives, rule: None }
}

const fn ruled(
    name: &'static str,
    since: i64,
    takes: &'static [&'static str],
    gives: &'static [Gives],
    rule: Rule,
) -> Operator {
    Operator { name, since, takes, gives, rule: Some(rule) }
}

/// The operators, by name.
pub(super) const OPERATORS: &[Operator] = &[
    row("Abs", 6, &["fi"], &[SAME]),
    row("Acos", 7, &["f"], &[SAME]),
    row("Acosh", 9, &["f"], &[SAME]),
    ruled("Add", 1, &["fi"], &[SAME], rules::ONE_NUMBER),
    row("And", 1, &["b"], &[BOOL]),
    ruled("ArgMax", 1, &["fi"], &[INT64], rules::FIRST_OF_EQUAL),
    ruled("ArgMin", 1, &["fi"], &[INT64], rules::FIRST_OF_EQUAL),
    row("Asin", 7, &["f"], &[SAME]),
    row("Asinh", 9, &["f"], &[SAME]),
    row("Atan", 7, &["f"], &[SAME]),
    row("Atanh", 9, &["f"], &[SAME]),
    ruled("Attention", 23, &["f", "f", "f", "fb", "f", "f", "i"], &[SAME], rules::ATTENTION),
    ruled("AveragePool", 1, &["f"], &[SAME], rules::POOL),
    ruled("BatchNormalization", 7, &["f"], &[SAME], rules::ONE_OUTPUT),
    ruled("BitCast", 26, &["fi"], &[Gives::Attribute("to", 0)], rules::BIT_CAST),
    ruled("Cast", 6, &["fibu"], &[Gives::Attribute("to", 0)], rules::CAST),
    ruled("CastLike", 15, &["fibu"], &[Gives::Input(1)], rules::CAST_LIKE),
    row("Ceil", 6, &["f"], &[SAME]),
    row("Clip", 6, &["fi"], &[SAME]),
    row("Concat", 4, &["fib"], &[SAME]),
    row("ConcatFromSequence", 11, &[], &[SAME]),
    row("Constant", 1, &[], &[Gives::Value]),
    row("ConstantOfShape", 9, &["i"], &[Gives::Value]),
    ruled("Conv", 1, &["f"], &[SAME], rules::CONV),
    ruled("ConvInteger", 10, &["u"], &[INT32], rules::CONV_INTEGER),
    ruled("ConvTranspose", 1, &["f"], &[SAME], rules::CONV_TRANSPOSE),
    row("Cos", 7, &["f"], &[SAME]),
    row("Cosh", 9, &["f"], &[SAME]),
    row("CumSum", 11, &["fi", "i"], &[SAME]),
    row("DepthToSpace", 1, &["f"], &[SAME]),
    row("DequantizeLinear", 10, &["iu", "f", "iu"], &[FLOAT]),
    ruled("Div", 1, &["fi"], &[SAME], rules::ONE_NUMBER),
    ruled("Dropout", 6, &["f", "f", "b"], &[SAME, BOOL], rules::DROPOUT),
    row("Einsum", 12, &["f"], &[SAME]),
    row("Elu", 6, &["f"], &[SAME]),
    row("Equal", 1, &["fib"], &[BOOL]),
    row("Erf", 9, &["f"], &[SAME]),
    row("Exp", 6, &["f"], &[SAME]),
    ruled("Expand", 8, &["fibu", "i"], &[SAME], rules::EXPAND),
    row("EyeLike", 9, &["fib"], &[Gives::Attribute("dtype", 0)]),
    row("Flatten", 1, &["fibu"], &[SAME]),
    row("Floor", 6, &["f"], &[SAME]),
    row("Gather", 1, &["fibu", "i"], &[SAME]),
    row("GatherElements", 11, &["fibu", "i"], &[SAME]),
    row("GatherND", 11, &["fibu", "i"], &[SAME]),
    row("Gelu", 20, &["f"], &[SAME]),
    row("Gemm", 7, &["f"], &[SAME]),
    row("GlobalAveragePool", 1, &["f"], &[SAME]),
    row("GlobalMaxPool", 1, &["f"], &[SAME]),
    row("Greater", 1, &["fi"], &[BOOL]),
    row("GreaterOrEqual", 12, &["fi"], &[BOOL]),
    ruled("GridSample", 16, &["f"], &[SAME], rules::GRID_SAMPLE),
    ruled("GRU", 7, &["f", "f", "f", "f", "i", "f"], &[SAME], rules::GRU),
    row("HardSigmoid", 6, &["f"], &[SAME]),
    row("HardSwish", 14, &["f"], &[SAME]),
    row("Identity", 1, &["fibu"], &[SAME]),
    row("If", 1, &["b"], &[Gives::Graphs]),
    row("InstanceNormalization", 6, &["f"], &[SAME]),
    row("IsInf", 10, &["f"], &[BOOL]),
    row("IsNaN", 9, &["f"], &[BOOL]),
    ruled("LayerNormalization", 17, &["f"], &[SAME, FLOAT], rules::ONE_OUTPUT),
    row("LeakyRelu", 6, &["f"], &[SAME]),
    row("Less", 1, &["fi"], &[BOOL]),
    row("LessOrEqual", 12, &["fi"], &[BOOL]),
    row("Log", 6, &["f"], &[SAME]),
    ruled("LogSoftmax", 1, &["f"], &[SAME], rules::SOFTMAX),
    row("Loop", 1, &["i", "b", "fibu"], &[Gives::Graphs]),
    row("LpNormalization", 1, &["f"], &[SAME]),
    ruled("LSTM", 7, &["f", "f", "f", "f", "i", "f"], &[SAME], rules::LSTM),
    ruled("MatMul", 1, &["f"], &[SAME], rules::MAT_MUL),
    ruled("MatMulInteger", 10, &["u"], &[INT32], rules::MAT_MUL_INTEGER),
    row("Max", 6, &["fi"], &[SAME]),
    ruled("MaxPool", 1, &["f"], &[SAME, INT64], rules::POOL),
    row("Mean", 6, &["f"], &[SAME]),
    row("Min", 6, &["fi"], &[SAME]),
    row("Mod", 10, &["fi"], &[SAME]),
    ruled("Mul", 1, &["fi"], &[SAME], rules::ONE_NUMBER),
    row("Neg", 6, &["fi"], &[SAME]),
    row("NonZero", 9, &["fib"], &[INT64]),
    row("Not", 1, &["b"], &[BOOL]),
    row("OneHot", 9, &["i", "i", "fib"], &[Gives::Input(2)]),
    row("Or", 1, &["b"], &[BOOL]),
    ruled("Pad", 2, &["fibu", "i", "fibu", "i"], &[SAME], rules::PAD),
    ruled("Pow", 7, &["fi"], &[SAME], rules::POW),
    row("PRelu", 7, &["f"], &[SAME]),
    ruled("QuantizeLinear", 10, &["f", "f", "u"], &[Gives::Input(2)], rules::QUANTIZE),
    row("Range", 11, &["fi"], &[SAME]),
    row("Reciprocal", 6, &["f"], &[SAME]),
    ruled("ReduceL1", 1, &["fi", "i"], &[SAME], rules::REDUCE_NOOP),
    ruled("ReduceL2", 1, &["f", "i"], &[SAME], rules::REDUCE_NOOP),
    ruled("ReduceLogSum", 1, &["f", "i"], &[SAME], rules::REDUCE_NOOP),
    ruled("ReduceLogSumExp", 1, &["f", "i"], &[SAME], rules::REDUCE_NOOP),
    row("ReduceMax", 1, &["fi", "i"], &[SAME]),
    ruled("ReduceMean", 1, &["f", "i"], &[SAME], rules::REDUCE_NOOP),
    row("ReduceMin", 1, &["fi", "i"], &[SAME]),
    row("ReduceProd", 1, &["fi", "i"], &[SAME]),
    row("ReduceSum", 1, &["fi", "i"], &[SAME]),
    ruled("ReduceSumSquare", 1, &["fi", "i"], &[SAME], rules::REDUCE_NOOP),
    row("Relu", 6, &["f"], &[SAME]),
    row("Reshape", 1, &["fibu", "i"], &[SAME]),
    ruled("Resize", 11, &["f", "f", "f", "i"], &[SAME], rules::RESIZE),
    row("ReverseSequence", 10, &["fib", "i"], &[SAME]),
    row("RMSNormalization", 23, &["f"], &[SAME]),
    row("RotaryEmbedding", 23, &["f", "f", "f", "i"], &[SAME]),
    row("Round", 11, &["f"], &[SAME]),
    row("Scatter", 9, &["fib", "i", "fib"], &[SAME]),
    row("ScatterElements", 11, &["fib", "i", "fib"], &[SAME]),
    row("ScatterND", 11, &["fib", "i", "fib"], &[SAME]),
    row("SequenceAt", 11, &[], &[SAME]),
    row("SequenceConstruct", 11, &["fib"], &[Gives::Sequence]),
    row("SequenceEmpty", 11, &[], &[Gives::Sequence]),
    row("SequenceErase", 11, &[], &[Gives::Sequence]),
    ruled("SequenceInsert", 11, &[], &[Gives::Sequence], rules::SEQUENCE_INSERT),
    row("SequenceLength", 11, &[], &[INT64]),
    row("Shape", 1, &["fibu"], &[INT64]),
    row("Sigmoid", 6, &["f"], &[SAME]),
    ruled("Sign", 9, &["fi"], &[SAME], rules::SIGN),
    row("Sin", 7, &["f"], &[SAME]),
    row("Sinh", 9, &["f"], &[SAME]),
    row("Size", 1, &["fibu"], &[INT64]),
    row("Slice", 1, &["fibu", "i"], &[SAME]),
    ruled("Softmax", 1, &["f"], &[SAME], rules::SOFTMAX),
    ruled("Softplus", 1, &["f"], &[SAME], rules::SOFTPLUS),
    row("Softsign", 1, &["f"], &[SAME]),
    row("Split", 2, &["fib", "i"], &[SAME]),
    row("SplitToSequence", 11, &["fib", "i"], &[Gives::Sequence]),
    row("Sqrt", 6, &["f"], &[SAME]),
    ruled("Squeeze", 1, &["fibu", "i"], &[SAME], rules::AXES),
    ruled("Sub", 1, &["fi"], &[SAME], rules::ONE_NUMBER),
    row("Sum", 6, &["fi"], &[SAME]),
    row("Swish", 24, &["f"], &[SAME]),
    row("Tan", 7, &["f"], &[SAME]),
    row("Tanh", 6, &["f"], &[SAME]),
    row("Tile", 6, &["fibu", "i"], &[SAME]),
    row("TopK", 1, &["fi", "i"], &[SAME, INT64]),
    row("Transpose", 1, &["fibu"], &[SAME]),
    row("Trilu", 14, &["fib", "i"], &[SAME]),
    ruled("Unsqueeze", 1, &["fibu", "i"], &[SAME], rules::AXES),
    ruled("Upsample", 7, &["f"], &[SAME], rules::UPSAMPLE),
    row("Where", 9, &["b", "fib"], &[Gives::Input(1)]),
    row("Xor", 1, &["b"], &[BOOL]),
];
