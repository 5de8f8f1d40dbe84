//! From the image of a frame to the input of the network, on a GPU.

use super::postprocess::{DeviceBoxes, Postprocess};
use crate::detectors::frame_stream::Running;
use crate::detectors::picture_uploads::{MIN_PICTURE_BYTES, PictureUploads};
use crate::device::cuda::{DeviceImage, DeviceTensor, Graph, ImageLayout, Stream};
use crate::error::Result;
use crate::ops::letterbox::LetterboxParams;
use crate::ops::letterbox::cuda::{Kernels as LetterboxKernels, enqueue_letterbox};
use crate::types::{ImagePayload, JpegOptions};

/// The image of a frame and its letterbox, which is recorded at the first image of a
/// layout.
pub(super) struct Pictures {
    stream: Stream,
    uploads: PictureUploads,
    picture: DeviceImage,
    kernels: LetterboxKernels,
    params: LetterboxParams,
    /// With the layout of the image and the capacity of its memory; no graph for images that
    /// are read in host memory.
    pub(super) recorded: Option<((ImageLayout, usize), Option<Graph>)>,
}

impl Pictures {
    /// The second stream is the queue of uploads.
    pub(super) fn new(
        (stream, uploads): (&Stream, &Stream),
        jpeg: &JpegOptions,
        params: &LetterboxParams,
    ) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            uploads: PictureUploads::new(uploads, jpeg)?,
            picture: DeviceImage::with_capacity(uploads, MIN_PICTURE_BYTES)?,
            kernels: LetterboxKernels::load(stream.device())?,
            params: *params,
            recorded: None,
        })
    }

    /// Queues the upload or the decoding of the image.
    pub(super) fn upload<'env>(
        &mut self,
        payload: &ImagePayload<'env>,
        frame: &mut Running<'_, 'env>,
    ) -> Result<()> {
        let Self { uploads, picture, .. } = self;
        let pending = uploads.receive(picture, *payload, frame.report)?;
        frame.upload_by(|scope, report| {
            let images = std::slice::from_mut(picture);
            uploads.enqueue(images, &mut [Some(pending)], (scope, report), |_, error| error)
        })
    }

    /// Queues the letterbox of the image. At a new layout it is recorded, and the
    /// transform to source pixels written to the device.
    pub(super) fn enqueue_letterbox(
        &mut self,
        input: &mut DeviceTensor,
        postprocess: &mut Postprocess<impl DeviceBoxes>,
    ) -> Result<()> {
        let Self { stream, picture, kernels, params, recorded, .. } = self;
        // Larger memory is other memory.
        let layout = (picture.layout()?, picture.capacity());
        let is_in_place = picture.is_in_place();
        match recorded {
            Some((of, Some(graph))) if *of == layout && !is_in_place => return graph.enqueue(),
            // The address of an image in host memory differs from frame to frame.
            Some((of, None)) if *of == layout && is_in_place => {
                return enqueue_letterbox(stream, kernels, picture, params, input).map(drop);
            }
            _ => *recorded = None,
        }
        if is_in_place {
            let placed = enqueue_letterbox(stream, kernels, picture, params, input)?;
            *recorded = Some((layout, None));
            return postprocess.set_placement(&placed);
        }
        let mut placed = None;
        let graph = Graph::record(stream, || {
            placed = Some(enqueue_letterbox(stream, kernels, picture, params, input)?);
            Ok(())
        })?;
        if let Some(placed) = placed {
            postprocess.set_placement(&placed)?;
        }
        graph.enqueue()?;
        *recorded = Some((layout, Some(graph)));
        Ok(())
    }
}
