//! Images on the CPU.

use super::{Key, NUM_PREPARED, Prepared, image, view_of};
use crate::detectors::surround::cameras::{Camera, Cameras, named};
use crate::detectors::{FrameInput, FrameSet};
use det_post_ops::image::decompress::{DecodedImage, decompress};
use det_post_ops::image::resample::{self, ResampleParams, SampleMap, resample};
use det_post_types::{
    ElementType, Error, FrameReport, ImageDecoder, ImagePayload, Result, Size, Stage, Tensor,
};

/// The input of the backbone, and what writes it.
pub(in crate::detectors) struct InputImages {
    resampler: Resampler,
    /// The images of all cameras, [N, 3, H, W].
    input: Tensor,
    prepared: Prepared,
    /// The prepared images of all cameras by slot, as the input; allocated with the first image.
    slots: [Option<Tensor>; NUM_PREPARED],
}

/// Memory and parameters of decompression and resampling.
struct Resampler {
    decompressed: DecodedImage,
    params: ResampleParams,
    workspace: resample::Workspace,
}

impl InputImages {
    /// Images of a size, all zero.
    pub(in crate::detectors) fn new(
        num_cameras: usize,
        size: Size,
        params: ResampleParams,
    ) -> Result<Self> {
        let [height, width] = [size.height, size.width].map(|n| n as usize);
        let workspace = resample::Workspace::new();
        Ok(Self {
            resampler: Resampler { decompressed: DecodedImage::new(), params, workspace },
            input: Tensor::zeros(ElementType::F32, &[num_cameras, 3, height, width])?,
            prepared: Prepared::new(num_cameras),
            slots: [const { None }; NUM_PREPARED],
        })
    }

    /// The images of the last frame, [N, 3, H, W].
    pub(in crate::detectors) fn input(&self) -> &Tensor {
        &self.input
    }

    /// Prepares the image of a message.
    ///
    /// # Errors
    /// Returns the errors of decompression and resampling.
    pub(in crate::detectors::surround) fn prepare(
        &mut self,
        index: usize,
        message: &FrameInput<'_>,
        camera: &Camera<SampleMap>,
    ) -> Result<()> {
        let Self { resampler, input, prepared, slots } = self;
        prepared.fill(index, Key::new(message, camera), |slot, report| {
            let images = match &mut slots[slot] {
                Some(images) => images,
                none => none.insert(Tensor::zeros(ElementType::F32, input.shape())?),
            };
            resampler.write(message, camera, report, index, images)
        })
    }

    /// Discards prepared images.
    pub(in crate::detectors) fn forget(&mut self) {
        self.prepared.clear();
    }

    /// Writes the images of a frame. A camera that the frame lacks keeps its old image.
    ///
    /// # Errors
    /// Returns the errors of decompression and resampling, with the name of the camera.
    pub(in crate::detectors) fn write(
        &mut self,
        frame: &FrameSet<'_>,
        cameras: &Cameras<SampleMap>,
        report: &mut FrameReport,
    ) -> Result<()> {
        let Self { resampler, input, prepared, slots } = self;
        for (index, camera) in cameras.iter().enumerate() {
            if matches!(frame.inputs.get(index), Some(None)) {
                continue;
            }
            let message = frame.input(index)?;
            let of_camera = |error: Error| named(index, message, &error);
            let camera = view_of(camera).map_err(of_camera)?;
            match prepared.get(index, Key::new(message, camera)) {
                Some((slot, earlier)) => {
                    report.merge(earlier);
                    report.time(Stage::Letterbox, || {
                        copy_image(slots[slot].as_ref(), index, input);
                    });
                }
                None => {
                    resampler.write(message, camera, report, index, input).map_err(of_camera)?
                }
            }
        }
        Ok(())
    }
}

impl Resampler {
    /// Writes the image of a message to a place in a tensor [N, 3, H, W].
    fn write(
        &mut self,
        message: &FrameInput<'_>,
        camera: &Camera<SampleMap>,
        report: &mut FrameReport,
        place: usize,
        out: &mut Tensor,
    ) -> Result<()> {
        let Self { decompressed, params, workspace } = self;
        let image = match image(message)? {
            ImagePayload::Raw(image) => image,
            ImagePayload::OnDevice(image) => return Err(image.data().refused("letterbox")),
            ImagePayload::Compressed(file) => {
                report.time(Stage::Decompress, || decompress(&file, decompressed))?;
                report.add_images(ImageDecoder::Cpu, 1);
                decompressed.view()?
            }
        };
        report
            .time(Stage::Letterbox, || resample(&image, &camera.map, params, workspace, place, out))
    }
}

/// Copies an image from the same place of another tensor, both f32 and [N, 3, H, W].
fn copy_image(from: Option<&Tensor>, index: usize, to: &mut Tensor) {
    if let (Some(Tensor::F32 { values: from, .. }), Tensor::F32 { shape, values: to }) = (from, to)
        && let [_, of_image @ ..] = &shape[..]
        && let len = of_image.iter().product::<usize>().max(1)
        && let (Some(from), Some(to)) =
            (from.chunks_exact(len).nth(index), to.chunks_exact_mut(len).nth(index))
    {
        to.copy_from_slice(from);
    }
}
