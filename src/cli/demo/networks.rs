//! The networks of the demo: parameters of their channels, paths of their files.

use std::path::{Path, PathBuf};

use det_post_types::{Error, ErrorKind, Result};

/// One set of networks.
pub(super) struct Networks {
    /// The parameter file of the channels.
    pub(super) parameters: &'static str,
    /// The files, by the parameters of their paths.
    files: &'static [(&'static str, &'static str)],
}

/// A camera and the pillar CenterPoint.
pub(super) const PILLARS: Networks = Networks {
    parameters: include_str!("../../../config/demo.param.yaml"),
    files: &[
        ("camera.model_path", "camera.onnx"),
        ("lidar.encoder_path", "lidar_encoder.onnx"),
        ("lidar.model_path", "lidar_head.onnx"),
    ],
};

/// A camera and the voxel CenterPoint.
pub(super) const VOXELS: Networks = Networks {
    parameters: include_str!("../../../config/demo_voxel.param.yaml"),
    files: &[
        ("camera.model_path", "camera.onnx"),
        ("lidar.encoder_path", "voxel_encoder.scn.onnx"),
        ("lidar.model_path", "voxel_dense.onnx"),
    ],
};

/// A camera whose network gives masks, and the pillar CenterPoint.
pub(super) const MASKS: Networks = Networks {
    parameters: include_str!("../../../config/demo_masks.param.yaml"),
    files: &[
        ("camera.model_path", "camera_seg.onnx"),
        ("lidar.encoder_path", "lidar_encoder.onnx"),
        ("lidar.model_path", "lidar_head.onnx"),
    ],
};

/// Six cameras and the surround network.
pub(super) const SURROUND: Networks = Networks {
    parameters: include_str!("../../../config/demo_surround_3d.param.yaml"),
    files: &[
        ("surround.model_path", "surround_backbone.onnx"),
        ("surround.weights_path", "surround_decoder.safetensors"),
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
            let files: Vec<&str> = self.files.iter().map(|(_, file)| *file).collect();
            let files = files.join(", ");
            let message = format!("the demo needs {files}; looked into {}", looked.join(", "));
            Error::new(ErrorKind::Model, "demo", message)
        })?;
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        // As a quoted YAML text: a path may contain any character.
        let quoted = |file: &str| format!("{:?}", folder.join(file).display().to_string());
        Ok(self.files.iter().map(|(key, file)| format!("{key}:={}", quoted(file))).collect())
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
        for (networks, first, last) in [
            (PILLARS, "camera.model_path", "lidar_head.onnx"),
            (VOXELS, "camera.model_path", "voxel_dense.onnx"),
            (MASKS, "camera.model_path", "lidar_head.onnx"),
            (SURROUND, "surround.model_path", "surround_decoder.safetensors"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let error = networks.overrides(Some(folder.path())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Model);
            assert!(error.message().contains(last), "{error}");
            for (_, file) in networks.files {
                std::fs::write(folder.path().join(file), "").unwrap();
            }
            let found = networks.overrides(Some(folder.path())).unwrap();
            assert!(found[0].starts_with(&format!("{first}:=\"/")), "{found:?}");
            assert!(found[found.len() - 1].ends_with(&format!("{last}\"")), "{found:?}");
        }
    }
}
