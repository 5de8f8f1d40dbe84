//! The metadata of a file, its inputs and outputs, read past everything else: a network of a gigabyte costs a few reads.

use std::io::{BufReader, Error, ErrorKind, Read, Result, Seek as _};
use std::path::Path;

use super::wire::Message;
use super::{ValueInfo, parse};
use det_post_types::{Dim, TensorSpec, input_file};

/// The most fields of a file that are passed.
const MAX_FIELDS: usize = 1 << 16;
/// The most entries, and the most bytes of one; further and longer ones are left out.
const MAX_ENTRIES: usize = 256;
const MAX_ENTRY_BYTES: u64 = 1 << 20;
/// The most inputs, and outputs, of the graph that are read, and the most bytes of one.
const MAX_TENSORS: usize = 64;
const MAX_TENSOR_BYTES: u64 = 1 << 16;
/// Number and wire type of `ModelProto.metadata_props`.
const METADATA: u64 = 14 << 3 | 2;
/// Number and wire type of `ModelProto.graph`.
const GRAPH: u64 = 7 << 3 | 2;
/// Number and wire type of `GraphProto.input` and `GraphProto.output`.
const INPUT: u64 = 11 << 3 | 2;
const OUTPUT: u64 = 12 << 3 | 2;

/// What is read of a file.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Entries {
    /// Keys and values, in the order of the file. Entries that are not text are left out.
    pub(crate) texts: Vec<(String, String)>,
    /// The inputs of the graph with the shapes that the file gives, in their order; old files list
    /// their constants among them.
    pub(crate) inputs: Vec<TensorSpec>,
    /// The outputs, likewise.
    pub(crate) outputs: Vec<TensorSpec>,
    /// Whether there is a graph.
    pub(crate) has_graph: bool,
}

/// Reads metadata, inputs and outputs of a file, of which the rest is passed.
///
/// # Errors
/// When the file cannot be read, or is not of the wire format as far as it is read.
pub(crate) fn entries(path: &Path) -> Result<Entries> {
    let file = input_file::open(path)?;
    let num_bytes = file.metadata()?.len();
    let mut reader = BufReader::new(file);
    let mut entries = Entries::default();
    // Where the graph ends, while its fields are read; 0: no graph was read.
    let mut graph_end = 0;
    for _ in 0..MAX_FIELDS {
        let is_graph = reader.stream_position()? < graph_end;
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
        if len > num_bytes.saturating_sub(reader.stream_position()?) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match key {
            GRAPH if !is_graph && i64::try_from(len).is_ok() => {
                graph_end = reader.stream_position()?.saturating_add(len);
            }
            METADATA
                if !is_graph && len <= MAX_ENTRY_BYTES && entries.texts.len() < MAX_ENTRIES =>
            {
                let bytes = take(&mut reader, len)?;
                let entry = Message::new("StringStringEntryProto", &bytes, 0);
                if let Ok((key, value)) = parse::metadata(entry) {
                    entries.texts.push((key.to_owned(), value.to_owned()));
                }
            }
            INPUT | OUTPUT if is_graph && len <= MAX_TENSOR_BYTES => {
                let bytes = take(&mut reader, len)?;
                let tensor = parse::value_info(Message::new("ValueInfoProto", &bytes, 0));
                let of_side = if key == INPUT { &mut entries.inputs } else { &mut entries.outputs };
                if of_side.len() < MAX_TENSORS {
                    of_side.push(spec_of(&tensor.unwrap_or_default()));
                }
            }
            _ => reader.seek_relative(i64::try_from(len).map_err(Error::other)?)?,
        }
    }
    entries.has_graph = graph_end > 0;
    Ok(entries)
}

fn take(reader: &mut impl Read, len: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn spec_of(tensor: &ValueInfo<'_>) -> TensorSpec {
    let dim = |dim: &Option<i64>| match dim.and_then(|dim| usize::try_from(dim).ok()) {
        Some(length) => Dim::Fixed(length),
        None => Dim::Dynamic,
    };
    let shape = tensor.shape.as_ref().map(|dims| dims.iter().map(dim).collect());
    TensorSpec { name: tensor.name.to_owned(), element: None, shape }
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
        entries(file.path()).map(|entries| entries.texts)
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
        // A node of 253 bytes.
        let graph = [&[0x3a, 0x80, 0x02, 0x0a, 0xfd, 0x01][..], &[7; 253]].concat();
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

    #[test]
    fn tensors_of_the_graph_are_read_with_their_shapes() {
        use crate::onnx::write::{model, named, put_bytes, tensor_info};
        let mut graph = Vec::new();
        put_bytes(&mut graph, 1, &[0x0a, 1, b'x']);
        put_bytes(&mut graph, 11, &tensor_info("images", 1, Some(&[1, 3, 8, 8])));
        put_bytes(&mut graph, 12, &tensor_info("a", 1, Some(&[1, 300, 7])));
        put_bytes(&mut graph, 12, &tensor_info("b", 7, None));
        put_bytes(&mut graph, 12, &named("c"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes = [model(8, &[], &graph), entry("task", "obb")].concat();
        std::fs::write(file.path(), &bytes).unwrap();
        let found = entries(file.path()).unwrap();
        let shape = [1, 300, 7].map(Dim::Fixed).to_vec();
        let spec = |name: &str, shape| TensorSpec { name: name.into(), element: None, shape };
        let image = [1, 3, 8, 8].map(Dim::Fixed).to_vec();
        assert_eq!(found.inputs, [spec("images", Some(image))]);
        assert_eq!(found.outputs, [spec("a", Some(shape)), spec("b", None), spec("c", None)]);
        assert_eq!(found.texts, [("task".to_owned(), "obb".to_owned())]);
        assert!(found.has_graph);
        for end in 0..bytes.len() {
            std::fs::write(file.path(), &bytes[..end]).unwrap();
            assert!(entries(file.path()).map_or(0, |found| found.texts.len()) == 0, "{end}");
        }
    }
}
