//! Images on a GPU.

use super::{Key, NUM_PREPARED, Prepared, image, no_camera, view_of};
use crate::detectors::frame_stream::FrameInProgress;
use crate::detectors::image_uploads::{ImageUploads, MIN_IMAGE_BYTES};
use crate::detectors::stopwatch::Stopwatch;
use crate::detectors::surround::cameras::{Camera, Cameras, named};
use crate::detectors::{FrameInput, FrameSet, MAX_INPUTS};
use det_post_ops::device::cuda::{DeviceTensor, InPlaceUploads, Stream, UploadScope};
use det_post_ops::image::DeviceImage;
use det_post_ops::image::resample::ResampleParams;
use det_post_ops::image::resample::cuda::{DeviceMap, Kernels, enqueue_resample};
use det_post_types::{Error, FrameReport, JpegOptions, Result, Stage};

/// The stages of an image that is prepared on arrival.
const STAGES: [Stage; 2] = [Stage::Upload, Stage::Letterbox];

/// The images of all cameras on the device, and what writes them into the input of the
/// backbone.
pub(in crate::detectors) struct InputImages {
    stream: Stream,
    images: Vec<DeviceImage>,
    received: ImageUploads,
    kernels: Kernels,
    params: ResampleParams,
    prepared: Prepared,
    /// The prepared images of all cameras by slot, as the input of the backbone; allocated with the
    /// first image.
    slots: [Option<DeviceTensor>; NUM_PREPARED],
    /// Of each camera, by slot.
    stopwatches: Vec<[Stopwatch; NUM_PREPARED]>,
    /// The slots of the images that were prepared for the frame that was queued last.
    taken: Vec<Option<usize>>,
}

impl InputImages {
    /// Images of cameras without images so far.
    pub(in crate::detectors) fn new(
        stream: &Stream,
        num_cameras: usize,
        jpeg: &JpegOptions,
        params: ResampleParams,
    ) -> Result<Self> {
        let image = |_| DeviceImage::with_capacity(stream, MIN_IMAGE_BYTES);
        let stopwatch = || Stopwatch::new(stream, &STAGES, |_| stream.clone());
        let stopwatches = |_| Ok([stopwatch()?, stopwatch()?]);
        Ok(Self {
            stream: stream.clone(),
            images: (0..num_cameras).map(image).collect::<Result<_>>()?,
            received: ImageUploads::new(stream, jpeg)?,
            kernels: Kernels::load(stream.device())?,
            params,
            prepared: Prepared::new(num_cameras),
            slots: [const { None }; NUM_PREPARED],
            stopwatches: (0..num_cameras).map(stopwatches).collect::<Result<_>>()?,
            taken: vec![None; num_cameras],
        })
    }

    /// Queues the preparation of the image of a message for an input [N, 3, H, W] of the backbone, and
    /// waits until the message is no longer read.
    ///
    /// # Errors
    /// Returns the errors of decompression; `Device` when the GPU fails.
    pub(in crate::detectors::surround) fn prepare<'env>(
        &mut self,
        index: usize,
        message: &FrameInput<'env>,
        camera: &Camera<DeviceMap>,
        uploads: &InPlaceUploads,
        input: &DeviceTensor,
    ) -> Result<()> {
        let Self {
            stream, images, received, kernels, params, prepared, slots, stopwatches, ..
        } = self;
        let target = images.get_mut(index).ok_or_else(|| no_camera(index))?;
        prepared.fill(index, Key::new(message, camera), |slot, report| {
            let resampled = match &mut slots[slot] {
                Some(resampled) => resampled,
                none => none.insert(DeviceTensor::zeros(stream, input.element(), input.shape())?),
            };
            let stopwatch = &stopwatches[index][slot];
            let image = image(message)?;
            uploads.scope(|scope: &UploadScope<'_, 'env>| {
                let pending = received.receive(target, image, report)?;
                stopwatch.start()?;
                let images = std::slice::from_mut(target);
                received.enqueue(images, &mut [Some(pending)], scope, report, |_, e| e)?;
                stopwatch.end_of(Stage::Upload)?;
                enqueue_resample(stream, kernels, target, &camera.map, params, index, resampled)?;
                stopwatch.end_of(Stage::Letterbox)
            })
        })
    }

    /// Discards prepared images.
    pub(in crate::detectors) fn forget(&mut self) {
        self.prepared.clear();
    }

    /// Queues the writing of the images of a frame into the input of the backbone: one
    /// upload per image that was not prepared; JPEG files are decoded at once where the GPU
    /// has engines for them. A camera that the frame lacks keeps its old image.
    ///
    /// # Errors
    /// Returns the errors of decompression, with the name of the camera; `Device` when the GPU
    /// fails.
    pub(in crate::detectors) fn enqueue<'env>(
        &mut self,
        frame: &FrameSet<'env>,
        cameras: &Cameras<DeviceMap>,
        running: &mut FrameInProgress<'_, 'env>,
        input: &mut DeviceTensor,
    ) -> Result<()> {
        let Self { stream, images, received, kernels, params, prepared, slots, taken, .. } = self;
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
            received.enqueue(images, &mut pending, scope, report, |index, error| {
                match frame.input(index) {
                    Ok(message) => named(index, message, &error),
                    Err(_) => error,
                }
            })
        })?;
        for (index, (image, pending)) in images.iter().zip(&pending).enumerate() {
            taken[index] = None;
            if pending.is_some() {
                let camera = view_of(cameras.get(index))?;
                enqueue_resample(stream, kernels, image, &camera.map, params, index, input)?;
                continue;
            }
            let message = frame.inputs.get(index).and_then(Option::as_ref);
            let Some((message, camera)) = message.zip(cameras.get(index)) else { continue };
            if let Some((slot, earlier)) = prepared.get(index, Key::new(message, camera)) {
                running.report.merge(earlier);
                taken[index] = Some(slot);
            }
        }
        enqueue_prepared(slots, taken, input)?;
        running.end_of(Stage::Letterbox)
    }

    /// Adds the durations of the images that were prepared for the frame that was queued last, of each
    /// once, as soon as it is complete.
    ///
    /// # Errors
    /// `Device` when the GPU has failed.
    pub(in crate::detectors::surround) fn add_times(
        &mut self,
        report: &mut FrameReport,
    ) -> Result<()> {
        for (slot, stopwatches) in self.taken.iter_mut().zip(&self.stopwatches) {
            if let Some(stopwatch) = slot.and_then(|slot| stopwatches.get(slot))
                && stopwatch.is_complete()
            {
                stopwatch.add_to(report)?;
                *slot = None;
            }
        }
        Ok(())
    }
}

/// Queues copies of prepared images to their places: one for cameras beside each other whose images are
/// in the same slot.
fn enqueue_prepared(
    slots: &[Option<DeviceTensor>; NUM_PREPARED],
    taken: &[Option<usize>],
    input: &mut DeviceTensor,
) -> Result<()> {
    let len = input.shape().iter().product::<usize>() / taken.len().max(1);
    let mut start = 0;
    for run in taken.chunk_by(PartialEq::eq) {
        let end = start + len * run.len();
        if let Some(resampled) = run[0].and_then(|slot| slots[slot].as_ref()) {
            input.enqueue_copy_range(start..end, resampled)?;
        }
        start = end;
    }
    Ok(())
}
