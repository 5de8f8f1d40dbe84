//! A detector on one message: the bytes of a `sensor_msgs/Image`, as any ROS 2
//! transport delivers them, to detections in its pixels.
//!
//!     cargo run --release --example one_message

#![allow(clippy::print_stdout, reason = "the result of the example")]

use std::error::Error;
use std::path::PathBuf;

use det_post::{Config, FrameInput, FrameSet, open_detector};
use det_post_ros::messages::Image;
use det_post_sim::{Drive, Options, RenderedImage};
use det_post_types::{Detections, DeviceChoice, FrameReport, Header, ImagePayload};

/// Detects objects in a simulated image with the camera network of the demo.
///
/// # Errors
/// Returns the errors of the library.
pub fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::load(&[PathBuf::from("config/demo.param.yaml")], &[])?;
    let camera = config.channel("camera").ok_or("the demo has no camera")?;
    let mut detector = open_detector(camera, DeviceChoice::Cpu)?;

    let message = message()?;
    let image = Image::decode(&message)?;
    let inputs = [Some(FrameInput::image(image.header, ImagePayload::Raw(image.view()?)))];
    let mut report = FrameReport::new();
    let detections = detector.detect(&FrameSet::single(&inputs), &mut report)?;
    if let Detections::Boxes2d(boxes) = detections {
        for detection in boxes {
            let name = &camera.kind.class_names()[detection.class as usize];
            println!("{name} {detection:?}");
        }
    }
    if detections.is_empty() { Err("nothing found".into()) } else { Ok(()) }
}

/// An image of a simulated drive as a message.
fn message() -> det_post::Result<Vec<u8>> {
    let drive = Drive::new(9000, &Options::default())?;
    let mut rendered = RenderedImage::default();
    drive.image(0, 20, &mut rendered);
    let image = Image {
        header: Header { stamp: drive.rig().image_stamp(20), frame_id: "camera_0" },
        height: rendered.size.height,
        width: rendered.size.width,
        encoding: "rgb8",
        is_bigendian: false,
        step: 3 * rendered.size.width,
        data: &rendered.rgb,
    };
    let mut bytes = Vec::new();
    image.encode(&mut bytes)?;
    Ok(bytes)
}
