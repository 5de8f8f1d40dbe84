//! Where the shared test data is.

/// The folder of the shared test data, or `None` when it is not there.
pub fn shared_data() -> Option<std::path::PathBuf> {
    let path = std::env::var_os("DET_POST_SHARED_DATA").map_or_else(
        || std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data")),
        std::path::PathBuf::from,
    );
    path.is_dir().then_some(path)
}
