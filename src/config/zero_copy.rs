//! Where a GPU reads payloads.

use super::declaration::Change::Fixed;
use super::reader::Reader;
use super::value::usage;
use det_post_types::Usage;

/// The parameter of channels with one input.
pub(super) fn zero_copy(p: &mut Reader<'_>) -> Usage {
    p.value(
        "zero_copy",
        Fixed,
        usage(),
        "auto",
        "Whether kernels read payloads in host memory, without an upload. `auto`: on GPUs that \
         share the CPU's memory (Jetson).",
    )
}
