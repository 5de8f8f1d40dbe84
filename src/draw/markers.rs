//! Detections in space as markers for RViz and Foxglove.

use det_post_eval::draw::class_rgb;
use det_post_ros::messages::{Marker, MarkerAction, MarkerArray, MarkerShape, Pose};
use det_post_types::{Detection3d, Header, Result};

/// Lifetime of markers, in case the node no longer removes them.
const LIFETIME_NS: i64 = 1_000_000_000;

const BOX_OPACITY: f32 = 0.5;
const LINE_WIDTH_M: f64 = 0.06;
const TEXT_HEIGHT_M: f64 = 0.5;

/// Minimum speed that is shown as an arrow.
const MIN_SPEED_MPS: f32 = 0.1;

/// Encodes the markers of a frame into `bytes`, replacing the content: the removal
/// of all markers, then for every detection a box, a line from its centre across
/// its front, its class and score above it and, if its velocity is known, an arrow
/// to its position in a second. Without detections only the removal remains.
///
/// # Errors
/// `Message` when the message exceeds 4 GiB.
pub fn encode_markers(
    header: &Header<'_>,
    detections: &[Detection3d],
    class_names: &[String],
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let num_arrows = detections.iter().filter(|d| speed(d).is_some()).count();
    let mut markers = MarkerArray::new(bytes, 1 + 3 * detections.len() + num_arrows);
    let blank = Marker {
        header: *header,
        namespace: "",
        id: 0,
        shape: MarkerShape::Cube,
        action: MarkerAction::DeleteAll,
        pose: Pose::from_yaw([0.0; 3], 0.0),
        scale: [1.0; 3],
        color: [1.0; 4],
        lifetime_ns: LIFETIME_NS,
        points: &[],
        text: "",
    };
    markers.push(&blank);
    for (detection, id) in detections.iter().zip(0..) {
        let bbox = &detection.object.bbox;
        let color = class_rgb(detection.class);
        let color = |opacity| {
            let [r, g, b] = color.map(|value| f32::from(value) / 255.0);
            [r, g, b, opacity]
        };
        let center = bbox.center.map(f64::from);
        let size = [bbox.length_m, bbox.width_m, bbox.height_m].map(f64::from);
        let pose = Pose::from_yaw(center, bbox.yaw_rad.into());
        let shown = Marker { id, action: MarkerAction::Add, ..blank };
        markers.push(&Marker {
            namespace: "boxes",
            pose,
            scale: size,
            color: color(BOX_OPACITY),
            ..shown
        });
        let front = [[0.0; 3], [0.75 * size[0], 0.0, 0.0]];
        markers.push(&Marker {
            namespace: "headings",
            shape: MarkerShape::LineList,
            pose,
            scale: [LINE_WIDTH_M, 0.0, 0.0],
            color: color(1.0),
            points: &front,
            ..shown
        });
        let [x, y, z] = center;
        let above = [x, y, z + 0.5 * size[2] + TEXT_HEIGHT_M];
        let name = class_names.get(detection.class as usize).map_or("?", String::as_str);
        markers.push(&Marker {
            namespace: "labels",
            shape: MarkerShape::Text,
            pose: Pose::from_yaw(above, 0.0),
            scale: [0.0, 0.0, TEXT_HEIGHT_M],
            text: &format!("{name} {:.2}", detection.score),
            ..shown
        });
        if let Some([vx, vy]) = speed(detection) {
            let arrow = [center, [x + f64::from(vx), y + f64::from(vy), z]];
            markers.push(&Marker {
                namespace: "velocities",
                shape: MarkerShape::Arrow,
                scale: [2.0 * LINE_WIDTH_M, 4.0 * LINE_WIDTH_M, 0.0],
                color: color(1.0),
                points: &arrow,
                ..shown
            });
        }
    }
    markers.finish()
}

/// The velocity, if it is known and above the minimum.
fn speed(detection: &Detection3d) -> Option<[f32; 2]> {
    let velocity = detection.object.velocity_mps?;
    let [vx, vy] = velocity;
    (vx.hypot(vy) >= MIN_SPEED_MPS).then_some(velocity)
}
