//! Images of messages on their way to a GPU: pixels in place or through one copy into
//! page-locked memory, compressed images by the JPEG engines of the GPU or decompressed
//! into that memory.

use crate::detectors::frame_stream::capacity_for;
use det_post_ops::device::cuda::{Stream, TransferBytes, UploadScope};
use det_post_ops::image::decompress::cuda::{JpegDecoder, layout};
use det_post_ops::image::decompress::decompress_into;
use det_post_ops::image::decompress::nvjpeg::JpegPlanes;
use det_post_ops::image::{DeviceImage, ImageLayout};
use det_post_types::{
    CompressedView, DeviceBytes, Error, FrameReport, ImageDecoder, ImagePayload, ImageView,
    JpegOptions, Result, Stage, Transfer,
};

/// The initial capacity for images, which grows by powers of two.
pub(super) const MIN_IMAGE_BYTES: usize = 1 << 16;

/// Uploads images on a stream.
pub(super) struct ImageUploads {
    stream: Stream,
    decoder: JpegDecoder,
}

/// An image that is uploaded next.
#[derive(Clone, Copy)]
pub(super) enum Pending<'env> {
    /// The pixels of a message.
    Raw(ImageView<'env>),
    /// Pixels that were decompressed into the page-locked memory, and their number of bytes.
    Written(ImageLayout, usize),
    /// Pixels in memory of another library on the GPU.
    OnDevice(ImageView<'env, DeviceBytes<'env>>),
    /// A file for the JPEG engines of the GPU.
    Jpeg(CompressedView<'env>, JpegPlanes),
}

impl ImageUploads {
    /// Uploads on `stream`.
    ///
    /// # Errors
    /// Returns the errors of [`JpegDecoder::new`].
    pub(super) fn new(stream: &Stream, options: &JpegOptions) -> Result<Self> {
        Ok(Self { stream: stream.clone(), decoder: JpegDecoder::new(stream, options)? })
    }

    /// The stream.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Reserves memory for an image, and decompresses a file for the CPU into the page-locked
    /// part of it. Memory that is too small is replaced.
    ///
    /// # Errors
    /// Returns the errors of decompression; `Device` when there is not enough memory.
    pub(super) fn receive<'env>(
        &mut self,
        target: &mut DeviceImage,
        image: ImagePayload<'env>,
        report: &mut FrameReport,
    ) -> Result<Pending<'env>> {
        match image {
            ImagePayload::Raw(image) => {
                reserve(target, &self.stream, image.data().len())?;
                Ok(Pending::Raw(image))
            }
            ImagePayload::OnDevice(image) => {
                reserve(target, &self.stream, image.data().len())?;
                Ok(Pending::OnDevice(image))
            }
            ImagePayload::Compressed(file) => match self.decoder.planes(&file) {
                Some(planes) => {
                    reserve(target, &self.stream, num_bytes(layout(&planes)))?;
                    Ok(Pending::Jpeg(file, planes))
                }
                None => self.decompress(target, &file, report),
            },
        }
    }

    /// Decompresses a file on the CPU into the page-locked part of the memory of an image.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub(super) fn decompress<'env>(
        &self,
        target: &mut DeviceImage,
        file: &CompressedView<'_>,
        report: &mut FrameReport,
    ) -> Result<Pending<'env>> {
        let decoded = report.time(Stage::Decompress, || {
            let decoded = decompress_into(file, |num_bytes| {
                reserve(target, &self.stream, num_bytes)?;
                target.slot(num_bytes)
            })?;
            Ok::<_, Error>(Pending::Written(ImageLayout::of(&decoded), decoded.data().len()))
        })?;
        report.add_images(ImageDecoder::Cpu, 1);
        Ok(decoded)
    }

    /// Queues the upload of images, those for the JPEG engines first and in one batch. If the
    /// engines refuse one of these, all are decompressed on the CPU; `named` adds the
    /// index of an image to its error.
    ///
    /// # Errors
    /// Returns the errors of decompression; `Device` when the device fails.
    pub(super) fn enqueue<'env>(
        &mut self,
        images: &mut [DeviceImage],
        pending: &mut [Option<Pending<'env>>],
        scope: &UploadScope<'_, 'env>,
        report: &mut FrameReport,
        named: impl Fn(usize, Error) -> Error,
    ) -> Result<()> {
        let is_decoded = self.decode(images, pending, scope, report)?;
        for (index, (image, pending)) in images.iter_mut().zip(pending).enumerate() {
            if let Some(Pending::Jpeg(file, _)) = *pending
                && !is_decoded
            {
                let written = self.decompress(image, &file, report);
                *pending = Some(written.map_err(|error| named(index, error))?);
            }
            let moved = match *pending {
                Some(Pending::Raw(view)) => image.enqueue_payload(&view, scope)?,
                Some(Pending::Written(layout, num_bytes)) => {
                    let num_uploaded = image.enqueue_written(layout, num_bytes, scope)?;
                    TransferBytes { num_copied: 0, num_uploaded }
                }
                Some(Pending::OnDevice(view)) => {
                    image.enqueue_copy(&view, scope)?;
                    continue;
                }
                Some(Pending::Jpeg(..)) | None => continue,
            };
            report.add_bytes(Stage::Upload, Transfer::HostCopy, moved.num_copied);
            report.add_bytes(Stage::Upload, Transfer::Upload, moved.num_uploaded);
        }
        Ok(())
    }

    /// Queues the decoding of the files for the JPEG engines. Returns whether there are none
    /// or the engines decode them.
    fn decode<'env>(
        &mut self,
        images: &mut [DeviceImage],
        pending: &[Option<Pending<'env>>],
        scope: &UploadScope<'_, 'env>,
        report: &mut FrameReport,
    ) -> Result<bool> {
        let file_of = |index: usize| match pending.get(index)?.as_ref()? {
            Pending::Jpeg(file, planes) => Some((file.data, *planes)),
            Pending::Raw(_) | Pending::Written(..) | Pending::OnDevice(_) => None,
        };
        let files = (0..pending.len()).filter_map(file_of);
        let (num_files, num_bytes) =
            files.fold((0, 0), |(num, bytes), (file, _)| (num + 1, bytes + file.len()));
        if num_files == 0 {
            return Ok(true);
        }
        let is_decoded =
            report.time(Stage::Decompress, || self.decoder.enqueue(images, file_of, scope))?;
        if is_decoded {
            if scope.is_pipelined() {
                report.add_bytes(Stage::Upload, Transfer::HostCopy, num_bytes);
            }
            report.add_bytes(Stage::Upload, Transfer::Upload, num_bytes);
            report.add_images(ImageDecoder::Gpu, num_files);
        }
        Ok(is_decoded)
    }
}

/// The bytes of an image without what may follow them.
pub(super) fn num_bytes(layout: ImageLayout) -> usize {
    layout.step * layout.encoding.num_rows(layout.size.height)
}

/// Reserves memory for an image.
pub(super) fn reserve(image: &mut DeviceImage, stream: &Stream, num_bytes: usize) -> Result<()> {
    if num_bytes > image.capacity() {
        *image = DeviceImage::with_capacity(stream, capacity_for(num_bytes))?;
    }
    Ok(())
}
