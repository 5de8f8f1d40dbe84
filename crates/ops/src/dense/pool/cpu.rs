//! The reference: an output value at a time.

use super::{Kind, Pool};
use crate::dense::{HostArena, Region};
use det_post_types::Result;

/// Pools a map.
///
/// # Errors
/// `Argument` when the sizes are not those of the pooling, or a window is not within its buffer or
/// of i32.
pub fn pool(arena: &mut HostArena, pool: &Pool, input: &Region, output: &Region) -> Result<()> {
    let [from, to] = pool.check(input, output)?;
    let values = arena.read(input)?;
    let mut pooled = Vec::with_capacity(to.iter().product());
    for plane in values.chunks_exact((from[2] * from[3]).max(1)) {
        for y in 0..to[2] {
            for x in 0..to[3] {
                pooled.push(of_kernel(pool, plane, [from[2], from[3]], [y, x]));
            }
        }
    }
    arena.write(output, &pooled)
}

/// The value of an output cell of a plane.
fn of_kernel(pool: &Pool, plane: &[f32], size: [usize; 2], cell: [usize; 2]) -> f32 {
    let mut value = if pool.kind == Kind::Max { f32::NEG_INFINITY } else { 0.0 };
    let (mut num_inside, mut num_padded) = (0, 0);
    for ky in 0..pool.kernel[0] {
        for kx in 0..pool.kernel[1] {
            // Positions in the padded map.
            let [y, x] = [(0, ky), (1, kx)]
                .map(|(axis, k)| cell[axis] * pool.steps[axis] + k * pool.dilations[axis]);
            let is_padded = [(0, y), (1, x)]
                .iter()
                .all(|&(axis, at)| at < pool.pads[axis] + size[axis] + pool.pads[axis + 2]);
            num_padded += usize::from(is_padded);
            let inside = [(0, y), (1, x)]
                .map(|(axis, at)| at.checked_sub(pool.pads[axis]).filter(|&at| at < size[axis]));
            let [Some(y), Some(x)] = inside else { continue };
            num_inside += 1;
            let tap = plane[y * size[1] + x];
            match pool.kind {
                Kind::Max if tap > value || tap.is_nan() => value = tap,
                Kind::Max => {}
                Kind::Average { .. } => value += tap,
            }
        }
    }
    match pool.kind {
        Kind::Max => value,
        Kind::Average { counts_padding: true } => value / num_padded as f32,
        Kind::Average { counts_padding: false } => value / num_inside as f32,
    }
}
