//! The visible solid of every pixel, by ray casting with a depth buffer.
//!
//! Each solid is intersected with the rays of the pixels in its bounding
//! rectangle. Solids need no order, and rows are independent of each other.

use multiversion::multiversion;
use nalgebra::Vector3;

use super::scene::Scene;
use super::solid::{LANES, Rays, Target, intersect};

/// The index of a pixel without a solid.
pub(super) const NO_SOLID: u32 = u32::MAX;
/// Distance of the near plane.
const NEAR_M: f32 = 0.05;

/// A pinhole camera: pixel to direction is `((x + 0.5 - cx) / f, (y + 0.5 - cy) / f, 1)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pinhole {
    pub(super) focal: f32,
    pub(super) center: [f32; 2],
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Pinhole {
    /// The x component of the direction of a column of pixels.
    #[inline(always)]
    pub(super) fn x(&self, column: usize) -> f32 {
        (column as f32 + 0.5 - self.center[0]) / self.focal
    }

    /// The y component of the direction of a row of pixels.
    #[inline(always)]
    pub(super) fn y(&self, row: usize) -> f32 {
        (row as f32 + 0.5 - self.center[1]) / self.focal
    }
}

/// A rectangle of an image in continuous pixels, not clipped to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rectangle {
    pub(super) x: [f32; 2],
    pub(super) y: [f32; 2],
}

impl Rectangle {
    /// The neutral element of [`Rectangle::join`].
    pub(super) const EMPTY: Self =
        Self { x: [f32::INFINITY, f32::NEG_INFINITY], y: [f32::INFINITY, f32::NEG_INFINITY] };

    /// The bounding rectangle of the cube of a target in front of the near plane;
    /// empty when the target is behind it.
    pub(super) fn around(target: &Target, pinhole: &Pinhole) -> Self {
        let corners = target.corners();
        let mut rectangle = Self::EMPTY;
        for (i, corner) in corners.iter().enumerate() {
            if corner.z > NEAR_M {
                rectangle.add(corner, pinhole);
            }
            for bit in 0..3 {
                let other = corners[i ^ 1 << bit];
                if corner.z > NEAR_M && other.z <= NEAR_M {
                    let share = (corner.z - NEAR_M) / (corner.z - other.z);
                    let mut edge = corner + (other - corner) * share;
                    edge.z = NEAR_M;
                    rectangle.add(&edge, pinhole);
                }
            }
        }
        rectangle
    }

    fn add(&mut self, point: &Vector3<f32>, pinhole: &Pinhole) {
        let x = point.x / point.z * pinhole.focal + pinhole.center[0];
        let y = point.y / point.z * pinhole.focal + pinhole.center[1];
        self.join(&Self { x: [x, x], y: [y, y] });
    }

    /// Extends it to contain another.
    pub(super) fn join(&mut self, other: &Self) {
        self.x = [self.x[0].min(other.x[0]), self.x[1].max(other.x[1])];
        self.y = [self.y[0].min(other.y[0]), self.y[1].max(other.y[1])];
    }

    /// The part inside an image.
    pub(super) fn clipped(&self, pinhole: &Pinhole) -> Self {
        let clip = |[low, high]: [f32; 2], size: usize| {
            [low.clamp(0.0, size as f32), high.clamp(0.0, size as f32)]
        };
        Self { x: clip(self.x, pinhole.width), y: clip(self.y, pinhole.height) }
    }

    /// Area in square pixels.
    pub(super) fn area(&self) -> f32 {
        (self.x[1] - self.x[0]).max(0.0) * (self.y[1] - self.y[0]).max(0.0)
    }
}

/// The buffers of consecutive rows of an image.
#[derive(Clone, Debug, Default)]
pub(super) struct Band {
    /// Number of the first row.
    pub(super) first_row: usize,
    /// Depth along the optical axis, row by row; infinity where there is no solid.
    pub(super) depth: Vec<f32>,
    /// Index of the visible solid.
    pub(super) solid: Vec<u32>,
    /// One bit per pixel, set where the current actor is when occlusion is ignored.
    pub(super) unoccluded: Vec<u8>,
}

impl Band {
    /// Clears it to empty rows.
    pub(super) fn clear(&mut self, first_row: usize, num_rows: usize, width: usize) {
        self.first_row = first_row;
        self.depth.clear();
        self.depth.resize(num_rows * width, f32::INFINITY);
        self.solid.clear();
        self.solid.resize(num_rows * width, NO_SOLID);
        self.unoccluded.clear();
        self.unoccluded.resize(num_rows * width / LANES, 0);
    }

    /// The rows of the band that a rectangle overlaps, counted from its first row.
    pub(super) fn rows_of(&self, rectangle: &Rectangle, width: usize) -> std::ops::Range<usize> {
        let num_rows = self.depth.len() / width;
        let row = |y: f32| ((y - self.first_row as f32).max(0.0) as usize).min(num_rows);
        row(rectangle.y[0])..row(rectangle.y[1] + 1.0)
    }
}

/// Rasterizes a solid into a band; with `marks` also into `unoccluded`.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn rasterize(
    scene: &Scene,
    index: usize,
    rectangle: &Rectangle,
    pinhole: &Pinhole,
    marks: bool,
    band: &mut Band,
) {
    let target = &scene.targets[index];
    let solid = &scene.solids[index];
    let width = pinhole.width;
    let columns = rectangle.clipped(pinhole).x;
    let first_chunk = columns[0] as usize / LANES;
    let last_chunk = ((columns[1] + 1.0) as usize).div_ceil(LANES).min(width / LANES);
    let m = &target.cube_from_sensor;
    for row in band.rows_of(rectangle, width) {
        let y = pinhole.y(band.first_row + row);
        let rays = Rays {
            origin: -(m * target.center),
            a: m * Vector3::new(0.0, y, 1.0),
            b: m.column(0).into(),
        };
        for chunk in first_chunk..last_chunk {
            let mut x = [0.0; LANES];
            for (i, x) in x.iter_mut().enumerate() {
                *x = pinhole.x(chunk * LANES + i);
            }
            let mut at = intersect(target.shape, &rays, &[1.0; LANES], &x);
            if solid.material.has_gaps() {
                for i in 0..LANES {
                    let position = rays.origin + (rays.a + rays.b * x[i]) * at[i];
                    if at[i].is_finite() && solid.material.is_gap(solid.texture, &position) {
                        at[i] = f32::INFINITY;
                    }
                }
            }
            let start = row * width + chunk * LANES;
            let depth = &mut band.depth[start..start + LANES];
            let what = &mut band.solid[start..start + LANES];
            let mut hit = 0_u8;
            for i in 0..LANES {
                hit |= u8::from(at[i] < f32::INFINITY) << i;
                if at[i] < depth[i] {
                    depth[i] = at[i];
                    what[i] = index as u32;
                }
            }
            if marks {
                band.unoccluded[start / LANES] |= hit;
            }
        }
    }
}
