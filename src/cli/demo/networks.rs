//! The paths of the demo's networks.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// The files, by the parameters of their paths.
const FILES: [(&str, &str); 3] = [
    ("camera.model_path", "camera.onnx"),
    ("lidar.encoder_path", "lidar_encoder.onnx"),
    ("lidar.model_path", "lidar_head.onnx"),
];

/// Overrides with the paths of all networks: in the given folder, else installed beside the
/// program (`PREFIX/share/det_post/models`), else in the sources of the program.
///
/// # Errors
/// `Model` naming the folders that were searched.
pub(super) fn overrides(given: Option<&Path>) -> Result<Vec<String>> {
    let folders = given.map_or_else(usual_folders, |folder| vec![folder.to_owned()]);
    let is_complete = |folder: &&PathBuf| FILES.iter().all(|(_, file)| folder.join(file).is_file());
    let folder = folders.iter().find(is_complete).ok_or_else(|| {
        let looked: Vec<String> = folders.iter().map(|path| path.display().to_string()).collect();
        let files = FILES.map(|(_, file)| file).join(", ");
        let message = format!("the demo needs {files}; looked into {}", looked.join(", "));
        Error::new(ErrorKind::Model, "demo", message)
    })?;
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    // As a quoted YAML text: a path may contain any character.
    let quoted = |file: &str| format!("{:?}", folder.join(file).display().to_string());
    Ok(FILES.map(|(key, file)| format!("{key}:={}", quoted(file))).into())
}

fn usual_folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let prefixes = program.ancestors().skip(2).take(2);
    let installed = prefixes.map(|prefix| prefix.join("share/det_post/models"));
    installed.chain([Path::new(env!("CARGO_MANIFEST_DIR")).join("models")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let error = overrides(Some(folder.path())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model);
        assert!(error.message().contains("lidar_encoder.onnx"), "{error}");
        for (_, file) in FILES {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        let found = overrides(Some(folder.path())).unwrap();
        assert!(found[0].starts_with("camera.model_path:=\"/"), "{found:?}");
        assert!(found[2].ends_with("lidar_head.onnx\""), "{found:?}");
    }
}
