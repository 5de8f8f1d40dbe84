//! The engine of a network and its options.

use std::path::PathBuf;

use super::device::Usage;
use super::image::Size;
use super::layer_study::LayerStudy;

/// The engines, and the choice between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// On a GPU [`Self::Cuda`], where it covers the network. Else ONNX Runtime when its library is
    /// named, by [`EngineOptions::library`] or the environment variable `ORT_DYLIB_PATH`; else rten.
    #[default]
    Auto,
    /// The embedded engine in pure Rust, on the CPU.
    Rten,
    /// ONNX Runtime, loaded when the program runs.
    OnnxRuntime,
    /// Dense layers of our own, on a GPU.
    Cuda,
    /// None: the network runs elsewhere and its tensors are received.
    External,
}

/// Options of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// Which engine.
    pub kind: EngineKind,
    /// The library of ONNX Runtime; `None` takes `ORT_DYLIB_PATH`, and then,
    /// when ONNX Runtime is selected by name, the library that the loader finds.
    pub library: Option<PathBuf>,
    /// Threads the engine may use for one run; `None` leaves it to the engine.
    pub threads: Option<usize>,
    /// Options on a GPU; ignored on the CPU, unless there is a study.
    pub gpu: GpuEngineOptions,
    /// Where to write down what the layers of the network write, frame by frame. The network then
    /// runs in dense layers of our own on every device, one step after another.
    pub study: Option<LayerStudy>,
    /// The value of the second input of a network that finds classes by their vectors. Such a
    /// network does not run in dense layers of our own.
    pub class_vectors: Option<ClassVectors>,
    /// Which network of the file is loaded.
    pub part: NetworkPart,
}

/// A network of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkPart {
    /// The one that the file is: of a file with a sparse encoder, what is behind its map.
    #[default]
    Whole,
    /// The same, whose inputs of bytes take 32-bit floats: images that are not rounded.
    FloatInputs,
    /// Of a network of cameras and LiDAR, from features of images, and images of depths where it takes
    /// points, to a distribution of depths and features of pixels.
    Cameras {
        /// Cameras.
        num_cameras: usize,
        /// The images.
        image_size: Size,
    },
    /// Of a head with an output for each number of a box (`head.bbox` of NVIDIA's CUDA-BEVFusion), the network
    /// with boxes, scores and labels in place of them.
    Proposals,
}

/// A table with a vector for each class, in the order of the classes, as an input of a network.
#[derive(Clone, PartialEq, Eq)]
pub struct ClassVectors {
    num_classes: usize,
    /// f32, little-endian: comparable, and as a file of a network has them.
    bytes: Vec<u8>,
}

impl ClassVectors {
    /// A table of vectors of one length; `None` where their lengths differ, or there are none.
    pub fn new(vectors: &[Vec<f32>]) -> Option<Self> {
        let len = vectors.first()?.len();
        let is_table = len > 0 && vectors.iter().all(|vector| vector.len() == len);
        let bytes = || vectors.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        is_table.then(|| Self { num_classes: vectors.len(), bytes: bytes() })
    }

    /// The number of classes, above 0.
    pub fn num_classes(&self) -> usize {
        self.num_classes
    }

    /// The number of values of a vector, above 0.
    pub fn len_of_vector(&self) -> usize {
        self.bytes.len() / size_of::<f32>() / self.num_classes
    }

    /// All values as f32, little-endian, class by class.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for ClassVectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClassVectors({} of {} values)", self.num_classes, self.len_of_vector())
    }
}

/// What runs a network for a channel on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provider {
    /// The CUDA provider of ONNX Runtime when its library has one, else the CPU with
    /// copies of every input and output; the choice is logged.
    #[default]
    Auto,
    /// The CPU, with copies of every input and output.
    Cpu,
    /// The CUDA provider of ONNX Runtime, or an error.
    Cuda,
    /// The TensorRT provider of ONNX Runtime, and its CUDA provider for operators that
    /// TensorRT does not support, or an error.
    TensorRt,
}

/// The arithmetic of a sparse encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncoderPrecision {
    /// The default of the device: [`Self::F16`] on a GPU, [`Self::F32`] on the CPU.
    #[default]
    Auto,
    /// 32-bit floats: the same bits on every device.
    F32,
    /// Products of factors with 10 bits of mantissa, the rest in 32-bit floats.
    Tf32,
    /// Features and weights of 16-bit floats with 10 bits of mantissa, sums of 32 bits.
    F16,
    /// Features and weights of 16-bit floats with 7 bits of mantissa, sums of 32 bits.
    Bf16,
}

/// How a network runs on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuEngineOptions {
    /// What runs it.
    pub provider: Provider,
    /// Whether its kernels are recorded once and launched as one; `Auto`: when the whole network
    /// runs on the GPU, which is logged.
    pub cuda_graph: Usage,
    /// Whether the CUDA provider keeps feature maps with the channels of a pixel side by side
    /// (NHWC), with which the fast convolutions work and take a bias with them; `Auto`: with
    /// 16-bit floats or TF32, when the network loads so, which is logged.
    pub channels_last: Usage,
    /// Whether products of 32-bit floats may be rounded to 10 bits of mantissa
    /// before they are summed: faster, and about three decimal digits. [`EngineKind::Cuda`] then has
    /// 16-bit floats, which have as many.
    pub tf32: bool,
    /// Whether convolutions and what lies between them run in 16-bit floats: converted as
    /// `det_post_infer::fp16` does, or as TensorRT chooses.
    pub fp16: bool,
    /// Layers of [`EngineKind::Cuda`] that keep 32-bit floats where the others have 16: names of nodes
    /// of the file, or prefixes of names that end where a word does. So do the convolutions and
    /// products that read what they write.
    pub keep_f32: Vec<String>,
    /// Whether inputs that are maps may have their channels last, in the precision of the layers that read them:
    /// for kernels that write them so. Only [`EngineKind::Cuda`] has such inputs.
    pub channels_last_inputs: bool,
    /// Where TensorRT keeps the engines it builds; `None` builds at every start.
    pub cache_folder: Option<PathBuf>,
}

impl Default for GpuEngineOptions {
    fn default() -> Self {
        Self {
            provider: Provider::default(),
            cuda_graph: Usage::default(),
            channels_last: Usage::default(),
            tf32: true,
            fp16: false,
            keep_f32: Vec::new(),
            channels_last_inputs: false,
            cache_folder: None,
        }
    }
}
