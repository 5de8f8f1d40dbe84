//! The engine of a channel's networks.

use std::path::PathBuf;

use super::declaration::Change::Fixed;
use super::paths::PathUse::{Library, Read};
use super::reader::Reader;
use super::value::Length::OneOrMore;
use super::value::{flag, integer, list, one_of, path, text, usage};
use det_post_types::{
    DeviceChoice, EngineKind, EngineOptions, GpuEngineOptions, NetworkPart, Provider,
};

const KINDS: &[(&str, EngineKind)] = &[
    ("auto", EngineKind::Auto),
    ("rten", EngineKind::Rten),
    ("onnxruntime", EngineKind::OnnxRuntime),
    ("cuda", EngineKind::Cuda),
];
const KINDS_OF_CAMERAS: &[(&str, EngineKind)] = &[
    ("auto", EngineKind::Auto),
    ("rten", EngineKind::Rten),
    ("onnxruntime", EngineKind::OnnxRuntime),
    ("cuda", EngineKind::Cuda),
    ("external", EngineKind::External),
];
const PROVIDERS: &[(&str, Provider)] = &[
    ("auto", Provider::Auto),
    ("cpu", Provider::Cpu),
    ("cuda", Provider::Cuda),
    ("tensorrt", Provider::TensorRt),
];

const MODEL_PATH: &str = "model_path";
const MODEL_HELP: &str = "The network, an ONNX file.";

/// `model_path`, of every family.
pub(super) fn model_path(p: &mut Reader<'_>) -> PathBuf {
    p.required(MODEL_PATH, path(Read), MODEL_HELP).into()
}

/// `model_path` of a camera; empty where the network runs elsewhere.
pub(super) fn model_path_unless_external(p: &mut Reader<'_>, kind: EngineKind) -> PathBuf {
    let is_kind_unread = p.is_unread("engine.kind");
    if kind != EngineKind::External && !is_kind_unread {
        return model_path(p);
    }
    let path = p.optional(MODEL_PATH, Fixed, path(Read), "no network runs here", MODEL_HELP);
    if let Some(path) = &path {
        let allowed = "none with engine.kind external, whose tensors come from a topic";
        p.conflict(&[MODEL_PATH, "engine.kind"], format!("{path:?}"), allowed);
    }
    path.map(PathBuf::from).unwrap_or_default()
}

/// The parameters `engine.*`.
pub(super) fn engine(p: &mut Reader<'_>) -> EngineOptions {
    let kind = p.value(
        "engine.kind",
        Fixed,
        one_of(KINDS),
        "auto",
        "`auto`: on a GPU `cuda` where it covers the network; else ONNX \
         Runtime when its library is found, else rten.",
    );
    options(p, kind)
}

/// The parameters `engine.*` of a channel whose network may run elsewhere.
pub(super) fn engine_or_external(p: &mut Reader<'_>) -> EngineOptions {
    let kind = p.choice(
        "engine.kind",
        one_of(KINDS_OF_CAMERAS),
        "auto",
        "`auto`: on a GPU `cuda` where it covers the network; else ONNX \
         Runtime when its library is found, else rten. `external`: none; the input is a topic of \
         isaac_ros_tensor_list_interfaces/TensorList with the head's `output_names`.",
    );
    options(p, kind.unwrap_or(EngineKind::Auto))
}

fn options(p: &mut Reader<'_>, kind: EngineKind) -> EngineOptions {
    EngineOptions {
        kind,
        library: p
            .optional(
                "engine.library",
                Fixed,
                path(Library),
                "`ORT_DYLIB_PATH`, then the system's",
                "ONNX Runtime's library, whose code runs in the node: name only files that you \
                 trust.",
            )
            .map(PathBuf::from),
        threads: Some(p.value(
            "engine.threads",
            Fixed,
            integer(0..=1024),
            0,
            "Most threads of a network; 0: the engine's choice.",
        ))
        .filter(|&threads| threads > 0),
        gpu: gpu(p),
        study: None,
        class_vectors: None,
        part: NetworkPart::Whole,
    }
}

/// The parameters of an engine on a GPU.
fn gpu(p: &mut Reader<'_>) -> GpuEngineOptions {
    GpuEngineOptions {
        provider: p.value(
            "engine.provider",
            Fixed,
            one_of(PROVIDERS),
            "auto",
            "ONNX Runtime's execution provider on a GPU. `cpu`: inputs and outputs are copied. `auto`: \
             `cuda` where the library has it.",
        ),
        cuda_graph: p.value(
            "engine.cuda_graph",
            Fixed,
            usage(),
            "auto",
            "Whether a network is captured into a CUDA graph. `auto`: when it is all on the GPU.",
        ),
        channels_last: p.value(
            "engine.channels_last",
            Fixed,
            usage(),
            "auto",
            "Whether the provider `cuda` keeps feature maps as NHWC, which is faster. `auto`: with `fp16` \
             or `tf32`, where the network loads so.",
        ),
        tf32: p.value(
            "engine.tf32",
            Fixed,
            flag(),
            true,
            "Whether a GPU may round factors of 32-bit floats to three decimal digits, which is faster: TF32, or \
             f16 with `cuda`.",
        ),
        fp16: p.value(
            "engine.fp16",
            Fixed,
            flag(),
            false,
            "Whether a GPU computes in 16-bit floats. `cuda`: convolutions and layers between them, \
             converted at the start. `tensorrt`: what TensorRT chooses.",
        ),
        keep_f32: p
            .optional(
                "engine.keep_f32",
                Fixed,
                list(text(), OneOrMore),
                "none",
                "Nodes that `cuda` computes in 32-bit floats: names or prefixes.",
            )
            .unwrap_or_default(),
        channels_last_inputs: false,
        cache_folder: p
            .optional(
                "engine.cache_folder",
                Fixed,
                text(),
                "none: built at every start",
                "Folder of TensorRT's engines.",
            )
            .map(PathBuf::from),
    }
}

/// Refuses an engine that cannot run where the channel runs.
pub(super) fn check_engine(p: &mut Reader<'_>, engine: &EngineOptions, device: DeviceChoice) {
    let EngineOptions { kind, gpu, .. } = engine;
    if *kind == EngineKind::External && matches!(device, DeviceChoice::Cuda(_)) {
        let found = format!("\"external\" with the device {device}");
        let allowed = "the devices auto, cpu with it: tensors are decoded on the CPU";
        p.conflict(&["engine.kind", "device"], found, allowed);
    }
    if *kind == EngineKind::Cuda && device == DeviceChoice::Cpu {
        let allowed = "a device cuda:N; or the engines auto, rten, onnxruntime";
        p.conflict(&["engine.kind", "device"], "\"cuda\" with the device cpu", allowed);
    }
    let provider = match gpu.provider {
        Provider::Auto | Provider::Cpu => None,
        Provider::Cuda => Some("cuda"),
        Provider::TensorRt => Some("tensorrt"),
    };
    if let Some(provider) = provider {
        if device == DeviceChoice::Cpu {
            let found = format!("{provider:?} with the device cpu");
            p.conflict(&["engine.provider", "device"], found, "auto, cpu; or a device cuda:N");
        }
        if *kind == EngineKind::Rten {
            let found = format!("{provider:?} with the engine rten");
            p.refuse("engine.provider", found, "auto, cpu; or the engine onnxruntime");
        }
    }
    if *kind == EngineKind::Cuda && gpu.provider != Provider::Auto {
        let found = format!("{:?} with the engine cuda", provider.unwrap_or("cpu"));
        p.refuse("engine.provider", found, "auto; or the engine onnxruntime");
    }
    let is_on_cpu = device == DeviceChoice::Cpu || gpu.provider == Provider::Cpu;
    if gpu.fp16 && (is_on_cpu || *kind == EngineKind::Rten) {
        let allowed = "false; or ONNX Runtime (engine.kind) on a GPU (device, engine.provider)";
        p.conflict(&["engine.fp16", "device"], "true", allowed);
    }
    if !gpu.keep_f32.is_empty() && !matches!(kind, EngineKind::Auto | EngineKind::Cuda) {
        let found = format!("{:?}", gpu.keep_f32);
        p.conflict(&["engine.keep_f32", "engine.kind"], found, "none; or the engines auto, cuda");
    }
    if !gpu.keep_f32.is_empty() && gpu.provider != Provider::Auto {
        let found = format!("{:?}", gpu.keep_f32);
        p.conflict(&["engine.keep_f32", "engine.provider"], found, "none; or the provider auto");
    }
    if let Some(folder) = &gpu.cache_folder
        && gpu.provider != Provider::TensorRt
    {
        let allowed = "none; or engine.provider tensorrt";
        p.conflict(&["engine.cache_folder", "engine.provider"], format!("{folder:?}"), allowed);
    }
}
