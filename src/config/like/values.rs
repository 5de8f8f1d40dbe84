//! Values of other nodes' parameters.

use det_post_ros::yaml::Node;

/// A number, or an integer as one.
pub(super) fn number_of(node: &Node) -> Option<f64> {
    match node {
        Node::Integer(integer) => Some(*integer as f64),
        Node::Number(number) => Some(*number),
        _ => None,
    }
}

/// A list of numbers.
pub(super) fn numbers_of(node: &Node) -> Option<Vec<f64>> {
    match node {
        Node::List(items) => items.iter().map(number_of).collect(),
        _ => None,
    }
}

/// A text.
pub(super) fn text_of(node: &Node) -> Option<&str> {
    match node {
        Node::Text(text) => Some(text),
        _ => None,
    }
}

/// A list of texts.
pub(super) fn texts_of(node: &Node) -> Option<Vec<String>> {
    match node {
        Node::List(items) => items.iter().map(|item| Some(text_of(item)?.to_owned())).collect(),
        _ => None,
    }
}
