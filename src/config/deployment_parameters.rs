//! Parameters of every channel about its device and its engine.

use super::parameters::fixed;
use super::table::Default::{Unset, Yaml};
use super::table::{Kind, Parameter, Range};

pub(super) const ENGINE_KIND: Parameter = fixed(
    "engine.kind",
    Kind::Choice(&["auto", "rten", "onnxruntime"]),
    Yaml("auto"),
    "",
    "What runs the network. `auto`: ONNX Runtime when its library is found, else the embedded rten.",
);
pub(super) const ENGINE_LIBRARY: Parameter = fixed(
    "engine.library",
    Kind::Text,
    Unset("`ORT_DYLIB_PATH`, then the system's"),
    "",
    "Path of the ONNX Runtime library.",
);
pub(super) const ENGINE_THREADS: Parameter = fixed(
    "engine.threads",
    Kind::Integer { min: 0, max: 1024 },
    Yaml("0"),
    "",
    "Threads a network may use; 0 leaves it to the engine.",
);
pub(super) const ENGINE_PROVIDER: Parameter = fixed(
    "engine.provider",
    Kind::Choice(&["auto", "cpu", "cuda", "tensorrt"]),
    Yaml("auto"),
    "",
    "What runs the network when the channel is on a GPU. `cuda`, `tensorrt`: that provider of ONNX \
     Runtime. `cpu`: the CPU, every input and output copied. `auto`: `cuda` when the library has it, \
     else `cpu`.",
);
pub(super) const ENGINE_CUDA_GRAPH: Parameter = fixed(
    "engine.cuda_graph",
    Kind::Choice(&["auto", "always", "never"]),
    Yaml("auto"),
    "",
    "Whether the network on a GPU is recorded once and launched as one. `auto`: when all of it runs \
     there.",
);
pub(super) const ENGINE_TF32: Parameter = fixed(
    "engine.tf32",
    Kind::Flag,
    Yaml("true"),
    "",
    "Whether a GPU may round factors of 32-bit floats to 10 bits of mantissa: faster, and about three \
     decimal digits.",
);
pub(super) const ENGINE_FP16: Parameter = fixed(
    "engine.fp16",
    Kind::Flag,
    Yaml("false"),
    "",
    "Whether TensorRT may compute in 16-bit floats. Other providers compute in the floats of the file.",
);
pub(super) const ENGINE_CACHE_FOLDER: Parameter = fixed(
    "engine.cache_folder",
    Kind::Text,
    Unset("none: TensorRT builds at every start"),
    "",
    "Where TensorRT keeps what it builds.",
);
pub(super) const CHANNEL_DEVICE: Parameter = fixed(
    "device",
    Kind::Text,
    Unset("the node's `device`"),
    "",
    "Where this channel's frames run: `auto`, `cpu` or `cuda:N`.",
);
pub(super) const ISOLATE: Parameter = fixed(
    "isolate",
    Kind::Flag,
    Yaml("false"),
    "",
    "Whether the channel's frames run in a process of their own. A fault of a GPU ends it for a whole \
     process: such a channel starts another and goes on, and no other channel feels it. Costs one more \
     copy of every payload, and a context of the GPU.",
);
pub(super) const FALLBACK: Parameter = fixed(
    "fallback",
    Kind::Choice(&["none", "cpu"]),
    Yaml("none"),
    "",
    "What follows when the GPU is lost to the process, or failed `max_failures` times. `none`: frames \
     are dropped, in the second case until enough failures lie outside the window. `cpu`: the channel \
     goes on with the CPU.",
);
pub(super) const MAX_FAILURES: Parameter = fixed(
    "max_failures",
    Kind::Integer { min: 1, max: 1000 },
    Yaml("3"),
    "",
    "This many failures of the GPU within `failure_window_s` are too many. After one, the frame is \
     dropped and the pipeline built again.",
);
pub(super) const FAILURE_WINDOW_S: Parameter = fixed(
    "failure_window_s",
    Kind::Number(Range::above(0.0, 86400.0)),
    Yaml("60.0"),
    "s",
    "How long a failure counts.",
);
