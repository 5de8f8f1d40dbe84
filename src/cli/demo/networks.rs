//! The networks of the demo: parameters of their channels, paths of their files.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// One set of networks.
pub(super) struct Networks {
    /// The parameter file of the channels.
    pub(super) parameters: &'static str,
    /// The files, by the parameters of their paths.
    files: [(&'static str, &'static str); 3],
}

/// A camera and the pillar CenterPoint.
pub(super) const PILLARS: Networks = Networks {
    parameters: include_str!("../../../config/demo.param.yaml"),
    files: [
        ("camera.model_path", "camera.onnx"),
        ("lidar.encoder_path", "lidar_encoder.onnx"),
        ("lidar.model_path", "lidar_head.onnx"),
    ],
};

/// A camera and the voxel CenterPoint.
pub(super) const VOXELS: Networks = Networks {
    parameters: include_str!("../../../config/demo_voxel.param.yaml"),
    files: [
        ("camera.model_path", "camera.onnx"),
        ("lidar.encoder_path", "voxel_encoder.scn.onnx"),
        ("lidar.model_path", "voxel_dense.onnx"),
    ],
};

impl Networks {
    /// Overrides with the paths of all files: in the given folder, else installed beside the
    /// program (`PREFIX/share/det_post/models`), else in the sources of the program.
    ///
    /// # Errors
    /// `Model` naming the folders that were searched.
    pub(super) fn overrides(&self, given: Option<&Path>) -> Result<Vec<String>> {
        let folders = given.map_or_else(usual_folders, |folder| vec![folder.to_owned()]);
        let is_complete =
            |folder: &&PathBuf| self.files.iter().all(|(_, file)| folder.join(file).is_file());
        let folder = folders.iter().find(is_complete).ok_or_else(|| {
            let looked: Vec<String> =
                folders.iter().map(|path| path.display().to_string()).collect();
            let files = self.files.map(|(_, file)| file).join(", ");
            let message = format!("the demo needs {files}; looked into {}", looked.join(", "));
            Error::new(ErrorKind::Model, "demo", message)
        })?;
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        // As a quoted YAML text: a path may contain any character.
        let quoted = |file: &str| format!("{:?}", folder.join(file).display().to_string());
        Ok(self.files.map(|(key, file)| format!("{key}:={}", quoted(file))).into())
    }
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
        for (networks, last) in [(PILLARS, "lidar_head.onnx"), (VOXELS, "voxel_dense.onnx")] {
            let folder = tempfile::tempdir().unwrap();
            let error = networks.overrides(Some(folder.path())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Model);
            assert!(error.message().contains(last), "{error}");
            for (_, file) in networks.files {
                std::fs::write(folder.path().join(file), "").unwrap();
            }
            let found = networks.overrides(Some(folder.path())).unwrap();
            assert!(found[0].starts_with("camera.model_path:=\"/"), "{found:?}");
            assert!(found[2].ends_with(&format!("{last}\"")), "{found:?}");
        }
    }
}
