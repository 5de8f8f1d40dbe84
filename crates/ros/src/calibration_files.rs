//! Calibration from files, for recordings without it.
//!
//! - **Cameras**: the YAML file of ROS's `camera_calibration` and `camera_info_manager`:
//!   `image_width`, `image_height`, `camera_matrix`, `distortion_model`,
//!   `distortion_coefficients`, `rectification_matrix`, `projection_matrix`; the last two
//!   may be absent.
//! - **Static transforms**, in one of two forms: that of a `tf2_msgs/TFMessage` as
//!   `ros2 topic echo --once /tf_static` prints it, or `parent: {child: {x, y, z, roll,
//!   pitch, yaw}}` in metres and radians, as Autoware's `sensor_kit_calibration.yaml` has
//!   it. A child has one parent.

use std::path::Path;

use nalgebra::{Isometry3, Translation3, UnitQuaternion};

use super::tf::{self, MAX_FRAME_ID_LEN};
use crate::yaml::{MAX_BYTES, Node};
use det_post_types::{CameraCalibration, Error, ErrorKind, Result, Size};

const STAGE: &str = "calibration file";

/// The most transforms of a file.
const MAX_TRANSFORMS: usize = 1024;

/// A transform that does not change.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticTransform {
    /// The frame in which the child's pose is given.
    pub parent: String,
    /// The frame whose pose it is.
    pub child: String,
    /// Points of the child's frame to points of the parent's.
    pub parent_from_child: Isometry3<f64>,
}

/// Reads the calibration of a camera. Its `frame_id` is empty: the file does not name it.
/// Values are checked by [`CameraModel::new`](det_post_types::CameraModel::new).
///
/// # Errors
/// `Io` when the file cannot be read; `Config` naming the file and the key.
pub fn read_camera(path: &Path) -> Result<CameraCalibration> {
    read(path, camera)
}

/// Reads static transforms, in the order of the file.
///
/// # Errors
/// `Io` when the file cannot be read; `Config` naming the file and the frames when a value
/// is missing, not finite or not a rotation, or a child has two parents.
pub fn read_transforms(path: &Path) -> Result<Vec<StaticTransform>> {
    read(path, transforms)
}

/// What is wrong with a file, without its name.
type Read<T> = std::result::Result<T, String>;

fn read<T>(path: &Path, of_document: impl Fn(&Node) -> Read<T>) -> Result<T> {
    let document = Node::read(path, MAX_BYTES).map_err(|cause| {
        Error::new(ErrorKind::Io, STAGE, format!("cannot read {}", path.display()))
            .with_source(cause)
    })?;
    document.and_then(|document| of_document(&document)).map_err(|problem| {
        Error::new(ErrorKind::Config, STAGE, format!("{}: {problem}", path.display()))
    })
}

fn camera(document: &Node) -> Read<CameraCalibration> {
    let side = |key| {
        let node = required(document, key)?;
        let Node::Integer(side) = node else { return Err(expected(key, "a whole number", node)) };
        u32::try_from(*side).map_err(|_| format!("`{key}` is {side}"))
    };
    let model = match optional(document, "distortion_model") {
        None => String::new(),
        Some(Node::Text(model)) => model.clone(),
        Some(other) => return Err(expected("distortion_model", "text", other)),
    };
    let distortion = match optional(document, "distortion_coefficients") {
        None => Vec::new(),
        Some(node) => matrix_data("distortion_coefficients", node)?,
    };
    let most = CameraCalibration::MAX_COEFFICIENTS;
    if distortion.len() > most {
        let number = distortion.len();
        return Err(format!("{number} distortion coefficients; at most {most} are read"));
    }
    Ok(CameraCalibration {
        frame_id: String::new(),
        size: Size::new(side("image_width")?, side("image_height")?),
        distortion_model: model,
        distortion,
        intrinsics: matrix("camera_matrix", required(document, "camera_matrix")?)?,
        rectification: matrix_or_zero(document, "rectification_matrix")?,
        projection: matrix_or_zero(document, "projection_matrix")?,
        binning: [1, 1],
        region: [0; 4],
    })
}

fn matrix_or_zero<const N: usize>(document: &Node, key: &str) -> Read<[f64; N]> {
    optional(document, key).map_or(Ok([0.0; N]), |node| matrix(key, node))
}

fn matrix<const N: usize>(key: &str, node: &Node) -> Read<[f64; N]> {
    let data = matrix_data(key, node)?;
    let number = data.len();
    data.try_into().map_err(|_| format!("`{key}` has {number} values; {N} are required"))
}

/// The values of `{rows, cols, data}`, or of a plain list.
fn matrix_data(key: &str, node: &Node) -> Read<Vec<f64>> {
    let (data, shape) = match node {
        Node::Map(map) => match map.get("data") {
            Some(data) => (data, [map.get("rows"), map.get("cols")]),
            None => return Err(format!("`{key}` lacks `data`")),
        },
        list => (list, [None, None]),
    };
    let Node::List(items) = data else { return Err(expected(key, "a list", data)) };
    if let [Some(Node::Integer(rows)), Some(Node::Integer(cols))] = shape
        && rows.checked_mul(*cols) != i64::try_from(items.len()).ok()
    {
        return Err(format!("`{key}` is {rows}x{cols} and has {} values", items.len()));
    }
    items.iter().map(|item| number(key, item)).collect()
}

fn transforms(document: &Node) -> Read<Vec<StaticTransform>> {
    let found = match optional(document, "transforms") {
        Some(Node::List(messages)) => messages.iter().map(of_message).collect::<Read<Vec<_>>>()?,
        _ => of_parents(document)?,
    };
    if found.is_empty() || found.len() > MAX_TRANSFORMS {
        return Err(format!("{} transforms; 1 to {MAX_TRANSFORMS} are read", found.len()));
    }
    for (index, StaticTransform { parent, child, .. }) in found.iter().enumerate() {
        if found[..index].iter().any(|earlier| earlier.child == *child) {
            return Err(format!("frame {child:?} is given twice"));
        }
        if parent == child {
            return Err(format!("frame {child:?} is its own parent"));
        }
    }
    Ok(found)
}

/// `{header: {frame_id}, child_frame_id, transform: {translation, rotation}}`.
fn of_message(message: &Node) -> Read<StaticTransform> {
    let parent = frame(required(required(message, "header")?, "frame_id")?)?;
    let child = frame(required(message, "child_frame_id")?)?;
    let transform = required(message, "transform")?;
    let translation = numbers(required(transform, "translation")?, ["x", "y", "z"])?;
    let rotation = numbers(required(transform, "rotation")?, ["x", "y", "z", "w"])?;
    let parent_from_child = tf::isometry(translation, rotation)
        .map_err(|error| format!("{parent:?} to {child:?}: {}", error.message()))?;
    Ok(StaticTransform { parent, child, parent_from_child })
}

/// `parent: {child: {x, y, z, roll, pitch, yaw}}`.
fn of_parents(document: &Node) -> Read<Vec<StaticTransform>> {
    let Node::Map(parents) = document else {
        return Err(format!("it is {}; a mapping is required", document.kind()));
    };
    let mut found = Vec::new();
    for (parent, children) in parents {
        let Node::Map(children) = children else {
            return Err(expected(parent, "a mapping of child frames", children));
        };
        for (child, pose) in children {
            let pair = |problem| format!("{parent:?} to {child:?}: {problem}");
            let keys = ["x", "y", "z", "roll", "pitch", "yaw"];
            let [x, y, z, roll, pitch, yaw] = numbers(pose, keys).map_err(pair)?;
            let rotation = UnitQuaternion::from_euler_angles(roll, pitch, yaw);
            found.push(StaticTransform {
                parent: frame_name(parent)?,
                child: frame_name(child)?,
                parent_from_child: Isometry3::from_parts(Translation3::new(x, y, z), rotation),
            });
        }
    }
    Ok(found)
}

fn frame(node: &Node) -> Read<String> {
    match node {
        Node::Text(name) => frame_name(name),
        other => Err(format!("a frame is {}; text is required", other.kind())),
    }
}

/// As in tf2, a leading `/` is ignored.
fn frame_name(name: &str) -> Read<String> {
    let name = name.strip_prefix('/').unwrap_or(name);
    match name.len() {
        1..=MAX_FRAME_ID_LEN => Ok(name.to_owned()),
        length => Err(format!("a frame's name has {length} bytes; 1 to {MAX_FRAME_ID_LEN}")),
    }
}

fn numbers<const N: usize>(node: &Node, keys: [&str; N]) -> Read<[f64; N]> {
    let mut values = [0.0; N];
    for (value, key) in values.iter_mut().zip(keys) {
        *value = number(key, required(node, key)?)?;
    }
    Ok(values)
}

fn number(key: &str, node: &Node) -> Read<f64> {
    match node {
        Node::Number(value) if value.is_finite() => Ok(*value),
        Node::Integer(value) => Ok(*value as f64),
        other => Err(expected(key, "a finite number", other)),
    }
}

fn required<'a>(node: &'a Node, key: &str) -> Read<&'a Node> {
    optional(node, key).ok_or_else(|| format!("`{key}` is missing"))
}

fn optional<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    match node {
        Node::Map(map) => map.get(key),
        _ => None,
    }
}

fn expected(key: &str, what: &str, found: &Node) -> String {
    format!("`{key}` is {}; {what} is required", found.kind())
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::CameraModel;

    const CAMERA: &str = "\
image_width: 640
image_height: 480
camera_name: narrow_stereo
camera_matrix:
  rows: 3
  cols: 3
  data: [438.78, 0, 305.59, 0, 437.3, 243.74, 0, 0, 1]
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [-0.36, 0.115, 0.00112, -0.000523, 0]
rectification_matrix:
  rows: 3
  cols: 3
  data: [1, 0, 0, 0, 1, 0, 0, 0, 1]
projection_matrix:
  rows: 3
  cols: 4
  data: [393.65, 0, 322.8, 0, 0, 393.65, 241.1, 0, 0, 0, 1, 0]
";

    const MESSAGE: &str = "\
transforms:
- header:
    stamp: {sec: 0, nanosec: 0}
    frame_id: /base_link
  child_frame_id: camera
  transform:
    translation: {x: 1.5, y: -0.25, z: 2}
    rotation: {x: -0.5, y: 0.5, z: -0.5, w: 0.5}
";

    fn parse<T>(text: &str, of_document: impl Fn(&Node) -> Read<T>) -> Read<T> {
        Node::parse(text).and_then(|document| of_document(&document))
    }

    #[test]
    fn a_file_of_camera_calibration_is_read() {
        let calibration = parse(CAMERA, camera).unwrap();
        assert_eq!(calibration.size, Size::new(640, 480));
        assert_eq!(calibration.distortion, [-0.36, 0.115, 0.00112, -0.000523, 0.0]);
        let model = CameraModel::new(&calibration).unwrap();
        assert_eq!(model.raw().focal, [438.78, 437.3]);
        assert_eq!(model.rectified().pinhole.center, [322.8, 241.1]);
        let short = &CAMERA[..CAMERA.find("rectification_matrix").unwrap()];
        let calibration = parse(short, camera).unwrap();
        assert_eq!((calibration.rectification, calibration.projection), ([0.0; 9], [0.0; 12]));
    }

    #[test]
    fn both_forms_give_the_same_transform() {
        let [message] = &parse(MESSAGE, transforms).unwrap()[..] else { panic!() };
        let text = "base_link:\n  camera: {x: 1.5, y: -0.25, z: 2.0, roll: -1.5707963267948966, \
                    pitch: 0.0, yaw: -1.5707963267948966}\n";
        let [pose] = &parse(text, transforms).unwrap()[..] else { panic!() };
        assert_eq!((&message.parent[..], &message.child[..]), ("base_link", "camera"));
        assert_eq!((&pose.parent, &pose.child), (&message.parent, &message.child));
        let apart = message.parent_from_child.inverse() * pose.parent_from_child;
        assert!(apart.translation.vector.norm() < 1e-12 && apart.rotation.angle() < 1e-7);
        // The optical axis of this camera is the x axis of its parent.
        let ahead = pose.parent_from_child * nalgebra::Point3::new(0.0, 0.0, 1.0);
        assert!((ahead - nalgebra::Point3::new(2.5, -0.25, 2.0)).norm() < 1e-12);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let without = |line: &str| CAMERA.replace(line, "");
        for (text, part) in [
            (without("image_width: 640\n"), "`image_width` is missing"),
            (CAMERA.replace("640", "-640"), "`image_width` is -640"),
            (CAMERA.replace("640", "6.4"), "`image_width` is a number; a whole number"),
            (CAMERA.replace(", 0, 0, 1]\ndist", "]\ndist"), "is 3x3 and has 6 values"),
            (CAMERA.replace("-0.36", ".nan"), "`distortion_coefficients` is a number; a finite"),
            (CAMERA.replace("plumb_bob", "[1]"), "`distortion_model` is a list; text is required"),
            (CAMERA.replace("  rows: 3\n  cols: 4\n", "").replace(", 0, 1, 0]", "]"), "12 are"),
            ("3".into(), "`image_width` is missing"),
        ] {
            let problem = parse(&text, camera).unwrap_err();
            assert!(problem.contains(part), "{part}: {problem}");
        }
        for (text, part) in [
            (MESSAGE.replace("w: 0.5", "w: 0.9"), "\"base_link\" to \"camera\": rotation"),
            (MESSAGE.replace("z: 2", "z: .inf"), "`z` is a number; a finite number is required"),
            (MESSAGE.replace(": camera", ": base_link"), "is its own parent"),
            (MESSAGE.replace(": camera", ": ''"), "a frame's name has 0 bytes"),
            ("transforms: []".into(), "0 transforms"),
            ("a: {c: {x: 1}}".into(), "\"a\" to \"c\": `y` is missing"),
            ("a: 1".into(), "`a` is an integer; a mapping of child frames is required"),
            ("[1]".into(), "it is a list; a mapping is required"),
        ] {
            let problem = parse(&text, transforms).unwrap_err();
            assert!(problem.contains(part), "{part}: {problem}");
        }
        let pose = "{x: 0, y: 0, z: 0, roll: 0, pitch: 0, yaw: 0}";
        let twice = format!("a: {{c: {pose}}}\nb: {{c: {pose}}}");
        assert_eq!(parse(&twice, transforms).unwrap_err(), "frame \"c\" is given twice");
    }

    #[test]
    fn files_that_are_not_there_are_io_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("front.yaml");
        assert_eq!(read_camera(&path).unwrap_err().kind(), ErrorKind::Io);
        std::fs::write(&path, "a: 1").unwrap();
        let error = read_transforms(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("front.yaml: `a` is an integer"), "{error}");
        std::fs::write(&path, CAMERA).unwrap();
        assert_eq!(read_camera(&path).unwrap(), parse(CAMERA, camera).unwrap());
    }
}
