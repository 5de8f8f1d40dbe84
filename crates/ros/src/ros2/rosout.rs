//! rcl's own publisher of `/rosout`, which this node does without: it publishes the
//! log itself, as with every middleware.

use std::ffi::c_int;
use std::sync::Once;

unsafe extern "C" {
    /// Ends rcl's output to `/rosout` and its publishers; nodes that are created later
    /// get none. Returns 0 on success, also when there is nothing to end.
    fn rcl_logging_rosout_fini() -> c_int;
}

/// Has the nodes of this process that are created later have no publisher of
/// `/rosout` by rcl.
pub(super) fn leave_to_the_node() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: The function takes no arguments, and rcl may be called from any thread
        // that is the only one to do so. The caller has just initialised rcl, so there is
        // no node whose publisher another thread could be using; later calls of rcl find
        // the output ended, which is a separate state.
        let code = unsafe { rcl_logging_rosout_fini() };
        if code != 0 {
            tracing::warn!("rcl keeps its own publisher of /rosout: error {code}");
        }
    });
}
