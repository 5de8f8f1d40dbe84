//! Constant resident memory: the allocator of a node returns nothing to the system.
//!
//! Every frame allocates what the previous one freed: messages as they are joined, tensors
//! between the layers of a network. By default glibc maps large blocks anew each time and has
//! one heap per thread, whose freed memory other threads cannot use: resident memory varies,
//! and each variation costs page faults in every frame. With one heap that never shrinks,
//! resident memory is the maximum ever in use.

/// Makes the allocator of the process keep freed memory. Call it before other threads exist;
/// it has no effect where the C library is not glibc.
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
