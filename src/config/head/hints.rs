//! Which head is meant where none of the name is there, or one for another sensor.

use super::{Network, SHIPPED, kind_in_words};
use crate::config::problems::nearest;

/// Names of networks, without `yolo` where they begin with it, and the heads that they use. The first
/// whose name begins a word holds.
const FAMILIES: &[(&str, &str)] = &[
    ("11", "yolov8"),
    ("12", "yolov8"),
    ("13", "yolov8"),
    ("26", "yolo26"),
    ("10", "yolov10"),
    ("3", "yolov5"),
    ("5", "yolov5"),
    ("7", "yolov5"),
    ("8", "yolov8"),
    ("9", "yolov8"),
    ("rfdetr", "rfdetr"),
    ("rf_detr", "rfdetr"),
    ("rtdetrv", "dfine"),
    ("rt_detrv", "dfine"),
    ("rtdetr", "rtdetr"),
    ("rt_detr", "rtdetr"),
    ("dfine", "dfine"),
    ("d_fine", "dfine"),
    ("deim", "dfine"),
    ("centerpoint", "centerpoint_autoware"),
    ("pointpillars", "pointpillars_kitti"),
    ("second", "second_kitti"),
    ("streampetr", "streampetr_autoware"),
    ("transfusion", "transfusion_autoware"),
    ("bevfusion", "bevfusion_autoware"),
];

/// The head of the family that a name is of: `yolo11n` is one of ultralytics' since YOLOv8.
fn of_family(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let of_yolo = name.strip_prefix("yolo").map(|rest| rest.trim_start_matches(['v', '_']));
    let is_numbered = of_yolo.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if let Some(version) = of_yolo.filter(|_| is_numbered) {
        let is_rotated = version.contains("obb");
        let has_masks = version.contains("seg");
        let has_keypoints = version.contains("pose");
        let head = FAMILIES.iter().find(|(family, _)| version.starts_with(family))?.1;
        let is_final = head == "yolo26";
        return Some(match (is_rotated, has_masks, has_keypoints) {
            (true, _, _) if is_final => "yolo26_obb",
            (_, true, _) if is_final => "yolo26_seg",
            (_, _, true) if is_final => "yolo26_pose",
            (true, _, _) => "yolo_obb",
            (_, true, _) => "yolo_seg",
            (_, _, true) => "yolo_pose",
            (false, false, false) => head,
        });
    }
    let head = FAMILIES.iter().find(|(family, _)| name.starts_with(family))?.1;
    Some(if head == "rfdetr" && name.contains("seg") { "rfdetr_seg" } else { head })
}

/// The head that is meant by a name: of the family, else the nearest; a network of images has no head of
/// point clouds.
pub(super) fn meant(name: &str, network: Option<&Network>) -> Option<&'static str> {
    let fitting = network.map(Network::fitting_heads).unwrap_or_default();
    let of_images = || shipped_for("camera");
    of_family(name)
        .or_else(|| nearest(name, SHIPPED.iter().map(|(shipped, _)| *shipped)))
        .filter(|head| fitting.is_empty() || of_images().contains(head))
        .or(fitting.first().copied())
}

/// The shipped heads by sensor, in words.
pub(super) fn by_sensor() -> String {
    [("images", "camera"), ("point clouds", "lidar"), ("surround cameras", "surround")]
        .map(|(what, sensor)| format!("of {what} {}", shipped_for(sensor).join(", ")))
        .join("; ")
}

/// The shipped heads for a sensor, as head files name it.
fn shipped_for(sensor: &str) -> Vec<&'static str> {
    let is_for = |text: &str| {
        let kind = kind_in_words(text).unwrap_or_default();
        kind.split(',').next() == Some(sensor)
    };
    SHIPPED.iter().filter(|(_, text)| is_for(text)).map(|(name, _)| *name).collect()
}

/// What to say of a head of point clouds where the other network of point clouds is missing: the channel
/// may be meant for images.
pub(in crate::config) fn is_for_clouds(name: &str, network: Option<&Network>) -> String {
    let fitting = network.map(Network::fitting_heads).unwrap_or_default();
    let fitting = match &fitting[..] {
        [] => String::new(),
        heads => {
            format!("; the network of `model_path` is for images and fits {}", heads.join(", "))
        }
    };
    let allowed = shipped_for("camera").join(", ");
    format!("`{name}` is for point clouds{fitting}; allowed for images: {allowed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_a_head() {
        for (name, head) in [
            ("yolo11", "yolov8"),
            ("yolo11n", "yolov8"),
            ("yolov9", "yolov8"),
            ("YOLOv12", "yolov8"),
            ("yolo8", "yolov8"),
            ("yolov26", "yolo26"),
            ("yolo11-obb", "yolo_obb"),
            ("yolo26n_obb", "yolo26_obb"),
            ("yolov8n-seg", "yolo_seg"),
            ("yolo26n-seg", "yolo26_seg"),
            ("yolo11n-pose", "yolo_pose"),
            ("yolo26x-pose", "yolo26_pose"),
            ("yolov7", "yolov5"),
            ("rtdetr", "rtdetr"),
            ("rtdetrv2", "dfine"),
            ("RT-DETRv4", "dfine"),
            ("D-FINE", "dfine"),
            ("deimv2_dinov3", "dfine"),
            ("RF-DETR-nano", "rfdetr"),
            ("centerpoint", "centerpoint_autoware"),
        ] {
            assert_eq!(of_family(name), Some(head), "{name}");
        }
        assert_eq!(of_family("yolo"), None);
        assert_eq!(of_family("yolox_s"), None);
        let shipped = |head: &str| SHIPPED.iter().any(|(name, _)| *name == head);
        assert!(FAMILIES.iter().all(|(_, head)| shipped(head)));
    }

    #[test]
    fn every_shipped_head_is_for_a_sensor() {
        let of = ["camera", "lidar", "surround"].map(shipped_for);
        assert_eq!(of.iter().map(Vec::len).sum::<usize>(), SHIPPED.len());
        assert!(of[0].contains(&"yolox") && of[1].contains(&"second_kitti"), "{of:?}");
    }
}
