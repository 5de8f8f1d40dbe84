//! `det_post migrate`: parameters of Autoware's nodes become ours.

use std::path::PathBuf;

use super::ros_args::RosArguments;
use super::{ExitStatus, LikeArguments, stdout};
use crate::config::{Config, Source};
use det_post_types::{Error, ErrorKind, Result};

/// What to translate.
#[derive(Debug, clap::Args)]
pub(super) struct MigrateArguments {
    /// Their parameter files, in the order of their launch file; `--ros-args --params-file` takes them as
    /// well.
    #[arg(value_name = "YAML")]
    files: Vec<PathBuf>,
    /// A parameter that their launch file gives: -p model_path:=/models/yolox.onnx
    #[arg(short = 'p', long = "param", value_name = "KEY:=VALUE")]
    overrides: Vec<String>,
    #[command(flatten)]
    like: LikeArguments,
    /// text: YAML on stdout and a table on stderr; json: both as one object on stdout.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// YAML on stdout, the table on stderr.
    Text,
    /// Both as one JSON object on stdout.
    Json,
}

/// Prints our parameters, and what became of theirs.
pub(super) fn migrate(arguments: &MigrateArguments, ros: &RosArguments) -> Result<ExitStatus> {
    let MigrateArguments { files, overrides, like, format } = arguments;
    if files.is_empty() && ros.sources.is_empty() {
        let message = "a parameter file is missing: `det_post migrate YAML`, or `--ros-args --params-file YAML`";
        return Err(Error::new(ErrorKind::Usage, "arguments", message));
    }
    let mut like = like.clone();
    if like.like.is_none() {
        let source = like.source(files, overrides, ros);
        like.like = Config::recognize(&source, |default| ros.remaps.node(default))?;
    }
    if like.like.is_none() {
        let message = "these are parameter files of no package that is known; name it by --like";
        return Err(Error::new(ErrorKind::Config, "migrate", message));
    }
    // Parameters of no section would be a file of defaults.
    let source = Source { needs_section: true, ..like.source(files, overrides, ros) };
    let config = like.load_source(&source, ros)?;
    let (Some(yaml), Some(json), Some(like)) =
        (config.migrated_yaml(), config.migration_json(), &config.like)
    else {
        return Ok(ExitStatus::Done);
    };
    match format {
        Format::Text => {
            eprint!("{}", like.table());
            stdout::print(&yaml)?
        }
        Format::Json => stdout::print(&format!("{json:#}\n"))?,
    };
    Ok(ExitStatus::Done)
}
