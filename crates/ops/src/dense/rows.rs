//! Rows of windows along some of their dimensions, and the order in which their values are joined.

use super::{MAX_RANK, Region};
use det_post_types::{Error, ErrorKind, Result};

/// Parts that the values of a row are joined in first: the lanes of a warp.
const NUM_LANES: usize = 32;

/// The window with the dimensions `axes` behind the others, each in their order.
pub(super) fn with_axes_last(region: &Region, axes: &[usize]) -> Option<Region> {
    let rank = region.window.rank();
    let mut order = [0; MAX_RANK];
    let kept = (0..rank).filter(|axis| !axes.contains(axis));
    let along = (0..rank).filter(|axis| axes.contains(axis));
    for (to, axis) in order.iter_mut().zip(kept.chain(along)) {
        *to = axis;
    }
    let window = region.window.permute(&order[..rank])?;
    Some(Region { window, ..*region })
}

/// The number of values along `axes`.
pub(super) fn row_len(dims: &[usize], axes: &[usize]) -> usize {
    axes.iter().filter_map(|&axis| dims.get(axis)).product()
}

/// Refuses axes that are not there, or of which one occurs twice.
pub(super) fn check_axes(operation: &'static str, dims: &[usize], axes: &[usize]) -> Result<()> {
    let is_once = |at: usize| axes[at] < dims.len() && !axes[..at].contains(&axes[at]);
    if (0..axes.len()).all(is_once) {
        return Ok(());
    }
    let message = format!("axes {axes:?} of {dims:?}: each axis once, below the rank, is required");
    Err(Error::new(ErrorKind::Argument, operation, message))
}

/// The values of a row joined: value `i` to lane `i % 32`, ascending, from `first`; then lanes
/// at distances 16, 8, 4, 2 and 1.
pub(super) fn joined<T: Copy>(
    values: impl IntoIterator<Item = T>,
    first: T,
    join: impl Fn(T, T) -> T,
) -> T {
    let mut lanes = [first; NUM_LANES];
    for (i, value) in values.into_iter().enumerate() {
        lanes[i % NUM_LANES] = join(lanes[i % NUM_LANES], value);
    }
    let mut distance = NUM_LANES / 2;
    while distance > 0 {
        for lane in 0..distance {
            lanes[lane] = join(lanes[lane], lanes[lane + distance]);
        }
        distance /= 2;
    }
    lanes[0]
}

/// The larger, or NaN.
pub(super) fn larger(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller, or NaN.
pub(super) fn smaller(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}
