//! A program in C finds in the messages of a recording what a replay finds, to the bit.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use det_post::detectors::Payload;
use det_post::replay::ReplayDetections;
use det_post::sim::{self, Drive, Options, PictureFormat};
use det_post::transport::bag::BagReader;
use det_post::transport::messages::TfMessage;
use det_post::types::{Detections, ImagePayload};
use det_post::{Config, Replay, ReplayOptions};

use super::programs::{Language, Program};
use super::root;

/// A detection as the program prints it.
fn line(class: u32, score: f32, numbers: &[f32]) -> String {
    let bits = std::iter::once(&score).chain(numbers).map(|value| value.to_bits());
    bits.fold(class.to_string(), |line, bits| format!("{line} {bits:08x}")) + "\n"
}

/// The detections of a frame as the program prints them.
fn printed(found: &ReplayDetections<'_>, text: &mut String) {
    let (header, num) = (found.header, found.detections.len());
    writeln!(text, "{} {} {num}", header.stamp.nanos(), header.frame_id).unwrap();
    match found.detections {
        Detections::Boxes2d(boxes) => {
            for one in boxes {
                let b = one.bbox;
                *text += &line(one.class, one.score, &[b.x1, b.y1, b.x2, b.y2]);
            }
        }
        Detections::Boxes3d(boxes) => {
            for one in boxes {
                let b = one.object.bbox;
                let mut numbers = b.center.to_vec();
                numbers.extend([b.length_m, b.width_m, b.height_m, b.yaw_rad]);
                numbers.extend(one.object.velocity_mps.iter().flatten());
                *text += &line(one.class, one.score, &numbers);
            }
        }
        Detections::RotatedBoxes2d(_) => panic!("no such channel is replayed"),
    }
}

/// Writes the input of a frame: its numbers in a line, then its bytes.
fn write_input(found: &ReplayDetections<'_>, file: &mut impl Write) {
    let input = found.inputs.input(0).unwrap();
    let (stamp, frame_id) = (input.header.stamp.nanos(), input.header.frame_id);
    match input.payload {
        Payload::Image(ImagePayload::Raw(image)) => {
            let (size, encoding) = (image.size(), image.encoding().to_ros());
            let (step, data) = (image.step(), image.data());
            let (width, height, num) = (size.width, size.height, data.len());
            writeln!(file, "image {stamp} {frame_id} {width} {height} {step} {encoding} {num}")
                .unwrap();
            file.write_all(data).unwrap();
        }
        Payload::Cloud(cloud) => {
            let sizes = [cloud.width(), cloud.height(), cloud.point_step(), cloud.row_step()];
            let [width, height, point_step, row_step] = sizes;
            let (fields, data) = (cloud.fields().as_slice(), cloud.data());
            let (num_fields, num) = (fields.len(), data.len());
            write!(file, "cloud {stamp} {frame_id} {width} {height} {point_step} {row_step} ")
                .unwrap();
            write!(file, "{num_fields} {num}").unwrap();
            for field in fields {
                write!(file, " {} {} {} {}", field.name, field.offset, field.datatype, field.count)
                    .unwrap();
            }
            writeln!(file).unwrap();
            file.write_all(data).unwrap();
        }
        ref other => panic!("{other:?}"),
    }
    writeln!(file).unwrap();
}

/// Writes all transforms of a recording.
fn write_transforms(bag: &Path, file: &mut impl Write) {
    let mut reader = BagReader::open(bag).unwrap();
    let is_static: Vec<Option<bool>> = reader
        .topics()
        .iter()
        .map(|topic| (topic.type_name == TfMessage::TYPE).then(|| topic.name.ends_with("static")))
        .collect();
    while let Some(message) = reader.next_message().unwrap() {
        let Some(is_static) = is_static[message.topic] else { continue };
        for transform in TfMessage::decode(message.data).unwrap().transforms {
            let transform = transform.unwrap();
            let numbers: Vec<String> = transform
                .translation
                .iter()
                .chain(&transform.rotation)
                .map(|number| format!("{number:e}"))
                .collect();
            let (parent, child) = (transform.header.frame_id, transform.child_frame_id);
            let stamp = transform.header.stamp.nanos();
            let is_static = u32::from(is_static);
            let numbers = numbers.join(" ");
            writeln!(file, "transform {parent} {child} {stamp} {is_static} {numbers}").unwrap();
        }
    }
}

/// Replays a recording and gives the same frames to the program; each channel by itself.
fn same_detections(program: &Program, bag: &Path, config: &str) {
    // The program runs without ONNX Runtime, in which AddressSanitizer finds leaks.
    let overrides = ["device:=cpu", "camera.engine.kind:=rten", "lidar.engine.kind:=rten"];
    let parsed = Config::load(&[root().join(config)], &overrides.map(Into::into)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |channel: usize| folder.path().join(channel.to_string());
    let replay = Replay::open(bag, &parsed, ReplayOptions::default()).unwrap();
    let names: Vec<String> = replay.channels().map(|channel| channel.name.clone()).collect();
    let mut files: Vec<_> =
        (0..names.len()).map(|i| BufWriter::new(File::create(path(i)).unwrap())).collect();
    files.iter_mut().for_each(|file| write_transforms(bag, file));
    let mut expected = vec![String::new(); names.len()];
    replay
        .run(|frame| {
            let found = frame.result.as_ref().unwrap();
            write_input(found, &mut files[frame.channel]);
            printed(found, &mut expected[frame.channel]);
            Ok(())
        })
        .unwrap();
    files.into_iter().for_each(|mut file| file.flush().unwrap());
    for (index, (name, expected)) in names.iter().zip(&expected).enumerate() {
        let found = program.run(&[config, name, &path(index).display().to_string()]);
        let num_boxes = expected.lines().count();
        assert!(num_boxes > 4, "{name}: nothing is found");
        assert!(found == *expected, "{name}: {config}");
    }
}

#[test]
fn a_program_in_c_finds_what_a_replay_finds_in_a_simulated_drive() {
    let options = ["-fsanitize=address,undefined", "-fno-sanitize-recover"];
    let Some(program) = Program::compile("capi/tests/abi/replay.c", Language::C11, &options) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    let drive = Drive::new(9001, &Options::default()).unwrap();
    sim::record(&drive, 1.0, PictureFormat::Raw, &bag, &false.into(), &mut |_, _| {}).unwrap();
    same_detections(&program, &bag, "config/demo.param.yaml");
}
