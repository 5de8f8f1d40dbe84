//! Six cameras on a GPU whose network runs once for the frames of all, and whose JPEG files are
//! decoded at once.

use std::path::Path;

use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{CompressedImage, definition};
use det_post_types::{Header, Stamp};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::networks_on_the_gpu::{compare, library};
use super::{has_gpu, recording, write_sample};
use crate::common::drive;
use crate::common::replay::replay;
use crate::common::require::{Need, skip};

const NUM_CAMERAS: usize = 6;

/// Six channels of the sample's camera, each with a threshold of its own.
fn channels(folder: &Path, engine: &[&str], is_batched: bool) -> Vec<String> {
    channels_of(|_| recording::IMAGE_TOPIC.to_owned(), folder, engine, is_batched)
}

/// Six channels of cameras with these topics.
fn channels_of(
    topic: impl Fn(usize) -> String,
    folder: &Path,
    engine: &[&str],
    is_batched: bool,
) -> Vec<String> {
    let folder = folder.display();
    let mut all = vec!["device:=cuda:0".to_owned()];
    for camera in 0..NUM_CAMERAS {
        all.extend([
            format!("c{camera}.input:={}", topic(camera)),
            format!("c{camera}.head:={folder}/heads/blobs_yolov8.yaml"),
            format!("c{camera}.model_path:={folder}/models/blobs_yolov8.onnx"),
            format!("c{camera}.score_threshold:={:?}", 0.2 + 0.1 * camera as f32),
        ]);
        all.extend(engine.iter().map(|parameter| format!("c{camera}.engine.{parameter}")));
        if is_batched && camera > 0 {
            all.push(format!("c{camera}.batch_with:=c0"));
        }
    }
    all
}

#[test]
fn six_cameras_in_one_batch_find_what_each_finds_alone() {
    if !has_gpu() {
        return;
    }
    let sample = tempfile::tempdir().unwrap();
    let folder = sample.path();
    write_sample(folder);
    let (nothing, drive) = (folder.join("none.yaml"), folder.join("drive"));
    std::fs::write(&nothing, "/**:\n  ros__parameters:\n    use_sim_time: false\n").unwrap();
    let run = |engine: &[&str], is_batched, out: &str| {
        let parameters = channels(folder, engine, is_batched);
        replay(&drive, nothing.to_str().unwrap(), &parameters, &folder.join(out))
    };
    let rten = ["kind:=rten", "threads:=2"];
    let alone = run(&rten, false, "alone");
    let batched = run(&rten, true, "batched");
    batched.expect_code(0);
    let report = batched.report();
    for camera in 0..NUM_CAMERAS {
        let channel = &report["channels"][format!("c{camera}")];
        let engine = channel["engine"].as_str().unwrap();
        assert!(engine.ends_with("a batch of 6"), "{engine}");
    }
    // On the CPU the network rounds alike.
    assert!(batched.bytes("detections.jsonl") == alone.bytes("detections.jsonl"));

    let Some(library) = library() else { return };
    let names: Vec<String> = (0..NUM_CAMERAS).map(|camera| format!("c{camera}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut parameters = channels(folder, &[], true);
    parameters.retain(|parameter| !parameter.starts_with("device"));
    compare(&drive, nothing.to_str().unwrap(), &names, &parameters, &library);
}

const NUM_FRAMES: usize = 6;
/// Camera and frame of a file that ends early, of one for the CPU, and of one that is smaller than
/// a block, which engines may refuse.
const DAMAGED: (usize, usize) = (1, 2);
const PROGRESSIVE: (usize, usize) = (5, 1);
const TINY: (usize, usize) = (2, 4);

/// The upper left part of a picture of the sample, of another size and sampling for each camera
/// and every other frame of the first.
fn jpeg(camera: usize, frame: usize) -> Vec<u8> {
    let size = [drive::WIDTH - 16 * camera, drive::HEIGHT - 9 * camera];
    let [width, height] = match (camera, frame) {
        TINY => [7, 5],
        (0, frame) if frame % 2 == 1 => [320, 240],
        _ => size,
    };
    let picture = drive::picture(frame);
    let rows = picture.chunks(3 * drive::WIDTH).take(height);
    let mut pixels: Vec<u8> = rows.flat_map(|row| &row[..3 * width]).copied().collect();
    let mut color = ColorType::Rgb;
    if camera == 3 {
        color = ColorType::Luma;
        pixels = pixels.chunks(3).map(|pixel| pixel[0]).collect();
    }
    let samplings = [SamplingFactor::F_2_2, SamplingFactor::F_2_1, SamplingFactor::F_1_1];
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, 90);
    encoder.set_sampling_factor(samplings[camera % 3]);
    encoder.set_progressive((camera, frame) == PROGRESSIVE);
    encoder.encode(&pixels, width as u16, height as u16, color).unwrap();
    if (camera, frame) == DAMAGED {
        file.truncate(file.len() / 2);
    }
    file
}

fn record_jpeg(folder: &Path) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let text = definition(CompressedImage::TYPE).unwrap();
    let mut add = |camera: usize| {
        let (name, qos) = (format!("/c{camera}"), OfferedQos::default());
        bag.add_topic(&name, CompressedImage::TYPE, &text, qos).unwrap()
    };
    let topics: Vec<usize> = (0..NUM_CAMERAS).map(&mut add).collect();
    let mut message = Vec::new();
    for frame in 0..NUM_FRAMES {
        for (camera, topic) in topics.iter().enumerate() {
            let stamp = Stamp::from_ros(1 + frame as i32, camera as u32);
            let (header, data) = (Header { stamp, frame_id: "camera" }, jpeg(camera, frame));
            CompressedImage { header, format: "jpeg", data: &data }.encode(&mut message).unwrap();
            bag.write(*topic, stamp, &message).unwrap();
        }
    }
    bag.finish().unwrap();
}

#[test]
fn jpeg_files_decoded_at_once_have_the_pixels_of_each_alone() {
    if !has_gpu() {
        return;
    }
    let sample = tempfile::tempdir().unwrap();
    let folder = sample.path();
    write_sample(folder);
    let (nothing, cameras) = (folder.join("none.yaml"), folder.join("cameras"));
    std::fs::write(&nothing, "/**:\n  ros__parameters:\n    use_sim_time: false\n").unwrap();
    record_jpeg(&cameras);
    let run = |out: &str, is_batched, decode: &str| {
        let engine = ["kind:=rten", "threads:=2"];
        let mut parameters =
            channels_of(|camera| format!("/c{camera}"), folder, &engine, is_batched);
        parameters.extend((0..NUM_CAMERAS).map(|camera| format!("c{camera}.decode:={decode}")));
        replay(&cameras, nothing.to_str().unwrap(), &parameters, &folder.join(out))
    };
    let (on_cpu, alone) = (run("on_cpu", true, "cpu"), run("alone", false, "auto"));
    let (batched, again) = (run("batched", true, "auto"), run("again", true, "auto"));
    let expected = on_cpu.bytes("detections.jsonl");
    assert!(!on_cpu.lines().is_empty());
    for other in [&alone, &batched, &again] {
        other.expect_code(on_cpu.code);
        assert!(other.bytes("detections.jsonl") == expected, "{}", other.out.display());
    }
    let (expected, found) = (alone.report(), batched.report());
    let mut num_by_engines = 0;
    for camera in 0..NUM_CAMERAS {
        let name = format!("c{camera}");
        let [expected, found] = [&expected, &found].map(|report| &report["channels"][&name]);
        for key in ["frames_in", "frames_out", "detections", "dropped", "pictures_decoded"] {
            assert_eq!(found[key], expected[key], "{name}.{key}");
        }
        let num_damaged = u64::from(camera == DAMAGED.0);
        let num_decoded = NUM_FRAMES as u64 - num_damaged;
        assert_eq!(found["frames_out"].as_u64(), Some(num_decoded), "{name}");
        let by = |decoder: &str| found["pictures_decoded"][decoder].as_u64().unwrap_or(0);
        assert_eq!(by("cpu") + by("gpu"), num_decoded, "{name}");
        num_by_engines += by("gpu");
    }
    if num_by_engines == 0 {
        return skip(Need::NvJpeg, "no JPEG engine has decoded a file");
    }
    // All but the damaged, the progressive and perhaps the tiny one.
    assert!(num_by_engines >= (NUM_CAMERAS * NUM_FRAMES - 3) as u64, "{num_by_engines}");
}
