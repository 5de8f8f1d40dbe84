//! `det_post inspect`: the contents of a recording.

use std::path::Path;

use super::local_time::local_time;
use super::{ExitStatus, stdout};
use det_post_ros::bag::{BagReader, TopicInfo};
use det_post_ros::messages::{
    CameraInfo, CompressedImage, CompressedPointCloud2, Detection2DArray, Detection3DArray, Image,
    PointCloud2, TfMessage,
};
use det_post_ros::middleware::InputKind;
use det_post_ros::packed_cloud::{CloudFormat, MAX_DATA_BYTES, PackedCloud, Unpacker};
use det_post_ros::video::{self, VideoMessage};
use det_post_types::text::{LineBreaks, shown};
use det_post_types::{Datatype, PointField, Result, Stamp};

/// The messages of one topic.
#[derive(Default)]
struct Seen {
    num_messages: u64,
    num_bytes: u64,
    span: Option<(Stamp, Stamp)>,
    /// Description of its first message.
    content: String,
}

/// Reads the whole recording and prints one paragraph per topic.
///
/// # Errors
/// `Io` or `DamagedBag` when there is nothing to read, `Io` when the text cannot be printed.
pub(super) fn inspect(bag: &Path) -> Result<ExitStatus> {
    let mut reader = BagReader::open(bag)?;
    let topics = reader.topics().to_vec();
    let mut seen: Vec<Seen> = topics.iter().map(|_| Seen::default()).collect();
    let mut damage = Vec::new();
    loop {
        match reader.next_message() {
            Ok(Some(message)) => {
                seen[message.topic].add(message.log_time, &topics[message.topic], message.data);
            }
            Ok(None) => break,
            // Each is of one file; reading continues with the others.
            Err(error) => damage.push(error),
        }
    }
    let mut text = format!("{}\n{}", bag.display(), summary(&seen));
    for (topic, seen) in topics.iter().zip(&seen) {
        text += &paragraph(topic, seen);
    }
    for error in &damage {
        text += &format!("damaged: {error}\n");
    }
    stdout::print(&text)?;
    Ok(if damage.is_empty() { ExitStatus::Done } else { ExitStatus::Damaged })
}

impl Seen {
    fn add(&mut self, log_time: Stamp, topic: &TopicInfo, data: &[u8]) {
        if self.num_messages == 0 {
            let content =
                topic.check_serialization().and_then(|()| describe(&topic.type_name, data));
            self.content = content.unwrap_or_else(|error| format!("first message: {error}"));
        }
        self.num_messages += 1;
        self.num_bytes += data.len() as u64;
        let (first, last) = self.span.unwrap_or((log_time, log_time));
        self.span = Some((first.min(log_time), last.max(log_time)));
    }
}

/// The length of the recording, its start in local time, and its messages.
fn summary(seen: &[Seen]) -> String {
    let spans = || seen.iter().filter_map(|seen| seen.span);
    let first = spans().map(|(first, _)| first).min();
    let Some((first, last)) = first.zip(spans().map(|(_, last)| last).max()) else {
        return String::new();
    };
    let num_messages: u64 = seen.iter().map(|seen| seen.num_messages).sum();
    let num_bytes: u64 = seen.iter().map(|seen| seen.num_bytes).sum();
    let start = local_time(first).map_or_else(String::new, |start| format!("{start}, "));
    format!(
        "duration {:.3} s, start {start}{first}, {}, {:.2} MB\n",
        last.seconds_since(first),
        messages(num_messages),
        num_bytes as f64 / 1e6
    )
}

fn messages(num: u64) -> String {
    format!("{num} message{}", if num == 1 { "" } else { "s" })
}

fn paragraph(topic: &TopicInfo, seen: &Seen) -> String {
    let line = |text: &str| shown(text.to_owned(), LineBreaks::Escaped);
    let mut text = format!("{}  {}\n", line(&topic.name), line(&topic.type_name));
    let Some((first, last)) = seen.span else { return text + "  no messages\n" };
    let duration_s = last.seconds_since(first);
    let rate = match seen.num_messages {
        2.. if duration_s > 0.0 => {
            format!(", {:.2} Hz", (seen.num_messages - 1) as f64 / duration_s)
        }
        _ => String::new(),
    };
    text += &format!(
        "  {}{rate}, {first} to {last}, {:.2} MB\n",
        messages(seen.num_messages),
        seen.num_bytes as f64 / 1e6
    );
    if !seen.content.is_empty() {
        text += &format!("  {}\n", line(&seen.content));
    }
    text
}

/// One line about the content of a message; empty for other types.
fn describe(type_name: &str, data: &[u8]) -> Result<String> {
    let mut of_images = InputKind::IMAGES.into_iter();
    let kind = of_images.find(|kind| kind.type_name() == type_name);
    if let Some(message) = kind.and_then(|kind| kind.video_in(data)) {
        return video_text(message, data);
    }
    Ok(match type_name {
        Image::TYPE => {
            let Image { header, width, height, encoding, step, .. } = Image::decode(data)?;
            format!("frame {}, {encoding} {width}x{height}, step {step}", header.frame_id)
        }
        CompressedImage::TYPE => {
            let CompressedImage { header, format, data } = CompressedImage::decode(data)?;
            format!("frame {}, {format:?}, {} bytes", header.frame_id, data.len())
        }
        CameraInfo::TYPE => {
            let info = CameraInfo::decode(data)?;
            let CameraInfo { header, width, height, distortion_model, .. } = info;
            format!("frame {}, {width}x{height}, {distortion_model}", header.frame_id)
        }
        PointCloud2::TYPE => {
            let cloud = PointCloud2::decode(data)?;
            format!("frame {}, {}", cloud.header.frame_id, cloud_text(&cloud))
        }
        TfMessage::TYPE => {
            let mut edges = Vec::new();
            for transform in TfMessage::decode(data)?.transforms {
                let transform = transform?;
                edges
                    .push(format!("{} -> {}", transform.header.frame_id, transform.child_frame_id));
            }
            edges.join(", ")
        }
        Detection2DArray::TYPE => {
            let array = Detection2DArray::decode(data)?;
            format!("frame {}, {} detections", array.header.frame_id, array.detections.len())
        }
        Detection3DArray::TYPE => {
            let array = Detection3DArray::decode(data)?;
            format!("frame {}, {} detections", array.header.frame_id, array.detections.len())
        }
        other => match PackedCloud::of_type(other) {
            Some(packed) => packed_text(packed, data)?,
            None => String::new(),
        },
    })
}

/// The layout of a cloud.
fn cloud_text(cloud: &PointCloud2<'_>) -> String {
    let PointCloud2 { width, height, point_step, is_bigendian, .. } = cloud;
    let fields: Vec<String> = cloud.fields.as_slice().iter().map(field_text).collect();
    let endian = if *is_bigendian { ", big endian" } else { "" };
    format!("{width}x{height} points of {point_step} bytes{endian}: {}", fields.join(" "))
}

/// What a packet of video is, and what reads it.
fn video_text(message: VideoMessage, data: &[u8]) -> Result<String> {
    Ok(format!("{}; read by camera channels", video::describe(message, data)?))
}

/// The layout of a packed cloud once it is unpacked, and what reads it.
fn packed_text(packed: PackedCloud, data: &[u8]) -> Result<String> {
    let mut memory = Vec::new();
    Unpacker::default().unpack_to(packed, data, MAX_DATA_BYTES, &mut memory)?;
    let cloud = PointCloud2::decode(&memory)?;
    let format = match packed {
        PackedCloud::Compressed => CloudFormat::of(&CompressedPointCloud2::decode(data)?)?.name(),
        PackedCloud::LivoxDriver2 | PackedCloud::LivoxDriver | PackedCloud::LivoxInterfaces => {
            "points of Livox"
        }
    };
    let (frame_id, layout) = (cloud.header.frame_id, cloud_text(&cloud));
    Ok(format!(
        "frame {frame_id}, {format}, {} bytes, {layout}; read by LiDAR channels",
        data.len()
    ))
}

/// `intensity:F32@12`, with the count where it is not one.
fn field_text(field: &PointField<'_>) -> String {
    let PointField { name, offset, datatype, count } = field;
    let datatype = match Datatype::from_ros(*datatype) {
        Some(known) => format!("{known:?}"),
        None => format!("type {datatype}"),
    };
    let count = if *count == 1 { String::new() } else { format!("x{count}") };
    format!("{name}:{datatype}{count}@{offset}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_read_like_a_layout() {
        let field = PointField { name: "ring", offset: 16, datatype: 4, count: 1 };
        assert_eq!(field_text(&field), "ring:U16@16");
        let odd = PointField { name: "rgb", offset: 9, datatype: 77, count: 3 };
        assert_eq!(field_text(&odd), "rgb:type 77x3@9");
    }

    #[test]
    fn rates_need_two_messages() {
        let topic = TopicInfo {
            name: "/points".into(),
            type_name: "x/msg/Y".into(),
            serialization: "cdr".into(),
            num_messages: None,
            offered_qos: String::new(),
        };
        let mut seen = Seen::default();
        assert!(paragraph(&topic, &seen).contains("no messages"));
        assert_eq!(summary(&[Seen::default()]), "");
        seen.add(Stamp::from_ros(5, 0), &topic, &[0; 8]);
        assert!(paragraph(&topic, &seen).contains("1 message, 5.000000000 to 5.000000000"));
        seen.add(Stamp::from_ros(5, 500_000_000), &topic, &[0; 8]);
        assert!(paragraph(&topic, &seen).contains("2 messages, 2.00 Hz"));
        let summary = summary(&[seen, Seen::default()]);
        assert!(summary.starts_with("duration 0.500 s, start 19"), "{summary}");
        assert!(summary.ends_with(", 5.000000000, 2 messages, 0.00 MB\n"), "{summary}");
    }
}
