//! Topics of compressed video are refused with the command that decodes them.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use det_post::replay::{Replay, ReplayOptions};
use det_post::{Config, ErrorKind};
use mcap::WriteOptions;
use mcap::records::MessageHeader;

/// A recording of one message of a type.
fn recording(type_name: &str) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut writer = WriteOptions::new().profile("ros2").create(&mut file).unwrap();
    let schema = writer.add_schema(type_name, "ros2msg", b"byte[] data").unwrap();
    let channel_id = writer.add_channel(schema, "/video", "cdr", &BTreeMap::new()).unwrap();
    let header = MessageHeader { channel_id, sequence: 0, log_time: 1, publish_time: 1 };
    writer.write_to_known_channel(&header, &[0, 1, 0, 0]).unwrap();
    writer.finish().unwrap();
    drop(writer);
    file.into_inner()
}

fn refusal(type_name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("video.mcap");
    std::fs::write(&bag, recording(type_name)).unwrap();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/demo.param.yaml");
    let overrides = ["device:=cpu", "camera.input:=/video"].map(str::to_owned);
    let config = Config::load(&[demo], &overrides).unwrap();
    let error = Replay::open(&bag, &config, ReplayOptions::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    error.message().to_owned()
}

#[test]
fn video_is_refused_with_the_command_that_decodes_it() {
    for (type_name, transport) in [
        ("foxglove_msgs/msg/CompressedVideo", "foxglove"),
        ("ffmpeg_image_transport_msgs/msg/FFMPEGPacket", "ffmpeg"),
    ] {
        let message = refusal(type_name);
        assert!(message.contains(&format!("/video carries {type_name}")), "{message}");
        assert!(message.contains(&format!("-p in_transport:={transport} ")), "{message}");
    }
    let message = refusal("std_msgs/msg/String");
    assert!(message.ends_with("carries std_msgs/msg/String; it takes images"), "{message}");
}
