//! What differs from one family of heads to another: the networks behind the backbone.

use std::sync::{Arc, Mutex};

use super::matrices::RigMatrices;
use super::{MapStatistics, STAGE, Step};
use crate::config::SurroundConfig;
use det_post_infer::Engine;
#[cfg(feature = "cuda")]
use det_post_infer::device::DeviceEngine;
#[cfg(feature = "cuda")]
use det_post_ops::device::cuda::Stream;
use det_post_types::{
    Candidates, Error, ErrorKind, FrameReport, Object3d, Result, Size, Stamp, TensorSpec,
};

/// What turns the feature maps of a backbone into candidates: `dyn Engine` on the CPU,
/// `DeviceEngine` in the memory of a GPU.
pub(super) trait Decoder<Backbone: ?Sized>: Send {
    /// Runs the networks on a frame, or queues them on the backbone's stream.
    ///
    /// # Errors
    /// `Argument` for matrices that the networks do not take; `Inference` when a network fails or
    /// the maps have other shapes than the head states; `Device` when the GPU fails.
    fn enqueue(&mut self, frame: &DecoderFrame<'_, Backbone>) -> Result<()>;

    /// Replaces the candidates with those of the last frame, and adds what this took to the
    /// report. On a GPU this waits for the frame, once.
    ///
    /// # Errors
    /// `Argument` when thresholds are for another number of classes; `Device` when the GPU has
    /// failed.
    fn read(
        &mut self,
        candidates: &mut Candidates<Object3d>,
        report: &mut FrameReport,
    ) -> Result<()>;

    /// Takes thresholds and limits of another configuration.
    ///
    /// # Errors
    /// `Argument` for more candidates than a GPU can choose; `Device` when there is not enough
    /// memory.
    fn reconfigure(&mut self, config: &SurroundConfig, backbone: &Backbone) -> Result<()>;

    /// Forgets past frames. The next step is [`Step::First`].
    fn reset(&mut self);

    /// Runs everything once on the outputs of the backbone. Keeps no state but `candidates`, which
    /// the next frame replaces.
    ///
    /// # Errors
    /// As [`Self::enqueue`] and [`Self::read`].
    fn warm_up(&mut self, backbone: &Backbone, candidates: &mut Candidates<Object3d>)
    -> Result<()>;

    /// The kernels of a frame without memory behind the backbone, in order, on a GPU: for tests.
    #[cfg(feature = "cuda")]
    fn kernels(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Measures the feature maps of the next frames instead of decoding them.
    ///
    /// # Errors
    /// `Argument` when the decoder does not sample feature maps, or they are int8.
    fn measure_maps(&mut self, _statistics: Arc<Mutex<MapStatistics>>) -> Result<()> {
        let message = "heads of this kind sample no feature maps, so there is none to measure";
        Err(Error::new(ErrorKind::Argument, STAGE, message))
    }
}

/// What a decoder reads of a frame.
pub(super) struct DecoderFrame<'a, Backbone: ?Sized> {
    /// Its outputs are the feature maps.
    pub(super) backbone: &'a Backbone,
    pub(super) matrices: &'a RigMatrices,
    pub(super) stamp: Stamp,
    /// From the previous frame to this one.
    pub(super) step: Step,
}

/// The loaded networks of a head.
pub struct Networks<Backbone: ?Sized> {
    pub(super) backbone: Box<Backbone>,
    pub(super) decoder: Box<dyn Decoder<Backbone>>,
    /// The number of cameras that they take.
    pub(super) num_cameras: usize,
    /// The size of the images that the backbone takes.
    pub(super) input_size: Size,
    /// Whether the backbone takes the images of all cameras as one batch of 1.
    pub(super) has_batch: bool,
}

/// A family of heads, with the paths and options of a configuration.
pub(super) trait Family {
    /// Loads backbone and decoder for the CPU.
    ///
    /// # Errors
    /// As [`super::open`].
    fn load_on_cpu(&self) -> Result<Networks<dyn Engine>>;

    /// Loads backbone and decoder for a GPU, whose stream runs them.
    ///
    /// # Errors
    /// As [`super::open`].
    #[cfg(feature = "cuda")]
    fn load_on_gpu(&self, stream: &Stream) -> Result<Networks<DeviceEngine>>;
}

/// Whether an input has a dimension for the batch, [1, N, 3, H, W]; `unless_stated` if the file
/// states no shape.
pub(super) fn has_batch(input: Option<&TensorSpec>, unless_stated: bool) -> bool {
    let shape = input.and_then(|spec| spec.shape.as_ref());
    shape.map_or(unless_stated, |shape| shape.len() == 5)
}
