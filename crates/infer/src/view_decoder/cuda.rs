//! A view decoder of either family on a GPU.

use half::f16;

use super::{CachedAnchors, View, ViewNetwork, detr3d, no_memory, sparse4d};
use det_post_ops::decode::query::cuda::DeviceQueries;
use det_post_ops::device::cuda::{DeviceBuffer, Stream};
use det_post_ops::view::sample::cuda::DeviceMaps;
use det_post_types::{Motion, Result, ViewPrecision};

/// A view decoder on a GPU, in f32 or f16.
pub struct CudaViewDecoder {
    family: Family,
}

enum Family {
    Detr3dF32(Box<detr3d::CudaDecoder<f32>>),
    Detr3dF16(Box<detr3d::CudaDecoder<f16>>),
    Sparse4dF32(Box<sparse4d::CudaDecoder<f32>>),
    Sparse4dF16(Box<sparse4d::CudaDecoder<f16>>),
}

/// Calls a method of the decoder of any family.
macro_rules! of_family {
    ($family:expr, $decoder:ident => $call:expr) => {
        match $family {
            Family::Detr3dF32($decoder) => $call,
            Family::Detr3dF16($decoder) => $call,
            Family::Sparse4dF32($decoder) => $call,
            Family::Sparse4dF16($decoder) => $call,
        }
    };
}

impl CudaViewDecoder {
    /// A decoder without views: it sees nothing until they are set. [`ViewPrecision::Auto`] is
    /// f16.
    ///
    /// # Errors
    /// `Model` when the network is larger than the kernels; `Device` when this build has none,
    /// the GPU has too little shared memory, or there is not enough memory.
    pub fn new(stream: &Stream, network: &ViewNetwork, precision: ViewPrecision) -> Result<Self> {
        let is_exact = precision == ViewPrecision::F32;
        let family = match network.clone() {
            ViewNetwork::Detr3d(network) if is_exact => {
                Family::Detr3dF32(Box::new(detr3d::CudaDecoder::new(stream, network)?))
            }
            ViewNetwork::Detr3d(network) => {
                Family::Detr3dF16(Box::new(detr3d::CudaDecoder::new(stream, network)?))
            }
            ViewNetwork::Sparse4d(network) if is_exact => {
                Family::Sparse4dF32(Box::new(sparse4d::CudaDecoder::new(stream, network)?))
            }
            ViewNetwork::Sparse4d(network) => {
                Family::Sparse4dF16(Box::new(sparse4d::CudaDecoder::new(stream, network)?))
            }
        };
        Ok(Self { family })
    }

    /// Whether frames use those before: [`Self::enqueue`] then has two forms.
    pub fn has_memory(&self) -> bool {
        matches!(self.family, Family::Sparse4dF32(_) | Family::Sparse4dF16(_))
    }

    /// Replaces the views of the next frames. Waits for nothing.
    ///
    /// # Errors
    /// `Argument` when there are not as many as the network has, or a matrix is not finite;
    /// `Device` when a copy or a launch fails.
    pub fn set_views(&mut self, views: &[View]) -> Result<()> {
        of_family!(&mut self.family, decoder => decoder.set_views(views))
    }

    /// Begins a frame and returns whether it uses the memory, which a frame without a motion
    /// forgets. A network without a memory never does.
    ///
    /// # Errors
    /// `Device` when a copy fails.
    pub fn begin(&mut self, motion: Option<&Motion>) -> Result<bool> {
        match &mut self.family {
            Family::Detr3dF32(_) | Family::Detr3dF16(_) => Ok(false),
            Family::Sparse4dF32(decoder) => decoder.begin(motion),
            Family::Sparse4dF16(decoder) => decoder.begin(motion),
        }
    }

    /// Queues a frame that was begun. Its launches are always the same for the same maps and
    /// `uses_memory`: they can be recorded.
    ///
    /// # Errors
    /// `Argument` when the maps are not of the network's views, levels and channels, or no
    /// kernel reads their texels; `Device` when a launch fails.
    pub fn enqueue<'m>(
        &mut self,
        maps: impl Into<DeviceMaps<'m>>,
        uses_memory: bool,
    ) -> Result<()> {
        let maps = &maps.into();
        match &mut self.family {
            Family::Detr3dF32(decoder) => decoder.enqueue(maps),
            Family::Detr3dF16(decoder) => decoder.enqueue(maps),
            Family::Sparse4dF32(decoder) => decoder.enqueue(maps, uses_memory),
            Family::Sparse4dF16(decoder) => decoder.enqueue(maps, uses_memory),
        }
    }

    /// What the last frame gives, for a kernel to read.
    ///
    /// # Errors
    /// `Device` for a stream other than the decoder's.
    pub fn queries(&self, stream: &Stream) -> Result<DeviceQueries<'_>> {
        of_family!(&self.family, decoder => decoder.queries(stream))
    }

    /// Forgets the frames before.
    pub fn forget(&mut self) {
        match &mut self.family {
            Family::Detr3dF32(_) | Family::Detr3dF16(_) => {}
            Family::Sparse4dF32(decoder) => decoder.forget(),
            Family::Sparse4dF16(decoder) => decoder.forget(),
        }
    }

    /// Queues copies of boxes `[Q, 11]`, class logits `[Q, classes]` and, where the network has them,
    /// logits of centreness and yawness `[Q, 2]` of the last frame to buffers of these lengths.
    ///
    /// # Errors
    /// `Argument` for a buffer of another length; `Device` for one of another stream, or when a copy fails.
    pub fn enqueue_outputs(&self, outputs: &mut QueryBuffers) -> Result<()> {
        match &self.family {
            Family::Detr3dF32(decoder) => decoder.enqueue_outputs(outputs),
            Family::Detr3dF16(decoder) => decoder.enqueue_outputs(outputs),
            Family::Sparse4dF32(decoder) => decoder.enqueue_outputs(outputs),
            Family::Sparse4dF16(decoder) => decoder.enqueue_outputs(outputs),
        }
    }

    /// Waits, then copies the memory; `None` for a network without one, and when there was no frame
    /// before.
    ///
    /// # Errors
    /// `Device` when earlier work or a copy fails.
    pub fn memory(&self) -> Result<Option<CachedAnchors>> {
        match &self.family {
            Family::Detr3dF32(_) | Family::Detr3dF16(_) => Ok(None),
            Family::Sparse4dF32(decoder) => decoder.memory(),
            Family::Sparse4dF16(decoder) => decoder.memory(),
        }
    }

    /// Replaces the memory, as if the frame before had left this one, and waits.
    ///
    /// # Errors
    /// `Argument` for a network without a memory, or one of another size; `Device` when a copy fails.
    pub fn set_memory(&mut self, memory: &CachedAnchors) -> Result<()> {
        let CachedAnchors { boxes, features, confidence } = memory;
        match &mut self.family {
            Family::Detr3dF32(_) | Family::Detr3dF16(_) => Err(no_memory()),
            Family::Sparse4dF32(decoder) => {
                memory.check(decoder.facts())?;
                decoder.set_memory(features, boxes, confidence)
            }
            Family::Sparse4dF16(decoder) => {
                memory.check(decoder.facts())?;
                decoder.set_memory(features, boxes, confidence)
            }
        }
    }
}

/// Where [`CudaViewDecoder::enqueue_outputs`] copies to.
#[derive(Debug)]
pub struct QueryBuffers {
    /// `[Q, 11]`.
    pub boxes: DeviceBuffer<f32>,
    /// `[Q, classes]`.
    pub logits: DeviceBuffer<f32>,
    /// `[Q, 2]`; `None` where the network has none.
    pub quality: Option<DeviceBuffer<f32>>,
}
