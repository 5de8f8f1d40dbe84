//! What a configuration is read from.

use std::path::PathBuf;

use super::files::RosSource;
use super::like::Package;

/// What a configuration is read from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// The text of a parameter file, over which the files hold.
    pub text: Option<String>,
    /// Parameter files; of two values the later holds.
    pub files: Vec<PathBuf>,
    /// What `--ros-args` gives, in the order of the command line, behind the files.
    pub ros: Vec<RosSource>,
    /// Assignments `KEY:=VALUE`, which hold over files and over what `--ros-args` gives.
    pub overrides: Vec<String>,
    /// Launch arguments `NAME:=VALUE`, for `$(var NAME)` in files.
    pub arguments: Vec<String>,
    /// The package whose parameters are given.
    pub like: Option<Package>,
    /// Whether files whose sections are all of other nodes are refused, not warned of.
    pub needs_section: bool,
}
