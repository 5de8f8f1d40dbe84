//! The outputs of a channel: topics, and how detections become messages.

use super::declaration::Change::{Fixed, Live};
use super::head::{Facts, LidarOutputs};
use super::reader::Reader;
use super::value::Length::OneOrMore;
use super::value::{flag, list, one_of, signed, text, topic};
use det_post_ros::{
    AreaRemap, DebugTimesType, NodeName, ObjectFormat, ObjectLabel, OutputFormat, OutputType,
};

/// The outputs of a channel beside the topic of its detections.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishConfig {
    /// How detections become messages.
    pub format: OutputFormat,
    /// Topic of the detections as a message of `vision_msgs`, beside one of another package.
    pub vision_topic: Option<String>,
    /// Topic of the debug image; `None`: below the detections.
    pub debug_image_topic: Option<String>,
    /// Topic below which the times of frames are published for debugging.
    pub debug_times: Option<String>,
    /// The message of those times.
    pub debug_times_type: DebugTimesType,
    /// Whether the time of publication is published, below the detections.
    pub has_published_time: bool,
    /// Whether masks are published as label images, below the detections.
    pub has_label_images: bool,
}

impl PublishConfig {
    pub(super) fn read(p: &mut Reader<'_>, node: &NodeName, output: &str, facts: &Facts) -> Self {
        let format = format(p, facts);
        let has_vision_msgs = p.value(
            "publish.vision_msgs",
            Fixed,
            flag(),
            false,
            "Whether detections are also published as vision_msgs on `OUTPUT/detections`, if `output_type` \
             is another.",
        );
        let debug_image_topic = p.optional(
            "publish.debug_image_topic",
            Fixed,
            topic(),
            "`OUTPUT/debug_image`",
            "Topic of the debug image.",
        );
        let debug_times = p.optional(
            "publish.debug_times",
            Fixed,
            topic(),
            "none",
            "Topic below which times of a frame are published live: `debug/cyclic_time_ms` since \
             the previous frame, `debug/processing_time_ms`, `debug/pipeline_latency_ms` since \
             the input's stamp.",
        );
        let debug_times_type = p.value(
            "publish.debug_times_package",
            Fixed,
            one_of(DEBUG_TIMES_PACKAGES),
            "autoware_internal_debug_msgs",
            "Package of the Float64Stamped of `publish.debug_times`; until 2025-02 Autoware had \
             tier4_debug_msgs.",
        );
        let has_label_images = matches!(facts, Facts::Camera(_)) && label_images(p, facts);
        Self {
            has_label_images,
            vision_topic: (has_vision_msgs && !format.output_type.is_vision())
                .then(|| format!("{output}/detections")),
            format,
            debug_image_topic: debug_image_topic.map(|topic| node.expand(&topic)),
            debug_times: debug_times.map(|topic| node.expand(&topic)),
            debug_times_type,
            has_published_time: p.value(
                "publish.published_time",
                Fixed,
                flag(),
                false,
                "Whether `OUTPUT/debug/published_time` (autoware_internal_msgs/PublishedTime) is published live for subscribers.",
            ),
        }
    }
}

fn label_images(p: &mut Reader<'_>, facts: &Facts) -> bool {
    const KEY: &str = "publish.label_images";
    let is_wanted = p.value(
        KEY,
        Fixed,
        flag(),
        false,
        "Whether masks are published as images of the input's size: `OUTPUT/instances` (mono16, \
         the detection's position from 1) and `OUTPUT/classes` (mono8, class from \
         1, 255 beyond 254), 0 outside of masks.",
    );
    let has_masks = matches!(facts, Facts::Camera(facts) if facts.layout.has_masks());
    if is_wanted && !has_masks {
        p.refuse(KEY, "true", "false: the head has no masks");
    }
    is_wanted && has_masks
}

const DEBUG_TIMES_PACKAGES: &[(&str, DebugTimesType)] = &[
    ("autoware_internal_debug_msgs", DebugTimesType::AutowareInternalDebug),
    ("tier4_debug_msgs", DebugTimesType::Tier4Debug),
];

/// The messages that boxes in an image, and those that boxes in space fit into.
const OUTPUT_TYPES_2D: &[(&str, OutputType)] = &[
    ("detection_2d_array", OutputType::Detection2dArray),
    ("detected_objects_with_feature", OutputType::DetectedObjectsWithFeature),
    ("yolo_detection_array", OutputType::YoloDetectionArray),
];
const OUTPUT_TYPES_3D: &[(&str, OutputType)] = &[
    ("detection_3d_array", OutputType::Detection3dArray),
    ("detected_objects", OutputType::DetectedObjects),
    ("auto_detected_objects", OutputType::AutoDetectedObjects),
];

fn format(p: &mut Reader<'_>, facts: &Facts) -> OutputFormat {
    let (types, default, help) = match facts {
        Facts::Camera(_) => (
            OUTPUT_TYPES_2D,
            "detection_2d_array",
            "Message of the detections: of vision_msgs, tier4_perception_msgs or yolo_msgs.",
        ),
        Facts::Lidar(_) | Facts::Surround(_) => (
            OUTPUT_TYPES_3D,
            "detection_3d_array",
            "Message of the detections: of vision_msgs, of autoware_perception_msgs, or of its predecessor \
             autoware_auto_perception_msgs.",
        ),
    };
    let class_names = facts.class_names();
    let output_type = p.value("output_type", Fixed, one_of(types), default, help);
    OutputFormat {
        output_type,
        class_ids: class_ids(p, class_names),
        class_names: class_names.to_vec(),
        objects: objects(p, facts, output_type),
        keypoint_threshold: 0.0,
    }
}

/// What identifies the class of a published detection.
#[derive(Clone, Copy)]
enum ClassId {
    Name,
    Index,
}

const CLASS_IDS: &[(&str, ClassId)] = &[("name", ClassId::Name), ("index", ClassId::Index)];

/// The `class_id` of each class.
fn class_ids(p: &mut Reader<'_>, class_names: &[String]) -> Vec<String> {
    let class_id = p.value(
        "publish.class_id",
        Fixed,
        one_of(CLASS_IDS),
        "name",
        "`class_id` of published detections: the class's `name`, or its `index` in `OUTPUT/label_info`. \
         `detections.jsonl` and `eval` have names either way.",
    );
    match class_id {
        ClassId::Name => class_names.to_vec(),
        ClassId::Index => (0..class_names.len()).map(|index| index.to_string()).collect(),
    }
}

/// The label of a class whose detections are not published.
const NOT_PUBLISHED: i64 = -1;

/// The parameters of messages of Autoware.
fn objects(p: &mut Reader<'_>, facts: &Facts, output_type: OutputType) -> ObjectFormat {
    let labels = labels(p, facts.class_names(), output_type);
    if let Facts::Camera(_) = facts {
        return ObjectFormat { labels, ..ObjectFormat::default() };
    }
    ObjectFormat {
        labels,
        remap_by_area: remap_by_area(p),
        has_twist: p.value(
            "publish.velocity",
            Live,
            flag(),
            true,
            "Whether `detected_objects` have the velocities that the head estimates.",
        ),
        cell_size_m: cell_size_m(facts),
    }
}

/// The label of each class. Heads have up to hundreds of classes: a channel without such
/// messages does not have these parameters unless they are given.
fn labels(
    p: &mut Reader<'_>,
    class_names: &[String],
    output_type: OutputType,
) -> Vec<Option<ObjectLabel>> {
    const KEY: &str = "labels";
    let of_name = |name: &String| {
        let label = ObjectLabel::of_class(name);
        Some(match output_type {
            OutputType::AutoDetectedObjects => label.in_auto_msgs(),
            _ => label,
        })
    };
    if output_type.is_vision() && !p.is_given_below(KEY) {
        return class_names.iter().map(of_name).collect();
    }
    let given = p.per_class(
        KEY,
        Fixed,
        || signed(NOT_PUBLISHED..=255),
        "by its name; else UNKNOWN (0)",
        "Label of a class (autoware_perception_msgs/ObjectClassification); -1: not published there.",
    );
    let of_class = |(label, name): (Option<i64>, &String)| match label {
        None => of_name(name),
        Some(number) => u8::try_from(number).ok().map(ObjectLabel),
    };
    given.into_iter().zip(class_names).map(of_class).collect()
}

fn remap_by_area(p: &mut Reader<'_>) -> Vec<AreaRemap> {
    const KEY: &str = "remap_by_area";
    let texts = p.optional(
        KEY,
        Fixed,
        list(text(), OneOrMore),
        "none",
        "Labels of `detected_objects` by footprint: `FROM TO MIN MAX`, such as `CAR TRUCK 12.1 \
         36.0`, in m², ends included, or `inf`. The first that applies holds.",
    );
    let mut remaps = Vec::new();
    for text in texts.unwrap_or_default() {
        match AreaRemap::parse(&text) {
            Some(remap) => remaps.push(remap),
            None => p.refuse(
                KEY,
                format!("{text:?}"),
                "`FROM TO MIN MAX` with labels of autoware_perception_msgs by name or number",
            ),
        }
    }
    remaps
}

/// Size of a cell of a map of CenterPoint that estimates variances.
fn cell_size_m(facts: &Facts) -> Option<[f32; 2]> {
    let Facts::Lidar(lidar) = facts else { return None };
    let LidarOutputs::Center(center) = &lidar.outputs else { return None };
    let [x, y, _] = lidar.grid.voxel_size_m();
    let factor = center.downsample_factor as f32;
    center.has_variance.then_some([x * factor, y * factor])
}
