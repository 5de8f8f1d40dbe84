//! Where a GPU reads payloads.

use super::declaration::Change::Fixed;
use super::reader::Reader;
use super::value::one_of;
use crate::types::ZeroCopy;

const ZERO_COPY: &[(&str, ZeroCopy)] =
    &[("auto", ZeroCopy::Auto), ("always", ZeroCopy::Always), ("never", ZeroCopy::Never)];

/// The parameter of channels with one input.
pub(super) fn zero_copy(p: &mut Reader<'_>) -> ZeroCopy {
    p.value(
        "zero_copy",
        Fixed,
        one_of(ZERO_COPY),
        "auto",
        "Whether kernels read images and point clouds in page-locked host memory, in place of an upload. `auto`: on GPUs \
         that share their memory with the CPU (Jetson), where an upload is a copy from memory to itself.",
    )
}
