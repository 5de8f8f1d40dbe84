//! Constants of a file.

use half::f16;

use super::error;
use super::wire::Message;
use det_post_types::Result;

/// Element types by their numbers in the schema; the others have no use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum DataType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 64-bit integer.
    I64,
    /// Another type, by its number.
    Other(i64),
}

impl DataType {
    pub(super) fn of(number: i64) -> Self {
        match number {
            1 => Self::F32,
            7 => Self::I64,
            10 => Self::F16,
            other => Self::Other(other),
        }
    }
}

impl DataType {
    /// The number of the schema.
    pub(in super::super) fn number(self) -> i64 {
        match self {
            Self::F32 => 1,
            Self::I64 => 7,
            Self::F16 => 10,
            Self::Other(number) => number,
        }
    }
}

impl std::fmt::Display for DataType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::F32 => f.write_str("f32"),
            Self::F16 => f.write_str("f16"),
            Self::I64 => f.write_str("i64"),
            Self::Other(number) => write!(f, "type {number}"),
        }
    }
}

/// [`Tensor::elsewhere`] of values in another file.
pub(super) const OTHER_FILE: &str = "another file";

/// A constant, whose values are borrowed from the file.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Tensor<'a> {
    /// Its name.
    pub(in super::super) name: &'a str,
    /// Its element type.
    pub(in super::super) data_type: DataType,
    /// Its dimensions.
    pub(in super::super) dims: Vec<i64>,
    /// Its values, little-endian, in row-major order.
    pub(in super::super) raw_data: &'a [u8],
    /// Why `raw_data` does not hold the values, if so.
    pub(in super::super) elsewhere: Option<&'static str>,
    /// The entry as it stands in the file.
    pub(in super::super) bytes: &'a [u8],
}

impl Tensor<'_> {
    /// Whether the values are in the file's `raw_data`.
    pub(in super::super) fn is_in_raw_data(&self) -> bool {
        self.elsewhere.is_none()
    }

    /// Whether the values are in another file.
    pub(in super::super) fn is_in_other_file(&self) -> bool {
        self.elsewhere == Some(OTHER_FILE)
    }

    /// Whether all values are known to be zero.
    pub(in super::super) fn is_zero(&self) -> bool {
        self.elsewhere.is_none() && self.raw_data.iter().all(|&byte| byte == 0)
    }

    /// Whether all values are known to be zero, wherever the file holds them.
    pub(in super::super) fn is_all_zero(&self) -> bool {
        let mut is_zero = self.raw_data.iter().all(|&byte| byte == 0) && !self.is_in_other_file();
        let mut message = Message::new("TensorProto", self.bytes, 0);
        while let Ok(Some(field)) = message.next_field() {
            if field.number == 5 || field.number == 7 {
                let note = |value: i64| {
                    is_zero &= value == 0;
                    Ok(())
                };
                is_zero &= field.ints(note).is_ok();
            }
        }
        is_zero && matches!(self.elsewhere, None | Some("int32_data" | "int64_data"))
    }

    /// The values of a constant of f32 or f16, the latter widened.
    ///
    /// # Errors
    /// `Model` when the type is another one, the values are not in the file's
    /// `raw_data`, their number is not that of the dimensions, or one is
    /// infinite or NaN.
    pub(in super::super) fn floats(&self) -> Result<Vec<f32>> {
        let values: Vec<f32> = match self.data_type {
            DataType::F32 => {
                self.elements()?.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
            }
            DataType::F16 => {
                self.elements()?.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f32()).collect()
            }
            other => {
                return Err(error(format!("{} is {other}; f32 and f16 are read", self.shown())));
            }
        };
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(at) => Err(error(format!("{}: value {at} is {}", self.shown(), values[at]))),
        }
    }

    /// The values of a constant of i64.
    ///
    /// # Errors
    /// As [`Self::floats`].
    pub(in super::super) fn ints(&self) -> Result<Vec<i64>> {
        match self.data_type {
            DataType::I64 => {
                Ok(self.elements()?.iter().map(|&bytes| i64::from_le_bytes(bytes)).collect())
            }
            other => Err(error(format!("{} is {other}; i64 is read", self.shown()))),
        }
    }

    /// Gives each value of a constant of i64, i32, i8 or u8 to `take`, wherever the file holds it; none of
    /// those in another file, and none of other types.
    ///
    /// # Errors
    /// `Model` when the entry is not of the format.
    pub(in super::super) fn each_integer(&self, mut take: impl FnMut(i64)) -> Result<()> {
        let typed_field = match self.data_type {
            DataType::I64 => {
                let (values, _) = self.raw_data.as_chunks();
                values.iter().for_each(|&bytes| take(i64::from_le_bytes(bytes)));
                7
            }
            DataType::Other(6) => {
                let (values, _) = self.raw_data.as_chunks();
                values.iter().for_each(|&bytes| take(i32::from_le_bytes(bytes).into()));
                5
            }
            DataType::Other(3) => {
                self.raw_data.iter().for_each(|&byte| take(byte.cast_signed().into()));
                5
            }
            DataType::Other(2) => {
                self.raw_data.iter().for_each(|&byte| take(byte.into()));
                5
            }
            _ => return Ok(()),
        };
        let mut message = Message::new("TensorProto", self.bytes, 0);
        while let Some(field) = message.next_field()? {
            if field.number == typed_field {
                field.ints(|value| {
                    take(value);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Gives each value of a constant of f32 to `take`, as [`Self::each_integer`] does.
    ///
    /// # Errors
    /// `Model` when the entry is not of the format.
    pub(in super::super) fn each_float(&self, mut take: impl FnMut(f32)) -> Result<()> {
        if self.data_type != DataType::F32 {
            return Ok(());
        }
        let (values, _) = self.raw_data.as_chunks();
        values.iter().for_each(|&bytes| take(f32::from_le_bytes(bytes)));
        let mut message = Message::new("TensorProto", self.bytes, 0);
        while let Some(field) = message.next_field()? {
            if field.number == 4 {
                field.floats(|value| {
                    take(value);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// The elements of `N` bytes, as many as the dimensions say.
    fn elements<const N: usize>(&self) -> Result<&[[u8; N]]> {
        if let Some(elsewhere) = self.elsewhere {
            return Err(error(format!(
                "{}: its values are in {elsewhere}; values in raw_data are read",
                self.shown()
            )));
        }
        let num = self
            .dims
            .iter()
            .try_fold(1_usize, |product, &dim| product.checked_mul(usize::try_from(dim).ok()?));
        let (elements, rest) = self.raw_data.as_chunks();
        if num != Some(elements.len()) || !rest.is_empty() {
            return Err(error(format!(
                "{} has {} bytes for {:?} values of {} bytes",
                self.shown(),
                self.raw_data.len(),
                self.dims,
                N
            )));
        }
        Ok(elements)
    }

    fn shown(&self) -> String {
        let name = if self.name.is_empty() { "without a name" } else { self.name };
        format!("initializer {name}")
    }
}
