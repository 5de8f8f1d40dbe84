//! A program in C finds in the messages of a recording what a replay finds, to the bit: images,
//! clouds, frames of several cameras and tensors.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use det_post::detectors::Payload;
use det_post::replay::ReplayDetections;
use det_post::{Config, FrameInput, FrameSet, Replay, ReplayOptions};
use det_post_ros::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post_ros::messages::{TensorList, TfMessage, definition};
use det_post_sim::{Drive, ImageFormat, Options};
use det_post_types::{
    CameraCalibration, CompressedFormat, Detections, Header, ImagePayload, Size, Span, Stamp,
};

use super::programs::{Language, Program};
use super::yolov8_tensor::{self, CANDIDATES};
use super::{root, shared_data};

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
        Detections::Masked2d(..) | Detections::Keypoints2d(..) | Detections::RotatedBoxes2d(_) => {
            panic!("no such channel is replayed")
        }
    }
}

/// Writes the inputs of a frame, each as its numbers in a line and its bytes, and before them the
/// calibrations of its cameras.
fn write_frame(frame: &FrameSet<'_>, file: &mut impl Write) {
    for (index, input) in frame.inputs.iter().enumerate() {
        if let Some(calibration) = input.as_ref().and_then(|input| input.calibration) {
            write_calibration(index, calibration, file);
        }
    }
    writeln!(file, "frame {}", frame.inputs.len()).unwrap();
    for input in frame.inputs {
        match input {
            Some(input) => write_input(input, file),
            None => writeln!(file, "none").unwrap(),
        }
    }
}

fn write_input(input: &FrameInput<'_>, file: &mut impl Write) {
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
        Payload::Image(ImagePayload::Compressed(image)) => {
            let format = match image.format {
                CompressedFormat::Jpeg => "jpeg",
                CompressedFormat::Png => "png",
            };
            let num = image.data.len();
            writeln!(file, "compressed {stamp} {frame_id} {format} {num}").unwrap();
            file.write_all(image.data).unwrap();
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
        Payload::Tensors(tensors) => {
            let entries = tensors.entries().as_slice();
            write!(file, "tensors {stamp} {frame_id} {}", entries.len()).unwrap();
            let bytes = |span: &Span| &tensors.bytes()[span.start..][..span.len];
            for entry in entries {
                let (name, data) = (bytes(&entry.name), bytes(&entry.data));
                let (name, shape) = (std::str::from_utf8(name).unwrap(), entry.shape());
                let (element, rank, num) = (entry.element.number(), shape.len(), data.len());
                write!(file, " {name} {element} {rank} {num}").unwrap();
                shape.iter().for_each(|side| write!(file, " {side}").unwrap());
                writeln!(file).unwrap();
                file.write_all(data).unwrap();
            }
        }
        ref other => panic!("{other:?}"),
    }
    writeln!(file).unwrap();
}

fn write_calibration(input: usize, of: &CameraCalibration, file: &mut impl Write) {
    let (frame_id, size, model) = (&of.frame_id, of.size, &of.distortion_model);
    let (width, height, num) = (size.width, size.height, of.distortion.len());
    write!(file, "calibration {input} {frame_id} {width} {height} {model} {num}").unwrap();
    let matrices = of.intrinsics.iter().chain(&of.rectification).chain(&of.projection);
    of.distortion.iter().chain(matrices).for_each(|value| write!(file, " {value:e}").unwrap());
    of.binning.iter().chain(&of.region).for_each(|value| write!(file, " {value}").unwrap());
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

/// Replays a recording and gives the same frames to the program; each channel by itself. The
/// first of the parameter files is that of the program, too.
#[track_caller]
fn same_detections(program: &Program, bag: &Path, config: &Path, overrides: &[&str]) {
    // Paths of models in shipped files are those of the root, where the program runs, too.
    std::env::set_current_dir(root()).unwrap();
    let parsed =
        Config::load(&[config.into()], &overrides.iter().map(|&s| s.into()).collect::<Vec<_>>());
    let parsed = parsed.unwrap();
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
            // Frames are refused before all calibrations are known.
            if let Ok(found) = frame.result.as_ref() {
                write_frame(&found.inputs, &mut files[frame.channel]);
                printed(found, &mut expected[frame.channel]);
            }
            Ok(())
        })
        .unwrap();
    files.into_iter().for_each(|mut file| file.flush().unwrap());
    for (index, (name, expected)) in names.iter().zip(&expected).enumerate() {
        let (config, frames) = (config.display().to_string(), path(index).display().to_string());
        let arguments = [&[&config, name.as_str(), &frames], overrides].concat();
        let found = program.run(&arguments);
        let num_frames = expected.lines().filter(|line| line.split(' ').count() == 3).count();
        assert!(expected.lines().count() > num_frames, "{name}: nothing is found");
        assert!(found == *expected, "{name}: {config}:\n{found}\n{expected}");
    }
}

/// The program, under AddressSanitizer.
fn program() -> Option<Program> {
    let options = ["-fsanitize=address,undefined", "-fno-sanitize-recover"];
    Program::compile("capi/tests/abi/replay.c", Language::C11, &options)
}

/// A simulated drive.
fn simulate(options: &Options, seconds: f64, folder: &Path) -> PathBuf {
    let bag = folder.join("drive");
    let drive = Drive::new(9001, options).unwrap();
    det_post_sim::record(&drive, seconds, ImageFormat::Raw, &bag, &false.into(), &mut |_, _| {})
        .unwrap();
    bag
}

#[test]
fn a_program_in_c_finds_what_a_replay_finds_in_a_simulated_drive() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let bag = simulate(&Options::default(), 1.0, folder.path());
    // The program runs without ONNX Runtime, in which AddressSanitizer finds leaks.
    let overrides = ["device:=cpu", "camera.engine.kind:=rten", "lidar.engine.kind:=rten"];
    same_detections(&program, &bag, &root().join("config/demo.param.yaml"), &overrides);
}

#[test]
fn it_finds_the_same_in_frames_of_six_cameras() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let image_size = Size::new(640, 360);
    let six = Options { num_cameras: 6, num_lidars: 0, image_size, ..Options::default() };
    let bag = simulate(&six, 0.3, folder.path());
    let overrides = ["device:=cpu", "surround.engine.kind:=rten"];
    same_detections(&program, &bag, &root().join("config/demo_surround_3d.param.yaml"), &overrides);
}

#[test]
fn it_finds_the_same_in_tensors() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (bag, config) = (folder.path().join("bag"), folder.path().join("tensors.yaml"));
    let mut writer = BagWriter::create(&bag, BagCompression::None).unwrap();
    let text = definition(TensorList::TYPE).unwrap();
    let topic = writer.add_topic("/tensors", TensorList::TYPE, &text, OfferedQos::default());
    let topic = topic.unwrap();
    for second in [1, 2] {
        let header = Header { stamp: Stamp::from_ros(second, 0), frame_id: "camera0" };
        let message = yolov8_tensor::message(&header, "output_tensor", &CANDIDATES);
        writer.write(topic, header.stamp, &message).unwrap();
    }
    writer.finish().unwrap();
    let parameters = "{head: isaac_ros_yolov8, input: /tensors}";
    let text = format!("/**:\n  ros__parameters:\n    decoder: {parameters}\n");
    std::fs::write(&config, text).unwrap();
    same_detections(&program, &bag, &config, &["device:=cpu"]);
}

#[test]
fn it_finds_the_same_in_real_recordings() {
    let Some(data) = shared_data() else { return };
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("camera.yaml");
    let model = data.join("models/yolox_nano_416.onnx");
    let parameters = format!(
        "{{head: yolox, model_path: {}, input: /sensing/camera/image_raw, engine: {{kind: rten}}}}",
        model.display()
    );
    let text = format!("/**:\n  ros__parameters:\n    camera: {parameters}\n");
    std::fs::write(&config, text).unwrap();
    let bag = data.join("bags/kitti_000008_mcap");
    same_detections(&program, &bag, &config, &["device:=cpu"]);
}
