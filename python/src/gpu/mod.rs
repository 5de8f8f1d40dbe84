//! Operations on arrays in memory of GPUs.
//!
//! An operation works on a separate stream: after the work that the arrays' library has queued
//! on its current stream, and until the call returns, so that its results are ready for any stream
//! and its inputs may be freed. Kernels and memory are kept for the calls that follow.

mod bev_pool;
mod decode;
mod letterbox;
mod overlaps;
mod sparse;
mod sparse_maps;
mod suppression;
mod voxels;

use std::sync::{Mutex, PoisonError};

use det_post_ops::device::cuda::Stream;
use pyo3::prelude::*;

use crate::array::{FloatType, GpuInput, GpuScope};
use crate::error::raised;
use crate::library::cast;

pub use self::bev_pool::bev_pool;
pub use self::decode::{
    YoloHead, YoloSessions, decode_anchor, decode_center, decode_query, decode_streampetr,
    decode_yolo,
};
pub use self::letterbox::{letterbox, warp_affine};
pub use self::overlaps::{box_overlaps, points_in_boxes};
pub use self::sparse::{DeviceConvolution, DeviceLevel, DeviceRulebook, DeviceWeights};
pub use self::sparse_maps::{RowOrder, dense_map, pooled};
pub use self::suppression::{SuppressionSession, suppressed};
pub use self::voxels::{Wanted, voxels};

/// Sessions that wait for the next call of an operation, the newest last.
pub struct Sessions<S>(Mutex<Vec<S>>);

impl<S> Sessions<S> {
    /// The most sessions that are kept: of other sizes, settings, GPUs or threads.
    const CAPACITY: usize = 8;

    /// No sessions.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A session that fits.
    pub fn take(&self, fits: impl Fn(&S) -> bool) -> Option<S> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = sessions.iter().rposition(fits)?;
        Some(sessions.remove(position))
    }

    /// Keeps a session after a call without an error.
    pub fn put(&self, session: S) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = (sessions.len() >= Self::CAPACITY).then(|| sessions.remove(0));
        sessions.push(session);
        drop(sessions);
        // Waits for its stream, without the lock.
        drop(oldest);
    }
}

/// The capacity of a session for so many values: few sizes serve all calls.
pub fn rounded_up(num: usize) -> usize {
    num.max(1024).checked_next_power_of_two().unwrap_or(num)
}

/// Whether a stream is of this GPU.
pub fn is_of(stream: &Stream, gpu: u32) -> bool {
    stream.device().ordinal() == gpu as usize
}

/// Queues work on a stream and waits for it.
///
/// # Errors
/// Errors of the work, and of earlier work on the stream.
pub fn finished<'env, R>(
    py: Python<'_>,
    stream: &Stream,
    work: impl FnOnce(&GpuScope<'_, 'env>) -> PyResult<R>,
) -> PyResult<R> {
    GpuScope::run(stream, |scope| {
        let made = work(scope)?;
        py.detach(|| stream.synchronize()).map_err(|error| raised(&error))?;
        Ok(made)
    })
}

/// Waits for what a library has queued to make an array.
///
/// # Errors
/// As [`GpuInput::new`]; errors of the work.
pub fn complete<'py>(array: Bound<'py, PyAny>, stream: &Stream) -> PyResult<Bound<'py, PyAny>> {
    GpuInput::new("result", &array, stream)?;
    array.py().detach(|| stream.synchronize()).map_err(|error| raised(&error))?;
    Ok(array)
}

/// A result of float32 as floats of a type.
///
/// # Errors
/// As [`complete`]; errors of the library.
pub fn narrowed<'py>(
    result: Bound<'py, PyAny>,
    to: FloatType,
    stream: &Stream,
) -> PyResult<Bound<'py, PyAny>> {
    match to {
        FloatType::F32 => Ok(result),
        FloatType::F16 | FloatType::Bf16 => complete(cast(&result, to.name())?, stream),
    }
}
