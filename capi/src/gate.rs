//! Functions of the caller, which are called until they are closed.

use std::sync::{PoisonError, RwLock};

/// Functions, and whether they may be called.
pub(super) struct Gate<F> {
    functions: F,
    /// A call holds it for reading.
    is_open: RwLock<bool>,
}

impl<F> Gate<F> {
    pub(super) fn new(functions: F) -> Self {
        Self { functions, is_open: RwLock::new(true) }
    }

    /// Calls a function; `None` once they are closed.
    pub(super) fn call<R>(&self, call: impl FnOnce(&F) -> R) -> Option<R> {
        let is_open = self.is_open.read().unwrap_or_else(PoisonError::into_inner);
        is_open.then(|| call(&self.functions))
    }

    /// Waits for calls in progress; none is made afterwards. Returns the functions for what ends
    /// their use.
    pub(super) fn close(&self) -> &F {
        *self.is_open.write().unwrap_or_else(PoisonError::into_inner) = false;
        &self.functions
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn closing_waits_for_a_call_and_lets_none_begin() {
        let gate = Gate::new(AtomicBool::new(false));
        let (begun, has_begun) = std::sync::mpsc::channel();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                gate.call(|has_ended| {
                    begun.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                    has_ended.store(true, Ordering::Relaxed);
                })
            });
            has_begun.recv().unwrap();
            assert!(gate.close().load(Ordering::Relaxed));
        });
        assert_eq!(gate.call(|_| ()), None);
    }
}
