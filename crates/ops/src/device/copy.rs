//! Copies of payloads by several threads.
//!
//! A payload of a camera has megabytes, and one thread copies less than half of what the
//! memory of most machines can move. The threads are started once per process, by the first
//! copy that needs them, and wait between copies. A copy allocates nothing.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use det_post_types::UploadOptions;

/// The largest default: more threads gain little on most machines.
const MAX_DEFAULT_THREADS: usize = 4;

/// Smaller payloads are copied by the calling thread: waking another one takes as long.
const MIN_SHARED_BYTES: usize = 1 << 20;

/// The threads take parts of at least this size, a multiple of a page.
const MIN_PART_BYTES: usize = 256 << 10;

/// The most parts: one bit each in [`CopyPool::copied`].
const MAX_PARTS: usize = u64::BITS as usize;

/// How often the caller looks for the end of a part before it yields its core.
const NUM_SPINS: usize = 200;

/// The threads of this process.
static POOL: CopyPool = CopyPool::new();

/// Sets the number of threads of each copy in this process, the calling thread included;
/// 0 follows the number of cores ([`num_copy_threads`]).
pub fn set_copy_threads(num: usize) {
    POOL.num_threads.store(num.min(UploadOptions::MAX_COPY_THREADS), Ordering::Relaxed);
}

/// The number of threads of a copy that is worth several: as set by [`set_copy_threads`], else
/// the number of cores, at most four.
pub fn num_copy_threads() -> usize {
    match POOL.num_threads.load(Ordering::Relaxed) {
        0 => {
            let num_cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
            let num = num_cores.min(MAX_DEFAULT_THREADS);
            POOL.num_threads.store(num, Ordering::Relaxed);
            num
        }
        num => num,
    }
}

/// Copies `from` to `to`, by several threads if it is large.
///
/// # Panics
/// When the lengths differ.
pub fn copy(from: &[u8], to: &mut [u8]) {
    copy_in_parts(from, to, |_, _| {});
}

/// As [`copy`], and calls `copied` on this thread with each further range of `to` that is
/// complete, from the first byte to the last: once for a small payload, a few times for a
/// large one.
///
/// # Panics
/// When the lengths differ.
pub fn copy_in_parts(from: &[u8], to: &mut [u8], mut copied: impl FnMut(usize, &[u8])) {
    assert_eq!(from.len(), to.len(), "the slices of a copy have the same length");
    let num_threads = num_copy_threads();
    if from.len() >= MIN_SHARED_BYTES
        && num_threads > 1
        && let Some(job) = POOL.begin(from, to, num_threads)
    {
        job.run(&mut copied);
    } else {
        // In parts, so that `copied` can use the first ones meanwhile.
        for (index, part) in from.chunks(MIN_SHARED_BYTES).enumerate() {
            let start = index * MIN_SHARED_BYTES;
            let to = &mut to[start..start + part.len()];
            to.copy_from_slice(part);
            copied(start, to);
        }
    }
}

/// Threads that wait for a copy to help with.
struct CopyPool {
    /// As set; 0 until the default is known.
    num_threads: AtomicUsize,
    state: Mutex<State>,
    /// A copy begins.
    begins: Condvar,
    /// The last helper has left a copy.
    is_left: Condvar,
    from: AtomicPtr<u8>,
    to: AtomicPtr<u8>,
    len: AtomicUsize,
    part_len: AtomicUsize,
    /// The next part to copy.
    next: AtomicUsize,
    /// A bit for each part that is copied.
    copied: AtomicU64,
}

struct State {
    /// Number of copies so far: a helper joins each once.
    num_begun: u64,
    /// How many helpers may still join the copy in progress.
    num_wanted: usize,
    /// Helpers that are in the copy in progress.
    num_inside: usize,
    /// Whether a copy is in progress.
    is_busy: bool,
    num_helpers: usize,
}

impl CopyPool {
    const fn new() -> Self {
        let state =
            State { num_begun: 0, num_wanted: 0, num_inside: 0, is_busy: false, num_helpers: 0 };
        Self {
            num_threads: AtomicUsize::new(0),
            state: Mutex::new(state),
            begins: Condvar::new(),
            is_left: Condvar::new(),
            from: AtomicPtr::new(std::ptr::null_mut()),
            to: AtomicPtr::new(std::ptr::null_mut()),
            len: AtomicUsize::new(0),
            part_len: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            copied: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a copy with helpers; `None` while another one is in progress.
    fn begin<'a>(
        &'static self,
        from: &'a [u8],
        to: &'a mut [u8],
        num_threads: usize,
    ) -> Option<Job<'a>> {
        let part_len = from.len().div_ceil(MAX_PARTS).max(MIN_PART_BYTES);
        let part_len = part_len.next_multiple_of(4096);
        let mut state = self.lock();
        if state.is_busy {
            return None;
        }
        self.start_helpers(&mut state, num_threads - 1);
        self.from.store(from.as_ptr().cast_mut(), Ordering::Relaxed);
        self.to.store(to.as_mut_ptr(), Ordering::Relaxed);
        self.len.store(from.len(), Ordering::Relaxed);
        self.part_len.store(part_len, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.copied.store(0, Ordering::Relaxed);
        state.is_busy = true;
        state.num_begun += 1;
        state.num_wanted = (num_threads - 1).min(from.len().div_ceil(part_len) - 1);
        drop(state);
        self.begins.notify_all();
        Some(Job { pool: self, slices: std::marker::PhantomData })
    }

    /// Starts helpers up to a number, as far as the system allows.
    fn start_helpers(&'static self, state: &mut State, num: usize) {
        while state.num_helpers < num {
            let name = format!("copy {}", state.num_helpers + 1);
            if let Err(error) = thread::Builder::new().name(name).spawn(|| self.help()) {
                tracing::warn!("payloads are copied by fewer threads: {error}");
                set_copy_threads(state.num_helpers + 1);
                return;
            }
            state.num_helpers += 1;
        }
    }

    /// A helper: copies parts of each copy that wants one more.
    fn help(&self) {
        let mut last_joined = 0;
        let mut state = self.lock();
        loop {
            if !state.is_busy || state.num_wanted == 0 || state.num_begun == last_joined {
                state = self.begins.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            last_joined = state.num_begun;
            state.num_wanted -= 1;
            state.num_inside += 1;
            drop(state);
            while self.copy_next().is_some() {}
            state = self.lock();
            state.num_inside -= 1;
            if state.num_inside == 0 {
                self.is_left.notify_all();
            }
        }
    }

    /// Copies the next part; `None` when all are taken. Only called by a thread inside the
    /// copy in progress.
    #[expect(unsafe_code, reason = "threads that outlive a copy work on what it borrows")]
    fn copy_next(&self) -> Option<()> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let part = self.part(index)?;
        let (from, to) = (self.from.load(Ordering::Relaxed), self.to.load(Ordering::Relaxed));
        // SAFETY: the lock that each thread has taken to come inside orders these loads
        // after the stores of `begin`. Both slices are borrowed by the `Job`, which ends
        // after all helpers have left; they do not overlap, since one is borrowed mutably.
        // The part is inside both and no other thread has taken it.
        unsafe { to.add(part.start).copy_from_nonoverlapping(from.add(part.start), part.len()) };
        self.copied.fetch_or(1 << index, Ordering::Release);
        Some(())
    }

    /// The bytes of a part; `None` behind the last.
    fn part(&self, index: usize) -> Option<Range<usize>> {
        let (len, part_len) =
            (self.len.load(Ordering::Relaxed), self.part_len.load(Ordering::Relaxed));
        let start = index.checked_mul(part_len).filter(|start| *start < len)?;
        Some(start..(start + part_len).min(len))
    }
}

/// A copy in progress. At its end all helpers have left it.
struct Job<'a> {
    pool: &'static CopyPool,
    slices: std::marker::PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl Job<'_> {
    /// Copies parts as the helpers do, until all are copied.
    fn run(self, copied: &mut impl FnMut(usize, &[u8])) {
        let mut num_reported = 0;
        while self.pool.copy_next().is_some() {
            num_reported = self.report(num_reported, copied);
        }
        let len = self.pool.len.load(Ordering::Relaxed);
        let num_parts = len.div_ceil(self.pool.part_len.load(Ordering::Relaxed));
        let mut num_spins = 0;
        while num_reported < num_parts {
            num_reported = self.report(num_reported, copied);
            num_spins += 1;
            if num_spins < NUM_SPINS { std::hint::spin_loop() } else { thread::yield_now() }
        }
    }

    /// Passes on the parts that follow the first `num_reported` and are copied; returns the
    /// number of all that were passed on.
    #[expect(unsafe_code, reason = "other threads write the rest of the slice meanwhile")]
    fn report(&self, num_reported: usize, copied: &mut impl FnMut(usize, &[u8])) -> usize {
        let done = self.pool.copied.load(Ordering::Acquire).trailing_ones() as usize;
        let range = num_reported.checked_sub(1).map_or(Some(0..0), |last| self.pool.part(last));
        let (Some(before), Some(last)) = (range, done.checked_sub(1)) else { return num_reported };
        let Some(part) = self.pool.part(last).filter(|_| done > num_reported) else {
            return num_reported;
        };
        let to = self.pool.to.load(Ordering::Relaxed);
        // SAFETY: these parts are complete (acquired above) and are not written again;
        // the slice is borrowed by this job.
        let bytes =
            unsafe { std::slice::from_raw_parts(to.add(before.end), part.end - before.end) };
        copied(before.end, bytes);
        done
    }
}

impl Drop for Job<'_> {
    /// Waits for the helpers, also when `copied` panicked.
    fn drop(&mut self) {
        // No further part for those inside.
        self.pool.next.store(MAX_PARTS, Ordering::Relaxed);
        let mut state = self.pool.lock();
        state.num_wanted = 0;
        while state.num_inside > 0 {
            state = self.pool.is_left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_busy = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(len: usize, seed: usize) -> Vec<u8> {
        (0..len).map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed) as u8).collect()
    }

    /// Sizes around the bounds: of sharing, of a part, of the number of parts.
    const SIZES: [usize; 8] = [
        0,
        1,
        MIN_SHARED_BYTES - 1,
        MIN_SHARED_BYTES,
        MIN_SHARED_BYTES + 1,
        1920 * 1080 * 3,
        MAX_PARTS * MIN_PART_BYTES,
        MAX_PARTS * MIN_PART_BYTES + 12_345,
    ];

    /// One test for all, since the number of threads is that of the process.
    #[test]
    fn copies_by_any_number_of_threads_are_equal_and_reported_in_order() {
        for num_threads in [1, 2, 3, 5, 0] {
            set_copy_threads(num_threads);
            for (seed, len) in SIZES.into_iter().enumerate() {
                let from = payload(len, seed);
                let mut to = vec![0; len];
                let mut end = 0;
                copy_in_parts(&from, &mut to, |start, bytes| {
                    assert_eq!(start, end, "{len} bytes, {num_threads} threads");
                    assert!(bytes == &from[start..start + bytes.len()], "{len}: {start}");
                    end += bytes.len();
                });
                assert_eq!(end, len);
                assert!(from == to, "{len} bytes, {num_threads} threads");
            }
        }
        // Several callers at once: one has the helpers, the others copy by themselves.
        set_copy_threads(3);
        thread::scope(|scope| {
            for seed in 0..4 {
                scope.spawn(move || {
                    let from = payload(3 << 20, seed);
                    for _ in 0..20 {
                        let mut to = vec![0; from.len()];
                        copy(&from, &mut to);
                        assert!(from == to);
                    }
                });
            }
        });
        // A panic in between leaves the helpers idle and the next copy sound.
        let from = payload(4 << 20, 9);
        let mut to = vec![0; from.len()];
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            copy_in_parts(&from, &mut to, |_, _| panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        copy(&from, &mut to);
        assert!(from == to);
        assert!(POOL.lock().num_inside == 0 && !POOL.lock().is_busy);
        set_copy_threads(0);
    }
}
