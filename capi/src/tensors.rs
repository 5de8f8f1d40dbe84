//! Bytes and tensors in the memory of the caller.

use det_post_types::{
    ElementType, MAX_RANK, Span, TensorEntries, TensorEntry, TensorType, TensorValues, TensorView,
};

use det_post::{Error, ErrorKind, Result as Checked};

use super::call::{Call, In, Text};
use super::frame::Input;
use super::status::Failure;

/// Bytes in host memory or, where stated, in the memory of a GPU.
#[repr(C)]
pub struct Bytes {
    /// The first byte.
    pub data: In<u8>,
    /// Their number.
    pub num_bytes: usize,
}

/// A tensor: dense, row-major, little-endian.
#[repr(C)]
pub struct Tensor {
    /// Name in the network.
    pub name: Text,
    /// Type of the elements: 1 to 10 for int8, uint8, int16, uint16, int32, uint32, int64,
    /// uint64, float32, float64; for decoders also 11 for float16.
    pub element: u32,
    /// Number of dimensions, up to 8.
    pub rank: u32,
    /// Lengths of the dimensions.
    pub shape: In<usize>,
    /// The elements.
    pub bytes: Bytes,
}

/// `tensor.element` of float16.
const FLOAT16: u32 = 11;

/// The tensors of a frame in one piece of memory, which grows to the largest frame.
#[derive(Default)]
pub(super) struct TensorMemory {
    bytes: Vec<u8>,
}

impl TensorMemory {
    /// Discards the tensors of the frame before.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The bytes that entries name.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Copies the tensors of an input behind those of the inputs before it.
    pub(super) fn add(&mut self, call: &Call, input: &Input) -> Result<TensorEntries, Failure> {
        let mut entries = TensorEntries::default();
        for tensor in call.slice(input.tensors, input.num_tensors, "tensors")? {
            let name = call.text(tensor.name, "tensor.name")?;
            let found = i32::try_from(tensor.element).ok().and_then(TensorType::from_number);
            let element = found.ok_or_else(|| {
                Failure::argument(format!("tensor {name}: element {} is not known", tensor.element))
            })?;
            let rank = tensor.rank as usize;
            if rank > MAX_RANK {
                let message =
                    format!("tensor {name}: {rank} dimensions exceed the limit of {MAX_RANK}");
                return Err(Failure::argument(message));
            }
            let mut dims = [0; MAX_RANK];
            dims[..rank].copy_from_slice(call.slice(tensor.shape, rank, "tensor.shape")?);
            let (name, data) = (self.push(name.as_bytes()), self.push(tensor.bytes.read(call)?));
            entries.push(TensorEntry { name, data, element, dims, rank })?;
        }
        Ok(entries)
    }

    fn push(&mut self, bytes: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Span { start, len: bytes.len() }
    }
}

impl Bytes {
    pub(super) fn read<'call>(&self, call: &'call Call) -> Result<&'call [u8], Failure> {
        call.slice(self.data, self.num_bytes, "bytes.data")
    }
}

impl Tensor {
    /// As [`Self::on_device`], of floats.
    pub(super) fn floats_on_device<'call>(
        &self,
        call: &'call Call,
    ) -> Checked<(ElementType, &'call [usize], u64)> {
        match self.on_device(call)? {
            (ElementType::I8, ..) => Err(Error::new(
                ErrorKind::Argument,
                "decode",
                "tensor.element on a GPU must be 9 or 11, found 1",
            )),
            floats => Ok(floats),
        }
    }

    /// Type, shape and address of floats or int8 in the memory of a GPU.
    pub(super) fn on_device<'call>(
        &self,
        call: &'call Call,
    ) -> Checked<(ElementType, &'call [usize], u64)> {
        let refuse = |message| Error::new(ErrorKind::Argument, "decode", message);
        let shape = call.slice(self.shape, self.rank as usize, "tensor.shape");
        let shape = shape.map_err(|_| refuse("tensor.shape is NULL".to_owned()))?;
        let (element, size) = match self.element {
            1 => (ElementType::I8, 1),
            9 => (ElementType::F32, 4),
            FLOAT16 => (ElementType::F16, 2),
            other => {
                let message = format!(
                    "tensor.element on a GPU must be 9 or 11 (of feature maps also 1), found {other}"
                );
                return Err(refuse(message));
            }
        };
        let num_bytes = shape.iter().try_fold(size, |num: usize, &side| num.checked_mul(side));
        let num_bytes = num_bytes
            .ok_or_else(|| refuse(format!("the tensor {shape:?} is larger than memory")))?;
        if self.bytes.num_bytes != num_bytes {
            let found = self.bytes.num_bytes;
            return Err(refuse(format!("the tensor has {found} bytes, its shape {num_bytes}")));
        }
        if self.bytes.data.is_null() && num_bytes != 0 {
            return Err(refuse("tensor.bytes.data is NULL".to_owned()));
        }
        Ok((element, shape, self.bytes.data.number()))
    }

    /// A checked view of floats or integers, for decoders.
    pub(super) fn view<'call>(&self, call: &'call Call) -> Result<TensorView<'call>, Failure> {
        let shape = call.slice(self.shape, self.rank as usize, "tensor.shape")?;
        let Bytes { data, num_bytes } = self.bytes;
        let name = "tensor.bytes.data";
        let (values, size) = match self.element {
            1 => (TensorValues::I8(call.slice(data.cast(), num_bytes, name)?), 1),
            5 => (TensorValues::I32(call.slice(data.cast(), num_bytes / 4, name)?), 4),
            7 => (TensorValues::I64(call.slice(data.cast(), num_bytes / 8, name)?), 8),
            9 => (TensorValues::F32(call.slice(data.cast(), num_bytes / 4, name)?), 4),
            10 => (TensorValues::F64(call.slice(data.cast(), num_bytes / 8, name)?), 8),
            FLOAT16 => (TensorValues::F16(call.slice(data.cast(), num_bytes / 2, name)?), 2),
            other => {
                let message = format!("tensor.element {other} is not one that decoders take");
                return Err(Failure::argument(message));
            }
        };
        if num_bytes % size != 0 {
            let message = format!("{num_bytes} bytes of a tensor, whose elements have {size}");
            return Err(Failure::argument(message));
        }
        Ok(TensorView::new(shape, values)?)
    }
}
