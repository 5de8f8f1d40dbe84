//! Memory of other libraries: the only file of the extension with unsafe code.
//!
//! What every block relies on is DLPack's contract. A producer keeps the memory that a tensor
//! describes until the tensor is dropped; [`Imported`] holds it. The caller of a function does not
//! write to its inputs until it returns.

#![expect(unsafe_code, reason = "DLPack is pointers; each block argues for its own")]

use std::sync::Arc;

use det_post_ops::device::cuda::{DeviceBuffer, In, Out, Plain, Stream};
use det_post_types::DeviceBytes;
use dlpark::ffi::{DLDataType, DLDevice};
use dlpark::metadata::Dynamic;
use dlpark::python::consumer::stream;
use dlpark::python::{DlpackStream, StreamArg};
use dlpark::{DlpackElement, Managed, ManagedTensorBase};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Imported;
use super::gpu::GpuScope;
use crate::error::raised;

/// A stream as the consumer of arrays.
pub(super) struct Consumer<'a>(pub(super) &'a Stream);

// SAFETY: the handle is that of a live stream of the device, whose number was compared with the
// array's before the import.
unsafe impl DlpackStream for Consumer<'_> {
    fn as_python_arg(&self, _: Python<'_>, _: DLDevice) -> PyResult<StreamArg> {
        Ok(stream::cuda(self.0.handle().cast()))
    }

    unsafe fn wait_for_producer(
        &self,
        _: DLDevice,
        producer: *mut std::ffi::c_void,
    ) -> PyResult<bool> {
        // SAFETY: the producer's live stream of the same GPU, as the caller promises.
        let ordered = unsafe { self.0.follow(producer.addr() as u64) };
        ordered.map(|()| true).map_err(|error| raised(&error))
    }
}

impl Imported {
    /// The address of the first element; of an empty array any that is aligned.
    pub(super) fn address(&self) -> PyResult<*const u8> {
        if self.shape.contains(&0) {
            return Ok(std::ptr::without_provenance(256));
        }
        let view = self.tensor.validate().map_err(|error| self.refuse(&error))?;
        // SAFETY: the producer vouches for the descriptor until the tensor is dropped.
        unsafe { view.offset_bytes_ptr() }.map_err(|error| self.refuse(&error))
    }

    /// All values in host memory, row by row. The array is on the CPU.
    pub(super) fn host_values<T: DlpackElement>(&self) -> PyResult<&[T]> {
        self.check_type::<T>()?;
        let data = self.address()?.cast::<T>();
        if !data.is_aligned() {
            return Err(self.refuse(&"it is not aligned to its elements"));
        }
        // SAFETY: the address is that of memory on the CPU with all elements without gaps, for as
        // long as `self`. Type and alignment were checked. The caller does not write to it.
        Ok(unsafe { std::slice::from_raw_parts(data, self.num_elements()) })
    }

    /// The memory of all values in host memory, row by row. The array is on the CPU.
    pub(super) fn host_bytes(&self) -> PyResult<&[u8]> {
        // SAFETY: as in `host_values`, for elements of any type.
        Ok(unsafe { std::slice::from_raw_parts(self.address()?, self.num_bytes()?) })
    }

    /// The number of bytes of all values.
    fn num_bytes(&self) -> PyResult<usize> {
        let DLDataType { bits, lanes, .. } = self.dtype;
        if !bits.is_multiple_of(8) || lanes != 1 {
            return Err(self.refuse(&"elements of whole bytes are required"));
        }
        Ok(self.num_elements() * usize::from(bits / 8))
    }

    /// The memory of all values on the GPU of a stream, row by row, for work that follows that of
    /// the stream. The array was imported for this stream.
    pub(super) fn device_bytes<'env>(
        &'env self,
        stream: &'env Stream,
    ) -> PyResult<DeviceBytes<'env>> {
        let (address, num_bytes) = (self.address()?.addr() as u64, self.num_bytes()?);
        // SAFETY: the memory is there as long as `self`, the stream as long as its borrow; it is
        // of the array's GPU, and its work follows what the producer has queued. The caller does
        // not write to it.
        Ok(unsafe { DeviceBytes::new(address, num_bytes, stream.handle().addr() as u64) })
    }

    /// All values on the GPU of the scope's stream.
    pub(super) fn device_values<'env, B: Plain>(
        &'env self,
        scope: &GpuScope<'_, 'env>,
    ) -> PyResult<In<'env, B>> {
        let (address, len) = (self.address()?.addr() as u64, self.num_elements());
        // SAFETY: the memory is there as long as `self`, which outlives the scope, which waits for
        // the stream. The caller does not write to it. The slice is used only in the scope.
        let slice = unsafe { In::borrow(scope.stream().device(), address, len) };
        slice.map_err(|error| self.refuse(&error))
    }

    /// As [`Self::device_values`], to be written.
    pub(super) fn device_output<'env, B: Plain>(
        &'env mut self,
        scope: &GpuScope<'_, 'env>,
    ) -> PyResult<Out<'env, B>> {
        let (address, len) = (self.address()?.addr() as u64, self.num_elements());
        // SAFETY: as in `device_values`; the array was made for this result.
        let slice = unsafe { Out::borrow(scope.stream().device(), address, len) };
        slice.map_err(|error| self.refuse(&error))
    }

    /// The first values as a buffer of the scope's stream: of the array, and of the allocation
    /// past it. An array that was not made for a result or for memory is only read. Who keeps the
    /// buffer beyond the scope keeps the array, too, and waits for the work on it.
    pub(super) fn device_buffer<'env, B: Plain>(
        &'env self,
        len: usize,
        scope: &GpuScope<'_, 'env>,
    ) -> PyResult<DeviceBuffer<B>> {
        let address = self.address()?.addr() as u64;
        // SAFETY: as in `device_values` or `device_output`. Values past the array may change while
        // they are read: no result depends on them.
        let buffer = unsafe { DeviceBuffer::borrow(scope.stream(), address, len) };
        buffer.map_err(|error| self.refuse(&error))
    }
}

/// Elements that a result keeps alive.
pub(super) trait Owner: Send + Sync {
    fn data(&self) -> *mut std::ffi::c_void;
    fn dtype(&self) -> DLDataType;
}

impl<T: DlpackElement + Send + Sync> Owner for Vec<T> {
    fn data(&self) -> *mut std::ffi::c_void {
        self.as_ptr().cast_mut().cast()
    }

    fn dtype(&self) -> DLDataType {
        DLDataType::of::<T>()
    }
}

/// A result as a tensor of DLPack. `shape` has as many elements as the owner.
pub(super) fn exported<M: ManagedTensorBase>(
    owner: &Arc<dyn Owner>,
    shape: &[i64],
) -> PyResult<Managed<M>> {
    let tensor = Dynamic::compact(shape).initialize_as::<M>(Box::new(Arc::clone(owner)));
    let mut tensor = tensor.map_err(|error| PyValueError::new_err(error.to_string()))?;
    tensor.set_data(owner.data()).set_dtype(owner.dtype()).set_device(DLDevice::CPU);
    // SAFETY: the tensor holds the vector whose memory it names, of as many elements as the
    // compact shape has and of this type. Nothing in Rust reads or writes the vector any more, so
    // that the consumer may write to it.
    Ok(unsafe { tensor.finish() })
}
