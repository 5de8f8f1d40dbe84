//! `autoware_perception_msgs/DetectedObjects`, which was of `autoware_auto_perception_msgs`, and
//! `tier4_perception_msgs/DetectedObjectsWithFeature`.

use super::detection::Pose;
use super::field::Field;
use crate::cdr::Writer;
use crate::{ObjectFormat, ObjectLabel};
use det_post_types::{
    Box2d, Detection2d, Detection3d, Error, ErrorKind, Header, ImageBox, Result, Variance3d,
};

/// `autoware_perception_msgs/DetectedObjects`.
#[derive(Clone, Copy, Debug)]
pub struct DetectedObjects;

/// `tier4_perception_msgs/DetectedObjectsWithFeature`.
#[derive(Clone, Copy, Debug)]
pub struct DetectedObjectsWithFeature;

impl DetectedObjects {
    /// The ROS name.
    pub const TYPE: &'static str = "autoware_perception_msgs/msg/DetectedObjects";

    /// The ROS name until 2024-06. The fields and therefore the bytes are the same.
    pub const FORMER_TYPE: &'static str = "autoware_auto_perception_msgs/msg/DetectedObjects";

    /// Encodes `detections` into `bytes`, replacing the content, as autoware_lidar_centerpoint
    /// publishes them.
    ///
    /// Each object has the score as its existence probability, one classification of
    /// probability 1, and a bounding box. The orientation has an unknown sign for vehicles
    /// and is unavailable for others, though it is given. The twist is in the object's frame;
    /// it and the covariances are given where the head estimates them and `format` asks for
    /// them. Objects of a class without a label are left out.
    ///
    /// # Errors
    /// `Argument` when `format` does not have a class, `Message` when the message would have
    /// 4 GiB or more.
    pub fn encode(
        header: &Header<'_>,
        detections: &[Detection3d],
        format: &ObjectFormat,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let label = |detection: &Detection3d| {
            let bbox = &detection.object.bbox;
            let area = f64::from(bbox.length_m) * f64::from(bbox.width_m);
            format.label(detection.class, area as f32)
        };
        check_classes(Self::TYPE, format, detections.iter().map(|detection| detection.class))?;
        let mut writer = Writer::new(bytes);
        header.write(&mut writer);
        writer.sequence_len(detections.iter().filter(|found| label(found).is_some()).count());
        for detection in detections {
            if let Some(label) = label(detection) {
                write_object(&mut writer, &Object::in_space(detection, label, format));
            }
        }
        writer.finish(Self::TYPE)
    }
}

impl DetectedObjectsWithFeature {
    /// The ROS name.
    pub const TYPE: &'static str = "tier4_perception_msgs/msg/DetectedObjectsWithFeature";

    /// Encodes `detections` into `bytes`, replacing the content, as autoware_tensorrt_yolox
    /// publishes them.
    ///
    /// Each object has the score as its existence probability and one classification of
    /// probability 1; its pose and shape are those of a message that was not filled. The
    /// feature is a region of interest in whole pixels of the source image: the left upper
    /// corner and the size of the box, each cut to an integer. Of a rotated box it is the
    /// smallest axis-aligned one that contains it. Objects of a class without a label are
    /// left out.
    ///
    /// # Errors
    /// As [`DetectedObjects::encode`].
    pub fn encode<B: Copy + Into<ImageBox>>(
        header: &Header<'_>,
        detections: &[Detection2d<B>],
        format: &ObjectFormat,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let label = |detection: &Detection2d<B>| format.label(detection.class, 0.0);
        check_classes(Self::TYPE, format, detections.iter().map(|detection| detection.class))?;
        let mut writer = Writer::new(bytes);
        header.write(&mut writer);
        writer.sequence_len(detections.iter().filter(|found| label(found).is_some()).count());
        for detection in detections {
            if let Some(label) = label(detection) {
                write_object(&mut writer, &Object::new(detection.score, label));
                write_feature(&mut writer, &detection.bbox.into().bounds());
            }
        }
        writer.finish(Self::TYPE)
    }
}

/// Refuses a class that the format does not have.
fn check_classes(
    message_type: &'static str,
    format: &ObjectFormat,
    mut classes: impl Iterator<Item = u32>,
) -> Result<()> {
    let num_classes = format.labels.len();
    match classes.find(|class| *class as usize >= num_classes) {
        None => Ok(()),
        Some(class) => Err(Error::new(
            ErrorKind::Argument,
            message_type,
            format!("class {class} of a detection has no label, there are {num_classes}"),
        )),
    }
}

/// `DetectedObjectKinematics`: nothing is known of the orientation.
const UNAVAILABLE: u8 = 0;
/// `DetectedObjectKinematics`: the orientation may be off by half a turn.
const SIGN_UNKNOWN: u8 = 1;
/// `Shape`.
const BOUNDING_BOX: u8 = 0;

/// `autoware_perception_msgs/DetectedObject`.
struct Object {
    existence_probability: f32,
    label: ObjectLabel,
    pose: Pose,
    position_covariance: Option<[f64; 36]>,
    orientation_availability: u8,
    /// Linear velocity along the axes of the object.
    twist: Option<[f64; 3]>,
    twist_covariance: Option<[f64; 36]>,
    dimensions: [f64; 3],
}

impl Object {
    /// An object without a pose and a shape.
    fn new(existence_probability: f32, label: ObjectLabel) -> Self {
        Self {
            existence_probability,
            label,
            pose: Pose::from_yaw([0.0; 3], 0.0),
            position_covariance: None,
            orientation_availability: UNAVAILABLE,
            twist: None,
            twist_covariance: None,
            dimensions: [0.0; 3],
        }
    }

    fn in_space(detection: &Detection3d, label: ObjectLabel, format: &ObjectFormat) -> Self {
        let object = &detection.object;
        let bbox = &object.bbox;
        let velocity = object.velocity_mps.filter(|_| format.has_twist);
        let variance = object.variance.as_ref();
        Self {
            pose: Pose::from_yaw(bbox.center.map(f64::from), bbox.yaw_rad.into()),
            position_covariance: variance
                .map(|variance| position_covariance(variance, format.cell_size_m)),
            orientation_availability: match label.is_vehicle() {
                true => SIGN_UNKNOWN,
                false => UNAVAILABLE,
            },
            twist: velocity.map(|velocity| in_frame_of_object(velocity, bbox.yaw_rad)),
            twist_covariance: velocity
                .and(variance)
                .map(|variance| twist_covariance(variance.velocity, bbox.yaw_rad)),
            dimensions: [bbox.length_m, bbox.width_m, bbox.height_m].map(f64::from),
            ..Self::new(detection.score, label)
        }
    }
}

/// A velocity along the axes of an object, in single precision as in Autoware.
fn in_frame_of_object([x, y]: [f32; 2], yaw: f32) -> [f64; 3] {
    let (sin, cos) = libm::sincosf(yaw);
    [f64::from(cos * x + sin * y), f64::from(cos * y - sin * x), 0.0]
}

/// The diagonal of x, y, z and yaw. See [`ObjectFormat::cell_size_m`] for x and y.
fn position_covariance(variance: &Variance3d, cell_size_m: Option<[f32; 2]>) -> [f64; 36] {
    let [x, y, z] = variance.center;
    let [x, y] = match cell_size_m {
        Some([cell_x, cell_y]) => [x / cell_x, y / (cell_y * cell_y) * cell_x],
        None => [x, y],
    };
    let mut covariance = [0.0; 36];
    for (index, value) in [(0, x), (7, y), (14, z), (35, variance.yaw)] {
        covariance[index] = f64::from(value);
    }
    covariance
}

/// The covariance of a velocity in the frame of the object, from the variances along x and y of
/// the sensor's frame.
fn twist_covariance([x, y]: [f32; 2], yaw: f32) -> [f64; 36] {
    let (sin, cos) = libm::sincos(f64::from(yaw));
    let (x, y) = (f64::from(x), f64::from(y));
    let mut covariance = [0.0; 36];
    covariance[0] = x * (cos * cos) + y * (sin * sin);
    covariance[1] = (y - x) * (sin * cos);
    covariance[6] = covariance[1];
    covariance[7] = x * (sin * sin) + y * (cos * cos);
    covariance
}

fn write_object(writer: &mut Writer<'_>, object: &Object) {
    writer.f32(object.existence_probability);
    writer.sequence_len(1);
    writer.u8(object.label.0);
    writer.f32(1.0);
    object.pose.write(writer);
    writer.f64_array(&object.position_covariance.unwrap_or([0.0; 36]));
    writer.bool(object.position_covariance.is_some());
    writer.u8(object.orientation_availability);
    writer.f64_array(&object.twist.unwrap_or_default());
    // Angular velocity.
    writer.f64_array(&[0.0; 3]);
    writer.f64_array(&object.twist_covariance.unwrap_or([0.0; 36]));
    writer.bool(object.twist.is_some());
    writer.bool(object.twist_covariance.is_some());
    writer.u8(BOUNDING_BOX);
    // Footprint.
    writer.sequence_len(0);
    writer.f64_array(&object.dimensions);
}

/// Writes `tier4_perception_msgs/Feature`: an empty cloud and a region of interest.
fn write_feature(writer: &mut Writer<'_>, bbox: &Box2d) {
    Header::default().write(writer);
    // Height, width; fields; is_bigendian; point_step, row_step; data; is_dense.
    writer.u32(0);
    writer.u32(0);
    writer.sequence_len(0);
    writer.bool(false);
    writer.u32(0);
    writer.u32(0);
    writer.bytes(&[]);
    writer.bool(false);
    // A conversion to an integer cuts, and gives 0 for negative numbers.
    let Box2d { x1, y1, x2, y2 } = *bbox;
    for pixels in [x1, y1, y2 - y1, x2 - x1] {
        writer.u32(pixels as u32);
    }
    writer.bool(false);
}
