//! A whole pipeline on one message: the bytes of a `sensor_msgs/Image`, as any
//! ROS 2 transport delivers them, to detections in its pixels.
//!
//!     cargo run --release --example make_sample -- sample
//!     cargo run --release --example one_message

#![allow(clippy::print_stdout, reason = "the result of the example")]

use std::path::{Path, PathBuf};

use det_post::config::{ChannelKind, Config};
use det_post::detectors::CameraPipeline;
use det_post::device::Device;
use det_post::transport::bag::BagReader;
use det_post::transport::messages::Image;
use det_post::types::ImagePayload;
use det_post::{Error, ErrorKind, Result};

fn main() -> Result<()> {
    let config = Config::load(&[PathBuf::from("sample/sample.param.yaml")], &[])?;
    let camera = config.channels.iter().find_map(|channel| match &channel.kind {
        ChannelKind::Camera(camera) => Some((camera, &channel.input)),
        ChannelKind::Lidar(_) => None,
    });
    let nothing = || Error::new(ErrorKind::Usage, "one_message", "no camera in the sample");
    let (camera, topic) = camera.ok_or_else(nothing)?;

    let mut bag = BagReader::open(Path::new("sample/drive"))?;
    bag.select(&[topic]);
    let message = bag.next_message()?.ok_or_else(nothing)?;

    let image = Image::decode(message.data)?;
    let mut pipeline = CameraPipeline::new(camera, &Device::Cpu)?;
    let processed = pipeline.process(&ImagePayload::Raw(image.view()?))?;
    for detection in processed.detections {
        println!("{} {detection:?}", camera.facts.class_names[detection.class as usize]);
    }
    Ok(())
}
