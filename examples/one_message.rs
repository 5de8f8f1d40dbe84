//! A detector on one message: the bytes of a `sensor_msgs/Image`, as any ROS 2
//! transport delivers them, to detections in its pixels.
//!
//!     cargo run --release --example make_sample -- sample
//!     cargo run --release --example one_message

#![allow(clippy::print_stdout, reason = "the result of the example")]

use std::path::{Path, PathBuf};

use det_post::config::{ChannelKind, Config};
use det_post::detectors::{self, FrameInput, FrameSet};
use det_post::transport::bag::BagReader;
use det_post::transport::messages::Image;
use det_post::types::{Detections, DeviceChoice, FrameReport, ImagePayload};
use det_post::{Error, ErrorKind, Result};

fn main() -> Result<()> {
    let config = Config::load(&[PathBuf::from("sample/sample.param.yaml")], &[])?;
    let is_camera = |kind: &ChannelKind| matches!(kind, ChannelKind::Camera(_));
    let camera = config.channels.iter().find(|channel| is_camera(&channel.kind));
    let nothing = || Error::new(ErrorKind::Usage, "one_message", "no camera in the sample");
    let camera = camera.ok_or_else(nothing)?;

    let mut bag = BagReader::open(Path::new("sample/drive"))?;
    bag.select(&[&camera.inputs[0].topic]);
    let message = bag.next_message()?.ok_or_else(nothing)?;

    let image = Image::decode(message.data)?;
    let mut detector = detectors::open(camera, DeviceChoice::Cpu)?;
    let input = [Some(FrameInput::image(image.header, ImagePayload::Raw(image.view()?)))];
    let frame = FrameSet::single(&input);
    if let Detections::Boxes2d(boxes) = detector.detect(&frame, &mut FrameReport::new())? {
        for detection in boxes {
            let name = &camera.kind.class_names()[detection.class as usize];
            println!("{name} {detection:?}");
        }
    }
    Ok(())
}
