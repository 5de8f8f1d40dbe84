//! The decoders of surround heads on arrays: feature maps and the matrices of cameras in, the boxes and
//! logits of all queries out, before any threshold.
//!
//! | | [`Queries::boxes`], a row a query | decoded by |
//! |---|---|---|
//! | `detr3d`, `sparse4d` | 11: centre in metres, logarithms of three extents, sine and cosine of the yaw, velocity x, y, z | [`decode_query`](det_post_ops::decode::query::decode_query()) |
//! | `streampetr` | 10: as the head gives them | [`decode_streampetr`](det_post_ops::decode::streampetr::decode_streampetr()) |
//!
//! Maps are the outputs of a backbone, as a channel of the same configuration takes them. The backbone is
//! not run; it is loaded only for a head of kind `streampetr` that states no number of cameras or
//! no size of images.
//!
//! **Memory.** A decoder keeps the memory of the last frame. [`ViewDecoder::memory`] copies it,
//! [`ViewDecoder::set_memory`] replaces it: one decoder serves several vehicles. A frame without a motion
//! begins with an empty one, and so does the frame after one that failed.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod memory;
mod setup;
mod types;

pub use types::{ArrayCamera, MemoryPart, Queries, ViewSizes};

use self::memory::Memory;
use self::setup::{backbone_tensors, matrices_of, sizes_of_views};
use self::types::{STREAMPETR_BOX, argument, argument_error};
use super::matrices::RigMatrices;
use super::streampetr::{Specs, StreamPetrFamily};
use super::{Step, ViewFamily};
use crate::config::{SurroundConfig, SurroundDecoder};
#[cfg(feature = "cuda")]
use det_post_infer::view_decoder::QueryBuffers;
use det_post_ops::device::Device;
#[cfg(feature = "cuda")]
use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_types::{Result, Stamp, TensorView};

/// A decoder of feature maps on arrays.
pub struct ViewDecoder {
    sizes: ViewSizes,
    /// Rows of the memory, and their channels.
    memory: [usize; 2],
    matrices: RigMatrices,
    has_cameras: bool,
    /// The sum of the intervals: the time of the last frame.
    clock: Stamp,
    /// Whether there is a memory.
    has_past: bool,
    network: Network,
}

/// The networks behind the backbone.
enum Network {
    Cpu(Box<cpu::Network>),
    #[cfg(feature = "cuda")]
    Cuda(Box<cuda::Network>),
}

impl ViewDecoder {
    /// Loads the decoder of a configuration.
    ///
    /// # Errors
    /// `Model` when a file cannot be loaded or does not fit its head; `Argument` for settings that the
    /// device does not take; `Device` when there is not enough memory.
    pub fn open(config: &SurroundConfig, device: &Device) -> Result<Self> {
        let (network, sizes, memory) = match (&config.decoder, device) {
            (SurroundDecoder::Views { .. }, _) => {
                let family = ViewFamily::of(config)?;
                let weights = family.network()?;
                let (sizes, memory) = sizes_of_views(&family, &weights)?;
                let network = match device {
                    Device::Cpu => {
                        Network::Cpu(Box::new(cpu::Network::of_views(&family, &weights)?))
                    }
                    #[cfg(feature = "cuda")]
                    Device::Cuda(gpu) => Network::Cuda(Box::new(cuda::Network::of_views(
                        &gpu.stream()?,
                        &family,
                        &weights,
                    )?)),
                };
                (network, sizes, memory)
            }
            (SurroundDecoder::StreamPetr { .. }, _) => {
                let family = StreamPetrFamily::of(config)?;
                let [inputs, outputs] = backbone_tensors(config)?;
                let backbone = Specs { inputs: &inputs, outputs: &outputs };
                let network = match device {
                    Device::Cpu => {
                        Network::Cpu(Box::new(cpu::Network::of_streampetr(&family, backbone)?))
                    }
                    #[cfg(feature = "cuda")]
                    Device::Cuda(gpu) => Network::Cuda(Box::new(cuda::Network::of_streampetr(
                        &gpu.stream()?,
                        &family,
                        backbone,
                    )?)),
                };
                let lengths = network.lengths().ok_or_else(|| argument_error("no StreamPETR"))?;
                let sizes = ViewSizes {
                    num_cameras: lengths.num_cameras,
                    input_size: lengths.input_size,
                    num_maps: 1,
                    num_queries: lengths.num_queries,
                    num_classes: config.facts.class_names.len(),
                    box_len: STREAMPETR_BOX,
                    has_quality: false,
                    has_memory: true,
                    needs_intrinsics: true,
                };
                (network, sizes, [lengths.memory, lengths.num_channels])
            }
        };
        Ok(Self {
            sizes,
            memory,
            matrices: RigMatrices::new(sizes.num_cameras),
            has_cameras: false,
            clock: Stamp::default(),
            has_past: false,
            network,
        })
    }

    /// The lengths of its arrays.
    pub fn sizes(&self) -> &ViewSizes {
        &self.sizes
    }

    /// Replaces the cameras of the next frames: after a change of calibration, and when one is missing.
    ///
    /// # Errors
    /// `Argument` for another number, a matrix that is not finite, and where intrinsic matrices are
    /// needed, for a missing camera, one without, or matrices without an inverse.
    pub fn set_cameras(&mut self, cameras: &[ArrayCamera]) -> Result<()> {
        let expected = self.sizes.num_cameras;
        if cameras.len() != expected {
            return argument(format!("{} cameras; the network has {expected}", cameras.len()));
        }
        let needs_intrinsics = self.sizes.needs_intrinsics;
        let matrices = cameras.iter().enumerate().map(|(index, camera)| {
            let of_camera = matrices_of(camera, needs_intrinsics);
            of_camera.map_err(|reason| argument_error(&format!("camera {index}: {reason}")))
        });
        let matrices = matrices.collect::<Result<Vec<_>>>()?;
        for (index, (matrices, camera)) in matrices.iter().zip(cameras).enumerate() {
            self.matrices.set(index, matrices);
            self.matrices.set_present(index, camera.is_present);
        }
        self.has_cameras = true;
        Ok(())
    }

    /// Decodes a frame on the CPU: the maps in the order of the backbone's outputs, f32 or f16, and what
    /// the frame is to the one before.
    ///
    /// # Errors
    /// `Argument` before there are cameras, for another number of maps and for a decoder on a GPU;
    /// `Inference` when a map is of another shape, or a network fails. The memory is then forgotten.
    pub fn run(&mut self, maps: &[TensorView<'_>], step: Step) -> Result<Queries<'_>> {
        let step = self.begin(maps.len(), step)?;
        match &mut self.network {
            Network::Cpu(network) => network.run(&self.matrices, maps, &step, self.clock)?,
            #[cfg(feature = "cuda")]
            Network::Cuda(_) => {
                return argument("the decoder is on a GPU, the maps are not".into());
            }
        }
        self.has_past = true;
        match &self.network {
            Network::Cpu(network) => network.queries(),
            #[cfg(feature = "cuda")]
            Network::Cuda(_) => argument("the decoder is on a GPU".into()),
        }
    }

    /// The stream of a decoder on a GPU.
    #[cfg(feature = "cuda")]
    pub fn stream(&self) -> Option<&Stream> {
        match &self.network {
            Network::Cpu(_) => None,
            Network::Cuda(network) => Some(network.stream()),
        }
    }

    /// Queues a frame on a GPU, with maps of its stream, and copies of the queries to buffers of its
    /// stream. Of a head of kind `streampetr` the host waits for the queries, and the buffers are
    /// written by it.
    ///
    /// # Errors
    /// As [`Self::run`], and for a decoder on the CPU; `Device` when the GPU fails.
    #[cfg(feature = "cuda")]
    pub fn enqueue(
        &mut self,
        maps: &[DeviceTensor],
        step: Step,
        queries: &mut QueryBuffers,
    ) -> Result<()> {
        let step = self.begin(maps.len(), step)?;
        match &mut self.network {
            Network::Cpu(_) => {
                return argument("the decoder is on the CPU, the maps are not".into());
            }
            Network::Cuda(network) => {
                network.enqueue(&self.matrices, maps, &step, self.clock)?;
                network.enqueue_outputs(queries)?;
            }
        }
        self.has_past = true;
        Ok(())
    }

    /// Waits, and copies the memory of the last frame; nothing without one.
    ///
    /// # Errors
    /// `Device` when earlier work or a copy fails.
    pub fn memory(&mut self) -> Result<Vec<MemoryPart>> {
        if !self.sizes.has_memory || !self.has_past {
            return Ok(Vec::new());
        }
        let found = match &mut self.network {
            Network::Cpu(network) => network.memory(self.clock),
            #[cfg(feature = "cuda")]
            Network::Cuda(network) => network.memory(self.clock)?,
        };
        Ok(found.map_or_else(Vec::new, |memory| memory.parts(self.memory)))
    }

    /// Replaces the memory by one that [`Self::memory`] has copied, of a decoder of the same files;
    /// none for an empty list.
    ///
    /// # Errors
    /// `Argument` when a tensor is missing, unknown, of another length or not finite; `Device` when a
    /// copy fails.
    pub fn set_memory(&mut self, parts: &[(&str, &[f32])]) -> Result<()> {
        if parts.is_empty() {
            self.forget();
            return Ok(());
        }
        if !self.sizes.has_memory {
            return argument("the decoder has no memory of past frames".into());
        }
        let memory = Memory::of_parts(parts, self.sizes.needs_intrinsics, self.memory)?;
        self.has_past = false;
        match &mut self.network {
            Network::Cpu(network) => network.set_memory(memory, self.clock)?,
            #[cfg(feature = "cuda")]
            Network::Cuda(network) => network.set_memory(&memory, self.clock)?,
        }
        self.has_past = true;
        Ok(())
    }

    /// Forgets past frames.
    pub fn forget(&mut self) {
        self.has_past = false;
    }

    /// Checks a frame; what it is to the one before. Until it is decoded there is no memory.
    fn begin(&mut self, num_maps: usize, step: Step) -> Result<Step> {
        let has_past = std::mem::replace(&mut self.has_past, false);
        if !self.has_cameras {
            return argument("a frame before the cameras are set".into());
        }
        if num_maps != self.sizes.num_maps {
            let expected = self.sizes.num_maps;
            return argument(format!("{num_maps} feature maps; the head has {expected}"));
        }
        match step {
            Step::Next { elapsed, .. } if has_past => {
                let nanos = i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX);
                self.clock = Stamp::from_nanos(self.clock.nanos().saturating_add(nanos));
                Ok(step)
            }
            _ => Ok(Step::First),
        }
    }
}

impl Network {
    /// The lengths of a StreamPETR.
    fn lengths(&self) -> Option<super::streampetr::Lengths> {
        match self {
            Self::Cpu(network) => network.lengths(),
            #[cfg(feature = "cuda")]
            Self::Cuda(network) => network.lengths(),
        }
    }
}
