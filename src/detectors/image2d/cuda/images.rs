//! From the image of a frame to the input of the network, on a GPU.

use super::postprocess::{DeviceBoxes, Postprocess};
use crate::detectors::frame_stream::FrameInProgress;
use crate::detectors::image_uploads::{ImageUploads, MIN_IMAGE_BYTES};
use crate::detectors::shared_jpeg::{DecodeOutcome, JpegPlace};
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, Graph, Stream};
use det_post_ops::image::letterbox::LetterboxParams;
use det_post_ops::image::letterbox::cuda::{
    Kernels as LetterboxKernels, enqueue_letterbox, enqueue_letterbox_of,
};
use det_post_ops::image::{DeviceImage, ImageLayout};
use det_post_types::{
    CompressedFormat, CompressedView, FrameReport, ImageDecoder, ImagePayload, JpegOptions, Result,
    Stage, Transfer,
};

/// The image of a frame and its letterbox, which is recorded at the first image of a
/// layout.
pub(super) struct InputImages {
    stream: Stream,
    uploads: ImageUploads,
    uploaded: DeviceImage,
    /// Where JPEG files are decoded with those of other cameras.
    pub(super) shared: Option<JpegPlace>,
    /// Whether the file of a frame waits there.
    is_waiting: bool,
    /// The image of the frame where it was decoded there, in place of `uploaded`.
    decoded: Option<(ImageLayout, DeviceBuffer<u8>)>,
    kernels: LetterboxKernels,
    params: LetterboxParams,
    /// With the layout of the image and the address of its memory; no graph for images that
    /// are read in host memory.
    pub(super) recorded: Option<((ImageLayout, u64), Option<Graph>)>,
}

impl InputImages {
    /// Works on `stream`.
    pub(super) fn new(
        stream: &Stream,
        jpeg: &JpegOptions,
        params: &LetterboxParams,
    ) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            uploads: ImageUploads::new(stream, jpeg)?,
            uploaded: DeviceImage::with_capacity(stream, MIN_IMAGE_BYTES)?,
            shared: None,
            is_waiting: false,
            decoded: None,
            kernels: LetterboxKernels::load(stream.device())?,
            params: *params,
            recorded: None,
        })
    }

    /// Keeps a file that is decoded with those of other cameras, for
    /// [`Self::upload_kept`]. Returns whether the payload is one.
    pub(super) fn keep(
        &mut self,
        payload: &ImagePayload<'_>,
        report: &mut FrameReport,
    ) -> Result<bool> {
        let (Some(shared), ImagePayload::Compressed(file)) = (&self.shared, payload) else {
            return Ok(false);
        };
        self.is_waiting = report.time(Stage::Decompress, || shared.keep(file))?;
        if self.is_waiting {
            report.add_bytes(Stage::Upload, Transfer::HostCopy, file.data.len());
        }
        Ok(self.is_waiting)
    }

    /// Whether a file is kept.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Queues the upload or the decoding of the image.
    pub(super) fn upload<'env>(
        &mut self,
        payload: &ImagePayload<'env>,
        frame: &mut FrameInProgress<'_, 'env>,
    ) -> Result<()> {
        let Self { uploads, uploaded, decoded, .. } = self;
        *decoded = None;
        let pending = uploads.receive(uploaded, *payload, frame.report)?;
        frame.upload_by(|scope, report| {
            let images = std::slice::from_mut(uploaded);
            uploads.enqueue(images, &mut [Some(pending)], scope, report, |_, error| error)
        })
    }

    /// Queues the decoding of the file that is kept and of those of other cameras that wait, or
    /// lets the work after it wait for that; the upload of a file that the engines refuse.
    pub(super) fn upload_kept(&mut self, frame: &mut FrameInProgress<'_, '_>) -> Result<()> {
        let Self { uploads, uploaded, shared, is_waiting, decoded, .. } = self;
        *is_waiting = false;
        let Some(shared) = shared else { return Ok(()) };
        frame.upload_by(|scope, report| {
            match report.time(Stage::Decompress, || shared.take(uploads.stream()))? {
                DecodeOutcome::Decoded { num_bytes, layout, image } => {
                    report.add_bytes(Stage::Upload, Transfer::HostCopy, num_bytes);
                    report.add_bytes(Stage::Upload, Transfer::Upload, num_bytes);
                    report.add_images(ImageDecoder::Gpu, 1);
                    *decoded = Some((layout, image));
                    Ok(())
                }
                DecodeOutcome::Refused(data) => {
                    *decoded = None;
                    let file = CompressedView::new(CompressedFormat::Jpeg, &data);
                    let pending = uploads.decompress(uploaded, &file, report)?;
                    let images = std::slice::from_mut(uploaded);
                    uploads.enqueue(images, &mut [Some(pending)], scope, report, |_, error| error)
                }
            }
        })
    }

    /// The letterbox of the image, which the caller queues. At a new layout it is recorded, and
    /// the transform to source pixels written to the device. `None` for an image that kernels
    /// read in host memory: its letterbox is queued here.
    pub(super) fn letterbox(
        &mut self,
        input: &mut DeviceTensor,
        postprocess: &mut Postprocess<impl DeviceBoxes>,
    ) -> Result<Option<&Graph>> {
        let Self { stream, uploaded, decoded, kernels, params, recorded, .. } = self;
        let (image, is_in_place) = match decoded {
            Some((layout, image)) => ((*layout, image.address()), false),
            None => ((uploaded.layout()?, uploaded.bytes().address()), uploaded.is_in_place()),
        };
        let is_new = match recorded {
            Some((recorded_image, graph)) => {
                *recorded_image != image || graph.is_none() != is_in_place
            }
            None => true,
        };
        if is_new {
            *recorded = None;
        }
        if is_in_place {
            // The address of an image in host memory differs from frame to frame.
            let placed = enqueue_letterbox(stream, kernels, uploaded, params, input)?;
            if is_new {
                postprocess.set_placement(&placed)?;
                *recorded = Some((image, None));
            }
            return Ok(None);
        }
        if is_new {
            let mut placed = None;
            let graph = Graph::capture(stream, || {
                placed = Some(match decoded {
                    Some((layout, image)) => {
                        enqueue_letterbox_of(stream, kernels, (*layout, image), params, input)?
                    }
                    None => enqueue_letterbox(stream, kernels, uploaded, params, input)?,
                });
                Ok(())
            })?;
            if let Some(placed) = placed {
                postprocess.set_placement(&placed)?;
            }
            *recorded = Some((image, Some(graph)));
        }
        Ok(recorded.as_ref().and_then(|(_, graph)| graph.as_ref()))
    }
}
