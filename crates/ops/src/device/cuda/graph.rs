//! Recorded work that is launched as one unit: CUDA graphs.

use std::cell::{Cell, RefCell};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::CudaGraph;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};

use super::{Stream, error, failed};
use det_post_types::Result;

static CAPTURE: Mutex<()> = Mutex::new(());

thread_local! {
    static HAS_LOCK: Cell<bool> = const { Cell::new(false) };
    /// The capture of this thread.
    static CAPTURED: RefCell<Option<Captured>> = const { RefCell::new(None) };
}

/// What this thread has captured.
#[derive(Default)]
struct Captured {
    kernels: Vec<&'static str>,
    /// Whether the next launch must find the ones before it complete.
    is_next_apart: bool,
}

/// Notes a launch, which is in a graph if this thread captures one. Whether it may begin while the one before
/// it runs.
pub(super) fn note_launch(kernel: &'static str) -> bool {
    CAPTURED.with_borrow_mut(|captured| {
        captured.as_mut().is_none_or(|captured| {
            captured.kernels.push(kernel);
            !std::mem::take(&mut captured.is_next_apart)
        })
    })
}

/// Says of the next launch of this thread's capture whether it must find the ones before it complete.
pub(super) fn set_next_apart(is_apart: bool) {
    CAPTURED.with_borrow_mut(|captured| {
        if let Some(captured) = captured {
            captured.is_next_apart = is_apart;
        }
    });
}

/// The lock that a process holds while it captures a graph: only one thread at a time does.
pub struct CaptureLock {
    /// `None` inside another guard of the same thread.
    outer: Option<MutexGuard<'static, ()>>,
}

/// Waits for the guard, unless this thread has it. While ONNX Runtime loads or releases a network it
/// waits for the whole GPU, and while it captures a graph no thread may allocate memory: neither
/// may overlap a capture.
pub fn lock_capture() -> CaptureLock {
    if HAS_LOCK.get() {
        return CaptureLock { outer: None };
    }
    let outer = CAPTURE.lock().unwrap_or_else(PoisonError::into_inner);
    HAS_LOCK.set(true);
    CaptureLock { outer: Some(outer) }
}

impl Drop for CaptureLock {
    fn drop(&mut self) {
        if self.outer.is_some() {
            HAS_LOCK.set(false);
        }
    }
}

/// Work captured from a stream, to be launched any number of times.
///
/// The graph uses the buffers that its kernels were captured with; it keeps the
/// stream, and with it their memory, alive. Values in device memory (counts,
/// settings) may change between launches; sizes and buffers are fixed.
pub struct Graph {
    graph: CudaGraph,
    kernels: Vec<&'static str>,
    // Dropped after the graph: owns the memory that it uses.
    stream: Stream,
}

// SAFETY: the driver's graph belongs to no thread: any thread may launch or free
// it, one at a time. A `Graph` is not `Sync` and owns the only handle, and
// launching makes the context current first.
unsafe impl Send for Graph {}

impl Graph {
    /// Captures what `enqueue` queues on `stream`, without running it.
    ///
    /// # Errors
    /// Returns the errors of `enqueue`; `Device` when it waited or allocated memory, which cannot
    /// be captured, or queued nothing.
    pub fn capture(stream: &Stream, enqueue: impl FnOnce() -> Result<()>) -> Result<Self> {
        Self::capture_locked(&lock_capture(), stream, enqueue)
    }

    /// As [`Graph::capture`], for a caller that holds the guard.
    ///
    /// # Errors
    /// As of [`Graph::capture`].
    pub fn capture_locked(
        _lock: &CaptureLock,
        stream: &Stream,
        enqueue: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let cuda = stream.cuda();
        cuda.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
            .map_err(|e| failed("begin to capture a graph", e))?;
        stream.set_recording(true);
        CAPTURED.set(Some(Captured::default()));
        let enqueued = enqueue();
        let kernels = CAPTURED.take().unwrap_or_default().kernels;
        stream.set_recording(false);
        let captured = cuda.end_capture(CUgraphInstantiate_flags(0));
        enqueued?;
        let graph = captured
            .map_err(|e| failed("capture a graph", e))?
            .ok_or_else(|| error("nothing was queued while a graph was captured"))?;
        graph.upload().map_err(|e| failed("upload a graph", e))?;
        Ok(Self { graph, kernels, stream: stream.clone() })
    }

    /// Queues all captured work on the stream that it was captured from.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn enqueue(&self) -> Result<()> {
        self.graph.launch().map_err(|e| failed("launch a graph", e))
    }

    /// The names of the kernels that it launches, in order; none of other libraries.
    pub fn kernels(&self) -> &[&'static str] {
        &self.kernels
    }

    /// The stream it runs on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_guard_excludes_other_threads_until_the_outer_one_ends() {
        let (outer, inner) = (lock_capture(), lock_capture());
        let (has_it, waiting) = mpsc::channel();
        let other = std::thread::spawn(move || {
            let _lock = lock_capture();
            has_it.send(()).unwrap();
        });
        drop(inner);
        assert!(waiting.recv_timeout(Duration::from_millis(50)).is_err());
        drop(outer);
        waiting.recv_timeout(Duration::from_secs(20)).unwrap();
        other.join().unwrap();
        drop(lock_capture());
    }
}
