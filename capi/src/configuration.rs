//! From where a detector is configured.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::call::{Call, In, Text};
use super::status::Failure;
use det_post::config::{ChannelConfig, Config, NODE_NAME, Package, Source};
use det_post::detectors;
use det_post::runtime::{Factory, isolated};
use det_post::{Error, ErrorKind};
use det_post_ros::NodeName;

/// The parameters of a detector, as of one channel of a node. Of two values for a key the
/// later holds: `text`, `files`, `overrides`. Set what is not used to 0.
#[repr(C)]
pub struct Configuration {
    /// The text of a parameter file, or `NULL`.
    pub text: Text,
    /// Paths of parameter files.
    pub files: In<Text>,
    /// Number of `files`.
    pub num_files: usize,
    /// Assignments `key:=value`, such as `camera.score_threshold:=0.3`.
    pub overrides: In<Text>,
    /// Number of `overrides`.
    pub num_overrides: usize,
    /// Assignments `name:=value` for `$(var name)` in files.
    pub arguments: In<Text>,
    /// Number of `arguments`.
    pub num_arguments: usize,
    /// The package whose parameters are given, such as `lidar_centerpoint`; `NULL`: this one.
    pub like: Text,
    /// Namespace of the node, whose sections of the files apply; `NULL`: none.
    pub node_namespace: Text,
    /// Name of the node; `NULL`: `det_post`.
    pub node_name: Text,
    /// Name of the channel; may be `NULL` if there is one.
    pub channel: Text,
    /// Path of the program `det_post`, in whose process a channel with `isolate: true` runs;
    /// `NULL` if there is no such channel.
    pub program: Text,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

impl Configuration {
    /// The checked configuration, and the position of the channel.
    pub(super) fn read(&self, call: &Call) -> Result<(Config, usize), Failure> {
        let config = self.read_node(call)?;
        let name = call.text_or_null(self.channel, "configuration.channel")?;
        let channel = position(&config.channels, name)?;
        Ok((config, channel))
    }

    /// The checked configuration of all channels.
    pub(super) fn read_node(&self, call: &Call) -> Result<Config, Failure> {
        if self.reserved != [0; 4] {
            return Err(Failure::argument("configuration.reserved is not 0"));
        }
        let texts = |texts: In<Text>, num: usize, name: &str| {
            let texts = call.slice(texts, num, name)?.iter();
            texts
                .map(|&text| call.text(text, name).map(str::to_owned))
                .collect::<Result<Vec<_>, _>>()
        };
        let files = texts(self.files, self.num_files, "configuration.files")?;
        let like = call.text_or_null(self.like, "configuration.like")?;
        let source = Source {
            text: call.text_or_null(self.text, "configuration.text")?.map(str::to_owned),
            files: files.into_iter().map(PathBuf::from).collect(),
            overrides: texts(self.overrides, self.num_overrides, "configuration.overrides")?,
            arguments: texts(self.arguments, self.num_arguments, "configuration.arguments")?,
            like: like.map(package).transpose()?,
            ..Source::default()
        };
        let namespace = call.text_or_null(self.node_namespace, "configuration.node_namespace")?;
        let name = call.text_or_null(self.node_name, "configuration.node_name")?;
        let node = NodeName::new(namespace.unwrap_or_default(), name.unwrap_or(NODE_NAME))?;
        Ok(Config::read(&node, &source)?)
    }

    /// The function that builds the detector.
    pub(super) fn factory(&self, call: &Call) -> Result<Factory, Failure> {
        let program = call.text_or_null(self.program, "configuration.program")?;
        let program = program.map(|program| Path::new(program).to_owned());
        Ok(Arc::new(move |config, device| match (config.is_isolated, &program) {
            (false, _) => detectors::open(config, device),
            (true, Some(program)) => Ok(Box::new(isolated::Proxy::start(program, config, device)?)),
            (true, None) => {
                let message = format!(
                    "{}.isolate: a channel in a separate process needs `program`, the path of \
                     det_post",
                    config.name
                );
                Err(Error::new(ErrorKind::Config, "capi", message))
            }
        }))
    }
}

/// The package of a name.
fn package(name: &str) -> Result<Package, Failure> {
    name.parse().map_err(|error| Failure::config(format!("configuration.like: {name:?}: {error}")))
}

/// The channel of a name; without a name, the only one.
fn position(channels: &[ChannelConfig], name: Option<&str>) -> Result<usize, Failure> {
    let found = match name {
        Some(name) => channels.iter().position(|channel| channel.name == name),
        None => (channels.len() == 1).then_some(0),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
        let names = names.join(", ");
        Failure::config(match name {
            Some(name) => format!("no channel is named {name:?}; there are {names}"),
            None => format!("configuration.channel is missing; set one of {names}"),
        })
    })
}
