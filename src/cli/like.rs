//! `--like` and `--arg`: parameter files of other packages.

use std::path::{Path, PathBuf};

use super::ros_args::RosArguments;
use crate::config::{Config, NODE_NAME, Package, Source};
use det_post_ros::NodeName;
use det_post_types::Result;

fn like_help() -> String {
    let names = Package::all_names().join(", ");
    format!("Reads the parameter files of this package, in the order of its launch file: {names}")
}

/// The package whose node is replaced, and the arguments of its launch file.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct LikeArguments {
    // Its help names every package.
    #[arg(long, value_name = "PACKAGE", help = like_help())]
    pub(super) like: Option<Package>,
    /// A launch argument, for `$(var NAME)` in parameter files.
    #[arg(long = "arg", value_name = "NAME:=VALUE")]
    pub(super) arguments: Vec<String>,
}

impl LikeArguments {
    /// What a configuration is read from.
    pub(super) fn source(
        &self,
        files: &[PathBuf],
        overrides: &[String],
        ros: &RosArguments,
    ) -> Source {
        Source {
            ros: ros.sources.clone(),
            files: files.to_vec(),
            overrides: overrides.to_vec(),
            arguments: self.arguments.clone(),
            like: self.like,
            ..Source::default()
        }
    }

    /// The name of the node, unless it is started under another: the name of the node that is
    /// replaced.
    pub(super) fn node(&self) -> Result<NodeName> {
        let (namespace, name) = self.like.map_or(("", NODE_NAME), Package::node);
        NodeName::new(namespace, name)
    }

    /// The configuration of files and overrides for a node that `--ros-args` may rename, as `run` reads
    /// it. Topics keep their names.
    pub(super) fn load(
        &self,
        files: &[PathBuf],
        overrides: &[String],
        ros: &RosArguments,
    ) -> Result<Config> {
        self.load_source(&self.source(files, overrides, ros), ros)
    }

    /// As [`Self::load`], of a source.
    pub(super) fn load_source(&self, source: &Source, ros: &RosArguments) -> Result<Config> {
        let default = self.node()?;
        let node = ros.remaps.node(&default)?;
        for sentence in ros.without_effect(&default, &node, true) {
            tracing::warn!("--ros-args: {sentence}");
        }
        Config::read(&node, source)
    }

    /// The package that the name stands for by which the program was started, unless one is
    /// given.
    pub(super) fn or_by_program(&self) -> Self {
        let by_program = || {
            let program = std::env::args_os().next()?;
            Package::of_executable(Path::new(&program).file_name()?.to_str()?)
        };
        Self { like: self.like.or_else(by_program), ..self.clone() }
    }
}
