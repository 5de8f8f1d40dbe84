//! The node of 2026 that is made of plugins: which of its parameters are the detector's and its
//! camera's.

use super::keys;
use crate::config::like::translation::{Translation, TranslationOutcome};
use crate::config::like::values::{text_of, texts_of};
use det_post_ros::yaml::Node;

/// The class of the detector.
const DETECTOR: &str = "yolo_ros/DetectionPlugin";

/// Where the parameters of the detector are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// Before the names of its parameters; empty where its node is no plugin.
    pub(super) detector: String,
    /// The name of its camera, with a dot behind it.
    pub(super) camera: String,
}

/// Finds the detector and its camera where the node is made of plugins; `None` when they are
/// refused.
pub(super) fn names(t: &mut Translation<'_>) -> Option<Names> {
    let Some(plugins) = t.take(&keys::PLUGINS) else { return Some(Names::default()) };
    let names = texts_of(&plugins.node).unwrap_or_default();
    let is_detector =
        |name: &&String| t.peek(&format!("{name}.plugin")).and_then(text_of) == Some(DETECTOR);
    let Some(detector) = names.iter().find(is_detector).cloned() else {
        t.refuse(&plugins, &format!("a plugin whose `NAME.plugin` is {DETECTOR}"));
        return None;
    };
    t.ignore(&plugins, TranslationOutcome::NoEffect, "the detector is the channel");
    let all = t.take(&keys::CAMERAS);
    let own = t.take_name(&format!("{detector}.cameras"));
    let cameras = own.clone().or_else(|| all.clone());
    let list = cameras.as_ref().and_then(|given| texts_of(&given.node)).unwrap_or_default();
    let [camera] = &list[..] else {
        let allowed = "one camera; start a det_post for each, with `-p cameras:='[NAME]'`";
        match &cameras {
            Some(given) => t.refuse(given, allowed),
            None => t.problem("cameras", &format!("is missing; allowed: {allowed}")),
        }
        return None;
    };
    for given in [&all, &own].into_iter().flatten() {
        t.ignore(given, TranslationOutcome::NoEffect, "the camera is the channel's");
    }
    ignore_others(t, &names, &detector, camera);
    Some(Names { detector: format!("{detector}."), camera: format!("{camera}.") })
}

/// Notes the parameters of other plugins, and of the camera's depth.
fn ignore_others(t: &mut Translation<'_>, plugins: &[String], detector: &str, camera: &str) {
    for plugin in plugins.iter().filter(|plugin| *plugin != detector) {
        t.ignore_below(&format!("{plugin}."), "of another node");
    }
    for name in ["depth_topic", "depth_info_topic", "depth_reliability"] {
        if let Some(given) = t.take_name(&format!("{camera}.{name}")) {
            t.ignore(&given, TranslationOutcome::NoEffect, "boxes in the image need no depth");
        }
    }
    if let Some(given) = t.take_name(&format!("{detector}.plugin")) {
        t.ignore(&given, TranslationOutcome::NoEffect, "");
    }
}

/// The topic of the camera's images, which the node cannot do without.
pub(super) fn image_topic(t: &mut Translation<'_>, names: &Names) -> Option<Node> {
    let key = format!("{}rgb_topic", names.camera);
    let Some(given) = t.take_name(&key) else {
        t.problem(&key, "is missing; allowed: the topic of the images");
        return None;
    };
    t.convert(&given, &[("input", given.node.clone())], "");
    Some(given.node)
}
