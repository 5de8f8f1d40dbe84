//! Where the shared recordings, models and references lie.

use std::path::PathBuf;

/// The folder of the shared data: `DET_POST_SHARED_DATA`, else beside the
/// checkout. `None`, said on stdout, when there is none.
pub fn shared_data() -> Option<PathBuf> {
    let root = std::env::var_os("DET_POST_SHARED_DATA").map_or_else(
        || concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").into(),
        PathBuf::from,
    );
    if root.is_dir() {
        return Some(root);
    }
    println!("skipped: no shared data");
    None
}
