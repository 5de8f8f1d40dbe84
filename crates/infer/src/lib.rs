//! Engines that run a network.
//!
//! | engine | where | element types | same input, same bytes |
//! | --- | --- | --- | --- |
//! | [`RtenEngine`] | CPU, embedded | f32, i32, i8; f16 widened to f32, i64 and bool narrowed to i32 | yes, with the same number of threads |
//! | [`OrtEngine`] | CPU, a library loaded at run time | f32, f16, i32, i64, i8 | yes, with the same library and number of threads |
//! | [`dense`] | a GPU, kernels of our own | f32, f16 | yes |
//!
//! [`External`] stands for a network that runs elsewhere: its outputs are tensors of a message.
//!
//! Outputs of two engines, or of one with different numbers of threads, may differ
//! in the last bits, since the order of sums differs: to compare bytes across machines,
//! set the number of threads. A run allocates inside the engine only.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod class_vectors;
mod conformance;
pub mod dense;
#[cfg(feature = "cuda")]
pub mod device;
pub mod efficient_nms;
mod engine;
mod external;
pub mod fp16;
pub mod metadata;
mod no_network;
mod onnx;
mod ort;
mod proposal_head;
mod quantized_outputs;
mod rten;
pub mod safetensors;
mod signature;
pub mod sparse;
mod target_sizes;
pub mod view_decoder;

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use engine::Engine;
pub use external::External;
pub use no_network::NoNetwork;
pub use ort::OrtEngine;
pub use quantized_outputs::{output_scales, refuse_quantized};
pub use rten::RtenEngine;
pub use signature::{Expected, ExpectedDim, Side, bind};

use det_post_types::{
    EngineKind, EngineOptions, Error, ErrorKind, Result, TensorSpec, TensorView, input_file,
};

/// The environment variable with the path of ONNX Runtime's library.
pub const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";

const STAGE: &str = "infer";

/// The outputs of a run, by position.
pub type Outputs<'a> = dyn Fn(usize) -> Result<TensorView<'a>> + 'a;

/// The largest file of our own layers that is read. Published ones have up to 60 MB.
const MAX_LAYER_BYTES: u64 = 512 << 20;

/// Loads a network into the engine that the options select, and logs the engine and the
/// reason. With a study it runs in dense layers on the CPU, slowly.
///
/// [`EngineKind::Auto`] never falls back: a configured library of ONNX Runtime that
/// cannot be loaded is an error.
///
/// # Errors
/// `Model` for [`EngineKind::External`] and [`EngineKind::Cuda`], when there is no file at `model`, the engine cannot read it, or the library of
/// ONNX Runtime is missing, too old, or another than this process has loaded before.
pub fn load(model: &Path, options: &EngineOptions) -> Result<Box<dyn Engine>> {
    if options.kind == EngineKind::External {
        let message = "the engine external runs no network: its tensors are received";
        return Err(Error::new(ErrorKind::Model, STAGE, message));
    }
    // Names of layers are right on every device.
    let [options] = &dense::options_of_networks(options, [model])?;
    if let Some(study) = &options.study {
        let engine = dense::StudiedEngine::load(model, options, study)?;
        tracing::info!("model {} in {}: its layers are studied", model.display(), engine.name());
        return Ok(Box::new(engine));
    }
    if options.kind == EngineKind::Cuda {
        let message = "the engine cuda runs networks on a GPU, and this channel runs on the CPU: set device to \
             cuda, or engine.kind to auto, rten or onnxruntime";
        return Err(Error::new(ErrorKind::Model, STAGE, message));
    }
    let choice = choose(options, std::env::var_os(LIBRARY_VARIABLE).as_deref());
    let engine: Box<dyn Engine> = match &choice.library {
        Some(library) => Box::new(OrtEngine::with_options(model, library, options)?),
        None => Box::new(RtenEngine::with_options(model, options)?),
    };
    tracing::info!("model {} on {}: {}", model.display(), engine.name(), choice.reason);
    Ok(engine)
}

/// The result of [`choose`]: the library of ONNX Runtime, or `None` for rten.
#[derive(Debug, PartialEq)]
struct Choice {
    library: Option<PathBuf>,
    reason: &'static str,
}

fn choose(options: &EngineOptions, variable: Option<&OsStr>) -> Choice {
    let variable = variable.filter(|value| !value.is_empty()).map(PathBuf::from);
    let named = options.library.clone().map(|path| (path, "the options name a library"));
    let named = named.or(variable.map(|path| (path, "ORT_DYLIB_PATH names a library")));
    match (options.kind, named) {
        (EngineKind::Rten | EngineKind::External, _) => {
            Choice { library: None, reason: "the options ask for rten" }
        }
        (EngineKind::Cuda, _) => Choice { library: None, reason: "the options ask for cuda" },
        (EngineKind::Auto, None) => Choice {
            library: None,
            reason: "ONNX Runtime is not configured (ORT_DYLIB_PATH is not set)",
        },
        (_, Some((library, reason))) => Choice { library: Some(library), reason },
        (EngineKind::OnnxRuntime, None) => {
            Choice { library: Some(system_library()), reason: "the options ask for onnxruntime" }
        }
    }
}

/// The name of ONNX Runtime's library for the system's loader.
fn system_library() -> PathBuf {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    format!("{DLL_PREFIX}onnxruntime{DLL_SUFFIX}").into()
}

/// Reads a network of our own layers from a file; errors name it.
///
/// The file is read into memory rather than mapped: another process that shortens it cannot end
/// this one.
fn load_layers<T>(
    path: &Path,
    stage: &'static str,
    parse: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<T> {
    let failed = |error| {
        Error::new(ErrorKind::Io, stage, format!("cannot read {}", path.display()))
            .with_source(error)
    };
    let mut bytes = Vec::new();
    let file = input_file::open(path).map_err(failed)?;
    file.take(MAX_LAYER_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    let parsed = if bytes.len() as u64 > MAX_LAYER_BYTES {
        let message = format!("the file exceeds the limit of {MAX_LAYER_BYTES} bytes");
        Err(Error::new(ErrorKind::Model, stage, message))
    } else {
        parse(&bytes)
    };
    parsed.map_err(|error| {
        let of_stage = match error.stage() {
            of_error if of_error == stage => String::new(),
            of_error => format!("{of_error}: "),
        };
        let message = format!("{}: {of_stage}{}", path.display(), error.message());
        Error::new(error.kind(), stage, message)
    })
}

/// The largest file of a network: what the format of ONNX, protobuf, can hold. Larger networks have
/// their weights in other files.
const MAX_MODEL_BYTES: u64 = i32::MAX as u64;

/// Refuses a model path that is not a file, or larger than one of the format can be.
fn check_file(model: &Path) -> Result<()> {
    let error = |message| Error::new(ErrorKind::Model, STAGE, message);
    match std::fs::metadata(model) {
        Ok(metadata) if metadata.len() > MAX_MODEL_BYTES => Err(error(format!(
            "the model {} has {} bytes; allowed: up to {MAX_MODEL_BYTES}, the limit of ONNX files",
            model.display(),
            metadata.len()
        ))),
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(error(format!("the model {} is not a file", model.display()))),
        Err(cause) => {
            Err(error(format!("cannot open the model {}", model.display())).with_source(cause))
        }
    }
}

/// Refuses tensors that do not fit the inputs of a model.
fn check_inputs(specs: &[TensorSpec], inputs: &[TensorView<'_>]) -> Result<()> {
    let error = |message| Err(Error::new(ErrorKind::Inference, STAGE, message));
    if specs.len() != inputs.len() {
        return error(format!("found {} tensors for {} inputs", inputs.len(), specs.len()));
    }
    for (spec, input) in specs.iter().zip(inputs) {
        let found = input.values().element();
        if spec.element.is_some_and(|element| element != found)
            || !signature::shape_fits(spec, input.shape())
        {
            return error(format!("input {spec} does not fit {found} {:?}", input.shape()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{Dim, ElementType, TensorValues};

    #[test]
    fn the_choice_is_explicit_and_never_falls_back() {
        let options = |kind, library: Option<&str>| EngineOptions {
            kind,
            library: library.map(PathBuf::from),
            ..EngineOptions::default()
        };
        let library = |kind, named, variable: Option<&str>| {
            choose(&options(kind, named), variable.map(OsStr::new)).library
        };
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(library(EngineKind::Auto, None, None), None);
        assert_eq!(library(EngineKind::Auto, None, Some("")), None);
        assert_eq!(library(EngineKind::Auto, None, Some("/e.so")), path("/e.so"));
        assert_eq!(library(EngineKind::Auto, Some("/o.so"), Some("/e.so")), path("/o.so"));
        assert_eq!(library(EngineKind::Rten, Some("/o.so"), Some("/e.so")), None);
        assert_eq!(library(EngineKind::OnnxRuntime, None, Some("/e.so")), path("/e.so"));
        assert_eq!(library(EngineKind::OnnxRuntime, None, None), Some(system_library()));
    }

    #[test]
    fn a_missing_model_is_named() {
        let options = EngineOptions { kind: EngineKind::Rten, ..EngineOptions::default() };
        let error = load(Path::new("no/such/model.onnx"), &options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Model);
        assert!(error.message().contains("no/such/model.onnx"), "{error}");
        let error = load(Path::new(env!("CARGO_MANIFEST_DIR")), &options).err().unwrap();
        assert!(error.message().contains("is not a file"), "{error}");
        // Nothing of a sparse file of 2 TiB is read.
        let large = tempfile::NamedTempFile::new().unwrap();
        large.as_file().set_len(2 << 40).unwrap();
        let error = load(large.path(), &options).err().unwrap();
        assert!(error.message().contains("has 2199023255552 bytes"), "{error}");
    }

    #[test]
    fn inputs_are_checked_against_the_model() {
        let specs = [TensorSpec {
            name: "images".into(),
            element: Some(ElementType::F32),
            shape: Some(vec![Dim::Fixed(1), Dim::Dynamic]),
        }];
        let values = [0.0_f32; 6];
        let view = |shape| TensorView::new(shape, TensorValues::F32(&values)).unwrap();
        assert!(check_inputs(&specs, &[view(&[1, 6])]).is_ok());
        assert!(check_inputs(&specs, &[]).is_err());
        assert!(check_inputs(&specs, &[view(&[1, 6]), view(&[1, 6])]).is_err());
        assert!(check_inputs(&specs, &[view(&[6])]).is_err());
        let error = check_inputs(&specs, &[view(&[2, 3])]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Inference);
        assert_eq!(error.message(), "input images f32 [1, ?] does not fit f32 [2, 3]");
        let integers = TensorView::new(&[1, 2], TensorValues::I32(&[1, 2])).unwrap();
        assert!(check_inputs(&specs, &[integers]).is_err());
    }
}
