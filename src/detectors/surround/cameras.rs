//! The cameras of a rig: calibrations and matrices.

use nalgebra::{Isometry3, Matrix4};

use super::matrices::{RigMatrices, ViewMatrices};
use super::{STAGE, known};
use crate::config::SurroundConfig;
use crate::detectors::{FrameInput, FrameSet, Payload};
use det_post_ops::image::decompress;
use det_post_types::{
    CameraCalibration, CameraModel, CameraView, Error, ErrorKind, ImagePayload, Letterbox,
    PixelConvention, Placement, Result, Size, Undistort, rounded_rows,
};

/// The matrices of all cameras for a network with images of one size, and the maps from
/// its pixels to those of the received images, as `M`.
///
/// Everything that depends only on the calibration is kept until the calibration, the
/// size or the frame of the images changes.
#[derive(Debug)]
pub struct Cameras<M> {
    input_size: Size,
    scale: Option<f32>,
    undistort: Undistort,
    convention: PixelConvention,
    compensate_skew: bool,
    cameras: Vec<Option<Camera<M>>>,
    /// Maps of cameras that were dropped, whose memory the next map of the camera takes over.
    spare_maps: Vec<Option<M>>,
    matrices: RigMatrices,
    /// The number of views that were computed.
    num_views: u64,
}

/// What views and matrices of cameras follow from, beside their calibrations.
#[derive(Clone, Copy, Debug)]
pub struct CamerasParams {
    /// Size of the network's images.
    pub input_size: Size,
    /// From received images to the network's, which then are cut; `None`: as far as these are filled.
    pub scale: Option<f32>,
    /// Whether images are undistorted.
    pub undistort: Undistort,
    /// How the intrinsic matrix follows from a resize.
    pub convention: PixelConvention,
    /// Whether matrices contain the motion between the stamps of an image and of its frame.
    pub compensate_skew: bool,
}

/// A camera whose calibration fits its images.
#[derive(Debug)]
pub struct Camera<M> {
    calibration: CameraCalibration,
    image_size: Size,
    frame_id: String,
    view: CameraView,
    revision: u64,
    /// How the network's input image is sampled from an image.
    pub map: M,
}

impl<M> Cameras<M> {
    /// Cameras without calibration so far, for images of a size.
    pub fn new(config: &SurroundConfig, num_cameras: usize, input_size: Size) -> Self {
        let SurroundConfig { undistort, compensate_skew, facts, .. } = config;
        let params = CamerasParams {
            input_size,
            scale: None,
            undistort: *undistort,
            convention: facts.pixel_convention,
            compensate_skew: *compensate_skew,
        };
        Self::with_params(params, num_cameras)
    }

    /// As [`Self::new`], without a configuration.
    pub fn with_params(params: CamerasParams, num_cameras: usize) -> Self {
        let CamerasParams { input_size, scale, undistort, convention, compensate_skew } = params;
        Self {
            input_size,
            scale,
            undistort,
            convention,
            compensate_skew,
            cameras: (0..num_cameras).map(|_| None).collect(),
            spare_maps: (0..num_cameras).map(|_| None).collect(),
            matrices: RigMatrices::new(num_cameras),
            num_views: 0,
        }
    }

    /// Takes calibrations and poses of a frame. `map_of` computes the map of a view, from which
    /// the map before may be taken over. Of a camera that the frame lacks, everything stays as it
    /// was.
    ///
    /// # Errors
    /// `Uncalibrated`, `CalibrationMismatch` or `UnsupportedDistortion` when a camera has no
    /// usable calibration for its image; `Transform` when its pose is unknown; those of
    /// `map_of`. Each names the camera.
    pub fn update(
        &mut self,
        frame: &FrameSet<'_>,
        mut map_of: impl FnMut(&CameraView, Option<M>) -> Result<M>,
    ) -> Result<()> {
        for index in 0..self.cameras.len() {
            let is_present = matches!(frame.inputs.get(index), Some(Some(_)));
            self.matrices.set_present(index, is_present);
            if !is_present {
                continue;
            }
            let input = frame.input(index)?;
            let of_camera = |error: Error| named(index, input, &error);
            let compensate_skew = self.compensate_skew;
            let camera = self.update_view(index, input, &mut map_of).map_err(of_camera)?;
            let camera_from_target =
                camera_from_target(compensate_skew, input, frame).map_err(of_camera)?;
            let matrices = matrices(&camera.view, &camera_from_target).map_err(of_camera)?;
            self.matrices.set(index, &matrices);
        }
        Ok(())
    }

    /// The matrices of the last frame.
    pub fn matrices(&self) -> &RigMatrices {
        &self.matrices
    }

    /// The cameras, in the order of the inputs.
    pub fn iter(&self) -> impl Iterator<Item = Option<&Camera<M>>> {
        self.cameras.iter().map(Option::as_ref)
    }

    /// A camera with a view.
    pub fn get(&self, index: usize) -> Option<&Camera<M>> {
        self.cameras.get(index)?.as_ref()
    }

    /// Computes the view of a camera if its calibration or its images have changed, and
    /// returns it.
    ///
    /// # Errors
    /// As [`Cameras::update`], without the name of the camera; `Argument` for a camera that
    /// does not exist.
    pub fn update_view(
        &mut self,
        index: usize,
        input: &FrameInput<'_>,
        mut map_of: impl FnMut(&CameraView, Option<M>) -> Result<M>,
    ) -> Result<&Camera<M>> {
        let Self {
            cameras, spare_maps, undistort, input_size, scale, convention, num_views, ..
        } = self;
        let current = cameras.get_mut(index).zip(spare_maps.get_mut(index));
        let (current, spare_map) = current.ok_or_else(|| no_camera(index))?;
        let error = |message: &str| Error::new(ErrorKind::Uncalibrated, STAGE, message);
        let calibration = input.calibration.ok_or_else(|| error("no calibration has arrived"))?;
        let image_size = image_size(input)?;
        let is_same = |camera: &Camera<M>| {
            camera.calibration == *calibration
                && camera.image_size == image_size
                && camera.frame_id == input.header.frame_id
        };
        if !current.as_ref().is_some_and(is_same) {
            // A camera that does not fit is none.
            if let Some(camera) = current.take() {
                *spare_map = Some(camera.map);
            }
            let model = CameraModel::new(calibration)?;
            model.check_image(input.header.frame_id, image_size)?;
            let (undistort, network, convention) = (*undistort, *input_size, *convention);
            let view = match *scale {
                Some(scale) => CameraView::scaled(&model, undistort, network, scale, convention),
                None => CameraView::new(&model, undistort, network, Placement::CropTop, convention),
            };
            check_content(view.placed())?;
            tracing::info!(
                "camera {index} ({}): {}x{}, {}",
                input.header.frame_id,
                image_size.width,
                image_size.height,
                if view.is_undistorted() { "undistorted" } else { "as received" },
            );
            *num_views += 1;
            *current = Some(Camera {
                calibration: calibration.clone(),
                image_size,
                frame_id: input.header.frame_id.to_owned(),
                map: map_of(&view, spare_map.take())?,
                view,
                revision: *num_views,
            });
        }
        current.as_ref().ok_or_else(|| error("has no view"))
    }
}

/// Refuses an image that does not fill the network's input after its resize.
fn check_content(placed: &Letterbox) -> Result<()> {
    let Letterbox { source, network, content, .. } = placed;
    if content.width >= network.width && content.height >= network.height {
        return Ok(());
    }
    let message = format!(
        "an image of {}x{} is {}x{} after the resize; the network's {}x{} have to fit into it: raise \
         `image_scale` of the head",
        source.width, source.height, content.width, content.height, network.width, network.height
    );
    Err(Error::new(ErrorKind::CalibrationMismatch, STAGE, message))
}

impl<M> Camera<M> {
    /// A number that no other view of these cameras has.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// The transform from the target frame at the frame's stamp to the camera at the stamp of
/// its image, or, without compensation of the skew, at the same stamp.
///
/// # Errors
/// `Transform` when a pose is unknown.
pub fn camera_from_target(
    compensate_skew: bool,
    input: &FrameInput<'_>,
    frame: &FrameSet<'_>,
) -> Result<Isometry3<f64>> {
    let pose = known(input.pose.as_ref(), "its pose")?;
    Ok(match compensate_skew {
        true => pose.inv_mul(&super::world_from_target(frame)?),
        false => pose.inverse(),
    })
}

/// The matrices of a camera, all finite as f32.
fn matrices(view: &CameraView, camera_from_target: &Isometry3<f64>) -> Result<ViewMatrices> {
    let image_from_target = view.image_from_camera() * camera_from_target.to_homogeneous();
    let target_from_image = image_from_target.try_inverse().ok_or_else(|| {
        Error::new(ErrorKind::Uncalibrated, STAGE, "its projection cannot be inverted")
    })?;
    let intrinsics = view.intrinsics().to_homogeneous();
    let is_finite =
        |matrix: &Matrix4<f64>| rounded_rows(matrix, None).iter().all(|value| value.is_finite());
    if [intrinsics, image_from_target, target_from_image].iter().all(is_finite) {
        return Ok(ViewMatrices { intrinsics, image_from_target, target_from_image });
    }
    let [x, y, z] = camera_from_target.translation.vector.into();
    let message = format!("its pose, [{x:e}, {y:e}, {z:e}] m, gives matrices beyond f32");
    Err(Error::new(ErrorKind::Transform, STAGE, message))
}

/// The size of the image of an input.
fn image_size(input: &FrameInput<'_>) -> Result<Size> {
    match input.payload {
        Payload::Image(ImagePayload::Raw(image)) => Ok(image.size()),
        Payload::Image(ImagePayload::OnDevice(image)) => Ok(image.size()),
        Payload::Image(ImagePayload::Compressed(file)) => decompress::size(&file),
        Payload::Cloud(_) | Payload::CloudOnDevice(_) | Payload::Tensors(_) => {
            Err(Error::new(ErrorKind::Argument, STAGE, "the input is not an image"))
        }
    }
}

/// The error of a camera that the channel does not have.
pub(super) fn no_camera(index: usize) -> Error {
    Error::new(ErrorKind::Argument, STAGE, format!("there is no camera {index}"))
}

/// An error of a camera, with its name.
pub(super) fn named(index: usize, input: &FrameInput<'_>, error: &Error) -> Error {
    let text = error.to_string();
    // The stage stands before the camera already.
    let what = text.strip_prefix(STAGE).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text);
    let message = format!("camera {index} ({}): {what}", input.header.frame_id);
    Error::new(error.kind(), STAGE, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ChannelKind, Config};
    use det_post_types::{Encoding, Header, ImageView, Stamp};

    #[test]
    fn a_calibration_that_is_refused_leaves_the_memory_of_the_map() {
        let parameters =
            ["c.inputs:=[/a]", "c.head:=demo_surround", "c.model_path:=m", "c.weights_path:=w"];
        let config = Config::load(&[], &parameters.map(str::to_owned)).unwrap();
        let ChannelKind::Surround(config) = &config.channels[0].kind else {
            panic!("the head is one of surround cameras")
        };
        let size = Size::new(64, 32);
        let pixels = vec![0; 64 * 32];
        let image = ImageView::new(size, 64, Encoding::Mono8, false, &pixels).unwrap();
        let header = Header { stamp: Stamp::default(), frame_id: "camera" };
        let input = || FrameInput::image(header, ImagePayload::Raw(image));
        let good = CameraCalibration {
            size,
            intrinsics: [50.0, 0.0, 32.0, 0.0, 50.0, 16.0, 0.0, 0.0, 1.0],
            rectification: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
            binning: [1, 1],
            ..CameraCalibration::default()
        };
        let bad = CameraCalibration { size: Size::new(60, 30), ..good.clone() };

        let mut cameras = Cameras::<u32>::new(config, 1, Size::new(640, 352));
        let mut num_made = 0;
        for _ in 0..3 {
            for (calibration, is_good) in [(&good, true), (&bad, false)] {
                let input = FrameInput { calibration: Some(calibration), ..input() };
                let updated = cameras.update_view(0, &input, |_, before| {
                    num_made += u32::from(before.is_none());
                    Ok(before.unwrap_or(num_made))
                });
                assert_eq!(updated.is_ok(), is_good);
                assert_eq!(cameras.get(0).is_some(), is_good);
            }
        }
        assert_eq!(num_made, 1, "the map of the first camera is taken over");
    }
}
