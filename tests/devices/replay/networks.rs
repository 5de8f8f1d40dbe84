//! The network on the GPU too: ONNX Runtime with its CUDA provider against the
//! same library on the CPU. As many detections of the same classes; scores and
//! boxes within the bounds of docs/numerics.md.

use std::path::{Path, PathBuf};

use super::common::agreement::agreement;
use super::common::replay::{det_post, replay};
use super::common::require::{Need, skip};
use super::common::shared_data::shared_data;
use super::common::surround_rig::Fixture;
use super::{has_gpu, networks, trained};

/// The library of ONNX Runtime, when one is named that has a CUDA provider.
pub(super) fn library() -> Option<PathBuf> {
    let Some(library) = std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from) else {
        skip(Need::Ort, "ORT_DYLIB_PATH is not set");
        return None;
    };
    let provider = library.with_file_name("libonnxruntime_providers_cuda.so");
    if provider.is_file() {
        return Some(library);
    }
    skip(Need::Cuda, format_args!("no CUDA provider beside {}", library.display()));
    None
}

/// Replays with ONNX Runtime on the CPU and on GPU 0 and compares.
pub(super) fn compare(
    bag: &Path,
    config: &str,
    channels: &[&str],
    parameters: &[String],
    library: &Path,
) {
    let folder = tempfile::tempdir().unwrap();
    let run = |device: &str, provider: &str| {
        let mut parameters = parameters.to_vec();
        parameters.push(format!("device:={device}"));
        for channel in channels {
            parameters.extend([
                format!("{channel}.engine.kind:=onnxruntime"),
                format!("{channel}.engine.library:={}", library.display()),
                format!("{channel}.engine.provider:={provider}"),
                format!("{channel}.engine.tf32:=false"),
            ]);
        }
        let run = replay(bag, config, &parameters, &folder.path().join(provider));
        run.expect_code(0);
        run
    };
    let (on_cpu, on_gpu) = (run("cpu", "cpu"), run("cuda:0", "cuda"));
    for channel in channels {
        let report = on_gpu.report();
        let engine = report["channels"][channel]["engine"].as_str().unwrap();
        assert!(engine.contains("on CUDA"), "{channel}: {engine}");
        println!("{channel}: {engine}");
    }
    let agreement = agreement(&on_cpu.lines(), &on_gpu.lines(), "CUDA provider");
    println!("{} {parameters:?}: {agreement}", bag.display());
}

/// Without what [`trained`] says of engines.
fn on_any_engine(parameters: Vec<String>) -> Vec<String> {
    parameters.into_iter().filter(|parameter| !parameter.contains(".engine.")).collect()
}

#[test]
fn the_kitti_camera_with_its_network_on_the_gpu() {
    let (true, Some(data), Some(library)) = (has_gpu(), shared_data(), library()) else { return };
    for network in networks(&data) {
        let parameters = trained(&data, "camera", "/sensing/camera/image_raw", network);
        let bag = data.join("bags/kitti_000008_mcap");
        let parameters = on_any_engine(parameters);
        compare(&bag, "config/camera.param.yaml", &["camera"], &parameters, &library);
    }
}

#[test]
fn six_compressed_cameras_with_their_networks_on_the_gpu() {
    let (true, Some(data), Some(library)) = (has_gpu(), shared_data(), library()) else { return };
    let cameras = ["front", "front_right", "back_right", "back", "back_left", "front_left"];
    for network in networks(&data) {
        let parameters = cameras.iter().flat_map(|camera| {
            let input = format!("/camera/{camera}/image_raw/compressed");
            on_any_engine(trained(&data, camera, &input, network))
        });
        let parameters: Vec<_> = parameters.collect();
        let bag = data.join("bags/nuscenes_surround_mcap");
        compare(&bag, "config/surround.param.yaml", &cameras, &parameters, &library);
    }
}

/// Two seconds of the simulated drive through the networks of the demo.
#[test]
fn the_demo_with_its_networks_on_the_gpu() {
    let (true, Some(library)) = (has_gpu(), library()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let drive = folder.path().join("drive");
    let out = drive.to_str().unwrap();
    det_post(&["simulate", "--seed", "9002", "--seconds", "2", "--out", out]).expect_code(0);
    compare(&drive, "config/demo.param.yaml", &["camera", "lidar"], &[], &library);
}

/// StreamPETR in three networks, whose memory goes from frame to frame.
#[test]
fn the_trio_of_streampetr_with_its_networks_on_the_gpu() {
    let (true, Some(library)) = (has_gpu(), library()) else { return };
    let fixture = Fixture::new();
    let config = fixture.path("rig.param.yaml");
    compare(&fixture.drive(), config.to_str().unwrap(), &["rig"], &[], &library);
}
