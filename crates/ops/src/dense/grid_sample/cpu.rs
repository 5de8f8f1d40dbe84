//! The reference: an output value at a time.

use super::{GridSample, Method, Padding, Sizes};
use crate::dense::{HostArena, Region};
use det_post_types::Result;

/// Samples a map.
///
/// # Errors
/// `Argument` when the dims do not fit, or a window is not within its buffer or of i32.
pub fn grid_sample(
    arena: &mut HostArena,
    op: &GridSample,
    input: &Region,
    grid: &Region,
    output: &Region,
) -> Result<()> {
    let Sizes { from, to } = op.check(input, grid, output)?;
    let (values, places) = (arena.read(input)?, arena.read(grid)?);
    let mut sampled = Vec::with_capacity(to.iter().product());
    let num_places = to[2] * to[3];
    for (at, plane) in values.chunks_exact((from[2] * from[3]).max(1)).enumerate() {
        let places = &places[at / from[1] * num_places * 2..][..num_places * 2];
        for place in places.chunks_exact(2) {
            let [y, x] = [(place[1], from[2]), (place[0], from[3])].map(|(g, n)| op.place(g, n));
            sampled.push(op.sample(plane, [from[2], from[3]], [y, x]));
        }
    }
    arena.write(output, &sampled)
}

impl GridSample {
    fn place(&self, at: f32, size: usize) -> f32 {
        let len = size as f32;
        let place = if self.aligns_corners {
            (at + 1.0) / 2.0 * (len - 1.0)
        } else {
            ((at + 1.0) * len - 1.0) / 2.0
        };
        match self.padding {
            Padding::Zeros => place,
            // NaN becomes 0.
            Padding::Border => place.max(0.0).min(len - 1.0),
        }
    }

    fn sample(&self, plane: &[f32], size: [usize; 2], [y, x]: [f32; 2]) -> f32 {
        let at = |row: f32, column: f32| {
            let is_inside = |at: f32, size: usize| at >= 0.0 && at <= (size - 1) as f32;
            (is_inside(row, size[0]) && is_inside(column, size[1]))
                .then(|| plane[row as usize * size[1] + column as usize])
        };
        if self.method == Method::Nearest {
            return at(y.round_ties_even(), x.round_ties_even())
                .map_or(0.0, |v| v.mul_add(1.0, 0.0));
        }
        let (top, left) = (y.floor(), x.floor());
        let (lower, right) = (y - top, x - left);
        let mut sum = 0.0;
        for (row, down) in [(top, 1.0 - lower), (top + 1.0, lower)] {
            for (column, across) in [(left, 1.0 - right), (left + 1.0, right)] {
                if let Some(value) = at(row, column) {
                    sum = value.mul_add(down * across, sum);
                }
            }
        }
        sum
    }
}
