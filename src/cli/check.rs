//! `det_post check`: the effective configuration.

use super::{ConfigArguments, ExitStatus, stdout};
use crate::config::Config;
use crate::error::Result;

/// Prints the effective configuration of the files and overrides as a ROS 2 parameter file
/// that gives the same configuration.
pub(super) fn check(arguments: &ConfigArguments) -> Result<ExitStatus> {
    let config = Config::load(&arguments.files, &arguments.overrides)?;
    stdout::print(&config.to_yaml())?;
    Ok(ExitStatus::Done)
}
