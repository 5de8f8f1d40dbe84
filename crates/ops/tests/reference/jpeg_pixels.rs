//! The pixels of JPEG files against libjpeg-turbo, by OpenCV: equal.

use std::fs;
use std::process::Command;

use det_post_ops::image::decompress::{DecodedImage, decompress};
use det_post_types::{CompressedFormat, CompressedView};

use det_post_testing::require::{Need, skip};

#[test]
fn jpeg_pixels_are_those_of_libjpeg_turbo() {
    let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
        return skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
    };
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(python)
        .current_dir(det_post_testing::workspace())
        .arg("tests/peers/jpeg_pixels.py")
        .arg(folder.path())
        .status();
    assert!(status.unwrap().success());
    let mut decoded = DecodedImage::new();
    let mut num_files = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jpg") {
            continue;
        }
        let (file, expected) =
            (fs::read(&path).unwrap(), fs::read(path.with_extension("raw")).unwrap());
        let input = CompressedView::new(CompressedFormat::Jpeg, &file);
        decompress(&input, &mut decoded).unwrap();
        let found = decoded.view().unwrap();
        assert_eq!(found.data().len(), expected.len(), "{}", path.display());
        let num_different = found.data().iter().zip(&expected).filter(|(a, b)| a != b).count();
        assert_eq!(num_different, 0, "{}: of {} bytes", path.display(), expected.len());
        num_files += 1;
    }
    // Six samplings, four sizes, progressive or not, with restarts or not.
    assert_eq!(num_files, 6 * 4 * 2 * 2);
}
