//! Streams: work in order, and the memory that it uses.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::sys::{self, CUevent_flags, CUevent_wait_flags, CUstream, CUstreamCaptureMode};
use cudarc::driver::{CudaStream, DriverError, result};

use super::{CudaDevice, error, failed};
use det_post_types::Result;

/// A queue of work on one GPU, with all memory that was allocated on it. Clones
/// are handles of the same stream.
///
/// A stream may have further queues, for what frames do beside its work ([`Stream::sibling_stream`]),
/// and further memory, which is freed before the rest ([`Stream::with_own_memory`]).
#[derive(Clone)]
pub struct Stream {
    memory: Arc<Memory>,
    queue: Queue,
}

/// The queue of a stream that a handle works on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queue {
    Work,
    Sibling(usize),
}

struct Queues {
    stream: Arc<CudaStream>,
    /// The other queues, each once it is asked for.
    siblings: [OnceLock<Arc<CudaStream>>; Stream::NUM_SIBLINGS],
    device: CudaDevice,
    num_waits: AtomicU64,
    num_allocations: AtomicUsize,
    /// The address of the memory whose graph is being recorded; null when none is.
    recorder: AtomicPtr<Memory>,
}

struct Memory {
    owned: Mutex<Owned>,
    queues: Arc<Queues>,
    /// The memory of the stream, which work with this memory may use, too.
    parent: Option<Arc<Self>>,
}

#[derive(Default)]
struct Owned {
    device: Vec<u64>,
    host: Vec<usize>,
    /// Streams whose memory this one's work uses, each once; dropped after that work.
    streams: Vec<Stream>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Queued work may still use the memory. Errors cannot be reported here: a
        // lost context has no memory to free.
        let queues = &self.queues;
        if queues.device.bind().is_err() || queues.synchronize().is_err() {
            return;
        }
        let owned = self.owned.get_mut().unwrap_or_else(PoisonError::into_inner);
        for address in owned.device.drain(..) {
            // SAFETY: allocated by `malloc_sync` and owned only here; only work of these
            // queues uses it, all of which is complete, and work of streams that keep this
            // memory (`keep`), which drop it after theirs. Graphs with it hold it (`bind`).
            let _ = unsafe { result::free_sync(address) };
        }
        for address in owned.host.drain(..) {
            // SAFETY: as above, allocated by `malloc_host`.
            let _ = unsafe { result::free_host(address as *mut _) };
        }
    }
}

impl Memory {
    fn new(queues: &Arc<Queues>, parent: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { owned: Mutex::default(), queues: Arc::clone(queues), parent })
    }

    fn owned(&self) -> MutexGuard<'_, Owned> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is memory of a stream, or that beside its own, and `other` that stream's.
    fn includes(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other) || self.parent.as_ref().is_some_and(|of| Arc::ptr_eq(of, other))
    }
}

impl Queues {
    /// Waits for the work of all queues.
    fn synchronize(&self) -> std::result::Result<(), DriverError> {
        let mut waited = Ok(());
        let siblings = self.siblings.iter().filter_map(OnceLock::get);
        for queue in siblings.chain([&self.stream]) {
            // Also after a failure.
            waited = waited.and(queue.synchronize());
        }
        waited
    }
}

impl Stream {
    /// The number of queues beside the first.
    pub const NUM_SIBLINGS: usize = 11;

    pub(super) fn new(device: &CudaDevice) -> Result<Self> {
        let stream = device.context().new_stream().map_err(|e| failed("make a stream", e))?;
        let queues = Arc::new(Queues {
            stream,
            siblings: Default::default(),
            device: device.clone(),
            num_waits: AtomicU64::new(0),
            num_allocations: AtomicUsize::new(0),
            recorder: AtomicPtr::default(),
        });
        let stream = Self { memory: Memory::new(&queues, None), queue: Queue::Work };
        stream.bind()?;
        Ok(stream)
    }

    /// A handle of the same queues whose allocations are freed, after all queued work, once the
    /// handle and the buffers and graphs that were made with it are dropped. Work that is queued
    /// by it may use buffers of the stream; work queued by other handles of the stream may not
    /// use its own.
    pub fn with_own_memory(&self) -> Self {
        let parent = self.memory.parent.as_ref().unwrap_or(&self.memory);
        let memory = Memory::new(&self.memory.queues, Some(Arc::clone(parent)));
        Self { memory, queue: self.queue }
    }

    /// The GPU this stream runs on.
    pub fn device(&self) -> &CudaDevice {
        &self.memory.queues.device
    }

    /// A handle of another queue of this stream, by a number below [`Stream::NUM_SIBLINGS`]; its
    /// work runs beside that of the others. Work of one queue that needs another's is queued after
    /// [`Stream::wait_for`] an event of it.
    ///
    /// # Errors
    /// `Device` with the driver's error, or when there is no such queue.
    pub fn sibling_stream(&self, index: usize) -> Result<Self> {
        let queue = self.memory.queues.siblings.get(index);
        let queue = queue.ok_or_else(|| error(format!("a stream has no sibling queue {index}")))?;
        if queue.get().is_none() {
            let made = self.device().context().new_stream();
            // Another thread may have made one meanwhile, which remains.
            let _ = queue.set(made.map_err(|e| failed("make a stream", e))?);
        }
        Ok(Self { queue: Queue::Sibling(index), ..self.clone() })
    }

    /// Waits until all queued work is done, that of every queue.
    ///
    /// # Errors
    /// `Device` with the first failure of any of it.
    pub fn synchronize(&self) -> Result<()> {
        self.count_wait();
        self.memory.queues.synchronize().map_err(|e| failed("finish the queued work", e))
    }

    /// Lets this stream's later work begin after what another library has queued on a stream
    /// of its own so far. `foreign` is that stream's driver handle, `CUstream`; 1 is the
    /// legacy default stream, 2 the one of this thread.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    ///
    /// # Safety
    /// The handle is that of a live stream of this stream's GPU.
    pub unsafe fn follow(&self, foreign: u64) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.order(foreign as CUstream, self.raw()) }
    }

    /// Lets the later work of another library's stream begin after this stream's work so far.
    /// `foreign` as in [`Stream::follow`].
    ///
    /// # Errors
    /// `Device` with the driver's error.
    ///
    /// # Safety
    /// The handle is that of a live stream of this stream's GPU.
    pub unsafe fn precede(&self, foreign: u64) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.order(self.raw(), foreign as CUstream) }
    }

    /// Lets later work of a stream begin after another's work so far.
    ///
    /// # Safety
    /// Both are live streams of this stream's GPU.
    unsafe fn order(&self, earlier: CUstream, later: CUstream) -> Result<()> {
        self.bind()?;
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let event = result::event::create(flags).map_err(|e| failed("make an event", e))?;
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the event is alive, and so are the streams, as the caller promises.
        let ordered = unsafe {
            result::event::record(event, earlier)
                .and_then(|()| result::stream::wait_event(later, event, flags))
        };
        // SAFETY: made above and not used any more; the driver keeps what queued work needs.
        let destroyed = unsafe { result::event::destroy(event) };
        ordered.and(destroyed).map_err(|e| failed("order two streams", e))
    }

    /// The number of times that the host has waited for this stream: once per frame.
    pub fn num_waits(&self) -> u64 {
        self.memory.queues.num_waits.load(Ordering::Relaxed)
    }

    /// The number of allocations on this stream so far, by any handle: frames add none.
    pub fn num_allocations(&self) -> usize {
        self.memory.queues.num_allocations.load(Ordering::Relaxed)
    }

    pub(super) fn count_wait(&self) {
        self.memory.queues.num_waits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn cuda(&self) -> &Arc<CudaStream> {
        match self.queue {
            Queue::Work => &self.memory.queues.stream,
            Queue::Sibling(index) => {
                self.memory.queues.siblings[index].get().unwrap_or(&self.memory.queues.stream)
            }
        }
    }

    pub(super) fn raw(&self) -> CUstream {
        self.cuda().cu_stream()
    }

    /// Whether two handles are of one queue.
    pub fn is_same_queue(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.memory.queues, &other.memory.queues) && self.queue == other.queue
    }

    /// The driver's handle, for a library that queues work of its own; valid as long
    /// as this stream.
    pub fn handle(&self) -> *mut () {
        self.raw().cast()
    }

    /// Makes the context current on this thread, before work is queued or memory allocated.
    ///
    /// # Errors
    /// `Device` with the driver's error, or when a graph is recorded that would not hold the
    /// memory that is the handle's own.
    pub(crate) fn bind(&self) -> Result<()> {
        let recorder = self.memory.queues.recorder.load(Ordering::Relaxed).cast_const();
        if !recorder.is_null()
            && self.memory.parent.is_some()
            && recorder != &raw const *self.memory
        {
            return Err(error("a graph was recorded with the memory of another handle".to_owned()));
        }
        self.device().bind()
    }

    pub(super) fn own_device_memory(&self, address: u64) {
        self.memory.queues.num_allocations.fetch_add(1, Ordering::Relaxed);
        self.memory.owned().device.push(address);
    }

    pub(super) fn own_host_memory(&self, address: usize) {
        self.memory.queues.num_allocations.fetch_add(1, Ordering::Relaxed);
        self.memory.owned().host.push(address);
    }

    /// Keeps another stream, and with it its memory, until this one's work is done.
    ///
    /// # Errors
    /// `Device` when that memory is freed before this stream's.
    pub(super) fn keep(&self, other: &Self) -> Result<()> {
        if self.memory.includes(&other.memory) {
            return Ok(());
        }
        if other.memory.includes(&self.memory) {
            return Err(error("a stream cannot keep memory that keeps this stream".to_owned()));
        }
        let mut owned = self.memory.owned();
        if !owned.streams.iter().any(|kept| Arc::ptr_eq(&kept.memory, &other.memory)) {
            owned.streams.push(other.clone());
        }
        Ok(())
    }

    /// Notes that a graph is recorded with this handle's memory, or that none is any more.
    pub(super) fn set_recording(&self, is_recording: bool) {
        let memory = Arc::as_ptr(&self.memory).cast_mut();
        let recorder = if is_recording { memory } else { ptr::null_mut() };
        self.memory.queues.recorder.store(recorder, Ordering::Relaxed);
    }

    /// Refuses memory of another stream, which may be of another GPU, in use or freed.
    pub(crate) fn check_owns(&self, owner: &Self) -> Result<()> {
        if self.memory.includes(&owner.memory) {
            return Ok(());
        }
        Err(error(format!(
            "a buffer of another stream ({}) was given to a stream of {}",
            owner.device(),
            self.device()
        )))
    }
}

/// Allows this thread to allocate, wait and load kernels while another thread records. ONNX
/// Runtime records in a mode that forbids these in the whole process; the streams of this
/// module are independent of its streams.
pub(super) fn ignore_other_recordings() -> Result<()> {
    thread_local!(static IS_SET: Cell<bool> = const { Cell::new(false) });
    if IS_SET.get() {
        return Ok(());
    }
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: swaps a setting of this thread with a live local.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode).result() }
        .map_err(|e| failed("set the capture mode of this thread", e))?;
    IS_SET.set(true);
    Ok(())
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream of {}", self.device())
    }
}
