//! Features in device memory.

use super::Precision;
use super::kernels::{BF16_PARTS, F16_PARTS, ZERO_BYTES};
use super::pack::row_len;
use crate::device::cuda::{DeviceBuffer, Stream};
use det_post_types::{Error, ErrorKind, Result};

/// Rows of features of the sites of a level in device memory, each padded with zeros to
/// 16 values or a multiple of 32.
///
/// The memory may hold features of other levels and widths at other times; what it holds
/// is stated where it is used.
#[derive(Debug)]
pub struct DeviceFeatures {
    /// Zeros, which stand for absent rows, then rows.
    pub(crate) bytes: DeviceBuffer<u8>,
    pub(super) precision: Precision,
}

impl DeviceFeatures {
    /// Memory for `len` values of rows, of [`Self::row_len`] each.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn new(stream: &Stream, precision: Precision, len: usize) -> Result<Self> {
        let num_bytes = len.saturating_mul(element_bytes(precision)).saturating_add(ZERO_BYTES);
        Ok(Self { bytes: DeviceBuffer::zeros(stream, num_bytes)?, precision })
    }

    /// Rows in memory of any owner, of [`Self::num_bytes_for`]; undefined until they are written
    /// by [`sparse_arrays`](crate::arrays::sparse) or a convolution.
    ///
    /// # Errors
    /// `Argument` when there is not even memory for no rows.
    pub fn in_memory(bytes: DeviceBuffer<u8>, precision: Precision) -> Result<Self> {
        if bytes.len() < ZERO_BYTES {
            let message = format!("{} bytes, at least {ZERO_BYTES} are required", bytes.len());
            return Err(Error::new(ErrorKind::Argument, "sparse_conv", message));
        }
        Ok(Self { bytes, precision })
    }

    /// Bytes of [`Self::in_memory`] for rows of so many channels.
    pub fn num_bytes_for(num_rows: usize, num_channels: usize, precision: Precision) -> usize {
        let row_bytes = row_len(num_channels) * element_bytes(precision);
        num_rows.saturating_mul(row_bytes).saturating_add(ZERO_BYTES)
    }

    /// Values of a row of so many channels.
    pub fn row_len(num_channels: usize) -> usize {
        row_len(num_channels)
    }

    /// Values of a row of the input of a network: in 16 bits it holds every channel two or
    /// three times, as parts of a sum, so that coordinates keep their places.
    pub fn input_row_len(num_channels: usize, precision: Precision) -> usize {
        row_len(num_channels * num_parts(precision))
    }

    /// How values are stored.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is memory for so many rows of so many padded values.
    pub(crate) fn holds(&self, num_rows: usize, row_len: usize) -> bool {
        let row_bytes = row_len * element_bytes(self.precision);
        num_rows.saturating_mul(row_bytes) <= self.bytes.len() - ZERO_BYTES
    }

    /// Waits, then copies the first `num_rows` rows of `num_channels` to the host: for
    /// tests.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read(&self, num_rows: usize, num_channels: usize) -> Result<Vec<f32>> {
        let bytes = self.bytes.read()?;
        let row_bytes = row_len(num_channels) * element_bytes(self.precision);
        let rows = bytes[ZERO_BYTES..].chunks_exact(row_bytes).take(num_rows);
        let value = |bytes: &[u8]| match (self.precision, bytes) {
            (Precision::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f32(),
            (Precision::Bf16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f32(),
            (_, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            _ => f32::NAN,
        };
        let size = element_bytes(self.precision);
        Ok(rows.flat_map(|row| row.chunks_exact(size).take(num_channels).map(value)).collect())
    }

    /// Copies rows of `num_channels` from the host and waits: for tests.
    ///
    /// # Errors
    /// `Argument` when there are more than fit; `Device` when the copy fails.
    pub fn write(&mut self, values: &[f32], num_channels: usize) -> Result<()> {
        let mut bytes = vec![0; ZERO_BYTES];
        for row in values.chunks_exact(num_channels) {
            let padding = std::iter::repeat_n(&0.0, row_len(num_channels) - num_channels);
            for &value in row.iter().chain(padding) {
                match self.precision {
                    Precision::F16 => bytes.extend(half::f16::from_f32(value).to_le_bytes()),
                    Precision::Bf16 => bytes.extend(half::bf16::from_f32(value).to_le_bytes()),
                    Precision::F32 | Precision::Tf32 => bytes.extend(value.to_le_bytes()),
                }
            }
        }
        self.bytes.write(&bytes)
    }
}

/// How many parts of a sum a value of the input is stored as.
pub(super) fn num_parts(precision: Precision) -> usize {
    match precision {
        Precision::F32 | Precision::Tf32 => 1,
        Precision::F16 => F16_PARTS as usize,
        Precision::Bf16 => BF16_PARTS as usize,
    }
}

/// Bytes of a stored value.
pub(super) fn element_bytes(precision: Precision) -> usize {
    match precision {
        Precision::F32 | Precision::Tf32 => 4,
        Precision::F16 | Precision::Bf16 => 2,
    }
}
