//! What one launch computes, and what it costs.

use std::sync::Arc;

use det_post_ops::dense::arg_max::ArgMax;
use det_post_ops::dense::conv::{Conv, ConvRegions, Products};
use det_post_ops::dense::conv_transpose::ConvTranspose;
use det_post_ops::dense::gather::Gather;
use det_post_ops::dense::grid_sample::GridSample;
use det_post_ops::dense::linear_max::LinearMax;
use det_post_ops::dense::matmul::{MatMul, MatMulRegions};
use det_post_ops::dense::pointwise::Program;
use det_post_ops::dense::pool::Pool;
use det_post_ops::dense::reduce::Reduction;
use det_post_ops::dense::resize::Resize;
use det_post_ops::dense::softmax::Softmax;
use det_post_ops::dense::top_k::{Chosen, TopK};
use det_post_ops::dense::{MAX_RANK, Region};

use super::{Buffer, window_bytes};
use det_post_types::ElementType;

/// A launch.
#[derive(Clone, Debug)]
pub struct Step {
    /// Operator and name of the node of the file that it is made from.
    pub name: Arc<str>,
    /// Names of the layers of the file that it computes, as `keep_f32` takes them.
    pub layers: Arc<[Arc<str>]>,
    /// What it computes.
    pub kind: Kind,
}

/// An operation and its windows.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A convolution with its epilogue.
    Conv {
        /// Sizes, weights, epilogue.
        conv: Box<Conv>,
        /// Windows.
        regions: ConvRegions,
    },
    /// A transposed convolution with its epilogue.
    Transposed {
        /// Sizes, weights, epilogue.
        conv: Box<ConvTranspose>,
        /// Windows.
        regions: ConvRegions,
        /// Multiplications.
        num_products: usize,
    },
    /// A product of matrices with its epilogue.
    MatMul {
        /// Weights, epilogue.
        product: Box<MatMul>,
        /// Windows.
        regions: MatMulRegions,
        /// Multiplications.
        num_products: usize,
        /// Weights.
        num_weights: usize,
    },
    /// The largest of groups of rows of a product.
    LinearMax {
        /// Weights, activation.
        layer: Box<LinearMax>,
        /// Rows.
        input: Region,
        /// A row for each group.
        output: Region,
        /// Multiplications.
        num_products: usize,
    },
    /// A pooling.
    Pool {
        /// Sizes.
        pool: Pool,
        /// Maps that are read.
        input: Region,
        /// Maps that are written.
        output: Region,
    },
    /// Maps of another size.
    Resize {
        /// How places map.
        resize: Resize,
        /// Maps that are read.
        input: Region,
        /// Maps that are written.
        output: Region,
    },
    /// Programs on every element, and copies, that do not depend on each other.
    Pointwise(Vec<Job>),
    /// A reduction.
    Reduce {
        /// How values are joined.
        reduction: Reduction,
        /// The axes.
        axes: Vec<usize>,
        /// What is read.
        input: Region,
        /// What is written, with 1 along the axes.
        output: Region,
    },
    /// A softmax.
    Softmax {
        /// The axis.
        softmax: Softmax,
        /// What is read.
        input: Region,
        /// What is written.
        output: Region,
    },
    /// A layer normalization.
    LayerNorm {
        /// The axes.
        axes: [usize; 1],
        /// Added to the variance.
        epsilon: f32,
        /// Factors, of the input's dimensions.
        scales: Region,
        /// Summands, likewise.
        shifts: Region,
        /// What is read.
        input: Region,
        /// What is written.
        output: Region,
    },
    /// Elements at indices.
    Gather {
        /// The axis, and what an index takes.
        gather: Gather,
        /// What is read.
        input: Region,
        /// Indices.
        indices: Region,
        /// What is written.
        output: Region,
    },
    /// The largest or smallest.
    TopK {
        /// The axis.
        top_k: TopK,
        /// What is read.
        input: Region,
        /// Values and positions.
        chosen: Chosen,
    },
    /// Maps at places.
    GridSample {
        /// What is taken.
        sample: GridSample,
        /// Maps.
        input: Region,
        /// Places.
        grid: Region,
        /// What is written.
        output: Region,
    },
    /// The position of the largest.
    ArgMax {
        /// The axis.
        search: ArgMax,
        /// What is read.
        input: Region,
        /// Positions, with 1 along the axis.
        output: Region,
    },
}

/// A program and its windows, all of the same dimensions.
#[derive(Clone, Debug)]
pub struct Job {
    /// As of [`Step`]: programs of several steps share a launch.
    pub name: Arc<str>,
    /// As of [`Step`].
    pub layers: Arc<[Arc<str>]>,
    /// The program.
    pub program: Box<Program>,
    /// What it reads.
    pub sources: Vec<Region>,
    /// What it writes.
    pub targets: Vec<Region>,
}

/// What a step costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that are read and written, weights included, each once.
    pub bytes: usize,
    /// Floating-point operations of products: two per multiplication.
    pub flop: usize,
}

/// Calls with the windows of a step, what is written last; `$iter` is `iter` or `iter_mut`.
macro_rules! for_each_window {
    ($kind:expr, $call:ident, $iter:ident) => {
        match $kind {
            Kind::MatMul { regions: MatMulRegions { left, right, residual, output }, .. } => {
                $call(left);
                right.$iter().for_each(&mut $call);
                residual.$iter().for_each(&mut $call);
                $call(output);
            }
            Kind::Conv { regions: ConvRegions { input, residual, output }, .. }
            | Kind::Transposed { regions: ConvRegions { input, residual, output }, .. } => {
                $call(input);
                residual.$iter().for_each(&mut $call);
                $call(output);
            }
            Kind::Pointwise(jobs) => {
                for job in jobs {
                    job.sources.$iter().for_each(&mut $call);
                    job.targets.$iter().for_each(&mut $call);
                }
            }
            Kind::Softmax { softmax, input, output } => {
                softmax.weights.$iter().for_each(&mut $call);
                [input, output].into_iter().for_each($call);
            }
            Kind::Gather { input, indices: second, output, .. }
            | Kind::GridSample { input, grid: second, output, .. } => {
                [input, second, output].into_iter().for_each($call);
            }
            Kind::TopK { input, chosen, .. } => {
                $call(input);
                chosen.positions.$iter().for_each(&mut $call);
                chosen.values.$iter().for_each($call);
            }
            Kind::LayerNorm { scales, shifts, input, output, .. } => {
                [scales, shifts, input, output].into_iter().for_each($call);
            }
            Kind::Pool { input, output, .. }
            | Kind::LinearMax { input, output, .. }
            | Kind::Resize { input, output, .. }
            | Kind::Reduce { input, output, .. }
            | Kind::ArgMax { input, output, .. } => [input, output].into_iter().for_each($call),
        }
    };
}

impl Kind {
    /// Calls with every window.
    pub(in super::super) fn regions(&self, mut call: impl FnMut(&Region)) {
        for_each_window!(self, call, iter);
    }

    /// Calls with every window.
    pub(in super::super) fn regions_mut(&mut self, mut call: impl FnMut(&mut Region)) {
        for_each_window!(self, call, iter_mut);
    }

    /// The operation, for tables.
    pub fn shown(&self) -> &'static str {
        match self {
            Self::Conv { conv, .. } if conv.geometry().groups > 1 => "grouped conv",
            Self::Conv { .. } => "conv",
            Self::Transposed { .. } => "conv_transpose",
            Self::MatMul { .. } => "matmul",
            Self::LinearMax { .. } => "linear_max",
            Self::Pool { .. } => "pool",
            Self::Resize { .. } => "resize",
            Self::Pointwise(jobs) if jobs.iter().all(|job| job.program.is_copy()) => "copy",
            Self::Pointwise(_) => "pointwise",
            Self::Reduce { .. } => "reduce",
            Self::Softmax { .. } => "softmax",
            Self::LayerNorm { .. } => "layer_norm",
            Self::Gather { .. } => "gather",
            Self::TopK { .. } => "top_k",
            Self::GridSample { .. } => "grid_sample",
            Self::ArgMax { .. } => "arg_max",
        }
    }

    /// The dimensions of what is written first.
    pub fn output_dims(&self) -> Vec<usize> {
        let mut dims = Vec::new();
        match self {
            Self::Pointwise(jobs) => {
                let targets = jobs.iter().flat_map(|job| &job.targets);
                targets.take(1).for_each(|region| dims = region.window.dims().to_vec());
            }
            _ => self.regions(|region| dims = region.window.dims().to_vec()),
        }
        dims
    }

    /// The elements of products; `None` of a step without, whose arithmetic is of 32-bit floats.
    pub fn products(&self) -> Option<ElementType> {
        let products = match self {
            Self::Conv { conv, .. } => conv.products(),
            Self::Transposed { conv, .. } => conv.products(),
            Self::MatMul { product, .. } => product.products(),
            Self::LinearMax { .. } => Products::F32,
            _ => return None,
        };
        Some(match products {
            Products::F32 => ElementType::F32,
            Products::F16 => ElementType::F16,
        })
    }

    /// The windows that are written.
    pub fn targets(&self) -> Vec<Region> {
        match self {
            Self::Pointwise(jobs) => jobs.iter().flat_map(|job| job.targets.clone()).collect(),
            Self::TopK { chosen, .. } => {
                [chosen.values, chosen.positions].into_iter().flatten().collect()
            }
            kind => {
                // The window that is written is the last.
                let mut last = None;
                kind.regions(|region| last = Some(*region));
                last.into_iter().collect()
            }
        }
    }

    /// What the step costs.
    pub(in super::super) fn cost(&self, buffers: &[Buffer]) -> Cost {
        let mut cost = Cost::default();
        self.regions(|region| cost.bytes += distinct(region, buffers));
        match self {
            Self::Conv { conv, regions } => {
                let geometry = conv.geometry();
                let taps = geometry.kernel[0] * geometry.kernel[1];
                let num_weights = conv.num_outputs() * (conv.num_inputs() / geometry.groups) * taps;
                let pixels = regions.output.window.len() / conv.num_outputs();
                cost.flop = 2 * num_weights * pixels;
                cost.bytes += num_weights * if conv.products() == Products::F16 { 2 } else { 4 };
            }
            Self::Transposed { num_products, .. } | Self::LinearMax { num_products, .. } => {
                cost.flop = 2 * num_products;
            }
            Self::MatMul { num_products, num_weights, .. } => {
                cost.flop = 2 * num_products;
                cost.bytes +=
                    num_weights * if self.products() == Some(ElementType::F16) { 2 } else { 4 };
            }
            _ => {}
        }
        cost
    }
}

/// Bytes of the elements of a window that are not repeated.
fn distinct(region: &Region, buffers: &[Buffer]) -> usize {
    let mut repeats = 1;
    for (dim, stride) in region.window.dims().iter().zip(region.window.strides()).take(MAX_RANK) {
        repeats *= if *stride == 0 { (*dim).max(1) } else { 1 };
    }
    window_bytes(region, buffers) / repeats
}
