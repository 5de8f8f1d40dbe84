//! The CUDA implementation of [`layer_stack`](super): several stacks in one launch, each with
//! what precedes and follows it. Within the tolerance of docs/numerics.md of the CPU, and the
//! same from run to run.

pub use super::kernels::{
    LayerArgs, MAX_COLUMNS, MAX_JOBS, MAX_LAYERS, MAX_WIDTH, StackArgs, StackElement, StackKernel,
};

use crate::device::cuda::{DeviceBuffer, In, Stream};
use crate::view::linear::cuda::{DeviceLayer, PartArgs, device_norm};
use crate::view::linear::{Finish, LinearLayer};
use det_post_types::{Error, ErrorKind, Result};

/// The layers of a stack in device memory.
#[derive(Debug)]
pub struct DeviceStack {
    first: Option<FirstLayer>,
    layers: Vec<Layer>,
    num_outputs: u32,
}

/// A first layer over few columns of f32, whose weights are f32, too.
#[derive(Debug)]
struct FirstLayer {
    weights: DeviceBuffer<f32>,
    norm: DeviceBuffer<f32>,
    num_columns: u32,
    width: u32,
}

#[derive(Debug)]
struct Layer {
    layer: DeviceLayer,
    norm: Option<DeviceBuffer<f32>>,
    has_relu: bool,
}

impl DeviceStack {
    /// Packs layers over rows of `T`.
    ///
    /// # Errors
    /// `Argument` when there are no layers or too many, or a ReLU follows a normalization;
    /// `Device` when there is not enough memory.
    pub fn new<T: StackElement>(stream: &Stream, layers: &[LinearLayer]) -> Result<Self> {
        let num_layers = layers.len();
        let Some(last) = layers.last().filter(|_| num_layers <= MAX_LAYERS) else {
            return argument(format!(
                "the number of layers must be 1 to {MAX_LAYERS}, found {num_layers}"
            ));
        };
        let packed = layers.iter().map(|layer| Layer::new::<T>(stream, layer));
        Ok(Self {
            first: None,
            layers: packed.collect::<Result<_>>()?,
            num_outputs: last.num_outputs() as u32,
        })
    }

    /// Packs layers the first of which is over columns of f32 and has a ReLU and a
    /// normalization.
    ///
    /// # Errors
    /// As [`Self::new`], and when the first layer is another one or has too many columns.
    pub fn of_columns<T: StackElement>(stream: &Stream, layers: &[LinearLayer]) -> Result<Self> {
        let Some((first, others)) = layers.split_first() else {
            return argument("no layers".into());
        };
        let (Finish::ReluNorm(norm), true) = (first.finish(), first.num_inputs() <= MAX_COLUMNS)
        else {
            return argument(format!(
                "a first layer of {} columns; it must have at most {MAX_COLUMNS}, a ReLU and a \
                 normalization",
                first.num_inputs()
            ));
        };
        let rows = (0..first.num_outputs()).flat_map(|output| {
            let weights = (0..first.num_inputs()).map(move |input| first.weight(output, input));
            weights.chain([first.bias()[output]])
        });
        let rows: Vec<f32> = rows.collect();
        let mut weights = DeviceBuffer::zeros(stream, rows.len())?;
        weights.write(&rows)?;
        let first = FirstLayer {
            weights,
            norm: device_norm(stream, norm)?,
            num_columns: first.num_inputs() as u32,
            width: first.num_outputs() as u32,
        };
        Ok(Self { first: Some(first), ..Self::new::<T>(stream, others)? })
    }

    /// The stack over rows; outputs, and what precedes them, are the caller's.
    ///
    /// # Errors
    /// `Device` when something belongs to another stream.
    pub fn of_rows<'a, T: StackElement>(
        &'a self,
        stream: &Stream,
        input: PartArgs<'a, T>,
        num_rows: usize,
    ) -> Result<StackArgs<'a, T>> {
        Ok(StackArgs {
            rows: input.rows,
            row_stride: input.stride,
            row_len: input.len,
            ..self.args(stream, num_rows)?
        })
    }

    /// The stack over the columns from `first_column` on of rows of `stride` values.
    ///
    /// # Errors
    /// `Argument` when the first layer is not one over columns; `Device` when something
    /// belongs to another stream.
    pub fn over_columns<'a, T: StackElement>(
        &'a self,
        stream: &Stream,
        (rows, stride): (In<'a, f32>, usize),
        first_column: usize,
        num_rows: usize,
    ) -> Result<StackArgs<'a, T>> {
        let Some(first) = &self.first else {
            return argument("the first layer is one over rows".into());
        };
        Ok(StackArgs {
            columns: rows.from(first_column),
            first: first.weights.input(stream)?,
            first_norm: first.norm.input(stream)?,
            column_stride: stride as u32,
            num_columns: first.num_columns,
            first_width: first.width,
            ..self.args(stream, num_rows)?
        })
    }

    fn args<'a, T: StackElement>(
        &'a self,
        stream: &Stream,
        num_rows: usize,
    ) -> Result<StackArgs<'a, T>> {
        let mut args = StackArgs {
            num_values: self.num_outputs,
            num_rows: num_rows as u32,
            num_layers: self.layers.len() as u32,
            ..StackArgs::empty()
        };
        for (to, Layer { layer, norm, has_relu }) in args.layers.iter_mut().zip(&self.layers) {
            let packed = layer.job::<T>(stream, PartArgs::empty(), num_rows)?;
            *to = LayerArgs {
                weights: packed.weights,
                bias: packed.bias,
                norm: norm.as_ref().map_or(Ok(In::empty()), |norm| norm.input(stream))?,
                num_inputs: layer.num_inputs(),
                num_outputs: packed.num_outputs,
                has_relu: u32::from(*has_relu),
                reserved: 0,
            };
        }
        Ok(args)
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        let first = self.first.as_ref().map_or(0, |first| first.weights.len());
        let layers = self.layers.iter().map(|layer| layer.layer.num_bytes());
        size_of::<f32>() * first + layers.sum::<usize>()
    }
}

impl Layer {
    fn new<T: StackElement>(stream: &Stream, layer: &LinearLayer) -> Result<Self> {
        let has_relu = match layer.finish() {
            Finish::None | Finish::Norm(_) => false,
            Finish::Relu | Finish::ReluNorm(_) => true,
            Finish::NormRelu(_) => {
                return argument("a ReLU cannot follow a normalization".into());
            }
        };
        let norm = layer.finish().norm().map(|norm| device_norm(stream, norm));
        Ok(Self { layer: DeviceLayer::new::<T>(stream, layer)?, norm: norm.transpose()?, has_relu })
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "layer_stack", message))
}
