//! Files of recordings that are compressed as a whole (`ros2 bag record --compression-mode file`).
//! They are not read; `zstd -d` leaves the unpacked file beside each, which is.

use std::path::{Path, PathBuf};

use det_post_types::{Error, ErrorKind};

/// The first bytes of a zstd frame.
pub(super) const ZSTD_MAGIC: &[u8; 4] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The name of the unpacked file, if `name` is that of a compressed one.
pub(super) fn unpacked(name: &Path) -> Option<PathBuf> {
    let extension = name.extension()?;
    (extension == "zstd" || extension == "zst").then(|| name.with_extension(""))
}

/// The file to read in place of `name` in a directory: the unpacked one where it is there.
pub(super) fn readable(directory: &Path, name: PathBuf) -> PathBuf {
    let found = unpacked(&name).filter(|unpacked| directory.join(unpacked).is_file());
    found.unwrap_or(name)
}

/// The error of a file that is compressed as a whole, with the command that unpacks it.
pub(super) fn compressed_file(path: &Path) -> Error {
    let shown = path.display();
    let advice = match unpacked(path) {
        Some(unpacked) if unpacked.is_file() => {
            format!("read {}, which is the unpacked file beside it", unpacked.display())
        }
        Some(_) => format!("unpack it with `zstd -d {shown}`"),
        None => format!("unpack it with `zstd -d {shown} -o NAME` and read NAME"),
    };
    let message = format!("the file {shown} is compressed as a whole by zstd; {advice}");
    Error::new(ErrorKind::Encoding, "bag", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unpacked_file_is_beside_the_compressed_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["a_0.mcap.zstd", "a_0.mcap", "a_1.mcap.zst"] {
            std::fs::write(root.join(name), b"x").unwrap();
        }
        let cases = [
            ("a_0.mcap.zstd", "a_0.mcap"),
            ("a_1.mcap.zst", "a_1.mcap.zst"),
            ("a_0.mcap", "a_0.mcap"),
        ];
        for (name, expected) in cases {
            assert_eq!(readable(root, name.into()), Path::new(expected), "{name}");
        }
        let text = |name: &str| compressed_file(&root.join(name)).to_string();
        assert!(text("a_0.mcap.zstd").contains("a_0.mcap, which is"), "{}", text("a_0.mcap.zstd"));
        assert!(text("a_1.mcap.zst").contains("`zstd -d "), "{}", text("a_1.mcap.zst"));
        assert!(text("a_0.mcap").contains(" -o NAME"), "{}", text("a_0.mcap"));
    }
}
