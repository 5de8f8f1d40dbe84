//! Weights of sparse convolutions.

use std::borrow::Cow;

use det_post_ops::sparse::conv::cuda::Convolution;
use det_post_ops::sparse::conv::{ConvParameters, PackedWeights, Precision};

use super::call::{Call, In, Out, run};
use super::handles::Handles;
use super::sites::elsewhere;
use super::sparse_arrays::SparseResult;
use super::sparse_memory::{Outcome, Place};
use super::status::{Failure, Status};
use super::workspace::{Opened, WORKSPACES, Workspace};

/// `sparse_parameters.precision`: float32, equal on CPU and GPU.
pub const PRECISION_F32: u32 = 0;
/// `sparse_parameters.precision`: products of TensorFloat-32.
pub const PRECISION_TF32: u32 = 1;
/// `sparse_parameters.precision`: products and outputs of float16.
pub const PRECISION_F16: u32 = 2;
/// `sparse_parameters.precision`: products and outputs of bfloat16.
pub const PRECISION_BF16: u32 = 3;

/// Open weights of a sparse convolution, packed for the device of the workspace that opened them, with the
/// result of their last call: open them per layer.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SparseWeights {
    /// Their number; 0 is never a number of weights.
    pub id: u64,
}

/// The parameters of a sparse convolution. Arrays are in host memory, whatever the device, finite, and may
/// change after the call.
#[repr(C)]
pub struct SparseParameters {
    /// One of `DET_POST_PRECISION_…`. Sums are float32 always.
    pub precision: u32,
    /// Channels of the output, 1 to 4096.
    pub num_output_channels: usize,
    /// Taps of the kernel.
    pub num_taps: usize,
    /// Channels of the input, 1 to 4096.
    pub num_input_channels: usize,
    /// `[output channels, taps, input channels]` as spconv 2 stores them, where tap k0, k1, k2 of a kernel is
    /// number `(k0 * kernel[1] + k1) * kernel[2] + k2`.
    pub weights: In<f32>,
    /// `[output channels]`, or `NULL`.
    pub bias: In<f32>,
    /// `[output channels]` that sum and bias are multiplied by, as a batch normalization does; or `NULL`. Folded
    /// into weights and bias with one rounding.
    pub scale: In<f32>,
    /// `[output channels]` that are added after `scale`, or `NULL`.
    pub shift: In<f32>,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// The object of [`SparseWeights`].
pub(super) struct Weights {
    workspace: u64,
    pub(super) packed: Packed,
    pub(super) precision: Precision,
    pub(super) num_taps: usize,
    pub(super) num_inputs: usize,
    pub(super) num_outputs: usize,
    pub(super) outcome: Outcome,
    pub(super) public: Option<SparseResult>,
}

/// Weights and bias with scale and shift folded in.
struct Folded<'call> {
    weights: Cow<'call, [f32]>,
    bias: Option<Cow<'call, [f32]>>,
}

/// Where weights are.
pub(super) enum Packed {
    Host(PackedWeights),
    Gpu(Box<Convolution>),
}

static WEIGHTS: Handles<Weights> = Handles::new("weights", 8);

impl SparseParameters {
    fn precision(&self) -> Result<Precision, Failure> {
        if self.reserved != [0; 4] {
            return Err(Failure::argument("parameters.reserved is not 0"));
        }
        match self.precision {
            PRECISION_F32 => Ok(Precision::F32),
            PRECISION_TF32 => Ok(Precision::Tf32),
            PRECISION_F16 => Ok(Precision::F16),
            PRECISION_BF16 => Ok(Precision::Bf16),
            other => Err(Failure::argument(format!("parameters.precision {other} is not known"))),
        }
    }

    fn sizes(&self) -> [usize; 3] {
        [self.num_output_channels, self.num_taps, self.num_input_channels]
    }

    /// Weights and bias with scale and shift folded in.
    fn folded<'call>(&self, call: &'call Call) -> Result<Folded<'call>, Failure> {
        let [num_outputs, num_taps, num_inputs] = self.sizes();
        let per_output = num_taps.saturating_mul(num_inputs);
        let num = num_outputs.saturating_mul(per_output);
        let weights = call.slice(self.weights, num, "parameters.weights")?;
        let of_outputs = |values, name| call.slice_or_null(values, num_outputs, name);
        let bias = of_outputs(self.bias, "parameters.bias")?;
        let scale = of_outputs(self.scale, "parameters.scale")?;
        let shift = of_outputs(self.shift, "parameters.shift")?;
        if scale.is_none() && shift.is_none() {
            return Ok(Folded { weights: weights.into(), bias: bias.map(Cow::from) });
        }
        let wide = |values: Option<&[f32]>, at: usize, rest: f64| {
            values.map_or(rest, |values| f64::from(values[at]))
        };
        let bias: Vec<f32> = (0..num_outputs)
            .map(|at| wide(bias, at, 0.0) * wide(scale, at, 1.0) + wide(shift, at, 0.0))
            .map(|bias| bias as f32)
            .collect();
        let bias = Some(bias.into());
        let Some(scale) = scale else { return Ok(Folded { weights: weights.into(), bias }) };
        let scaled = weights.chunks_exact(per_output.max(1)).zip(scale);
        let scaled = scaled.flat_map(|(weights, &scale)| {
            weights.iter().map(move |&weight| (f64::from(weight) * f64::from(scale)) as f32)
        });
        Ok(Folded { weights: scaled.collect::<Vec<_>>().into(), bias })
    }
}

impl Weights {
    fn open(
        call: &Call,
        opened: &mut Opened,
        workspace: u64,
        parameters: &SparseParameters,
    ) -> Result<Self, Failure> {
        let precision = parameters.precision()?;
        let sizes @ [num_outputs, num_taps, num_inputs] = parameters.sizes();
        let Folded { weights, bias } = parameters.folded(call)?;
        let parameters = ConvParameters::new(sizes, &weights, bias.as_deref())?;
        let packed = match Place::of(opened)? {
            Place::Host(_) => Packed::Host(PackedWeights::new(&parameters, precision)?),
            Place::Gpu(gpu, _) => Packed::Gpu(Box::new(gpu.weights(&parameters, precision)?)),
        };
        let (outcome, public) = (Outcome::default(), None);
        Ok(Self {
            workspace,
            packed,
            precision,
            num_taps,
            num_inputs,
            num_outputs,
            outcome,
            public,
        })
    }

    /// Runs work on the weights of a number, in calls on a workspace.
    pub(super) fn with<R>(
        weights: SparseWeights,
        workspace: u64,
        work: impl FnOnce(&mut Self) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        WEIGHTS.with(weights.id, |opened| {
            if opened.workspace == workspace { work(opened) } else { Err(elsewhere("weights")) }
        })
    }
}

/// Opens the weights of a sparse convolution. Close them with `det_post_sparse_weights_close`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_sparse_weights_open(
    workspace: Workspace,
    parameters: In<SparseParameters>,
    weights: Out<SparseWeights>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(weights, "weights")?;
        let parameters = call.one(parameters, "parameters")?;
        let opened = WORKSPACES
            .with(workspace.id, |opened| Weights::open(call, opened, workspace.id, parameters))?;
        call.write(weights, SparseWeights { id: WEIGHTS.open(opened) }, "weights")
    })
}

/// Closes weights, with the result of their last call.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_sparse_weights_close(weights: SparseWeights) -> Status {
    run(weights.id, |_| WEIGHTS.close(weights.id))
}
