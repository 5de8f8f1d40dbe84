//! `det_post check`: the effective configuration.

use super::{ConfigArguments, ExitStatus, stdout};
use crate::config::Config;
use crate::error::Result;

/// Prints the configuration that the files and overrides make, as a ROS 2
/// parameter file that gives the same again.
pub(super) fn check(arguments: &ConfigArguments) -> Result<ExitStatus> {
    let config = Config::load(&arguments.files, &arguments.overrides)?;
    stdout::print(&config.to_yaml())?;
    Ok(ExitStatus::Done)
}
