//! Buffers in device memory by number, for the launches of a network.
//!
//! **Why windows may be lent for writing from `&self`.** Rust holds no reference into device
//! memory. What a launch reads and writes is checked in three places: [`Arena::input`] and
//! [`Arena::output`] lend only elements within a buffer; buffers do not share memory
//! ([`Arena::push`] refuses it); and [`check_disjoint`], which every launch of a dense operation
//! calls, refuses an output that overlaps an input or another output of the launch. Launches of
//! one stream follow each other, or wait for each other (`pdl::wait`); in a graph of steps, they
//! wait for those that the caller names ([`Graph::capture_steps`](crate::device::cuda::Graph::capture_steps)).

use half::f16;

use super::Region;
use super::host::{check_inside, no_buffer};
use crate::device::cuda::{DeviceBuffer, In, Out, Plain, Stream};
use det_post_types::{ElementType, Error, ErrorKind, Result};

/// Numbered buffers of one stream.
#[derive(Debug)]
pub struct Arena {
    stream: Stream,
    buffers: Vec<ArenaBuffer>,
}

/// The elements of a buffer.
#[derive(Debug)]
pub enum ArenaBuffer {
    /// f32.
    F32(DeviceBuffer<f32>),
    /// f16.
    F16(DeviceBuffer<f16>),
    /// Indices.
    I32(DeviceBuffer<i32>),
}

impl ArenaBuffer {
    /// Zeros.
    ///
    /// # Errors
    /// `Argument` for other element types than f32, f16 and i32; `Device` when there is not enough
    /// memory.
    pub fn zeros(stream: &Stream, element: ElementType, len: usize) -> Result<Self> {
        match element {
            ElementType::F32 => DeviceBuffer::zeros(stream, len).map(Self::F32),
            ElementType::F16 => DeviceBuffer::zeros(stream, len).map(Self::F16),
            ElementType::I32 => DeviceBuffer::zeros(stream, len).map(Self::I32),
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
            Self::F32(buffer) => buffer.len(),
            Self::F16(buffer) => buffer.len(),
            Self::I32(buffer) => buffer.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Addresses of the first byte and of the byte behind the last.
    fn addresses(&self) -> [u64; 2] {
        let (start, size) = match self {
            Self::F32(buffer) => (buffer.address(), 4),
            Self::F16(buffer) => (buffer.address(), 2),
            Self::I32(buffer) => (buffer.address(), 4),
        };
        [start, start + self.len() as u64 * size]
    }
}

/// The element types of buffers.
pub trait ArenaElement: Plain {
    /// The element type.
    const ELEMENT: ElementType;
}

impl ArenaElement for f32 {
    const ELEMENT: ElementType = ElementType::F32;
}

impl ArenaElement for f16 {
    const ELEMENT: ElementType = ElementType::F16;
}

impl ArenaElement for i32 {
    const ELEMENT: ElementType = ElementType::I32;
}

/// A window that a launch reads. Its slices begin at the window's first element and end behind its
/// last.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    region: Region,
    element: ElementType,
    bytes: In<'a, u8>,
}

/// A window that a launch writes. Its slices begin at the window's first element and end behind
/// its last.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    region: Region,
    element: ElementType,
    bytes: Out<'a, u8>,
}

impl<'a> Input<'a> {
    /// The window.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The element type.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The elements as bytes.
    pub fn bytes(&self) -> In<'a, u8> {
        self.bytes
    }

    /// The elements.
    ///
    /// # Errors
    /// `Argument` when they are of another type.
    pub fn values<T: ArenaElement>(&self) -> Result<In<'a, T>> {
        check_element::<T>(self.element)?;
        Ok(self.bytes.of())
    }
}

impl<'a> Output<'a> {
    /// The window.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The element type.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The elements as bytes.
    pub fn bytes(&self) -> Out<'a, u8> {
        self.bytes
    }

    /// The elements.
    ///
    /// # Errors
    /// `Argument` when they are of another type.
    pub fn values<T: ArenaElement>(&self) -> Result<Out<'a, T>> {
        check_element::<T>(self.element)?;
        Ok(self.bytes.of())
    }
}

impl Arena {
    /// No buffers.
    pub fn new(stream: &Stream) -> Self {
        Self { stream: stream.clone(), buffers: Vec::new() }
    }

    /// The stream of the buffers.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Adds a buffer; its number.
    ///
    /// # Errors
    /// `Device` when it belongs to another stream; `Argument` when another buffer of the arena has
    /// a part of its memory.
    pub fn push(&mut self, buffer: ArenaBuffer) -> Result<usize> {
        match &buffer {
            ArenaBuffer::F32(buffer) => drop(buffer.input(&self.stream)?),
            ArenaBuffer::F16(buffer) => drop(buffer.input(&self.stream)?),
            ArenaBuffer::I32(buffer) => drop(buffer.input(&self.stream)?),
        }
        let [start, end] = buffer.addresses();
        let shared = self.buffers.iter().map(ArenaBuffer::addresses);
        let shared =
            shared.enumerate().find(|(_, [other, other_end])| *other < end && start < *other_end);
        if let Some((number, _)) = shared {
            return argument(format!("the buffer shares memory with buffer {number}"));
        }
        self.buffers.push(buffer);
        Ok(self.buffers.len() - 1)
    }

    /// A buffer.
    ///
    /// # Errors
    /// `Argument` when there is none of this number.
    pub fn buffer(&self, number: usize) -> Result<&ArenaBuffer> {
        self.buffers.get(number).ok_or_else(|| no_buffer(number, self.buffers.len()))
    }

    /// A buffer, to be written from the host.
    ///
    /// # Errors
    /// `Argument` when there is none of this number.
    pub fn buffer_mut(&mut self, number: usize) -> Result<&mut ArenaBuffer> {
        let num_buffers = self.buffers.len();
        self.buffers.get_mut(number).ok_or_else(|| no_buffer(number, num_buffers))
    }

    /// A window for a launch to read.
    ///
    /// # Errors
    /// `Argument` when it is not within its buffer.
    pub fn input(&self, region: &Region) -> Result<Input<'_>> {
        let (buffer, [start, end]) = self.located(region)?;
        let stream = &self.stream;
        let bytes = match buffer {
            ArenaBuffer::F32(buffer) => buffer.input(stream)?.until(end).from(start).bytes(),
            ArenaBuffer::F16(buffer) => buffer.input(stream)?.until(end).from(start).bytes(),
            ArenaBuffer::I32(buffer) => buffer.input(stream)?.until(end).from(start).bytes(),
        };
        Ok(Input { region: *region, element: buffer.element(), bytes })
    }

    /// A window for a launch to write, which [`check_disjoint`] compares with the launch's others.
    ///
    /// # Errors
    /// `Argument` when it is not within its buffer, or names an element twice.
    pub fn output(&self, region: &Region) -> Result<Output<'_>> {
        let (buffer, [start, end]) = self.located(region)?;
        let mut pairs = region.window.dims().iter().zip(region.window.strides());
        if pairs.any(|(dim, stride)| *dim > 1 && *stride == 0) {
            return argument(format!("an output of {:?} repeats elements", region.window.dims()));
        }
        let stream = &self.stream;
        let bytes = match buffer {
            ArenaBuffer::F32(buffer) => buffer.shared_output(stream)?.range(start, end).bytes(),
            ArenaBuffer::F16(buffer) => buffer.shared_output(stream)?.range(start, end).bytes(),
            ArenaBuffer::I32(buffer) => buffer.shared_output(stream)?.range(start, end).bytes(),
        };
        Ok(Output { region: *region, element: buffer.element(), bytes })
    }

    /// The buffer of a window, and the window's first and last element.
    fn located(&self, region: &Region) -> Result<(&ArenaBuffer, [usize; 2])> {
        let buffer = self.buffer(region.buffer)?;
        check_inside(region, buffer.len())?;
        let start = region.window.offset;
        Ok((buffer, [start, start + region.window.extent()]))
    }
}

/// Whether a launch may write a window that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// Never.
    Refused,
    /// Where input and output are the same window of the same buffer: each value is read by the
    /// thread that writes it, before it does.
    SameWindow,
}

/// Refuses a launch whose outputs overlap each other or its inputs.
///
/// # Errors
/// `Argument` with the two windows.
pub fn check_disjoint(
    operation: &'static str,
    outputs: &[&Output<'_>],
    inputs: &[&Input<'_>],
    in_place: InPlace,
) -> Result<()> {
    let overlap = |a: &Region, b: &Region| a.buffer == b.buffer && a.window.overlaps(&b.window);
    for (at, output) in outputs.iter().enumerate() {
        let others = outputs[..at].iter().map(|other| &other.region);
        let inputs = inputs.iter().map(|input| &input.region);
        let inputs =
            inputs.filter(|input| in_place == InPlace::Refused || **input != output.region);
        if let Some(other) = others.chain(inputs).find(|other| overlap(&output.region, other)) {
            let message = format!("{operation}: the output {:?} overlaps {other:?}", output.region);
            return Err(Error::new(ErrorKind::Argument, "dense", message));
        }
    }
    Ok(())
}

fn check_element<T: ArenaElement>(found: ElementType) -> Result<()> {
    if found == T::ELEMENT {
        return Ok(());
    }
    argument(format!("elements of {found}, {} required", T::ELEMENT))
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "dense", message))
}
