//! Video in a replay and live: the detections of its decoded pictures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use det_post_ros::messages::{Detection2DArray, Image};
use det_post_ros::video::{VideoDecoder, VideoMessage};
use det_post_types::{Header, Stamp};
use mcap::WriteOptions;
use mcap::records::MessageHeader;

use super::diagnostics::await_status;
use super::encoded::{CARRIERS, OnGpu, Picture, encode, message};
use super::recording::IMAGE_TOPIC;
use super::replay::{self, Run};
use super::session::{CAMERA_OUT, Session, messages, sample};

/// Names and bytes of messages.
pub type Log = Vec<(Stamp, Vec<u8>)>;

/// Packets from one key frame to the next.
pub const KEY_PERIOD: usize = 4;

/// A packet of each image of the sample, with the header of its message.
struct Packet {
    time: Stamp,
    stamp: Stamp,
    data: Vec<u8>,
}

fn packets() -> &'static [Packet] {
    static PACKETS: OnceLock<Vec<Packet>> = OnceLock::new();
    PACKETS.get_or_init(|| {
        let all = messages(&sample().join("drive")).into_iter();
        let images: Log =
            all.filter(|(topic, ..)| topic == IMAGE_TOPIC).map(|(_, at, cdr)| (at, cdr)).collect();
        let pictures: Vec<Picture> =
            images.iter().map(|(_, cdr)| Picture::of(&Image::decode(cdr).unwrap())).collect();
        let packets = encode(&pictures, KEY_PERIOD as u32).into_iter().zip(&images);
        let packet = |(data, (time, cdr)): (Vec<u8>, &(Stamp, Vec<u8>))| {
            let stamp = Image::decode(cdr).unwrap().header.stamp;
            Packet { time: *time, stamp, data }
        };
        packets.map(packet).collect()
    })
}

pub fn carried(carrier: VideoMessage, codec: &str) -> Log {
    let message = |packet: &Packet| {
        let header = Header { stamp: packet.stamp, frame_id: "camera" };
        (packet.time, message(carrier, header, codec, &packet.data))
    };
    packets().iter().map(message).collect()
}

/// The pictures of the packets, decoded.
fn decoded() -> Log {
    let mut decoder = VideoDecoder::default();
    let decode = |(time, cdr): (Stamp, Vec<u8>)| {
        let mut image = Vec::new();
        decoder.decode_to(VideoMessage::Foxglove, &cdr, 1 << 20, &mut image).unwrap();
        (time, image)
    };
    carried(VideoMessage::Foxglove, "h264").into_iter().map(decode).collect()
}

fn write(path: &Path, type_name: &str, messages: &Log) {
    let mut file = std::fs::File::create(path).unwrap();
    let mut writer = WriteOptions::new().profile("ros2").create(&mut file).unwrap();
    let definition = det_post_ros::messages::definition(type_name).unwrap();
    let schema = writer.add_schema(type_name, "ros2msg", definition.as_bytes()).unwrap();
    let channel_id = writer.add_channel(schema, IMAGE_TOPIC, "cdr", &BTreeMap::new()).unwrap();
    for (index, (time, cdr)) in messages.iter().enumerate() {
        let log_time = time.nanos() as u64;
        let header =
            MessageHeader { channel_id, sequence: index as u32, log_time, publish_time: log_time };
        writer.write_to_known_channel(&header, cdr).unwrap();
    }
    writer.finish().unwrap();
}

/// The parameter file of the sample, with one engine on every machine.
fn config() -> String {
    static CONFIG: OnceLock<PathBuf> = OnceLock::new();
    let path = CONFIG.get_or_init(|| {
        let text = std::fs::read_to_string(sample().join("sample.param.yaml")).unwrap();
        let of_node = "det_post:\n  ros__parameters:\n    camera.engine.kind: rten\n";
        let path = sample().join("video.param.yaml");
        std::fs::write(&path, format!("{text}\n{of_node}")).unwrap();
        path
    });
    path.display().to_string()
}

fn detections(out: &Path) -> Log {
    let all = messages(&out.join("detections")).into_iter();
    all.filter(|(topic, ..)| topic == CAMERA_OUT).map(|(_, at, cdr)| (at, cdr)).collect()
}

/// The detections of the decoded pictures.
pub fn expected() -> &'static Log {
    static EXPECTED: OnceLock<Log> = OnceLock::new();
    EXPECTED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (bag, out) = (folder.path().join("images.mcap"), folder.path().join("out"));
        write(&bag, Image::TYPE, &decoded());
        replay::replay(&bag, &config(), &[], &out).expect_code(0);
        detections(&out)
    })
}

#[test]
fn a_replay_of_video_gives_the_detections_of_its_pictures() {
    assert_eq!(expected().len(), packets().len());
    let num_found =
        |(_, cdr): &(Stamp, Vec<u8>)| Detection2DArray::decode(cdr).unwrap().detections.len();
    assert!(expected().iter().map(num_found).sum::<usize>() > 0, "no image has an object");
    let folder = tempfile::tempdir().unwrap();
    for carrier in CARRIERS {
        let bag = folder.path().join(format!("{carrier:?}.mcap"));
        write(&bag, carrier.type_name(), &carried(carrier, "h264"));
        let out = folder.path().join(format!("{carrier:?}"));
        replay::replay(&bag, &config(), &[], &out).expect_code(0);
        assert!(detections(&out) == *expected(), "{carrier:?}");
        let text = replay::det_post(&["inspect", &bag.display().to_string()]);
        let text = &text.expect_code(0).stdout;
        assert!(text.contains("h264") && text.contains("key frame of 640x360"), "{text}");
        assert!(text.contains("; read by camera channels"), "{text}");
    }

    // At the recorded pace the channel may skip frames; none is refused.
    let bag = folder.path().join("Foxglove.mcap");
    let out = folder.path().join("paced");
    let run = replay::replay_at(&bag, &config(), "20", &out);
    let report = &run.expect_code(0).report()["channels"]["camera"];
    let mut reasons = report["dropped"].as_object().into_iter().flat_map(|dropped| dropped.keys());
    assert!(reasons.all(|reason| reason == "overtaken"), "{report}");
    let found = detections(&out);
    assert!(!found.is_empty());
    assert!(found.iter().all(|(_, cdr)| expected().iter().any(|(_, known)| known == cdr)));
}

fn replay_from(bag: &Path, from: Stamp, more: &[&str], out: &Path) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_det_post"));
    let nanos = from.nanos();
    let from = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    command.arg("replay").arg(bag).args(["--config", &config(), "--out"]).arg(out);
    command.args(["--from", &from]).args(more);
    Run { out: out.into(), ..replay::run(&mut command) }
}

#[test]
fn a_slice_of_video_is_read_in_from_its_last_key_frame() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("video.mcap");
    write(&bag, VideoMessage::Ffmpeg.type_name(), &carried(VideoMessage::Ffmpeg, "libx264"));
    let last = packets().len() - 1;
    for index in [0, 1, KEY_PERIOD - 1, KEY_PERIOD, KEY_PERIOD + 1, last] {
        let packet = &packets()[index];
        let out = folder.path().join(format!("from_{index}"));
        let run = replay_from(&bag, packet.time, &[], &out);
        let report = &run.expect_code(0).report()["channels"]["camera"];
        assert!(detections(&out) == expected()[index..], "{index}: {report}");
        assert_eq!(report["frames_in"], packets().len() - index, "{report}");
    }
    // At a pace the frames before the slice are decoded at once.
    let index = KEY_PERIOD + 2;
    let out = folder.path().join("paced");
    let run = replay_from(&bag, packets()[index].time, &["--rate", "20"], &out);
    let report = &run.expect_code(0).report()["channels"]["camera"];
    assert!(report["frames_out"].as_u64().unwrap() > 0, "{report}");
    assert!(report["dropped"].get("no_image").is_none(), "{report}");
}

#[test]
fn packets_that_give_no_image_are_dropped_with_their_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let count = |log: &Log, name: &str| {
        let bag = folder.path().join(format!("{name}.mcap"));
        write(&bag, VideoMessage::Foxglove.type_name(), log);
        let out = folder.path().join(name);
        let run = replay::replay(&bag, &config(), &[], &out);
        let report = run.report()["channels"]["camera"]["dropped"].clone();
        let of = |reason: &str| report[reason]["count"].as_u64().unwrap_or(0) as usize;
        let counts = ["no_image", "undecodable_video", "unsupported_encoding"].map(of);
        let found = detections(&out);
        assert_eq!(found.len() + counts.iter().sum::<usize>(), log.len(), "{name}: {report}");
        assert!(found.iter().all(|message| expected().contains(message)), "{name}");
        (counts, run.stderr)
    };
    let whole = carried(VideoMessage::Foxglove, "h264");

    // The recording begins after a key frame.
    let late = whole[1..].to_vec();
    assert_eq!(count(&late, "late").0, [KEY_PERIOD - 1, 0, 0]);

    // A packet is missing: the next one does not fit, and those up to the key frame depend on it.
    let mut missing = whole.clone();
    missing.remove(KEY_PERIOD + 1);
    assert_eq!(count(&missing, "missing").0, [KEY_PERIOD - 3, 1, 0]);

    // A packet is cut, and a key frame has no start code.
    let mut damaged = whole.clone();
    let header = |index: usize| Header { stamp: packets()[index].stamp, frame_id: "camera" };
    let foxglove = VideoMessage::Foxglove;
    let data = &packets()[KEY_PERIOD].data;
    damaged[KEY_PERIOD].1 = message(foxglove, header(KEY_PERIOD), "h264", &data[5..data.len() / 3]);
    assert_eq!(count(&damaged, "damaged").0, [KEY_PERIOD - 1, 1, 0]);

    // Another codec, with the command that decodes it.
    let (counts, log) = count(&carried(foxglove, "h265"), "h265");
    assert_eq!(counts, [0, 0, whole.len()]);
    assert!(log.contains("-p in_transport:=foxglove"), "{log}");
}

#[test]
fn live_video_gives_the_detections_of_its_pictures() {
    for (carrier, transport) in
        CARRIERS.into_iter().zip(["foxglove", "ffmpeg", "compressed", "raw"])
    {
        let transport = format!("camera.input_transport:={transport}");
        let overrides = ["camera.engine.kind:=rten", &transport, "diagnostics_period_s:=0.2"];
        let session = Session::active(&overrides);
        let of_input = session.graph.inputs().into_iter().find(|(topic, ..)| topic == IMAGE_TOPIC);
        assert_eq!(of_input.unwrap().1.type_name(), carrier.type_name());
        // Before the first key frame, and what is no packet.
        let packets = carried(carrier, "h264");
        session.graph.send(IMAGE_TOPIC, &packets[1].1);
        session.graph.send(IMAGE_TOPIC, &packets[0].1[..20]);
        for ((_, cdr), (_, expected)) in packets.iter().zip(expected()) {
            assert!(session.send_for(IMAGE_TOPIC, cdr, CAMERA_OUT) == *expected, "{carrier:?}");
        }
        await_status(&session, "det_post: camera: input", |status| {
            let is_once = |reason: &str| {
                let count = status.values.get(&format!("refused.{reason}"));
                count.is_some_and(|count| count == "1")
            };
            status.number("received") == packets.len() as f64
                && is_once("no_image")
                && is_once("malformed_message")
        });
    }
}

#[test]
fn video_that_is_faster_than_the_channel_loses_no_image_in_silence() {
    let session = Session::active(&[
        "camera.engine.kind:=rten",
        "camera.input_transport:=foxglove",
        "diagnostics_period_s:=0.2",
    ]);
    let packets = carried(VideoMessage::Foxglove, "h264");
    let num_rounds = 10;
    for _ in 0..num_rounds {
        for (_, cdr) in &packets {
            assert_eq!(session.graph.send(IMAGE_TOPIC, cdr), 1);
        }
    }
    let num = (num_rounds * packets.len()) as f64;
    await_status(&session, "det_post: camera: input", |status| {
        let num_refused = status.values.keys().filter(|key| key.starts_with("refused.")).count();
        assert_eq!(num_refused, 0, "{:?}", status.values);
        status.number("received") == num && status.number("overtaken") > 0.0
    });
}

/// The parameters of the camera on a GPU, with its network on the CPU.
fn on_gpu(decode: &str) -> Vec<String> {
    let decode = format!("camera.decode_video:={decode}");
    ["device:=cuda:0", "camera.engine.kind:=rten", &decode].map(str::to_owned).to_vec()
}

#[test]
fn channels_on_a_gpu_detect_the_same_with_both_decoders() {
    if OnGpu::open().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("video.mcap");
    let packets = carried(VideoMessage::Foxglove, "h264");
    write(&bag, VideoMessage::Foxglove.type_name(), &packets);
    let run = |decode: &str| {
        let out = folder.path().join(decode);
        let run = replay::replay(&bag, &config(), &on_gpu(decode), &out);
        let found = detections(&out);
        assert_eq!(found.len(), packets.len(), "{decode}");
        (found, run.expect_code(0).stderr.clone())
    };
    let ((expected, on_cpu), (found, on_engines)) = (run("cpu"), run("gpu"));
    assert!(found == expected);
    assert!(run("auto").0 == expected);
    assert!(on_engines.contains("video is decoded by cuda:0"), "{on_engines}");
    assert!(!on_cpu.contains("NVDEC"), "{on_cpu}");

    // A slice, frames in flight, and at a pace.
    let index = KEY_PERIOD + 2;
    for more in [&[][..], &["--frames-in-flight", "1"], &["--frames-in-flight", "4"]] {
        let out = folder.path().join(format!("from{}", more.concat()));
        let parameters = on_gpu("gpu");
        let mut all: Vec<&str> = parameters.iter().flat_map(|of| ["-p", of.as_str()]).collect();
        all.extend(more);
        replay_from(&bag, packets[index].0, &all, &out).expect_code(0);
        assert!(detections(&out) == expected[index..], "{more:?}");
    }

    // Live.
    let mut overrides = on_gpu("gpu");
    overrides.push("camera.input_transport:=foxglove".to_owned());
    let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
    let session = Session::active(&overrides);
    for ((_, cdr), (_, expected)) in packets.iter().zip(&expected) {
        assert!(session.send_for(IMAGE_TOPIC, cdr, CAMERA_OUT) == *expected);
    }
}
