//! Files that another process shortens while they are mapped.
//!
//! The system sends SIGBUS to a thread that reads a page behind the new end of a file, which
//! ends the process. A handler maps zeros in the place of that page instead and marks the
//! file; its reader then ends with the damage of the recording. SIGBUS for any other reason
//! has the effect that it had before.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The addresses of mapped files. Entries are added and reused, never removed, so that the
/// handler can read them at any time.
static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(null_mut());

/// Held while entries change.
static CHANGES: Mutex<()> = Mutex::new(());

/// The effect of SIGBUS before the handler was installed; `None` if it could not be.
static PREVIOUS: OnceLock<Option<libc::sigaction>> = OnceLock::new();

static PAGE_SIZE: AtomicUsize = AtomicUsize::new(0);

struct Entry {
    /// 0 while the entry is not in use.
    start: AtomicUsize,
    end: AtomicUsize,
    /// Whether a page was replaced.
    is_hit: AtomicBool,
    next: Option<&'static Entry>,
}

/// Lets a mapping be read although its file may be shortened, as long as the value exists.
pub(super) struct TruncationGuard(&'static Entry);

impl TruncationGuard {
    /// Guards the addresses of a mapping. The value must be dropped before the mapping.
    pub(super) fn new(addresses: Range<usize>) -> Self {
        let _changing = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        install();
        let entry = entries().find(|entry| entry.start.load(Ordering::Relaxed) == 0);
        let entry = entry.unwrap_or_else(add_entry);
        entry.is_hit.store(false, Ordering::Relaxed);
        entry.end.store(addresses.end, Ordering::Relaxed);
        entry.start.store(addresses.start, Ordering::Release);
        Self(entry)
    }

    /// Whether a page behind the end of the file was read.
    pub(super) fn is_hit(&self) -> bool {
        self.0.is_hit.load(Ordering::Relaxed)
    }
}

impl Drop for TruncationGuard {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
    }
}

/// Every entry, in use or not.
#[expect(unsafe_code, reason = "a list that a signal handler can read")]
fn entries() -> impl Iterator<Item = &'static Entry> {
    // SAFETY: null, or an entry that `add_entry` has leaked and that is never freed.
    let first: Option<&'static Entry> = unsafe { ENTRIES.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |entry| entry.next)
}

/// Adds an entry that is not in use; `CHANGES` is held.
fn add_entry() -> &'static Entry {
    let entry = Box::leak(Box::new(Entry {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        is_hit: AtomicBool::new(false),
        next: entries().next(),
    }));
    ENTRIES.store(entry, Ordering::Release);
    entry
}

/// Installs the handler once per process.
#[expect(unsafe_code, reason = "a signal handler is the only way to survive the read")]
fn install() {
    PREVIOUS.get_or_init(|| {
        // SAFETY: a query without arguments that matter.
        let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE_SIZE.store(usize::try_from(page_size).unwrap_or(4096), Ordering::Relaxed);
        let mut previous = MaybeUninit::zeroed();
        // SAFETY: all zeros is a `sigaction` without flags and with an empty mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: both structs are alive; the handler has the signature that SA_SIGINFO asks
        // for and calls only what a handler may call.
        unsafe {
            let result = libc::sigaction(libc::SIGBUS, &raw const action, previous.as_mut_ptr());
            (result == 0).then(|| previous.assume_init())
        }
    });
}

/// Maps zeros at a guarded address; else restores the previous effect and lets the signal
/// come again.
#[expect(unsafe_code, reason = "a signal handler works with what the system passes")]
extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the system passes a valid `siginfo_t` to a handler with SA_SIGINFO.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    let is_inside = |entry: &&Entry| {
        let start = entry.start.load(Ordering::Acquire);
        start != 0 && (start..entry.end.load(Ordering::Relaxed)).contains(&address)
    };
    // A code above 0: of a memory access of this thread, not sent by a process.
    if code > 0
        && let Some(entry) = entries().find(is_inside)
    {
        entry.is_hit.store(true, Ordering::Relaxed);
        let page_size = PAGE_SIZE.load(Ordering::Relaxed);
        let page = address - address % page_size;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: replaces one page of a read-only mapping that the reader of the file still
        // holds (a thread of this process is reading it). That page has no content any more:
        // its file ends before. Zeros are as good as any bytes of an untrusted recording.
        let mapped =
            unsafe { libc::mmap(page as *mut c_void, page_size, libc::PROT_READ, flags, -1, 0) };
        if mapped != libc::MAP_FAILED {
            return;
        }
    }
    let previous = PREVIOUS.get().and_then(Option::as_ref);
    // SAFETY: restores an action that was in force, or the default with null for a query;
    // an access faults again on return, a signal that was sent is sent again.
    unsafe {
        match previous {
            Some(previous) => libc::sigaction(signal, previous, null_mut()),
            None => libc::sigaction(signal, null(), null_mut()),
        };
        if code <= 0 {
            libc::raise(signal);
        }
    }
}
