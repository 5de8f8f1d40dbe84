//! What sensors recorded in the worst frames, below the boxes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::draw::{BevImage, Canvas, draw_image};
use crate::recordings::worst::Plane;
use det_post_ros::bag::{BagReader, TopicInfo};
use det_post_ros::cdr::Reader;
use det_post_ros::messages::{CompressedImage, Image, PointCloud2, read_header};
use det_post_ros::packed_cloud::{MAX_DATA_BYTES, PackedCloud, Unpacker};
use det_post_ros::truth::ATTRIBUTES_SUFFIX;
use det_post_types::{ImagePayload, PointRange, Result, Stamp};

/// The widest image of a camera, and the edge of an image from above, in pixels.
const MAX_WIDTH: u32 = 960;
const ABOVE_SIZE: u32 = 800;

const JPEG_QUALITY: u8 = 80;

/// Heights that an image from above shows, in metres.
const HEIGHTS_M: [f32; 2] = [-3.0, 5.0];

/// An image and the part of the plane that it shows.
pub(super) struct Background {
    /// `data:` URL.
    pub(super) url: String,
    /// Left, top, width, height.
    pub(super) view: [f64; 4],
}

/// A frame of a sensor, to be found in a recording.
pub(super) struct Wanted<'a> {
    pub(super) plane: Plane,
    pub(super) frame_id: &'a str,
    pub(super) stamp: Stamp,
    /// `None` until it is found.
    pub(super) background: Option<Background>,
}

/// Looks for frames in a recording: the first image or point cloud of the stamp and coordinate
/// frame. One that cannot be drawn is named in the log.
///
/// # Errors
/// Returns the errors of opening the recording.
pub(super) fn find(
    bag: &Path,
    wanted: &mut [Wanted<'_>],
    max_range_m: f64,
    stop: &AtomicBool,
) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let mut reader = BagReader::open(bag)?;
    let topics = reader.topics().to_vec();
    let of_sensors = topics.iter().filter(|topic| plane_of(topic).is_some());
    let names: Vec<&str> = of_sensors.map(|topic| topic.name.as_str()).collect();
    reader.select(&names);
    while !stop.load(Ordering::Relaxed) && wanted.iter().any(|frame| frame.background.is_none()) {
        // Damage is in the report of the truth.
        let message = match reader.next_message() {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(_) => continue,
        };
        let topic = &topics[message.topic];
        let header = Reader::new("page", message.data).and_then(|mut cdr| read_header(&mut cdr));
        let Ok(header) = header else { continue };
        let frame = wanted.iter_mut().find(|frame| {
            frame.background.is_none()
                && (frame.stamp, frame.frame_id) == (header.stamp, header.frame_id)
                && Some(frame.plane) == plane_of(topic)
        });
        let Some(frame) = frame else { continue };
        match draw(topic, message.data, max_range_m) {
            Ok(background) => frame.background = Some(background),
            Err(error) => tracing::warn!("{} at {}: {error}", topic.name, header.stamp),
        }
    }
    Ok(())
}

/// The plane that the messages of a topic show, if they are of a sensor.
fn plane_of(topic: &TopicInfo) -> Option<Plane> {
    match &*topic.type_name {
        Image::TYPE | CompressedImage::TYPE => Some(Plane::Image),
        PointCloud2::TYPE if !topic.name.ends_with(ATTRIBUTES_SUFFIX) => Some(Plane::Above),
        other => PackedCloud::of_type(other).map(|_| Plane::Above),
    }
}

fn draw(topic: &TopicInfo, data: &[u8], max_range_m: f64) -> Result<Background> {
    let payload = match &*topic.type_name {
        Image::TYPE => ImagePayload::Raw(Image::decode(data)?.view()?),
        CompressedImage::TYPE => ImagePayload::Compressed(CompressedImage::decode(data)?.view()?),
        other => {
            let mut memory = Vec::new();
            let packed = PackedCloud::of_type(other);
            if let Some(packed) = packed {
                Unpacker::default().unpack_to(packed, data, MAX_DATA_BYTES, &mut memory)?;
            }
            let data = if packed.is_some() { &memory } else { data };
            return above(Some(&PointCloud2::decode(data)?), max_range_m);
        }
    };
    let (size, canvas) = draw_image(&payload, MAX_WIDTH)?;
    let view = [0.0, 0.0, size.width.into(), size.height.into()];
    Ok(Background { url: url(&canvas)?, view })
}

/// The points of a cloud from above, or none, with rings of distance.
pub(super) fn above(cloud: Option<&PointCloud2<'_>>, max_range_m: f64) -> Result<Background> {
    let range = max_range_m as f32;
    let [low, high] = HEIGHTS_M;
    let range = PointRange { min: [-range, -range, low], max: [range, range, high] };
    let view = cloud.map(PointCloud2::view).transpose()?;
    let background = BevImage::new(view.as_ref(), &range, ABOVE_SIZE)?;
    let view = [-max_range_m, -max_range_m, 2.0 * max_range_m, 2.0 * max_range_m];
    Ok(Background { url: url(background.canvas())?, view })
}

fn url(canvas: &Canvas) -> Result<String> {
    let mut jpeg = Vec::new();
    canvas.encode_jpeg(JPEG_QUALITY, &mut jpeg)?;
    Ok(format!("data:image/jpeg;base64,{}", STANDARD.encode(jpeg)))
}
