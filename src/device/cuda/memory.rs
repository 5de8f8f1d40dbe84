//! Memory of a GPU and memory that it shares with the host.
//!
//! Every buffer has a fixed capacity, is zero at first and belongs to the
//! stream it was taken on; its memory returns when the stream and all that
//! belongs to it are gone. No reference into memory that the GPU may be
//! writing is ever given out: values are copied in and out.

use std::ffi::c_void;
use std::marker::PhantomData;

use cudarc::driver::{result, sys};
use half::f16;

use super::{Event, Stream, error, failed};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Box2d, Box3d, Candidate, Detection2d, Kept, RotatedBox2d};

/// Values that can be moved as bytes.
///
/// # Safety
/// The type has no padding, no pointer, and every bit pattern is a value.
pub unsafe trait Plain: Copy + Default + 'static {}

macro_rules! plain {
    ($($type:ty: $why:literal),* $(,)?) => {$(
        const _: &str = $why;
        // SAFETY: as the reason beside the type says.
        unsafe impl Plain for $type {}
    )*};
}

plain! {
    u8: "a number",
    u32: "a number",
    u64: "a number",
    f32: "a number",
    f16: "a number",
    [f32; 2]: "numbers without gaps",
    [f32; 4]: "numbers without gaps",
    [u32; 2]: "numbers without gaps",
    [u32; 4]: "numbers without gaps",
    Kept: "repr(C) of a u32 and an f32: 8 bytes, no gap",
    Candidate<Box2d>: "repr(C) of 4 + 1 f32 and 2 u32: 28 bytes, no gap",
    Detection2d: "repr(C) of a u32, an f32 and 4 f32: 24 bytes, no gap",
    Candidate<Box3d>: "repr(C) of 7 + 1 f32 and 2 u32: 40 bytes, no gap",
    Candidate<RotatedBox2d>: "repr(C) of 5 + 1 f32 and 2 u32: 32 bytes, no gap",
}

const _: () = assert!(size_of::<Kept>() == 8);
const _: () = assert!(size_of::<Detection2d>() == 24);
const _: () = assert!(size_of::<Candidate<Box2d>>() == 28);
const _: () = assert!(size_of::<Candidate<Box3d>>() == 40);
const _: () = assert!(size_of::<Candidate<RotatedBox2d>>() == 32);

/// A slice in device memory as kernels read it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct In<'a, T> {
    address: u64,
    len: u64,
    memory: PhantomData<&'a T>,
}

/// A slice in memory that a kernel may write.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Out<'a, T> {
    address: u64,
    len: u64,
    memory: PhantomData<&'a T>,
}

impl<T> In<'_, T> {
    /// No values.
    pub fn empty() -> Self {
        Self { address: 0, len: 0, memory: PhantomData }
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

impl<T> Out<'_, T> {
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
    /// Takes memory for `len` values on a stream, all zero.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn zeros(stream: &Stream, len: usize) -> Result<Self> {
        let num_bytes = num_bytes::<T>(len)?;
        stream.bind()?;
        // SAFETY: no precondition but a current context, which `bind` made.
        let address = unsafe { result::malloc_sync(num_bytes) }
            .map_err(|e| failed(&format!("take {num_bytes} bytes of device memory"), e))?;
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

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// What a kernel on `stream` reads.
    ///
    /// # Errors
    /// `Device` when the buffer belongs to another stream.
    pub fn input(&self, stream: &Stream) -> Result<In<'_, T>> {
        stream.check_owns(&self.stream)?;
        Ok(In { address: self.address, len: self.len as u64, memory: PhantomData })
    }

    /// What a kernel on `stream` may write.
    ///
    /// # Errors
    /// `Device` when the buffer belongs to another stream.
    pub fn output(&mut self, stream: &Stream) -> Result<Out<'_, T>> {
        stream.check_owns(&self.stream)?;
        Ok(Out { address: self.address, len: self.len as u64, memory: PhantomData })
    }

    /// Copies values to the start of the buffer and waits: for settings and
    /// tests, not for frames.
    ///
    /// # Errors
    /// `Argument` when there are more values than places; `Device` when the
    /// copy fails.
    pub fn write(&mut self, values: &[T]) -> Result<()> {
        check_room("device", values.len(), self.len)?;
        self.stream.bind()?;
        // SAFETY: the buffer has room for the values (checked); they live until
        // the wait below, whatever the copy answers.
        let copied = unsafe { result::memcpy_htod_async(self.address, values, self.stream.raw()) };
        self.stream.synchronize()?;
        copied.map_err(|e| failed("copy to the device", e))
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
        // stream's work is done; they are two, since `self` is borrowed alone.
        let copied = unsafe {
            result::memcpy_dtod_async(self.address, source.address, num_bytes, self.stream.raw())
        };
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

/// Page-locked host memory from which uploads are queued and into which
/// downloads go.
#[derive(Debug)]
pub struct PinnedBuffer<T> {
    address: usize,
    len: usize,
    // Recorded after every upload: until then the memory is being read.
    uploaded: Event,
    stream: Stream,
    values: PhantomData<T>,
}

impl<T: Plain> PinnedBuffer<T> {
    /// Takes page-locked memory for `len` values, all zero.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn zeros(stream: &Stream, len: usize) -> Result<Self> {
        let address = host_memory::<T>(stream, len, 0)?;
        let uploaded = Event::new(stream)?;
        Ok(Self { address, len, uploaded, stream: stream.clone(), values: PhantomData })
    }

    /// The most values it holds.
    pub fn capacity(&self) -> usize {
        self.len
    }

    /// The first `num` values, to be written, after the upload before has been
    /// read out. [`PinnedBuffer::enqueue_written`] sends them.
    ///
    /// # Errors
    /// `Argument` when there are not as many; `Device` when earlier work failed.
    pub fn values_mut(&mut self, num: usize) -> Result<&mut [T]> {
        check_room("pinned", num, self.len)?;
        self.uploaded.wait()?;
        // SAFETY: the allocation has room for the values (checked), is aligned
        // to a page, was zeroed, may have any bits, and stays as long as the
        // stream that `self` holds. Nobody else reads or writes it: the last
        // upload is over, and this buffer is borrowed alone.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address as *mut T, num) })
    }

    /// Queues the upload of the first `num` values, as they stand, to the start
    /// of `target`.
    ///
    /// # Errors
    /// `Argument` when either side holds fewer; `Device` when the upload fails.
    pub fn enqueue_written(&mut self, num: usize, target: &mut DeviceBuffer<T>) -> Result<()> {
        check_room("pinned", num, self.len)?;
        check_room("device", num, target.len)?;
        self.stream.check_owns(&target.stream)?;
        self.stream.bind()?;
        // SAFETY: both sides have room for the values (checked). The copy reads
        // this memory while only `values_mut`, which waits first, could lend it
        // for writing; the memory stays until the stream's work is done.
        let copied = unsafe {
            let pinned = std::slice::from_raw_parts(self.address as *const T, num);
            result::memcpy_htod_async(target.address, pinned, self.stream.raw())
        };
        copied.map_err(|e| failed("queue an upload", e))?;
        self.uploaded.record(&self.stream)
    }

    /// Copies values in, after the upload before has been read out, and queues
    /// their upload to the start of `target`.
    ///
    /// # Errors
    /// `Argument` when the values are more than either side holds; `Device`
    /// when earlier work or the upload fails.
    pub fn enqueue_upload(&mut self, values: &[T], target: &mut DeviceBuffer<T>) -> Result<()> {
        self.values_mut(values.len())?.copy_from_slice(values);
        self.enqueue_written(values.len(), target)
    }

    /// Copies a whole buffer here, behind all queued work, waits, and gives
    /// what came.
    ///
    /// # Errors
    /// `Argument` when the source has more values than this holds; `Device`
    /// when earlier work or the copy fails.
    pub fn download(&mut self, source: &DeviceBuffer<T>) -> Result<&[T]> {
        check_room("pinned", source.len, self.len)?;
        self.stream.check_owns(&source.stream)?;
        self.stream.bind()?;
        // SAFETY: the allocation holds at least this many values (checked), any
        // bits are a `T`, and it lives as long as the stream, which `self`
        // holds. The driver alone writes or reads it, and only through this
        // buffer, which is borrowed alone: the copy is queued behind the uploads
        // before it and over after the wait below.
        let values = unsafe { std::slice::from_raw_parts_mut(self.address as *mut T, source.len) };
        // SAFETY: both sides have `source.len` values; the wait below follows
        // whatever the copy answers.
        let copied =
            unsafe { result::memcpy_dtoh_async(values, source.address, self.stream.raw()) };
        self.stream.synchronize()?;
        copied.map_err(|e| failed("copy from the device", e))?;
        Ok(values)
    }
}

/// Host memory that kernels write directly.
#[derive(Debug)]
pub struct MappedBuffer<T> {
    host: usize,
    device: u64,
    len: usize,
    stream: Stream,
    values: PhantomData<T>,
}

impl<T: Plain> MappedBuffer<T> {
    /// Takes page-locked memory for `len` values that the GPU can write.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn zeros(stream: &Stream, len: usize) -> Result<Self> {
        let host = host_memory::<T>(stream, len, sys::CU_MEMHOSTALLOC_DEVICEMAP)?;
        let mut device = 0;
        // SAFETY: `host` was just allocated for mapping; the result is a live
        // local.
        unsafe {
            sys::cuMemHostGetDevicePointer_v2(&raw mut device, host as *mut c_void, 0).result()
        }
        .map_err(|e| failed("map host memory", e))?;
        Ok(Self { host, device, len, stream: stream.clone(), values: PhantomData })
    }

    /// What a kernel on `stream` may write.
    ///
    /// # Errors
    /// `Device` when the buffer belongs to another stream.
    pub fn output(&mut self, stream: &Stream) -> Result<Out<'_, T>> {
        stream.check_owns(&self.stream)?;
        Ok(Out { address: self.device, len: self.len as u64, memory: PhantomData })
    }

    /// Appends the first `num` values to `values`; the caller has waited for
    /// the stream. More than the capacity are not read.
    pub fn copy_to(&self, num: usize, values: &mut Vec<T>) {
        values.extend((0..num.min(self.len)).map(|i| {
            // SAFETY: `i` is below the length of the allocation, whose values
            // were zeroed and may have any bits. Volatile, since the GPU writes
            // them outside this program's view.
            unsafe { (self.host as *const T).add(i).read_volatile() }
        }));
    }
}

fn host_memory<T>(stream: &Stream, len: usize, flags: u32) -> Result<usize> {
    let num_bytes = num_bytes::<T>(len)?;
    stream.bind()?;
    // SAFETY: no precondition but a current context, which `bind` made.
    let address = unsafe { result::malloc_host(num_bytes, flags) }
        .map_err(|e| failed(&format!("take {num_bytes} bytes of page-locked memory"), e))?;
    stream.own_host_memory(address as usize);
    // SAFETY: the allocation has this many bytes and is not yet shared.
    unsafe { address.cast::<u8>().write_bytes(0, num_bytes) };
    Ok(address as usize)
}

/// Bytes of `len` values, at least 16, a multiple of 16.
fn num_bytes<T>(len: usize) -> Result<usize> {
    len.checked_mul(size_of::<T>())
        .and_then(|bytes| bytes.max(16).checked_next_multiple_of(16))
        .ok_or_else(|| error(format!("{len} values do not fit into memory")))
}

fn check_room(what: &str, num: usize, capacity: usize) -> Result<()> {
    if num <= capacity {
        return Ok(());
    }
    let message = format!("{num} values, the {what} buffer holds {capacity}");
    Err(Error::new(ErrorKind::Argument, "device", message))
}
