//! The folder of the shared recordings, models and references.

use std::path::PathBuf;

use super::require::{Need, skip};

/// The folder of the shared data: `DET_POST_SHARED_DATA`, else beside the
/// checkout. `None` when there is none, which skips the calling test.
#[track_caller]
pub fn shared_data() -> Option<PathBuf> {
    let root = std::env::var_os("DET_POST_SHARED_DATA").map_or_else(
        || concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").into(),
        PathBuf::from,
    );
    if root.is_dir() {
        return Some(root);
    }
    skip(Need::Data, format_args!("{} is no folder", root.display()));
    None
}
