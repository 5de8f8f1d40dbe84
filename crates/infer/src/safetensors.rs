//! Files of tensors in the safetensors format, by the crate `safetensors`.
//!
//! A file is untrusted. Before the crate reads it, the header is compared with a limit, and its
//! entries are checked one by one, so that an error names the tensor: the crate takes headers
//! of 100 MB and the last of equal names. Nothing of a tensor is copied.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{TensorInfo, TensorView};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use det_post_types::{Error, ErrorKind, Result};

const STAGE: &str = "safetensors";

/// The largest header. Decoders of 400 tensors have 40 KB.
const MAX_HEADER_BYTES: u64 = 4 << 20;

/// The largest number of dimensions of a tensor.
const MAX_DIMENSIONS: usize = 8;

/// The types of elements that are read.
const TYPES: [Dtype; 7] =
    [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I8, Dtype::U8, Dtype::I32, Dtype::I64];

/// The tensors of a file by their names.
#[derive(Debug)]
pub struct SafeTensors<'a> {
    tensors: BTreeMap<String, StoredTensor<'a>>,
}

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTensor<'a>(TensorView<'a>);

impl<'a> StoredTensor<'a> {
    /// The type of the elements.
    pub fn element(&self) -> Dtype {
        self.0.dtype()
    }

    /// The sizes of the dimensions, the last one fastest.
    pub fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    /// The elements as bytes, little-endian.
    pub fn data(&self) -> &'a [u8] {
        self.0.data()
    }

    /// The elements widened to f32; `None` for integers.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        match self.element() {
            Dtype::F32 => {
                let values = self.data().as_chunks().0.iter();
                Some(values.map(|&b| f32::from_le_bytes(b)).collect())
            }
            Dtype::F16 => {
                let values = self.data().as_chunks().0.iter();
                Some(values.map(|&b| f16::from_le_bytes(b).to_f32()).collect())
            }
            Dtype::BF16 => {
                let values = self.data().as_chunks().0.iter();
                Some(values.map(|&b| bf16::from_le_bytes(b).to_f32()).collect())
            }
            _ => None,
        }
    }
}

impl<'a> SafeTensors<'a> {
    /// Reads the header of a file that is in memory.
    ///
    /// # Errors
    /// `Model` when the header is too long, is not of the format, names a tensor twice or
    /// an unknown type, or shapes, offsets and the length of the file contradict each
    /// other. The message names the tensor.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let Some((len, rest)) = bytes.split_first_chunk() else {
            return refuse(format!("{} bytes are no file of tensors", bytes.len()));
        };
        let len = u64::from_le_bytes(*len);
        let header = usize::try_from(len).ok().filter(|_| len <= MAX_HEADER_BYTES);
        let Some((header, data)) = header.and_then(|len| rest.split_at_checked(len)) else {
            return refuse(format!(
                "a header of {len} bytes; the file has {} and {MAX_HEADER_BYTES} are allowed",
                rest.len()
            ));
        };
        let entries: Entries = serde_json::from_slice(header)
            .map_err(|error| refused(format!("the header is not JSON of the format: {error}")))?;
        let mut names = BTreeSet::new();
        for (name, info) in &entries.0 {
            check(name, info, data.len())?;
            if !names.insert(name) {
                return refuse(format!("tensor {name} is named twice"));
            }
        }
        let file = safetensors::SafeTensors::deserialize(bytes).map_err(|error| {
            let end = entries.0.iter().map(|(_, info)| info.data_offsets.1).max().unwrap_or(0);
            refused(format!("{error}; the tensors end at {end}, the file holds {}", data.len()))
        })?;
        let tensors = file.iter().map(|(name, view)| (name.to_owned(), StoredTensor(view)));
        Ok(Self { tensors: tensors.collect() })
    }

    /// A tensor.
    pub fn get(&self, name: &str) -> Option<&StoredTensor<'a>> {
        self.tensors.get(name)
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }
}

/// Checks what an entry says of a tensor in a file with values of so many bytes.
fn check(name: &str, info: &TensorInfo, num_data_bytes: usize) -> Result<()> {
    let TensorInfo { dtype, shape, data_offsets: (begin, end) } = info;
    if !TYPES.contains(dtype) {
        let known = TYPES.map(|known| known.to_string()).join(", ");
        return refuse(format!("tensor {name} has the type {dtype}, allowed are {known}"));
    }
    let num_bytes = shape.iter().try_fold(dtype.bitsize() / 8, |len, &size| len.checked_mul(size));
    if *end > num_data_bytes || end.checked_sub(*begin).is_none_or(|len| Some(len) != num_bytes) {
        return refuse(format!(
            "tensor {name} of {dtype} {shape:?} is at {begin} to {end} of {num_data_bytes} bytes"
        ));
    }
    if shape.len() > MAX_DIMENSIONS {
        let len = shape.len();
        return refuse(format!("tensor {name} has {len} dimensions; {MAX_DIMENSIONS} are allowed"));
    }
    Ok(())
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Model, STAGE, message)
}

fn refuse<T>(message: String) -> Result<T> {
    Err(refused(message))
}

/// The entries of a header, also those of equal names.
struct Entries(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct ByName;
        impl<'de> Visitor<'de> for ByName {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tensors by their names")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let info = map.next_value();
                    let info = info.map_err(|e| A::Error::custom(format!("tensor {name}: {e}")))?;
                    entries.push((name, info));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(ByName)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn entry(dtype: &str, shape: &str, offsets: &str) -> String {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
    }

    const HEADER: &str = r#"{"__metadata__":{"format":"pt"},
        "b":{"dtype":"F16","shape":[2],"data_offsets":[8,12]},
        "a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},
        "scalar":{"dtype":"BF16","shape":[],"data_offsets":[12,14]},
        "none":{"dtype":"U8","shape":[0,7],"data_offsets":[14,14]}}"#;

    fn data() -> Vec<u8> {
        let mut data = Vec::new();
        [1.5_f32, -2.0].iter().for_each(|x| data.extend(x.to_le_bytes()));
        [0.25, 8.0].iter().for_each(|&x| data.extend(f16::from_f32(x).to_le_bytes()));
        data.extend(bf16::from_f32(3.0).to_le_bytes());
        data
    }

    #[test]
    fn tensors_are_read_in_place() {
        let bytes = file(HEADER, &data());
        let tensors = SafeTensors::parse(&bytes).unwrap();
        assert_eq!(tensors.names().collect::<Vec<_>>(), ["a", "b", "none", "scalar"]);
        let values = |name| tensors.get(name).unwrap().to_f32();
        assert_eq!(values("a").unwrap(), [1.5, -2.0]);
        assert_eq!(values("b").unwrap(), [0.25, 8.0]);
        assert_eq!(values("scalar").unwrap(), [3.0]);
        assert_eq!(values("none"), None);
        assert_eq!(tensors.get("a").unwrap().shape(), [1, 2]);
        assert!(bytes.as_ptr_range().contains(&tensors.get("a").unwrap().data().as_ptr()));
        assert!(tensors.get("c").is_none());
        assert_eq!(SafeTensors::parse(&file("{}", &[])).unwrap().names().count(), 0);
    }

    #[test]
    fn what_contradicts_itself_is_refused_by_name() {
        let two = |a: &str, b: &str| format!(r#"{{"a":{a},"b":{b}}}"#);
        let one = |a: &str| format!(r#"{{"a":{a}}}"#);
        let good = entry("F32", "[2]", "[0,8]");
        let cases: [(String, usize, &str); 16] = [
            (one(&good), 9, "the tensors end at 8, the file holds 9"),
            (one(&good), 7, "tensor a of F32 [2] is at 0 to 8 of 7 bytes"),
            (one(&entry("F32", "[3]", "[0,8]")), 8, "tensor a of F32 [3]"),
            (one(&entry("F33", "[2]", "[0,8]")), 8, "tensor a: unknown variant `F33`"),
            (one(&entry("F64", "[1]", "[0,8]")), 8, "tensor a has the type F64, allowed are F32"),
            (one(&entry("F32", "[2]", "[8,0]")), 8, "tensor a of F32 [2] is at 8 to 0"),
            (one(&entry("F32", "[2]", "[0,8,8]")), 8, "tensor a: "),
            (one(&entry("F32", "[-2]", "[0,8]")), 8, "tensor a: invalid value"),
            (
                one(&entry("U8", "[9223372036854775808]", "[0,9223372036854775808]")),
                8,
                "tensor a of U8",
            ),
            (one(&entry("F32", "[4611686018427387904,4]", "[0,0]")), 0, "tensor a of F32"),
            (one(&entry("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]")), 1, "tensor a has 9 dimensions"),
            (two(&good, &entry("F32", "[2]", "[4,12]")), 12, "invalid offset for tensor `b`"),
            (two(&good, &entry("F32", "[2]", "[12,20]")), 20, "invalid offset for tensor `b`"),
            (format!(r#"{{"a":{good},"a":{good}}}"#), 8, "tensor a is named twice"),
            (one("7"), 0, "tensor a: invalid type"),
            ("[]".into(), 0, "the header is not JSON of the format"),
        ];
        for (header, num_bytes, expected) in cases {
            let bytes = file(&header, &vec![0; num_bytes]);
            let error = SafeTensors::parse(&bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Model);
            assert!(error.message().contains(expected), "{header}: {error}");
        }
        for bytes in [
            &[][..],
            &[1; 7],
            &[255; 16],
            &[0, 0, 64, 1, 0, 0, 0, 0],
            &[9, 0, 0, 0, 0, 0, 0, 0, b'{'],
        ] {
            assert!(SafeTensors::parse(bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn damaged_files_are_refused_or_whole(
            edits in prop::collection::vec((0_usize..600, any::<u8>()), 1..6), cut in 0_usize..600,
        ) {
            let mut bytes = file(HEADER, &data());
            for (at, value) in edits {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            bytes.truncate(cut.max(bytes.len() / 2));
            if let Ok(tensors) = SafeTensors::parse(&bytes) {
                for name in tensors.names() {
                    let tensor = tensors.get(name).unwrap();
                    let len: usize = tensor.shape().iter().product();
                    prop_assert_eq!(tensor.data().len(), len * tensor.element().bitsize() / 8);
                }
            }
        }

        #[test]
        fn any_offsets_and_shapes_are_bounded(
            shape in prop::collection::vec(any::<u64>(), 0..4), begin: u64, end: u64,
        ) {
            let header = format!(r#"{{"a":{}}}"#, entry("F16", &format!("{shape:?}"), &format!("[{begin},{end}]")));
            let bytes = file(&header, &[0; 16]);
            if let Ok(tensors) = SafeTensors::parse(&bytes) {
                prop_assert_eq!(tensors.get("a").unwrap().data().len(), 16);
            }
        }
    }
}
