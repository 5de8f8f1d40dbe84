//! Images of all cameras of a rig, and the truth around the vehicle.

use std::path::Path;

use det_post::config::{SurroundConfig, SurroundFacts};
use det_post_ops::image::resample::{self, ResampleParams, SampleMap, resample};
use det_post_sim::{CameraMount, Drive, Options, RenderedImage, Rig, SeenByCameras};
use det_post_types::{
    CameraCalibration, CameraModel, CameraView, ElementType, Encoding, Evidence, ImageView,
    Normalization, Placement, Size, Tensor, TensorValues,
};
use nalgebra::{Isometry3, Rotation3, Translation3, UnitQuaternion};

use crate::array::Array;
use crate::{Failure, class_index};

/// The size that is rendered: the network's input image shows it pixel by pixel.
const RENDERED: Size = Size::new(640, 360);
/// Frames that follow each other, for the memory of the network.
const CLIP_FRAMES: u64 = 4;
/// Images from the first frame of a clip to that of the next.
const IMAGES_BETWEEN_CLIPS: u64 = 53;
/// Most images from a frame of a clip to the next, 0.5 s.
const MAX_IMAGES_BETWEEN_FRAMES: u64 = 5;

/// The options of a drive whose images are exported.
pub fn drive_options(config: &SurroundConfig) -> Options {
    let num_cameras = config.facts.num_cameras.unwrap_or(0);
    Options { num_cameras, image_size: RENDERED, num_threads: 1, ..Options::default() }
}

/// The arrays of a drive's frames.
struct Arrays {
    images: Array<u8>,
    boxes: Array<f32>,
    frames: Array<i32>,
    poses: Array<f32>,
}

/// Writes `num_frames` frames of a drive: clips of [`CLIP_FRAMES`], 0.1 to 0.5 s apart.
pub fn export_surround(
    drive: &Drive,
    seed: u64,
    config: &SurroundConfig,
    num_frames: u64,
    folder: &Path,
) -> Result<(), Failure> {
    let facts = &config.facts;
    let Some(Size { width, height }) = facts.input_size else {
        return Err("the head file of the rig does not state its input_size".into());
    };
    let (columns, rows) = (width as usize, height as usize);
    let views = views(drive.rig(), facts)?;
    export_matrices(drive.rig(), &views, folder)?;
    // Levels of 0 to 255 are what a byte can hold; the trainer normalises.
    let params = ResampleParams {
        channel_order: facts.channel_order,
        normalization: Normalization::from_mean_std([0.0; 3], [1.0; 3]),
        pad_value: 0.0,
    };
    let maps: Vec<SampleMap> = views
        .iter()
        .map(|view| SampleMap::of_view(view, facts.resize))
        .collect::<det_post::Result<_>>()?;
    let mut workspace = resample::Workspace::new();
    let mut input = Tensor::zeros(ElementType::F32, &[views.len(), 3, rows, columns])?;
    let mut seen = SeenByCameras::default();
    let mut rendered = RenderedImage::default();
    let mut levels = vec![0_u8; views.len() * rows * columns * 3];
    let mut arrays = Arrays {
        images: Array::new(folder, "rig_images", &[views.len(), rows, columns, 3]),
        boxes: Array::new(folder, "rig_boxes", &[12]),
        frames: Array::new(folder, "rig_frames", &[2]),
        poses: Array::new(folder, "rig_poses", &[4]),
    };
    let mut index = 0;
    for frame in 0..num_frames {
        let place = frame % CLIP_FRAMES;
        index = match place {
            0 => 11 + frame / CLIP_FRAMES * IMAGES_BETWEEN_CLIPS,
            _ => index + 1 + hash(seed * 64 + frame) % MAX_IMAGES_BETWEEN_FRAMES,
        };
        seen.clear();
        for (camera, map) in maps.iter().enumerate() {
            drive.image(camera, index, &mut rendered);
            let step = 3 * rendered.size.width as usize;
            let image = ImageView::new(rendered.size, step, Encoding::Rgb8, false, &rendered.rgb)?;
            resample(&image, map, &params, &mut workspace, camera, &mut input)?;
            seen.add(&rendered.truth);
        }
        if let TensorValues::F32(values) = input.view().values() {
            interleave(values, rows * columns, &mut levels);
        }
        arrays.images.push(&levels)?;
        let stamp = drive.rig().image_stamp(index);
        let ego = drive.ego(stamp);
        let [x, y, _] = ego.position_m.map(|value| value as f32);
        let time_s = stamp.seconds_since(det_post_sim::START) as f32;
        arrays.poses.push(&[x, y, ego.yaw_rad as f32, time_s])?;
        let objects = drive.surround_truth(index, &seen);
        arrays.frames.push(&[objects.len() as i32, place as i32])?;
        for object in &objects {
            let Evidence::Pixels(num_pixels) = object.evidence else {
                return Err("the truth of a rig has no pixels".into());
            };
            let class = class_index(&facts.class_names, object.class_name)?;
            let (b, [vx, vy]) = (&object.bbox, object.velocity_mps);
            let [x, y, z] = b.center;
            let [length, width, height] = [b.length_m, b.width_m, b.height_m];
            let num_pixels = num_pixels as f32;
            arrays.boxes.push(&[
                class,
                x,
                y,
                z,
                length,
                width,
                height,
                b.yaw_rad,
                vx,
                vy,
                num_pixels,
                object.visibility,
            ])?;
        }
    }
    arrays.images.finish()?;
    arrays.boxes.finish()?;
    arrays.frames.finish()?;
    arrays.poses.finish()
}

/// What the network sees of the cameras.
fn views(rig: &Rig, facts: &SurroundFacts) -> Result<Vec<CameraView>, Failure> {
    let network = facts.input_size.ok_or("no input_size")?;
    let focal = rig.focal_px();
    // The middle of pixel i is at i.
    let [cx, cy] = rig.principal_px().map(|value| value - 0.5);
    let calibration = CameraCalibration {
        size: rig.image_size,
        distortion_model: "plumb_bob".into(),
        intrinsics: [focal, 0.0, cx, 0.0, focal, cy, 0.0, 0.0, 1.0],
        rectification: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        projection: [focal, 0.0, cx, 0.0, 0.0, focal, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
        binning: [1, 1],
        ..CameraCalibration::default()
    };
    let model = CameraModel::new(&calibration)?;
    let undistort = det_post_types::Undistort::Never;
    let view =
        CameraView::new(&model, undistort, network, Placement::CropTop, facts.pixel_convention);
    Ok(vec![view; rig.cameras.len()])
}

/// Writes the matrices from `base_link` to the network's pixels, rows of
/// (u z, v z, z).
fn export_matrices(rig: &Rig, views: &[CameraView], folder: &Path) -> Result<(), Failure> {
    let mut matrices = Array::new(folder, "rig_matrices", &[3, 4]);
    for (mount, view) in rig.cameras.iter().zip(views) {
        let camera_from_base = base_from_camera(mount).inverse();
        let matrix = view.image_from_base(&camera_from_base, &Isometry3::identity());
        let row = |row: usize| (0..4).map(move |column| matrix[(row, column)] as f32);
        matrices.push(&(0..3).flat_map(row).collect::<Vec<f32>>())?;
    }
    matrices.finish()
}

fn base_from_camera(mount: &CameraMount) -> Isometry3<f64> {
    let turn = Rotation3::from_matrix_unchecked(mount.base_from_optical());
    let turn = UnitQuaternion::from_rotation_matrix(&turn);
    Isometry3::from_parts(Translation3::from(mount.position_m), turn)
}

/// From planes of values to interleaved bytes.
fn interleave(planes: &[f32], num_pixels: usize, bytes: &mut [u8]) {
    let images = planes.chunks_exact(3 * num_pixels).zip(bytes.chunks_exact_mut(3 * num_pixels));
    for (planes, bytes) in images {
        for (channel, plane) in planes.chunks_exact(num_pixels).enumerate() {
            for (pixel, value) in bytes[channel..].iter_mut().step_by(3).zip(plane) {
                *pixel = value.round() as u8;
            }
        }
    }
}

/// A number that looks random.
fn hash(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}
