//! A network whose scores or boxes become NaN, from a recording to the report.

use crate::common;

use std::path::Path;

use common::onnx::{Attr, Graph};
use common::replay::{Run, replay};
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{Image, definition};
use det_post_types::{ElementType, Header, Stamp};

/// Side of images and of the network's input: no padding.
pub const SIDE: usize = 64;
/// Planes `cx cy w h` and the scores of two classes, of three boxes.
const PLANES: [[f32; 3]; 6] = [
    [10.0, 30.0, 50.0],
    [10.0, 30.0, 50.0],
    [8.0, 8.0, 8.0],
    [8.0, 8.0, 8.0],
    [0.9, 0.1, 0.1],
    [0.1, 0.8, 0.1],
];

/// The planes that become NaN for a black image, by 0 / mean of it.
#[derive(Clone, Copy)]
enum Broken {
    /// All, so that no score passes.
    Scores,
    /// Values of the boxes.
    Boxes,
}

fn write_network(path: &Path, broken: Broken) {
    let num_planes = match broken {
        Broken::Scores => 6,
        Broken::Boxes => 4,
    };
    let dims = [1, num_planes as i64, 3];
    let (first, others) = PLANES.split_at(num_planes);
    let mean = [("axes", Attr::Ints(vec![1, 2, 3])), ("keepdims", Attr::Int(0))];
    let graph = Graph::new("divides_by_the_mean", "Fixed boxes; a black image gives NaN.")
        .input("images", ElementType::F32, &[1, 3, SIDE as i64, SIDE as i64])
        .output("output0", ElementType::F32, &[1, 6, 3])
        .constant("first", &dims, first.as_flattened())
        .constant("zeros", &dims, &[0.0; 18][..3 * num_planes])
        .node("ReduceMean", &["images"], &["mean"], &mean)
        .op("Div", &["zeros", "mean"], "added");
    let graph = match broken {
        Broken::Scores => graph.op("Add", &["first", "added"], "output0"),
        Broken::Boxes => {
            let axis = [("axis", Attr::Int(1))];
            graph
                .constant("others", &[1, others.len() as i64, 3], others.as_flattened())
                .op("Add", &["first", "added"], "sum")
                .node("Concat", &["sum", "others"], &["output0"], &axis)
        }
    };
    graph.save(path).unwrap();
}

/// A white image, a black one, a grey one.
pub fn write_images(folder: &Path) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let text = definition(Image::TYPE).unwrap();
    let topic =
        bag.add_topic("/camera/image_raw", Image::TYPE, &text, OfferedQos::default()).unwrap();
    let mut bytes = Vec::new();
    for (frame, value) in [(0, 255), (1, 0), (2, 128)] {
        let stamp = Stamp::from_ros(1000, 100_000_000 * frame);
        let image = Image {
            header: Header { stamp, frame_id: "camera" },
            height: SIDE as u32,
            width: SIDE as u32,
            encoding: "rgb8",
            is_bigendian: false,
            step: 3 * SIDE as u32,
            data: &[value; 3 * SIDE * SIDE],
        };
        image.encode(&mut bytes).unwrap();
        bag.write(topic, stamp, &bytes).unwrap();
    }
    bag.finish().unwrap();
}

fn write_config(folder: &Path, broken: Broken) -> String {
    write_network(&folder.join("model.onnx"), broken);
    let head = "sensor: camera
class_names: [ship, plane]
layout: {kind: v8}
placement: center
channel_order: rgb
pad_value: 114.0
std: 255.0
";
    std::fs::write(folder.join("head.yaml"), head).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let text = format!(
        "/**:
  ros__parameters:
    device: cpu
    camera:
      input: /camera/image_raw
      head: {}
      model_path: {}
      engine: {{kind: rten}}
",
        path("head.yaml"),
        path("model.onnx")
    );
    let config = folder.join("node.yaml");
    std::fs::write(&config, text).unwrap();
    config.display().to_string()
}

fn compare(run: &Run, (counter, num): (&str, u64)) {
    run.expect_code(0);
    let nums: Vec<usize> =
        run.lines().iter().map(|line| line["detections_2d"].as_array().unwrap().len()).collect();
    assert_eq!(nums, [2, 0, 2], "a black image has no detections");
    let report = run.report();
    let channel = &report["channels"]["camera"];
    assert_eq!(channel["truncated"][counter], num, "{channel}");
    assert_eq!(channel["truncated"].as_object().unwrap().len(), 1, "{channel}");
}

#[test]
fn nan_scores_and_invalid_boxes_are_in_the_report() {
    for (broken, counted) in
        [(Broken::Scores, ("scores_nan", 3)), (Broken::Boxes, ("boxes_invalid", 2))]
    {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (config, bag) = (write_config(folder, broken), folder.join("drive"));
        write_images(&bag);
        compare(&replay(&bag, &config, &[], &folder.join("out")), counted);
        let isolated = ["camera.isolate:=true".into()];
        compare(&replay(&bag, &config, &isolated, &folder.join("isolated")), counted);
    }
}
