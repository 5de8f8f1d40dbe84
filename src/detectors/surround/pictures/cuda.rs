//! Pictures on a GPU.

use super::{Key, Prepared, image, no_camera, view_of};
use crate::detectors::frame_stream::{Running, capacity_for};
use crate::detectors::stopwatch::Stopwatch;
use crate::detectors::surround::cameras::{Camera, Cameras, named};
use crate::detectors::{FrameInput, FrameSet, MAX_INPUTS};
use crate::device::cuda::{
    DeviceImage, DeviceTensor, ImageLayout, InPlaceUploads, Stream, UploadScope,
};
use crate::error::{Error, Result};
use crate::ops::decompress::decompress_into;
use crate::ops::resample::ResampleParams;
use crate::ops::resample::cuda::{DeviceMap, Kernels, enqueue_resample};
use crate::types::{
    CompressedFormat, CompressedView, FrameReport, ImagePayload, ImageView, Stage, Transfer,
};

/// The initial capacity for images, which grows by powers of two.
const MIN_PICTURE_BYTES: usize = 1 << 16;

/// The images of all cameras on the device, and what writes them into the input of the
/// backbone.
pub(in crate::detectors::surround) struct Pictures {
    stream: Stream,
    images: Vec<DeviceImage>,
    kernels: Kernels,
    params: ResampleParams,
    prepared: Prepared<DeviceTensor>,
    stopwatch: Stopwatch,
}

/// An image whose bytes are uploaded next.
#[derive(Clone, Copy)]
enum Pending<'env> {
    /// The pixels of a message.
    Raw(ImageView<'env>),
    /// Pixels that were decompressed into the page-locked memory, and their number of bytes.
    Written(ImageLayout, usize),
}

impl Pictures {
    /// Pictures of cameras without images so far.
    pub(in crate::detectors::surround) fn new(
        stream: &Stream,
        num_cameras: usize,
        params: ResampleParams,
    ) -> Result<Self> {
        let image = |_| DeviceImage::with_capacity(stream, MIN_PICTURE_BYTES);
        Ok(Self {
            stream: stream.clone(),
            images: (0..num_cameras).map(image).collect::<Result<_>>()?,
            kernels: Kernels::load(stream.device())?,
            params,
            prepared: Prepared::new(num_cameras),
            stopwatch: Stopwatch::new(stream, &[Stage::Upload, Stage::Letterbox])?,
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
        let Self { stream, images, kernels, params, prepared, stopwatch } = self;
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
                let pending = receive(target, stream, image, report)?;
                stopwatch.start()?;
                let num_copied = enqueue(target, pending, scope)?;
                report.add_bytes(Stage::Upload, Transfer::HostCopy, num_copied);
                report.add_bytes(Stage::Upload, Transfer::Upload, pending.num_bytes());
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
    /// upload per picture that was not prepared, of pixels in place or through one copy into
    /// page-locked memory, of a file from its decompression into that memory. A camera that
    /// the frame lacks keeps its old picture.
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
        let Self { stream, images, kernels, params, prepared, .. } = self;
        let mut pending = [const { None }; MAX_INPUTS];
        let mut num_bytes = 0;
        for ((index, image), camera) in images.iter_mut().enumerate().zip(cameras.iter()) {
            if matches!(frame.inputs.get(index), Some(None)) {
                continue;
            }
            let message = frame.input(index)?;
            let of_camera = |error: Error| named(index, message, &error);
            let camera = view_of(camera).map_err(of_camera)?;
            if prepared.get(index, Key::new(message, camera)).is_none() {
                let received = receive(image, stream, frame.image(index)?, running.report);
                let received = received.map_err(of_camera)?;
                num_bytes += received.num_bytes();
                pending[index] = Some((received, camera));
            }
        }
        running.upload(num_bytes, |scope| {
            let mut num_copied = 0;
            for (image, pending) in images.iter_mut().zip(&pending) {
                if let Some((pending, _)) = pending {
                    num_copied += enqueue(image, *pending, scope)?;
                }
            }
            Ok(num_copied)
        })?;
        for (index, (image, pending)) in images.iter().zip(&pending).enumerate() {
            if let Some((_, camera)) = pending {
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

impl Pending<'_> {
    fn num_bytes(&self) -> usize {
        match self {
            Self::Raw(image) => image.data().len(),
            Self::Written(_, num_bytes) => *num_bytes,
        }
    }
}

/// Reserves memory for an image, and decompresses a file into the page-locked part of it.
fn receive<'env>(
    target: &mut DeviceImage,
    stream: &Stream,
    image: ImagePayload<'env>,
    report: &mut FrameReport,
) -> Result<Pending<'env>> {
    match image {
        ImagePayload::Raw(image) => {
            reserve(target, stream, image.data().len())?;
            Ok(Pending::Raw(image))
        }
        ImagePayload::Compressed(file) => {
            let decoded = report.time(Stage::Decompress, || decompress_to(target, stream, &file));
            let (layout, num_bytes) = decoded?;
            if file.format == CompressedFormat::Jpeg {
                report.add_bytes(Stage::Decompress, Transfer::HostCopy, num_bytes);
            }
            Ok(Pending::Written(layout, num_bytes))
        }
    }
}

fn decompress_to(
    target: &mut DeviceImage,
    stream: &Stream,
    file: &CompressedView<'_>,
) -> Result<(ImageLayout, usize)> {
    let decoded = decompress_into(file, |num_bytes| {
        reserve(target, stream, num_bytes)?;
        target.slot(num_bytes)
    })?;
    Ok((ImageLayout::of(&decoded), decoded.data().len()))
}

/// Queues the upload of an image. Returns the number of bytes copied on the host.
fn enqueue<'env>(
    target: &mut DeviceImage,
    pending: Pending<'env>,
    scope: &UploadScope<'_, 'env>,
) -> Result<usize> {
    match pending {
        Pending::Raw(image) => target.enqueue_payload(&image, scope),
        Pending::Written(layout, num_bytes) => {
            target.enqueue_written(layout, num_bytes).map(|()| 0)
        }
    }
}

/// Reserves memory for an image.
fn reserve(image: &mut DeviceImage, stream: &Stream, num_bytes: usize) -> Result<()> {
    if num_bytes > image.capacity() {
        *image = DeviceImage::with_capacity(stream, capacity_for(num_bytes))?;
    }
    Ok(())
}
