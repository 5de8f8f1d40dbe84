//! The cameras of `autoware_bevfusion`: a network of two files.

use super::keys::cameras as own;
use super::{ML_PACKAGE, NODE_FILE, required};
use crate::config::like::translation::{Given, Translation, TranslationOutcome};
use crate::config::like::values::{number_of, numbers_of};
use det_post_ros::yaml::Node;
use det_post_types::{Letterbox, Placement, Size};

/// More cameras than any head takes.
const MANY: i64 = 64;

/// Whether the network takes images: the three keys of the image backbone hold text. With clouds only,
/// they are empty or, in the oldest files, `sensor_fusion` is false.
pub(super) fn has_cameras(t: &mut Translation<'_>) -> bool {
    const ALLOWED: &str = "text for image_backbone_onnx_path, image_backbone_engine_path and \
                           image_backbone_trt_precision, or for none of them";
    const TWO_FILES: &str = "false, or true with image_backbone_onnx_path, a network of two files";
    if let Some(given) = t.take(&own::SENSOR_FUSION) {
        match given.node {
            Node::Flag(false) => t.ignore(&given, TranslationOutcome::NoEffect, ""),
            Node::Flag(true) if t.has_key(&own::BACKBONE) => t.convert(&given, &[], ""),
            _ => t.refuse(&given, TWO_FILES),
        }
    }
    let names = [&own::BACKBONE, &own::BACKBONE_ENGINE, &own::BACKBONE_PRECISION];
    let names = names.map(|key| key.names[0]);
    let is_empty = |node: &Node| matches!(node, Node::Text(text) if text.is_empty());
    let holds_text = names.map(|name| t.peek(name).is_some_and(|node| !is_empty(node)));
    if holds_text == [true; 3] {
        return true;
    }
    for name in names {
        let Some(given) = t.take_name(name) else { continue };
        match is_empty(&given.node) {
            true => t.ignore(&given, TranslationOutcome::NoEffect, ""),
            false => t.refuse(&given, ALLOWED),
        }
    }
    false
}

/// Emits what a channel of a cloud and images has.
pub(super) fn translate(t: &mut Translation<'_>) {
    required(t, &own::BACKBONE, "image_backbone_path", NODE_FILE);
    for key in [&own::BACKBONE_ENGINE, &own::BACKBONE_PRECISION] {
        if let Some(given) = t.take(key) {
            t.engine(&given, None);
        }
    }
    facts(t);
    // Their node runs with the images that are there, and each needs one before the first frame.
    required(t, &own::DELAY, "sync.max_skew_s", NODE_FILE);
    t.default("sync.min_cameras", 0);
    if let Some(given) = t.take(&own::UNDISTORT) {
        match given.node {
            Node::Flag(is_on) => {
                let ours = if is_on { "auto" } else { "never" };
                t.convert(&given, &[("undistort", ours.into())], "");
            }
            _ => t.refuse(&given, "true or false"),
        }
    }
    topics(t);
}

/// The facts of the cameras of the network.
fn facts(t: &mut Translation<'_>) {
    required(t, &own::NUM_CAMERAS, "head.cameras", ML_PACKAGE);
    if !t.is_set("head.cameras") {
        // A problem names their key: no second one names ours.
        t.set("head.cameras", 1);
    }
    let roi = own::ROI_SIZE.map(|key| t.take_required(&key, ML_PACKAGE));
    if let [Some(width), Some(height)] = &roi {
        let size = Node::List(vec![width.node.clone(), height.node.clone()]);
        t.convert(width, &[("head.input_size", size)], "");
        t.convert(height, &[], "in `head.input_size`");
    }
    resize(t, &roi);
    if let Some(given) = t.take_required(&own::DEPTHS, ML_PACKAGE) {
        match numbers_of(&given.node).as_deref() {
            Some(&[first, _, step]) => {
                let note = "the file has the number of depths";
                t.convert(&given, &[("head.depths_m", [first, step].into())], note);
            }
            _ => t.refuse(&given, "3 numbers: first depth, end, step"),
        }
    }
    range(t);
}

/// The range of the map of the cameras, of three keys. Their cells are in the file.
fn range(t: &mut Translation<'_>) {
    let given = own::BOUNDS.map(|key| t.take_required(&key, ML_PACKAGE));
    let [Some(x), Some(y), Some(z)] = given else { return };
    let mut bounds = [0.0; 6];
    let mut num_read = 0;
    for (axis, given) in [&x, &y, &z].into_iter().enumerate() {
        match numbers_of(&given.node).as_deref() {
            Some(&[min, max, _]) => {
                (bounds[axis], bounds[axis + 3]) = (min, max);
                num_read += 1;
            }
            _ => t.refuse(given, "3 numbers: least, greatest, size of a cell"),
        }
    }
    if num_read < 3 {
        return;
    }
    t.convert(&x, &[("head.camera_range_m", bounds.into())], "");
    [y, z].iter().for_each(|given| t.convert(given, &[], "in `head.camera_range_m`"));
}

/// Checks that images become the network's as here: resized to fill its images along one side, the other one
/// cut at the top, or on both sides alike.
fn resize(t: &mut Translation<'_>, roi: &[Option<Given>; 2]) {
    let [raw, scales] =
        [own::RAW_SIZE, own::SCALES].map(|keys| keys.map(|key| t.take_required(&key, ML_PACKAGE)));
    let ([Some(width), Some(height)], [Some(scale), Some(other)]) = (&raw, &scales) else { return };
    let whole = |given: &Given| match given.node {
        Node::Integer(side @ 1..=65_535) => Some(side as u32),
        _ => None,
    };
    let sides = |[width, height]: [&Given; 2]| Some(Size::new(whole(width)?, whole(height)?));
    for given in [width, height] {
        match whole(given) {
            Some(_) => t.convert(given, &[], "images of other sizes are resized, too"),
            None => t.refuse(given, "an integer from 1 to 65535"),
        }
    }
    let [Some(roi_width), Some(roi_height)] = roi else { return };
    let (Some(source), Some(network)) = (sides([width, height]), sides([roi_width, roi_height]))
    else {
        return;
    };
    let here = Letterbox::new(source, network, Placement::CropTop).content;
    for (given, side, expected) in
        [(scale, source.width, here.width), (other, source.height, here.height)]
    {
        let resized = number_of(&given.node).map(|scale| (side as f32 * scale as f32) as u32);
        match resized == Some(expected) {
            true => t.convert(given, &[], "checked: follows from the sizes"),
            false => t.refuse(given, &format!("a factor that makes {expected} pixels of {side}")),
        }
    }
}

/// The topics of images and calibrations.
fn topics(t: &mut Translation<'_>) {
    let num = match t.value_of("head.cameras") {
        Some(Node::Integer(num @ 1..=MANY)) => *num,
        _ => 1,
    };
    let mut end = "";
    if let Some(given) = t.take(&own::COMPRESSED) {
        match given.node {
            Node::Flag(is_compressed) => {
                end = if is_compressed { "/compressed" } else { "" };
                t.convert(&given, &[], "in `camera_inputs`");
            }
            _ => t.refuse(&given, "true or false"),
        }
    }
    let names = |name: &str, end: &str| -> Vec<String> {
        (0..num).map(|camera| format!("~/input/{name}{camera}{end}")).collect()
    };
    t.default("camera_inputs", names("image", end));
    t.default("camera_infos", names("camera_info", ""));
}
