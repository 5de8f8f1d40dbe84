//! Rules that rename a node, its topics and its services, as `--ros-args -r` takes them.
//!
//! Grammar and meaning follow rcl (<https://design.ros2.org/articles/static_remapping.html>):
//! of several rules the first that matches applies, and one with the name of a node applies to
//! that node. rcl reserves `*`, `**` and `\1` and refuses them, and so does this module.

use super::names::NodeName;
use det_post_types::{Error, ErrorKind, Result};

/// What a rule may look like.
const ALLOWED: &str = "allowed: `FROM:=TO`, `rostopic://FROM:=TO`, `rosservice://FROM:=TO`, \
                       `__node:=NAME`, `__ns:=/SPACE`, each after `NODE:` for one node; names are \
                       letters, digits and single underscores, with `/` between them and `/` or \
                       `~/` first";

/// What a rule renames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renames {
    Topics,
    Services,
    TopicsAndServices,
    NodeName,
    Namespace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// The only node to which it applies.
    node: Option<String>,
    renames: Renames,
    /// The name that it matches; empty where it renames a node.
    from: String,
    to: String,
}

impl Rule {
    fn parse(text: &str) -> Option<Self> {
        let (node, rule) = split_node(text);
        let node = node.map(str::to_owned);
        let (from, to) = rule.split_once(":=")?;
        let renames = match from {
            "__node" | "__name" => Renames::NodeName,
            "__ns" => Renames::Namespace,
            _ => {
                let (renames, from) = if let Some(from) = from.strip_prefix("rostopic://") {
                    (Renames::Topics, from)
                } else if let Some(from) = from.strip_prefix("rosservice://") {
                    (Renames::Services, from)
                } else {
                    (Renames::TopicsAndServices, from)
                };
                let is_sound = is_name(from) && is_name(to);
                return is_sound.then(|| Self {
                    node,
                    renames,
                    from: from.to_owned(),
                    to: to.to_owned(),
                });
            }
        };
        let is_sound = match renames {
            Renames::Namespace => is_namespace(to),
            _ => is_token(to),
        };
        is_sound.then(|| Self { node, renames, from: String::new(), to: to.to_owned() })
    }

    fn is_for(&self, name: &str) -> bool {
        self.node.as_ref().is_none_or(|node| node == name)
    }
}

/// Rules that rename a node, its topics and its services, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remaps(Vec<Rule>);

impl Remaps {
    /// Adds a rule for topics and services; both sides may be relative or private.
    pub fn push(&mut self, from: impl Into<String>, to: impl Into<String>) {
        let (from, to) = (from.into(), to.into());
        self.0.push(Rule { node: None, renames: Renames::TopicsAndServices, from, to });
    }

    /// Adds a rule as the command line has it, such as `image:=/camera/image_raw` or
    /// `other_node:__ns:=/front`.
    ///
    /// # Errors
    /// `Usage` for what rcl refuses, with the allowed forms.
    pub fn add(&mut self, rule: &str) -> Result<()> {
        let parsed = Rule::parse(rule).ok_or_else(|| {
            let reserved = match rule.contains(['*', '\\']) {
                true => "`*`, `**` and `\\1` are reserved and have no meaning in ROS 2; ",
                false => "",
            };
            Error::new(ErrorKind::Usage, "arguments", format!("-r {rule}: {reserved}{ALLOWED}"))
        })?;
        self.0.push(parsed);
        Ok(())
    }

    /// Name and namespace of a node that is called `default` in its code: the first rule for its
    /// name, then the first rule for the namespace of a node of the new name.
    ///
    /// # Errors
    /// `Config` as of [`NodeName::new`].
    pub fn node(&self, default: &NodeName) -> Result<NodeName> {
        let first = |renames, name: &str| {
            self.0.iter().find(|rule| rule.renames == renames && rule.is_for(name))
        };
        let name = first(Renames::NodeName, default.name()).map_or(default.name(), |rule| &rule.to);
        let namespace =
            first(Renames::Namespace, name).map_or(default.namespace(), |rule| &rule.to);
        NodeName::new(namespace, name)
    }

    /// The full name of a topic of `node` after the first rule that matches.
    pub fn resolve(&self, node: &NodeName, topic: &str) -> String {
        self.first(node, topic, Renames::Topics)
    }

    /// The full name of a service of `node` after the first rule that matches.
    pub fn resolve_service(&self, node: &NodeName, service: &str) -> String {
        self.first(node, service, Renames::Services)
    }

    /// The nodes that rules name and that are none of `names`, in the order of the rules.
    pub fn other_nodes(&self, names: [&str; 2]) -> impl Iterator<Item = &str> {
        let nodes = self.0.iter().filter_map(|rule| rule.node.as_deref());
        nodes.filter(move |node| !names.contains(node))
    }

    fn first(&self, node: &NodeName, name: &str, renames: Renames) -> String {
        let full = node.expand(name);
        let rule = self.0.iter().find(|rule| {
            (rule.renames == renames || rule.renames == Renames::TopicsAndServices)
                && rule.is_for(node.name())
                && node.expand(&rule.from) == full
        });
        rule.map_or(full, |rule| node.expand(&rule.to))
    }
}

/// Separates `NODE:` from the rest of a rule or of an assignment to a parameter.
pub fn split_node(text: &str) -> (Option<&str>, &str) {
    match text.split_once(':') {
        Some((node, rest))
            if is_token(node)
                && !rest.starts_with('=')
                && !(matches!(node, "rostopic" | "rosservice") && rest.starts_with("//")) =>
        {
            (Some(node), rest)
        }
        _ => (None, text),
    }
}

/// Whether a text is the name of a parameter in `-p NAME:=VALUE`: tokens and slashes, in parts
/// between dots.
pub fn is_parameter(text: &str) -> bool {
    text.split('.').all(|part| {
        let mut rest = part;
        while !rest.is_empty() {
            let length = if rest.starts_with('/') { 1 } else { token_length(rest) };
            if length == 0 {
                return false;
            }
            rest = &rest[length..];
        }
        !part.is_empty()
    })
}

/// Whether a text is a namespace or an enclave: `/`, or tokens, each after a slash.
pub fn is_namespace(text: &str) -> bool {
    text == "/" || text.strip_prefix('/').is_some_and(|inner| inner.split('/').all(is_token))
}

/// Whether a text is a topic or a service: absolute, private or relative.
fn is_name(text: &str) -> bool {
    let inner = text.strip_prefix("~/").or_else(|| text.strip_prefix('/')).unwrap_or(text);
    inner.split('/').all(is_token)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && token_length(text) == text.len()
}

/// The length of the token with which a text begins: letters, digits and single underscores, no
/// digit first; 0 where there is none. One ends after the first of two underscores.
fn token_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    if !bytes.first().is_some_and(is_first) || bytes.starts_with(b"__") {
        return 0;
    }
    let is_end = |at: &usize| match bytes[*at] {
        b'_' => bytes[at - 1] == b'_',
        byte => !byte.is_ascii_alphanumeric(),
    };
    (1..bytes.len()).find(is_end).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(namespace: &str, name: &str) -> NodeName {
        NodeName::new(namespace, name).unwrap()
    }

    fn remaps(rules: &[&str]) -> Remaps {
        let mut remaps = Remaps::default();
        rules.iter().for_each(|rule| remaps.add(rule).unwrap());
        remaps
    }

    #[test]
    fn rules_are_taken_and_refused_as_by_rcl() {
        for rule in [
            "__node:=eyes",
            "__name:=eyes",
            "old:__node:=eyes",
            "old:__node:=eyes123",
            "__ns:=/foo/bar",
            "__ns:=/",
            "old:__ns:=/foo",
            "_:=kq",
            "foo:=bar",
            "~/foo:=~/bar",
            "/foo/bar:=bar",
            "foo:=/bar",
            "/foo123:=/bar123",
            "node:/foo123:=/bar123",
            "rostopic:=/foo/bar",
            "rosservice:=baz",
            "rostopic://rostopic:=rosservice",
            "rostopic:///rosservice:=rostopic",
            "rostopic:///foo/bar:=baz",
            "rosservice://~/a:=b",
            "node:rostopic:///a:=b",
            "rostopic:foo:=bar",
            "a_:=_b",
            "a_b/c_d:=e",
        ] {
            assert!(Remaps::default().add(rule).is_ok(), "{rule}");
        }
        for rule in [
            "",
            ":",
            "1",
            "~",
            ":=",
            "foo",
            "foo:=",
            ":=bar",
            "::=",
            "1:=",
            "~:=",
            "foo=bar",
            "__node:=",
            "__node:=/foo/bar",
            "__node:=1x",
            "__node:=a__b",
            "__ns:=",
            "__ns:=foo",
            "__ns:=/foo/",
            "__ns:=//",
            "__ns:=/1",
            ":__node:=a",
            "~:__node:=a",
            "/a:__node:=b",
            "__nodes:=a",
            "__foo:=bar",
            "}foo:=/bar",
            "f oo:=/bar",
            "foo:=/b ar",
            "f{oo:=/bar",
            "foo:=/b}ar",
            "{node}/a:=b",
            "rostopic://:=a",
            "rostopic::=a",
            "http://a:=b",
            "a__b:=c",
            "a/:=b",
            "a//b:=c",
            "a:=b/",
            "~a:=b",
            "a/~/b:=c",
            "a:=b:=c",
            "a.b:=c",
            "a:=b:c",
            "/*:=a",
            "/**:=a",
            "a/*:=b",
            "a:=/\\1",
            "a:b:c:=d",
            "é:=a",
            "node:=",
        ] {
            let error = Remaps::default().add(rule).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{rule}");
            assert!(error.message().contains(rule), "{error}");
        }
        let error = Remaps::default().add("/*:=a").unwrap_err();
        assert!(error.message().contains("are reserved"), "{error}");
    }

    #[test]
    fn the_first_rule_for_a_name_applies_to_its_node() {
        for (rules, namespace, name) in [
            (&[][..], "/car", "det_post"),
            (&["__node:=a", "__node:=b"], "/car", "a"),
            (&["__ns:=/x", "__ns:=/y"], "/x", "det_post"),
            (&["other:__node:=b", "other:__ns:=/y"], "/car", "det_post"),
            (&["det_post:__node:=b", "__node:=c"], "/car", "b"),
            // The namespace is of the node that has its new name.
            (&["b:__ns:=/y", "__node:=b"], "/y", "b"),
            (&["det_post:__ns:=/y", "__node:=b"], "/car", "b"),
            (&["__ns:=/"], "/", "det_post"),
        ] {
            let found = remaps(rules).node(&node("car", "det_post")).unwrap();
            assert_eq!((found.namespace(), found.name()), (namespace, name), "{rules:?}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_renames() {
        let front = node("front", "det_post");
        let renamed = |rules: &[&str], name: &str| {
            let remaps = remaps(rules);
            (remaps.resolve(&front, name), remaps.resolve_service(&front, name))
        };
        let both = |name: &str| (name.to_owned(), name.to_owned());
        let image = ["image:=/raw", "/front/image:=/never"];
        for (rules, name, expected) in [
            (&image[..], "image", both("/raw")),
            (&image, "/front/image", both("/raw")),
            (&image, "/image", both("/image")),
            (&["~/out:=boxes"], "~/out", both("/front/boxes")),
            (&["/front/det_post/out:=~/boxes"], "~/out", both("/front/det_post/boxes")),
            (&["rostopic://image:=/a", "image:=/b"], "image", ("/a".into(), "/b".into())),
            (&["rosservice:///s:=/a"], "/s", ("/s".into(), "/a".into())),
            (&["other:image:=/a", "det_post:image:=/b"], "image", both("/b")),
            (&["det_post:rosservice://s:=t"], "s", ("/front/s".into(), "/front/t".into())),
            // A rule is applied once.
            (&["a:=b", "b:=c"], "a", both("/front/b")),
            (&["__node:=x", "__ns:=/y"], "image", both("/front/image")),
        ] {
            assert_eq!(renamed(rules, name), expected, "{rules:?} {name}");
        }
        let others = remaps(&["other:a:=b", "det_post:a:=c", "x:__ns:=/y", "a:=d"]);
        assert!(others.other_nodes(["det_post", "eyes"]).eq(["other", "x"]));
    }

    #[test]
    fn parameters_are_named_as_by_rcl() {
        for name in ["a", "a.b", "fizz123", "qos_overrides./a/b.publisher.history", "a__b"] {
            assert!(is_parameter(name), "{name}");
        }
        for name in ["", ":", "1", "~", "__node", "a..b", ".a", "a.", "}a", "a b", "a.*", "a.1"] {
            assert!(!is_parameter(name), "{name}");
        }
    }
}
