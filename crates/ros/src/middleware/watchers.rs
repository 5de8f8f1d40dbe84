//! The watchers of a middleware.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{MiddlewareEvent, Watcher};

/// The watchers of a middleware. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Watchers(Arc<Mutex<Vec<Watcher>>>);

impl Watchers {
    /// Adds a watcher of all later events.
    pub fn add(&self, watcher: Watcher) {
        self.lock().push(watcher);
    }

    /// Reports an event to all watchers.
    pub fn report(&self, event: &MiddlewareEvent) {
        self.lock().iter().for_each(|watcher| watcher(event.clone()));
    }

    /// A watcher that panics leaves the list as it is.
    fn lock(&self) -> MutexGuard<'_, Vec<Watcher>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
