//! The metadata of a file, read past everything else: a network of a gigabyte costs a few reads.

use std::io::{BufReader, Error, ErrorKind, Read, Result};
use std::path::Path;

use super::parse;
use super::wire::Message;
use det_post_types::input_file;

/// The most fields of a file that are passed.
const MAX_FIELDS: usize = 1 << 16;
/// The most entries, and the most bytes of one; further and longer ones are left out.
const MAX_ENTRIES: usize = 256;
const MAX_ENTRY_BYTES: u64 = 1 << 20;
/// Number and wire type of `ModelProto.metadata_props`.
const METADATA: u64 = 14 << 3 | 2;

/// Keys and values, in the order of the file. Entries that are not text are left out.
///
/// # Errors
/// When the file cannot be read, or is not of the wire format as far as it is read.
pub(crate) fn entries(path: &Path) -> Result<Vec<(String, String)>> {
    let mut reader = BufReader::new(input_file::open(path)?);
    let mut entries = Vec::new();
    for _ in 0..MAX_FIELDS {
        let Some(key) = varint(&mut reader)? else { break };
        let len = match key & 7 {
            0 => {
                varint(&mut reader)?;
                continue;
            }
            1 => 8,
            2 => varint(&mut reader)?.ok_or(ErrorKind::UnexpectedEof)?,
            5 => 4,
            _ => return Err(ErrorKind::InvalidData.into()),
        };
        if key == METADATA && len <= MAX_ENTRY_BYTES && entries.len() < MAX_ENTRIES {
            let mut bytes = vec![0; len as usize];
            reader.read_exact(&mut bytes)?;
            let entry = Message::new("StringStringEntryProto", &bytes, 0);
            if let Ok((key, value)) = parse::metadata(entry) {
                entries.push((key.to_owned(), value.to_owned()));
            }
            continue;
        }
        reader.seek_relative(i64::try_from(len).map_err(Error::other)?)?;
    }
    Ok(entries)
}

/// The next varint; `None` at the end of the file.
fn varint(reader: &mut impl Read) -> Result<Option<u64>> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        if reader.read(&mut byte)? == 0 {
            return Ok(None);
        }
        value |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            return Ok(Some(value));
        }
    }
    Err(ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Result<Vec<(String, String)>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        entries(file.path())
    }

    fn entry(key: &str, value: &str) -> Vec<u8> {
        let mut bytes = vec![0x72, (key.len() + value.len() + 4) as u8];
        for (number, text) in [(0x0a, key), (0x12, value)] {
            bytes.extend([number, text.len() as u8]);
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn entries_stand_before_and_behind_other_fields() {
        let graph = [&[0x3a, 0x80, 0x02][..], &[7; 256]].concat();
        let version = [0x08, 8];
        let file = [&version[..], &entry("task", "detect"), &graph, &entry("names", "{}")].concat();
        let expected = [("task", "detect"), ("names", "{}")];
        assert_eq!(of(&file).unwrap(), expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(of(&[]).unwrap(), []);
        // What is cut is no entry, and no panic.
        for end in 0..file.len() {
            assert!(of(&file[..end]).map_or(0, |found| found.len()) < 2, "{end}");
        }
        // Text that is not UTF-8 is left out.
        let mut broken = entry("task", "detect");
        *broken.last_mut().unwrap() = 0xff;
        assert_eq!(of(&broken).unwrap(), []);
        assert!(of(&[0x0b, 1]).is_err());
        assert!(of(&[0xff; 20]).is_err());
        assert!(of(&[0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).is_err());
    }
}
