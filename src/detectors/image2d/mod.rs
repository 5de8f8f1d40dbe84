//! 2D detection in images: the YOLO families and end-to-end detectors.
//!
//! Boxes are in pixels of the source image, axis-aligned and clipped to it, or
//! rotated, depending on the head. [`ReceivedDetector`] decodes tensors of a message in
//! place of an image. Detections and counts are equal on both devices,
//! bit for bit if the network's outputs are. `begin` and `finish` in `cpu.rs`, and `Work` in
//! `cuda/`, have the same stages in the same order.

mod boxes;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod cut;
mod head;
mod keypoints;
mod masks;
mod postprocess;
mod received;

pub use boxes::ImageBoxes;
pub use cpu::CpuDetector;
#[cfg(feature = "cuda")]
pub use cuda::{CudaDetector, DeviceBoxes};
pub use cut::describe as describe_cut;
pub use head::YoloHead;
pub use received::ReceivedDetector;

pub use det_post_ops::image::decompress::MAX_DECODE_TIME;

use super::{Detector, FrameInput, FrameSet, InputNeeds, PayloadKind, another_family};
use crate::config::{CameraConfig, ChannelConfig, ChannelKind};
use det_post_infer::efficient_nms::EfficientNms;
use det_post_ops::device::Device;
use det_post_types::{
    Box2d, Encoding, Header, ImagePayload, ImageView, Result, RotatedBox2d, Size,
};

/// The one input.
const IMAGE: usize = 0;

/// Width and height of the image that networks are warmed up with.
const WARM_UP_SIZE: u32 = 64;

/// A decoder of tensors that are received, for a channel of the engine `external`.
///
/// # Errors
/// As [`ReceivedDetector::new`].
pub fn open_received(config: &CameraConfig) -> Result<Box<dyn Detector>> {
    Ok(match config.facts.layout.has_rotated_boxes() {
        false => Box::new(ReceivedDetector::<Box2d>::new(config)?),
        true => Box::new(ReceivedDetector::<RotatedBox2d>::new(config)?),
    })
}

/// Loads the network for a device and allocates all memory that the configuration bounds.
///
/// # Errors
/// `Model` when the network cannot be loaded or does not fit its head;
/// `Argument` when the device has no implementation of the head or the
/// suppression; `Device` when there is not enough memory.
pub fn open(config: &CameraConfig, device: &Device) -> Result<Box<dyn Detector>> {
    match EfficientNms::of_file(&config.model_path)? {
        Some(nms) => {
            tracing::info!("{} {}", config.model_path.display(), cut::describe(&nms));
            let inner = open_whole(&cut::configured(config, &nms)?, device)?;
            Ok(Box::new(cut::CutDetector::new(inner, nms)))
        }
        None => open_whole(config, device),
    }
}

/// As [`open`], for a network whose outputs are those of its head.
fn open_whole(config: &CameraConfig, device: &Device) -> Result<Box<dyn Detector>> {
    let has_rotated_boxes = config.facts.layout.has_rotated_boxes();
    Ok(match (device, has_rotated_boxes) {
        (Device::Cpu, false) => Box::new(CpuDetector::<Box2d>::load(config)?),
        (Device::Cpu, true) => Box::new(CpuDetector::<RotatedBox2d>::load(config)?),
        #[cfg(feature = "cuda")]
        (Device::Cuda(device), false) => {
            Box::new(CudaDetector::<Box2d>::load(config, &device.stream()?)?)
        }
        #[cfg(feature = "cuda")]
        (Device::Cuda(device), true) => {
            Box::new(CudaDetector::<RotatedBox2d>::load(config, &device.stream()?)?)
        }
    })
}

const NEEDS: [InputNeeds; 1] =
    [InputNeeds { kind: PayloadKind::Image, pose_in: None, calibration: false, motion: None }];

fn family(config: &ChannelConfig) -> Result<&CameraConfig> {
    match &config.kind {
        ChannelKind::Camera(camera) => Ok(camera),
        ChannelKind::Lidar(_) | ChannelKind::Surround(_) => Err(another_family(config)),
    }
}

/// Calls `work` with a black image.
fn with_empty_frame<T>(work: impl FnOnce(&FrameSet<'_>) -> Result<T>) -> Result<T> {
    let pixels = vec![0; 3 * (WARM_UP_SIZE * WARM_UP_SIZE) as usize];
    let size = Size::new(WARM_UP_SIZE, WARM_UP_SIZE);
    let step = 3 * WARM_UP_SIZE as usize;
    let image = ImageView::new(size, step, Encoding::Rgb8, false, &pixels)?;
    let input = [Some(FrameInput::image(Header::default(), ImagePayload::Raw(image)))];
    work(&FrameSet::single(&input))
}
