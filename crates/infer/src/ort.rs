//! ONNX Runtime on the CPU, version 1.20 or newer, from a library that is loaded at run
//! time.
//!
//! A process loads one library, once; its environment exists until the process ends.
//! Inputs are borrowed (bound inputs would be copied); outputs are returned in the memory
//! that ONNX Runtime allocated. The same input gives the same bytes with the same library
//! and number of threads.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use half::f16;
use ort::environment::Environment;
use ort::session::{
    HasSelectedOutputs, OutputSelector, RunOptions, Session, SessionInputValue, SessionInputs,
};
use ort::value::{DynValue, Outlet, TensorElementType, TensorRef};

use super::engine::place_of;
use super::{Engine, LIBRARY_VARIABLE, check_file, check_inputs, target_sizes};
use det_post_types::{
    Dim, ElementType, EngineOptions, Error, ErrorKind, Result, TensorSpec, TensorValues,
    TensorView, input_file,
};

const STAGE: &str = "onnxruntime";

/// A network in ONNX Runtime.
pub struct OrtEngine {
    // Dropped before the session, which owns the memory.
    values: Vec<Output>,
    session: Session,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    /// By output, whether runs compute it.
    is_used: Vec<bool>,
    /// Selects the used outputs; `None` for all.
    options: Option<RunOptions<HasSelectedOutputs>>,
    name: String,
}

/// An output of the last run.
struct Output {
    shape: Vec<usize>,
    value: DynValue,
}

impl OrtEngine {
    /// Loads an ONNX file with the ONNX Runtime of `library`. `threads`: `None` for one
    /// thread per physical core.
    ///
    /// # Errors
    /// `Model` when the library is missing, older than 1.20 or another than this process
    /// has loaded, ONNX Runtime refuses the file, or the type of an input is not
    /// supported.
    pub fn load(path: &Path, library: &Path, threads: Option<usize>) -> Result<Self> {
        let options = EngineOptions { threads, ..EngineOptions::default() };
        Self::with_options(path, library, &options)
    }

    /// As [`OrtEngine::load`], with the threads and the vectors of classes of the options.
    ///
    /// # Errors
    /// As there, and `Model` when the network has no input for the vectors.
    pub fn with_options(path: &Path, library: &Path, options: &EngineOptions) -> Result<Self> {
        check_file(path)?;
        let environment = environment(library)?;
        let cut = target_sizes::adapted(path, options.part, options.class_vectors.as_ref())?;
        let session =
            open(&environment, path, cut.as_deref(), options.threads).map_err(|cause| {
                Error::new(ErrorKind::Model, STAGE, format!("cannot load {}", path.display()))
                    .with_source(cause)
            })?;
        let inputs: Vec<_> = session.inputs().iter().map(spec).collect();
        let outputs: Vec<_> = session.outputs().iter().map(spec).collect();
        let is_used = vec![true; outputs.len()];
        if let Some(input) = inputs.iter().find(|input| input.element.is_none()) {
            return Err(Error::new(
                ErrorKind::Model,
                STAGE,
                format!("{}: the type of input {input} is not supported", path.display()),
            ));
        }
        let file = library.file_name().unwrap_or(library.as_os_str()).to_string_lossy();
        let name = format!("onnxruntime ({file})");
        Ok(Self { values: Vec::new(), session, inputs, outputs, is_used, options: None, name })
    }
}

/// `cut`: the network in memory, in place of the file.
fn open(
    environment: &Environment,
    path: &Path,
    cut: Option<&[u8]>,
    threads: Option<usize>,
) -> ort::Result<Session> {
    let mut builder = Session::builder(environment)?.with_deterministic_compute(true)?;
    if let Some(num) = threads {
        builder = builder.with_intra_threads(num.max(1))?;
    }
    match cut {
        Some(bytes) => builder.commit_from_memory(bytes),
        None => builder.commit_from_file(path),
    }
}

/// The library of this process and the environment made from it.
struct Runtime {
    library: Option<PathBuf>,
    environment: Option<Environment>,
}

static RUNTIME: Mutex<Runtime> = Mutex::new(Runtime { library: None, environment: None });

/// The environment of this process. `ort` panics if it is used before this function has
/// succeeded.
pub(super) fn environment(library: &Path) -> Result<Environment> {
    let error = |message| Error::new(ErrorKind::Model, STAGE, message);
    let library = library.canonicalize().unwrap_or_else(|_| library.into());
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(loaded) = runtime.library.as_ref().filter(|loaded| **loaded != library) {
        return Err(error(format!(
            "this process has loaded {} and cannot load {} as well",
            loaded.display(),
            library.display()
        )));
    }
    if let Some(environment) = &runtime.environment {
        return Ok(environment.clone());
    }
    // The system's loader finds a name without a folder.
    if library.components().count() > 1 {
        input_file::check(&library).map_err(|cause| {
            error(format!("cannot load {}", library.display())).with_source(cause)
        })?;
    }
    let builder = ort::init_from(&library).map_err(|cause| {
        error(format!(
            "cannot use {} as the library of ONNX Runtime 1.{} or newer; name it in the \
             parameters or in {LIBRARY_VARIABLE}, or choose rten",
            library.display(),
            ort::MINOR_VERSION
        ))
        .with_source(cause)
    })?;
    runtime.library = Some(library);
    let environment = builder
        .with_name("det_post")
        .with_telemetry(false)
        .build()
        .map_err(|cause| error("cannot set up the environment".into()).with_source(cause))?;
    Ok(runtime.environment.insert(environment).clone())
}

impl Engine for OrtEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn use_outputs(&mut self, positions: &[usize]) -> Result<()> {
        let mut used = positions.iter().filter_map(|&position| self.outputs.get(position));
        if let Some(output) = used.find(|output| output.element.is_none()) {
            let message = format!(
                "the output {output} is of a type that is not supported: export it as f32, f16, i32, i64 or i8"
            );
            return Err(Error::new(ErrorKind::Model, STAGE, message));
        }
        let selected = |cause: ort::Error| failed("cannot select outputs").with_source(cause);
        self.values.clear();
        self.is_used = (0..self.outputs.len()).map(|index| positions.contains(&index)).collect();
        let mut selector = OutputSelector::no_default();
        for (spec, _) in self.outputs.iter().zip(&self.is_used).filter(|(_, is_used)| **is_used) {
            selector = selector.with(&spec.name);
        }
        self.options = Some(RunOptions::new().map_err(selected)?.with_outputs(selector));
        Ok(())
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.values.clear();
        check_inputs(&self.inputs, inputs)?;
        let run_failed = |cause: ort::Error| failed("the run failed").with_source(cause);
        let values = inputs.iter().map(borrow).collect::<ort::Result<Vec<_>>>();
        let values = values.map_err(run_failed)?;
        let inputs = SessionInputs::<0>::from(values.as_slice());
        let mut outputs = match &self.options {
            None => self.session.run(inputs),
            Some(options) => self.session.run_with_options(inputs, options),
        }
        .map_err(run_failed)?;
        let used = self.outputs.iter().zip(&self.is_used).filter(|(_, is_used)| **is_used);
        for (spec, _) in used {
            let value = outputs
                .remove(&spec.name)
                .ok_or_else(|| failed(format!("the run gave no output {spec}")))?;
            let dims = value.dtype().tensor_shape().map_or(&[][..], |shape| shape);
            let shape = dims.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect();
            self.values.push(Output { shape, value });
        }
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let place = place_of(&self.is_used, index);
        let Output { shape, value } =
            place.and_then(|place| self.values.get(place)).ok_or_else(|| {
                failed(format!("no output {index}: the last run gave {}", self.values.len()))
            })?;
        TensorView::new(shape, values(value)?)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// The values of a tensor in host memory.
fn values(value: &DynValue) -> Result<TensorValues<'_>> {
    let kind = value.dtype().tensor_type();
    let values = match kind.and_then(element) {
        Some(ElementType::F32) => value.try_extract_tensor().map(|t| TensorValues::F32(t.1)),
        Some(ElementType::F16) => value.try_extract_tensor().map(|t| TensorValues::F16(t.1)),
        Some(ElementType::I32) => value.try_extract_tensor().map(|t| TensorValues::I32(t.1)),
        Some(ElementType::I64) => value.try_extract_tensor().map(|t| TensorValues::I64(t.1)),
        Some(ElementType::F64) => value.try_extract_tensor().map(|t| TensorValues::F64(t.1)),
        Some(ElementType::I8) => value.try_extract_tensor().map(|t| TensorValues::I8(t.1)),
        None => return Err(failed(format!("an output is a {}", value.dtype()))),
    };
    values.map_err(|cause| failed("an output cannot be read").with_source(cause))
}

/// A tensor in host memory, with its shape in `shape`.
#[cfg(feature = "cuda")]
pub(super) fn view<'a>(value: &'a DynValue, shape: &'a mut [usize]) -> Result<TensorView<'a>> {
    let dims = value.dtype().tensor_shape().map_or(&[][..], |shape| shape);
    let Some(shape) = shape.get_mut(..dims.len()) else {
        return Err(failed(format!("an output has {} dimensions", dims.len())));
    };
    for (to, &n) in shape.iter_mut().zip(dims) {
        *to = usize::try_from(n).unwrap_or(0);
    }
    TensorView::new(shape, values(value)?)
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Inference, STAGE, message)
}

pub(super) fn spec(outlet: &Outlet) -> TensorSpec {
    let kind = outlet.dtype();
    let shape = kind.tensor_shape().map(|dims| {
        dims.iter().map(|&n| usize::try_from(n).map_or(Dim::Dynamic, Dim::Fixed)).collect()
    });
    TensorSpec { name: outlet.name().into(), element: kind.tensor_type().and_then(element), shape }
}

pub(super) fn element(kind: TensorElementType) -> Option<ElementType> {
    match kind {
        TensorElementType::Float32 => Some(ElementType::F32),
        TensorElementType::Float16 => Some(ElementType::F16),
        TensorElementType::Int32 => Some(ElementType::I32),
        TensorElementType::Int64 => Some(ElementType::I64),
        TensorElementType::Float64 => Some(ElementType::F64),
        TensorElementType::Int8 => Some(ElementType::I8),
        _ => None,
    }
}

fn borrow<'a>(input: &TensorView<'a>) -> ort::Result<SessionInputValue<'a>> {
    let shape = input.shape();
    Ok(match input.values() {
        TensorValues::F32(values) => TensorRef::<f32>::from_array_view((shape, values))?.into(),
        TensorValues::F16(values) => TensorRef::<f16>::from_array_view((shape, values))?.into(),
        TensorValues::I32(values) => TensorRef::<i32>::from_array_view((shape, values))?.into(),
        TensorValues::I64(values) => TensorRef::<i64>::from_array_view((shape, values))?.into(),
        TensorValues::F64(values) => TensorRef::<f64>::from_array_view((shape, values))?.into(),
        TensorValues::I8(values) => TensorRef::<i8>::from_array_view((shape, values))?.into(),
    })
}
