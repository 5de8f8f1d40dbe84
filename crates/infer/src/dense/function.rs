//! Functions of elements.

use det_post_ops::dense::Activation;
use det_post_ops::dense::activation::erf;

/// A function of one, two or three elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    Neg,
    Abs,
    Sign,
    Sqrt,
    Reciprocal,
    Exp,
    Log,
    Erf,
    Sin,
    Cos,
    Floor,
    Ceil,
    /// Halves to even.
    Round,
    Not,
    Relu,
    LeakyRelu(f32),
    Elu(f32),
    Softplus,
    Sigmoid,
    HardSigmoid(f32, f32),
    Tanh,
    Silu,
    HardSwish,
    /// With the error function.
    Gelu,
    /// With the hyperbolic tangent.
    GeluTanh,
    Mish,
    /// Between two limits; NaN stays.
    Clip(f32, f32),
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Min,
    Max,
    Equal,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    And,
    Or,
    Xor,
    /// The second where the first is true, else the third.
    Where,
    /// The remainder with the sign of the divisor, of integers.
    Mod,
    /// An integer as a float.
    ToFloat,
    /// A float as an integer, towards 0.
    ToInteger,
}

impl Function {
    /// How many elements it takes.
    pub(super) fn arity(self) -> usize {
        match self {
            Self::Add | Self::Sub | Self::Mul | Self::Div | Self::Pow | Self::Min | Self::Max => 2,
            Self::Equal | Self::Greater | Self::Less | Self::GreaterOrEqual => 2,
            Self::LessOrEqual | Self::And | Self::Or | Self::Xor | Self::Mod => 2,
            Self::Where => 3,
            _ => 1,
        }
    }

    /// Whether its result is true or false.
    pub(super) fn is_condition(self) -> bool {
        matches!(
            self,
            Self::Not
                | Self::Equal
                | Self::Greater
                | Self::Less
                | Self::GreaterOrEqual
                | Self::LessOrEqual
                | Self::And
                | Self::Or
                | Self::Xor
        )
    }

    /// Whether integers have it and give integers.
    pub(super) fn is_of_integers(self) -> bool {
        matches!(
            self,
            Self::Neg
                | Self::Abs
                | Self::Add
                | Self::Sub
                | Self::Mul
                | Self::Div
                | Self::Mod
                | Self::Min
                | Self::Max
                | Self::Where
        )
    }

    /// The activation that computes it.
    pub(super) fn activation(self) -> Option<Activation> {
        Some(match self {
            Self::Relu => Activation::Relu,
            Self::LeakyRelu(slope) => Activation::LeakyRelu(slope),
            Self::Elu(alpha) => Activation::Elu(alpha),
            Self::Softplus => Activation::Softplus,
            Self::Sigmoid => Activation::Sigmoid,
            Self::HardSigmoid(alpha, beta) => Activation::HardSigmoid { alpha, beta },
            Self::Tanh => Activation::Tanh,
            Self::Silu => Activation::Silu,
            Self::HardSwish => Activation::HardSwish,
            Self::Gelu => Activation::Gelu,
            Self::GeluTanh => Activation::GeluTanh,
            Self::Mish => Activation::Mish,
            Self::Clip(low, high) => Activation::Clip(low, high),
            Self::Exp => Activation::Exp,
            _ => return None,
        })
    }

    /// Its result for floats, of which it reads as many as it takes; conditions are 0 and 1.
    pub(super) fn of(self, a: f32, b: f32, c: f32) -> f32 {
        if let Some(activation) = self.activation() {
            return activation.apply(a);
        }
        let condition = |is_true: bool| f32::from(u8::from(is_true));
        // NaN where an operand is.
        let nan = |value: f32| if a.is_nan() || b.is_nan() { f32::NAN } else { value };
        match self {
            Self::Neg => -a,
            Self::Abs => a.abs(),
            Self::Sign if a == 0.0 || a.is_nan() => a,
            Self::Sign => 1.0_f32.copysign(a),
            Self::Sqrt => a.sqrt(),
            Self::Reciprocal => 1.0 / a,
            Self::Log => f64::from(a).ln() as f32,
            Self::Erf => erf(a),
            Self::Sin => f64::from(a).sin() as f32,
            Self::Cos => f64::from(a).cos() as f32,
            Self::Floor => a.floor(),
            Self::Ceil => a.ceil(),
            Self::Round => a.round_ties_even(),
            Self::Not => condition(a == 0.0),
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::Pow => f64::from(a).powf(f64::from(b)) as f32,
            Self::Min => nan(a.min(b)),
            Self::Max => nan(a.max(b)),
            Self::Equal => condition(a == b),
            Self::Greater => condition(a > b),
            Self::Less => condition(a < b),
            Self::GreaterOrEqual => condition(a >= b),
            Self::LessOrEqual => condition(a <= b),
            Self::And => condition(a != 0.0 && b != 0.0),
            Self::Or => condition(a != 0.0 || b != 0.0),
            Self::Xor => condition((a != 0.0) != (b != 0.0)),
            Self::Where if a != 0.0 => b,
            Self::Where => c,
            _ => a,
        }
    }
}
