//! The ROS parameters of a node that stands for another.

use super::{Like, translate};
use crate::config::Config;
use crate::config::problems::{Problems, nearest};
use crate::config::ros_parameters::{DeclaredParameter, node_of, value_of};
use det_post_ros::yaml::Node;
use det_post_ros::{NodeName, Parameter, ParameterDescriptor, ParameterType};
use det_post_types::Result;

impl Like {
    /// The parameters of their node that are given, then ours that do not follow from
    /// them, without the name of the channel.
    pub(in crate::config) fn parameters(
        &self,
        ours: impl IntoIterator<Item = DeclaredParameter>,
    ) -> Vec<DeclaredParameter> {
        let theirs = self.given.iter().filter_map(|(name, node)| self.theirs(name, node));
        let mut declared: Vec<_> = theirs.collect();
        for mut parameter in ours {
            let name = &parameter.descriptor.name;
            let own = match name.split_once('.') {
                Some((channel, rest)) if channel == self.package.channel() => rest.to_owned(),
                _ => name.clone(),
            };
            let is_taken = self.derived.contains(name)
                || name == "device"
                || own.starts_with("head.")
                || declared.iter().any(|other| other.descriptor.name == own);
            if !is_taken {
                parameter.descriptor.name = own;
                declared.push(parameter);
            }
        }
        declared
    }

    /// The name of a parameter of ours of the channel, without the channel: that of theirs
    /// that it follows from, if there is one.
    pub(in crate::config) fn name_of(&self, ours: &str) -> String {
        let full = format!("{}.{ours}", self.package.channel());
        let value = format!("{full}: ");
        let sets = |parameter: &&super::TranslatedParameter| {
            parameter.became.iter().any(|set| set.starts_with(&value))
        };
        let theirs = self.parameters.iter().find(sets).filter(|_| self.derived.contains(&full));
        theirs.map_or_else(|| ours.to_owned(), |parameter| parameter.key.clone())
    }

    /// A parameter of their node.
    fn theirs(&self, name: &str, node: &Node) -> Option<DeclaredParameter> {
        let key = self.package.keys().iter().find(|key| key.has_name(name))?;
        let value = value_of(node);
        let becomes = match key.becomes {
            "" => String::new(),
            ours => format!(" Here: {ours}."),
        };
        let note = if key.note.is_empty() { String::new() } else { format!(" {}.", key.note) };
        let descriptor = ParameterDescriptor {
            name: name.to_owned(),
            parameter_type: value.parameter_type(),
            description: format!("Of {}.{becomes}{note}", self.package.name()),
            additional_constraints: String::new(),
            is_read_only: !key.is_live,
            is_dynamically_typed: key.is_live
                && matches!(value.parameter_type(), ParameterType::Number | ParameterType::Numbers),
            range: None,
        };
        Some(DeclaredParameter { descriptor, value })
    }

    /// The configuration with some parameters set to other values.
    ///
    /// # Errors
    /// `Config`, naming every parameter that is unknown, fixed, or does not take its value.
    pub(in crate::config) fn with_parameters(
        &self,
        node_name: &NodeName,
        declared: &[DeclaredParameter],
        changes: &[Parameter],
    ) -> Result<Config> {
        let mut problems = Problems::default();
        let mut set = Vec::new();
        for Parameter { name, value } in changes {
            let found = declared.iter().find(|known| known.descriptor.name == *name);
            let node = match found {
                None => {
                    let names = declared.iter().map(|known| &*known.descriptor.name);
                    let hint = nearest(name, names).map(|name| format!("; did you mean `{name}`?"));
                    Err(format!("is not a parameter of this node{}", hint.unwrap_or_default()))
                }
                Some(known) if known.descriptor.is_read_only && known.holds(value) => continue,
                Some(known) if known.descriptor.is_read_only => {
                    Err("is read-only: fixed when the node starts".to_owned())
                }
                Some(_) => node_of(value),
            };
            match node {
                Ok(node) => set.push((name.clone(), node)),
                Err(message) => problems.push(name, &message),
            }
        }
        let (package, arguments) = (self.package, &self.arguments);
        let given = self.entries(set);
        let (entries, like) = translate(package, node_name, given, arguments, &mut problems);
        problems.forget_warnings();
        Config::from_translated(node_name, entries, like, problems)
    }

    /// Keeps the values of our parameters that a device is given by.
    pub(in crate::config) fn set_device(&mut self, device: &str) {
        self.given.insert("device".to_owned(), Node::Text(device.to_owned()));
    }
}
