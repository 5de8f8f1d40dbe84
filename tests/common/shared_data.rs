//! Where the shared test data lies.

use std::path::PathBuf;

/// The folder of shared test data, when there is one.
pub fn shared_data() -> Option<PathBuf> {
    let default = || concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").into();
    let folder = std::env::var_os("DET_POST_SHARED_DATA").map_or_else(default, PathBuf::from);
    folder.is_dir().then_some(folder)
}
