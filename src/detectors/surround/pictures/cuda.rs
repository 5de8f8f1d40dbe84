//! Pictures on a GPU.

use super::{Key, Prepared, image, no_camera, view_of};
use crate::detectors::frame_stream::Running;
use crate::detectors::picture_uploads::{MIN_PICTURE_BYTES, PictureUploads};
use crate::detectors::stopwatch::Stopwatch;
use crate::detectors::surround::cameras::{Camera, Cameras, named};
use crate::detectors::{FrameInput, FrameSet, MAX_INPUTS};
use crate::device::cuda::{DeviceImage, DeviceTensor, InPlaceUploads, Stream, UploadScope};
use crate::error::{Error, Result};
use crate::ops::resample::ResampleParams;
use crate::ops::resample::cuda::{DeviceMap, Kernels, enqueue_resample};
use crate::types::{JpegOptions, Stage};

/// The stages of a picture that is prepared on arrival.
const STAGES: [Stage; 2] = [Stage::Upload, Stage::Letterbox];

/// The images of all cameras on the device, and what writes them into the input of the
/// backbone.
pub(in crate::detectors::surround) struct Pictures {
    stream: Stream,
    images: Vec<DeviceImage>,
    received: PictureUploads,
    kernels: Kernels,
    params: ResampleParams,
    prepared: Prepared<DeviceTensor>,
    stopwatch: Stopwatch,
}

impl Pictures {
    /// Pictures of cameras without images so far.
    pub(in crate::detectors::surround) fn new(
        stream: &Stream,
        num_cameras: usize,
        jpeg: &JpegOptions,
        params: ResampleParams,
    ) -> Result<Self> {
        let image = |_| DeviceImage::with_capacity(stream, MIN_PICTURE_BYTES);
        Ok(Self {
            stream: stream.clone(),
            images: (0..num_cameras).map(image).collect::<Result<_>>()?,
            received: PictureUploads::new(stream, jpeg)?,
            kernels: Kernels::load(stream.device())?,
            params,
            prepared: Prepared::new(num_cameras),
            stopwatch: Stopwatch::new(stream, &STAGES, |_| stream.clone())?,
        })
    }

    /// Prepares the picture of a message for an input [N, 3, H, W] of the backbone, and waits
    /// for it: the message is borrowed until then.
    ///
    /// # Errors
    /// Those of decompression; `Device` when the GPU fails.
    pub(in crate::detectors::surround) fn prepare<'env>(
        &mut self,
        index: usize,
        message: &FrameInput<'env>,
        camera: &Camera<DeviceMap>,
        uploads: &InPlaceUploads,
        input: &DeviceTensor,
    ) -> Result<()> {
        let Self { stream, images, received, kernels, params, prepared, stopwatch } = self;
        let target = images.get_mut(index).ok_or_else(|| no_camera(index))?;
        let make = || {
            let mut shape = input.shape().to_vec();
            if let [.., num_pictures, _, _, _] = &mut shape[..] {
                *num_pictures = 1;
            }
            DeviceTensor::zeros(stream, input.element(), &shape)
        };
        prepared.fill(index, Key::new(message, camera), make, |picture, report| {
            let image = image(message)?;
            uploads.scope(|scope: &UploadScope<'_, 'env>| {
                let pending = received.receive(target, image, report)?;
                stopwatch.start()?;
                let images = std::slice::from_mut(target);
                received.enqueue(images, &mut [Some(pending)], (scope, report), |_, e| e)?;
                stopwatch.end_of(Stage::Upload)?;
                enqueue_resample(stream, kernels, target, &camera.map, params, 0, picture)?;
                stopwatch.end_of(Stage::Letterbox)?;
                stream.synchronize()?;
                stopwatch.add_to(report)
            })
        })
    }

    /// Discards prepared pictures.
    pub(in crate::detectors::surround) fn forget(&mut self) {
        self.prepared.clear();
    }

    /// Queues the writing of the pictures of a frame into the input of the backbone: one
    /// upload per picture that was not prepared; JPEG files are decoded at once where the GPU
    /// has engines for them. A camera that the frame lacks keeps its old picture.
    ///
    /// # Errors
    /// Those of decompression, with the name of the camera; `Device` when the GPU fails.
    pub(in crate::detectors::surround) fn enqueue<'env>(
        &mut self,
        frame: &FrameSet<'env>,
        cameras: &Cameras<DeviceMap>,
        running: &mut Running<'_, 'env>,
        input: &mut DeviceTensor,
    ) -> Result<()> {
        let Self { stream, images, received, kernels, params, prepared, .. } = self;
        let mut pending = [const { None }; MAX_INPUTS];
        for ((index, image), camera) in images.iter_mut().enumerate().zip(cameras.iter()) {
            if matches!(frame.inputs.get(index), Some(None)) {
                continue;
            }
            let message = frame.input(index)?;
            let of_camera = |error: Error| named(index, message, &error);
            let camera = view_of(camera).map_err(of_camera)?;
            if prepared.get(index, Key::new(message, camera)).is_none() {
                let image = received.receive(image, frame.image(index)?, running.report);
                pending[index] = Some(image.map_err(of_camera)?);
            }
        }
        running.upload_by(|scope, report| {
            received.enqueue(images, &mut pending, (scope, report), |index, error| {
                match frame.input(index) {
                    Ok(message) => named(index, message, &error),
                    Err(_) => error,
                }
            })
        })?;
        for (index, (image, pending)) in images.iter().zip(&pending).enumerate() {
            if pending.is_some() {
                let camera = view_of(cameras.get(index))?;
                enqueue_resample(stream, kernels, image, &camera.map, params, index, input)?;
                continue;
            }
            let message = frame.inputs.get(index).and_then(Option::as_ref);
            let Some((message, camera)) = message.zip(cameras.get(index)) else { continue };
            if let Some((picture, earlier)) = prepared.get(index, Key::new(message, camera)) {
                running.report.merge(earlier);
                input.enqueue_part(index, picture)?;
            }
        }
        running.end_of(Stage::Letterbox)
    }
}
