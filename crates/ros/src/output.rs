//! How detections become messages.

/// The message that detections are published as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputType {
    /// `vision_msgs/Detection2DArray`, of boxes in an image, axis-aligned or rotated.
    Detection2dArray,
    /// `vision_msgs/Detection3DArray`, of boxes in space.
    Detection3dArray,
    /// `autoware_perception_msgs/DetectedObjects`, of boxes in space.
    DetectedObjects,
    /// `autoware_auto_perception_msgs/DetectedObjects`, their predecessor until 2024-06.
    AutoDetectedObjects,
    /// `tier4_perception_msgs/DetectedObjectsWithFeature`, of boxes in an image.
    DetectedObjectsWithFeature,
    /// `yolo_msgs/DetectionArray`, of boxes in an image.
    YoloDetectionArray,
}

impl OutputType {
    /// Whether its boxes are in space; in an image otherwise.
    pub fn is_3d(self) -> bool {
        match self {
            Self::Detection3dArray | Self::DetectedObjects | Self::AutoDetectedObjects => true,
            Self::Detection2dArray
            | Self::DetectedObjectsWithFeature
            | Self::YoloDetectionArray => false,
        }
    }

    /// Whether it is a message of `vision_msgs`, whose classes a `LabelInfo` describes.
    pub fn is_vision(self) -> bool {
        matches!(self, Self::Detection2dArray | Self::Detection3dArray)
    }

    /// The message of `vision_msgs` for the same boxes.
    pub fn vision(self) -> Self {
        if self.is_3d() { Self::Detection3dArray } else { Self::Detection2dArray }
    }
}

/// The message that the times of a frame are published as, for debugging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugTimesType {
    /// `autoware_internal_debug_msgs/Float64Stamped`.
    AutowareInternalDebug,
    /// `tier4_debug_msgs/Float64Stamped`, its predecessor until 2025-02.
    Tier4Debug,
}

/// How the detections of a channel become messages.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputFormat {
    /// The message.
    pub output_type: OutputType,
    /// `class_id` of each class in `vision_msgs`: its name, or its index.
    pub class_ids: Vec<String>,
    /// Name of each class, in `yolo_msgs`.
    pub class_names: Vec<String>,
    /// The rest, for messages of Autoware.
    pub objects: ObjectFormat,
    /// Keypoints with a lower score are left out of `yolo_msgs` and of annotations.
    pub keypoint_threshold: f32,
}

/// How detections become Autoware's objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectFormat {
    /// Label of each class; detections of a class without one are not published.
    pub labels: Vec<Option<ObjectLabel>>,
    /// Labels that depend on the area of the footprint. The first that applies holds.
    pub remap_by_area: Vec<AreaRemap>,
    /// Whether velocities are published, where the head estimates them.
    pub has_twist: bool,
    /// Size of a cell of the network's output map in metres, x and y, where it estimates
    /// variances.
    ///
    /// Autoware's CenterPoint publishes as variance of x and of y the variance in cells
    /// times the size of a cell in x (not its square). Trackers are tuned to that.
    pub cell_size_m: Option<[f32; 2]>,
}

/// A label of `autoware_perception_msgs/ObjectClassification`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLabel(pub u8);

/// The labels by their names in the message.
const OBJECT_LABELS: [&str; 12] = [
    "UNKNOWN",
    "CAR",
    "TRUCK",
    "BUS",
    "TRAILER",
    "MOTORCYCLE",
    "BICYCLE",
    "PEDESTRIAN",
    "ANIMAL",
    "HAZARD",
    "OVER_DRIVABLE",
    "UNDER_DRIVABLE",
];

/// Other names of classes, and their labels.
const OTHER_NAMES: [(&str, ObjectLabel); 3] =
    [("MOTORBIKE", ObjectLabel(5)), ("PERSON", ObjectLabel(7)), ("CYCLIST", ObjectLabel(6))];

impl ObjectLabel {
    /// The label of objects whose class is not known.
    pub const UNKNOWN: Self = Self(0);

    /// The label of this name, or number; `None` when there is none.
    pub fn parse(text: &str) -> Option<Self> {
        let of_name = OBJECT_LABELS.iter().zip(0..).find(|(name, _)| **name == text);
        of_name.map(|(_, number)| number).or_else(|| text.parse().ok()).map(Self)
    }

    /// The label of a class by its name, in any case; `UNKNOWN` for a name that Autoware does
    /// not have. `MOTORBIKE`, `PERSON` and `CYCLIST` are known, too.
    pub fn of_class(class_name: &str) -> Self {
        let name = class_name.to_ascii_uppercase();
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, label)| *label);
        let is_number = name.parse::<u8>().is_ok();
        other.or_else(|| Self::parse(&name).filter(|_| !is_number)).unwrap_or(Self::UNKNOWN)
    }

    /// The label in `autoware_auto_perception_msgs`, which has those only up to `PEDESTRIAN` (7).
    pub fn in_auto_msgs(self) -> Self {
        if self.0 <= 7 { self } else { Self::UNKNOWN }
    }

    /// Whether a vehicle has it whose front and rear look alike to a detector: `CAR`, `TRUCK`,
    /// `BUS`, `TRAILER`.
    pub fn is_vehicle(self) -> bool {
        (1..=4).contains(&self.0)
    }
}

/// A label that depends on the area of an object's footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AreaRemap {
    /// The label by class.
    pub from: ObjectLabel,
    /// The label in its place.
    pub to: ObjectLabel,
    /// The smallest area, in square metres.
    pub min_m2: f64,
    /// The largest area, in square metres; may be infinite.
    pub max_m2: f64,
}

impl AreaRemap {
    /// Reads `FROM TO MIN MAX`, such as `CAR TRUCK 12.1 36.0`: labels by name or number, areas in
    /// square metres, `inf` for no upper limit. `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let mut label = || words.next().and_then(ObjectLabel::parse);
        let (from, to) = (label()?, label()?);
        let mut area = || words.next()?.parse::<f64>().ok().filter(|area| *area >= 0.0);
        let (min_m2, max_m2) = (area()?, area()?);
        let is_whole = words.next().is_none();
        (is_whole && min_m2 <= max_m2).then_some(Self { from, to, min_m2, max_m2 })
    }
}

impl ObjectFormat {
    /// The label of an object of a class, whose footprint has an area in square metres; `None`
    /// when objects of this class are not published.
    pub fn label(&self, class: u32, area_m2: f32) -> Option<ObjectLabel> {
        let label = self.labels.get(class as usize).copied().flatten()?;
        let area = f64::from(area_m2);
        let applies = |remap: &&AreaRemap| {
            remap.from == label && (remap.min_m2..=remap.max_m2).contains(&area)
        };
        Some(self.remap_by_area.iter().find(applies).map_or(label, |remap| remap.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_the_labels_of_their_names() {
        for (name, label) in [
            ("CAR", 1),
            ("car", 1),
            ("Truck", 2),
            ("BUS", 3),
            ("TRAILER", 4),
            ("MOTORBIKE", 5),
            ("motorcycle", 5),
            ("BICYCLE", 6),
            ("Cyclist", 6),
            ("PEDESTRIAN", 7),
            ("person", 7),
            ("ANIMAL", 8),
            ("traffic_light", 0),
            ("3", 0),
            ("", 0),
        ] {
            assert_eq!(ObjectLabel::of_class(name), ObjectLabel(label), "{name}");
        }
    }

    #[test]
    fn labels_follow_the_area() {
        let remaps =
            ["CAR TRUCK 12.1 36.0", "CAR 4 36 inf", "TRUCK TRAILER 36.0 inf", "BUS TRAILER 36 999"];
        let format = ObjectFormat {
            labels: ["CAR", "TRUCK", "BUS", "PEDESTRIAN"]
                .map(|name| Some(ObjectLabel::of_class(name)))
                .to_vec(),
            remap_by_area: remaps.map(|text| AreaRemap::parse(text).unwrap()).to_vec(),
            ..ObjectFormat::default()
        };
        // (class, area, label): both ends are included, the first that applies holds, once.
        for (class, area, label) in [
            (0, 8.0, 1),
            (0, 12.099_999, 1),
            (0, 12.2, 2),
            (0, 36.0, 2),
            (0, 36.1, 4),
            (0, 1e9, 4),
            (1, 35.9, 2),
            (1, 36.0, 4),
            (2, 1000.0, 3),
            (3, 20.0, 7),
            (0, f32::NAN, 1),
        ] {
            assert_eq!(format.label(class, area), Some(ObjectLabel(label)), "{class} {area}");
        }
        assert_eq!(format.label(4, 1.0), None, "no such class");
    }

    #[test]
    fn remaps_that_are_none_are_refused() {
        for text in [
            "",
            "CAR TRUCK 12.1",
            "CAR TRUCK 12.1 36 1",
            "CAR LORRY 1 2",
            "car TRUCK 1 2",
            "CAR TRUCK 2 1",
            "CAR TRUCK nan 1",
            "CAR TRUCK -1 1",
            "CAR 256 1 2",
        ] {
            assert_eq!(AreaRemap::parse(text), None, "{text}");
        }
    }
}
