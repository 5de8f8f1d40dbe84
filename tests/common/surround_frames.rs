//! Frames of a surround channel as a detector takes them: images of random pixels, a
//! calibration, cameras that look around, and a vehicle that moves.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_3};
use std::path::Path;

use det_post::config::{ChannelKind, Config, SurroundConfig};
use det_post::{FrameInput, FrameSet, Result};
use det_post_types::{
    CameraCalibration, CompressedFormat, CompressedView, Encoding, Header, ImagePayload, ImageView,
    Size, Stamp,
};
use nalgebra::{Isometry3, Rotation3, Translation3, UnitQuaternion};

use super::streampetr::{FILES, Form, Weights, save};
use super::surround_rig::SIZES;

/// Size of the images.
pub const IMAGE: Size = Size { width: 192, height: 108 };
const NUM_CAMERAS: usize = 6;
const FRAME_IDS: [&str; NUM_CAMERAS] = ["c0", "c1", "c2", "c3", "c4", "c5"];

/// The cameras and their images.
pub struct Cameras {
    /// Pixels of each camera, rgb8.
    pub images: Vec<Vec<u8>>,
    /// The same as PNG files.
    files: Vec<Vec<u8>>,
    pub calibration: CameraCalibration,
    poses: Vec<Isometry3<f64>>,
}

/// The inputs of a frame.
pub struct Frame<'a> {
    pub inputs: Vec<Option<FrameInput<'a>>>,
    stamp: Stamp,
    target_pose: Result<Isometry3<f64>>,
}

impl Frame<'_> {
    pub fn set(&self) -> FrameSet<'_> {
        let Self { inputs, stamp, target_pose } = self;
        FrameSet { stamp: *stamp, inputs, target_pose: Some(target_pose) }
    }
}

impl Cameras {
    pub fn new() -> Self {
        let num_bytes = (IMAGE.width * IMAGE.height * 3) as usize;
        let image = |camera: usize| -> Vec<u8> {
            let pixel = |i: usize| ((i * (camera + 7)).wrapping_mul(2_654_435_761) >> 13) as u8;
            (0..num_bytes).map(pixel).collect()
        };
        let images: Vec<_> = (0..NUM_CAMERAS).map(image).collect();
        let pose = |camera: usize| {
            let around = Rotation3::from_euler_angles(0.0, 0.0, FRAC_PI_3 * camera as f64);
            let optical = Rotation3::from_euler_angles(-FRAC_PI_2, 0.0, -FRAC_PI_2);
            let turn = UnitQuaternion::from_rotation_matrix(&(around * optical));
            Isometry3::from_parts(Translation3::new(0.0, 0.0, 1.5), turn)
        };
        let [f, w, h] = [120.0, f64::from(IMAGE.width), f64::from(IMAGE.height)];
        Self {
            files: images.iter().map(|pixels| png(pixels)).collect(),
            images,
            calibration: CameraCalibration {
                size: IMAGE,
                intrinsics: [f, 0.0, w / 2.0, 0.0, f, h / 2.0, 0.0, 0.0, 1.0],
                rectification: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
                binning: [1, 1],
                ..CameraCalibration::default()
            },
            poses: (0..NUM_CAMERAS).map(pose).collect(),
        }
    }

    /// Frame number `number`, 0.1 s and 1 m after the one before, with the images of cameras
    /// moved on by `shift`, as pixels or as files.
    pub fn frame(&self, number: i32, shift: usize, is_compressed: bool) -> Frame<'_> {
        let stamp = Stamp::from_nanos(100_000_000 * i64::from(number) + 1_000_000_000);
        let input = |camera: usize| {
            let header = Header { stamp, frame_id: FRAME_IDS[camera] };
            let source = (camera + shift) % NUM_CAMERAS;
            let step = IMAGE.width as usize * 3;
            let payload = if is_compressed {
                let data = &self.files[source];
                ImagePayload::Compressed(CompressedView::new(CompressedFormat::Png, data))
            } else {
                let data = &self.images[source];
                ImagePayload::Raw(ImageView::new(IMAGE, step, Encoding::Rgb8, false, data).unwrap())
            };
            let input = FrameInput::image(header, payload).with_pose(self.poses[camera]);
            Some(FrameInput { calibration: Some(&self.calibration), ..input })
        };
        let target_pose = Ok(Isometry3::translation(f64::from(number), 0.0, 0.0));
        Frame { inputs: (0..NUM_CAMERAS).map(input).collect(), stamp, target_pose }
    }
}

/// The configuration of a channel of six cameras, with these parameters of its networks.
pub fn surround_config(networks: &str) -> SurroundConfig {
    let topics: Vec<String> = (0..6).map(|n| format!("/camera_{n}/image")).collect();
    let text = format!(
        "/**: {{ros__parameters: {{rig: {{inputs: [{}], {networks}}}}}}}",
        topics.join(", ")
    );
    let config = Config::parse(&text).unwrap();
    let ChannelKind::Surround(config) = &config.channels[0].kind else { panic!("{text}") };
    config.as_ref().clone()
}

/// The configuration of a small StreamPETR, whose files it writes to a folder.
pub fn streampetr_config(folder: &Path) -> SurroundConfig {
    save(folder, &SIZES, &Weights::random(&SIZES, 11), Form::AllLayers);
    let [backbone, position, head] = FILES.map(|name| folder.join(name).display().to_string());
    surround_config(&format!(
        "head: streampetr_autoware, model_path: {backbone}, position_embedding_path: {position}, \
         head_path: {head}, engine: {{kind: rten, threads: 1}}, score_thresholds: 0.01, \
         yaw_norm_thresholds: 0.0"
    ))
}

fn png(pixels: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, IMAGE.width, IMAGE.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    file
}
