//! `det_post check`: the effective configuration.

use super::{ConfigArguments, Outcome};
use crate::config::Config;
use crate::error::Result;

/// Prints the configuration that the files and overrides make, as a ROS 2
/// parameter file that gives the same again.
#[expect(clippy::print_stdout, reason = "the result of the command")]
pub(super) fn check(arguments: &ConfigArguments) -> Result<Outcome> {
    let config = Config::load(&arguments.files, &arguments.overrides)?;
    print!("{}", config.to_yaml());
    Ok(Outcome::Done)
}
