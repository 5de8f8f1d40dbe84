//! Device memory and page-locked host memory.
//!
//! Every buffer has a fixed capacity, is zeroed and belongs to the stream that it
//! was allocated on; its memory is freed when the stream and all its handles are
//! dropped, or before ([`Stream::with_own_memory`]). Memory of other libraries is used
//! in place by [`DeviceBuffer::borrow`]. There are no references into memory that the
//! GPU may write: values are copied in and out.

mod borrowed;
mod host;
mod host_address;
mod page_locked;
mod part;
mod payload;
mod pointer;
mod upload_scope;

use std::marker::PhantomData;
use std::ops::Range;

pub use borrowed::BUFFER_ALIGNMENT;
pub(crate) use borrowed::Rows;
use cudarc::driver::result;
use det_post_kernels::{Field, Kind, Struct};
use half::f16;
pub use host::{MappedBuffer, PinnedBuffer};
pub use page_locked::PageLocked;
pub use payload::{DevicePayload, TAIL_BYTES, TransferBytes};
pub use upload_scope::{InPlaceUploads, UploadScope};

use super::{Mirror, Stream, error, failed, rust_field};
use det_post_types::{Error, ErrorKind, Result};

/// Bytes that a thread loads or stores at once, at most; their address is a multiple of it.
pub const VECTOR_BYTES: u64 = 16;

/// Values that can be copied as bytes.
///
/// # Safety
/// The type has no padding, no pointer, and every bit pattern is a value.
pub unsafe trait Plain: Mirror + Copy + Default + 'static {}

macro_rules! plain {
    ($($type:ty: $why:literal),* $(,)?) => {$(
        const _: &str = $why;
        // SAFETY: see the reason beside the type.
        unsafe impl Plain for $type {}
    )*};
}

plain! {
    u8: "a number",
    i8: "a number",
    u32: "a number",
    u64: "a number",
    i32: "a number",
    f32: "a number",
    f16: "a number",
    [f32; 2]: "numbers without gaps",
    [f32; 4]: "numbers without gaps",
    [u32; 2]: "numbers without gaps",
    [u32; 4]: "numbers without gaps",
}

/// A slice in device memory that a kernel reads.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct In<'a, T> {
    data: u64,
    len: u64,
    memory: PhantomData<&'a T>,
}

/// A slice in memory that a kernel may write.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Out<'a, T> {
    data: u64,
    len: u64,
    memory: PhantomData<&'a T>,
}

const _: () = {
    let slice = det_post_kernels::struct_fields!("shared/slice.cuh", "Slice", In<'_, f32>, f32);
    slice.compare(16, 8, "Slice in kernels/shared/slice.cuh has other fields than In");
    let slice = det_post_kernels::struct_fields!("shared/slice.cuh", "Slice", Out<'_, f32>, f32);
    slice.compare(16, 8, "Slice in kernels/shared/slice.cuh has other fields than Out");
};

impl<T: Mirror> Mirror for In<'_, T> {
    const KIND: Kind = Kind::In(&T::KIND);
}

impl<T: Mirror> Mirror for Out<'_, T> {
    const KIND: Kind = Kind::Out(&T::KIND);
}

impl<T> In<'_, T> {
    /// No values.
    pub fn empty() -> Self {
        Self { data: 0, len: 0, memory: PhantomData }
    }

    /// `len` values that kernels can read, for as long as the borrow lasts.
    fn at(data: u64, len: u64) -> Self {
        Self { data, len, memory: PhantomData }
    }

    /// Whether another slice begins where this one does.
    pub fn begins_with(&self, other: &Self) -> bool {
        self.data == other.data
    }

    /// Whether the address is a multiple of a number of bytes.
    pub fn is_aligned_to(&self, num_bytes: u64) -> bool {
        self.data.is_multiple_of(num_bytes)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<'a, T: Plain> In<'a, T> {
    /// The values from `start` on; none when there are fewer.
    pub fn from(self, start: usize) -> Self {
        let start = (start as u64).min(self.len);
        Self { data: self.data + start * size_of::<T>() as u64, len: self.len - start, ..self }
    }

    /// The values before `end`; all when there are fewer.
    pub fn until(self, end: usize) -> Self {
        Self { len: self.len.min(end as u64), ..self }
    }

    /// The values as bytes.
    pub fn bytes(self) -> In<'a, u8> {
        In { data: self.data, len: self.len * size_of::<T>() as u64, memory: PhantomData }
    }
}

impl<'a> In<'a, u32> {
    /// The values in fours; up to three at the end are left out.
    pub fn in_fours(self) -> In<'a, [u32; 4]> {
        In { data: self.data, len: self.len / 4, memory: PhantomData }
    }
}

/// Alignment of the slices that [`Out::carve`] and [`DeviceBuffer::carve`] make.
const CARVED_ALIGNMENT: usize = 256;

impl<'a> Out<'a, u8> {
    /// Splits `len` values, at an alignment of 256 bytes, off the start of a buffer.
    ///
    /// # Errors
    /// `Argument` when fewer bytes than [`Out::num_carved_bytes`] are left.
    pub fn carve<T: Plain>(&mut self, len: usize) -> Result<Out<'a, T>> {
        let num_bytes = Out::<T>::num_carved_bytes(len);
        check_capacity("device", num_bytes, self.len())?;
        let carved = Out { data: self.data, len: len as u64, memory: PhantomData };
        self.data += num_bytes as u64;
        self.len -= num_bytes as u64;
        Ok(carved)
    }
}

impl<T: Plain> Out<'_, T> {
    /// The values before `middle`, and those from there on; none when there are fewer.
    pub fn split_at(self, middle: usize) -> [Self; 2] {
        let middle = (middle as u64).min(self.len);
        let address = self.data + middle * size_of::<T>() as u64;
        [Self { len: middle, ..self }, Self { data: address, len: self.len - middle, ..self }]
    }
}

impl<T> Out<'_, T> {
    /// No values.
    pub fn empty() -> Self {
        Self { data: 0, len: 0, memory: PhantomData }
    }

    /// Whether the address is a multiple of a number of bytes.
    pub fn is_aligned_to(&self, num_bytes: u64) -> bool {
        self.data.is_multiple_of(num_bytes)
    }

    /// Bytes that [`Out::carve`] takes for `len` values.
    pub fn num_carved_bytes(len: usize) -> usize {
        let num_bytes = len.checked_mul(size_of::<T>());
        let aligned = num_bytes.and_then(|num| num.checked_next_multiple_of(CARVED_ALIGNMENT));
        // More than any buffer holds, so that carving is refused.
        aligned.unwrap_or(usize::MAX)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Values in device memory.
#[derive(Debug)]
pub struct DeviceBuffer<T> {
    address: u64,
    len: usize,
    stream: Stream,
    values: PhantomData<T>,
}

impl<T: Plain> DeviceBuffer<T> {
    /// Allocates memory for `len` values on a stream, all zero.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn zeros(stream: &Stream, len: usize) -> Result<Self> {
        let num_bytes = num_bytes::<T>(len)?;
        stream.bind()?;
        // SAFETY: no precondition but a current context, which `bind` made.
        let address = unsafe { result::malloc_sync(num_bytes) }
            .map_err(|e| failed(&format!("allocate {num_bytes} bytes of device memory"), e))?;
        stream.own_device_memory(address);
        // SAFETY: the allocation above has this many bytes and is not in use.
        unsafe { result::memset_d8_async(address, 0, num_bytes, stream.raw()) }
            .map_err(|e| failed("clear device memory", e))?;
        Ok(Self { address, len, stream: stream.clone(), values: PhantomData })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the values, for a library that queues work of its own. The memory is
    /// valid as long as the buffer's stream.
    pub fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The slice that a kernel on `stream` reads.
    ///
    /// # Errors
    /// `Device` when the buffer belongs to another stream.
    pub fn input(&self, stream: &Stream) -> Result<In<'_, T>> {
        stream.check_owns(&self.stream)?;
        Ok(In { data: self.address, len: self.len as u64, memory: PhantomData })
    }

    /// The slice that a kernel on `stream` may write.
    ///
    /// # Errors
    /// `Device` when the buffer belongs to another stream.
    pub fn output(&mut self, stream: &Stream) -> Result<Out<'_, T>> {
        stream.check_owns(&self.stream)?;
        Ok(Out { data: self.address, len: self.len as u64, memory: PhantomData })
    }

    /// Copies values to the start of the buffer and waits: for settings and
    /// tests, not for frames.
    ///
    /// # Errors
    /// `Argument` when there are more values than the buffer holds; `Device` when the
    /// copy fails.
    pub fn write(&mut self, values: &[T]) -> Result<()> {
        check_capacity("device", values.len(), self.len)?;
        self.stream.bind()?;
        // SAFETY: the buffer is large enough for the values (checked); they live
        // until the wait below, whatever the copy returns.
        let copied = unsafe { result::memcpy_htod_async(self.address, values, self.stream.raw()) };
        self.stream.synchronize()?;
        copied.map_err(|e| failed("copy to the device", e))
    }

    /// Queues the setting of all values to zero.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn enqueue_clear(&mut self) -> Result<()> {
        let num_bytes = self.len * size_of::<T>();
        if num_bytes == 0 {
            return Ok(());
        }
        self.stream.bind()?;
        // SAFETY: the allocation has this many bytes and stays until the stream's
        // work is done; zero bits are a `T`.
        unsafe { result::memset_d8_async(self.address, 0, num_bytes, self.stream.raw()) }
            .map_err(|e| failed("clear device memory", e))
    }

    /// Queues a copy of as many values of another buffer as both have.
    ///
    /// # Errors
    /// `Device` when the other belongs to another stream or the copy fails.
    pub fn enqueue_copy(&mut self, source: &Self) -> Result<()> {
        self.stream.check_owns(&source.stream)?;
        self.stream.bind()?;
        let num_bytes = self.len.min(source.len) * size_of::<T>();
        // SAFETY: both allocations have this many bytes and stay until the
        // stream's work is done.
        let copied = unsafe {
            result::memcpy_dtod_async(self.address, source.address, num_bytes, self.stream.raw())
        };
        copied.map_err(|e| failed("queue a copy on the device", e))
    }

    /// Queues a copy of `len` values of another buffer from `start` on to this one, which has as many.
    ///
    /// # Errors
    /// `Argument` when the other has fewer values, or this one another number; `Device` when the other
    /// belongs to another stream or the copy fails.
    pub fn enqueue_copy_part(&mut self, source: &Self, start: usize, len: usize) -> Result<()> {
        check_capacity("device", start.saturating_add(len), source.len)?;
        if self.len != len {
            let message = format!("{len} values for a buffer of {}", self.len);
            return Err(Error::new(ErrorKind::Argument, "device", message));
        }
        self.stream.check_owns(&source.stream)?;
        self.stream.bind()?;
        let from = source.address + (start * size_of::<T>()) as u64;
        // SAFETY: both allocations have these bytes (checked; an empty range has none) and stay until the
        // stream's work is done.
        let copied = unsafe {
            result::memcpy_dtod_async(self.address, from, len * size_of::<T>(), self.stream.raw())
        };
        copied.map_err(|e| failed("queue a copy on the device", e))
    }

    /// Queues a copy of values from the same places of another buffer.
    ///
    /// # Errors
    /// `Argument` when they are not all in both buffers; `Device` when the other belongs to
    /// another stream or the copy fails.
    pub fn enqueue_copy_range(&mut self, values: Range<usize>, source: &Self) -> Result<()> {
        check_capacity("device", values.end, self.len.min(source.len))?;
        self.stream.check_owns(&source.stream)?;
        self.stream.bind()?;
        let start = (values.start * size_of::<T>()) as u64;
        let (target, source) = (self.address + start, source.address + start);
        let num_bytes = values.len() * size_of::<T>();
        // SAFETY: both allocations have these bytes (checked; an empty range has none) and stay
        // until the stream's work is done.
        let copied =
            unsafe { result::memcpy_dtod_async(target, source, num_bytes, self.stream.raw()) };
        copied.map_err(|e| failed("queue a copy on the device", e))
    }

    /// Waits, then copies all values to the host: for tests, not for frames.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read(&self) -> Result<Vec<T>> {
        let mut values = vec![T::default(); self.len];
        self.stream.bind()?;
        // SAFETY: both sides have `len` values; any bits are a `T`; the copy
        // ends before the wait below returns, and the values live until then.
        let copied =
            unsafe { result::memcpy_dtoh_async(&mut values, self.address, self.stream.raw()) };
        self.stream.synchronize()?;
        copied.map_err(|e| failed("copy from the device", e))?;
        Ok(values)
    }
}

/// Bytes of `len` values, at least 16, a multiple of 16.
fn num_bytes<T>(len: usize) -> Result<usize> {
    len.checked_mul(size_of::<T>())
        .and_then(|bytes| bytes.max(16).checked_next_multiple_of(16))
        .ok_or_else(|| error(format!("{len} values do not fit into memory")))
}

fn check_capacity(what: &str, num: usize, capacity: usize) -> Result<()> {
    if num <= capacity {
        return Ok(());
    }
    let message = format!("{num} values, the {what} buffer holds {capacity}");
    Err(Error::new(ErrorKind::Argument, "device", message))
}
