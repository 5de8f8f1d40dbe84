//! Networks whose file names its classes, from a recording to the detections.

use crate::common;

use std::path::Path;

use common::onnx::{Attr, Graph};
use common::replay::{Run, det_post, replay};
use det_post_types::ElementType;

use super::nan_scores::{SIDE, write_images};

const NAMES: (&str, &str) = ("names", "{0: 'helmet', 1: 'vest', 2: 'boots'}");

/// An end-to-end network of these rows.
fn write_network(path: &Path, rows: &[[f32; 6]], metadata: &[(&str, &str)]) {
    let dims = [1, rows.len() as i64, 6];
    let mean = [("axes", Attr::Ints(vec![1, 2, 3])), ("keepdims", Attr::Int(0))];
    let graph = Graph::new("fixed_rows", "Fixed boxes, whatever the image.")
        .input("images", ElementType::F32, &[1, 3, SIDE as i64, SIDE as i64])
        .output("output0", ElementType::F32, &dims)
        .constant("rows", &dims, rows.as_flattened())
        .constant("zero", &[1], &[0.0])
        .node("ReduceMean", &["images"], &["mean"], &mean)
        .op("Mul", &["mean", "zero"], "nothing")
        .op("Add", &["rows", "nothing"], "output0");
    metadata
        .iter()
        .fold(graph, |graph, (key, value)| graph.metadata(key, value))
        .save(path)
        .unwrap();
}

const ROWS: [[f32; 6]; 2] = [[2.0, 2.0, 20.0, 20.0, 0.9, 0.0], [5.0, 8.0, 30.0, 31.0, 0.8, 2.0]];

struct Case {
    folder: tempfile::TempDir,
    config: String,
}

/// A parameter file for a head and a network, beside a recording of three images.
fn case(head: &str, rows: &[[f32; 6]], metadata: &[(&str, &str)]) -> Case {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_network(&at("model.onnx"), rows, metadata);
    write_images(&at("drive"));
    let text = format!(
        "/**:
  ros__parameters:
    device: cpu
    camera:
      input: /camera/image_raw
      head: {head}
      model_path: {}
      engine: {{kind: rten}}
",
        at("model.onnx").display()
    );
    std::fs::write(at("node.yaml"), text).unwrap();
    let config = at("node.yaml").display().to_string();
    Case { folder, config }
}

impl Case {
    fn run(&self, parameters: &[String]) -> Run {
        let at = |name: &str| self.folder.path().join(name);
        replay(&at("drive"), &self.config, parameters, &at("out"))
    }
}

fn class_names(run: &Run) -> Vec<String> {
    run.expect_code(0);
    let line = &run.lines()[0];
    let detections = line["detections_2d"].as_array().unwrap();
    detections.iter().map(|d| d["class_name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn class_names_of_the_file_are_published_and_said() {
    for parameters in [vec![], vec!["camera.isolate:=true".into()]] {
        let case = case("yolov10", &ROWS, &[NAMES, ("task", "detect")]);
        let run = case.run(&parameters);
        assert_eq!(class_names(&run), ["helmet", "boots"]);
        assert!(run.stderr.contains("3 class names come from the network"), "{}", run.stderr);
    }
    let case = case("yolov10", &ROWS, &[NAMES]);
    let checked = det_post(&["check", &case.config]);
    checked.expect_code(0);
    assert!(checked.stdout.contains("# camera: the 3 class names come from the network"));
}

#[test]
fn class_names_that_are_given_hold_with_a_warning() {
    let head = "{sensor: camera, class_names: [a, vest, c], layout: {kind: end_to_end}, placement: center, \
                channel_order: rgb}";
    let named = case(head, &ROWS, &[NAMES]);
    let run = named.run(&[]);
    assert_eq!(class_names(&run), ["a", "c"]);
    assert!(run.stderr.contains("class 0 of 3 is `a` here and `helmet` of 3"), "{}", run.stderr);
    let head = head.replace(", c]", "]");
    let run = case(&head, &ROWS, &[NAMES]).run(&[]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(
        run.stderr.contains("2 names (a, vest)") && run.stderr.contains("helmet"),
        "{}",
        run.stderr
    );
}

#[test]
fn class_names_that_do_not_reach_a_class_are_counted() {
    let rows = [ROWS[0], [2.0, 2.0, 20.0, 20.0, 0.9, 85.0], [2.0, 2.0, 20.0, 20.0, 0.1, 85.0]];
    let case = case("yolov10", &rows, &[]);
    let run = case.run(&[]);
    assert_eq!(class_names(&run), ["person"]);
    let report = run.report();
    let truncated = &report["channels"]["camera"]["truncated"];
    assert_eq!(truncated["classes_unknown"], 3, "one an image: {truncated}");
    assert_eq!(truncated.as_object().unwrap().len(), 1, "{truncated}");
}
