//! Memory that a node has taken once, it keeps.
//!
//! Every frame takes what the last one gave back: messages as they are joined,
//! tensors between the layers of a network. glibc as it comes maps the larger
//! blocks anew each time and gives each thread a heap, from which freed memory
//! cannot pass to another: resident memory swings, and what swings costs page
//! faults in every frame. With one heap that never shrinks it is the most that
//! was ever in use at once.

/// Has the allocator of the process keep what it has. To be called before
/// there are other threads; does nothing where the C library is not glibc.
pub(super) fn keep_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the allocator is a C library's")]
    for (parameter, value) in
        [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_MAX, 0), (libc::M_TRIM_THRESHOLD, -1)]
    {
        // SAFETY: sets a number of the allocator, under the allocator's own
        // lock; blocks that are in use are not touched.
        if unsafe { libc::mallopt(parameter, value) } != 1 {
            tracing::warn!("the allocator does not take {value} for its parameter {parameter}");
        }
    }
}
