//! Where the shared test data lies, if it is there.

/// The folder of shared test data; `None`, with a line that says so, when it
/// is absent.
pub fn shared_data() -> Option<std::path::PathBuf> {
    let path = std::env::var_os("DET_POST_SHARED_DATA")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").into(), Into::into);
    let path: std::path::PathBuf = path;
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: no shared data");
    None
}
