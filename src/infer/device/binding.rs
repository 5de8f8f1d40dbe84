//! A session of ONNX Runtime that runs on a stream and in its memory.
//!
//! The interface of `ort` copies inputs; here they are bound in place, by the C interface
//! of ONNX Runtime.

use std::ffi::CString;

use half::f16;
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{IoBinding, RunOptions, Session};
use ort::value::{DynValueRefMut, TensorRefMut};
use ort::{AsPointer, ep};

use crate::device::cuda::{Alone, DeviceTensor, Graph, Stream};
use crate::infer::device::network::failed;
use crate::types::ElementType;

/// The key of the run option that selects a recording.
const GRAPH_KEY: &str = "gpu_graph_id";

/// The value for a run that is not recorded.
const NOT_RECORDED: &str = "-1";

/// The CUDA provider, queueing on a stream.
pub(super) fn cuda_provider(stream: &Stream) -> ep::CUDA {
    // SAFETY: the stream outlives every session with this provider: only `Bound` runs
    // sessions, and it drops the session before the stream.
    unsafe { ep::CUDA::default().with_compute_stream(stream.handle()) }
}

/// The TensorRT provider, queueing on a stream.
pub(super) fn tensorrt_provider(stream: &Stream) -> ep::TensorRT {
    // SAFETY: as for the CUDA provider.
    unsafe { ep::TensorRT::default().with_compute_stream(stream.handle()) }
}

/// A session with inputs and outputs bound to memory of its stream, to one set of tensors or to
/// several, which have numbers.
pub(super) struct Bound {
    /// `None` only while being dropped.
    work: Option<Work>,
    /// Whether the provider records runs as a graph of its own.
    provider_records: bool,
    // Dropped after the session, which works in its memory.
    stream: Stream,
}

/// Dropped in this order.
struct Work {
    bindings: Vec<IoBinding>,
    options: RunOptions,
    session: Session,
}

impl Work {
    /// The session, and the binding of a number.
    fn run(&mut self, number: usize) -> ort::Result<(&mut Session, &mut IoBinding, &RunOptions)> {
        let Self { bindings, options, session } = self;
        match bindings.get_mut(number) {
            Some(binding) => Ok((session, binding, options)),
            None => Err(ort::Error::new(format!("no tensors of number {number}"))),
        }
    }
}

impl Drop for Bound {
    /// Waits for queued work that uses the session. After a fault of the GPU the session
    /// is leaked instead, with its host memory: ONNX Runtime aborts the process if the
    /// driver fails while a session is destroyed.
    fn drop(&mut self) {
        if let Err(fault) = self.stream.synchronize() {
            tracing::warn!("a network's session is abandoned with the GPU's context: {fault}");
            std::mem::forget(self.work.take());
        }
    }
}

impl Bound {
    /// Nothing is bound yet. The session was made with providers of `stream`, which record
    /// runs if `provider_records` is set.
    pub(super) fn new(
        session: Session,
        stream: &Stream,
        provider_records: bool,
    ) -> ort::Result<Self> {
        let (bindings, options) = (vec![session.create_binding()?], run_options(provider_records)?);
        let work = Some(Work { bindings, options, session });
        Ok(Self { work, provider_records, stream: stream.clone() })
    }

    /// Adds a set of tensors, of which nothing is bound yet; returns its number.
    pub(super) fn add_binding(&mut self) -> ort::Result<usize> {
        let Work { bindings, session, .. } = self.work()?;
        bindings.push(session.create_binding()?);
        Ok(bindings.len() - 1)
    }

    /// Binds an input of the set that was added last to a tensor.
    pub(super) fn bind_input(&mut self, name: &str, tensor: &DeviceTensor) -> ort::Result<()> {
        let (name, value) = (CString::new(name)?, self.value(tensor)?);
        // SAFETY: binding, name and value are alive during the call, in which
        // the binding takes its own share of the value. The memory behind the
        // value is the stream's, which `self` keeps longer than the binding.
        unsafe {
            let binding = self.last_binding()?;
            let status = (ort::api().BindInput)(binding, name.as_ptr(), value.ptr());
            ort::Error::result_from_status(status)
        }
    }

    /// Binds an output of the set that was added last to a tensor.
    pub(super) fn bind_output(&mut self, name: &str, tensor: &DeviceTensor) -> ort::Result<()> {
        let (name, value) = (CString::new(name)?, self.value(tensor)?);
        // SAFETY: as for inputs.
        unsafe {
            let binding = self.last_binding()?;
            let status = (ort::api().BindOutput)(binding, name.as_ptr(), value.ptr());
            ort::Error::result_from_status(status)
        }
    }

    /// Runs once with outputs in memory of ONNX Runtime and returns the element type and
    /// shape of each of `names`, in order.
    pub(super) fn probe(
        &mut self,
        names: &[&str],
    ) -> ort::Result<Vec<(Option<ElementType>, Vec<usize>)>> {
        let memory = self.memory()?;
        let unrecorded = run_options(false)?;
        let (session, binding, _) = self.work()?.run(0)?;
        for &name in names {
            binding.bind_output_to_device(name, &memory)?;
        }
        let outputs = session.run_binding_with_options(binding, &unrecorded)?;
        let found = names.iter().map(|&name| {
            let kind = outputs.get(name).map(|output| output.dtype());
            let dims = kind.and_then(|kind| kind.tensor_shape()).map_or(&[][..], |shape| shape);
            let shape = dims.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect();
            let element = kind.and_then(|kind| kind.tensor_type());
            (element.and_then(super::super::ort::element), shape)
        });
        let found = found.collect();
        drop(outputs);
        binding.clear_outputs();
        Ok(found)
    }

    /// Runs twice, waiting each time, and then once as frames do, which records the graph
    /// of a provider that does. The first run allocates memory, the second again for
    /// the plan that ONNX Runtime made in the first; a recording that allocates fails.
    pub(super) fn warm_up(&mut self, number: usize) -> ort::Result<()> {
        const NUM_UNRECORDED: usize = 2;
        let provider_records = self.provider_records;
        let (session, binding, _) = self.work()?.run(number)?;
        let mut unrecorded = RunOptions::new()?;
        unrecorded.set(GRAPH_KEY, NOT_RECORDED)?;
        for _ in 0..NUM_UNRECORDED {
            session.run_binding_with_options(binding, &unrecorded)?;
        }
        if provider_records {
            session.run_binding_with_options(binding, &RunOptions::new()?)?;
        }
        Ok(())
    }

    /// Records a run as a graph, after [`Bound::warm_up`], for which the session works in the
    /// same memory. A graph that ONNX Runtime records waits for the GPU at each launch.
    ///
    /// # Errors
    /// `Inference` when the run fails, `Device` when it cannot be recorded.
    pub(super) fn record(&mut self, alone: &Alone, number: usize) -> crate::error::Result<Graph> {
        let stream = self.stream.clone();
        Graph::record_alone(alone, &stream, || {
            self.enqueue(number)
                .map_err(|cause| failed("the run is not recorded").with_source(cause))
        })
    }

    /// Queues the network, with the tensors of a number, on the stream.
    pub(super) fn enqueue(&mut self, number: usize) -> ort::Result<()> {
        let (session, binding, options) = self.work()?.run(number)?;
        session.run_binding_with_options(binding, options).map(drop)
    }

    fn last_binding(&mut self) -> ort::Result<*mut ort::sys::OrtIoBinding> {
        let last = self.work()?.bindings.last();
        let last = last.ok_or_else(|| ort::Error::new("there is no binding"))?;
        Ok(last.ptr().cast_mut())
    }

    fn work(&mut self) -> ort::Result<&mut Work> {
        self.work.as_mut().ok_or_else(|| ort::Error::new("the session was abandoned"))
    }

    fn memory(&self) -> ort::Result<MemoryInfo<'static>> {
        let ordinal = self.stream.device().ordinal();
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        let (kind, memory) = (AllocatorType::Device, MemoryType::Default);
        MemoryInfo::new(AllocationDevice::CUDA, ordinal, kind, memory)
    }

    /// A tensor as ONNX Runtime sees it.
    fn value<'a>(&self, tensor: &'a DeviceTensor) -> ort::Result<DynValueRefMut<'a>> {
        let shape = tensor.shape().iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX));
        let (shape, memory) = (ort::value::Shape::new(shape), self.memory()?);
        let address = tensor.address() as *mut _;
        // SAFETY: the tensor has that many values of that type at that address
        // of this GPU's memory, which stays as long as the stream.
        unsafe {
            Ok(match tensor.element() {
                ElementType::F16 => {
                    TensorRefMut::<f16>::from_raw(memory, address, shape)?.into_dyn()
                }
                _ => TensorRefMut::<f32>::from_raw(memory, address, shape)?.into_dyn(),
            })
        }
    }
}

/// Runs that return before the GPU is done, and that the provider may record.
fn run_options(provider_records: bool) -> ort::Result<RunOptions> {
    let mut options = RunOptions::new()?;
    options.disable_device_sync()?;
    if !provider_records {
        options.set(GRAPH_KEY, NOT_RECORDED)?;
    }
    Ok(options)
}
