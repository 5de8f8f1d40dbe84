//! `qos_overrides.TOPIC.publisher.POLICY` and `….subscription.POLICY`, as rclcpp
//! declares them: the quality of service of single topics.

use std::collections::BTreeMap;

use super::files::{Entries, Entry};
use super::problems::{Origin, Problems};
use det_post_ros::yaml::Node;
use det_post_ros::{Direction, Durability, Qos, Reliability};

/// The first part of the keys.
pub(super) const PREFIX: &str = "qos_overrides";

/// The overrides that parameter files give.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QosOverrides(BTreeMap<String, Override>);

#[derive(Clone, Debug, PartialEq)]
struct Override {
    /// Full name of the topic, remapped.
    topic: String,
    direction: Direction,
    policy: Policy,
    /// Whether it was given for many nodes.
    is_shared: bool,
    node: Node,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    Depth(usize),
    Durability(Durability),
    /// The only history that the node has.
    KeepLast,
    Reliability(Reliability),
}

impl QosOverrides {
    /// Reads the keys below `qos_overrides`. A key that this node does not follow
    /// is ignored, with a warning where it is given for this node only. A wrong
    /// value is refused, or ignored with a warning where it is given for many.
    pub(super) fn read(given: Entries, problems: &mut Problems) -> Self {
        let mut overrides = BTreeMap::new();
        for (key, Entry { node, origin }) in given {
            let name = format!("{PREFIX}.{key}");
            match read_one(&key, &node) {
                Ok((topic, direction, policy)) => {
                    let is_shared = origin.is_shared;
                    overrides.insert(key, Override { topic, direction, policy, is_shared, node });
                }
                Err(Misfit::Value(reason)) if !origin.is_shared => problems.push(&name, &reason),
                // Of another node.
                Err(Misfit::Key(_)) if origin.is_shared => {}
                Err(Misfit::Value(reason) | Misfit::Key(reason)) => {
                    problems.warn(format!("{name} has no effect: {reason}"));
                }
            }
        }
        Self(overrides)
    }

    /// The quality of service of a topic by its full, remapped name.
    pub fn apply(&self, topic: &str, direction: Direction, mut qos: Qos) -> Qos {
        let of_topic = |of: &&Override| of.topic == topic && of.direction == direction;
        for of in self.0.values().filter(of_topic) {
            match of.policy {
                Policy::Depth(depth) => qos.depth = depth,
                Policy::Durability(durability) => qos.durability = durability,
                Policy::KeepLast => {}
                Policy::Reliability(reliability) => qos.reliability = reliability,
            }
        }
        qos
    }

    /// Keys that were given for this node only and whose topic it does not have.
    pub fn unused<'a>(
        &'a self,
        has: impl Fn(&str, Direction) -> bool + 'a,
    ) -> impl Iterator<Item = String> + 'a {
        let is_unused = move |of: &Override| !of.is_shared && !has(&of.topic, of.direction);
        self.0.iter().filter(move |(_, of)| is_unused(of)).map(|(key, _)| format!("{PREFIX}.{key}"))
    }

    /// Every value by its full key.
    pub(super) fn values(&self) -> impl Iterator<Item = (String, &Node)> {
        self.0.iter().map(|(key, of)| (format!("{PREFIX}.{key}"), &of.node))
    }

    /// Every value as if it had been given.
    pub(super) fn entries(&self, origin: &Origin) -> Entries {
        let entry = |of: &Override| {
            let origin = Origin { is_shared: of.is_shared, ..origin.clone() };
            Entry { node: of.node.clone(), origin }
        };
        self.0.iter().map(|(key, of)| (format!("{PREFIX}.{key}"), entry(of))).collect()
    }
}

/// Why an override has no effect.
enum Misfit {
    Key(String),
    Value(String),
}

/// Topic, direction and policy of a key and its value.
fn read_one(key: &str, node: &Node) -> Result<(String, Direction, Policy), Misfit> {
    let misfit = |allowed: &str| Err(Misfit::Key(format!("allowed: {allowed}")));
    let mut parts = key.rsplitn(3, '.');
    let (policy, entity, topic) = (parts.next(), parts.next(), parts.next());
    let (Some(policy), Some(entity), Some(topic)) = (policy, entity, topic) else {
        return misfit("`TOPIC.publisher.POLICY` or `TOPIC.subscription.POLICY`");
    };
    if !topic.starts_with('/') {
        return misfit("the full name of a topic, which starts with `/`");
    }
    let direction = match entity {
        "publisher" => Direction::Publisher,
        "subscription" => Direction::Subscription,
        _ => return misfit("`publisher` or `subscription` after the topic"),
    };
    let (policy, allowed) = match (policy, node) {
        ("depth", Node::Integer(depth)) => {
            let depth =
                usize::try_from(*depth).ok().filter(|depth| (1..=MAX_DEPTH).contains(depth));
            (depth.map(Policy::Depth), ALLOWED_DEPTH)
        }
        ("depth", _) => (None, ALLOWED_DEPTH),
        ("history", node) => (is_text(node, "keep_last").then_some(Policy::KeepLast), "keep_last"),
        ("durability", node) => {
            let durability = match node {
                node if is_text(node, "volatile") => Some(Durability::Volatile),
                node if is_text(node, "transient_local") => Some(Durability::TransientLocal),
                _ => None,
            };
            (durability.map(Policy::Durability), "volatile, transient_local")
        }
        ("reliability", node) => {
            let reliability = match node {
                node if is_text(node, "reliable") => Some(Reliability::Reliable),
                node if is_text(node, "best_effort") => Some(Reliability::BestEffort),
                _ => None,
            };
            (reliability.map(Policy::Reliability), "reliable, best_effort")
        }
        _ => return misfit("depth, durability, history, reliability"),
    };
    let Some(policy) = policy else {
        return Err(Misfit::Value(format!("found {node}; allowed: {allowed}")));
    };
    Ok((topic.to_owned(), direction, policy))
}

const MAX_DEPTH: usize = 1000;
const ALLOWED_DEPTH: &str = "an integer from 1 to 1000";

fn is_text(node: &Node, text: &str) -> bool {
    matches!(node, Node::Text(found) if found == text)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use det_post_ros::{Direction, Durability, Parameter, ParameterValue, Qos, Reliability};

    const CAMERA: &str = "camera: {input: /image, head: yolox, model_path: x.onnx}";

    fn parse(section: &str, overrides: &str) -> crate::Result<Config> {
        let text =
            format!("{section}:\n  ros__parameters: {{{CAMERA}, qos_overrides: {overrides}}}");
        Config::parse(&text)
    }

    #[test]
    fn policies_of_a_topic_are_overridden_one_by_one() {
        let config = parse(
            "det_post",
            "{/image: {subscription: {reliability: reliable, depth: 2}}, \
             /boxes: {publisher: {durability: transient_local, history: keep_last}}}",
        )
        .unwrap();
        let apply = |topic, direction, qos| config.qos_overrides.apply(topic, direction, qos);
        let sensor = Qos::SENSOR_DATA;
        let expected = Qos { reliability: Reliability::Reliable, depth: 2, ..sensor };
        assert_eq!(apply("/image", Direction::Subscription, sensor), expected);
        assert_eq!(apply("/image", Direction::Publisher, sensor), sensor);
        assert_eq!(apply("/other", Direction::Subscription, sensor), sensor);
        let latched = Qos { durability: Durability::TransientLocal, ..Qos::DEFAULT };
        assert_eq!(apply("/boxes", Direction::Publisher, Qos::DEFAULT), latched);
        let unused: Vec<_> = config.qos_overrides.unused(|topic, _| topic == "/image").collect();
        let expected =
            ["durability", "history"].map(|p| format!("qos_overrides./boxes.publisher.{p}"));
        assert_eq!(unused, expected);

        // They outlive a change of parameters, and the effective file has them.
        let change =
            Parameter { name: "camera.score_threshold".into(), value: ParameterValue::Number(0.5) };
        let changed = config.with_parameters(&[change]).unwrap();
        assert_eq!(changed.qos_overrides, config.qos_overrides);
        assert_eq!(Config::parse(&config.to_yaml()).unwrap().to_yaml(), config.to_yaml());
        assert!(config.to_yaml().contains("qos_overrides"), "{}", config.to_yaml());
    }

    #[test]
    fn what_the_node_does_not_follow_is_refused_or_ignored() {
        let is_unchanged = |config: &Config| {
            let sensor = Qos::SENSOR_DATA;
            config.qos_overrides.apply("/image", Direction::Subscription, sensor) == sensor
        };
        for (overrides, reason) in [
            ("{/image: {subscription: {depth: 0}}}", "from 1 to 1000"),
            ("{/image: {subscription: {depth: many}}}", "from 1 to 1000"),
            ("{/image: {subscription: {history: keep_all}}}", "allowed: keep_last"),
            ("{/image: {subscription: {reliability: maybe}}}", "reliable, best_effort"),
            ("{/image: {subscription: {durability: 1}}}", "volatile, transient_local"),
        ] {
            let error = parse("det_post", overrides).unwrap_err();
            assert!(error.message().contains(reason), "{overrides}: {error}");
            assert!(is_unchanged(&parse("/**", overrides).unwrap()), "{overrides}");
        }
        for overrides in [
            "{/image: {subscription: {deadline: 7}}}",
            "{/image: {subscription_2: {depth: 7}}}",
            "{image: {subscription: {depth: 7}}}",
            "{/image: 7}",
        ] {
            for section in ["det_post", "/**"] {
                assert!(is_unchanged(&parse(section, overrides).unwrap()), "{overrides}");
            }
        }
    }
}
