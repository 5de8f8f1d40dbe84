//! The reference: an output value at a time.

use super::{Checked, Coordinates, Method, Nearest, Resize};
use crate::dense::{HostArena, Region};
use det_post_types::Result;

/// Changes the size of a map to the output's.
///
/// # Errors
/// `Argument` when the windows are not maps of equal N and C or a scale is not above 0, or a window
/// is not within its buffer or of i32.
pub fn resize(
    arena: &mut HostArena,
    resize: &Resize,
    input: &Region,
    output: &Region,
) -> Result<()> {
    let checked = resize.check(input, output)?;
    let Checked { from, to, .. } = checked;
    let values = arena.read(input)?;
    let mut resized = Vec::with_capacity(to.iter().product());
    for plane in values.chunks_exact((from[2] * from[3]).max(1)) {
        for y in 0..to[2] {
            for x in 0..to[3] {
                let [y, x] = [(0, y), (1, x)].map(|(axis, at)| place(resize, &checked, axis, at));
                resized.push(match resize.method {
                    Method::Nearest(mode) => {
                        let [y, x] = [(y, from[2]), (x, from[3])]
                            .map(|(place, size)| nearest(mode, place, size));
                        plane[y * from[3] + x]
                    }
                    Method::Linear => linear(plane, [from[2], from[3]], [y, x]),
                });
            }
        }
    }
    arena.write(output, &resized)
}

/// The place of an output coordinate, which may be beyond the map.
fn place(resize: &Resize, checked: &Checked, axis: usize, at: usize) -> f32 {
    let [size, out_size] = [checked.from, checked.to].map(|dims| dims[axis + 2]);
    let (x, scale) = (at as f32, checked.scales[axis]);
    match resize.coordinates {
        Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if out_size == 1 => 0.0,
        Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (x + 0.5) / scale - 0.5,
        Coordinates::HalfPixelSymmetric => checked.shifts[axis] + (x + 0.5) / scale - 0.5,
        Coordinates::AlignCorners => x * (size - 1) as f32 / (out_size - 1) as f32,
        Coordinates::Asymmetric => x / scale,
    }
}

fn nearest(mode: Nearest, place: f32, size: usize) -> usize {
    let below = place.floor();
    let rest = place - below;
    let rounded = match mode {
        Nearest::RoundPreferFloor if rest > 0.5 => below + 1.0,
        Nearest::RoundPreferCeil if rest >= 0.5 => below + 1.0,
        Nearest::RoundPreferFloor | Nearest::RoundPreferCeil | Nearest::Floor => below,
        Nearest::Ceil => place.ceil(),
    };
    rounded.clamp(0.0, (size - 1) as f32) as usize
}

fn linear(plane: &[f32], size: [usize; 2], place: [f32; 2]) -> f32 {
    let [rows, columns] = [0, 1].map(|axis| {
        let at = place[axis].clamp(0.0, (size[axis] - 1) as f32);
        let first = at as usize;
        (first, (first + 1).min(size[axis] - 1), at - first as f32)
    });
    let blend = |a: f32, b: f32, weight: f32| a + (b - a) * weight;
    let row = |y: usize| {
        let [left, right] = [columns.0, columns.1].map(|x| plane[y * size[1] + x]);
        blend(left, right, columns.2)
    };
    blend(row(rows.0), row(rows.1), rows.2)
}
