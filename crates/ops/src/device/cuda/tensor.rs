//! Tensors in device memory.

use std::ops::Range;

use half::f16;

use super::{DeviceBuffer, In, PinnedBuffer, Plain, Stream};
use det_post_types::{ElementType, Error, ErrorKind, Result, Tensor, TensorValues, TensorView};

/// A tensor of floats or int8 in device memory: dense, row-major.
#[derive(Debug)]
pub struct DeviceTensor {
    shape: Vec<usize>,
    values: DeviceValues,
}

/// The values of a [`DeviceTensor`].
#[derive(Debug)]
pub enum DeviceValues {
    /// 32-bit floats.
    F32(DeviceBuffer<f32>),
    /// 16-bit floats.
    F16(DeviceBuffer<f16>),
    /// 8-bit signed integers.
    I8(DeviceBuffer<i8>),
}

/// The element types of a [`DeviceTensor`].
pub trait DeviceFloat: Plain {
    /// The element type.
    const ELEMENT: ElementType;

    /// The values, if they are of this type.
    fn values(values: &DeviceValues) -> Option<&DeviceBuffer<Self>>;
}

impl DeviceFloat for f32 {
    const ELEMENT: ElementType = ElementType::F32;

    fn values(values: &DeviceValues) -> Option<&DeviceBuffer<Self>> {
        if let DeviceValues::F32(values) = values { Some(values) } else { None }
    }
}

impl DeviceFloat for f16 {
    const ELEMENT: ElementType = ElementType::F16;

    fn values(values: &DeviceValues) -> Option<&DeviceBuffer<Self>> {
        if let DeviceValues::F16(values) = values { Some(values) } else { None }
    }
}

impl DeviceFloat for i8 {
    const ELEMENT: ElementType = ElementType::I8;

    fn values(values: &DeviceValues) -> Option<&DeviceBuffer<Self>> {
        if let DeviceValues::I8(values) = values { Some(values) } else { None }
    }
}

impl DeviceTensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// `Argument` for an element type that is neither a float nor int8, or a shape whose
    /// product overflows; `Device` when there is not enough memory.
    pub fn zeros(stream: &Stream, element: ElementType, shape: &[usize]) -> Result<Self> {
        let num = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
        let values = match (element, num) {
            (ElementType::F32, Some(num)) => DeviceValues::F32(DeviceBuffer::zeros(stream, num)?),
            (ElementType::F16, Some(num)) => DeviceValues::F16(DeviceBuffer::zeros(stream, num)?),
            (ElementType::I8, Some(num)) => DeviceValues::I8(DeviceBuffer::zeros(stream, num)?),
            _ => {
                let message = format!("a device tensor of {element} {shape:?} is not supported");
                return Err(Error::new(ErrorKind::Argument, "device", message));
            }
        };
        Ok(Self { shape: shape.to_vec(), values })
    }

    /// A tensor of this shape with these values.
    ///
    /// # Errors
    /// `Argument` when the number of values is not the product of the shape.
    pub fn of(shape: &[usize], values: DeviceValues) -> Result<Self> {
        let tensor = Self { shape: shape.to_vec(), values };
        let found = match &tensor.values {
            DeviceValues::F32(values) => values.len(),
            DeviceValues::F16(values) => values.len(),
            DeviceValues::I8(values) => values.len(),
        };
        match shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim)) {
            Some(num) if num == found => Ok(tensor),
            _ => {
                let message = format!("{found} values do not match a tensor of {shape:?}");
                Err(Error::new(ErrorKind::Argument, "device", message))
            }
        }
    }

    /// Lengths of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The address of the values, for a library that queues work of its own. The
    /// memory is valid as long as the tensor's stream.
    pub fn address(&self) -> u64 {
        match &self.values {
            DeviceValues::F32(values) => values.address(),
            DeviceValues::F16(values) => values.address(),
            DeviceValues::I8(values) => values.address(),
        }
    }

    /// Type of the values.
    pub fn element(&self) -> ElementType {
        match &self.values {
            DeviceValues::F32(_) => ElementType::F32,
            DeviceValues::F16(_) => ElementType::F16,
            DeviceValues::I8(_) => ElementType::I8,
        }
    }

    /// Bytes of all values.
    pub fn num_bytes(&self) -> usize {
        match &self.values {
            DeviceValues::F32(values) => size_of::<f32>() * values.len(),
            DeviceValues::F16(values) => size_of::<f16>() * values.len(),
            DeviceValues::I8(values) => values.len(),
        }
    }

    /// The values of element type `T`, for a kernel on `stream` to read.
    ///
    /// # Errors
    /// `Argument` for a tensor of another element type; `Device` when it belongs to
    /// another stream.
    pub fn input<T: DeviceFloat>(&self, stream: &Stream) -> Result<In<'_, T>> {
        let values = T::values(&self.values).ok_or_else(|| {
            let (found, shape, expected) = (self.element(), &self.shape, T::ELEMENT);
            let message = format!("a tensor of {found} {shape:?}; {expected} expected");
            Error::new(ErrorKind::Argument, "device", message)
        })?;
        values.input(stream)
    }

    /// The values.
    pub fn values(&self) -> &DeviceValues {
        &self.values
    }

    /// The values, to be written by a kernel.
    pub fn values_mut(&mut self) -> &mut DeviceValues {
        &mut self.values
    }

    /// Copies a tensor of this shape from the host and waits: for setup and tests,
    /// not for frames.
    ///
    /// # Errors
    /// `Argument` when the tensor has another shape or element type; `Device`
    /// when the copy fails.
    pub fn write(&mut self, tensor: &TensorView<'_>) -> Result<()> {
        match (&mut self.values, tensor.values()) {
            _ if self.shape != tensor.shape() => {}
            (DeviceValues::F32(to), TensorValues::F32(from)) => return to.write(from),
            (DeviceValues::F16(to), TensorValues::F16(from)) => return to.write(from),
            (DeviceValues::I8(to), TensorValues::I8(from)) => return to.write(from),
            _ => {}
        }
        let (found, element) = (tensor.shape(), tensor.values().element());
        let message = format!(
            "{element} {found:?} for a device tensor of {} {:?}",
            self.element(),
            self.shape
        );
        Err(Error::new(ErrorKind::Argument, "device", message))
    }

    /// Queues setting all values to 0.
    ///
    /// # Errors
    /// `Device` when that fails.
    pub fn enqueue_clear(&mut self) -> Result<()> {
        match &mut self.values {
            DeviceValues::F32(values) => values.enqueue_clear(),
            DeviceValues::F16(values) => values.enqueue_clear(),
            DeviceValues::I8(values) => values.enqueue_clear(),
        }
    }

    /// Queues a copy of the first values of `source`, as many as both have.
    ///
    /// # Errors
    /// `Argument` for a tensor of another element type; `Device` when it belongs to another
    /// stream or the copy fails.
    pub fn enqueue_copy(&mut self, source: &DeviceTensor) -> Result<()> {
        match (&mut self.values, &source.values) {
            (DeviceValues::F32(to), DeviceValues::F32(from)) => to.enqueue_copy(from),
            (DeviceValues::F16(to), DeviceValues::F16(from)) => to.enqueue_copy(from),
            (DeviceValues::I8(to), DeviceValues::I8(from)) => to.enqueue_copy(from),
            _ => Err(unlike(&self.shape, source.element(), &source.shape)),
        }
    }

    /// Queues a copy of values from the same places of `source`.
    ///
    /// # Errors
    /// `Argument` for a tensor of another element type or values beyond the end of either;
    /// `Device` when it belongs to another stream or the copy fails.
    pub fn enqueue_copy_range(&mut self, values: Range<usize>, source: &Self) -> Result<()> {
        match (&mut self.values, &source.values) {
            (DeviceValues::F32(to), DeviceValues::F32(from)) => to.enqueue_copy_range(values, from),
            (DeviceValues::F16(to), DeviceValues::F16(from)) => to.enqueue_copy_range(values, from),
            (DeviceValues::I8(to), DeviceValues::I8(from)) => to.enqueue_copy_range(values, from),
            _ => Err(unlike(&self.shape, source.element(), &source.shape)),
        }
    }

    /// Waits, then copies a tensor of floats to new host memory: for tests, not for frames.
    ///
    /// # Errors
    /// `Argument` for int8, whose buffer reads itself; `Device` when earlier work or the copy fails.
    pub fn read(&self) -> Result<Tensor> {
        let shape = self.shape.clone();
        Ok(match &self.values {
            DeviceValues::F32(values) => Tensor::F32 { shape, values: values.read()? },
            DeviceValues::F16(values) => Tensor::F16 { shape, values: values.read()? },
            DeviceValues::I8(_) => {
                let message = format!("a tensor of i8 {shape:?} is not one of floats");
                return Err(Error::new(ErrorKind::Argument, "device", message));
            }
        })
    }
}

/// Page-locked host memory for copies of a tensor of one shape and element type
/// between host and device.
#[derive(Debug)]
pub struct PinnedTensor {
    shape: Vec<usize>,
    values: PinnedValues,
}

#[derive(Debug)]
enum PinnedValues {
    F32(PinnedBuffer<f32>),
    F16(PinnedBuffer<f16>),
    I8(PinnedBuffer<i8>),
}

impl PinnedTensor {
    /// Memory for tensors with the shape and element type of `tensor`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn like(stream: &Stream, tensor: &DeviceTensor) -> Result<Self> {
        let values = match &tensor.values {
            DeviceValues::F32(v) => PinnedValues::F32(PinnedBuffer::zeros(stream, v.len())?),
            DeviceValues::F16(v) => PinnedValues::F16(PinnedBuffer::zeros(stream, v.len())?),
            DeviceValues::I8(v) => PinnedValues::I8(PinnedBuffer::zeros(stream, v.len())?),
        };
        Ok(Self { shape: tensor.shape.clone(), values })
    }

    /// Queues a copy of a tensor to this memory, waits, and returns it.
    ///
    /// # Errors
    /// `Argument` when the tensor has another shape or element type; `Device` when
    /// earlier work or the copy fails.
    pub fn download(&mut self, source: &DeviceTensor) -> Result<TensorView<'_>> {
        self.check(source.element(), &source.shape)?;
        let values = match (&mut self.values, &source.values) {
            (PinnedValues::F32(to), DeviceValues::F32(from)) => {
                TensorValues::F32(to.download(from)?)
            }
            (PinnedValues::F16(to), DeviceValues::F16(from)) => {
                TensorValues::F16(to.download(from)?)
            }
            (PinnedValues::I8(to), DeviceValues::I8(from)) => TensorValues::I8(to.download(from)?),
            _ => return Err(unlike(&self.shape, source.element(), &source.shape)),
        };
        TensorView::new(&self.shape, values)
    }

    /// Queues a copy of a tensor to this memory. [`PinnedTensor::view`] waits for it.
    ///
    /// # Errors
    /// `Argument` when the tensor has another shape or element type; `Device` when the copy
    /// fails.
    pub fn enqueue_download(&mut self, source: &DeviceTensor) -> Result<()> {
        self.check(source.element(), &source.shape)?;
        match (&mut self.values, &source.values) {
            (PinnedValues::F32(to), DeviceValues::F32(from)) => to.enqueue_download(from),
            (PinnedValues::F16(to), DeviceValues::F16(from)) => to.enqueue_download(from),
            (PinnedValues::I8(to), DeviceValues::I8(from)) => to.enqueue_download(from),
            _ => Err(unlike(&self.shape, source.element(), &source.shape)),
        }
    }

    /// The values, after the previous copy.
    ///
    /// # Errors
    /// `Device` when earlier work fails.
    pub fn view(&self) -> Result<TensorView<'_>> {
        let values = match &self.values {
            PinnedValues::F32(values) => TensorValues::F32(values.values(values.capacity())?),
            PinnedValues::F16(values) => TensorValues::F16(values.values(values.capacity())?),
            PinnedValues::I8(values) => TensorValues::I8(values.values(values.capacity())?),
        };
        TensorView::new(&self.shape, values)
    }

    /// Copies values to this memory, after the previous upload has read it, and
    /// queues their upload.
    ///
    /// # Errors
    /// `Argument` when either side has another shape or element type; `Device` when
    /// earlier work or the upload fails.
    pub fn enqueue_upload(
        &mut self,
        values: TensorView<'_>,
        target: &mut DeviceTensor,
    ) -> Result<()> {
        self.check(values.values().element(), values.shape())?;
        self.check(target.element(), &target.shape)?;
        match (&mut self.values, values.values(), &mut target.values) {
            (PinnedValues::F32(through), TensorValues::F32(from), DeviceValues::F32(to)) => {
                through.enqueue_upload(from, to)
            }
            (PinnedValues::F16(through), TensorValues::F16(from), DeviceValues::F16(to)) => {
                through.enqueue_upload(from, to)
            }
            (PinnedValues::I8(through), TensorValues::I8(from), DeviceValues::I8(to)) => {
                through.enqueue_upload(from, to)
            }
            _ => Err(unlike(&self.shape, target.element(), &target.shape)),
        }
    }

    fn check(&self, element: ElementType, shape: &[usize]) -> Result<()> {
        let own = match &self.values {
            PinnedValues::F32(_) => ElementType::F32,
            PinnedValues::F16(_) => ElementType::F16,
            PinnedValues::I8(_) => ElementType::I8,
        };
        if own == element && self.shape == shape {
            return Ok(());
        }
        Err(unlike(&self.shape, element, shape))
    }
}

/// The error of an operation on floats for a tensor of int8.
pub(crate) fn not_floats() -> Error {
    Error::new(ErrorKind::Argument, "device", "a tensor of i8; f32 or f16 expected")
}

fn unlike(own: &[usize], element: ElementType, shape: &[usize]) -> Error {
    let message = format!("{element} {shape:?} does not fit page-locked memory of {own:?}");
    Error::new(ErrorKind::Argument, "device", message)
}
