//! Tensors of a message, borrowed from it.

use super::tensor::TensorValues;
use crate::error::{Error, ErrorKind, Result};

const STAGE: &str = "tensors";

/// The most tensors of a message.
pub const MAX_TENSORS: usize = 16;

/// Bytes of a name that messages show.
const MAX_SHOWN_NAME: usize = 64;

/// The most dimensions of a tensor of a message.
pub const MAX_RANK: usize = 8;

named! {
    /// The element types of tensors of a message, in the order of their numbers in
    /// `isaac_ros_tensor_list_interfaces/Tensor`, which start at 1.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum TensorType {
        /// 8-bit signed integers.
        #[default]
        I8 => "i8",
        /// 8-bit unsigned integers.
        U8 => "u8",
        /// 16-bit signed integers.
        I16 => "i16",
        /// 16-bit unsigned integers.
        U16 => "u16",
        /// 32-bit signed integers.
        I32 => "i32",
        /// 32-bit unsigned integers.
        U32 => "u32",
        /// 64-bit signed integers.
        I64 => "i64",
        /// 64-bit unsigned integers.
        U64 => "u64",
        /// 32-bit floats.
        F32 => "f32",
        /// 64-bit floats.
        F64 => "f64",
    }
    /// Its name, such as `f32`.
    pub fn name;
}

impl TensorType {
    /// The type of a number of the message; `None` when it is not known.
    pub fn from_number(number: i32) -> Option<Self> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ALL.get(index).copied()
    }

    /// Its number in the message.
    pub fn number(self) -> i32 {
        self as i32 + 1
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// A part of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Position of its first byte.
    pub start: usize,
    /// Number of its bytes.
    pub len: usize,
}

impl Span {
    /// The part of `bytes`, if it is within them.
    fn of<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(self.start..self.start.checked_add(self.len)?)
    }
}

/// A tensor of a message: dense, row-major, little endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorEntry {
    /// The bytes of its name in the message.
    pub name: Span,
    /// The bytes of its elements in the message.
    pub data: Span,
    /// Type of the elements.
    pub element: TensorType,
    /// Lengths of its dimensions, of which the first `rank` are used.
    pub dims: [usize; MAX_RANK],
    /// Number of dimensions, up to [`MAX_RANK`].
    pub rank: usize,
}

impl TensorEntry {
    /// Lengths of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.dims[..self.rank.min(MAX_RANK)]
    }

    /// Bytes that the shape and the type ask for; `None` when there are too many to count.
    pub fn num_bytes(&self) -> Option<usize> {
        self.shape().iter().try_fold(self.element.size(), |bytes, &dim| bytes.checked_mul(dim))
    }
}

/// Positions of the tensors of a message in its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorEntries {
    entries: [TensorEntry; MAX_TENSORS],
    len: usize,
}

impl TensorEntries {
    /// Adds a tensor.
    ///
    /// # Errors
    /// `Layout` when there are [`MAX_TENSORS`] already, or the bytes of the tensor are not those
    /// of its shape and type.
    pub fn push(&mut self, entry: TensorEntry) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Layout, STAGE, message));
        let found = entry.data.len;
        if entry.num_bytes() != Some(found) {
            let (shape, element) = (entry.shape(), entry.element.name());
            return refuse(format!("a tensor {element} {shape:?} has {found} bytes"));
        }
        let Some(slot) = self.entries.get_mut(self.len) else {
            return refuse(format!("a message has more than {MAX_TENSORS} tensors"));
        };
        *slot = entry;
        self.len += 1;
        Ok(())
    }

    /// The tensors.
    pub fn as_slice(&self) -> &[TensorEntry] {
        &self.entries[..self.len]
    }
}

/// The tensors of a message, whose bytes are borrowed.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedTensors<'a> {
    entries: TensorEntries,
    bytes: &'a [u8],
}

impl<'a> ReceivedTensors<'a> {
    /// Tensors at their positions in `bytes`.
    ///
    /// # Errors
    /// `Layout` when a position is beyond the bytes.
    pub fn new(entries: TensorEntries, bytes: &'a [u8]) -> Result<Self> {
        let are_within = entries
            .as_slice()
            .iter()
            .all(|one| one.name.of(bytes).is_some() && one.data.of(bytes).is_some());
        match are_within {
            true => Ok(Self { entries, bytes }),
            false => Err(Error::new(ErrorKind::Layout, STAGE, "a tensor exceeds its message")),
        }
    }

    /// The bytes that the positions refer to.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The positions.
    pub fn entries(&self) -> &TensorEntries {
        &self.entries
    }

    /// The tensor of a name, the first of equal ones, and its elements.
    pub fn find(&self, name: &str) -> Option<(&TensorEntry, &'a [u8])> {
        let is_named = |entry: &&TensorEntry| self.name(entry) == name.as_bytes();
        let entry = self.entries.as_slice().iter().find(is_named)?;
        Some((entry, entry.data.of(self.bytes)?))
    }

    /// The names, types and shapes of all tensors, for messages.
    pub fn describe(&self) -> String {
        let one = |entry: &TensorEntry| {
            let name = self.name(entry);
            let name = String::from_utf8_lossy(&name[..name.len().min(MAX_SHOWN_NAME)]);
            format!("{name} {} {:?}", entry.element.name(), entry.shape())
        };
        let all: Vec<String> = self.entries.as_slice().iter().map(one).collect();
        if all.is_empty() { "no tensors".to_owned() } else { all.join(", ") }
    }

    fn name(&self, entry: &TensorEntry) -> &'a [u8] {
        entry.name.of(self.bytes).unwrap_or_default()
    }
}

/// A tensor that owns its memory, copied from a message; the memory is reused.
#[derive(Clone, Debug, Default)]
pub struct OwnedTensor {
    shape: Vec<usize>,
    element: TensorType,
    floats: Vec<f32>,
    doubles: Vec<f64>,
    integers: Vec<i32>,
    long_integers: Vec<i64>,
}

impl OwnedTensor {
    /// Copies a tensor of a message. Its elements are not aligned there.
    ///
    /// # Errors
    /// `Layout` for a type that no decoder takes.
    pub fn fill(&mut self, entry: &TensorEntry, bytes: &[u8]) -> Result<()> {
        self.shape.clear();
        self.shape.extend_from_slice(entry.shape());
        self.element = entry.element;
        match entry.element {
            TensorType::F32 => copy(&mut self.floats, bytes, f32::from_le_bytes),
            TensorType::F64 => copy(&mut self.doubles, bytes, f64::from_le_bytes),
            TensorType::I32 => copy(&mut self.integers, bytes, i32::from_le_bytes),
            TensorType::I64 => copy(&mut self.long_integers, bytes, i64::from_le_bytes),
            other => {
                let message = format!("a tensor of {} is not decoded", other.name());
                return Err(Error::new(ErrorKind::Layout, STAGE, message));
            }
        }
        Ok(())
    }

    /// Lengths of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements.
    pub fn values(&self) -> TensorValues<'_> {
        match self.element {
            TensorType::F64 => TensorValues::F64(&self.doubles),
            TensorType::I32 => TensorValues::I32(&self.integers),
            TensorType::I64 => TensorValues::I64(&self.long_integers),
            _ => TensorValues::F32(&self.floats),
        }
    }
}

/// Replaces the content of `to` by the elements in `bytes`.
fn copy<T, const N: usize>(to: &mut Vec<T>, bytes: &[u8], element: fn([u8; N]) -> T) {
    let (elements, _) = bytes.as_chunks::<N>();
    to.clear();
    to.extend(elements.iter().map(|bytes| element(*bytes)));
}
