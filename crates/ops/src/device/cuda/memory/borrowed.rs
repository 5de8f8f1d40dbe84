//! Device memory of another library, used in place.

use std::marker::PhantomData;

use cudarc::driver::result;
use cudarc::driver::sys;

use super::pointer::PointerInfo;
use super::{DeviceBuffer, In, Out, Plain, UploadScope, check_capacity};
use crate::device::cuda::{CudaDevice, Stream, failed, open};
use det_post_types::{DeviceBytes, Error, ErrorKind, Result};

/// The alignment in bytes of every [`DeviceBuffer`]: kernels read vectors of this size.
pub const BUFFER_ALIGNMENT: usize = 16;

impl<T: Plain> DeviceBuffer<T> {
    /// `len` values at an address in memory of another library, as a buffer of `stream`. The
    /// memory is used in place and never freed here.
    ///
    /// # Errors
    /// `Argument` when the address is not a multiple of [`BUFFER_ALIGNMENT`], or the values are
    /// not all in one allocation on the stream's GPU.
    ///
    /// # Safety
    /// From the first use of the buffer until the work queued on the stream with it is
    /// complete, the memory stays allocated, nothing else writes to it and, where the buffer
    /// is written, nothing else reads it.
    pub unsafe fn borrow(stream: &Stream, address: u64, len: usize) -> Result<Self> {
        check(stream.device(), address, len, [size_of::<T>(), BUFFER_ALIGNMENT])?;
        Ok(Self { address, len, stream: stream.clone(), values: PhantomData })
    }
}

impl DeviceBuffer<u8> {
    /// Queues a copy of bytes of another library to the start of the buffer, after the work that
    /// writes them. When the scope ends, they have been read.
    ///
    /// # Errors
    /// `Argument` when there are more than the buffer holds, or they are not on this GPU; `Device`
    /// when the copy fails.
    pub(in crate::device::cuda) fn enqueue_copy_of<'env>(
        &mut self,
        bytes: DeviceBytes<'env>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<()> {
        let (address, len) = (bytes.address(), bytes.len());
        check_capacity("device", len, self.len())?;
        let stream = self.stream().clone();
        stream.check_owns(scope.stream())?;
        check(stream.device(), address, len, [1, 1])?;
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the stream is a live one of the GPU that the bytes are on, by the contract of
        // `DeviceBytes`; that is this GPU (checked).
        unsafe { stream.follow(bytes.stream())? };
        stream.bind()?;
        // SAFETY: both sides have these bytes (checked). Those of the other library stay for
        // `'env`, and the scope ends after the copy.
        let copied =
            unsafe { result::memcpy_dtod_async(self.address(), address, len, stream.raw()) };
        scope.mark_read()?;
        copied.map_err(|e| failed("queue a copy on the device", e))
    }
}

/// Rows of bytes in device memory of another library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) address: u64,
    /// Bytes from one row to the next.
    pub(crate) step: usize,
    /// Bytes of a row that are copied.
    pub(crate) len: usize,
    pub(crate) num: usize,
}

impl DeviceBuffer<u8> {
    /// Queues a copy of rows to `start`, one behind the other without padding.
    ///
    /// # Errors
    /// `Argument` when they do not fit; `Device` when the copy fails.
    ///
    /// # Safety
    /// The rows are in memory of this GPU, whose work before the stream's has written them, until the stream's work is
    /// complete.
    pub(crate) unsafe fn enqueue_rows(&mut self, start: usize, rows: Rows) -> Result<()> {
        let Rows { address, step, len, num } = rows;
        let end = len.checked_mul(num).and_then(|bytes| bytes.checked_add(start));
        check_capacity("device", end.unwrap_or(usize::MAX), self.len())?;
        if len == 0 || num == 0 {
            return Ok(());
        }
        self.stream().bind()?;
        let of_device = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
        let copy = sys::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: of_device,
            srcHost: std::ptr::null(),
            srcDevice: address,
            srcArray: std::ptr::null_mut(),
            srcPitch: step,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: of_device,
            dstHost: std::ptr::null_mut(),
            dstDevice: self.address() + start as u64,
            dstArray: std::ptr::null_mut(),
            dstPitch: len,
            WidthInBytes: len,
            Height: num,
        };
        // SAFETY: the buffer has these bytes (checked) until the stream's work is done; the rows are there, as the
        // caller promises.
        unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, self.stream().raw()).result() }
            .map_err(|e| failed("queue a copy on the device", e))
    }

    /// The first `len` bytes, all if there are no more, for work of other streams.
    pub fn lend(&self, len: usize) -> DeviceBytes<'_> {
        // SAFETY: the stream that the buffer holds is alive, and keeps the memory. What writes the bytes is queued on it
        // already: later work needs the buffer exclusively.
        unsafe { DeviceBytes::new(self.address(), len.min(self.len()), self.stream().raw() as u64) }
    }
}

impl CudaDevice {
    /// Copies bytes that are on this GPU to the host, and waits: not for the path of frames.
    ///
    /// # Errors
    /// `Argument` when they are not on this GPU; `Device` when the copy fails.
    pub fn download(&self, bytes: DeviceBytes<'_>) -> Result<Vec<u8>> {
        let (address, len) = (bytes.address(), bytes.len());
        check(self, address, len, [1, 1])?;
        let mut copy = vec![0; len];
        if len == 0 {
            return Ok(copy);
        }
        let stream = self.stream()?;
        // SAFETY: the stream is a live one of the GPU that the bytes are on, by the contract of `DeviceBytes`; that is
        // this GPU (checked).
        unsafe { stream.follow(bytes.stream())? };
        stream.bind()?;
        // SAFETY: both sides have these bytes; they stay until the wait below, whatever the copy returns.
        let copied = unsafe { result::memcpy_dtoh_async(&mut copy, address, stream.raw()) };
        stream.synchronize()?;
        copied.map_err(|e| failed("copy from the device", e))?;
        Ok(copy)
    }

    /// The GPU that is open whose memory has an address.
    ///
    /// # Errors
    /// `Argument` when there is none.
    pub fn of_address(address: u64) -> Result<Self> {
        let is_there = |device: &Self| device.bytes_from(address).is_ok();
        open::opened().into_iter().find(is_there).ok_or_else(|| {
            let message = format!("address {address:#x} is not in memory of a GPU that is open");
            Error::new(ErrorKind::Argument, "device", message)
        })
    }
}

impl<'a, T: Plain> In<'a, T> {
    /// `len` values at an address in memory of another library, for kernels that read no
    /// vectors of them.
    ///
    /// # Errors
    /// As [`DeviceBuffer::borrow`], for the alignment of a value.
    ///
    /// # Safety
    /// As [`DeviceBuffer::borrow`], for the work of one stream with this slice.
    pub unsafe fn borrow(device: &CudaDevice, address: u64, len: usize) -> Result<Self> {
        check(device, address, len, [size_of::<T>(), align_of::<T>()])?;
        Ok(Self { data: address, len: len as u64, memory: PhantomData })
    }
}

impl<'a, T: Plain> Out<'a, T> {
    /// `len` values at an address in memory of another library, for kernels that write no
    /// vectors of them.
    ///
    /// # Errors
    /// As [`DeviceBuffer::borrow`], for the alignment of a value.
    ///
    /// # Safety
    /// As [`DeviceBuffer::borrow`], for the work of one stream with this slice.
    pub unsafe fn borrow(device: &CudaDevice, address: u64, len: usize) -> Result<Self> {
        check(device, address, len, [size_of::<T>(), align_of::<T>()])?;
        Ok(Self { data: address, len: len as u64, memory: PhantomData })
    }
}

impl CudaDevice {
    /// Bytes from an address to the end of its allocation on this GPU.
    ///
    /// # Errors
    /// `Argument` when the address is not in device memory of this GPU.
    pub fn bytes_from(&self, address: u64) -> Result<usize> {
        let outside = || {
            let message = format!("address {address:#x} is not in memory of {self}");
            Error::new(ErrorKind::Argument, "device", message)
        };
        self.bind()?;
        let gpu = PointerInfo::of(address).gpu.ok_or_else(outside)?;
        if gpu != self.ordinal() {
            let message = format!("address {address:#x} is in memory of GPU {gpu}, not {self}");
            return Err(Error::new(ErrorKind::Argument, "device", message));
        }
        let (mut start, mut num_bytes) = (0, 0);
        // SAFETY: both results are live locals; the driver returns an error for addresses
        // that are not in device memory.
        unsafe {
            sys::cuMemGetAddressRange_v2(&raw mut start, &raw mut num_bytes, address).result()
        }
        .map_err(|_| outside())?;
        Ok(num_bytes.saturating_sub((address - start) as usize))
    }
}

/// Refuses an address that is not aligned, and values beyond its allocation.
fn check(
    device: &CudaDevice,
    address: u64,
    len: usize,
    [size, alignment]: [usize; 2],
) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    let argument = |message| Err(Error::new(ErrorKind::Argument, "device", message));
    if !address.is_multiple_of(alignment as u64) {
        return argument(format!("address {address:#x} is not a multiple of {alignment} bytes"));
    }
    let num_bytes = device.bytes_from(address)?;
    match len.checked_mul(size) {
        Some(needed) if needed <= num_bytes => Ok(()),
        _ => argument(format!(
            "{len} values of {size} bytes at {address:#x}, where {num_bytes} bytes are left"
        )),
    }
}
