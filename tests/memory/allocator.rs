//! The allocator of this program: the system's, which counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

thread_local! {
    /// Allocations of this thread.
    pub static NUM_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes of this thread's largest allocation.
    pub static LARGEST_OF_THREAD: Cell<usize> = const { Cell::new(0) };
}

/// Bytes of the largest allocation of any thread.
pub static LARGEST: AtomicUsize = AtomicUsize::new(0);
/// Bytes that all threads hold.
pub static NUM_BYTES: AtomicI64 = AtomicI64::new(0);

struct Counting;

fn count(size: usize) {
    let _ = NUM_ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
    let _ = LARGEST_OF_THREAD.try_with(|largest| largest.set(largest.get().max(size)));
    LARGEST.fetch_max(size, Ordering::Relaxed);
}

#[expect(unsafe_code, reason = "counting allocations takes a global allocator")]
// SAFETY: every call is forwarded unchanged to `System`, whose contract is the
// same; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        NUM_BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NUM_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: `at` came from `System` with this layout.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        NUM_BYTES.fetch_add(size as i64 - layout.size() as i64, Ordering::Relaxed);
        // SAFETY: `at` came from `System` with this layout.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
