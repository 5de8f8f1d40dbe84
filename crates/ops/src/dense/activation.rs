//! What follows a sum: activations, and the place of a residual.

/// A function of one value. NaN stays NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Activation {
    /// The value.
    #[default]
    None,
    /// `v < 0 ? 0 : v`.
    Relu,
    /// `v < 0 ? slope * v : v`.
    LeakyRelu(f32),
    /// `v * sigmoid(v)`.
    Silu,
    /// `v * clip(v / 6 + 0.5, 0, 1)`.
    HardSwish,
    /// `clip(alpha * v + beta, 0, 1)`.
    HardSigmoid {
        /// The slope.
        alpha: f32,
        /// The value at 0.
        beta: f32,
    },
    /// `1 / (1 + exp(-v))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `v / 2 * (1 + erf(v / sqrt(2)))`.
    Gelu,
    /// `v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 v^3)))`.
    GeluTanh,
    /// Limited to a range: the lower limit first, then the upper one.
    Clip(f32, f32),
    /// The exponential.
    Exp,
    /// `v < 0 ? alpha * (exp(v) - 1) : v`.
    Elu(f32),
    /// `log(1 + exp(v))`.
    Softplus,
    /// `v * tanh(softplus(v))`.
    Mish,
}

/// When a residual is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// To the sum and its bias, before the activation.
    BeforeActivation,
    /// To the result of the activation.
    AfterActivation,
}

/// What follows a sum and its bias.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// The function.
    pub activation: Activation,
    /// Where the residual is added, if there is one.
    pub residual: Option<Residual>,
}

impl Epilogue {
    /// The output for a sum with its bias and the value of the residual, which counts only where
    /// the epilogue has one.
    pub fn apply(&self, value: f32, residual: f32) -> f32 {
        match self.residual {
            None => self.activation.apply(value),
            Some(Residual::BeforeActivation) => self.activation.apply(value + residual),
            Some(Residual::AfterActivation) => self.activation.apply(value) + residual,
        }
    }
}

impl Activation {
    /// Whether CPU and GPU compute it by the same operations, each rounded once: no exponential,
    /// logarithm or error function occurs.
    pub fn is_exact(&self) -> bool {
        matches!(
            self,
            Self::None
                | Self::Relu
                | Self::LeakyRelu(_)
                | Self::HardSwish
                | Self::HardSigmoid { .. }
                | Self::Clip(..)
        )
    }

    /// The result for a value, in f32, each operation rounded once.
    pub fn apply(&self, v: f32) -> f32 {
        match *self {
            Self::None => v,
            Self::Relu => clip_low(v, 0.0),
            Self::LeakyRelu(slope) => {
                if v < 0.0 {
                    slope * v
                } else {
                    v
                }
            }
            Self::Silu => v / (1.0 + (-v).exp()),
            Self::HardSwish => v * clip(v * (1.0 / 6.0) + 0.5, 0.0, 1.0),
            Self::HardSigmoid { alpha, beta } => clip(alpha * v + beta, 0.0, 1.0),
            Self::Sigmoid => 1.0 / (1.0 + (-v).exp()),
            Self::Tanh => v.tanh(),
            Self::Gelu => 0.5 * v * (1.0 + erf(v * std::f32::consts::FRAC_1_SQRT_2)),
            Self::GeluTanh => {
                let inner = GELU_FACTOR * (v + 0.044_715 * (v * v * v));
                0.5 * v * (1.0 + inner.tanh())
            }
            Self::Clip(low, high) => clip(v, low, high),
            Self::Exp => v.exp(),
            Self::Elu(alpha) => {
                if v < 0.0 {
                    alpha * v.exp_m1()
                } else {
                    v
                }
            }
            Self::Softplus => softplus(v),
            Self::Mish => v * softplus(v).tanh(),
        }
    }
}

/// `sqrt(2 / pi)`.
const GELU_FACTOR: f32 = 0.797_884_6;

fn clip_low(v: f32, low: f32) -> f32 {
    if v < low { low } else { v }
}

fn clip(v: f32, low: f32, high: f32) -> f32 {
    let v = clip_low(v, low);
    if v > high { high } else { v }
}

/// Without an overflow of the exponential.
fn softplus(v: f32) -> f32 {
    (-v.abs()).exp().ln_1p() + clip_low(v, 0.0)
}

/// The error function within an ULP of f32, by its series of positive terms in f64.
pub fn erf(v: f32) -> f32 {
    let x = f64::from(v);
    if x.is_nan() || x == 0.0 {
        return v;
    }
    // The next f32 to the result is 1.
    if x.abs() >= 4.0 {
        return 1.0_f32.copysign(v);
    }
    let square = x * x;
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while (term / sum).abs() > 1e-12 {
        odd += 2.0;
        term *= 2.0 * square / odd;
        sum += term;
    }
    (std::f64::consts::FRAC_2_SQRT_PI * (-square).exp() * sum) as f32
}

#[cfg(feature = "cuda")]
pub use cuda::ActivationArgs;

#[cfg(feature = "cuda")]
mod cuda {
    use super::Activation;
    use crate::device::cuda::{kernel_constant, mirrors};

    /// An activation as kernels take it: `Activation` in the kernels.
    #[derive(Clone, Copy, Debug, Default)]
    #[repr(C)]
    pub struct ActivationArgs {
        kind: u32,
        a: f32,
        b: f32,
    }

    mirrors!(ActivationArgs, "dense/activation.cuh", "Activation");

    macro_rules! kind {
        ($name:literal) => {
            kernel_constant!("dense/activation.cuh", $name)
        };
    }

    impl From<Activation> for ActivationArgs {
        fn from(activation: Activation) -> Self {
            let (kind, a, b) = match activation {
                Activation::None => (kind!("kNone"), 0.0, 0.0),
                Activation::Relu => (kind!("kRelu"), 0.0, 0.0),
                Activation::LeakyRelu(slope) => (kind!("kLeakyRelu"), slope, 0.0),
                Activation::Silu => (kind!("kSilu"), 0.0, 0.0),
                Activation::HardSwish => (kind!("kHardSwish"), 0.0, 0.0),
                Activation::HardSigmoid { alpha, beta } => (kind!("kHardSigmoid"), alpha, beta),
                Activation::Sigmoid => (kind!("kSigmoid"), 0.0, 0.0),
                Activation::Tanh => (kind!("kTanh"), 0.0, 0.0),
                Activation::Gelu => (kind!("kGelu"), 0.0, 0.0),
                Activation::GeluTanh => (kind!("kGeluTanh"), 0.0, 0.0),
                Activation::Clip(low, high) => (kind!("kClip"), low, high),
                Activation::Exp => (kind!("kExp"), 0.0, 0.0),
                Activation::Elu(alpha) => (kind!("kElu"), alpha, 0.0),
                Activation::Softplus => (kind!("kSoftplus"), 0.0, 0.0),
                Activation::Mish => (kind!("kMish"), 0.0, 0.0),
            };
            Self { kind, a, b }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Activation; 15] = [
        Activation::None,
        Activation::Relu,
        Activation::LeakyRelu(0.1),
        Activation::Silu,
        Activation::HardSwish,
        Activation::HardSigmoid { alpha: 0.2, beta: 0.5 },
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Clip(0.0, 6.0),
        Activation::Exp,
        Activation::Elu(1.0),
        Activation::Softplus,
        Activation::Mish,
    ];

    #[test]
    fn values_are_those_of_torch() {
        // torch 2 in f64 at -3, -0.5, 0.7 and 8.
        let expected: [[f64; 4]; 15] = [
            [-3.0, -0.5, 0.7, 8.0],
            [0.0, 0.0, 0.7, 8.0],
            [-0.3, -0.05, 0.7, 8.0],
            [-0.142_277_619_5, -0.188_770_333_8, 0.467_731_511_8, 7.997_317_198_6],
            [0.0, -0.208_333_333_3, 0.431_666_666_7, 8.0],
            [0.0, 0.4, 0.64, 1.0],
            [0.047_425_873_2, 0.377_540_668_8, 0.668_187_772_2, 0.999_664_649_9],
            [-0.995_054_753_7, -0.462_117_157_3, 0.604_367_777_1, 0.999_999_774_9],
            [-0.004_049_694_1, -0.154_268_769_7, 0.530_625_434_8, 8.0],
            [-0.003_637_392_1, -0.154_285_990_2, 0.530_570_134_7, 8.0],
            [0.0, 0.0, 0.7, 6.0],
            [0.049_787_068_4, 0.606_530_659_7, 2.013_752_707_5, 2_980.957_987_041_7],
            [-0.950_212_931_6, -0.393_469_340_3, 0.7, 8.0],
            [0.048_587_351_6, 0.474_076_984_3, 1.103_186_048_9, 8.000_335_406_4],
            [-0.145_647_461_3, -0.220_743_774_7, 0.561_148_377_6, 7.999_998_200_6],
        ];
        for (activation, expected) in ALL.iter().zip(expected) {
            for (v, expected) in [-3.0, -0.5, 0.7, 8.0].into_iter().zip(expected) {
                let found = f64::from(activation.apply(v));
                assert!(
                    (found - expected).abs() <= 3e-7 * expected.abs().max(1.0),
                    "{activation:?} of {v}: {found}, expected {expected}"
                );
            }
        }
    }

    #[test]
    fn nan_stays_and_nothing_overflows() {
        for activation in ALL {
            assert!(activation.apply(f32::NAN).is_nan(), "{activation:?}");
            for v in [-1e30, -200.0, 200.0] {
                let found = activation.apply(v);
                assert!(!found.is_nan(), "{activation:?} of {v}");
            }
        }
        assert_eq!(Activation::Silu.apply(-200.0), 0.0);
        assert_eq!(Activation::Softplus.apply(200.0), 200.0);
    }

    #[test]
    fn a_residual_has_its_place() {
        let of = |residual| Epilogue { activation: Activation::Relu, residual }.apply(-2.0, 1.0);
        assert_eq!(of(None), 0.0);
        assert_eq!(of(Some(Residual::BeforeActivation)), 0.0);
        assert_eq!(of(Some(Residual::AfterActivation)), 1.0);
    }
}
