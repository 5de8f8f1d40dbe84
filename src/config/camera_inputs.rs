//! Images of several cameras as inputs of a channel, and what is read of their cameras in any channel.

use std::path::PathBuf;

use super::declaration::Change::Fixed;
use super::head::{EncoderFacts, FusedCameraFacts};
use super::image_transport::{ImageTransport, camera_info_beside, image_transport};
use super::inputs::{
    InputConfig, MIN_CAMERAS, SyncConfig, clouds, input, inputs, min_cameras, refuse_several, sync,
};
use super::paths::PathUse;
use super::reader::Reader;
use super::value::Length::OneOrMore;
use super::value::{list, one_of, path, recorded_topic};
use det_post_ros::NodeName;
use det_post_types::Undistort;

const UNDISTORT: &[(&str, Undistort)] = &[("auto", Undistort::Auto), ("never", Undistort::Never)];

/// The inputs of a channel of several cameras, and how their messages become
/// frames.
pub(super) fn images(
    p: &mut Reader<'_>,
    node: &NodeName,
    masks_missing: bool,
) -> (Vec<InputConfig>, SyncConfig) {
    let (topics, sync) = inputs(p, |topic| node.expand(topic));
    if !masks_missing && let Some(n) = sync.min_inputs.filter(|&n| n < topics.len()) {
        let allowed = format!("all {}: the head cannot mask a missing camera", topics.len());
        p.conflict(&[MIN_CAMERAS, "inputs"], n, &allowed);
    }
    let transport = image_transport(p);
    (cameras(p, node, ("inputs", &topics), transport), sync)
}

/// The inputs of cameras with these topics, absolute, which are given as `key`.
fn cameras(
    p: &mut Reader<'_>,
    node: &NodeName,
    (key, topics): (&'static str, &[String]),
    transport: ImageTransport,
) -> Vec<InputConfig> {
    let camera_infos = p.optional(
        "camera_infos",
        Fixed,
        list(recorded_topic(), OneOrMore),
        "`camera_info` beside each image",
        "Topics of sensor_msgs/CameraInfo; the newest holds. Frames without one that fits are dropped.",
    );
    let paths = p.optional(
        "calibration_paths",
        Fixed,
        list(path(PathUse::Read), OneOrMore),
        "CameraInfo",
        "Files of ROS's camera_calibration in their place, in the same order.",
    );
    for (of_cameras, found) in [("camera_infos", &camera_infos), ("calibration_paths", &paths)] {
        if let Some(n) = found.as_ref().map(Vec::len).filter(|&n| n != topics.len()) {
            let allowed = format!("{}, one per input", topics.len());
            p.conflict(&[of_cameras, key], format!("{n} items"), &allowed);
        }
    }
    let input = |(index, topic): (usize, &String)| {
        let item = |list: &Option<Vec<String>>| list.as_ref()?.get(index).cloned();
        let camera_info = item(&camera_infos).map(|topic| node.expand(&topic));
        InputConfig {
            topic: topic.clone(),
            is_compressed: transport.is_compressed(topic),
            video: transport.video(topic),
            packed_cloud: None,
            camera_info: match paths {
                Some(_) => None,
                None => Some(camera_info.unwrap_or_else(|| camera_info_beside(topic))),
            },
            calibration_path: item(&paths).map(PathBuf::from),
        }
    };
    topics.iter().enumerate().map(input).collect()
}

/// The inputs of a channel of clouds, or of a cloud and the cameras of its head, and how their messages
/// become frames.
pub(super) fn clouds_and_images(
    p: &mut Reader<'_>,
    node: &NodeName,
    encoder: &EncoderFacts,
) -> (Vec<InputConfig>, SyncConfig) {
    if p.is_manual() && encoder.may_have_cameras() {
        beside_cloud(p, node, 0);
        return clouds(p, node);
    }
    let Some(FusedCameraFacts { num_cameras: num, .. }) = encoder.cameras().copied() else {
        return clouds(p, node);
    };
    let cloud = input(p, node, false);
    refuse_several(p);
    let (cameras, min_inputs) = beside_cloud(p, node, num);
    let sync = SyncConfig { reference: 0, min_inputs, ..sync(p) };
    ([vec![cloud], cameras].concat(), sync)
}

/// The inputs of `num_cameras` beside one cloud, which opens frames, and the fewest inputs of a
/// frame.
fn beside_cloud(
    p: &mut Reader<'_>,
    node: &NodeName,
    num_cameras: usize,
) -> (Vec<InputConfig>, Option<usize>) {
    const KEY: &str = "camera_inputs";
    let topics = p.required(
        KEY,
        list(recorded_topic(), OneOrMore),
        "Topics of the images, in the head's order.",
    );
    let topics: Vec<String> = topics.iter().map(|topic| node.expand(topic)).collect();
    if topics.len() != num_cameras && !p.is_manual() {
        let allowed = format!("{num_cameras}, as the head has cameras");
        p.refuse(KEY, format!("{} topics", topics.len()), &allowed);
    }
    if let Some(index) = (1..topics.len()).find(|&n| topics[..n].contains(&topics[n])) {
        p.refuse(KEY, format!("{:?} twice", topics[index]), "each topic once");
    }
    let inputs = cameras(p, node, (KEY, &topics), ImageTransport::Auto);
    let min_cameras = min_cameras(p);
    if let Some(n) = min_cameras.filter(|&n| n > topics.len()) {
        p.conflict(&[MIN_CAMERAS, KEY], n, &format!("at most the {} cameras", topics.len()));
    }
    (inputs, min_cameras.map(|num| num + 1))
}

/// The file of static transforms of cameras.
pub(super) fn transforms_path(p: &mut Reader<'_>) -> Option<PathBuf> {
    let path = p.optional(
        "transforms_path",
        Fixed,
        path(PathUse::Read),
        "none",
        "YAML file of static transforms; the graph's or recording's replace them.",
    );
    path.map(PathBuf::from)
}

/// Whether images of cameras are undistorted.
pub(super) fn undistort(p: &mut Reader<'_>) -> Undistort {
    p.value(
        "undistort",
        Fixed,
        one_of(UNDISTORT),
        "auto",
        "Whether images are undistorted: `auto` where a calibration has distortion.",
    )
}
