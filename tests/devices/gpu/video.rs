//! H.264 on the engines of a GPU: the pictures of the CPU's decoder, byte for byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::gpu;
use crate::common::replay::{Run, run};
use crate::common::session::{Session, messages};
use crate::common::surround_rig::{Fixture, NUM_FRAMES, calibration_file};
use crate::common::video::{Decode, OnGpu, Picture, encode, message, with_crop};
use crate::common::view_rig::detr3d_fixture;
use det_post::node::Change;
use det_post_ros::messages::Image;
use det_post_ros::video::{VideoDecoder, VideoMessage};
use det_post_ros::{NodeName, Remaps};

fn stream(width: usize, height: usize, num: usize, key_period: u32) -> Vec<Vec<u8>> {
    let pictures: Vec<Picture> =
        (0..num).map(|number| Picture::moving(width, height, number)).collect();
    encode(&pictures, key_period)
}

#[test]
fn pictures_are_those_of_the_cpu() {
    let Some((_alone, _gpu)) = gpu() else { return };
    let Some(mut on_gpu) = OnGpu::open() else { return };
    // Whole macroblocks, cropped, large, wide; one decoder for all: the size changes at a key frame.
    let sizes = [(64, 48), (64, 40), (208, 120), (640, 360), (1920, 1080), (66, 50), (1280, 64)];
    let mut on_cpu = VideoDecoder::default();
    for (width, height) in sizes {
        for (index, packet) in stream(width, height, 12, 5).iter().enumerate() {
            let expected = on_cpu.picture(packet).unwrap();
            let found = on_gpu.picture(packet).unwrap();
            assert_eq!(found.size, expected.size, "{width}x{height} {index}");
            let num_differ =
                found.samples.iter().zip(&expected.samples).filter(|(a, b)| a != b).count();
            assert_eq!(num_differ, 0, "{width}x{height} {index}: samples that differ");
        }
        assert_eq!(on_gpu.num_on_cpu, 0, "{width}x{height}");
    }
    // What is below the least size of the engines is decoded on the CPU.
    for packet in stream(16, 16, 6, 3) {
        assert!(on_gpu.picture(&packet).unwrap() == on_cpu.picture(&packet).unwrap());
    }
}

#[test]
fn croppings_are_those_of_the_cpu() {
    let Some((_alone, _gpu)) = gpu() else { return };
    let Some(mut on_gpu) = OnGpu::open() else { return };
    let mut on_cpu = VideoDecoder::default();
    // They change at key frames, in frames of one size.
    for crop in [[13, 13, 30, 2], [0, 0, 0, 0], [0, 5, 0, 4], [1, 0, 0, 0], [0, 0, 1, 0]] {
        for (index, packet) in stream(160, 96, 6, 3).iter().enumerate() {
            let packet = with_crop(packet, crop);
            let expected = on_cpu.picture(&packet).unwrap();
            let found = on_gpu.picture(&packet).unwrap();
            assert_eq!(found.size, expected.size, "{crop:?} {index}");
            assert!(found.samples == expected.samples, "{crop:?} {index}");
        }
    }
    assert_eq!(on_gpu.num_on_cpu, 0);
}

#[test]
fn several_decoders_work_at_once() {
    let Some((_alone, _gpu)) = gpu() else { return };
    if OnGpu::open().is_none() {
        return;
    }
    std::thread::scope(|scope| {
        for number in 0..6 {
            scope.spawn(move || {
                let (mut on_cpu, mut on_gpu) = (VideoDecoder::default(), OnGpu::new());
                for packet in stream(320 + 16 * number, 240, 30, 10) {
                    let expected = on_cpu.picture(&packet).unwrap();
                    assert!(on_gpu.picture(&packet).unwrap() == expected, "{number}");
                }
                assert_eq!(on_gpu.num_on_cpu, 0, "{number}");
            });
        }
    });
}

#[test]
fn damage_costs_no_more_than_up_to_the_next_key_frame() {
    let Some((_alone, _gpu)) = gpu() else { return };
    if OnGpu::open().is_none() {
        return;
    }
    const KEY_PERIOD: usize = 3;
    let all = [stream(64, 48, 6, KEY_PERIOD as u32), stream(80, 64, 6, KEY_PERIOD as u32)].concat();
    let mut on_cpu = VideoDecoder::default();
    let whole: Vec<_> = all.iter().map(|packet| on_cpu.picture(packet).unwrap()).collect();
    for damaged in 0..all.len() {
        let next_key = (damaged / KEY_PERIOD + 1) * KEY_PERIOD;
        // Half of a packet, and a packet that is missing.
        for is_missing in [false, true] {
            let mut on_gpu = OnGpu::new();
            for (index, packet) in all.iter().enumerate() {
                let packet = match index == damaged {
                    true if is_missing => continue,
                    true => &packet[..packet.len() / 2],
                    false => packet,
                };
                let found = on_gpu.picture(packet);
                let is_hit = (damaged..next_key).contains(&index);
                match found {
                    Ok(found) if !is_hit => assert!(found == whole[index], "{damaged} {index}"),
                    Ok(_) => assert!(index == damaged && !is_missing, "{damaged} {index}"),
                    Err(error) => assert!(is_hit, "{damaged} {index}: {error}"),
                }
            }
            assert_eq!(on_gpu.num_on_cpu, 0, "{damaged}");
        }
    }
}

const OUTPUT: &str = "/det_post/rig/detections";
/// The camera whose images are not coded.
const RAW_CAMERA: &str = "/camera_3/image";

/// The drive with the images of five of six cameras as packets of a stream each.
fn with_video(fixture: &Fixture) -> PathBuf {
    let mut images = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for (topic, _, cdr) in messages(&fixture.drive()) {
        if topic.ends_with("/image") && topic != RAW_CAMERA {
            images.entry(topic).or_default().push(cdr);
        }
    }
    assert_eq!(images.len(), 5);
    let streams: BTreeMap<String, Vec<Vec<u8>>> = images
        .iter()
        .zip(2..)
        .map(|((topic, images), key_period)| {
            let decoded = |cdr: &Vec<u8>| Picture::of(&Image::decode(cdr).unwrap());
            (topic.clone(), encode(&images.iter().map(decoded).collect::<Vec<_>>(), key_period))
        })
        .collect();
    fixture.rewrite("video", |topic, count, cdr| {
        let Some(packets) = streams.get(topic) else { return Some(cdr.to_vec()) };
        let header = Image::decode(cdr).unwrap().header;
        Some(message(VideoMessage::Image, header, "h264", &packets[count]))
    })
}

fn detections(run: &Run) -> Vec<Vec<u8>> {
    let all = messages(&run.out.join("detections")).into_iter();
    all.filter(|(topic, ..)| topic == OUTPUT).map(|(.., cdr)| cdr).collect()
}

/// Six cameras of a channel: in a replay, with frames in flight, and live, where images are prepared on arrival.
#[test]
fn cameras_of_a_channel_detect_the_same_with_both_decoders() {
    let Some((_alone, _gpu)) = gpu() else { return };
    if OnGpu::open().is_none() {
        return;
    }
    let fixture = detr3d_fixture();
    let bag = with_video(&fixture);
    let paths = vec![calibration_file(&fixture).display().to_string(); 6].join(", ");
    let paths = format!("rig.calibration_paths:=[{paths}]");
    let file = fixture.path("rig.param.yaml");
    let parameters = |decode: &str| -> Vec<String> {
        let decode = format!("rig.decode_video:={decode}");
        let all = ["device:=cuda:0", "rig.score_thresholds:=0.0", "rig.sync.deadline_s:=10.0"];
        all.map(str::to_owned).into_iter().chain([decode, paths.clone()]).collect()
    };
    let replay = |name: &str, decode: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_det_post"));
        let out = fixture.path(name);
        command.arg("replay").arg(&bag).arg("--config").arg(&file).arg("--out").arg(&out);
        for parameter in parameters(decode) {
            command.args(["-p", &parameter]);
        }
        let run = Run { out, ..run(command.args(more)) };
        run.expect_code(0);
        run
    };
    let on_cpu = replay("cpu", "cpu", &[]);
    let expected = detections(&on_cpu);
    assert_eq!(expected.len(), NUM_FRAMES);
    assert!(!on_cpu.stderr.contains("NVDEC"), "{}", on_cpu.stderr);
    let on_gpu = replay("gpu", "gpu", &[]);
    assert!(on_gpu.stderr.matches("video is decoded by cuda:0").count() == 5, "{}", on_gpu.stderr);
    assert!(detections(&on_gpu) == expected);
    for num in ["1", "2", "4"] {
        let run = replay(&format!("in_flight_{num}"), "gpu", &["--frames-in-flight", num]);
        assert!(detections(&run) == expected, "{num} in flight");
    }
    live(&bag, &file, &parameters("gpu"), &expected);
}

fn live(bag: &Path, file: &Path, parameters: &[String], expected: &[Vec<u8>]) {
    let node = NodeName::new("", "det_post").unwrap();
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let session = Session::open_file(node, Remaps::default(), file, &parameters);
    session.node.change(Change::Configure).unwrap();
    session.node.change(Change::Activate).unwrap();
    let mut topics = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for (topic, _, cdr) in messages(bag) {
        topics.entry(topic).or_default().push(cdr);
    }
    for topic in ["/tf_static", "/tf"] {
        for cdr in &topics[topic] {
            session.graph.send(topic, cdr);
        }
    }
    for (frame, expected) in expected.iter().enumerate() {
        for camera in 0..6 {
            let topic = format!("/camera_{camera}/image");
            assert_eq!(session.graph.send(&topic, &topics[&topic][frame]), 1);
        }
        assert!(session.next(OUTPUT) == *expected, "frame {frame}");
    }
}
