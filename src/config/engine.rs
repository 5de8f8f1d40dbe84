//! The engine of a channel's networks.

use std::path::PathBuf;

use super::declaration::Change::Fixed;
use super::reader::Reader;
use super::value::{flag, integer, one_of, text, usage};
use det_post_types::{DeviceChoice, EngineKind, EngineOptions, GpuEngineOptions, Provider};

const KINDS: &[(&str, EngineKind)] = &[
    ("auto", EngineKind::Auto),
    ("rten", EngineKind::Rten),
    ("onnxruntime", EngineKind::OnnxRuntime),
];
const KINDS_OF_CAMERAS: &[(&str, EngineKind)] = &[
    ("auto", EngineKind::Auto),
    ("rten", EngineKind::Rten),
    ("onnxruntime", EngineKind::OnnxRuntime),
    ("external", EngineKind::External),
];
const PROVIDERS: &[(&str, Provider)] = &[
    ("auto", Provider::Auto),
    ("cpu", Provider::Cpu),
    ("cuda", Provider::Cuda),
    ("tensorrt", Provider::TensorRt),
];

/// `model_path`, of every family.
pub(super) fn model_path(p: &mut Reader<'_>) -> PathBuf {
    p.required("model_path", text(), "Path of the network, an ONNX file.").into()
}

/// The parameters `engine.*`.
pub(super) fn engine(p: &mut Reader<'_>) -> EngineOptions {
    let kind = p.value(
        "engine.kind",
        Fixed,
        one_of(KINDS),
        "auto",
        "Engine that runs the network. `auto`: ONNX Runtime when its library is found, else the \
         embedded rten.",
    );
    options(p, kind)
}

/// The parameters `engine.*` of a channel whose network may run elsewhere.
pub(super) fn engine_or_external(p: &mut Reader<'_>) -> EngineOptions {
    let kind = p.value(
        "engine.kind",
        Fixed,
        one_of(KINDS_OF_CAMERAS),
        "auto",
        "Engine that runs the network. `auto`: ONNX Runtime when its library is found, else the \
         embedded rten. `external`: none; the input is a topic of \
         isaac_ros_tensor_list_interfaces/TensorList with the tensors that the head names in \
         `output_names`, which are decoded on the CPU.",
    );
    options(p, kind)
}

fn options(p: &mut Reader<'_>, kind: EngineKind) -> EngineOptions {
    EngineOptions {
        kind,
        library: p
            .optional(
                "engine.library",
                Fixed,
                text(),
                "`ORT_DYLIB_PATH`, then the system's",
                "Path of the ONNX Runtime library. Code of this library runs in the node: name no file \
                 that you do not trust.",
            )
            .map(PathBuf::from),
        threads: Some(p.value(
            "engine.threads",
            Fixed,
            integer(0..=1024),
            0,
            "Threads that a network uses at most; 0 leaves the choice to the engine.",
        ))
        .filter(|&threads| threads > 0),
        gpu: GpuEngineOptions {
            provider: p.value(
                "engine.provider",
                Fixed,
                one_of(PROVIDERS),
                "auto",
                "Execution provider of a channel on a GPU. `cuda`, `tensorrt`: that provider of ONNX \
                 Runtime. `cpu`: the CPU; every input and output is copied. `auto`: `cuda` when the \
                 library has it, else `cpu`.",
            ),
            cuda_graph: p.value(
                "engine.cuda_graph",
                Fixed,
                usage(),
                "auto",
                "Whether a network on a GPU is captured into a CUDA graph. `auto`: when all of it runs \
                 there.",
            ),
            channels_last: p.value(
                "engine.channels_last",
                Fixed,
                usage(),
                "auto",
                "Whether the provider `cuda` keeps feature maps with the channels side by side (NHWC) and adds \
                 the bias within a convolution, which is faster. `auto`: with `fp16` or `tf32`, when the \
                 network loads so.",
            ),
            tf32: p.value(
                "engine.tf32",
                Fixed,
                flag(),
                true,
                "Whether a GPU may round factors of 32-bit floats to TF32 (10 bits of mantissa), which is \
                 faster and keeps about three decimal digits.",
            ),
            fp16: p.value(
                "engine.fp16",
                Fixed,
                flag(),
                false,
                "Whether a GPU computes in 16-bit floats. `cuda`: convolutions and what lies between them, \
                 converted when the network is loaded. `tensorrt`: what TensorRT chooses. The CPU uses the \
                 types of the file.",
            ),
            cache_folder: p
                .optional(
                    "engine.cache_folder",
                    Fixed,
                    text(),
                    "none: TensorRT builds its engine at every start",
                    "Folder in which TensorRT keeps the engines that it builds.",
                )
                .map(PathBuf::from),
        },
    }
}

/// Refuses an engine that cannot run where the channel runs.
pub(super) fn check_engine(p: &mut Reader<'_>, engine: &EngineOptions, device: DeviceChoice) {
    let EngineOptions { kind, gpu, .. } = engine;
    if *kind == EngineKind::External && matches!(device, DeviceChoice::Cuda(_)) {
        let found = format!("\"external\" with the device {device}");
        p.refuse("engine.kind", found, "it on the devices auto, cpu: tensors are decoded there");
    }
    let provider = match gpu.provider {
        Provider::Auto | Provider::Cpu => None,
        Provider::Cuda => Some("cuda"),
        Provider::TensorRt => Some("tensorrt"),
    };
    if let Some(provider) = provider {
        if device == DeviceChoice::Cpu {
            let found = format!("{provider:?} with the device cpu");
            p.refuse("engine.provider", found, "auto, cpu; or a device cuda:N");
        }
        if *kind == EngineKind::Rten {
            let found = format!("{provider:?} with the engine rten");
            p.refuse("engine.provider", found, "auto, cpu; or the engine onnxruntime");
        }
    }
    let is_on_cpu = device == DeviceChoice::Cpu || gpu.provider == Provider::Cpu;
    if gpu.fp16 && (is_on_cpu || *kind == EngineKind::Rten) {
        p.refuse("engine.fp16", "true", "it with ONNX Runtime on a GPU");
    }
    if let Some(folder) = &gpu.cache_folder
        && gpu.provider != Provider::TensorRt
    {
        let allowed = "it with engine.provider tensorrt only";
        p.refuse("engine.cache_folder", format!("{folder:?}"), allowed);
    }
}
