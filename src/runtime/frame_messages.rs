//! The messages of a frame, from its submission until its detections are passed on.

use std::sync::Arc;

use super::frame_builder::SharedMessage;
use super::message_buffer::{InputView, MessageBuffer};
use crate::detectors::{FrameInput, MAX_INPUTS};
use det_post_types::{CameraCalibration, Result};

/// By input, the calibration that the detector is given.
pub type Calibrations = [Option<Arc<CameraCalibration>>; MAX_INPUTS];

/// The messages of a frame in the buffers of its channel, which are not filled again before this
/// is dropped, and the calibrations of their sensors.
#[derive(Debug)]
pub struct FrameMessages {
    messages: [Option<SharedMessage>; MAX_INPUTS],
    calibrations: Calibrations,
    num_inputs: usize,
}

impl FrameMessages {
    /// The messages of the inputs of a frame, in their order.
    pub fn new(messages: &[Option<SharedMessage>], calibrations: Calibrations) -> Self {
        let num_inputs = messages.len().min(MAX_INPUTS);
        let messages = std::array::from_fn(|input| messages.get(input).cloned().flatten());
        Self { messages, calibrations, num_inputs }
    }

    /// The number of inputs.
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    /// The views of the messages, for [`FrameMessages::inputs`].
    ///
    /// # Errors
    /// Returns the errors of [`MessageBuffer::view`].
    pub fn views(&self) -> Result<[Option<InputView<'_>>; MAX_INPUTS]> {
        let mut views = [const { None }; MAX_INPUTS];
        for (view, message) in views.iter_mut().zip(&self.messages) {
            *view = message.as_deref().map(MessageBuffer::view).transpose()?;
        }
        Ok(views)
    }

    /// The inputs of the frame without poses, the first [`FrameMessages::num_inputs`].
    pub fn inputs<'a>(
        &'a self,
        views: &'a [Option<InputView<'a>>; MAX_INPUTS],
    ) -> [Option<FrameInput<'a>>; MAX_INPUTS] {
        std::array::from_fn(|input| {
            let calibration = self.calibrations[input].as_deref();
            views[input].as_ref().map(|view| view.input_with(calibration))
        })
    }
}
