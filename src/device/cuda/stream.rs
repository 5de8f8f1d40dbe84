//! Streams: work in order, and the memory that it uses.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{self, CUevent_flags, CUevent_wait_flags, CUstream, CUstreamCaptureMode};
use cudarc::driver::{CudaEvent, CudaStream, DriverError, result};

use super::{CudaDevice, error, failed};
use crate::error::Result;

/// A queue of work on one GPU, with all memory that was allocated on it. Clones
/// are handles of the same stream.
///
/// A stream may have further queues, for what frames do beside its work ([`Stream::beside`]).
/// All use the same memory.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
    queue: Queue,
}

/// The queue of a stream that a handle works on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queue {
    Work,
    Beside(usize),
}

/// The number of queues beside the first.
const NUM_BESIDE: usize = 2;

struct Inner {
    stream: Arc<CudaStream>,
    /// The other queues, each once it is asked for.
    beside: [OnceLock<Arc<CudaStream>>; NUM_BESIDE],
    device: CudaDevice,
    owned: Mutex<Owned>,
    num_waits: AtomicU64,
}

#[derive(Default)]
struct Owned {
    device: Vec<u64>,
    host: Vec<usize>,
    /// Streams whose memory this one's work uses, each once; dropped after that work.
    streams: Vec<Stream>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Queued work may still use the memory. Errors cannot be reported here: a
        // lost context has no memory to free.
        if self.device.context().bind_to_thread().is_err() || self.synchronize().is_err() {
            return;
        }
        let owned = self.owned.get_mut().unwrap_or_else(PoisonError::into_inner);
        for address in owned.device.drain(..) {
            // SAFETY: allocated by `malloc_sync` and owned here alone; only work of this
            // stream uses it, all of which is complete, and work of streams that keep this
            // one (`keep`), which drop it after theirs.
            let _ = unsafe { result::free_sync(address) };
        }
        for address in owned.host.drain(..) {
            // SAFETY: as above, allocated by `malloc_host`.
            let _ = unsafe { result::free_host(address as *mut _) };
        }
    }
}

impl Inner {
    /// Waits for the work of all queues.
    fn synchronize(&self) -> std::result::Result<(), DriverError> {
        let mut waited = Ok(());
        let beside = self.beside.iter().filter_map(OnceLock::get);
        for queue in beside.chain([&self.stream]) {
            // Also after a failure.
            waited = waited.and(queue.synchronize());
        }
        waited
    }
}

impl Stream {
    pub(super) fn new(device: &CudaDevice) -> Result<Self> {
        let stream = device.context().new_stream().map_err(|e| failed("make a stream", e))?;
        let inner = Inner {
            stream,
            beside: Default::default(),
            device: device.clone(),
            owned: Mutex::default(),
            num_waits: AtomicU64::new(0),
        };
        let stream = Self { inner: Arc::new(inner), queue: Queue::Work };
        stream.bind()?;
        Ok(stream)
    }

    /// The GPU this stream runs on.
    pub fn device(&self) -> &CudaDevice {
        &self.inner.device
    }

    /// A handle of another queue of this stream, 0 or 1, whose work runs beside that of the
    /// others. Work of one queue that needs another's is queued after [`Stream::wait_for`] an
    /// event of it.
    ///
    /// # Errors
    /// `Device` with the driver's error, or when there is no such queue.
    pub fn beside(&self, index: usize) -> Result<Self> {
        let queue = self.inner.beside.get(index);
        let queue = queue.ok_or_else(|| error(format!("a stream has no queue {index} beside")))?;
        if queue.get().is_none() {
            let made = self.device().context().new_stream();
            // Another thread may have made one meanwhile, which remains.
            let _ = queue.set(made.map_err(|e| failed("make a stream", e))?);
        }
        Ok(Self { inner: Arc::clone(&self.inner), queue: Queue::Beside(index) })
    }

    /// Lets work that is queued from now on begin after an event. The host does not wait.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.cuda().wait(&event.event).map_err(|e| failed("wait for another queue", e))
    }

    /// Waits until all queued work is done, that of every queue.
    ///
    /// # Errors
    /// `Device` with the first failure of any of it.
    pub fn synchronize(&self) -> Result<()> {
        self.count_wait();
        self.inner.synchronize().map_err(|e| failed("finish the queued work", e))
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
        self.inner.num_waits.load(Ordering::Relaxed)
    }

    /// The number of allocations on this stream: frames add none.
    pub fn num_allocations(&self) -> usize {
        let owned = self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner);
        owned.device.len() + owned.host.len()
    }

    fn count_wait(&self) {
        self.inner.num_waits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn cuda(&self) -> &Arc<CudaStream> {
        match self.queue {
            Queue::Work => &self.inner.stream,
            Queue::Beside(index) => self.inner.beside[index].get().unwrap_or(&self.inner.stream),
        }
    }

    pub(super) fn raw(&self) -> CUstream {
        self.cuda().cu_stream()
    }

    /// Whether two handles are of one queue.
    pub(crate) fn is_same_queue(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) && self.queue == other.queue
    }

    /// The driver's handle, for a library that queues work of its own; valid as long
    /// as this stream.
    pub fn handle(&self) -> *mut () {
        self.raw().cast()
    }

    /// Makes the context current on this thread.
    pub(super) fn bind(&self) -> Result<()> {
        self.device().context().bind_to_thread().map_err(|e| failed("use the GPU", e))?;
        ignore_other_recordings()
    }

    pub(super) fn own_device_memory(&self, address: u64) {
        self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner).device.push(address);
    }

    pub(super) fn own_host_memory(&self, address: usize) {
        self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner).host.push(address);
    }

    /// Keeps another stream, and with it its memory, until this one's work is done.
    pub(super) fn keep(&self, other: &Self) {
        let mut owned = self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = |kept: &Self| !Arc::ptr_eq(&kept.inner, &other.inner);
        if is_other(self) && owned.streams.iter().all(is_other) {
            owned.streams.push(other.clone());
        }
    }

    /// Refuses memory of another stream, which may be of another GPU, in use or freed.
    pub(super) fn check_owns(&self, owner: &Self) -> Result<()> {
        if Arc::ptr_eq(&self.inner, &owner.inner) {
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

/// A point in a stream's work, to wait for and to measure times.
#[derive(Debug)]
pub struct Event {
    event: CudaEvent,
    // Dropped after the event, which belongs to the stream's context. Waits for
    // the event count as waits for the stream.
    stream: Stream,
}

impl Event {
    /// An event that is complete until it is recorded.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn new(stream: &Stream) -> Result<Self> {
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let event = stream.device().context().new_event(flags);
        let event = event.map_err(|e| failed("make an event", e))?;
        Ok(Self { event, stream: stream.clone() })
    }

    /// Records the event behind all work queued so far.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.event.record(stream.cuda()).map_err(|e| failed("record an event", e))
    }

    /// Whether the stream has reached the event without a failure.
    pub fn is_complete(&self) -> bool {
        self.event.try_is_complete().unwrap_or(false)
    }

    /// Waits until the stream has reached the event; returns at once if it has.
    ///
    /// # Errors
    /// `Device` when work before the event failed.
    pub fn wait(&self) -> Result<()> {
        let is_reached = self.event.try_is_complete();
        if is_reached.map_err(|e| failed("query an event", e))? {
            return Ok(());
        }
        self.stream.count_wait();
        self.event.synchronize().map_err(|e| failed("wait for an event", e))
    }

    /// Microseconds of GPU time from this event to a later one; both must be
    /// complete.
    ///
    /// # Errors
    /// `Device` when either was never recorded or is not complete, or work failed.
    pub fn micros_until(&self, end: &Self) -> Result<f32> {
        // SAFETY: both events are alive and were created with timing; the driver
        // returns an error for events that were not recorded or are not complete.
        let milliseconds =
            unsafe { result::event::elapsed(self.event.cu_event(), end.event.cu_event()) };
        Ok(1000.0 * milliseconds.map_err(|e| failed("measure between events", e))?)
    }
}
