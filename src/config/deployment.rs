//! Where a channel runs, what runs its network there, and what it does when
//! that fails.

use std::path::PathBuf;
use std::time::Duration;

use super::problems::Problems;
use super::table::Values;
use crate::types::{
    CudaGraph, DeviceChoice, EngineKind, EngineOptions, FailurePolicy, Fallback, GpuEngineOptions,
    Provider,
};

/// `auto`, `cpu`, `cuda:1`
pub(super) fn device(key: &str, text: &str, problems: &mut Problems) -> DeviceChoice {
    text.parse().unwrap_or_else(|_| {
        problems.refuse(key, format!("{text:?}"), "auto, cpu, cuda:N");
        DeviceChoice::Auto
    })
}

/// The parameters `engine.*` of a channel.
pub(super) fn engine_options(values: &Values) -> EngineOptions {
    EngineOptions {
        kind: match values.text("engine.kind") {
            "rten" => EngineKind::Rten,
            "onnxruntime" => EngineKind::OnnxRuntime,
            _ => EngineKind::Auto,
        },
        library: values.optional_text("engine.library").map(PathBuf::from),
        threads: Some(values.count("engine.threads")).filter(|&threads| threads > 0),
        gpu: GpuEngineOptions {
            provider: match values.text("engine.provider") {
                "cpu" => Provider::Cpu,
                "cuda" => Provider::Cuda,
                "tensorrt" => Provider::TensorRt,
                _ => Provider::Auto,
            },
            cuda_graph: match values.text("engine.cuda_graph") {
                "always" => CudaGraph::Always,
                "never" => CudaGraph::Never,
                _ => CudaGraph::Auto,
            },
            tf32: values.flag("engine.tf32"),
            fp16: values.flag("engine.fp16"),
            cache_folder: values.optional_text("engine.cache_folder").map(PathBuf::from),
        },
    }
}

/// Refuses an engine that cannot run where the channel runs.
pub(super) fn check_engine(
    prefix: &str,
    values: &Values,
    device: DeviceChoice,
    problems: &mut Problems,
) {
    let EngineOptions { kind, gpu, .. } = engine_options(values);
    let key = |name: &str| format!("{prefix}engine.{name}");
    let provider = values.text("engine.provider");
    if matches!(gpu.provider, Provider::Cuda | Provider::TensorRt) {
        if device == DeviceChoice::Cpu {
            let found = format!("{provider:?} with the device cpu");
            problems.refuse(&key("provider"), found, "auto, cpu; or a device cuda:N");
        }
        if kind == EngineKind::Rten {
            let found = format!("{provider:?} with the engine rten");
            problems.refuse(&key("provider"), found, "auto, cpu; or the engine onnxruntime");
        }
    }
    if gpu.provider != Provider::TensorRt {
        let allowed = "it with engine.provider tensorrt only";
        if gpu.fp16 {
            problems.refuse(&key("fp16"), "true", allowed);
        }
        if let Some(folder) = &gpu.cache_folder {
            problems.refuse(&key("cache_folder"), format!("{folder:?}"), allowed);
        }
    }
}

/// The parameters of a channel about failures of its device.
pub(super) fn failure_policy(values: &Values) -> FailurePolicy {
    FailurePolicy {
        max_failures: values.count("max_failures"),
        window: Duration::from_secs_f32(values.number("failure_window_s").max(0.0)),
        fallback: match values.text("fallback") {
            "cpu" => Fallback::Cpu,
            _ => Fallback::None,
        },
    }
}
