//! rten: the engine in pure Rust that is always there. CPU only.
//!
//! rten knows f32 and i32 (and 8-bit integers, which no head uses). It widens
//! f16 models to f32 when it loads them and narrows i64 and bool tensors to
//! i32; the specs say what rten wants and gives, not what the file says. f16
//! tensors are refused: a model that must run in f16 needs ONNX Runtime.
//! With the same number of threads the same input gives the same bytes every
//! run; with another number the last bits may differ, because some operators
//! split their sums by it.

use std::path::Path;
use std::sync::Arc;

use rten::{
    DataType, Dimension, Model, NodeId, RunOptions, ThreadPool, Value, ValueOrView, ValueType,
    ValueView,
};
use rten_tensor::prelude::*;

use super::{Engine, check_file, check_inputs};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Dim, ElementType, TensorSpec, TensorValues, TensorView};

const STAGE: &str = "rten";

/// A network in rten.
///
/// Inputs are read where they lie; answers stay where rten put them.
pub struct RtenEngine {
    model: Model,
    options: RunOptions,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    answers: Vec<Value>,
}

impl RtenEngine {
    /// Loads an ONNX file. `threads` of `None` takes one thread a physical
    /// core, shared with every other such engine of the process.
    ///
    /// # Errors
    /// `Model` when the file cannot be read, uses an operator rten has not, or
    /// has an input of a type rten has not.
    pub fn load(path: &Path, threads: Option<usize>) -> Result<Self> {
        check_file(path)?;
        let model = Model::load_file(path).map_err(|cause| {
            let message = format!("cannot load {}", path.display());
            Error::new(ErrorKind::Model, STAGE, message).with_source(cause)
        })?;
        let inputs = specs(&model, model.input_ids());
        if let Some(input) = inputs.iter().find(|input| input.element.is_none()) {
            return Err(Error::new(
                ErrorKind::Model,
                STAGE,
                format!("{}: rten has no type for input {input}; onnxruntime may", path.display()),
            ));
        }
        let outputs = specs(&model, model.output_ids());
        let pool = threads.map(|num| Arc::new(ThreadPool::with_num_threads(num.max(1))));
        let options = RunOptions::default().with_thread_pool(pool);
        Ok(Self { model, options, inputs, outputs, answers: Vec::new() })
    }
}

impl Engine for RtenEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.answers.clear();
        check_inputs(&self.inputs, inputs)?;
        let ids = self.model.input_ids().iter();
        let values = ids.zip(inputs).map(|(&id, input)| Ok((id, borrow(input)?)));
        let values = values.collect::<Result<Vec<_>>>()?;
        let options = Some(self.options.clone());
        let mut answers = self
            .model
            .run(values, self.model.output_ids(), options)
            .map_err(|cause| failed("the run failed").with_source(cause))?;
        answers.iter_mut().for_each(make_dense);
        self.answers = answers;
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let answer = self.answers.get(index).ok_or_else(|| {
            failed(format!("no output {index}: the last run gave {}", self.answers.len()))
        })?;
        let (shape, values) = match answer {
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
        TensorValues::F16(_) | TensorValues::I64(_) => None,
    };
    let element = input.values().element();
    view.map(ValueOrView::from)
        .ok_or_else(|| failed(format!("rten takes f32 and i32, not {element} {shape:?}")))
}

/// Brings the answer of a network that ends in a transposition into row-major
/// order; does nothing to any other.
fn make_dense(answer: &mut Value) {
    match answer {
        Value::FloatTensor(tensor) => tensor.make_contiguous(),
        Value::Int32Tensor(tensor) => tensor.make_contiguous(),
        _ => (),
    }
}
