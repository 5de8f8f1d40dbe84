//! The instances of a camera's network, which run at the same time.

use crate::detectors::{FRAMES_PER_INSTANCE, MAX_FRAMES_IN_FLIGHT};
use det_post_infer::device::DeviceEngine;
use det_post_ops::device::cuda::Stream;
use det_post_types::{Error, ErrorKind, Result};

/// The most instances.
const MAX_INSTANCES: usize = MAX_FRAMES_IN_FLIGHT.div_ceil(FRAMES_PER_INSTANCE);

// A queue for each frame, and one for each instance but the first.
const _: () = assert!(MAX_FRAMES_IN_FLIGHT + MAX_INSTANCES - 1 <= Stream::NUM_SIBLINGS);

/// Instances of one network, each in a queue of the stream, which frames in flight use in turn.
pub(super) struct Instances {
    /// One at least.
    all: Vec<DeviceEngine>,
}

impl Instances {
    pub(super) fn of_single(engine: DeviceEngine) -> Self {
        Self { all: vec![engine] }
    }

    /// The first instance: what does not depend on a frame is the same in all.
    pub(super) fn first(&self) -> &DeviceEngine {
        &self.all[0]
    }

    /// The instance of a frame in flight, with the tensors of that frame.
    ///
    /// # Errors
    /// `Argument` for a frame beyond those of [`Instances::allow`].
    pub(super) fn select(&mut self, frame: usize) -> Result<&mut DeviceEngine> {
        let num = self.all.len();
        let instance = &mut self.all[frame % num];
        instance.select(frame / num)?;
        Ok(instance)
    }

    /// Loads instances for up to `num` frames in flight; a failure is logged. Returns for how many
    /// frames there are instances. Called once, while no frame is in flight: it changes which
    /// instance is that of a frame.
    pub(super) fn allow(&mut self, num: usize, stream: &Stream) -> usize {
        let num = num.min(MAX_FRAMES_IN_FLIGHT);
        while self.all.len() < num.div_ceil(FRAMES_PER_INSTANCE) {
            match self.load(stream) {
                Ok(Some(instance)) => self.all.push(instance),
                // Networks on the host, which use all cores already, and TensorRT's have one.
                Ok(None) => break,
                Err(reason) => {
                    let len = self.all.len();
                    tracing::warn!("a network has {len} instances, not {}: {reason}", len + 1);
                    break;
                }
            }
        }
        num.min(self.all.len() * FRAMES_PER_INSTANCE)
    }

    /// Another instance, while it leaves the memory of the GPU to other channels and programs.
    fn load(&self, stream: &Stream) -> Result<Option<DeviceEngine>> {
        if !stream.device().is_half_free()? {
            let message = "less than half of the GPU's memory is free";
            return Err(Error::new(ErrorKind::Device, "detector", message));
        }
        // The queues before are those of the frames.
        let queue = stream.sibling_stream(MAX_FRAMES_IN_FLIGHT + self.all.len() - 1)?;
        self.first().duplicate(&queue)
    }

    /// Makes the tensors of a frame.
    ///
    /// # Errors
    /// Returns the errors of [`DeviceEngine::allow_in_flight`].
    pub(super) fn prepare(&mut self, frame: usize) -> Result<()> {
        let num = self.all.len();
        self.all[frame % num].allow_in_flight(frame / num + 1)
    }
}
