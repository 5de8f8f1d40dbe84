//! Six cameras on a GPU whose JPEG files are decoded at once.

use std::path::Path;

use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{CompressedImage, definition};
use det_post_types::{Header, Stamp};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::{has_gpu, write_sample};
use crate::common::drive;
use crate::common::replay::replay;
use crate::common::require::{Need, skip};

const NUM_CAMERAS: usize = 6;

/// Six channels of the cameras, whose networks are on the CPU.
fn channels(folder: &Path, decode: &str) -> Vec<String> {
    let folder = folder.display();
    let mut all = vec!["device:=cuda:0".to_owned()];
    for camera in 0..NUM_CAMERAS {
        all.extend([
            format!("c{camera}.input:=/c{camera}"),
            format!("c{camera}.head:={folder}/heads/blobs_yolov8.yaml"),
            format!("c{camera}.model_path:={folder}/models/blobs_yolov8.onnx"),
            format!("c{camera}.score_threshold:={:?}", 0.2 + 0.1 * camera as f32),
            format!("c{camera}.engine.kind:=rten"),
            format!("c{camera}.engine.threads:=2"),
            format!("c{camera}.decode:={decode}"),
        ]);
    }
    all
}

const NUM_FRAMES: usize = 6;
/// Camera and frame of a file that ends early, of one for the CPU, and of one that is smaller than
/// a block, which engines may refuse.
const DAMAGED: (usize, usize) = (1, 2);
const PROGRESSIVE: (usize, usize) = (5, 1);
const TINY: (usize, usize) = (2, 4);

/// The upper left part of an image of the sample, of another size and sampling for each camera
/// and every other frame of the first.
fn jpeg(camera: usize, frame: usize) -> Vec<u8> {
    let size = [drive::WIDTH - 16 * camera, drive::HEIGHT - 9 * camera];
    let [width, height] = match (camera, frame) {
        TINY => [7, 5],
        (0, frame) if frame % 2 == 1 => [320, 240],
        _ => size,
    };
    let image = drive::image(frame);
    let rows = image.chunks(3 * drive::WIDTH).take(height);
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
    let run = |out: &str, decode: &str| {
        let parameters = channels(folder, decode);
        replay(&cameras, nothing.to_str().unwrap(), &parameters, &folder.join(out))
    };
    let (on_cpu, shared, again) =
        (run("on_cpu", "cpu"), run("shared", "auto"), run("again", "auto"));
    let expected = on_cpu.bytes("detections.jsonl");
    assert!(!on_cpu.lines().is_empty());
    for other in [&shared, &again] {
        other.expect_code(on_cpu.code);
        assert!(other.bytes("detections.jsonl") == expected, "{}", other.out.display());
    }
    let (expected, found) = (on_cpu.report(), shared.report());
    let mut num_by_engines = 0;
    for camera in 0..NUM_CAMERAS {
        let name = format!("c{camera}");
        let [expected, found] = [&expected, &found].map(|report| &report["channels"][&name]);
        for key in ["frames_in", "frames_out", "detections", "dropped"] {
            assert_eq!(found[key], expected[key], "{name}.{key}");
        }
        let num_damaged = u64::from(camera == DAMAGED.0);
        let num_decoded = NUM_FRAMES as u64 - num_damaged;
        assert_eq!(found["frames_out"].as_u64(), Some(num_decoded), "{name}");
        let by = |decoder: &str| found["images_decoded"][decoder].as_u64().unwrap_or(0);
        assert_eq!(by("cpu") + by("gpu"), num_decoded, "{name}");
        num_by_engines += by("gpu");
    }
    if num_by_engines == 0 {
        return skip(Need::NvJpeg, "no JPEG engine has decoded a file");
    }
    // All but the damaged, the progressive and perhaps the tiny one.
    assert!(num_by_engines >= (NUM_CAMERAS * NUM_FRAMES - 3) as u64, "{num_by_engines}");
}
