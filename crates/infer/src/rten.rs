//! rten: the built-in engine, in Rust, for the CPU.
//!
//! rten supports f32, i32 and 8-bit integers, of which i8 is an output of networks here. It widens f16
//! models to f32 when it loads them and narrows i64 and bool tensors to i32; the specs
//! are those of rten, not of the file. f16 tensors are refused: a model that must run in
//! f16 needs ONNX Runtime. The same input gives the same bytes in every run with the same
//! number of threads; with another number the last bits may differ, since some operators
//! split their sums over the threads.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use rten::{
    DataType, Dimension, Model, NodeId, RunOptions, ThreadPool, Value, ValueOrView, ValueType,
    ValueView,
};
use rten_tensor::prelude::*;

use super::conformance::{self, WAY_OUT};
use super::engine::place_of;
use super::onnx::metadata_entries;
use super::{Engine, check_file, check_inputs, target_sizes};
use det_post_types::{
    Dim, ElementType, EngineOptions, Error, ErrorKind, Result, TensorSpec, TensorValues, TensorView,
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
        Self::with_options(path, &EngineOptions { threads, ..EngineOptions::default() })
    }

    /// As [`RtenEngine::load`], with the threads and the vectors of classes of the options.
    ///
    /// # Errors
    /// As there, and `Model` when the network has no input for the vectors.
    pub fn with_options(path: &Path, options: &EngineOptions) -> Result<Self> {
        let (model, depends_on_values) = load_checked(path, options)?;
        let threads = options.threads;
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
        let outputs = named(path, specs(&model, model.output_ids()));
        let pool = threads.map(|num| Arc::new(ThreadPool::with_num_threads(num.max(1))));
        let options = RunOptions::default().with_thread_pool(pool);
        let is_used = vec![true; outputs.len()];
        let mut engine = Self { model, options, inputs, outputs, is_used, values: Vec::new() };
        match engine.try_run(path) {
            Err(error) if !depends_on_values => return Err(error),
            // Another image may give sizes that fit.
            Err(error) => tracing::warn!("{error}, for an input of zeros"),
            Ok(()) => {}
        }
        Ok(engine)
    }

    /// Runs the network once on zeros, where its inputs are floats of fixed shapes: what rten fails at is
    /// found before the first frame. Where sizes inside depend on values, a failure is a warning.
    fn try_run(&mut self, path: &Path) -> Result<()> {
        let shapes: Option<Vec<Vec<usize>>> = self.inputs.iter().map(fixed_floats).collect();
        let Some(shapes) = shapes else { return Ok(()) };
        let zeros: Vec<Vec<f32>> =
            shapes.iter().map(|shape| vec![0.0; num_values(shape)]).collect();
        let views = shapes.iter().zip(&zeros);
        let views = views.map(|(shape, zeros)| TensorView::new(shape, TensorValues::F32(zeros)));
        let result = self.run(&views.collect::<Result<Vec<_>>>()?);
        self.values.clear();
        result.map_err(|error| {
            let message = format!("{}: rten cannot run it; {WAY_OUT}", path.display());
            Error::new(ErrorKind::Model, STAGE, message).with_source(error)
        })
    }
}

/// The most values of an input for which a network runs once before the first frame.
const MAX_TRIED: usize = 1 << 28;

fn fixed_floats(spec: &TensorSpec) -> Option<Vec<usize>> {
    let dims = spec.shape.as_ref().filter(|_| spec.element == Some(ElementType::F32))?;
    let fixed = |dim: &Dim| match dim {
        Dim::Fixed(size) => Some(*size),
        Dim::Dynamic => None,
    };
    let shape: Vec<usize> = dims.iter().map(fixed).collect::<Option<_>>()?;
    let num = shape.iter().try_fold(1_usize, |num, &size| num.checked_mul(size))?;
    (num <= MAX_TRIED).then_some(shape)
}

fn num_values(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Loads a file after every node was compared with what rten computes as ONNX defines it; and whether
/// sizes inside depend on values.
fn load_checked(path: &Path, options: &EngineOptions) -> Result<(Model, bool)> {
    let failed = |message: &str| {
        Error::new(ErrorKind::Model, STAGE, format!("{}: {message}", path.display()))
    };
    let in_file = |error: Error| failed(error.message());
    check_file(path)?;
    let cut = target_sizes::adapted(path, options.part, options.class_vectors.as_ref())?;
    let bytes = match &cut {
        Some(bytes) => Cow::Borrowed(&bytes[..]),
        None => Cow::Owned(
            std::fs::read(path).map_err(|cause| failed("cannot read it").with_source(cause))?,
        ),
    };
    let checked = conformance::check(&bytes).map_err(in_file)?;
    drop(bytes);
    let model = without_panic(|| match checked.changed.or(cut) {
        Some(bytes) => Model::load(bytes),
        None => Model::load_file(path),
    });
    let cannot_load = || failed(&format!("rten cannot load it; {WAY_OUT}"));
    match model {
        Ok(Ok(model)) => Ok((model, checked.depends_on_values)),
        Ok(Err(cause)) => Err(cannot_load().with_source(cause)),
        Err(panic) => Err(cannot_load().with_source(panic)),
    }
}

/// Runs code of rten, whose panics are errors.
fn without_panic<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or(cause.downcast_ref::<&str>().copied()).unwrap_or("no message");
        failed(format!("rten panicked: {text}"))
    })
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
        for (index, &id) in self.model.output_ids().iter().enumerate() {
            let found = self.model.node_info(id).and_then(|info| info.dtype());
            if let Some(found) = found.filter(|_| self.outputs[index].element.is_none())
                && positions.contains(&index)
            {
                let message = format!(
                    "the output {} is of {found}; f32, i32 and i8 are supported: export it as one of them, or as i64",
                    self.outputs[index]
                );
                return Err(Error::new(ErrorKind::Model, STAGE, message));
            }
        }
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
        self.values = without_panic(|| self.model.run(inputs, &ids, options))?
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
            Value::Int8Tensor(tensor) => (tensor.shape(), tensor.data().map(TensorValues::I8)),
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

/// The outputs with the names of the file, where rten has lost them: of constants.
fn named(path: &Path, mut outputs: Vec<TensorSpec>) -> Vec<TensorSpec> {
    if outputs.iter().any(|output| output.name.is_empty())
        && let Ok(entries) = metadata_entries(path)
        && entries.outputs.len() == outputs.len()
    {
        for (output, of_file) in outputs.iter_mut().zip(entries.outputs) {
            if output.name.is_empty() {
                output.name = of_file.name;
            }
        }
    }
    outputs
}

fn spec(model: &Model, id: NodeId) -> TensorSpec {
    let Some(info) = model.node_info(id) else {
        return TensorSpec { name: String::new(), element: None, shape: None };
    };
    let element = match info.dtype() {
        Some(ValueType::Tensor(DataType::Float)) => Some(ElementType::F32),
        Some(ValueType::Tensor(DataType::Int32)) => Some(ElementType::I32),
        Some(ValueType::Tensor(DataType::Int8)) => Some(ElementType::I8),
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
        TensorValues::I8(values) => ValueView::from_shape(shape, values).ok(),
        TensorValues::F16(_) | TensorValues::I64(_) | TensorValues::F64(_) => None,
    };
    let element = input.values().element();
    view.map(ValueOrView::from)
        .ok_or_else(|| failed(format!("rten supports f32, i32 and i8, not {element} {shape:?}")))
}

/// Converts an output to row-major order, which the output of a transposition does not
/// have.
fn make_dense(output: &mut Value) {
    match output {
        Value::FloatTensor(tensor) => tensor.make_contiguous(),
        Value::Int32Tensor(tensor) => tensor.make_contiguous(),
        Value::Int8Tensor(tensor) => tensor.make_contiguous(),
        _ => (),
    }
}
