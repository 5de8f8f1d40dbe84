//! Arrays on GPUs.

use std::fmt::Display;
use std::marker::PhantomData;

use det_post_ops::device::cuda::{
    DeviceBuffer, DeviceTensor, DeviceValues, In, Out, Plain, Stream,
};
use det_post_types::DeviceBytes;
use dlpark::python::DlpackStream;
use dlpark::{DlpackElement, DlpackFlags};
use half::f16;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::memory::Consumer;
use super::{Imported, gpu_of_request, import, request};
use crate::error::raised;

/// An array on a GPU that a caller passes, borrowed for the call, as [`Input`].
pub struct GpuInput(Imported);

/// The time in which a GPU uses arrays: what borrows them for `'env` outlives it.
pub struct GpuScope<'stream, 'env> {
    stream: &'stream Stream,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'stream, 'env> GpuScope<'stream, 'env> {
    /// Runs `work`, which queues work on a stream with arrays that outlive this call. When this
    /// returns or unwinds, the queued work is complete.
    pub fn run<R>(stream: &'stream Stream, work: impl FnOnce(&Self) -> R) -> R {
        work(&Self { stream, env: PhantomData })
    }

    /// The stream of the work.
    pub(super) fn stream(&self) -> &'stream Stream {
        self.stream
    }
}

impl Drop for GpuScope<'_, '_> {
    fn drop(&mut self) {
        // If that fails, the context is lost and no work runs in it.
        let _ = self.stream.synchronize();
    }
}

impl GpuInput {
    /// Imports an array on the GPU of a stream, whose later work finds it written.
    ///
    /// # Errors
    /// As [`Input::new`], for that GPU.
    pub fn new(name: &'static str, array: &Bound<'_, PyAny>, stream: &Stream) -> PyResult<Self> {
        let request = request(name, array)?;
        let expected = stream.device().ordinal();
        match gpu_of_request(name, &request)? {
            Some(gpu) if gpu as usize == expected => {
                let consumer = (&Consumer(stream) as &dyn DlpackStream, stream.handle().addr());
                Imported::new(name, import(request, array, Some(consumer))?).map(Self)
            }
            found => {
                let found = found.map_or("the CPU".into(), |gpu| format!("cuda:{gpu}"));
                let message = format!("{name} is on {found}, other arrays are on cuda:{expected}");
                Err(PyValueError::new_err(message))
            }
        }
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Whether the elements are of this type.
    pub fn is<T: DlpackElement>(&self) -> bool {
        self.0.dtype.is::<T>()
    }

    /// Refuses elements of another type.
    ///
    /// # Errors
    /// `TypeError`.
    pub fn check_type<T: DlpackElement>(&self) -> PyResult<()> {
        self.0.check_type::<T>()
    }

    /// The error of an array that does not fit.
    pub fn refuse(&self, reason: &dyn Display) -> PyErr {
        self.0.refuse(reason)
    }

    /// All values, of elements `T` with the bits of `B`, for kernels without vectors.
    ///
    /// # Errors
    /// `TypeError` when the elements are of another type, `ValueError` when the memory is not as
    /// [`In::borrow`] needs it.
    pub fn slice<'env, T: DlpackElement, B: Plain>(
        &'env self,
        scope: &GpuScope<'_, 'env>,
    ) -> PyResult<In<'env, B>> {
        const { assert!(size_of::<T>() == size_of::<B>()) };
        self.0.check_type::<T>()?;
        self.0.device_values(scope)
    }

    /// As [`GpuInput::slice`], to be written.
    ///
    /// # Errors
    /// As [`GpuInput::slice`]; `ValueError` for an array that may only be read.
    pub fn output<'env, T: DlpackElement, B: Plain>(
        &'env mut self,
        scope: &GpuScope<'_, 'env>,
    ) -> PyResult<Out<'env, B>> {
        const { assert!(size_of::<T>() == size_of::<B>()) };
        self.0.check_type::<T>()?;
        self.check_writable()?;
        self.0.device_output(scope)
    }

    /// The memory as a buffer of the scope's stream, to be written, of elements `T` with the bits of
    /// `B`.
    ///
    /// # Errors
    /// As [`GpuInput::output`], for [`DeviceBuffer::borrow`].
    pub fn buffer<'env, T: DlpackElement, B: Plain>(
        &'env mut self,
        scope: &GpuScope<'_, 'env>,
    ) -> PyResult<DeviceBuffer<B>> {
        const { assert!(size_of::<T>() == size_of::<B>()) };
        self.0.check_type::<T>()?;
        self.check_writable()?;
        self.0.device_buffer(self.0.num_elements(), scope)
    }

    /// The array as the output of a network, to be read.
    ///
    /// # Errors
    /// `TypeError` when the elements are neither float32, float16 nor int8; as [`GpuInput::slice`], for
    /// [`DeviceBuffer::borrow`].
    pub fn tensor<'env>(&'env self, scope: &GpuScope<'_, 'env>) -> PyResult<DeviceTensor> {
        let values = if self.is::<f16>() {
            DeviceValues::F16(self.0.device_buffer(self.0.num_elements(), scope)?)
        } else if self.is::<i8>() {
            DeviceValues::I8(self.0.device_buffer(self.0.num_elements(), scope)?)
        } else {
            self.0.check_type::<f32>()?;
            DeviceValues::F32(self.0.device_buffer(self.0.num_elements(), scope)?)
        };
        DeviceTensor::of(self.shape(), values).map_err(|error| self.refuse(&error))
    }

    /// A copy of all values on the CPU, of elements `T` with the bits of `B`, after a wait.
    ///
    /// # Errors
    /// As [`GpuInput::slice`], for [`DeviceBuffer::borrow`]; those of the copy.
    pub fn to_host<'env, T: DlpackElement, B: Plain>(
        &'env self,
        scope: &GpuScope<'_, 'env>,
    ) -> PyResult<Vec<B>> {
        const { assert!(size_of::<T>() == size_of::<B>()) };
        self.0.check_type::<T>()?;
        let values = self.0.device_buffer::<B>(self.0.num_elements(), scope)?;
        values.read().map_err(|error| raised(&error))
    }

    /// The first bytes as a buffer of the scope's stream: of the array, and of the allocation
    /// past it, which the caller may read where there is one.
    ///
    /// # Errors
    /// As [`GpuInput::slice`], for [`DeviceBuffer::borrow`].
    pub fn bytes<'env>(
        &'env self,
        num_bytes: usize,
        scope: &GpuScope<'_, 'env>,
    ) -> PyResult<DeviceBuffer<u8>> {
        self.0.device_buffer(num_bytes, scope)
    }

    /// The memory of all values, row by row, for a detector that follows the stream for which the
    /// array was imported.
    ///
    /// # Errors
    /// `ValueError` for elements that are not whole bytes.
    pub fn device_bytes<'env>(&'env self, stream: &'env Stream) -> PyResult<DeviceBytes<'env>> {
        self.0.device_bytes(stream)
    }

    fn check_writable(&self) -> PyResult<()> {
        if self.0.tensor.flags().contains(DlpackFlags::READ_ONLY) {
            return Err(self.refuse(&"it may only be read"));
        }
        Ok(())
    }
}
