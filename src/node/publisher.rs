//! Publishers that one switch silences.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use det_post_ros::middleware::Publisher;
use det_post_types::Result;

/// Closes the outputs of a channel whose thread does not end in time: the thread
/// publishes nothing afterwards, whenever its frame is done.
#[derive(Clone)]
pub struct OutputGate(Arc<Mutex<bool>>);

impl OutputGate {
    /// An open gate.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(true)))
    }

    /// Closes them. Waits for a message that is being handed over.
    pub fn close(&self) {
        *self.is_open() = false;
    }

    fn is_open(&self) -> MutexGuard<'_, bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A publisher until its gate is closed. The lock has one user until then.
pub struct GatedPublisher {
    publisher: Box<dyn Publisher>,
    gate: OutputGate,
}

impl GatedPublisher {
    /// Publishes through `publisher` while `gate` is open.
    pub fn new(publisher: Box<dyn Publisher>, gate: &OutputGate) -> Self {
        Self { publisher, gate: gate.clone() }
    }

    /// Publishes a message, or nothing once the gate is closed.
    ///
    /// # Errors
    /// `Middleware` when it could not be handed over.
    pub fn publish(&mut self, cdr: &[u8]) -> Result<()> {
        let is_open = self.gate.is_open();
        if *is_open { self.publisher.publish(cdr) } else { Ok(()) }
    }

    /// Subscribers of the topic; none once the gate is closed.
    pub fn num_subscribers(&self) -> usize {
        let is_open = self.gate.is_open();
        if *is_open { self.publisher.num_subscribers() } else { 0 }
    }
}
