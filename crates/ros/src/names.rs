//! Names of nodes and topics in the ROS graph.

use det_post_types::{Error, ErrorKind, Result};

/// Name and namespace of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeName {
    namespace: String,
    name: String,
}

impl NodeName {
    /// A node `name` in `namespace`; a namespace may lack its leading `/`, and
    /// an empty one is the root.
    ///
    /// # Errors
    /// `Config` when a part of either is not letters, digits and underscores without a leading
    /// digit.
    pub fn new(namespace: &str, name: &str) -> Result<Self> {
        let inner = namespace.trim_matches('/');
        let is_sound = is_word(name) && (inner.is_empty() || inner.split('/').all(is_word));
        if !is_sound {
            let found = format!("found namespace {namespace:?}, name {name:?}");
            let allowed = "letters, digits and underscores, no digit first";
            let message = format!("{found}; allowed: {allowed}");
            return Err(Error::new(ErrorKind::Config, "node name", message));
        }
        Ok(Self { namespace: format!("/{inner}"), name: name.to_owned() })
    }

    /// The namespace with its leading `/`; the root is `/`.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name without the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Namespace and name, such as `/front/det_post`.
    pub fn full(&self) -> String {
        self.expand(&self.name)
    }

    /// The full name of a topic: `/x` is unchanged, `x` is in the namespace, `~/x` is
    /// in the node's own.
    pub fn expand(&self, topic: &str) -> String {
        if topic.starts_with('/') {
            return topic.to_owned();
        }
        let space = self.namespace.trim_end_matches('/');
        match topic.strip_prefix("~/") {
            Some(private) => format!("{space}/{}/{private}", self.name),
            None => format!("{space}/{topic}"),
        }
    }
}

/// Whether a text is the name of a topic of ROS: parts of letters, digits and underscores that do
/// not start with a digit, after `/`, `~/` or nothing.
pub fn is_topic(text: &str) -> bool {
    let parts = text.strip_prefix("~/").or_else(|| text.strip_prefix('/')).unwrap_or(text);
    parts.split('/').all(is_word)
}

/// Whether a text is valid as a part of a ROS name.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_expand_as_ros_has_it() {
        let root = NodeName::new("", "det_post").unwrap();
        let front = NodeName::new("car/front/", "eyes").unwrap();
        assert_eq!((root.namespace(), root.full()), ("/", "/det_post".to_owned()));
        assert_eq!((front.namespace(), front.full()), ("/car/front", "/car/front/eyes".to_owned()));
        for (topic, of_root, of_front) in [
            ("/tf", "/tf", "/tf"),
            ("image", "/image", "/car/front/image"),
            ("a/b", "/a/b", "/car/front/a/b"),
            ("~/out", "/det_post/out", "/car/front/eyes/out"),
        ] {
            assert_eq!(
                (root.expand(topic), front.expand(topic)),
                (of_root.into(), of_front.into())
            );
        }
    }

    #[test]
    fn unsound_names_are_refused() {
        for (namespace, name) in [("", ""), ("", "1a"), ("a b", "x"), ("a//b", "x"), ("", "a/b")] {
            assert!(NodeName::new(namespace, name).is_err(), "{namespace:?} {name:?}");
        }
    }
}
