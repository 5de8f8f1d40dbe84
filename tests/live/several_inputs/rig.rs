//! Two sensors that start together, and what goes wrong with them: a message
//! that is missing, one that is late, one that comes twice, and a clock that
//! starts over.

use std::path::Path;
use std::time::Duration;

use det_post::config::{ChannelConfig, Config, InputConfig, SyncConfig};
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{
    CameraInfo, Image, PointCloud2, TfMessage, TransformStamped, definition,
};
use det_post_ros::{OutputType, Reliability};
use det_post_types::{Header, PointField, PointFields, Stamp};

pub const CAMERA: &str = "/camera";
pub const OTHER_CAMERA: &str = "/other_camera";
pub const LIDAR: &str = "/lidar";
pub const TF_STATIC: &str = "/tf_static";
pub const CAMERA_INFO: &str = "/camera_info";
pub const FOCAL_LENGTH: f64 = 640.5;

/// Time between two frames, in milliseconds.
const PERIOD_MS: i64 = 400;
const NUM_FRAMES: i64 = 12;
/// How long a frame waits for its inputs.
pub const DEADLINE: Duration = Duration::from_millis(150);

/// A message: when it arrives, of which topic, and its bytes.
pub struct Message {
    pub at: Stamp,
    pub topic: &'static str,
    pub cdr: Vec<u8>,
}

/// What comes of the rig's frames.
pub const NUM_SERVED: u64 = 9;
/// The frames whose second input is missing or late.
pub const NUM_INCOMPLETE: u64 = 2;

/// The configuration of a channel: `cameras` or `fused`.
pub fn config(name: &str) -> Config {
    let overrides = [
        format!("{name}.input:={CAMERA}"),
        format!("{name}.head:=yolov8"),
        format!("{name}.model_path:=Cargo.toml"),
        format!("{name}.device:=cpu"),
        "diagnostics_period_s:=0.1".to_owned(),
    ];
    let mut config = Config::load(&[], &overrides).unwrap();
    let channel = &mut config.channels[0];
    add_second_input(channel, if name == "cameras" { OTHER_CAMERA } else { LIDAR });
    if name == "fused" {
        channel.publish.format.output_type = OutputType::Detection3dArray;
    }
    config
}

fn add_second_input(channel: &mut ChannelConfig, topic: &str) {
    let topic = topic.to_owned();
    channel.inputs[0].camera_info = Some(CAMERA_INFO.to_owned());
    channel.inputs.push(InputConfig {
        topic,
        is_compressed: false,
        packed_cloud: None,
        video: None,
        camera_info: None,
        calibration_path: None,
    });
    channel.live.qos.reliability = Reliability::Reliable;
    channel.sync = SyncConfig {
        max_skew: Duration::from_millis(50),
        deadline: DEADLINE,
        ..SyncConfig::default()
    };
}

/// Every message of the rig in the order of arrival, and the pose of the lidar.
pub fn messages(second: &'static str) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut add = |at_ms: i64, topic, stamp_ms: i64| {
        let [at, stamp] = [at_ms, stamp_ms].map(|ms| Stamp::from_nanos(ms * 1_000_000));
        messages.push(Message { at, topic, cdr: message(topic, stamp) });
    };
    for frame in 0..NUM_FRAMES {
        let at = 100_000 + frame * PERIOD_MS;
        // From frame 9 on, the clock of both is five seconds behind.
        let stamp = at - if frame < 9 { 0 } else { 5000 };
        add(at + 5, CAMERA, stamp);
        match frame {
            3 => {}
            5 => add(at + 5 + 280, second, stamp + 10),
            7 => {
                add(at + 25, second, stamp + 10);
                add(at + 30, second, stamp + 10);
            }
            _ => add(at + 25, second, stamp + 10),
        }
    }
    messages
}

fn message(topic: &str, stamp: Stamp) -> Vec<u8> {
    let mut cdr = Vec::new();
    let number = (stamp.nanos() / 1_000_000) as u8;
    let header = Header { stamp, frame_id: topic.trim_start_matches('/') };
    if topic == LIDAR {
        let mut fields = PointFields::new();
        fields.push(PointField { name: "x", offset: 0, datatype: 7, count: 1 }).unwrap();
        let data = [number; 40];
        let cloud = PointCloud2 {
            header,
            height: 1,
            width: 10,
            fields,
            is_bigendian: false,
            point_step: 4,
            row_step: 40,
            data: &data,
            is_dense: true,
        };
        cloud.encode(&mut cdr).unwrap();
    } else {
        let data = [number; 3 * 4 * 2];
        let image = Image {
            header,
            height: 2,
            width: 4,
            encoding: "rgb8",
            is_bigendian: false,
            step: 12,
            data: &data,
        };
        image.encode(&mut cdr).unwrap();
    }
    cdr
}

/// The static pose of the LiDAR.
pub fn pose() -> Vec<u8> {
    let mut cdr = Vec::new();
    let transform = TransformStamped {
        header: Header { stamp: Stamp::default(), frame_id: "map" },
        child_frame_id: "lidar",
        translation: [7.5, 0.0, 0.0],
        rotation: [0.0, 0.0, 0.0, 1.0],
    };
    TfMessage::encode(&[transform], &mut cdr).unwrap();
    cdr
}

/// The calibration of the first camera.
pub fn calibration() -> Vec<u8> {
    let mut cdr = Vec::new();
    let header = Header { stamp: Stamp::default(), frame_id: "camera" };
    let mut info = CameraInfo { header, width: 4, height: 2, ..CameraInfo::default() };
    info.k[0] = FOCAL_LENGTH;
    info.encode(&mut cdr).unwrap();
    cdr
}

/// Name of the type of a topic's messages.
pub fn type_name(topic: &str) -> &'static str {
    match topic {
        LIDAR => PointCloud2::TYPE,
        TF_STATIC => TfMessage::TYPE,
        CAMERA_INFO => CameraInfo::TYPE,
        _ => Image::TYPE,
    }
}

/// Writes the rig as a recording.
pub fn record(second: &'static str, folder: &Path) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let topics = [CAMERA, second, TF_STATIC, CAMERA_INFO];
    let numbers = topics.map(|topic| {
        let (of_type, qos) = (type_name(topic), OfferedQos::default());
        bag.add_topic(topic, of_type, &definition(of_type).unwrap(), qos).unwrap()
    });
    let early = Stamp::from_nanos(99_000_000_000);
    bag.write(numbers[2], early, &pose()).unwrap();
    bag.write(numbers[3], early, &calibration()).unwrap();
    for Message { at, topic, cdr } in messages(second) {
        let number = topics.iter().position(|of| *of == topic).unwrap();
        bag.write(numbers[number], at, &cdr).unwrap();
    }
    bag.finish().unwrap();
}
