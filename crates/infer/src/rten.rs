//! rten: the built-in engine, in Rust, for the CPU.
//!
//! rten supports f32 and i32 (and 8-bit integers, which no head uses). It widens f16
//! models to f32 when it loads them and narrows i64 and bool tensors to i32; the specs
//! are those of rten, not of the file. f16 tensors are refused: a model that must run in
//! f16 needs ONNX Runtime. The same input gives the same bytes in every run with the same
//! number of threads; with another number the last bits may differ, since some operators
//! split their sums over the threads.

use std::path::Path;
use std::sync::Arc;

use rten::{
    DataType, Dimension, Model, NodeId, RunOptions, ThreadPool, Value, ValueOrView, ValueType,
    ValueView,
};
use rten_tensor::prelude::*;

use super::engine::place_of;
use super::{Engine, check_file, check_inputs, efficient_nms};
use det_post_types::{
    Dim, ElementType, Error, ErrorKind, Result, TensorSpec, TensorValues, TensorView,
};

const STAGE: &str = "rten";

/// A network in rten.
///
/// Inputs are borrowed; outputs are returned in the memory that rten allocated.
pub struct RtenEngine {
    model: Model,
    options: RunOptions,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    /// By output, whether runs compute it.
    is_used: Vec<bool>,
    /// The used outputs of the last run, in order.
    values: Vec<Value>,
}

impl RtenEngine {
    /// Loads an ONNX file. `threads`: `None` for one thread per physical core, shared with
    /// all such engines of the process.
    ///
    /// # Errors
    /// `Model` when the file cannot be read, or uses an operator or an input type that
    /// rten does not support.
    pub fn load(path: &Path, threads: Option<usize>) -> Result<Self> {
        check_file(path)?;
        let cut = efficient_nms::cut(path)?;
        let model = match cut {
            Some(bytes) => Model::load(bytes),
            None => Model::load_file(path),
        };
        let model = model.map_err(|cause| {
            let message = format!("cannot load {}", path.display());
            Error::new(ErrorKind::Model, STAGE, message).with_source(cause)
        })?;
        let inputs = specs(&model, model.input_ids());
        if let Some(input) = inputs.iter().find(|input| input.element.is_none()) {
            return Err(Error::new(
                ErrorKind::Model,
                STAGE,
                format!(
                    "{}: rten does not support the type of input {input}; onnxruntime may",
                    path.display()
                ),
            ));
        }
        let outputs = specs(&model, model.output_ids());
        let pool = threads.map(|num| Arc::new(ThreadPool::with_num_threads(num.max(1))));
        let options = RunOptions::default().with_thread_pool(pool);
        let is_used = vec![true; outputs.len()];
        Ok(Self { model, options, inputs, outputs, is_used, values: Vec::new() })
    }
}

impl Engine for RtenEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn use_outputs(&mut self, positions: &[usize]) -> Result<()> {
        self.values.clear();
        self.is_used = (0..self.outputs.len()).map(|index| positions.contains(&index)).collect();
        Ok(())
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.values.clear();
        check_inputs(&self.inputs, inputs)?;
        let ids = self.model.input_ids().iter();
        let inputs = ids.zip(inputs).map(|(&id, input)| Ok((id, borrow(input)?)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let options = Some(self.options.clone());
        let ids = self.model.output_ids().iter().zip(&self.is_used);
        let ids: Vec<NodeId> = ids.filter(|(_, is_used)| **is_used).map(|(&id, _)| id).collect();
        self.values = self
            .model
            .run(inputs, &ids, options)
            .map_err(|cause| failed("the run failed").with_source(cause))?;
        self.values.iter_mut().for_each(make_dense);
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let place = place_of(&self.is_used, index);
        let value = place.and_then(|place| self.values.get(place)).ok_or_else(|| {
            failed(format!("no output {index}: the last run gave {}", self.values.len()))
        })?;
        let (shape, values) = match value {
            Value::FloatTensor(tensor) => (tensor.shape(), tensor.data().map(TensorValues::F32)),
            Value::Int32Tensor(tensor) => (tensor.shape(), tensor.data().map(TensorValues::I32)),
            other => {
                return Err(failed(format!("output {index} is a {}", other.dtype())));
            }
        };
        let values = values.ok_or_else(|| failed(format!("output {index} is not dense")))?;
        TensorView::new(shape, values)
    }

    fn name(&self) -> &str {
        "rten 0.27"
    }
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Inference, STAGE, message)
}

fn specs(model: &Model, ids: &[NodeId]) -> Vec<TensorSpec> {
    ids.iter().map(|&id| spec(model, id)).collect()
}

fn spec(model: &Model, id: NodeId) -> TensorSpec {
    let Some(info) = model.node_info(id) else {
        return TensorSpec { name: String::new(), element: None, shape: None };
    };
    let element = match info.dtype() {
        Some(ValueType::Tensor(DataType::Float)) => Some(ElementType::F32),
        Some(ValueType::Tensor(DataType::Int32)) => Some(ElementType::I32),
        _ => None,
    };
    let shape = info.shape().map(|dims| {
        dims.iter()
            .map(|dim| match dim {
                Dimension::Fixed(n) => Dim::Fixed(*n),
                Dimension::Symbolic(_) => Dim::Dynamic,
            })
            .collect()
    });
    TensorSpec { name: info.name().unwrap_or_default().into(), element, shape }
}

fn borrow<'a>(input: &TensorView<'a>) -> Result<ValueOrView<'a>> {
    let shape = input.shape();
    let view = match input.values() {
        TensorValues::F32(values) => ValueView::from_shape(shape, values).ok(),
        TensorValues::I32(values) => ValueView::from_shape(shape, values).ok(),
        TensorValues::F16(_) | TensorValues::I64(_) | TensorValues::F64(_) => None,
    };
    let element = input.values().element();
    view.map(ValueOrView::from)
        .ok_or_else(|| failed(format!("rten supports f32 and i32, not {element} {shape:?}")))
}

/// Converts an output to row-major order, which the output of a transposition does not
/// have.
fn make_dense(output: &mut Value) {
    match output {
        Value::FloatTensor(tensor) => tensor.make_contiguous(),
        Value::Int32Tensor(tensor) => tensor.make_contiguous(),
        _ => (),
    }
}
