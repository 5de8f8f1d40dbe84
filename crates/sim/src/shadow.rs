//! Shadow maps: the light that reaches the ground.

use nalgebra::{Matrix3, Vector2, Vector3};

use super::body::Body;
use super::solid::{LANES, Rays, Shape, Solid, Target, intersect};
use super::traffic::State;

/// Distance of the sun from the map: far enough for nearly parallel light.
const SUN_M: f64 = 2000.0;
/// Distance from an actor up to which it occludes the sky above the ground.
const AMBIENT_OCCLUSION_M: f32 = 0.45;
/// Share of the sky that an actor occludes below it.
const OCCLUDED_SKY: f32 = 0.75;

/// The light that reaches the ground, on a square grid. Outside it all light
/// does.
#[derive(Clone, Debug)]
pub(super) struct ShadowMap {
    low: Vector2<f64>,
    cell_m: f64,
    num_cells: [usize; 2],
    /// Per cell: 255 in the sun, 0 in the shade.
    sun: Vec<u8>,
    /// Per cell: the visible share of the sky, 255 for all of it. Empty when
    /// nothing occludes it.
    sky: Vec<u8>,
}

impl Default for ShadowMap {
    fn default() -> Self {
        let num_cells = [0; 2];
        Self { low: Vector2::zeros(), cell_m: 1.0, num_cells, sun: Vec::new(), sky: Vec::new() }
    }
}

impl ShadowMap {
    /// Clears it to a fully lit map between two corners.
    pub(super) fn clear(&mut self, [low, high]: [Vector2<f64>; 2], cell_m: f64) {
        let cells = |extent: f64| (extent / cell_m / LANES as f64).ceil() as usize * LANES;
        self.low = low;
        self.cell_m = cell_m;
        self.num_cells = [cells(high.x - low.x), cells(high.y - low.y)];
        let num_cells = self.num_cells[0] * self.num_cells[1];
        self.sun.clear();
        self.sun.resize(num_cells, 255);
        self.sky.clear();
    }

    /// Adds the shadow of a solid.
    pub(super) fn add(&mut self, solid: &Solid, sun: &Vector3<f64>) {
        let middle = self.low.push(0.0) + Vector3::new(self.cell_m, self.cell_m, 0.0);
        let sun_position = middle + sun * SUN_M;
        let target = Target::new(solid, &sun_position, &Matrix3::identity());
        let Some([columns, rows]) = self.reach(solid, sun) else { return };
        let m = &target.cube_from_sensor;
        for row in rows {
            let start = Vector3::new(
                (self.low.x + 0.5 * self.cell_m - sun_position.x) as f32,
                (self.low.y + (row as f64 + 0.5) * self.cell_m - sun_position.y) as f32,
                -sun_position.z as f32,
            );
            let rays = Rays {
                origin: -(m * target.center),
                a: m * start,
                b: m.column(0) * self.cell_m as f32,
            };
            for chunk in columns.start / LANES..columns.end.div_ceil(LANES) {
                let at: [f32; LANES] = std::array::from_fn(|i| (chunk * LANES + i) as f32);
                let met = intersect(target.shape, &rays, &[1.0; LANES], &at);
                let first = row * self.num_cells[0] + chunk * LANES;
                for (i, lit) in self.sun[first..first + LANES].iter_mut().enumerate() {
                    if met[i] >= 1.0 {
                        continue;
                    }
                    let position = rays.origin + (rays.a + rays.b * at[i]) * met[i];
                    if !solid.material.is_gap(solid.texture, &position) {
                        *lit = 0;
                    }
                }
            }
        }
    }

    /// Adds the ambient occlusion of the ground by a body.
    pub(super) fn add_ambient_occlusion(&mut self, body: &Body, state: &State) {
        let footprint = Solid::new(
            Shape::CUBE,
            super::material::Material::Plastic,
            [0.0; 3],
            [0.0; 3],
            [0.5 * body.size_m[0] + 0.5, 0.5 * body.size_m[1] + 0.5, 0.01],
        );
        let heading = [state.heading.x, state.heading.y];
        let footprint = footprint.placed(&state.position, heading);
        let Some([columns, rows]) = self.reach(&footprint, &Vector3::z()) else { return };
        let [length, width, _] = body.size_m.map(|extent| 0.5 * extent as f32);
        self.sky.resize(self.sun.len(), 255);
        for row in rows {
            for column in columns.clone() {
                let cell = Vector2::new(column as f64 + 0.5, row as f64 + 0.5) * self.cell_m;
                let away = self.low + cell - state.position.xy();
                let (ahead, aside) = (away.dot(&state.heading), away.perp(&state.heading));
                let outside = |at: f64, half: f32| (at.abs() as f32 - 0.85 * half).max(0.0);
                let (x, y) = (outside(ahead, length), outside(aside, width));
                let near = (1.0 - (x * x + y * y).sqrt() / AMBIENT_OCCLUSION_M).max(0.0);
                let seen = 255.0 * (1.0 - OCCLUDED_SKY * near);
                let sky = &mut self.sky[row * self.num_cells[0] + column];
                *sky = (*sky).min(seen as u8);
            }
        }
    }

    /// The columns and rows that the shadow of a solid may cover.
    fn reach(&self, solid: &Solid, sun: &Vector3<f64>) -> Option<[std::ops::Range<usize>; 2]> {
        let origin = self.low.push(0.0);
        let corners = Target::new(solid, &origin, &Matrix3::identity()).corners();
        let mut low = Vector2::repeat(f64::INFINITY);
        let mut high = Vector2::repeat(f64::NEG_INFINITY);
        for corner in corners {
            let corner = corner.map(f64::from);
            let on_ground = (corner.xy() - sun.xy() * (corner.z / sun.z)) / self.cell_m;
            low = low.inf(&on_ground);
            high = high.sup(&on_ground);
        }
        let range = |axis: usize| {
            let limit = self.num_cells[axis] as f64;
            let (first, end) = (low[axis] - 1.0, high[axis] + 1.0);
            first.clamp(0.0, limit) as usize..end.clamp(0.0, limit) as usize
        };
        let ranges = [range(0), range(1)];
        if ranges.iter().any(std::ops::Range::is_empty) { None } else { Some(ranges) }
    }

    /// The shares of sunlight and skylight at a position on the ground, 0 to 1
    /// each, interpolated between cells.
    #[inline]
    pub(super) fn light(&self, position: Vector2<f64>) -> [f32; 2] {
        let cell = (position - self.low) / self.cell_m - Vector2::repeat(0.5);
        let [columns, rows] = self.num_cells;
        if !(cell.x >= 0.0 && cell.y >= 0.0) {
            return [1.0; 2];
        }
        let (column, row) = (cell.x as usize, cell.y as usize);
        if column + 1 >= columns || row + 1 >= rows {
            return [1.0; 2];
        }
        let (x, y) = ((cell.x - column as f64) as f32, (cell.y - row as f64) as f32);
        let at = row * columns + column;
        let share = |values: &[u8]| {
            let corners = [at, at + 1, at + columns, at + columns + 1];
            let [a, b, c, d] = corners.map(|at| f32::from(values[at]));
            let (lower, upper) = (a + (b - a) * x, c + (d - c) * x);
            (lower + (upper - lower) * y) * (1.0 / 255.0)
        };
        [share(&self.sun), if self.sky.is_empty() { 1.0 } else { share(&self.sky) }]
    }
}
