//! The drive as a rosbag2 recording.

use std::path::Path;

use det_post::{Error, ErrorKind, Result};
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{Image, PointCloud2, definition};
use det_post_types::{Header, PointField, PointFields, Stamp};

use super::drive;

/// Topic of the images.
pub const IMAGE_TOPIC: &str = "/sensing/camera/image_raw";
/// Topic of the scans.
pub const CLOUD_TOPIC: &str = "/sensing/lidar/points";

/// `PointField.FLOAT32`.
const FLOAT32: u8 = 7;
const POINT_STEP: usize = 16;

/// Writes all frames, image and scan with one stamp, to the directory `path`.
pub fn write(path: &Path) -> Result<()> {
    let mut bag = BagWriter::create(path, BagCompression::Zstd)?;
    let images = add_topic(&mut bag, IMAGE_TOPIC, Image::TYPE)?;
    let clouds = add_topic(&mut bag, CLOUD_TOPIC, PointCloud2::TYPE)?;
    let mut bytes = Vec::new();
    for frame in 0..drive::NUM_FRAMES {
        let stamp = Stamp::from_nanos(drive::START_NS + frame as i64 * drive::PERIOD_NS);
        encode_image(&drive::image(frame), stamp, &mut bytes)?;
        bag.write(images, stamp, &bytes)?;
        encode_cloud(&drive::cloud(frame), stamp, &mut bytes)?;
        bag.write(clouds, stamp, &bytes)?;
    }
    bag.finish()
}

fn add_topic(bag: &mut BagWriter, name: &str, type_name: &str) -> Result<usize> {
    let text = definition(type_name).ok_or_else(|| {
        Error::new(ErrorKind::Argument, "sample", format!("{type_name} has no definition"))
    })?;
    bag.add_topic(name, type_name, &text, OfferedQos::default())
}

fn encode_image(pixels: &[u8], stamp: Stamp, bytes: &mut Vec<u8>) -> Result<()> {
    let image = Image {
        header: Header { stamp, frame_id: "camera" },
        height: drive::HEIGHT as u32,
        width: drive::WIDTH as u32,
        encoding: "rgb8",
        is_bigendian: false,
        step: 3 * drive::WIDTH as u32,
        data: pixels,
    };
    image.encode(bytes)
}

fn encode_cloud(points: &[[f32; 4]], stamp: Stamp, bytes: &mut Vec<u8>) -> Result<()> {
    let mut fields = PointFields::new();
    for (name, offset) in [("x", 0), ("y", 4), ("z", 8), ("intensity", 12)] {
        fields.push(PointField { name, offset, datatype: FLOAT32, count: 1 })?;
    }
    let data: Vec<u8> = points.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    let cloud = PointCloud2 {
        header: Header { stamp, frame_id: "base_link" },
        height: 1,
        width: points.len() as u32,
        fields,
        is_bigendian: false,
        point_step: POINT_STEP as u32,
        row_step: data.len() as u32,
        data: &data,
        is_dense: true,
    };
    cloud.encode(bytes)
}
