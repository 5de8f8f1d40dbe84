//! The door's threads: each sleeps until it is woken, and all end with the
//! door.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use super::{Graph, error};
use crate::error::Result;
use crate::transport::door::DoorEvent;

/// How long a thread sleeps at most: what it was not woken for is seen by then.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// The threads that run.
#[derive(Default)]
pub(super) struct Threads(Vec<(StopHandle, JoinHandle<()>)>);

/// Ends a thread from outside.
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

/// What a thread sees of its end.
pub(super) struct Stop {
    is_due: Arc<AtomicBool>,
}

impl Stop {
    /// Whether the thread is to end.
    pub fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    /// Sleeps until woken, and not long.
    pub fn wait(&self) {
        self.wait_at_most(MAX_SLEEP);
    }

    /// Sleeps until woken, and at most so long.
    pub fn wait_at_most(&self, longest: Duration) {
        if !self.is_due() {
            thread::park_timeout(longest);
        }
    }
}

impl Threads {
    /// Starts a thread that does `work` until it is stopped. When it panics,
    /// the watchers of `graph` are told.
    pub fn spawn(
        &mut self,
        name: &str,
        graph: &Arc<Graph>,
        work: impl FnOnce(&Stop) + Send + 'static,
    ) -> Result<StopHandle> {
        self.0.retain(|(_, thread)| !thread.is_finished());
        let is_due = Arc::new(AtomicBool::new(false));
        let stop = Stop { is_due: Arc::clone(&is_due) };
        let alarm = Alarm { graph: Arc::clone(graph), name: name.to_owned() };
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let _alarm = alarm;
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
                // A panic was told by the alarm.
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

/// Tells of a thread that panicked: a lock of the participant is poisoned.
struct Alarm {
    graph: Arc<Graph>,
    name: String,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            let reason = format!("thread {:?} panicked; what it did is not done", self.name);
            self.graph.tell(&DoorEvent::Failed { reason });
        }
    }
}

/// A waker that wakes the thread that makes it.
pub(super) fn waker_of_this_thread() -> Waker {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    Waker::from(Arc::new(Unpark(thread::current())))
}
