//! Arrays of `.npz` files as numpy's `savez` and `savez_compressed` write them: a zip of `.npy`
//! members.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

/// The method of compressed members.
const DEFLATED: usize = 8;

/// The arrays of a file, by name.
pub struct Npz(HashMap<String, Array>);

/// The shape and the values of an array, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Length per axis.
    pub shape: Vec<usize>,
    values: Values,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Npz {
    /// Reads a whole file.
    ///
    /// # Panics
    /// When it is not as described above.
    pub fn open(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let end = bytes.windows(4).rposition(|window| window == b"PK\x05\x06").unwrap();
        let num_members = u16_at(&bytes, end + 10);
        let mut entry = u32_at(&bytes, end + 16);
        let mut arrays = HashMap::new();
        for _ in 0..num_members {
            assert_eq!(&bytes[entry..entry + 4], b"PK\x01\x02", "central directory");
            let method = u16_at(&bytes, entry + 10);
            let len = u32_at(&bytes, entry + 20);
            let (name_len, extra_len) = (u16_at(&bytes, entry + 28), u16_at(&bytes, entry + 30));
            let comment_len = u16_at(&bytes, entry + 32);
            let local = u32_at(&bytes, entry + 42);
            let name = std::str::from_utf8(&bytes[entry + 46..][..name_len]).unwrap();
            let data = local + 30 + u16_at(&bytes, local + 26) + u16_at(&bytes, local + 28);
            let stored = &bytes[data..data + len];
            let array = match method {
                0 => Array::from_npy(stored),
                DEFLATED => {
                    let mut member = Vec::new();
                    flate2::read::DeflateDecoder::new(stored).read_to_end(&mut member).unwrap();
                    Array::from_npy(&member)
                }
                other => panic!("{name} is compressed by method {other}"),
            };
            arrays.insert(name.trim_end_matches(".npy").to_owned(), array);
            entry += 46 + name_len + extra_len + comment_len;
        }
        Self(arrays)
    }

    /// Whether there is an array of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The array of this name.
    pub fn array(&self, name: &str) -> &Array {
        self.0.get(name).unwrap_or_else(|| panic!("no array {name}"))
    }

    /// The values of an array of f32.
    pub fn f32(&self, name: &str) -> &[f32] {
        match &self.array(name).values {
            Values::F32(values) => values,
            _ => panic!("{name} is not f32"),
        }
    }

    /// The values of an array of f64.
    pub fn f64(&self, name: &str) -> &[f64] {
        match &self.array(name).values {
            Values::F64(values) => values,
            _ => panic!("{name} is not f64"),
        }
    }

    /// The values of an array of i32.
    pub fn i32(&self, name: &str) -> &[i32] {
        match &self.array(name).values {
            Values::I32(values) => values,
            _ => panic!("{name} is not i32"),
        }
    }

    /// The values of an array of i64.
    pub fn i64(&self, name: &str) -> &[i64] {
        match &self.array(name).values {
            Values::I64(values) => values,
            _ => panic!("{name} is not i64"),
        }
    }

    /// The rows of an array of i32 `[N, 4]`.
    pub fn rows_of_4(&self, name: &str) -> &[[i32; 4]] {
        let (rows, rest) = self.i32(name).as_chunks();
        assert!(rest.is_empty(), "{name}");
        rows
    }
}

impl Array {
    fn from_npy(bytes: &[u8]) -> Self {
        assert_eq!(&bytes[..7], b"\x93NUMPY\x01", "npy of version 1");
        let header_len = u16_at(bytes, 8);
        let header = std::str::from_utf8(&bytes[10..10 + header_len]).unwrap();
        let data = &bytes[10 + header_len..];
        let (_, shape) = header.split_once("'shape': (").unwrap();
        let (shape, _) = shape.split_once(')').unwrap();
        let shape: Vec<usize> = shape
            .split(',')
            .map(str::trim)
            .filter(|size| !size.is_empty())
            .map(|size| size.parse().unwrap())
            .collect();
        let columns_first = header.contains("'fortran_order': True");
        let values = if header.contains("'<f4'") {
            Values::F32(values(data, &shape, columns_first, f32::from_le_bytes))
        } else if header.contains("'<f8'") {
            Values::F64(values(data, &shape, columns_first, f64::from_le_bytes))
        } else if header.contains("'<i8'") {
            Values::I64(values(data, &shape, columns_first, i64::from_le_bytes))
        } else {
            assert!(header.contains("'<i4'"), "{header}");
            Values::I32(values(data, &shape, columns_first, i32::from_le_bytes))
        };
        Self { shape, values }
    }
}

/// The values in row-major order.
fn values<T: Copy, const N: usize>(
    data: &[u8],
    shape: &[usize],
    columns_first: bool,
    from_le_bytes: impl Fn([u8; N]) -> T,
) -> Vec<T> {
    let stored: Vec<T> = data.as_chunks().0.iter().map(|&bytes| from_le_bytes(bytes)).collect();
    assert_eq!(stored.len(), shape.iter().product::<usize>(), "{shape:?}");
    if !columns_first {
        return stored;
    }
    let [num_rows, num_columns] = *shape else { panic!("{shape:?} in columns") };
    let places = (0..num_rows).flat_map(|row| (0..num_columns).map(move |i| i * num_rows + row));
    places.map(|place| stored[place]).collect()
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}
