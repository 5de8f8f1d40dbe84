//! The ground: carriageway, kerb, pavement, grass.
//!
//! The road lies at height 0; from the kerb outwards everything is
//! [`PAVEMENT_HEIGHT_M`](super::traffic::PAVEMENT_HEIGHT_M) higher.

use nalgebra::Vector2;

use super::material::{Appearance, fade, fraction, scaled};
use super::random::{floor, noise_2d};
use super::route::{KERB_OFFSET_M, LANES_OFFSET_M, NearestPiece, PAVEMENT_OFFSET_M, Route};
use super::traffic::PAVEMENT_HEIGHT_M;

/// Edge length of a cell, for which the candidates of the nearest piece of road
/// are stored.
const CELL_M: f64 = 2.0;
/// Width of the ground around the road that has cells.
const MARGIN_M: f64 = 60.0;
/// The bit of a mask that marks road.
const ROAD: u32 = 1 << 31;
/// Width of the kerb stone.
const KERB_WIDTH_M: f64 = 0.16;

/// The ground cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// Asphalt.
    Road,
    /// Paint on asphalt.
    Marking,
    /// Paving of the parking bays.
    Bay,
    /// Kerb stone.
    Kerb,
    /// Slabs.
    Pavement,
    /// Grass.
    Grass,
}

impl Cover {
    /// Reflectivity to a LiDAR at normal incidence.
    pub(super) fn reflectivity(self) -> f32 {
        match self {
            Self::Road => 0.14,
            Self::Marking => 0.65,
            Self::Bay => 0.18,
            Self::Kerb => 0.32,
            Self::Pavement => 0.27,
            Self::Grass => 0.4,
        }
    }
}

/// The intersection of a ray and the ground.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroundHit {
    /// The distance along the ray, in its units.
    pub(super) distance: f64,
    /// The nearest piece of road.
    pub(super) nearest: NearestPiece,
    /// Whether it is on the vertical face of the kerb.
    pub(super) is_kerb: bool,
}

/// The ground around a road.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    route: Route,
    low: Vector2<f64>,
    num_cells: [usize; 2],
    /// Per cell: the pieces that may be nearest to a position in it, and [`ROAD`]
    /// when its middle is road.
    masks: Vec<u32>,
    key: u32,
}

impl Ground {
    /// The ground of a road; `key` is that of its texture.
    pub(super) fn new(route: &Route, key: u32) -> Self {
        let [low, high] = route.bounds();
        let low = low - Vector2::repeat(MARGIN_M);
        let extent = high + Vector2::repeat(MARGIN_M) - low;
        let num_cells = [extent.x, extent.y].map(|extent| (extent / CELL_M).ceil() as usize);
        let mut masks = Vec::with_capacity(num_cells[0] * num_cells[1]);
        for row in 0..num_cells[1] {
            for column in 0..num_cells[0] {
                let index = Vector2::new(column as f64 + 0.5, row as f64 + 0.5);
                let middle = low + index * CELL_M;
                let distances: Vec<f64> = (0..route.num_pieces())
                    .map(|piece| route.nearest_piece(middle, 1 << piece).distance)
                    .collect();
                let nearest = distances.iter().copied().fold(f64::INFINITY, f64::min);
                // Every position in the cell is within half its diagonal of the middle.
                let reach = nearest + CELL_M * std::f64::consts::SQRT_2;
                let mask = (0..route.num_pieces()).fold(0, |mask, piece| {
                    // A curve ends abruptly: its distance is infinite beyond.
                    let is_near = distances[piece] <= reach || distances[piece].is_infinite();
                    mask | u32::from(is_near) << piece
                });
                let road = if nearest < KERB_OFFSET_M { ROAD } else { 0 };
                masks.push(mask | road);
            }
        }
        Self { route: route.clone(), low, num_cells, masks, key }
    }

    /// Lowest and highest coordinates of the cells.
    pub(super) fn bounds(&self) -> [Vector2<f64>; 2] {
        let [columns, rows] = self.num_cells.map(|num| num as f64);
        [self.low, self.low + Vector2::new(columns, rows) * CELL_M]
    }

    /// The piece of road nearest to a position.
    #[inline]
    pub(super) fn nearest_piece(&self, position: Vector2<f64>) -> NearestPiece {
        match self.cell(position) {
            Some(cell) => self.route.nearest_piece(position, self.masks[cell] & !ROAD),
            None => NearestPiece { distance: MARGIN_M, piece: 0 },
        }
    }

    /// Intersects a ray with the ground. The ray starts at `height`; per unit of
    /// distance it sinks by `sink` and moves horizontally by `level` metres. `at`
    /// maps a distance to the horizontal position.
    #[inline]
    pub(super) fn intersect(
        &self,
        height: f64,
        sink: f64,
        level: f64,
        at: impl Fn(f64) -> Vector2<f64>,
    ) -> GroundHit {
        let (lower, between) = (height / sink, PAVEMENT_HEIGHT_M / sink);
        let upper = lower - between;
        let on_lower = at(lower);
        if self.is_road(on_lower) {
            let nearest = self.nearest_piece(on_lower);
            // The distance from the centreline changes at most as much as the position:
            // well inside the road the ray does not cross the pavement.
            if nearest.distance + between * level < KERB_OFFSET_M {
                return GroundHit { distance: lower, nearest, is_kerb: false };
            }
        }
        let nearest = self.nearest_piece(at(upper));
        if nearest.distance >= KERB_OFFSET_M {
            return GroundHit { distance: upper, nearest, is_kerb: false };
        }
        let far = self.nearest_piece(on_lower);
        if far.distance < KERB_OFFSET_M {
            return GroundHit { distance: lower, nearest: far, is_kerb: false };
        }
        let share = (KERB_OFFSET_M - nearest.distance) / (far.distance - nearest.distance);
        let nearest = NearestPiece { distance: KERB_OFFSET_M + 0.01, ..nearest };
        GroundHit { distance: upper + share * between, nearest, is_kerb: true }
    }

    /// Whether the middle of the cell of a position is road.
    #[inline]
    fn is_road(&self, position: Vector2<f64>) -> bool {
        self.cell(position).is_some_and(|cell| self.masks[cell] & ROAD != 0)
    }

    #[inline]
    fn cell(&self, position: Vector2<f64>) -> Option<usize> {
        let cell = (position - self.low) / CELL_M;
        let [columns, rows] = self.num_cells;
        let (column, row) = (cell.x as usize, cell.y as usize);
        let is_inside = cell.x >= 0.0 && cell.y >= 0.0 && column < columns && row < rows;
        is_inside.then_some(row * columns + column)
    }

    /// The cover at a position, and the share of a pixel of size `pixel_m` that is
    /// painted.
    pub(super) fn cover(
        &self,
        position: Vector2<f64>,
        nearest: &NearestPiece,
        pixel_m: f64,
    ) -> (Cover, f32) {
        let distance = nearest.distance;
        if distance > PAVEMENT_OFFSET_M {
            (Cover::Grass, 0.0)
        } else if distance > KERB_OFFSET_M + KERB_WIDTH_M {
            (Cover::Pavement, 0.0)
        } else if distance > KERB_OFFSET_M {
            (Cover::Kerb, 0.0)
        } else {
            let paint = self.paint(position, nearest, pixel_m);
            if paint > 0.5 {
                (Cover::Marking, paint as f32)
            } else if distance > LANES_OFFSET_M && !is_crossing(position, 18.0) {
                (Cover::Bay, paint as f32)
            } else {
                (Cover::Road, paint as f32)
            }
        }
    }

    /// Share of a pixel that is painted.
    fn paint(&self, position: Vector2<f64>, nearest: &NearestPiece, pixel_m: f64) -> f64 {
        let line = |away: f64, half_width: f64| {
            ((half_width - away) / pixel_m + 0.5).clamp(0.0, 1.0)
                * (2.0 * half_width / pixel_m).min(1.0)
        };
        if is_crossing(position, 18.0) {
            // Distances on an arm of the crossing: from the crossing, from the middle.
            let (x, y) = (position.x.abs(), position.y.abs());
            let (out, aside) = if x > y { (x, y) } else { (y, x) };
            if out < 6.6 {
                return 0.0;
            }
            let zebra = line((out - 8.4).abs(), 1.4);
            if zebra > 0.0 && aside < 5.4 {
                let stripe = (aside - ((aside / 1.0).floor() + 0.5)).abs();
                return zebra * line(stripe, 0.25);
            }
            let along = if x > y { position.x * position.y } else { -position.x * position.y };
            let stops = along > 0.0 && aside < LANES_OFFSET_M && aside > 0.1;
            let stop_line = if stops { line((out - 10.8).abs(), 0.2) } else { 0.0 };
            let middle = if out > 10.6 { line(aside, 0.07) } else { 0.0 };
            return stop_line.max(middle);
        }
        if nearest.distance < 0.3 {
            let s = self.route.s_near(position, nearest.piece);
            let dash = s - (s / 9.0).floor() * 9.0;
            return if dash < 4.0 { line(nearest.distance, 0.07) } else { 0.0 };
        }
        line((nearest.distance - LANES_OFFSET_M).abs(), 0.06)
    }

    /// The appearance of the ground.
    pub(super) fn appearance(
        &self,
        position: Vector2<f64>,
        nearest: &NearestPiece,
        pixel_m: f32,
    ) -> Appearance {
        let (cover, paint) = self.cover(position, nearest, f64::from(pixel_m));
        let (x, y) = (position.x as f32, position.y as f32);
        let broad = noise_2d(self.key, x * 0.23, y * 0.23);
        let grain = self.detail(3, x * 31.0, y * 31.0, fade(pixel_m, 0.12));
        let albedo = match cover {
            Cover::Road | Cover::Marking | Cover::Bay => {
                let (tone, joint) = match cover {
                    Cover::Bay => ([0.125, 0.12, 0.115], slabs(x, y, 0.22, pixel_m)),
                    _ => ([0.085, 0.087, 0.092], 0.0),
                };
                let shade = 0.84 + 0.3 * broad + 0.45 * grain - 0.3 * joint;
                let share = if paint > 0.0 {
                    let wear = 0.8 + 0.3 * noise_2d(self.key ^ 8, x * 3.0, y * 3.0);
                    paint * wear.min(1.0)
                } else {
                    0.0
                };
                let bare = scaled(tone, shade * (1.0 - share));
                [bare[0] + 0.58 * share, bare[1] + 0.58 * share, bare[2] + 0.58 * share]
            }
            Cover::Kerb => scaled([0.3, 0.3, 0.29], 0.9 + 0.2 * broad + 0.2 * grain),
            Cover::Pavement => {
                let (slab_x, slab_y) = (floor(x / 0.6).1 * 9.7, floor(y / 0.6).1 * 7.3);
                let slab = self.detail(5, slab_x, slab_y, fade(pixel_m, 0.6));
                let joint = slabs(x, y, 0.6, pixel_m);
                let tint = 0.86 + 0.2 * broad + 0.16 * slab + 0.2 * grain;
                scaled([0.23, 0.22, 0.205], tint - 0.3 * joint)
            }
            Cover::Grass => {
                let tuft = self.detail(6, x * 6.0, y * 6.0, fade(pixel_m, 0.3));
                let shade = 0.65 + 0.55 * broad + 0.5 * tuft + 0.7 * grain;
                scaled([0.075, 0.125, 0.03], shade)
            }
        };
        Appearance { albedo, gloss: 0.0 }
    }

    /// Noise around 0, scaled by the visibility of the detail.
    #[inline]
    fn detail(&self, key: u32, x: f32, y: f32, seen: f32) -> f32 {
        if seen > 0.0 { seen * (noise_2d(self.key ^ key, x, y) - 0.5) } else { 0.0 }
    }
}

fn is_crossing(position: Vector2<f64>, reach: f64) -> bool {
    position.x.abs() < reach && position.y.abs() < reach
}

/// 1 on the joints of square slabs.
fn slabs(x: f32, y: f32, edge: f32, pixel_m: f32) -> f32 {
    let seen = fade(pixel_m, 0.25 * edge);
    if seen <= 0.0 {
        return 0.0;
    }
    let joint = 0.02 / edge;
    let on_joint = fraction(x / edge) < joint || fraction(y / edge) < joint;
    if on_joint { seen } else { 0.0 }
}
