//! A network as typed operations between values whose shapes are known.
//!
//! [`import`](import::import) makes it from an ONNX file: every operator of the file becomes a few operations of
//! [`Operation`], constants are computed, and shapes follow from the shapes of the inputs.

mod attributes;
mod casts;
mod constants;
mod convolutions;
mod elementwise;
mod fold;
mod import;
mod importer;
mod indexing;
mod layer;
mod products;
mod reductions;
mod resizing;
mod scattering;
mod shapes;
mod views;

use std::sync::Arc;

pub(super) use fold::{elementwise as fold_elementwise, view as fold_view};
pub(super) use import::{import, tensors};
pub(super) use layer::{Layer, divided};
pub(super) use resizing::{Coordinates, Resize, Rounding};
pub(super) use shapes::{broadcast, num_elements};

use super::function::Function;
use super::program::Instructions;

/// The index of a value of a [`Graph`].
pub(super) type Id = usize;

/// What a value holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// Floats, of 32 or 16 bits in the file.
    Float,
    /// Integers.
    Integer,
    /// True and false.
    Boolean,
}

/// The values of a constant, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    /// Floats.
    Floats(Arc<[f32]>),
    /// Integers, and booleans as 0 and 1.
    Integers(Arc<[i64]>),
}

impl Data {
    /// Number of values.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Integers(values) => values.len(),
        }
    }

    /// The values as floats.
    pub(super) fn to_floats(&self) -> Arc<[f32]> {
        match self {
            Self::Floats(values) => values.clone(),
            Self::Integers(values) => values.iter().map(|&value| value as f32).collect(),
        }
    }
}

/// A tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    /// Its name in the file; of a value that a pass added, that of a value near it.
    pub(super) name: String,
    /// Lengths of its dimensions.
    pub(super) shape: Vec<usize>,
    /// What it holds.
    pub(super) element: Element,
    /// Its values, where they do not depend on inputs.
    pub(super) constant: Option<Data>,
}

impl Value {
    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The floats of a constant.
    pub(super) fn floats(&self) -> Option<Arc<[f32]>> {
        match &self.constant {
            Some(Data::Floats(values)) => Some(values.clone()),
            _ => None,
        }
    }

    /// The float of a constant of one element.
    pub(super) fn scalar(&self) -> Option<f32> {
        match &self.constant {
            Some(Data::Floats(values)) if values.len() == 1 => values.first().copied(),
            _ => None,
        }
    }
}

/// An operation between values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The layers of the file that it is made from.
    pub(super) layer: Layer,
    /// What it computes.
    pub(super) operation: Operation,
    /// What it reads, in the order that [`Operation`] states.
    pub(super) inputs: Vec<Id>,
    /// What it writes.
    pub(super) outputs: Vec<Id>,
}

/// What a node computes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operation {
    /// Of x `[N, C, H, W]`, weight `[M, C / groups, kh, kw]`, bias `[M]` and, where the epilogue says so, a residual.
    Convolution(Convolution),
    /// Of x `[N, C, H, W]`, weight `[C, M / groups, kh, kw]` and bias `[M]`.
    Transposed(Transposed),
    /// Of a `[.., M, K]`, b `[.., K, N]`, bias `[N]` and, where the epilogue says so, a residual.
    Product(Epilogue),
    /// Of x `[N, C, H, W]`.
    Pool(Pool),
    /// Of x, whose last two dimensions change.
    Resize(Resize),
    /// Of x `[G, S, K]`, weight `[K, N]` and bias `[N]`: the largest result of each group of S rows,
    /// `[G, 1, N]` or `[G, N]`.
    LinearMax {
        /// What follows the sum.
        activation: Option<Function>,
    },
    /// Of as many values as the function takes, which are broadcast.
    Elementwise(Function),
    /// Several functions, of any number of values, which are broadcast, with several results of one shape.
    Program(Instructions),
    /// `x * scale + shift` by the index along an axis.
    Affine(Affine),
    /// Of one value: its elements, or some of them, in another shape.
    View(View),
    /// Of any number of values, one after another along an axis.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// Of one value.
    Reduce {
        /// What is computed of the elements.
        kind: Reduction,
        /// The axes that are reduced, ascending.
        axes: Vec<usize>,
        /// Whether they stay with length 1.
        keeps: bool,
    },
    /// Of one value, along an axis.
    Softmax {
        /// The axis.
        axis: usize,
    },
    /// Of x and weights `[K]`: the sum of softmax times weight along an axis of K, which is left out.
    Expectation {
        /// The axis.
        axis: usize,
    },
    /// Of x and integer indices: ONNX's Gather, or GatherElements.
    Gather {
        /// The axis.
        axis: usize,
        /// Whether each index takes one element, not a slice.
        of_elements: bool,
    },
    /// Of x `[N, C, H, W]` and a grid `[N, rows, columns, 2]`: ONNX's GridSample.
    GridSample {
        /// The values around a place are blended, not the nearest taken.
        is_linear: bool,
        /// What is beyond the map is its border, not 0.
        has_border: bool,
        /// -1 and 1 are the centres of the outer elements.
        aligns_corners: bool,
    },
    /// Of x, two outputs: the values and their indices, ONNX's TopK.
    TopK {
        /// The axis.
        axis: usize,
        /// Whether the largest are taken.
        largest: bool,
    },
    /// Of x: the index of the largest or smallest along an axis, which stays with length 1.
    ArgMax {
        /// The axis.
        axis: usize,
        /// Whether the smallest is found.
        is_smallest: bool,
        /// Whether the last of equal ones is taken.
        is_last: bool,
    },
    /// Of x, scale and shift, over the last axis.
    LayerNorm {
        /// Added to the variance.
        epsilon: f32,
    },
}

/// Sizes of a convolution over pictures.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Convolution {
    /// Steps down and right.
    pub(super) stride: [usize; 2],
    /// Distances of the kernel's taps.
    pub(super) dilation: [usize; 2],
    /// Zeros at the top, left, bottom and right.
    pub(super) pads: [usize; 4],
    /// Groups of channels.
    pub(super) groups: usize,
    /// 2 where the input is read as its nearest enlargement by 2, else 1.
    pub(super) upsample: usize,
    /// What follows the sum.
    pub(super) epilogue: Epilogue,
}

/// Sizes of a transposed convolution.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Transposed {
    /// Steps down and right, of the output.
    pub(super) stride: [usize; 2],
    /// Distances of the kernel's taps.
    pub(super) dilation: [usize; 2],
    /// What is cut at the top, left, bottom and right.
    pub(super) pads: [usize; 4],
    /// What is added at the bottom and right.
    pub(super) output_padding: [usize; 2],
    /// Groups of channels.
    pub(super) groups: usize,
    /// What follows the sum.
    pub(super) epilogue: Epilogue,
}

/// What follows sum and bias.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Epilogue {
    /// A function of one value.
    pub(super) activation: Option<Function>,
    /// Whether the last input is added, and where.
    pub(super) residual: Option<Residual>,
}

/// Where a residual is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Residual {
    /// Whether the activation comes after the sum.
    pub(super) before_activation: bool,
    /// 2 where the residual is read as its nearest enlargement by 2, else 1.
    pub(super) upsample: usize,
}

/// A pooling over pictures.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pool {
    /// The largest, or the mean.
    pub(super) is_max: bool,
    /// Height and width.
    pub(super) kernel: [usize; 2],
    /// Steps down and right.
    pub(super) stride: [usize; 2],
    /// Distances of the kernel's taps.
    pub(super) dilation: [usize; 2],
    /// What is added at the top, left, bottom and right.
    pub(super) pads: [usize; 4],
    /// Whether a mean counts what is added.
    pub(super) counts_pads: bool,
    /// Whether sizes of the output are rounded up.
    pub(super) rounds_up: bool,
}

/// A factor and a summand by the index along an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Affine {
    /// The axis.
    pub(super) axis: usize,
    /// Factors.
    pub(super) scale: Arc<[f64]>,
    /// Summands.
    pub(super) shift: Arc<[f64]>,
}

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    /// The sum.
    Sum,
    /// The mean.
    Mean,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// The elements of a value in another shape, which is that of the output.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum View {
    /// All of them in their order.
    Reshape,
    /// Dimension `i` of the output is dimension `[i]` of the input.
    Permute(Vec<usize>),
    /// From a start in steps, by dimension.
    Slice {
        /// Where each dimension starts.
        starts: Vec<usize>,
        /// The step of each dimension.
        steps: Vec<usize>,
    },
    /// Dimensions of length 1 are repeated, aligned at the last dimension.
    Expand,
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Graph {
    /// All values.
    pub(super) values: Vec<Value>,
    /// In an order in which they can be computed.
    pub(super) nodes: Vec<Node>,
    /// Inputs, in the order of the file.
    pub(super) inputs: Vec<Id>,
    /// Outputs, in the order of the file.
    pub(super) outputs: Vec<Id>,
    /// Items of the first input where the file fixes them, else 0.
    pub(super) fixed_items: usize,
}

impl Graph {
    /// Adds a value.
    pub(super) fn add(&mut self, value: Value) -> Id {
        self.values.push(value);
        self.values.len() - 1
    }

    /// Adds a value of floats that a node computes.
    pub(super) fn add_floats(&mut self, name: &str, shape: &[usize]) -> Id {
        self.add(Value {
            name: name.to_owned(),
            shape: shape.to_vec(),
            element: Element::Float,
            constant: None,
        })
    }

    /// Adds a constant of floats; as many as the shape says.
    pub(super) fn add_constant(&mut self, name: &str, shape: &[usize], values: Vec<f32>) -> Id {
        self.add(Value {
            name: name.to_owned(),
            shape: shape.to_vec(),
            element: Element::Float,
            constant: Some(Data::Floats(values.into())),
        })
    }

    /// The shape of a value.
    pub(super) fn shape(&self, id: Id) -> &[usize] {
        &self.values[id].shape
    }
}
