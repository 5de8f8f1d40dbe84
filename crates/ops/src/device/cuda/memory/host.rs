//! Page-locked host memory of a stream: for uploads and downloads, and mapped for
//! kernels to write.

use std::ffi::c_void;
use std::marker::PhantomData;

use cudarc::driver::{result, sys};

use super::page_locked::is_page_locked;
use super::{DeviceBuffer, Out, Plain, UploadScope, check_capacity, num_bytes};
use crate::device::copy::copy_in_parts;
use crate::device::cuda::registered::{Place, find};
use crate::device::cuda::{Event, Stream, failed};
use det_post_types::Result;

/// Page-locked host memory for uploads and downloads.
#[derive(Debug)]
pub struct PinnedBuffer<T> {
    address: usize,
    len: usize,
    // Recorded behind every queued copy, which uses the memory until then.
    copied: Event,
    stream: Stream,
    values: PhantomData<T>,
}

impl<T: Plain> PinnedBuffer<T> {
    /// Allocates page-locked memory for `len` values, all zero.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn zeros(stream: &Stream, len: usize) -> Result<Self> {
        let address = host_memory::<T>(stream, len, 0)?;
        let copied = Event::new(stream)?;
        Ok(Self { address, len, copied, stream: stream.clone(), values: PhantomData })
    }

    /// The maximum number of values.
    pub fn capacity(&self) -> usize {
        self.len
    }

    /// The first `num` values, to be written, after the previous copy.
    /// [`PinnedBuffer::enqueue_written`] uploads them.
    ///
    /// # Errors
    /// `Argument` when the buffer holds fewer; `Device` when earlier work failed.
    pub fn values_mut(&mut self, num: usize) -> Result<&mut [T]> {
        check_capacity("pinned", num, self.len)?;
        self.copied.wait()?;
        // SAFETY: the allocation holds the values (checked), is aligned to a page,
        // was zeroed, any bits are a `T`, and it lives as long as the stream that
        // `self` holds. There is no other access: the last copy is complete, and this
        // buffer is borrowed exclusively.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address as *mut T, num) })
    }

    /// Queues the upload of the first `num` values to the start of `target`.
    ///
    /// # Errors
    /// `Argument` when either side holds fewer; `Device` when the upload fails.
    pub fn enqueue_written(&mut self, num: usize, target: &mut DeviceBuffer<T>) -> Result<()> {
        check_capacity("pinned", num, self.len)?;
        check_capacity("device", num, target.len)?;
        self.stream.check_owns(&target.stream)?;
        self.stream.bind()?;
        let queued = self.enqueue_first(num, target);
        // Also after an error: some parts may have been queued.
        let marked = self.copied.record(&self.stream);
        queued.and(marked)
    }

    /// Copies values to this buffer, after the previous upload has read it, and
    /// queues their upload to the start of `target`: part by part, so that one part
    /// is uploaded while the next is copied, by several threads if they are many
    /// (`device::copy`).
    ///
    /// # Errors
    /// `Argument` when either side holds fewer values; `Device` when earlier work or
    /// the upload fails.
    pub fn enqueue_upload(&mut self, values: &[T], target: &mut DeviceBuffer<T>) -> Result<()> {
        check_capacity("device", values.len(), target.len)?;
        self.stream.check_owns(&target.stream)?;
        self.stream.bind()?;
        let pinned = self.values_mut(values.len())?;
        // SAFETY: `Plain` values have no padding, so that their bytes can be read, and any
        // bytes are values, so that they can be written; both slices keep their borrows.
        let (from, to) = unsafe {
            let num_bytes = size_of_val(values);
            let from = std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), num_bytes);
            (from, std::slice::from_raw_parts_mut(pinned.as_mut_ptr().cast::<u8>(), num_bytes))
        };
        let (stream, mut queued) = (self.stream.clone(), Ok(()));
        copy_in_parts(from, to, |start, part| {
            if queued.is_ok() {
                // SAFETY: the target holds all values (checked). The part is not written
                // again before `copied`, which is recorded below, is complete; the
                // memory is freed after the stream's work.
                let copied = unsafe {
                    result::memcpy_htod_async(target.address + start as u64, part, stream.raw())
                };
                queued = copied.map_err(|e| failed("queue an upload", e));
            }
        });
        // Also after an error: some parts may have been queued.
        let marked = self.copied.record(&self.stream);
        queued.and(marked)
    }

    /// Queues the upload of the first `num` values, which both sides hold.
    fn enqueue_first(&self, num: usize, target: &DeviceBuffer<T>) -> Result<()> {
        // SAFETY: both sides hold the values (the caller checks it). The memory is not
        // written before `copied`, which the caller records behind the copy, is complete;
        // it is freed after the stream's work.
        let copied = unsafe {
            let pinned = std::slice::from_raw_parts(self.address as *const T, num);
            result::memcpy_htod_async(target.address, pinned, self.stream.raw())
        };
        copied.map_err(|e| failed("queue an upload", e))
    }

    /// Queues a copy of a whole buffer to this one. [`PinnedBuffer::values`] waits for it.
    ///
    /// # Errors
    /// `Argument` when the source has more values than this buffer holds; `Device` when it
    /// belongs to another stream or the copy fails.
    pub fn enqueue_download(&mut self, source: &DeviceBuffer<T>) -> Result<()> {
        self.enqueue_download_first(source, source.len)
    }

    /// Queues a copy of the first `num` values of a buffer to this one.
    /// [`PinnedBuffer::values`] waits for it.
    ///
    /// # Errors
    /// `Argument` when either side holds fewer; `Device` when the source belongs to another
    /// stream or the copy fails.
    pub fn enqueue_download_first(&mut self, source: &DeviceBuffer<T>, num: usize) -> Result<()> {
        check_capacity("pinned", num, self.len)?;
        check_capacity("device", num, source.len)?;
        self.stream.check_owns(&source.stream)?;
        self.stream.bind()?;
        // SAFETY: as in `download`; the slice ends before anything reads it, which needs
        // another borrow of `self` and waits for the event below.
        let target = unsafe { std::slice::from_raw_parts_mut(self.address as *mut T, num) };
        // SAFETY: the target has `num` values, the source no fewer (checked); both stay until the
        // stream's work is done.
        let copied =
            unsafe { result::memcpy_dtoh_async(target, source.address, self.stream.raw()) };
        // Also after an error: the copy may have been queued.
        let marked = self.copied.record(&self.stream);
        copied.map_err(|e| failed("copy from the device", e)).and(marked)
    }

    /// The first `num` values, after the previous copy.
    ///
    /// # Errors
    /// `Argument` when the buffer holds fewer; `Device` when earlier work failed.
    pub fn values(&self, num: usize) -> Result<&[T]> {
        check_capacity("pinned", num, self.len)?;
        self.copied.wait()?;
        // SAFETY: the allocation holds the values (checked), is aligned to a page, was
        // zeroed, any bits are a `T`, and it lives as long as the stream that `self` holds.
        // Nothing writes them: the last copy is complete, and the next needs an exclusive
        // borrow.
        Ok(unsafe { std::slice::from_raw_parts(self.address as *const T, num) })
    }

    /// Queues a copy of a whole buffer to this one, waits, and returns the values.
    ///
    /// # Errors
    /// `Argument` when the source has more values than this buffer holds; `Device`
    /// when earlier work or the copy fails.
    pub fn download(&mut self, source: &DeviceBuffer<T>) -> Result<&[T]> {
        check_capacity("pinned", source.len, self.len)?;
        self.stream.check_owns(&source.stream)?;
        self.stream.bind()?;
        // SAFETY: the allocation holds at least this many values (checked), any bits
        // are a `T`, and it lives as long as the stream, which `self` holds. Only
        // copies queued through this buffer, which is borrowed exclusively, access
        // it: this one follows the uploads before it and is complete after the wait
        // below.
        let values = unsafe { std::slice::from_raw_parts_mut(self.address as *mut T, source.len) };
        // SAFETY: both sides have `source.len` values; the wait below follows
        // whatever the copy returns.
        let copied =
            unsafe { result::memcpy_dtoh_async(values, source.address, self.stream.raw()) };
        self.stream.synchronize()?;
        copied.map_err(|e| failed("copy from the device", e))?;
        Ok(values)
    }
}

impl PinnedBuffer<u8> {
    /// Queues the upload of a payload to the start of `target`: in place when it is
    /// in page-locked memory or in registered windows of a mapped file, else copied to
    /// this buffer first, as by [`PinnedBuffer::enqueue_upload`]. Returns the number of
    /// bytes copied on the host.
    ///
    /// # Errors
    /// Returns the errors of `enqueue_upload`.
    pub fn enqueue_payload<'env>(
        &mut self,
        payload: &'env [u8],
        target: &mut DeviceBuffer<u8>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<usize> {
        self.stream.bind()?;
        check_capacity("device", payload.len(), target.len)?;
        self.stream.check_owns(&target.stream)?;
        self.stream.check_owns(scope.stream())?;
        // Marked also after an error: some parts may have been queued.
        let queued = match find(payload) {
            Place::Registered(windows) => scope.hold(windows).map(|windows| {
                let mut parts = windows.parts(payload);
                let queued =
                    parts.try_for_each(|(start, part)| self.enqueue_in_place(start, part, target));
                queued.and(scope.mark_held())
            }),
            Place::Elsewhere if is_page_locked(payload) => {
                let queued = self.enqueue_in_place(0, payload, target);
                Some(queued.and(scope.mark_read()))
            }
            Place::Elsewhere | Place::Unregistered => None,
        };
        match queued {
            Some(queued) => queued.map(|()| 0),
            None => self.enqueue_upload(payload, target).map(|()| payload.len()),
        }
    }

    /// Queues the upload of a part of a payload to the same position of `target`. The caller
    /// marks it as read by the scope that borrows the payload, and has checked the capacity.
    fn enqueue_in_place(&self, start: usize, part: &[u8], target: &DeviceBuffer<u8>) -> Result<()> {
        // SAFETY: the target is large enough (checked by the caller). The part is readable
        // until the copy is complete: in a mapped file, whose windows, which keep the bytes,
        // are held by the scope and after it by its `InPlaceUploads`, until all work queued
        // before the mark is complete; else it is borrowed for `'env`, which outlives the
        // scope, which waits for that work at its end. The caller sets the mark whatever the
        // copy returns.
        let copied = unsafe {
            result::memcpy_htod_async(target.address + start as u64, part, self.stream.raw())
        };
        copied.map_err(|e| failed("queue an upload", e))
    }
}

/// Page-locked host memory that kernels write directly.
#[derive(Debug)]
pub struct MappedBuffer<T> {
    host: usize,
    device: u64,
    len: usize,
    stream: Stream,
    values: PhantomData<T>,
}

impl<T: Plain> MappedBuffer<T> {
    /// Allocates page-locked memory for `len` values that the GPU can write.
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

    /// The slice that a kernel on `stream` may write.
    ///
    /// # Errors
    /// `Device` when the buffer belongs to another stream.
    pub fn output(&mut self, stream: &Stream) -> Result<Out<'_, T>> {
        stream.check_owns(&self.stream)?;
        Ok(Out { data: self.device, len: self.len as u64, memory: PhantomData })
    }

    /// Queues a copy of a whole buffer to the positions from `start` on.
    ///
    /// # Errors
    /// `Argument` when they are not all in this buffer; `Device` when the source belongs to
    /// another stream or the copy fails.
    pub fn enqueue_copy(&mut self, start: usize, source: &DeviceBuffer<T>) -> Result<()> {
        check_capacity("mapped", start.saturating_add(source.len), self.len)?;
        self.stream.check_owns(&source.stream)?;
        self.stream.bind()?;
        // SAFETY: the positions are within the allocation (checked), whose values were
        // zeroed and may have any bits. The slice ends before anything reads them: `get`
        // needs another borrow of `self`.
        let target = unsafe {
            let first = (self.host as *mut T).add(start);
            std::slice::from_raw_parts_mut(first, source.len)
        };
        // SAFETY: both sides have `source.len` values and stay until the stream's work is
        // done; readers wait for the stream.
        let copied =
            unsafe { result::memcpy_dtoh_async(target, source.address, self.stream.raw()) };
        copied.map_err(|e| failed("queue a copy to the host", e))
    }

    /// Appends the first `num` values, at most the capacity, to `values`; the caller
    /// has waited for the stream.
    pub fn copy_to(&self, num: usize, values: &mut Vec<T>) {
        let num = num.min(self.len);
        values.reserve(num);
        // SAFETY: the allocation has `num` values, which were zeroed and may have any bits, and there
        // is room for them behind the values of `values`. They are copied through pointers, since the GPU
        // writes them outside this program's view.
        unsafe {
            let to = values.as_mut_ptr().add(values.len());
            std::ptr::copy_nonoverlapping(self.host as *const T, to, num);
            values.set_len(values.len() + num);
        }
    }

    /// The value at a position, `None` behind the last; the caller has waited for the
    /// stream.
    pub fn get(&self, index: usize) -> Option<T> {
        // SAFETY: `index` is below the length of the allocation, whose values were
        // zeroed and may have any bits. Volatile, since the GPU writes them outside
        // this program's view.
        (index < self.len).then(|| unsafe { (self.host as *const T).add(index).read_volatile() })
    }
}

fn host_memory<T>(stream: &Stream, len: usize, flags: u32) -> Result<usize> {
    let num_bytes = num_bytes::<T>(len)?;
    stream.bind()?;
    // SAFETY: no precondition but a current context, which `bind` made.
    let address = unsafe { result::malloc_host(num_bytes, flags) }
        .map_err(|e| failed(&format!("allocate {num_bytes} bytes of page-locked memory"), e))?;
    stream.own_host_memory(address as usize);
    // SAFETY: the allocation has this many bytes and is not yet shared.
    unsafe { address.cast::<u8>().write_bytes(0, num_bytes) };
    Ok(address as usize)
}
