//! Files of tensors in the safetensors format.
//!
//! Eight bytes (the length of the header, little-endian), the header as JSON (name →
//! `dtype`, `shape`, `data_offsets`; `__metadata__` holds text), then the values,
//! little-endian. A file is untrusted: every length is checked before it is used, the
//! header is at most 4 MiB, and the values of the tensors cover the rest of the file
//! without gaps or overlaps, as the format demands. Nothing of a tensor is copied.

use std::collections::BTreeMap;
use std::fmt;

use half::{bf16, f16};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use det_post_types::{Error, ErrorKind, Result};

const STAGE: &str = "safetensors";

/// The largest header. Decoders of 400 tensors have 40 KB.
const MAX_HEADER_BYTES: u64 = 4 << 20;

/// The largest number of dimensions of a tensor.
const MAX_DIMENSIONS: usize = 8;

/// The tensors of a file by their names.
#[derive(Clone, Debug)]
pub struct SafeTensors<'a> {
    tensors: BTreeMap<String, StoredTensor<'a>>,
}

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTensor<'a> {
    element: StoredElement,
    shape: Vec<usize>,
    data: &'a [u8],
}

/// The elements of a tensor in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredElement {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
}

impl StoredElement {
    const NAMES: [(&str, Self); 7] = [
        ("F32", Self::F32),
        ("F16", Self::F16),
        ("BF16", Self::Bf16),
        ("I8", Self::I8),
        ("U8", Self::U8),
        ("I32", Self::I32),
        ("I64", Self::I64),
    ];

    fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::I64 => 8,
        }
    }
}

impl fmt::Display for StoredElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, element)| element == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl<'a> StoredTensor<'a> {
    /// The type of the elements.
    pub fn element(&self) -> StoredElement {
        self.element
    }

    /// The sizes of the dimensions, the last one fastest.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements as bytes, little-endian.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// The elements widened to f32; `None` for integers.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        match self.element {
            StoredElement::F32 => {
                Some(self.data.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect())
            }
            StoredElement::F16 => {
                let values = self.data.as_chunks().0.iter();
                Some(values.map(|&b| f16::from_le_bytes(b).to_f32()).collect())
            }
            StoredElement::Bf16 => {
                let values = self.data.as_chunks().0.iter();
                Some(values.map(|&b| bf16::from_le_bytes(b).to_f32()).collect())
            }
            StoredElement::I8 | StoredElement::U8 | StoredElement::I32 | StoredElement::I64 => None,
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
        let header: Header = serde_json::from_slice(header).map_err(|error| {
            Error::new(ErrorKind::Model, STAGE, "the header is not JSON of the format")
                .with_source(error)
        })?;
        let mut tensors = BTreeMap::new();
        let mut ranges = Vec::new();
        for (name, entry) in header.0 {
            if name == "__metadata__" {
                continue;
            }
            let (tensor, begin) = tensor(&name, &entry, data)?;
            ranges.push((begin, begin + tensor.data.len(), name.clone()));
            if tensors.insert(name.clone(), tensor).is_some() {
                return refuse(format!("tensor {name} is named twice"));
            }
        }
        ranges.sort();
        let mut end = 0;
        for (begin, next, name) in ranges {
            if begin != end {
                return refuse(format!(
                    "tensor {name} begins at {begin}, the one before ends at {end}"
                ));
            }
            end = next;
        }
        if end != data.len() {
            return refuse(format!("the tensors have {end} bytes, the file holds {}", data.len()));
        }
        Ok(Self { tensors })
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

/// A tensor and the place where its values begin.
fn tensor<'a>(name: &str, entry: &Value, data: &'a [u8]) -> Result<(StoredTensor<'a>, usize)> {
    let numbers = |key: &str| -> Option<Vec<usize>> {
        let values = entry.get(key)?.as_array()?.iter();
        values.map(|value| usize::try_from(value.as_u64()?).ok()).collect()
    };
    let fields =
        (entry.get("dtype").and_then(Value::as_str), numbers("shape"), numbers("data_offsets"));
    let (Some(dtype), Some(shape), Some(offsets)) = fields else {
        return refuse(format!("tensor {name} has no dtype, shape and data_offsets"));
    };
    let Some(&(_, element)) = StoredElement::NAMES.iter().find(|(known, _)| *known == dtype) else {
        let known = StoredElement::NAMES.map(|(name, _)| name).join(", ");
        return refuse(format!("tensor {name} has the type {dtype}, which is none of {known}"));
    };
    let &[begin, end] = &offsets[..] else {
        return refuse(format!("tensor {name} has the offsets {offsets:?}"));
    };
    let num_bytes = shape.iter().try_fold(element.size(), |len, &size| len.checked_mul(size));
    let Some(values) = data.get(begin..end).filter(|values| Some(values.len()) == num_bytes) else {
        return refuse(format!(
            "tensor {name} of {element} {shape:?} is at {begin} to {end} of {} bytes",
            data.len()
        ));
    };
    if shape.len() > MAX_DIMENSIONS {
        let len = shape.len();
        return refuse(format!("tensor {name} has {len} dimensions; {MAX_DIMENSIONS} are allowed"));
    }
    Ok((StoredTensor { element, shape, data: values }, begin))
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, message))
}

/// The entries of a header, also those of equal names.
struct Header(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tensors by their names")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Header, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(Entries)
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
        let cases: [(String, usize, &str); 15] = [
            (one(&good), 9, "the tensors have 8 bytes, the file holds 9"),
            (one(&good), 7, "tensor a of F32 [2] is at 0 to 8 of 7 bytes"),
            (one(&entry("F32", "[3]", "[0,8]")), 8, "tensor a of F32 [3]"),
            (one(&entry("F33", "[2]", "[0,8]")), 8, "tensor a has the type F33"),
            (one(&entry("F32", "[2]", "[8,0]")), 8, "tensor a of F32 [2] is at 8 to 0"),
            (one(&entry("F32", "[2]", "[0,8,8]")), 8, "tensor a has the offsets [0, 8, 8]"),
            (one(&entry("F32", "[-2]", "[0,8]")), 8, "tensor a has no dtype, shape"),
            (
                one(&entry("U8", "[9223372036854775808]", "[0,9223372036854775808]")),
                8,
                "tensor a of U8",
            ),
            (one(&entry("F32", "[4611686018427387904,4]", "[0,0]")), 0, "tensor a of F32"),
            (one(&entry("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]")), 1, "tensor a has 9 dimensions"),
            (two(&good, &entry("F32", "[2]", "[4,12]")), 12, "tensor b begins at 4"),
            (two(&good, &entry("F32", "[2]", "[12,20]")), 20, "tensor b begins at 12"),
            (format!(r#"{{"a":{good},"a":{good}}}"#), 8, "tensor a is named twice"),
            (one("7"), 0, "tensor a has no dtype"),
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
                    prop_assert_eq!(tensor.data().len(), len * tensor.element().size());
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
