//! What the file of a camera's network says about it, beside the facts of its head.
//!
//! Class names that the user gives hold. Where a shipped head has them, or there are none, the
//! names of the file hold: the network knows its classes. What contradicts the head is refused or
//! warned about, with both.

use std::path::Path;

use indexmap::IndexMap;

use super::YoloFacts;
use crate::config::files::{Entries, Entry};
use crate::config::paths::locate;
use crate::config::problems::{Origin, Problems};
use crate::config::vocabulary::given_classes;
use det_post_infer::metadata::Metadata;
use det_post_ros::yaml::Node;
use det_post_types::{Dim, Size, YoloLayout, YoloOptions};

/// The key of the names.
const NAMES: &str = "class_names";
/// The keys of the keypoints: their number, and the numbers of each.
const KEYPOINTS: [&str; 2] = ["keypoints", "keypoint_values"];
/// Class names that a message lists.
const MAX_LISTED: usize = 5;

/// The network of a channel.
pub(in crate::config) struct Network {
    /// Name of the channel.
    pub(super) channel: String,
    /// Path of the file, as given.
    pub(super) path: String,
    pub(super) metadata: Metadata,
    /// Whether the names are the classes of a vocabulary, and not from the file.
    has_vocabulary: bool,
}

impl Network {
    /// The network that the parameters of a channel name; `None` where it runs elsewhere.
    pub(in crate::config) fn of(channel: &str, given: &Entries) -> Option<Self> {
        let text = |key: &str| match &given.get(key)?.node {
            Node::Text(text) => Some(text),
            _ => None,
        };
        let is_external = text("engine.kind").is_some_and(|kind| kind == "external");
        let path = text("model_path").filter(|_| !is_external)?;
        let path = locate(path, &given.get("model_path")?.origin.folders);
        let mut network = Self::of_file(channel, Path::new(&path));
        if let Some(names) = given_classes(given) {
            network.metadata.class_names = Some(Ok(names));
            network.has_vocabulary = true;
        }
        Some(network)
    }

    /// The network of a file, for a channel.
    pub(super) fn of_file(channel: &str, path: &Path) -> Self {
        Self::of_metadata(channel, &path.display().to_string(), Metadata::of_file(path))
    }

    /// The network of a file that says this.
    pub(super) fn of_metadata(channel: &str, path: &str, metadata: Metadata) -> Self {
        let (channel, path) = (channel.to_owned(), path.to_owned());
        Self { channel, path, metadata, has_vocabulary: false }
    }

    /// The names of the file, if they are a list.
    fn names(&self) -> Option<&[String]> {
        self.metadata.class_names.as_ref()?.as_deref().ok()
    }

    /// Puts the names and keypoints of the file in place of a shipped head's, of cameras.
    pub(super) fn replace(
        &self,
        head: &str,
        facts: &mut IndexMap<String, Node>,
        problems: &mut Problems,
    ) {
        if !matches!(facts.get("sensor"), Some(Node::Text(sensor)) if sensor == "camera") {
            return;
        }
        if let (Some(found), Some(Node::Map(layout))) =
            (self.metadata.keypoints, facts.get_mut("layout"))
            && has_keypoints(layout.get("kind"))
        {
            for (key, found) in KEYPOINTS.into_iter().zip(found) {
                layout.insert(key.to_owned(), Node::Integer(found as i64));
            }
        }
        let (Some(names), Some(of_head)) = (self.names(), facts.get_mut(NAMES)) else { return };
        let own = Node::from(names.to_vec());
        if *of_head != own {
            problems.note(self.names_used(names, &format!("head {head}")));
            *of_head = own;
        }
    }

    /// The same for facts in the configuration: gives keypoints and names where there are none, or where
    /// they are the default list of a package that is replaced. Names by number are of that package,
    /// too, and remain. Returns whether the user gave names.
    pub(super) fn complete(&self, facts: &mut Entries, problems: &mut Problems) -> bool {
        let is_of_camera = facts
            .get("sensor")
            .is_none_or(|entry| matches!(&entry.node, Node::Text(sensor) if sensor == "camera"));
        let kind = facts.get("layout.kind").map(|entry| &entry.node);
        if let Some(found) = self.metadata.keypoints.filter(|_| is_of_camera && has_keypoints(kind))
        {
            for (key, found) in KEYPOINTS.into_iter().zip(found) {
                let origin = Origin::own(&self.path);
                let entry = Entry { node: Node::Integer(found as i64), origin };
                facts.entry(format!("layout.{key}")).or_insert(entry);
            }
        }
        let default = match facts.get(NAMES) {
            None => "",
            Some(Entry { node: Node::Text(list), origin }) if &*origin.name == "--like" => {
                list.as_str()
            }
            Some(entry) => return &*entry.origin.name != "--like",
        };
        if let Some(names) = self.names().filter(|_| is_of_camera) {
            if !default.is_empty() {
                problems.note(self.names_used(names, default));
            }
            let origin = Origin::own(&self.path);
            facts.insert(NAMES.to_owned(), Entry { node: names.to_vec().into(), origin });
        }
        false
    }

    fn names_used(&self, names: &[String], instead: &str) -> String {
        let Self { channel, path, has_vocabulary, .. } = self;
        if *has_vocabulary {
            return format!("{channel}: the {} class names come from `classes`", names.len());
        }
        format!(
            "{channel}: the {} class names come from the network {path} ({}), not from {instead}",
            names.len(),
            listed(names)
        )
    }

    /// Takes the layout of final outputs in place of its family's, where the file has such outputs.
    pub(in crate::config) fn adapt(&self, facts: &mut YoloFacts, problems: &mut Problems) {
        let Some(layout) = facts.layout.end_to_end() else { return };
        let name = facts.output_names.first();
        let output = match name {
            Some(name) => self.metadata.outputs.iter().find(|output| output.name == *name),
            None => self.metadata.outputs.first(),
        };
        let Some(shape) = output.and_then(|output| output.shape.as_deref()) else { return };
        let num_classes = facts.class_names.len();
        let is_own = |layout: &YoloLayout| {
            let input = facts.input_size.unwrap_or(Size::new(1, 1));
            let outputs = layout.outputs(num_classes, input, false).unwrap_or_default();
            outputs
                .iter()
                .flat_map(|output| &output.shapes)
                .any(|expected| fits(expected, shape, false))
        };
        if is_own(&layout) && !is_own(&facts.layout) {
            let Self { channel, path, .. } = self;
            problems.note(format!(
                "{channel}: the outputs of the network {path} are final boxes: its layout is `{}`, not `{}`",
                layout.name(),
                facts.layout.name()
            ));
            facts.layout = layout;
        }
    }

    /// Compares the file with the facts of its head, of which the user gave the names if
    /// `has_given_names`; `key` is the parameter of the head.
    pub(in crate::config) fn check(
        &self,
        key: &str,
        facts: &YoloFacts,
        has_given_names: bool,
        problems: &mut Problems,
    ) {
        let num_problems = problems.len();
        if has_given_names {
            self.check_names(key, &facts.class_names, problems);
        } else if let Some(Err(reason)) = &self.metadata.class_names {
            let Self { channel, path, .. } = self;
            problems.warn(format!(
                "{channel}: the names in the metadata of the network {path} are not used: {reason}; the class names \
                 come from the head"
            ));
        }
        self.check_task(key, &facts.layout, problems);
        self.check_sizes(key, facts, problems);
        if problems.len() == num_problems {
            self.check_outputs(key, facts, problems);
        }
    }

    fn check_names(&self, key: &str, given: &[String], problems: &mut Problems) {
        let Some(names) = self.names() else { return };
        let Self { path, .. } = self;
        let [num_given, num] = [given.len(), names.len()];
        if num_given != num {
            let found = format!("{num_given} names ({})", listed(given));
            let allowed = format!(
                "the {num} of the network {path} ({}); a shipped head, and facts without `{NAMES}`, take them from it",
                listed(names)
            );
            return problems
                .push(&format!("{key}.{NAMES}"), &format!("found {found}; allowed: {allowed}"));
        }
        let differing = given.iter().zip(names).position(|(given, name)| given != name);
        if let Some(class) = differing {
            problems.warn(format!(
                "{key}.{NAMES}: class {class} of {num} is `{}` here and `{}` of {num} in the network {path}; the \
                 names given are used",
                given[class], names[class]
            ));
        }
    }

    fn check_task(&self, key: &str, layout: &YoloLayout, problems: &mut Problems) {
        let Self { path, metadata, .. } = self;
        let kind = layout.name();
        let has_keypoints = layout.keypoints(0).is_some();
        let allowed = match metadata.task.as_deref() {
            Some("detect") if layout.has_rotated_boxes() => {
                "a head of axis-aligned boxes, such as `yolov8`, or a network of oriented boxes"
            }
            Some("obb") if !layout.has_rotated_boxes() => {
                "a head of oriented boxes, such as `yolo_obb`, or a network of axis-aligned boxes"
            }
            Some("detect") if layout.has_masks() => {
                "a head without masks, such as `yolov8`, or a network of task `segment`"
            }
            Some("detect") if has_keypoints => {
                "a head without keypoints, such as `yolov8`, or a network of task `pose`"
            }
            Some("segment") if !layout.has_masks() => {
                "a head with masks, such as `yolo_seg`, or a network of task `detect`, `obb` or `pose`"
            }
            Some("pose") if !has_keypoints => {
                "a head with keypoints, such as `yolo_pose`, or a network of task `detect`, `obb` or `segment`"
            }
            Some("semantic" | "classify") => {
                "networks of task `detect`, `obb`, `segment` or `pose`"
            }
            _ => "",
        };
        if !allowed.is_empty() {
            let task = metadata.task.as_deref().unwrap_or_default();
            let message = format!(
                "its layout `{kind}` does not fit the network {path}, whose metadata says task `{task}`; allowed: {allowed}"
            );
            problems.push(key, &message);
        }
        if metadata.is_end_to_end && !layout.is_end_to_end() {
            let head = match (layout.has_rotated_boxes(), layout.has_masks(), has_keypoints) {
                (true, _, _) => "`obb_end_to_end`, such as `yolo26_obb`",
                (_, true, _) => "`seg_end_to_end`, such as `yolo26_seg`",
                (_, _, true) => "`pose_end_to_end`, such as `yolo26_pose`",
                (false, false, false) => "`end_to_end`, such as `yolo26`",
            };
            let message = format!(
                "its layout `{kind}` does not fit the network {path}, whose metadata says `end2end`: its outputs are \
                 final boxes; allowed: a head of layout {head}, or the network exported with `end2end=False`"
            );
            problems.push(key, &message);
        }
    }

    fn check_sizes(&self, key: &str, facts: &YoloFacts, problems: &mut Problems) {
        let Self { path, metadata, .. } = self;
        let key = format!("{key}.input_size");
        if let (Some(size), Some(stride)) = (facts.input_size, metadata.stride)
            && [size.width, size.height].iter().any(|side| side % stride != 0)
        {
            let message = format!(
                "found {}x{}; allowed: multiples of {stride}, the stride in the metadata of the network {path}",
                size.width, size.height
            );
            problems.push(&key, &message);
        } else if let (Some(size), Some(own)) = (facts.input_size, metadata.input_size)
            && size != own
        {
            problems.warn(format!(
                "{key}: {}x{} here, and {}x{} in the metadata of the network {path}: it was exported for that size",
                size.width, size.height, own.width, own.height
            ));
        } else if let (Some(fixed), Some(own)) = (self.fixed_size(), metadata.input_size)
            && fixed != own
        {
            problems.warn(format!(
                "{}: the input of the network {path} is {}x{}, and {}x{} in its metadata (`imgsz`): the size of the input \
                 is used",
                self.channel, fixed.width, fixed.height, own.width, own.height
            ));
        }
        let levels: Vec<u32> = match &facts.layout {
            YoloLayout::V5Raw { levels } => levels.iter().map(|level| level.stride).collect(),
            YoloLayout::Yolox { strides } => strides.clone(),
            _ => return,
        };
        // ultralytics writes at least 32.
        let largest = levels.iter().copied().max().unwrap_or(0);
        if let Some(stride) = metadata.stride.filter(|&stride| stride != largest.max(32)) {
            let message = format!(
                "its layout has strides {levels:?}; allowed: up to {stride}, the stride in the metadata of the network {path}"
            );
            problems.push(&key.replace("input_size", "layout.strides"), &message);
        }
    }
}

/// Whether the kind of a layout, as head files name it, has keypoints.
fn has_keypoints(kind: Option<&Node>) -> bool {
    let Some(Node::Text(kind)) = kind else { return false };
    let known = YoloLayout::KINDS.iter().find(|(name, _)| name == kind);
    known.is_some_and(|(_, of)| of.layout(&YoloOptions::default()).keypoints(1).is_some())
}

/// Whether a shape of a file is one that a layout has; `None` is any length. An open dimension
/// of the file fits where any length does or, if `takes_open`, everywhere.
pub(super) fn fits(expected: &[Option<usize>], shape: &[Dim], takes_open: bool) -> bool {
    let dims = expected.iter().zip(shape);
    let is_same = |(expected, dim): (&Option<usize>, &Dim)| match (expected, dim) {
        (Some(expected), Dim::Fixed(found)) => expected == found,
        (Some(expected), Dim::Dynamic) => takes_open || *expected == 1,
        (None, _) => true,
    };
    expected.len() == shape.len() && dims.into_iter().all(is_same)
}

/// The first names of a list.
fn listed(names: &[String]) -> String {
    let more = if names.len() > MAX_LISTED { ", …" } else { "" };
    names.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ") + more
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::{ChannelKind, Config};
    use det_post_types::{Result, TensorSpec};

    /// A file of nothing but metadata.
    fn network(folder: &tempfile::TempDir, entries: &[(&str, &str)]) -> PathBuf {
        let path = folder.path().join("network.onnx");
        // A graph of nothing, then the entries.
        let mut bytes = vec![0x3a, 0];
        for (key, value) in entries {
            let mut entry = Vec::new();
            for (tag, text) in [(0x0a, key), (0x12, value)] {
                entry.extend([tag, text.len() as u8]);
                entry.extend(text.as_bytes());
            }
            bytes.extend([0x72, entry.len() as u8]);
            bytes.extend(entry);
        }
        std::fs::write(&path, bytes).unwrap();
        path
    }

    const THREE: (&str, &str) = ("names", "{0: 'helmet', 1: 'vest', 2: 'boots'}");
    const FACTS: &str =
        "{sensor: camera, layout: {kind: v8}, placement: center, channel_order: rgb";

    /// The class names of a channel with a head and the network of these entries.
    fn names(head: &str, entries: &[(&str, &str)]) -> Result<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = network(&folder, entries);
        let head = head.replace("FOLDER", &folder.path().display().to_string());
        let file = "sensor: camera\nclass_names: [a, b, c]\nlayout: {kind: v8}\nplacement: center\nchannel_order: rgb\n";
        std::fs::write(folder.path().join("head.yaml"), file).unwrap();
        let text = format!(
            "/**:\n  ros__parameters:\n    cam:\n      input: /image\n      head: {head}\n      model_path: {}\n",
            path.display()
        );
        let config = Config::parse(&text)?;
        // What is printed loads as the same.
        assert_eq!(Config::parse(&config.to_yaml())?.to_yaml(), config.to_yaml());
        match &config.channels[0].kind {
            ChannelKind::Camera(camera) => Ok(camera.facts.class_names.clone()),
            _ => Ok(Vec::new()),
        }
    }

    fn refusal(head: &str, entries: &[(&str, &str)]) -> String {
        names(head, entries).unwrap_err().message().to_owned()
    }

    #[test]
    fn the_names_of_the_network_hold_over_those_of_a_shipped_head() {
        let three = ["helmet", "vest", "boots"];
        assert_eq!(names("yolov10", &[THREE]).unwrap(), three);
        assert_eq!(names("yolov8", &[THREE, ("task", "detect"), ("stride", "32")]).unwrap(), three);
        assert_eq!(names(&format!("{FACTS}}}"), &[THREE]).unwrap(), three);
        // Without names, or with names that are no list, the head's hold.
        for entries in [&[][..], &[("task", "detect")], &[("names", "helmet")]] {
            assert_eq!(names("yolov10", entries).unwrap()[0], "person");
        }
        assert!(refusal(&format!("{FACTS}}}"), &[]).contains("class_names"));
    }

    #[test]
    fn names_that_are_given_hold_and_their_number_is_that_of_the_network() {
        let given = ["a", "b", "c"];
        let inline = format!("{FACTS}, class_names: [a, b, c]}}");
        let two = ("names", "['a', 'b']");
        for head in [inline.as_str(), "FOLDER/head.yaml"] {
            assert_eq!(names(head, &[THREE]).unwrap(), given);
            assert_eq!(names(head, &[("names", "['a', 'b', 'c']")]).unwrap(), given);
            let message = refusal(head, &[two]);
            for part in ["cam.head.class_names", "3 names (a, b, c)", "2 of the network", "(a, b)"]
            {
                assert!(message.contains(part), "{message}");
            }
        }
        let coco = format!("{FACTS}, class_names: coco80}}");
        assert!(refusal(&coco, &[THREE]).contains("80 names (person, "));
    }

    const POSE: YoloLayout = YoloLayout::Pose { num_keypoints: 17, num_values: 3 };
    const SEG: YoloLayout = YoloLayout::Seg { num_coefficients: 32 };

    #[test]
    fn the_shape_of_the_output_tells_final_boxes() {
        let layout = |layout: YoloLayout, names: usize, dims: &[Dim]| {
            let spec = TensorSpec {
                name: "output0".to_owned(),
                element: None,
                shape: Some(dims.to_vec()),
            };
            let metadata = Metadata { outputs: vec![spec], ..Metadata::default() };
            let network = Network::of_metadata("cam", "n.onnx", metadata);
            let name = match layout {
                YoloLayout::Seg { .. } => "yolo_seg",
                YoloLayout::Pose { .. } => "yolo_pose",
                YoloLayout::Obb => "yolo_obb",
                _ => "yolov8",
            };
            let mut problems = Problems::default();
            let head = super::super::read("cam.head", name, None, &mut problems).unwrap();
            let super::super::Facts::Camera(mut facts) = head.facts else { panic!() };
            facts.class_names = (0..names).map(|name| name.to_string()).collect();
            network.adapt(&mut facts, &mut problems);
            facts.layout.name()
        };
        let fixed = |dims: [usize; 3]| dims.map(Dim::Fixed);
        for (of, names, dims, expected) in [
            (YoloLayout::V8, 80, fixed([1, 300, 6]), "end_to_end"),
            (YoloLayout::V8, 80, fixed([1, 84, 8400]), "v8"),
            (YoloLayout::V8, 2, fixed([1, 6, 8400]), "v8"),
            // Either: what the head says.
            (YoloLayout::V8, 2, fixed([1, 6, 6]), "v8"),
            (YoloLayout::V8, 80, [Dim::Dynamic, Dim::Dynamic, Dim::Fixed(6)], "end_to_end"),
            (YoloLayout::V8, 80, [Dim::Dynamic, Dim::Dynamic, Dim::Dynamic], "v8"),
            (YoloLayout::Obb, 15, fixed([1, 300, 7]), "obb_end_to_end"),
            (YoloLayout::Obb, 15, fixed([1, 20, 8400]), "obb"),
            (YoloLayout::Obb, 2, fixed([1, 7, 300]), "obb"),
            (SEG, 80, fixed([1, 300, 38]), "seg_end_to_end"),
            (SEG, 80, fixed([1, 116, 8400]), "seg"),
            (SEG, 2, fixed([1, 38, 38]), "seg"),
            (POSE, 1, fixed([1, 300, 57]), "pose_end_to_end"),
            (POSE, 1, fixed([1, 56, 8400]), "pose"),
        ] {
            assert_eq!(layout(of.clone(), names, &dims), expected, "{of:?} {dims:?}");
        }
    }

    #[test]
    fn what_contradicts_the_head_is_refused_with_both() {
        let sized = format!("{FACTS}, class_names: [a], input_size: [640, 400]}}");
        let cases = [
            ("yolov8", ("task", "obb"), &["`v8`", "task `obb`", "yolo_obb"][..]),
            ("yolo_obb", ("task", "detect"), &["`obb`", "task `detect`"]),
            ("yolov8", ("task", "segment"), &["task `segment`", "`yolo_seg`"]),
            ("yolo_seg", ("task", "detect"), &["`seg`", "task `detect`", "`yolov8`"]),
            ("yolo_seg", ("task", "pose"), &["`seg`", "task `pose`"]),
            ("yolo_seg", ("end2end", "True"), &["`seg`", "`seg_end_to_end`", "yolo26_seg"]),
            ("yolov8", ("task", "pose"), &["task `pose`", "`yolo_pose`"]),
            ("yolo_pose", ("task", "detect"), &["`pose`", "task `detect`", "`yolov8`"]),
            ("yolo_pose", ("task", "segment"), &["`pose`", "task `segment`", "`yolo_seg`"]),
            ("yolo_pose", ("end2end", "True"), &["`pose`", "`pose_end_to_end`", "yolo26_pose"]),
            ("yolo_pose", ("task", "classify"), &["task `classify`", "`segment` or `pose`"]),
            ("yolov8", ("end2end", "True"), &["`v8`", "`end2end`", "end_to_end"]),
            ("yolo_obb", ("end2end", "True"), &["yolo26_obb", "end2end=False"]),
            ("yolov5_raw", ("stride", "64"), &["[8, 16, 32]", "64"]),
            (&sized, ("stride", "32"), &["cam.head.input_size", "640x400", "multiples of 32"]),
        ];
        for (head, entry, parts) in cases {
            let message = refusal(head, &[entry]);
            for part in parts {
                assert!(message.contains(part), "{head} {entry:?}: {message}");
            }
        }
        let fitting = [
            ("yolov8", ("task", "detect")),
            ("yolo_obb", ("task", "obb")),
            ("yolov10", ("end2end", "True")),
            ("yolo26", ("end2end", "True")),
            ("yolo26_obb", ("task", "obb")),
            ("yolo_seg", ("task", "segment")),
            ("yolo26_seg", ("task", "segment")),
            ("yolo26_seg", ("end2end", "True")),
            ("yolo_pose", ("task", "pose")),
            ("yolo26_pose", ("end2end", "True")),
            ("yolov8", ("end2end", "False")),
            ("yolov8", ("task", "something")),
            ("yolov5_raw", ("stride", "32")),
            ("yolov8", ("imgsz", "[640, 640]")),
            (&sized, ("imgsz", "[640, 640]")),
        ];
        for (head, entry) in fitting {
            names(head, &[entry]).unwrap();
        }
    }
}
