//! The same recording through the whole program on the CPU and on a GPU. With
//! the network on the CPU both times `detections.jsonl` has the same bytes, and
//! what was lost and dropped is the same.
//!
//! Without a GPU the suite says so and passes, unless `DET_POST_REQUIRE=cuda`
//! makes that a failure.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]
#![allow(dead_code, reason = "the sample's modules are shared")]

use crate::common;
use crate::common::{camera_net, lidar_nets, parameters, recording};

mod drop_in;
#[path = "networks.rs"]
mod networks_on_the_gpu;
mod shared_jpeg;
mod soak;
mod surround;
mod uploads;
mod voxels;

use std::path::Path;

use common::counting_pillars;
use common::counting_voxels::{self, FIELDS};
use common::replay::replay;
use common::require::{Need, skip};
use common::shared_data::shared_data;
use det_post_ops::device::Device;
use det_post_types::DeviceChoice;

/// Whether there is a GPU; if not, says why.
fn has_gpu() -> bool {
    let Err(reason) = Device::open(DeviceChoice::Cuda(0)) else { return true };
    skip(Need::Cuda, reason);
    false
}

/// How many GPUs there are.
fn num_gpus() -> u32 {
    (0..64).take_while(|&gpu| Device::open(DeviceChoice::Cuda(gpu)).is_ok()).count() as u32
}

/// Replays on the CPU and on GPU 0 and compares what came out.
fn compare(bag: &Path, config: &str, parameters: &[String]) {
    compare_on(bag, config, parameters, &[]);
}

/// The same with some channels on GPUs of their own.
fn compare_on(bag: &Path, config: &str, parameters: &[String], gpus: &[(&str, u32)]) {
    let folder = tempfile::tempdir().unwrap();
    let run = |device: &str, of_channels: &[(&str, u32)]| {
        let mut parameters = parameters.to_vec();
        parameters.push(format!("device:={device}"));
        let of_channel = |(channel, gpu): &(&str, u32)| format!("{channel}.device:=cuda:{gpu}");
        parameters.extend(of_channels.iter().map(of_channel));
        replay(bag, config, &parameters, &folder.path().join(device.replace(':', "_")))
    };
    let (on_cpu, on_gpu) = (run("cpu", &[]), run("cuda:0", gpus));
    on_gpu.expect_code(on_cpu.code);
    let (expected, found) = (on_cpu.report(), on_gpu.report());
    let mut num_detections = 0;
    for (name, channel) in expected["channels"].as_object().unwrap() {
        let other = &found["channels"][name];
        for key in ["frames_in", "frames_out", "detections", "dropped", "truncated", "levels"] {
            assert_eq!(other[key], channel[key], "{}: {name}.{key}", bag.display());
        }
        let device = other["device"].as_str().unwrap();
        let gpu = gpus.iter().find(|(channel, _)| channel == name).map_or(0, |(_, gpu)| *gpu);
        assert!(device.starts_with(&format!("cuda:{gpu} ")), "{name}: {device}");
        num_detections += channel["detections"].as_u64().unwrap();
    }
    let same = on_cpu.bytes("detections.jsonl") == on_gpu.bytes("detections.jsonl");
    if !same {
        let pairs = on_cpu.lines().into_iter().zip(on_gpu.lines());
        for (expected, found) in pairs.filter(|(a, b)| a != b).take(1) {
            println!("expected {expected}\nfound    {found}");
        }
    }
    assert!(same, "{} {parameters:?}: detections differ", bag.display());
    println!("{}: {num_detections} detections, the same bytes", bag.display());
}

/// One channel of `config` with a trained network.
fn trained(data: &Path, channel: &str, input: &str, (head, model): (&str, &str)) -> Vec<String> {
    let model = data.join("models").join(model);
    vec![
        format!("{channel}.head:={head}"),
        format!("{channel}.model_path:={}", model.display()),
        format!("{channel}.input:={input}"),
        format!("{channel}.score_threshold:=0.1"),
        format!("{channel}.engine.kind:=rten"),
        format!("{channel}.engine.threads:=2"),
    ]
}

/// The trained networks that are there.
fn networks(data: &Path) -> Vec<(&'static str, &'static str)> {
    let all = [
        ("yolox", "yolox_nano_416.onnx"),
        ("yolov5", "yolov5n_fp32_640.onnx"),
        ("yolov8", "yolov8n_f32_from_qdq_640.onnx"),
    ];
    let there = all.into_iter().filter(|(_, model)| data.join("models").join(model).is_file());
    let there: Vec<_> = there.collect();
    assert!(!there.is_empty(), "no network in {}", data.display());
    there
}

/// Writes the sample drive with its networks; the path of its configuration.
fn write_sample(folder: &Path) -> String {
    std::fs::create_dir_all(folder.join("models")).unwrap();
    std::fs::create_dir_all(folder.join("heads")).unwrap();
    camera_net::graph().save(&folder.join("models/blobs_yolov8.onnx")).unwrap();
    std::fs::write(folder.join("heads/blobs_yolov8.yaml"), parameters::camera_head()).unwrap();
    lidar_nets::encoder().save(&folder.join("models/pillar_encoder.onnx")).unwrap();
    lidar_nets::head().save(&folder.join("models/pillar_head.onnx")).unwrap();
    std::fs::write(folder.join("heads/pillars.yaml"), parameters::lidar_head()).unwrap();
    recording::write(&folder.join("drive")).unwrap();
    let config = folder.join("sample.param.yaml");
    std::fs::write(&config, parameters::deployment(folder)).unwrap();
    config.to_str().unwrap().to_owned()
}

#[test]
fn the_sample_drive() {
    if !has_gpu() {
        return;
    }
    let sample = tempfile::tempdir().unwrap();
    let (config, drive) = (write_sample(sample.path()), sample.path().join("drive"));
    for more in [
        &[][..],
        &["camera.pre_nms_top_k:=7", "lidar.pre_nms_top_k:=3"],
        &["camera.nms.class_mode:=agnostic", "lidar.nms.kind:=none"],
    ] {
        let mut parameters =
            ["camera.engine.kind:=rten", "lidar.engine.kind:=rten"].map(String::from).to_vec();
        parameters.extend(more.iter().map(|&parameter| parameter.to_owned()));
        compare(&drive, &config, &parameters);
    }
}

/// Each channel on a GPU of its own, in one process; with one GPU both on that.
#[test]
fn the_sample_drive_on_several_gpus() {
    if !has_gpu() {
        return;
    }
    let sample = tempfile::tempdir().unwrap();
    let (config, drive) = (write_sample(sample.path()), sample.path().join("drive"));
    let parameters = ["camera.engine.kind:=rten", "lidar.engine.kind:=rten"].map(String::from);
    let last = num_gpus() - 1;
    println!("GPUs 0 and {last}");
    for (camera, lidar) in [(0, last), (last, 0)] {
        compare_on(&drive, &config, &parameters, &[("camera", camera), ("lidar", lidar)]);
    }
}

#[test]
fn the_kitti_camera() {
    if !has_gpu() {
        return;
    }
    let Some(data) = shared_data() else { return };
    for network in networks(&data) {
        let parameters = trained(&data, "camera", "/sensing/camera/image_raw", network);
        let bag = data.join("bags/kitti_000008_mcap");
        compare(&bag, "config/camera.param.yaml", &parameters);
    }
}

#[test]
fn six_compressed_cameras() {
    if !has_gpu() {
        return;
    }
    let Some(data) = shared_data() else { return };
    for network in networks(&data) {
        let cameras = ["front", "front_right", "back_right", "back", "back_left", "front_left"];
        let parameters = |camera: &&str| {
            let input = format!("/camera/{camera}/image_raw/compressed");
            trained(&data, camera, &input, network)
        };
        let parameters: Vec<String> = cameras.iter().flat_map(parameters).collect();
        let bag = data.join("bags/nuscenes_surround_mcap");
        compare(&bag, "config/surround.param.yaml", &parameters);
    }
}

#[test]
fn damaged_images_are_dropped_alike() {
    if !has_gpu() {
        return;
    }
    let Some(data) = shared_data() else { return };
    let raw = "/sensing/camera/image_raw";
    for (bag, topic) in [
        ("image_data_short", raw),
        ("image_zero_size", raw),
        ("unknown_encoding", raw),
        ("jpeg_truncated", "/camera/front/image_raw/compressed"),
    ] {
        let parameters = trained(&data, "camera", topic, networks(&data)[0]);
        let bag = data.join("bags/broken").join(bag);
        compare(&bag, "config/camera.param.yaml", &parameters);
    }
}

/// Pillars set by hand say in every detection what their points held.
#[test]
fn lidars_of_every_recording() {
    if !has_gpu() {
        return;
    }
    let Some(data) = shared_data() else { return };
    let folder = tempfile::tempdir().unwrap();
    // Of any number of rows an engine may sum in another order: fixed ones here.
    let config = counting_pillars::write(folder.path(), 6000, false);
    let config = config.to_str().unwrap();
    for (bag, topic) in [
        ("kitti_000008_mcap", "/sensing/lidar/points"),
        ("nuscenes_surround_mcap", "/lidar_top"),
        ("waymo_5_db3", "/sensing/lidar/points"),
    ] {
        let bag = data.join("bags").join(bag);
        if !bag.is_dir() {
            skip(Need::Data, format_args!("no {}", bag.display()));
            continue;
        }
        for more in [
            &[][..],
            &["point_capacity:=9000"],
            &["densification.num_past_sweeps:=2"],
            &["nms.kind:=circle", "pre_nms_top_k:=200", "max_detections:=30"],
        ] {
            let mut parameters = vec![
                format!("lidar.input:={topic}"),
                "lidar.engine.kind:=rten".to_owned(),
                "lidar.engine.threads:=2".to_owned(),
            ];
            parameters.extend(more.iter().map(|parameter| format!("lidar.{parameter}")));
            compare(&bag, config, &parameters);
        }
    }
}

/// Sparse encoders give the same bits in f32, and count the same sites.
#[test]
fn voxels_of_a_recording() {
    if !has_gpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = counting_voxels::write(folder.path());
    let sizes = (1..).zip([3000, 0, 1, 900]);
    let clouds: Vec<Vec<f32>> =
        sizes.map(|(seed, num)| counting_voxels::cloud(seed, num).concat()).collect();
    let bag = folder.path().join("drive");
    counting_voxels::write_bag(&bag, &FIELDS, &clouds);
    for more in [&[][..], &["voxel_capacity:=300", "encoder.level_capacities:=[150, 60, 10]"]] {
        let mut parameters: Vec<String> =
            more.iter().map(|parameter| format!("lidar.{parameter}")).collect();
        parameters.push("lidar.encoder.precision:=f32".to_owned());
        compare(&bag, config.to_str().unwrap(), &parameters);
    }
}
