//! Sessions of ONNX Runtime on the GPU of a stream: the ways to load a network, the fastest first, and the
//! providers that run it.

use std::fmt;
use std::path::Path;

use ort::environment::Environment;
use ort::ep::cuda::ConvAlgorithmSearch;
use ort::ep::{self, ExecutionProvider, ExecutionProviderDispatch};
use ort::session::Session;

use super::binding::{cuda_provider, tensorrt_provider};
use crate::fp16::{self, Converted};
use crate::target_sizes;
use det_post_ops::device::cuda::Stream;
use det_post_types::{EngineOptions, Error, ErrorKind, GpuEngineOptions, Provider, Result, Usage};

const STAGE: &str = "onnxruntime";

/// The end of the name of a network that is recorded.
pub(super) const ONE_GRAPH: &str = ", one CUDA graph";

/// A way to load a network that may be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) graph: bool,
    channels_last: bool,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { graph, channels_last } = self;
        f.write_str(if *channels_last { ", channels last" } else { "" })?;
        f.write_str(if *graph { ONE_GRAPH } else { "" })
    }
}

/// The ways to try, the fastest first.
pub(super) fn ways(gpu: &GpuEngineOptions) -> Vec<Way> {
    let is_tensorrt = gpu.provider == Provider::TensorRt;
    let graphs: &[bool] = match gpu.cuda_graph {
        Usage::Always => &[true],
        Usage::Never => &[false],
        // Operators that TensorRT leaves to CUDA would be outside the graph.
        Usage::Auto if is_tensorrt => &[false],
        Usage::Auto => &[true, false],
    };
    let layouts: &[bool] = match gpu.channels_last {
        // TensorRT has its own layouts.
        _ if is_tensorrt => &[false],
        Usage::Always => &[true],
        Usage::Never => &[false],
        // Convolutions of unrounded floats are faster in the layout of the file.
        Usage::Auto if !gpu.tf32 && !gpu.fp16 => &[false],
        Usage::Auto => &[true, false],
    };
    let with =
        |&graph: &bool| layouts.iter().map(move |&channels_last| Way { graph, channels_last });
    graphs.iter().flat_map(with).collect()
}

/// Refuses a provider that the library was built without.
pub(super) fn check_provider(provider: Provider, library: &Path) -> Result<()> {
    let (name, is_there) = match provider {
        Provider::TensorRt => ("TensorRT", ep::TensorRT::is_available()),
        _ => ("CUDA", ep::CUDA::is_available()),
    };
    if is_there.unwrap_or(false) {
        return Ok(());
    }
    let library = library.display();
    Err(model_error(format!(
        "{library} was built without the {name} provider; name a library of onnxruntime-gpu, or set \
         engine.provider to cpu"
    )))
}

/// A session of the network, a file or what was made of it, on the stream.
pub(super) fn open(
    environment: &Environment,
    (model, rewritten): (&Path, Option<&[u8]>),
    options: &EngineOptions,
    stream: &Stream,
    way: Way,
) -> Result<Session> {
    let session = || -> ort::Result<Session> {
        let mut builder = Session::builder(environment)?
            .with_deterministic_compute(true)?
            .with_execution_providers(providers(options, stream, way))?;
        if let Some(num) = options.threads {
            builder = builder.with_intra_threads(num.max(1))?;
        }
        match rewritten {
            Some(bytes) => builder.commit_from_memory(bytes),
            None => builder.commit_from_file(model),
        }
    };
    session().map_err(|cause| {
        let message = format!("cannot load {}", model.display());
        model_error(message + &advice(&cause.to_string())).with_source(cause)
    })
}

/// The network in memory, where it is loaded otherwise than as it stands in the file: without
/// the suppression at its end, with a size or vectors of classes in place of an input, in 16-bit floats.
pub(super) fn rewritten(model: &Path, options: &EngineOptions) -> Result<Option<Vec<u8>>> {
    let cut = target_sizes::adapted(model, options.part, options.class_vectors.as_ref())?;
    // TensorRT has its own conversion.
    if !options.gpu.fp16 || options.gpu.provider == Provider::TensorRt {
        return Ok(cut);
    }
    let bytes = cut.map_or_else(|| read(model), Ok)?;
    let Some(half) = fp16::convert(&bytes)? else {
        tracing::info!("model {} has no convolution to run in f16", model.display());
        return Ok(Some(bytes));
    };
    let Converted { num_converted, num_nodes, num_casts, .. } = half;
    tracing::info!(
        "model {}: {num_converted} of {num_nodes} nodes in f16, {num_casts} casts",
        model.display()
    );
    Ok(Some(half.bytes))
}

fn read(model: &Path) -> Result<Vec<u8>> {
    let unreadable =
        |cause| model_error(format!("cannot read {}", model.display())).with_source(cause);
    std::fs::read(model).map_err(unreadable)
}

fn providers(
    options: &EngineOptions,
    stream: &Stream,
    Way { graph, channels_last }: Way,
) -> Vec<ExecutionProviderDispatch> {
    let gpu = &options.gpu;
    let ordinal = i32::try_from(stream.device().ordinal()).unwrap_or(i32::MAX);
    let is_tensorrt = gpu.provider == Provider::TensorRt;
    // With a graph the provider also checks that all nodes run on the GPU.
    let cuda = cuda_provider(stream)
        .with_device_id(ordinal)
        .with_tf32(gpu.tf32)
        .with_conv_algorithm_search(ConvAlgorithmSearch::Heuristic)
        .with_prefer_nhwc(channels_last)
        .with_fuse_conv_bias(channels_last)
        .with_cuda_graph(graph && !is_tensorrt);
    let mut providers = vec![cuda.build().error_on_failure()];
    if is_tensorrt {
        let mut tensorrt = tensorrt_provider(stream)
            .with_device_id(ordinal)
            .with_fp16(gpu.fp16)
            .with_cuda_graph(graph);
        if let Some(folder) = &gpu.cache_folder {
            let folder = folder.display();
            tensorrt = tensorrt
                .with_engine_cache(true)
                .with_engine_cache_path(&folder)
                .with_timing_cache(true)
                .with_timing_cache_path(&folder);
        }
        providers.insert(0, tensorrt.build().error_on_failure());
    }
    providers
}

/// How to fix a failure that ONNX Runtime reports.
fn advice(cause: &str) -> String {
    if let Some(library) = missing_library(cause) {
        let package = match library {
            name if name.starts_with("libcudnn") => "cuDNN",
            name if name.starts_with("libnvinfer") => "TensorRT",
            _ => "the CUDA toolkit",
        };
        return format!(
            ": the loader does not find {library}, which belongs to {package}; install that version \
             or add its folder to LD_LIBRARY_PATH"
        );
    }
    if cause.contains("graph capture") {
        return ": not all of it runs on the GPU; set engine.cuda_graph to auto or never".into();
    }
    String::new()
}

/// `libcudnn.so.9` of `libcudnn.so.9: cannot open shared object file …`.
fn missing_library(cause: &str) -> Option<&str> {
    let before = cause.split(": cannot open shared object file").next()?;
    if before.len() == cause.len() {
        return None;
    }
    before.rsplit([' ', ':']).next().filter(|name| name.starts_with("lib"))
}

pub(super) fn model_error(message: String) -> Error {
    Error::new(ErrorKind::Model, STAGE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_way_is_tried_first() {
        let gpu = GpuEngineOptions::default();
        let ways_of = |gpu: &GpuEngineOptions| {
            ways(gpu).iter().map(|way| (way.graph, way.channels_last)).collect::<Vec<_>>()
        };
        let all = [(true, true), (true, false), (false, true), (false, false)];
        assert_eq!(ways_of(&gpu), all);
        let exact = GpuEngineOptions { tf32: false, ..gpu.clone() };
        assert_eq!(ways_of(&exact), [(true, false), (false, false)]);
        let tensorrt = GpuEngineOptions { provider: Provider::TensorRt, ..gpu.clone() };
        assert_eq!(ways_of(&tensorrt), [(false, false)]);
        let channels_last = Usage::Always;
        let one = GpuEngineOptions { channels_last, cuda_graph: Usage::Never, ..gpu };
        assert_eq!(ways_of(&one), [(false, true)]);
        assert_eq!(ways(&one)[0].to_string(), ", channels last");
    }

    #[test]
    fn missing_libraries_are_named_with_what_they_belong_to() {
        for (cause, words) in [
            (
                "Failed to load library libonnxruntime_providers_cuda.so with error: \
                 libcublasLt.so.13: cannot open shared object file: No such file or directory",
                ["libcublasLt.so.13", "the CUDA toolkit"],
            ),
            (
                "x: libcudnn.so.9: cannot open shared object file: No such",
                ["libcudnn.so.9", "cuDNN"],
            ),
            ("libnvinfer.so.10: cannot open shared object file", ["libnvinfer.so.10", "TensorRT"]),
        ] {
            let advice = advice(cause);
            assert!(words.iter().all(|word| advice.contains(word)), "{advice}");
        }
        assert_eq!(advice("out of memory"), "");
        assert!(advice("This session cannot use the graph capture feature").contains("cuda_graph"));
    }
}
