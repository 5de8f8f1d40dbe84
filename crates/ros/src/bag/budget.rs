//! One bound on the memory of open recordings.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory that readers of recordings may take together: decompressed
/// chunks, payloads of sqlite3 rows and lists of messages, counted by the
/// capacity of their buffers. Mapped files are not counted: the system reclaims
/// their memory when it needs it.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: AtomicUsize,
    used: AtomicUsize,
}

/// The budget of [`ReadOptions::default`](super::ReadOptions::default).
static PROCESS: MemoryBudget = MemoryBudget::new(MemoryBudget::DEFAULT_BYTES);

impl MemoryBudget {
    /// The budget of a process that sets no other: 1 GiB.
    pub const DEFAULT_BYTES: usize = 1 << 30;

    /// A budget of `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { limit: AtomicUsize::new(limit), used: AtomicUsize::new(0) }
    }

    /// The budget that all readers of this process share unless their options
    /// name another one.
    pub fn process() -> &'static Self {
        &PROCESS
    }

    /// Sets the bound in bytes. Memory in use above it is not released.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The bound in bytes.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that a reader can still take.
    pub(super) fn available(&self) -> usize {
        self.limit().saturating_sub(self.used())
    }
}

/// A share of a budget, released when it is dropped.
pub(super) struct Reservation {
    budget: &'static MemoryBudget,
    num_bytes: usize,
}

impl Reservation {
    /// A share of nothing.
    pub(super) fn new(budget: &'static MemoryBudget) -> Self {
        Self { budget, num_bytes: 0 }
    }

    pub(super) fn num_bytes(&self) -> usize {
        self.num_bytes
    }

    /// Changes the share to `num_bytes`. Returns false, and changes nothing,
    /// when the budget lacks the difference. Shrinking always succeeds.
    #[must_use]
    pub(super) fn resize(&mut self, num_bytes: usize) -> bool {
        let used = &self.budget.used;
        if let Some(more) = num_bytes.checked_sub(self.num_bytes)
            && more > 0
        {
            let limit = self.budget.limit();
            let grow = |used: usize| used.checked_add(more).filter(|used| *used <= limit);
            if used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow).is_err() {
                return false;
            }
        } else {
            used.fetch_sub(self.num_bytes - num_bytes, Ordering::Relaxed);
        }
        self.num_bytes = num_bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.num_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_the_bound_and_are_given_back() {
        static BUDGET: MemoryBudget = MemoryBudget::new(100);
        let (mut one, mut two) = (Reservation::new(&BUDGET), Reservation::new(&BUDGET));
        assert!(one.resize(60) && !two.resize(41) && two.resize(40));
        assert_eq!((BUDGET.used(), BUDGET.available()), (100, 0));
        assert!(one.resize(10) && two.resize(90) && !two.resize(usize::MAX));
        drop(one);
        assert_eq!(BUDGET.used(), 90);
        BUDGET.set_limit(50);
        assert!(!two.resize(91) && two.resize(40));
        drop(two);
        assert_eq!(BUDGET.used(), 0);
    }
}
