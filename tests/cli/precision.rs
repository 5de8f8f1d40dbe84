//! `det_post check --compare-precision`: a network that overflows 16-bit floats in one layer is found, named and
//! mended by that name.

use crate::common;

use std::path::Path;

use common::onnx::{Attr, Graph};
use common::replay::det_post;
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{Image, definition};
use det_post_types::ElementType::F32;
use det_post_types::{Header, Stamp};
use serde_json::Value;

const SIDE: u32 = 32;
const NUM_FRAMES: i32 = 3;

/// Light images.
fn write_images(folder: &Path) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let text = definition(Image::TYPE).unwrap();
    let topic =
        bag.add_topic("/camera/image_raw", Image::TYPE, &text, OfferedQos::default()).unwrap();
    let mut message = Vec::new();
    for frame in 0..NUM_FRAMES {
        let pixels = vec![200 + frame as u8; (3 * SIDE * SIDE) as usize];
        let header = Header { stamp: Stamp::from_ros(100 + frame, 0), frame_id: "camera" };
        let (encoding, is_bigendian, step) = ("rgb8", false, 3 * SIDE);
        Image { header, height: SIDE, width: SIDE, encoding, is_bigendian, step, data: &pixels }
            .encode(&mut message)
            .unwrap();
        bag.write(topic, header.stamp, &message).unwrap();
    }
    bag.finish().unwrap();
}

/// Two boxes, whose numbers depend by a thousandth on the brightness: `Conv_1` multiplies it by `factor`,
/// `Conv_3` makes it small.
fn network(factor: f32) -> Graph {
    // Centre, size and scores of two classes, of two boxes.
    let rows: [[f32; 2]; 6] =
        [[10.0, 22.0], [10.0, 22.0], [8.0, 9.0], [8.0, 9.0], [0.875, 0.0], [0.0, 0.75]];
    let kernel = [("kernel_shape", Attr::Ints(vec![1; 2]))];
    Graph::new("bright", "Set by hand, not trained. Answers two boxes.")
        .metadata("names", "{0: 'disc', 1: 'square'}")
        .input("images", F32, &[1, 3, SIDE.into(), SIDE.into()])
        .constant("w0", &[8, 3, 1, 1], &[0.5; 24])
        .constant("w1", &[8, 8, 1, 1], &[factor; 64])
        .constant("w3", &[1, 8, 1, 1], &[1e-4 / factor; 8])
        .constant("answer", &[1, 6, 2], rows.as_flattened())
        .integers("flat", &[1, 1, 1])
        .node("Conv", &["images", "w0"], &["a"], &kernel)
        .node("Conv", &["a", "w1"], &["b"], &kernel)
        .node("GlobalAveragePool", &["b"], &["c"], &[])
        .node("Conv", &["c", "w3"], &["d"], &kernel)
        .op("Reshape", &["d", "flat"], "e")
        .op("Add", &["e", "answer"], "output0")
        .output("output0", F32, &[1, 6, 2])
}

struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn new(factor: f32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_images(&folder.path().join("drive"));
        network(factor).save(&folder.path().join("bright.onnx")).unwrap();
        Self { folder }
    }

    fn check(&self, more: &[&str]) -> common::replay::Run {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let (drive, model) = (path("drive"), path("bright.onnx"));
        let all = ["check", "--compare-precision", &drive, "--model", &model];
        let device = ["-p", "camera.device:=cpu", "-p", "camera.head:=yolov8"];
        det_post(&[&all[..], &device, more].concat())
    }
}

#[test]
fn a_layer_that_overflows_is_found_named_and_mended() {
    let case = Case::new(3e4);
    let run = case.check(&[]);
    run.expect_code(1);
    for line in [
        "camera: 3 frames; detections: 6 with f32, 0 with f16; 0 matched",
        "camera: f16 does not hold: Conv Conv_1 writes up to",
        "times what f16 holds; try engine.keep_f32: [\"Conv_1\", \"GlobalAveragePool_2\"]",
        "Conv Conv_1  beyond f16",
        "f16: dense layers on the CPU, 16-bit floats rounded where they are stored",
    ] {
        assert!(run.stdout.contains(line), "{line} is not in\n{}", run.stdout);
    }

    // What only passes values on is kept with it.
    let mended = ["-p", "camera.engine.keep_f32:=[Conv_1]"];
    let run = case.check(&mended);
    run.expect_code(0);
    for line in ["6 with f32, 6 with f16; 6 matched", "f16 holds: 0 of 6 detections differ"] {
        assert!(run.stdout.contains(line), "{line} is not in\n{}", run.stdout);
    }

    let run = case.check(&["--json", "--frames", "2", "--topic", "/camera/image_raw"]);
    run.expect_code(1);
    let found: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(found["holds"], Value::Bool(false));
    let camera = &found["channels"][0];
    assert_eq!(
        (camera["frames"].as_u64(), camera["detections"]["missed"].as_u64()),
        (Some(2), Some(4))
    );
    assert_eq!(camera["keep_f32"], serde_json::json!(["Conv_1", "GlobalAveragePool_2"]));
    let layers = camera["networks"][0]["layers"].as_array().unwrap();
    let overflows = |layer: &&Value| layer["overflows"].as_bool().unwrap();
    let named: Vec<&str> =
        layers.iter().filter(overflows).map(|layer| layer["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["Conv Conv_1", "GlobalAveragePool GlobalAveragePool_2"]);
}

#[test]
fn a_network_within_its_range_holds() {
    let case = Case::new(2.0);
    let run = case.check(&[]);
    run.expect_code(0);
    assert!(run.stdout.contains("f16 holds: 0 of 6 detections differ"), "{}", run.stdout);
    // Nothing is found, so nothing is shown.
    let run = case.check(&["-p", "camera.score_threshold:=0.95"]);
    run.expect_code(1);
    assert!(run.stdout.contains("f16 is not shown to hold: no detections"), "{}", run.stdout);
}

/// A row with a mask or a keypoint: `Conv_0` adds `offset` to a part of it, `Conv_1` takes it away. In 16-bit floats
/// 32768 leaves multiples of 32 of it.
fn with_parts(task: &str, offset: f32) -> Graph {
    let (num, kernel) = (if task == "pose" { 8 } else { 6 }, SIDE.into());
    let mut values = vec![16.0, 16.0, 20.0, 20.0, 0.875];
    values.extend_from_slice(if task == "pose" { &[10.0, 11.0, 0.875] } else { &[1.0] });
    let offsets: Vec<f32> =
        (0..num).map(|at| if matches!(at, 5 | 6) { offset } else { 0.0 }).collect();
    // The coefficient is as it is: of masks the prototypes change.
    let offsets = if task == "pose" { offsets } else { vec![0.0; num] };
    let sums: Vec<f32> = values.iter().zip(&offsets).map(|(a, b)| a + b).collect();
    let back: Vec<f32> = offsets.iter().map(|of| -of).collect();
    let ones = |num: usize| -> Vec<f32> {
        (0..num * num).map(|at| f32::from(u8::from(at % (num + 1) == 0))).collect()
    };
    let dims = [num as i64, 3, kernel, kernel];
    let zeros = vec![0.0; 3 * num * (SIDE * SIDE) as usize];
    let attributes = |side: i64| {
        [("kernel_shape", Attr::Ints(vec![side; 2])), ("strides", Attr::Ints(vec![side; 2]))]
    };
    let graph = Graph::new("parts", "Set by hand, not trained. Answers one box.")
        .metadata("names", "{0: 'disc'}")
        .metadata("task", task)
        .metadata("kpt_shape", "[1, 3]")
        .input("images", F32, &[1, 3, kernel, kernel])
        .constant("w0", &dims, &zeros)
        .constant("b0", &[num as i64], &sums)
        .constant("w1", &[num as i64, num as i64, 1, 1], &ones(num))
        .constant("b1", &[num as i64], &back)
        .integers("rows", &[1, num as i64, 1])
        .node("Conv", &["images", "w0", "b0"], &["a"], &attributes(kernel))
        .node("Conv", &["a", "w1", "b1"], &["b"], &attributes(1))
        .op("Reshape", &["b", "rows"], "output0")
        .output("output0", F32, &[1, num as i64, 1]);
    if task == "pose" {
        return graph;
    }
    graph
        .constant("w2", &[1, 3, 4, 4], &[0.0; 48])
        .constant("b2", &[1], &[offset + 10.0])
        .constant("w3", &[1, 1, 1, 1], &[1.0])
        .constant("b3", &[1], &[-offset])
        .node("Conv", &["images", "w2", "b2"], &["c"], &attributes(4))
        .node("Conv", &["c", "w3", "b3"], &["output1"], &attributes(1))
        .output("output1", F32, &[1, 1, kernel / 4, kernel / 4])
}

#[test]
fn masks_and_keypoints_are_part_of_the_verdict() {
    for (task, head, lines, key) in [
        (
            "pose",
            "yolo_pose",
            "% of the box's diagonal apart; detections with one",
            "other_keypoints",
        ),
        ("segment", "yolo_seg", "masks: least IoU 0.0000; below 0.9: 3", "other_masks"),
    ] {
        for (offset, code, num) in [(0.0, 0, 0), (32768.0, 1, 3)] {
            let case = Case::new(2.0);
            with_parts(task, offset).save(&case.folder.path().join("bright.onnx")).unwrap();
            let head = format!("camera.head:={head}");
            let run = case.check(&["-p", &head]);
            run.expect_code(code);
            let verdict = format!("{num} of 3 detections differ");
            assert!(run.stdout.contains(&verdict), "{task}: {}", run.stdout);
            assert_eq!(run.stdout.contains(lines), code == 1 || task == "pose", "{}", run.stdout);
            assert!(run.stdout.contains("; 3 matched"), "{task}: {}", run.stdout);
            let run = case.check(&["-p", &head, "--json"]);
            let found: Value = serde_json::from_str(&run.stdout).unwrap();
            assert_eq!(found["channels"][0]["detections"][key], num, "{task}: {}", run.stdout);
        }
    }
}

#[test]
fn unknown_layers_and_wrong_options_are_refused() {
    let case = Case::new(2.0);
    for (more, words) in [
        (
            &["-p", "camera.engine.keep_f32:=[Cnov_1]"][..],
            &["no layer is called \"Cnov_1\"", "Conv_1"][..],
        ),
        (&["--frames", "0"], &["--frames"]),
        (&["--topic", "/none"], &["--topic /none is not in the recording"]),
        (
            &["-p", "camera.engine.keep_f32:=[Conv_1]", "-p", "camera.engine.kind:=rten"],
            &["camera.engine.keep_f32", "auto, cuda"],
        ),
    ] {
        let run = case.check(more);
        run.expect_code(2);
        for word in words {
            assert!(run.stderr.contains(word), "{more:?}: {word} is not in\n{}", run.stderr);
        }
    }
    let model = case.folder.path().join("bright.onnx").display().to_string();
    // Names are right on the CPU as well, where nothing is done for them.
    let drive = case.folder.path().join("drive").display().to_string();
    let keep = ["-p", "camera.engine.keep_f32:=[Cnov_1]", "-p", "camera.device:=cpu"];
    let replay = ["replay", &drive, "--model", &model, "-p", "camera.head:=yolov8"];
    let run = det_post(&[&replay[..], &keep].concat());
    run.expect_code(2);
    assert!(run.stderr.contains("no layer is called \"Cnov_1\""), "{}", run.stderr);
    let run = det_post(&["check", "--model", &model, "--json"]);
    run.expect_code(2);
    assert!(run.stderr.contains("needs --compare-precision"), "{}", run.stderr);
}

#[test]
fn steps_are_listed_with_their_precision() {
    let case = Case::new(2.0);
    let model = case.folder.path().join("bright.onnx").display().to_string();
    let run = det_post(&["check", "--network", &model, "--keep-f32", "Conv_1"]);
    run.expect_code(0);
    let line = |name: &str| {
        let mut lines = run.stdout.lines();
        lines.find(|line| line.ends_with(name) && line.contains(" conv ")).unwrap().to_owned()
    };
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    for (name, products, stored) in
        [("Conv_0", "f16", "f32"), ("Conv_1", "f32", "f32"), ("Conv_3", "f32", "f32")]
    {
        let words = words(&line(name));
        assert!(
            words.windows(2).any(|pair| pair == [products, stored]),
            "{name}: {words:?}\n{}",
            run.stdout
        );
    }
}
