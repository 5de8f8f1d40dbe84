//! The threads of the middleware. Each sleeps until it is woken, and all end
//! with the middleware.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use super::error::error;
use crate::middleware::{MiddlewareEvent, Watchers};
use det_post_types::Result;

/// The longest sleep of a thread, after which it checks for work without a wake-up.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// Running threads.
#[derive(Default)]
pub(super) struct Threads(Vec<(StopHandle, JoinHandle<()>)>);

/// Stops a thread.
#[derive(Clone)]
pub(super) struct StopHandle {
    is_due: Arc<AtomicBool>,
    thread: Thread,
}

impl StopHandle {
    /// Asks the thread to end.
    pub fn stop(&self) {
        self.is_due.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// Tells a thread that it is to end.
pub(super) struct Stop {
    is_due: Arc<AtomicBool>,
}

impl Stop {
    /// Whether the thread is to end.
    pub fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    /// Sleeps until woken, at most [`MAX_SLEEP`].
    pub fn wait(&self) {
        self.wait_at_most(MAX_SLEEP);
    }

    /// Sleeps until woken, at most `longest`.
    pub fn wait_at_most(&self, longest: Duration) {
        if !self.is_due() {
            thread::park_timeout(longest);
        }
    }
}

impl Threads {
    /// Starts a thread that does `work` until it is stopped. A panic is reported
    /// to `watchers`.
    pub fn spawn(
        &mut self,
        name: &str,
        watchers: &Watchers,
        work: impl FnOnce(&Stop) + Send + 'static,
    ) -> Result<StopHandle> {
        self.0.retain(|(_, thread)| !thread.is_finished());
        let is_due = Arc::new(AtomicBool::new(false));
        let stop = Stop { is_due: Arc::clone(&is_due) };
        let reporter = PanicReporter { watchers: watchers.clone(), name: name.to_owned() };
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let _reporter = reporter;
                work(&stop);
            })
            .map_err(|cause| error(format!("cannot start thread {name}")).with_source(cause))?;
        let handle = StopHandle { is_due, thread: thread.thread().clone() };
        self.0.push((handle.clone(), thread));
        Ok(handle)
    }

    /// Stops all threads and waits for their ends.
    pub fn end(&mut self) {
        self.0.iter().for_each(|(handle, _)| handle.stop());
        for (_, thread) in self.0.drain(..) {
            if thread.thread().id() != thread::current().id() {
                // A panic is reported by the thread itself.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reports a panic of the thread that owns it: the participant's locks may be
/// poisoned.
struct PanicReporter {
    watchers: Watchers,
    name: String,
}

impl Drop for PanicReporter {
    fn drop(&mut self) {
        if thread::panicking() {
            let reason = format!("thread {:?} panicked; its work is not done", self.name);
            self.watchers.report(&MiddlewareEvent::Failed { reason });
        }
    }
}

/// A waker of the calling thread.
pub(super) fn waker_of_this_thread() -> Waker {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    Waker::from(Arc::new(Unpark(thread::current())))
}
