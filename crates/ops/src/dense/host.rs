//! Buffers of the host by number, for the references.

use half::f16;

use super::Region;
use det_post_types::{ElementType, Error, ErrorKind, Result};

/// Numbered buffers. Floats are held as f32; those of a buffer of f16 are rounded when they are
/// written.
#[derive(Clone, Debug, Default)]
pub struct HostArena {
    buffers: Vec<HostBuffer>,
}

/// The elements of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum HostBuffer {
    /// f32.
    F32(Vec<f32>),
    /// Values of f16.
    F16(Vec<f32>),
    /// Indices.
    I32(Vec<i32>),
}

impl HostBuffer {
    /// Zeros.
    ///
    /// # Errors
    /// `Argument` for other element types than f32, f16 and i32.
    pub fn zeros(element: ElementType, len: usize) -> Result<Self> {
        match element {
            ElementType::F32 => Ok(Self::F32(vec![0.0; len])),
            ElementType::F16 => Ok(Self::F16(vec![0.0; len])),
            ElementType::I32 => Ok(Self::I32(vec![0; len])),
            ElementType::I64 | ElementType::F64 | ElementType::I8 => {
                argument(format!("buffers have elements of f32, f16 or i32, not {element}"))
            }
        }
    }

    /// The element type.
    pub fn element(&self) -> ElementType {
        match self {
            Self::F32(_) => ElementType::F32,
            Self::F16(_) => ElementType::F16,
            Self::I32(_) => ElementType::I32,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) | Self::F16(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl HostArena {
    /// No buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer; its number.
    pub fn push(&mut self, buffer: HostBuffer) -> usize {
        self.buffers.push(buffer);
        self.buffers.len() - 1
    }

    /// A buffer.
    ///
    /// # Errors
    /// `Argument` when there is none of this number.
    pub fn buffer(&self, number: usize) -> Result<&HostBuffer> {
        self.buffers.get(number).ok_or_else(|| no_buffer(number, self.buffers.len()))
    }

    /// The element type of a buffer.
    ///
    /// # Errors
    /// `Argument` when there is none of this number.
    pub fn element(&self, number: usize) -> Result<ElementType> {
        self.buffer(number).map(HostBuffer::element)
    }

    fn checked(&self, region: &Region) -> Result<&HostBuffer> {
        let buffer = self.buffer(region.buffer)?;
        check_inside(region, buffer.len())?;
        Ok(buffer)
    }

    /// The floats of a window in row-major order.
    ///
    /// # Errors
    /// `Argument` when the window is not within its buffer, or this has indices.
    pub fn read(&self, region: &Region) -> Result<Vec<f32>> {
        let (HostBuffer::F32(values) | HostBuffer::F16(values)) = self.checked(region)? else {
            return argument(format!("buffer {} has i32, floats required", region.buffer));
        };
        let mut read = Vec::with_capacity(region.window.len());
        region.window.for_each_offset(|offset| read.push(values[offset]));
        Ok(read)
    }

    /// The indices of a window in row-major order.
    ///
    /// # Errors
    /// `Argument` when the window is not within its buffer, or this has floats.
    pub fn read_indices(&self, region: &Region) -> Result<Vec<i32>> {
        let HostBuffer::I32(values) = self.checked(region)? else {
            return argument(format!("buffer {} has floats, i32 required", region.buffer));
        };
        let mut read = Vec::with_capacity(region.window.len());
        region.window.for_each_offset(|offset| read.push(values[offset]));
        Ok(read)
    }

    /// Writes the floats of a window, in row-major order, rounded where the buffer has f16.
    ///
    /// # Errors
    /// `Argument` when the window is not within its buffer, has another number of values, or the
    /// buffer has indices.
    pub fn write(&mut self, region: &Region, from: &[f32]) -> Result<()> {
        self.checked(region)?;
        check_len(region, from.len())?;
        let mut from = from.iter().copied();
        let mut next = || from.next().unwrap_or_default();
        match &mut self.buffers[region.buffer] {
            HostBuffer::F32(values) => {
                region.window.for_each_offset(|offset| values[offset] = next());
            }
            HostBuffer::F16(values) => {
                region.window.for_each_offset(|offset| values[offset] = round_f16(next()));
            }
            HostBuffer::I32(_) => {
                return argument(format!("buffer {} has i32, floats required", region.buffer));
            }
        }
        Ok(())
    }

    /// Writes the indices of a window, in row-major order.
    ///
    /// # Errors
    /// `Argument` when the window is not within its buffer, has another number of values, or the
    /// buffer has floats.
    pub fn write_indices(&mut self, region: &Region, from: &[i32]) -> Result<()> {
        self.checked(region)?;
        check_len(region, from.len())?;
        let HostBuffer::I32(values) = &mut self.buffers[region.buffer] else {
            return argument(format!("buffer {} has floats, i32 required", region.buffer));
        };
        let mut from = from.iter().copied();
        region.window.for_each_offset(|offset| values[offset] = from.next().unwrap_or_default());
        Ok(())
    }
}

/// The value of f16 next to an f32.
pub fn round_f16(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}

/// Refuses a window that is not within a buffer of `len` elements.
pub(super) fn check_inside(region: &Region, len: usize) -> Result<()> {
    match region.window.end() {
        Some(end) if end <= len => Ok(()),
        _ => argument(format!(
            "a window of {:?} by {:?} from {} on is not within buffer {} of {len} elements",
            region.window.dims(),
            region.window.strides(),
            region.window.offset,
            region.buffer
        )),
    }
}

/// The error for a buffer that is not there.
pub(super) fn no_buffer(number: usize, num_buffers: usize) -> Error {
    let message = format!("there is no buffer {number}: there are {num_buffers}");
    Error::new(ErrorKind::Argument, "dense", message)
}

fn check_len(region: &Region, found: usize) -> Result<()> {
    if region.window.len() == found {
        return Ok(());
    }
    argument(format!("found {found} values for a window of {:?}", region.window.dims()))
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "dense", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Window;

    #[test]
    fn windows_are_read_and_written_in_their_order() {
        let mut arena = HostArena::new();
        let number = arena.push(HostBuffer::zeros(ElementType::F16, 12).unwrap());
        let window = Window::channels_last([1, 2, 1, 3], 4).unwrap();
        let region = Region { buffer: number, window };
        arena.write(&region, &[1.0, 2.0, 3.0, 1.0 / 3.0, 5.0, 6.0]).unwrap();
        let third = round_f16(1.0 / 3.0);
        let expected = [1.0, third, 0.0, 0.0, 2.0, 5.0, 0.0, 0.0, 3.0, 6.0, 0.0, 0.0];
        assert_eq!(arena.buffer(number).unwrap(), &HostBuffer::F16(expected.to_vec()));
        assert_eq!(arena.read(&region).unwrap(), [1.0, 2.0, 3.0, third, 5.0, 6.0]);
        assert!(arena.write(&region, &[1.0]).is_err());
        assert!(arena.read_indices(&region).is_err());
        let mut beyond = region;
        beyond.window.offset = 3;
        assert!(arena.read(&beyond).is_err());
        assert!(arena.read(&Region { buffer: 1, ..region }).is_err());
        let indices = arena.push(HostBuffer::zeros(ElementType::I32, 6).unwrap());
        let region = Region { buffer: indices, window: Window::contiguous(&[2, 3]).unwrap() };
        arena.write_indices(&region, &[1, -2, 3, 4, 5, 6]).unwrap();
        let turned = Region { window: region.window.permute(&[1, 0]).unwrap(), ..region };
        assert_eq!(arena.read_indices(&turned).unwrap(), [1, 4, -2, 5, 3, 6]);
        assert!(HostBuffer::zeros(ElementType::F64, 1).is_err());
    }
}
