//! Which engine runs a network.

use std::path::PathBuf;

/// The engines, and the choice between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// ONNX Runtime when its library is named, by [`EngineOptions::library`]
    /// or the environment variable `ORT_DYLIB_PATH`; else rten.
    #[default]
    Auto,
    /// The embedded engine in pure Rust, on the CPU.
    Rten,
    /// ONNX Runtime, loaded when the program runs.
    OnnxRuntime,
}

/// How an engine is to be set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// Which engine.
    pub kind: EngineKind,
    /// The library of ONNX Runtime; `None` takes `ORT_DYLIB_PATH`, and then,
    /// when ONNX Runtime is asked for by name, what the system's loader finds.
    pub library: Option<PathBuf>,
    /// Threads the engine may use for one run; `None` leaves it to the engine.
    pub threads: Option<usize>,
}
