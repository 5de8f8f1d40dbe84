//! Files of recordings that are compressed as a whole (`ros2 bag record --compression-mode file`, which
//! uses zstd, or a tool for any file). They are not read; `zstd -d` leaves the unpacked file beside
//! each, which is.

use std::path::{Path, PathBuf};

use det_post_types::{Error, ErrorKind};

/// A compression of whole files.
pub(super) struct Packing {
    name: &'static str,
    /// The first bytes of a file.
    magic: &'static [u8],
    extensions: &'static [&'static str],
    /// Unpacks to a file beside the packed one, which stays.
    command: &'static str,
}

const PACKINGS: [Packing; 5] = [
    Packing {
        name: "zstd",
        magic: &[0x28, 0xb5, 0x2f, 0xfd],
        extensions: &["zstd", "zst"],
        command: "zstd -d",
    },
    Packing { name: "lz4", magic: &[4, 0x22, 0x4d, 0x18], extensions: &["lz4"], command: "lz4 -d" },
    Packing { name: "gzip", magic: &[0x1f, 0x8b], extensions: &["gz"], command: "gzip -dk" },
    Packing { name: "bzip2", magic: b"BZh", extensions: &["bz2"], command: "bzip2 -dk" },
    Packing { name: "xz", magic: b"\xfd7zXZ\0", extensions: &["xz"], command: "xz -dk" },
];

/// The compression of a file that begins so.
pub(super) fn packing(start: &[u8]) -> Option<&'static Packing> {
    PACKINGS.iter().find(|packing| start.starts_with(packing.magic))
}

/// The name of the unpacked file, if `name` is that of a compressed one.
pub(super) fn unpacked(name: &Path) -> Option<PathBuf> {
    let extension = name.extension()?.to_str()?;
    let is_packed = PACKINGS.iter().any(|packing| packing.extensions.contains(&extension));
    is_packed.then(|| name.with_extension(""))
}

/// The file to read in place of `name` in a directory: the unpacked one where it is there.
pub(super) fn readable(directory: &Path, name: &Path) -> PathBuf {
    let found = unpacked(name).filter(|unpacked| directory.join(unpacked).is_file());
    if let Some(unpacked) = &found
        && !directory.join(name).exists()
    {
        tracing::warn!(
            "{} is not there; {}, the unpacked file beside it, is read",
            directory.join(name).display(),
            unpacked.display()
        );
    }
    found.unwrap_or_else(|| name.to_owned())
}

/// The error of a file that is compressed as a whole, with the command that unpacks it.
pub(super) fn compressed_file(path: &Path, packing: &Packing) -> Error {
    let shown = path.display();
    let Packing { name, command, .. } = packing;
    let advice = match unpacked(path) {
        Some(unpacked) if unpacked.is_file() => {
            format!("read {}, which is the unpacked file beside it", unpacked.display())
        }
        Some(_) => format!("unpack it with `{command} {shown}`"),
        None => format!("unpack it with `{command} -c {shown} > NAME` and read NAME"),
    };
    let message = format!("the file {shown} is compressed as a whole by {name}; {advice}");
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
            ("a_0.mcap.lz4", "a_0.mcap"),
            ("a_0.mcap.gz", "a_0.mcap"),
            ("a_0.mcap.part", "a_0.mcap.part"),
        ];
        for (name, expected) in cases {
            assert_eq!(readable(root, Path::new(name)), Path::new(expected), "{name}");
        }
        let zstd = packing(&[0x28, 0xb5, 0x2f, 0xfd, 0, 1]).unwrap();
        let text = |name: &str| compressed_file(&root.join(name), zstd).to_string();
        assert!(text("a_0.mcap.zstd").contains("a_0.mcap, which is"), "{}", text("a_0.mcap.zstd"));
        assert!(text("a_1.mcap.zst").contains("`zstd -d "), "{}", text("a_1.mcap.zst"));
        for (start, name) in
            [(&b"\x1f\x8b\x08"[..], "gzip"), (b"BZh9", "bzip2"), (b"\xfd7zXZ\0\0", "xz")]
        {
            let error = compressed_file(Path::new("a_2.mcap.gz"), packing(start).unwrap());
            assert!(
                error.message().contains(&format!("by {name}; unpack it with `{name} -dk")),
                "{error}"
            );
        }
        assert!(packing(b"BM").is_none());
        assert!(text("a_0.mcap").contains(" > NAME"), "{}", text("a_0.mcap"));
    }
}
