//! The configuration as ROS parameters: descriptors, values, and changes while the
//! node runs.

use super::declaration::{Declaration, DefaultValue, entries};
use super::files::{Entry, assignment_of};
use super::problems::{Origin, Problems, nearest};
use super::{ChannelKind, Config, YoloFacts};
use det_post_ros::yaml::Node;
use det_post_ros::{Parameter, ParameterDescriptor, ParameterType, ParameterValue};
use det_post_types::{DeviceChoice, Result};

/// A parameter of the node.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredParameter {
    /// Its declaration.
    pub descriptor: ParameterDescriptor,
    /// Its value: an empty list or `NotSet` where it is not given and has no default.
    pub value: ParameterValue,
}

/// How `ros2 param load` passes on a parameter without a value.
const PYTHON_NONE: &str = "None";

impl DeclaredParameter {
    /// Whether a given value is the present one, also in the type in which `ros2 param load` gives
    /// what `ros2 param dump` wrote.
    pub fn holds(&self, given: &ParameterValue) -> bool {
        use ParameterValue::{Integer, Integers, NotSet, Number, Numbers, Text, Texts};
        let is_empty = || node_of(given).is_ok_and(|node| node.is_empty());
        match (&self.value, given) {
            (own, given) if own == given => true,
            (NotSet, given) => is_empty() || is_python_none(given),
            (Number(own), Integer(given)) => *own == *given as f64,
            (Numbers(own), Integers(given)) if !own.is_empty() => {
                own.iter().copied().eq(given.iter().map(|&given| given as f64))
            }
            (Numbers(own), _) => own.is_empty() && is_empty(),
            (Texts(own), _) => own.is_empty() && is_empty(),
            (Text(own), NotSet) => own.is_empty(),
            // A name that YAML reads as something else.
            (Text(own), given) => *own == given.to_string(),
            _ => false,
        }
    }
}

/// Whether `ros2 param load` gave no value.
fn is_python_none(given: &ParameterValue) -> bool {
    matches!(given, ParameterValue::Text(text) if text == PYTHON_NONE)
}

impl Config {
    /// Every parameter, by name.
    pub fn parameters(&self) -> Vec<DeclaredParameter> {
        let ours = self.declared().map(describe);
        let mut declared: Vec<_> = match &self.like {
            Some(like) => like.parameters(ours),
            None => ours.collect(),
        };
        declared.sort_by(|a, b| a.descriptor.name.cmp(&b.descriptor.name));
        declared
    }

    /// The name of a parameter of a channel, of which `key` is the name without the channel.
    pub fn parameter_name(&self, channel: &str, key: &str) -> String {
        match &self.like {
            Some(like) => like.name_of(key),
            None => format!("{channel}.{key}"),
        }
    }

    /// The configuration with some parameters set to other values, all or
    /// none.
    ///
    /// # Errors
    /// `Config`, naming every parameter that is not known, is fixed when the
    /// node starts, or whose value is not allowed, with the allowed values.
    pub fn with_parameters(&self, changes: &[Parameter]) -> Result<Self> {
        if let Some(like) = &self.like {
            let changed = like.with_parameters(&self.node, &self.parameters(), changes)?;
            self.check_heads(&changed)?;
            return Ok(changed);
        }
        let mut problems = Problems::default();
        let origin = Origin::own("set_parameters");
        let mut entries = entries(self.declared(), &origin);
        entries.extend(self.qos_overrides.entries(&origin));
        for Parameter { name, value } in changes {
            match self.settable(name, value) {
                Ok(Some(node)) => {
                    entries.insert(name.clone(), Entry { node, origin: origin.clone() });
                }
                Ok(None) => {
                    entries.remove(name);
                }
                Err(message) => problems.push(name, &message),
            }
        }
        let changed = Self::from_entries(&self.node, entries, problems)?;
        self.check_heads(&changed)?;
        Ok(changed)
    }

    /// As [`Config::with_parameters`], from assignments `key:=value`.
    ///
    /// # Errors
    /// As there, and for an assignment that cannot be read.
    pub fn with_overrides(&self, overrides: &[String]) -> Result<Self> {
        self.with_parameters(&self.assignments(overrides)?)
    }

    /// The parameters that assignments `key:=value` set.
    ///
    /// # Errors
    /// `Config` for an assignment that cannot be read.
    pub fn assignments(&self, overrides: &[String]) -> Result<Vec<Parameter>> {
        let mut problems = Problems::default();
        let mut changes = Vec::new();
        for assignment in overrides {
            match assignment_of(&self.node, assignment) {
                Ok((name, node)) => changes.push(Parameter { name, value: given(&node) }),
                Err(message) => problems.push(assignment, &message),
            }
        }
        problems.into_result()?;
        Ok(changes)
    }

    /// The configuration with the node and all its channels on one device.
    ///
    /// # Errors
    /// `Config` when a channel's engine cannot run there.
    pub fn with_device(&self, device: DeviceChoice) -> Result<Self> {
        let origin = Origin::own("--device");
        let mut entries = entries(self.declared(), &origin);
        entries.extend(self.qos_overrides.entries(&origin));
        let of_channels = self.channels.iter().map(|c| format!("{}.device", c.name));
        for key in of_channels.chain(["device".to_owned()]) {
            let node = Node::Text(device.to_string());
            entries.insert(key, Entry { node, origin: origin.clone() });
        }
        let mut problems = Problems::default();
        for declared in self.declared() {
            if let Some(key) = &declared.users_key.0 {
                problems.name_origin(&declared.name, key);
            }
        }
        let mut config = Self::from_entries(&self.node, entries, problems)?;
        (config.like, config.migrated) = (self.like.clone(), self.migrated.clone());
        if let Some(like) = &mut config.like {
            like.set_device(&device.to_string());
        }
        Ok(config)
    }

    /// The value in the form of the configuration; `None` to unset it.
    fn settable(
        &self,
        name: &str,
        value: &ParameterValue,
    ) -> std::result::Result<Option<Node>, String> {
        let Some(declared) = self.declared().find(|declared| declared.name == name) else {
            let hint = nearest(name, self.declared().map(|declared| &*declared.name))
                .map(|nearest| format!("; did you mean `{nearest}`?"));
            return Err(format!("is not a parameter of this node{}", hint.unwrap_or_default()));
        };
        if !declared.is_live {
            return match describe(declared).holds(value) {
                true => Ok(declared.value.clone()),
                false => Err("is read-only: fixed when the node starts".into()),
            };
        }
        let is_text = matches!(declared.parameter_type, ParameterType::Text | ParameterType::Texts);
        let node = if !is_text && is_python_none(value) { Node::Null } else { node_of(value)? };
        if node.is_empty() {
            return match declared.default {
                DefaultValue::Unset(_) => Ok(None),
                DefaultValue::Required | DefaultValue::Value(_) => {
                    Err(format!("found {node}; allowed: {}", declared.allowed))
                }
            };
        }
        Ok(Some(node))
    }

    /// Refuses a change if a head file has changed since the start.
    fn check_heads(&self, changed: &Self) -> Result<()> {
        let mut problems = Problems::default();
        for (mine, theirs) in self.channels.iter().zip(&changed.channels) {
            let is_same = match (&mine.kind, &theirs.kind) {
                (ChannelKind::Camera(a), ChannelKind::Camera(b)) => {
                    let class_names = match &a.vocabulary_path {
                        // They are a parameter.
                        Some(_) => a.facts.class_names.clone(),
                        None => b.facts.class_names.clone(),
                    };
                    a.facts == YoloFacts { class_names, ..b.facts.clone() }
                }
                (ChannelKind::Lidar(a), ChannelKind::Lidar(b)) => a.facts == b.facts,
                (ChannelKind::Surround(a), ChannelKind::Surround(b)) => a.facts == b.facts,
                _ => false,
            };
            if !is_same {
                problems.push(
                    &format!("{}.head", mine.name),
                    "the head file is another than at the start; restart the node to take it",
                );
            }
        }
        problems.into_result()
    }

    /// The parameters of the node, then those of its channels.
    fn declared(&self) -> impl Iterator<Item = &Declaration> {
        let of_channels = self.channels.iter().flat_map(|channel| &channel.declared);
        self.declared.iter().chain(of_channels)
    }
}

/// A declaration as ROS has it.
fn describe(declared: &Declaration) -> DeclaredParameter {
    use ParameterType::{Number, Numbers, Text, Texts};
    let Declaration { name, parameter_type, allowed, unit, help, .. } = declared;
    let value = match (&declared.value, parameter_type) {
        (Some(node), _) => value_of(node),
        (None, Texts) => ParameterValue::Texts(Vec::new()),
        (None, Numbers) => ParameterValue::Numbers(Vec::new()),
        (None, Text) => ParameterValue::Text(String::new()),
        (None, _) => ParameterValue::NotSet,
    };
    let unit = if unit.is_empty() { String::new() } else { format!(" [{unit}]") };
    let unset = match &declared.default {
        DefaultValue::Unset(meaning) => format!(" Unset: {meaning}."),
        DefaultValue::Required | DefaultValue::Value(_) => String::new(),
    };
    let descriptor = ParameterDescriptor {
        name: name.clone(),
        parameter_type: *parameter_type,
        description: format!("{help}{unit}{unset}"),
        additional_constraints: allowed.clone(),
        is_read_only: !declared.is_live,
        // An integer is accepted for a number, one value for a list.
        is_dynamically_typed: declared.is_live
            && matches!(parameter_type, Number | Numbers | Texts),
        range: declared.range,
    };
    DeclaredParameter { descriptor, value }
}

pub(super) fn value_of(node: &Node) -> ParameterValue {
    match node {
        Node::Flag(flag) => ParameterValue::Flag(*flag),
        Node::Integer(integer) => ParameterValue::Integer(*integer),
        Node::Number(number) => ParameterValue::Number(*number),
        Node::Text(text) => ParameterValue::Text(text.clone()),
        Node::List(list) if list.iter().all(|item| matches!(item, Node::Text(_))) => {
            let texts = list.iter().filter_map(|item| match item {
                Node::Text(text) => Some(text.clone()),
                _ => None,
            });
            ParameterValue::Texts(texts.collect())
        }
        Node::List(list) => {
            let numbers = list.iter().filter_map(|item| match item {
                Node::Number(number) => Some(*number),
                _ => None,
            });
            ParameterValue::Numbers(numbers.collect())
        }
        Node::Null | Node::Map(_) => ParameterValue::NotSet,
    }
}

/// The value of an assignment, whose lists hold what was written.
fn given(node: &Node) -> ParameterValue {
    let Node::List(items) = node else { return value_of(node) };
    let integers = items.iter().map(|item| match item {
        Node::Integer(integer) => Some(*integer),
        _ => None,
    });
    if let Some(integers) = integers.collect() {
        return ParameterValue::Integers(integers);
    }
    let numbers = items.iter().map(|item| match item {
        Node::Integer(integer) => Some(*integer as f64),
        Node::Number(number) => Some(*number),
        _ => None,
    });
    if let Some(numbers) = numbers.collect() {
        return ParameterValue::Numbers(numbers);
    }
    let text = |item: &Node| match item {
        Node::Text(text) => text.clone(),
        other => other.to_string(),
    };
    ParameterValue::Texts(items.iter().map(text).collect())
}

pub(super) fn node_of(value: &ParameterValue) -> std::result::Result<Node, String> {
    fn list<T: Clone>(items: &[T], node: impl Fn(T) -> Node) -> Node {
        Node::List(items.iter().cloned().map(node).collect())
    }
    Ok(match value {
        ParameterValue::NotSet => Node::Null,
        ParameterValue::Flag(flag) => Node::Flag(*flag),
        ParameterValue::Integer(integer) => Node::Integer(*integer),
        ParameterValue::Number(number) => Node::Number(*number),
        ParameterValue::Text(text) => Node::Text(text.clone()),
        // An empty list has no type: some tools send it as bytes.
        ParameterValue::Bytes(bytes) if !bytes.is_empty() => {
            return Err(format!("found {} bytes; no parameter takes bytes", bytes.len()));
        }
        ParameterValue::Bytes(_) => Node::List(Vec::new()),
        ParameterValue::Flags(flags) => list(flags, Node::Flag),
        ParameterValue::Integers(integers) => list(integers, Node::Integer),
        ParameterValue::Numbers(numbers) => list(numbers, Node::Number),
        ParameterValue::Texts(texts) => list(texts, Node::Text),
        ParameterValue::Unknown(number) => {
            return Err(format!(
                "found a value of type {number}; allowed: the types 0 to 9 of ROS"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_ros::ParameterRange;
    use det_post_types::Nms2d;

    fn config_overrides() -> Vec<String> {
        let overrides = [
            "camera.input:=/image",
            "camera.head:=yolox",
            "camera.model_path:=x.onnx",
            "lidar.input:=/points",
            "lidar.head:=centerpoint_autoware",
            "lidar.model_path:=head.onnx",
            "lidar.encoder_path:=encoder.onnx",
        ];
        overrides.map(str::to_owned).to_vec()
    }

    fn config() -> Config {
        Config::load(&[], &config_overrides()).unwrap()
    }

    fn set(name: &str, value: ParameterValue) -> Parameter {
        Parameter { name: name.into(), value }
    }

    #[test]
    fn every_parameter_is_declared_with_its_type() {
        let declared = config().parameters();
        assert!(declared.is_sorted_by(|a, b| a.descriptor.name < b.descriptor.name));
        for DeclaredParameter { descriptor, value } in &declared {
            let found = value.parameter_type();
            let is_unset = found == ParameterType::NotSet;
            assert!(is_unset || found == descriptor.parameter_type, "{descriptor:?} {value:?}");
            assert!(!descriptor.description.is_empty(), "{}", descriptor.name);
        }
        let find = |name: &str| declared.iter().find(|p| p.descriptor.name == name).unwrap();
        let threshold = find("camera.score_threshold");
        assert_eq!(threshold.value, ParameterValue::Number(0.3));
        assert!(!threshold.descriptor.is_read_only);
        assert_eq!(threshold.descriptor.range, Some(ParameterRange::Number { from: 0.0, to: 1.0 }));
        assert!(find("camera.model_path").descriptor.is_read_only);
        assert_eq!(find("camera.class_filter").value, ParameterValue::Texts(Vec::new()));
        assert_eq!(find("lidar.nms.search_distance_m").value, ParameterValue::NotSet);
        let of_class = find("lidar.score_thresholds_by_distance.CAR");
        assert_eq!(of_class.value, ParameterValue::Numbers(Vec::new()));
    }

    #[test]
    fn setting_a_parameter_to_what_it_holds_changes_nothing() {
        let config = config();
        for DeclaredParameter { descriptor, value } in config.parameters() {
            if !descriptor.is_read_only {
                let changed = config.with_parameters(&[set(&descriptor.name, value)]).unwrap();
                assert_eq!(changed, config, "{}", descriptor.name);
            }
        }
    }

    #[test]
    fn dumped_parameters_load_again() {
        let config = config();
        let assignment = |DeclaredParameter { descriptor, value }| {
            let text = serde_yaml::to_string(&node_of(&value).unwrap()).unwrap();
            format!("{}:={}", descriptor.name, text.trim())
        };
        let dump: Vec<String> = config.parameters().into_iter().map(assignment).collect();
        assert!(dump.contains(&"lidar.nms.search_distance_m:=null".to_owned()), "{dump:?}");
        assert_eq!(Config::load(&[], &dump).unwrap(), config);
    }

    #[test]
    fn assignments_change_live_parameters() {
        let changed = config()
            .with_overrides(&[
                "camera.score_threshold:=1".into(),
                "lidar.distance_upper_limits_m:=[20, 50.5]".into(),
                "lidar.score_thresholds_by_distance.CAR:=[0.4, 0.5]".into(),
                "camera.class_filter:=[car]".into(),
            ])
            .unwrap();
        let ChannelKind::Camera(camera) = &changed.channels[0].kind else { panic!() };
        assert_eq!(
            (camera.score_threshold.to_bits(), &camera.class_filter[..]),
            (1.0_f32.to_bits(), &[2][..])
        );
        for (assignment, message) in [
            ("camera.score_threshold", "has no `:=`"),
            ("camera.model_path:=other.onnx", "is read-only"),
            ("camera.score_treshold:=0.5", "did you mean `camera.score_threshold`?"),
            ("camera.score_threshold:=2", "allowed"),
            ("camera.score_threshold:=[0.5, a]", "allowed"),
        ] {
            let error = config().with_overrides(&[assignment.into()]).unwrap_err();
            assert!(error.message().contains(message), "{assignment}: {error}");
        }
    }

    #[test]
    fn live_parameters_change_together() {
        let changed = config()
            .with_parameters(&[
                set("camera.score_threshold", ParameterValue::Integer(1)),
                set("camera.nms.kind", ParameterValue::Text("none".into())),
                set("camera.class_filter", ParameterValue::Texts(vec!["car".into()])),
                set("lidar.distance_upper_limits_m", ParameterValue::Integers(vec![20, 50])),
                set(
                    "lidar.score_thresholds_by_distance.CAR",
                    ParameterValue::Numbers(vec![0.4, 0.5]),
                ),
            ])
            .unwrap();
        let ChannelKind::Camera(camera) = &changed.channels[0].kind else { panic!() };
        assert_eq!(
            (camera.score_threshold.to_bits(), &camera.nms),
            (1.0_f32.to_bits(), &Nms2d::None)
        );
        assert_eq!(camera.class_filter, [2]);
        let back = changed
            .with_parameters(&[set("camera.class_filter", ParameterValue::Bytes(Vec::new()))]);
        let back = back.unwrap();
        let ChannelKind::Camera(camera) = &back.channels[0].kind else { panic!() };
        assert!(camera.class_filter.is_empty());
    }

    /// As `ros2 param load` gives them: each value as Python writes it, read as YAML.
    #[test]
    fn the_nodes_own_dump_is_loaded_in_silence() {
        use ParameterValue::{Flags, Integer, NotSet, Text};
        let overrides = ["camera.engine.threads:=3".to_owned(), "lidar.gpu_load:=2".to_owned()];
        let config = Config::load(&[], &[&config_overrides()[..], &overrides].concat()).unwrap();
        for python in [false, true] {
            let load = |DeclaredParameter { descriptor, value }| {
                let loaded = match value {
                    NotSet if python => Text("None".into()),
                    ParameterValue::Texts(list) if python && list.is_empty() => Flags(Vec::new()),
                    ParameterValue::Numbers(list) if python && list.is_empty() => Flags(Vec::new()),
                    value => value,
                };
                set(&descriptor.name, loaded)
            };
            let dump: Vec<Parameter> = config.parameters().into_iter().map(load).collect();
            assert_eq!(config.with_parameters(&dump).unwrap(), config, "{python}");
        }
        assert_eq!(config.with_parameters(&[set("lidar.gpu_load", Integer(2))]).unwrap(), config);
        for value in [Integer(3), Text("None".into()), NotSet] {
            let error = config.with_parameters(&[set("lidar.gpu_load", value)]).unwrap_err();
            assert!(error.message().contains("read-only"), "{error}");
        }
    }

    #[test]
    fn a_refusal_names_the_parameter_and_what_is_allowed() {
        use ParameterValue::{Bytes, Flag, NotSet, Number, Numbers, Text, Texts, Unknown};
        for (name, value, reason) in [
            ("camera.score_threshold", Number(1.5), "from 0 to 1"),
            ("camera.score_threshold", Number(f64::NAN), "from 0 to 1"),
            ("camera.score_threshold", Text("0.5".into()), "a number"),
            ("camera.score_threshold", NotSet, "a number"),
            ("camera.nms.kind", Text("magic".into()), "soft_linear"),
            ("camera.nms.kind", Text("rotated".into()), "axis-aligned boxes"),
            ("camera.nms.class_aware", Flag(false), "did you mean `camera.nms.class_mode`"),
            ("camera.class_filter", Texts(vec!["unicorn".into()]), "unicorn"),
            ("camera.max_detections", Number(3.0), "an integer"),
            ("camera.model_path", Text("other.onnx".into()), "read-only"),
            ("device", Text("cpu".into()), "read-only"),
            ("camera.score_treshold", Number(0.5), "did you mean `camera.score_threshold`"),
            ("camera.publish.debug_image", Bytes(vec![1]), "bytes"),
            ("camera.class_filter", Unknown(10), "type 10; allowed: the types 0 to 9"),
            ("lidar.score_thresholds", Numbers(vec![0.1, 0.2]), "one per class"),
            ("lidar.distance_upper_limits_m", Numbers(vec![5.0, 1.0]), "rising"),
        ] {
            let result = config().with_parameters(&[set(name, value)]);
            let message = result.unwrap_err().to_string();
            assert!(message.contains(name) && message.contains(reason), "{message}");
        }
    }
}
