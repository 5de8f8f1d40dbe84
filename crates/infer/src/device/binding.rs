//! A session of ONNX Runtime that runs on a stream and in its memory.
//!
//! The interface of `ort` copies inputs; here they are bound in place, by the C interface
//! of ONNX Runtime.

use std::ffi::CString;

use half::f16;
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{IoBinding, RunOptions, Session, SessionOutputs};
use ort::value::{DynValueRefMut, TensorRefMut};
use ort::{AsPointer, ep};

use super::network::failed;
use det_post_ops::device::cuda::{CaptureLock, DeviceTensor, Graph, Stream, lock_capture};
use det_post_types::ElementType;

/// The key of the run option that selects a recording.
const GRAPH_KEY: &str = "gpu_graph_id";

/// The value for a run that is not recorded.
const NOT_RECORDED: &str = "-1";

/// The host waits for one run in so many: ONNX Runtime keeps the page-locked memory of runs,
/// which their copies read, until a run for which it waits.
const RUNS_PER_WAIT: u32 = 64;

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
    /// Whether the provider records runs as its own graph.
    provider_records: bool,
    /// Whether a run is recorded, whose copies read its page-locked memory at every launch.
    is_recorded: bool,
    /// Runs since the host last waited.
    num_queued: u32,
    // Dropped after the session and its last callbacks, which use the memory.
    page_locked: Option<Allocator>,
    // Dropped after the session, which works in its memory.
    stream: Stream,
}

/// Dropped in this order.
struct Work {
    bindings: Vec<IoBinding>,
    /// Of a run that returns before the GPU is done.
    queued: RunOptions,
    /// Of a run for which the host waits.
    waiting: RunOptions,
    session: Session,
}

impl Work {
    /// The session, the binding of a number, and the options of a run.
    fn run(
        &mut self,
        number: usize,
        wait: Wait,
    ) -> ort::Result<(&mut Session, &mut IoBinding, &RunOptions)> {
        let Self { bindings, queued, waiting, session } = self;
        let options = if wait == Wait::Yes { waiting } else { queued };
        match bindings.get_mut(number) {
            Some(binding) => Ok((session, binding, options)),
            None => Err(ort::Error::new(format!("there are no tensors of number {number}"))),
        }
    }
}

impl Drop for Bound {
    /// Waits for queued work that uses the session. After a fault of the GPU the session
    /// is leaked instead, with its host memory: ONNX Runtime aborts the process if the
    /// driver fails while a session is destroyed.
    ///
    /// A session that is destroyed queues callbacks that release page-locked memory. The
    /// allocator outlives them: its last owner calls the driver, which fails in a callback and
    /// aborts the process.
    fn drop(&mut self) {
        let mut finished = self.stream.synchronize();
        if finished.is_ok() {
            // Its libraries wait for the whole GPU.
            let _lock = lock_capture();
            self.work = None;
            finished = self.stream.synchronize();
        }
        if let Err(fault) = finished {
            tracing::warn!("a network's session is abandoned with the GPU's context: {fault}");
            std::mem::forget((self.work.take(), self.page_locked.take()));
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
        let bindings = vec![session.create_binding()?];
        let queued = run_options(provider_records, Wait::No)?;
        let waiting = run_options(provider_records, Wait::Yes)?;
        let memory = memory(stream, AllocationDevice::CUDA_PINNED, MemoryType::CPUOutput)?;
        // A provider without page-locked memory has none to release.
        let page_locked = Allocator::new(&session, memory).ok();
        let work = Some(Work { bindings, queued, waiting, session });
        let (is_recorded, num_queued, stream) = (false, 0, stream.clone());
        Ok(Self { work, provider_records, is_recorded, num_queued, page_locked, stream })
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

    /// Binds outputs of the set that was added last, and no others, to host memory, which ONNX
    /// Runtime allocates in each run.
    pub(super) fn bind_host_outputs<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> ort::Result<()> {
        let (device, kind) = (AllocationDevice::CPU, MemoryType::Default);
        let memory = MemoryInfo::new(device, 0, AllocatorType::Device, kind)?;
        let binding = self.work()?.bindings.last_mut();
        let binding = binding.ok_or_else(|| ort::Error::new("there is no binding"))?;
        binding.clear_outputs();
        for name in names {
            binding.bind_output_to_device(name, &memory)?;
        }
        Ok(())
    }

    /// Runs with the tensors of a number, waits, and gives `read` the outputs in host memory, in
    /// the order in which they were bound.
    pub(super) fn run_to_host<R>(
        &mut self,
        number: usize,
        read: impl FnOnce(&SessionOutputs<'_>) -> R,
    ) -> ort::Result<R> {
        let (session, binding, options) = self.work()?.run(number, Wait::Yes)?;
        Ok(read(&session.run_binding_with_options(binding, options)?))
    }

    /// After the graphs of [`Bound::record`] were dropped.
    pub(super) fn forget_recordings(&mut self) {
        self.is_recorded = false;
    }

    /// Runs once with outputs in memory of ONNX Runtime and returns the element type and
    /// shape of each of `names`, in order.
    pub(super) fn probe(
        &mut self,
        names: &[&str],
    ) -> ort::Result<Vec<(Option<ElementType>, Vec<usize>)>> {
        let memory = memory(&self.stream, AllocationDevice::CUDA, MemoryType::Default)?;
        let unrecorded = run_options(false, Wait::No)?;
        let (session, binding, _) = self.work()?.run(0, Wait::No)?;
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

    /// Runs twice, and then once as frames do, which records the graph of a provider that
    /// does. The first run allocates memory, the second again for the plan that ONNX Runtime
    /// made in the first; a recording that allocates fails. ONNX Runtime waits for the runs,
    /// unless one is recorded already: it would use the memory of that one again.
    pub(super) fn warm_up(&mut self, number: usize) -> ort::Result<()> {
        const NUM_UNRECORDED: usize = 2;
        let provider_records = self.provider_records;
        let wait = if self.is_recorded { Wait::No } else { Wait::Yes };
        self.num_queued = 0;
        let unrecorded = run_options(false, wait)?;
        let (session, binding, recorded) = self.work()?.run(number, wait)?;
        for _ in 0..NUM_UNRECORDED {
            session.run_binding_with_options(binding, &unrecorded)?;
        }
        if provider_records {
            session.run_binding_with_options(binding, recorded)?;
        }
        Ok(())
    }

    /// Records a run as a graph, after [`Bound::warm_up`], for which the session works in the
    /// same memory. A graph that ONNX Runtime records waits for the GPU at each launch.
    ///
    /// # Errors
    /// `Inference` when the run fails, `Device` when it cannot be recorded.
    pub(super) fn record(
        &mut self,
        lock: &CaptureLock,
        number: usize,
    ) -> det_post_types::Result<Graph> {
        let stream = self.stream.clone();
        self.is_recorded = true;
        Graph::capture_locked(lock, &stream, || {
            self.enqueue(number)
                .map_err(|cause| failed("the run is not recorded").with_source(cause))
        })
    }

    /// Queues the network, with the tensors of a number, on the stream; one call in
    /// [`RUNS_PER_WAIT`] since [`Bound::warm_up`], and never the first, also waits for it.
    pub(super) fn enqueue(&mut self, number: usize) -> ort::Result<()> {
        self.num_queued = (self.num_queued + 1) % RUNS_PER_WAIT;
        let wait = if self.num_queued == 0 { Wait::Yes } else { Wait::No };
        let (session, binding, options) = self.work()?.run(number, wait)?;
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

    /// A tensor as ONNX Runtime sees it.
    fn value<'a>(&self, tensor: &'a DeviceTensor) -> ort::Result<DynValueRefMut<'a>> {
        let shape = tensor.shape().iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX));
        let memory = memory(&self.stream, AllocationDevice::CUDA, MemoryType::Default);
        let (shape, memory) = (ort::value::Shape::new(shape), memory?);
        let address = tensor.address() as *mut _;
        // SAFETY: the tensor has that many values of that type at that address
        // of this GPU's memory, which stays as long as the stream.
        unsafe {
            Ok(match tensor.element() {
                ElementType::F16 => {
                    TensorRefMut::<f16>::from_raw(memory, address, shape)?.into_dyn()
                }
                ElementType::I8 => TensorRefMut::<i8>::from_raw(memory, address, shape)?.into_dyn(),
                _ => TensorRefMut::<f32>::from_raw(memory, address, shape)?.into_dyn(),
            })
        }
    }
}

/// Memory of ONNX Runtime for a stream.
fn memory(
    stream: &Stream,
    device: AllocationDevice<'_>,
    kind: MemoryType,
) -> ort::Result<MemoryInfo<'static>> {
    let ordinal = i32::try_from(stream.device().ordinal()).unwrap_or(i32::MAX);
    MemoryInfo::new(device, ordinal, AllocatorType::Device, kind)
}

/// Whether ONNX Runtime waits for a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Yes,
    No,
}

/// Options of runs that the provider records if `is_recorded` is set.
fn run_options(is_recorded: bool, wait: Wait) -> ort::Result<RunOptions> {
    let mut options = RunOptions::new()?;
    if wait == Wait::No {
        options.disable_device_sync()?;
    }
    if !is_recorded {
        options.set(GRAPH_KEY, NOT_RECORDED)?;
    }
    Ok(options)
}
