//! Lists of drives: one JSON object a line.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use det_post_types::{Error, ErrorKind, Result, input_file};

/// The longest list that is read: more than a hundred thousand drives.
const MAX_BYTES: u64 = 64 << 20;

/// The two sides of a drive. Other fields of a line are ignored.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Drive {
    /// `detections.jsonl`, a folder that holds it, or a recording of detections.
    pub detections: PathBuf,
    /// A recording with truth.
    pub truth: PathBuf,
    /// Where the drive is listed, `line 3 of drives.jsonl`; empty for one that no list names.
    #[serde(skip)]
    pub listed: String,
}

/// Reads a list of drives. Relative paths start at the folder of the list; empty lines are
/// ignored.
///
/// # Errors
/// `Io` when the file cannot be read, `Usage` naming the line that is no drive, or when there
/// is none.
pub fn read_drives(path: &Path) -> Result<Vec<Drive>> {
    let shown = path.display();
    let cannot_read =
        |e| Error::new(ErrorKind::Io, "eval", format!("cannot read {shown}")).with_source(e);
    let mut text = String::new();
    let file = input_file::open(path).map_err(cannot_read)?;
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(cannot_read)?;
    let wrong = |message| Error::new(ErrorKind::Usage, "eval", message);
    if text.len() as u64 > MAX_BYTES {
        return Err(wrong(format!("{shown} has more than {MAX_BYTES} bytes")));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut drives = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let listed = format!("line {} of {shown}", index + 1);
        let Drive { detections, truth, .. } = serde_json::from_str(line)
            .map_err(|e| wrong(format!("{listed} names no drive")).with_source(e))?;
        let (detections, truth) = (folder.join(detections), folder.join(truth));
        drives.push(Drive { detections, truth, listed });
    }
    if drives.is_empty() {
        return Err(wrong(format!("{shown} names no drive")));
    }
    Ok(drives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_named_line_by_line_beside_their_list() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("drives.jsonl");
        let read = |text: &str| {
            std::fs::write(&list, text).unwrap();
            read_drives(&list)
        };
        let drives = read(
            "\u{feff}{\"detections\": \"out/a\", \"truth\": \"/data/a\", \"unit\": 3}\n\n\
             {\"truth\": \"b\", \"detections\": \"b.jsonl\"}",
        );
        let drive = |detections: &str, truth: &str, line| Drive {
            detections: folder.path().join(detections),
            truth: folder.path().join(truth),
            listed: format!("line {line} of {}", list.display()),
        };
        assert_eq!(drives.unwrap(), [drive("out/a", "/data/a", 1), drive("b.jsonl", "b", 3)]);
        for (text, part) in [
            ("", "names no drive"),
            ("{\"detections\": \"a\", \"truth\": \"b\"}\n{\"truth\": \"b\"}", "line 2 of"),
            ("a b", "line 1 of"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(read_drives(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::Io);
    }
}
