//! The ground: carriageway, kerb, pavement, grass.
//!
//! The road lies at height 0; from the kerb outwards everything is
//! [`PAVEMENT_HEIGHT_M`](super::traffic::PAVEMENT_HEIGHT_M) higher.

use nalgebra::Vector2;

use super::material::{Look, fade, fraction, scaled};
use super::random::{floor, noise_2d};
use super::route::{Beside, KERB_OFFSET_M, LANES_OFFSET_M, PAVEMENT_OFFSET_M, Route};
use super::traffic::PAVEMENT_HEIGHT_M;

/// Edge of a cell for which the pieces of road that may be nearest are known.
const CELL_M: f64 = 2.0;
/// Ground around the road for which cells are kept.
const MARGIN_M: f64 = 60.0;
/// The bit of a mask that is not a piece's.
const ROAD: u32 = 1 << 31;
/// Width of the kerb stone.
const KERB_WIDTH_M: f64 = 0.16;

/// What the ground is at a place.
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
    /// Share of a laser's light that comes back at normal incidence.
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

/// Where a ray meets the ground.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meeting {
    /// How far along the ray, in its units.
    pub(super) distance: f64,
    /// The place seen from the road.
    pub(super) beside: Beside,
    /// Whether it is the upright face of the kerb.
    pub(super) is_kerb: bool,
}

/// The ground around a road.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    route: Route,
    low: Vector2<f64>,
    num_cells: [usize; 2],
    /// Per cell, the pieces that may be nearest to some place in it, and
    /// [`ROAD`] when its middle is road.
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
                    .map(|piece| route.beside(middle, 1 << piece).distance)
                    .collect();
                let nearest = distances.iter().copied().fold(f64::INFINITY, f64::min);
                // Any place of the cell is within half its diagonal of the middle.
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

    /// Lowest and highest coordinates of the ground that is known.
    pub(super) fn bounds(&self) -> [Vector2<f64>; 2] {
        let [columns, rows] = self.num_cells.map(|num| num as f64);
        [self.low, self.low + Vector2::new(columns, rows) * CELL_M]
    }

    /// The road as seen from a place.
    #[inline]
    pub(super) fn beside(&self, position: Vector2<f64>) -> Beside {
        match self.cell(position) {
            Some(cell) => self.route.beside(position, self.masks[cell] & !ROAD),
            None => Beside { distance: MARGIN_M, piece: 0 },
        }
    }

    /// Where a ray meets the ground. It starts at a `height` and sinks by `sink`
    /// a unit of its length while it goes `level` metres ahead; `at` gives its
    /// place over the ground.
    #[inline]
    pub(super) fn meet(
        &self,
        height: f64,
        sink: f64,
        level: f64,
        at: impl Fn(f64) -> Vector2<f64>,
    ) -> Meeting {
        let (lower, between) = (height / sink, PAVEMENT_HEIGHT_M / sink);
        let upper = lower - between;
        let on_lower = at(lower);
        if self.is_road(on_lower) {
            let beside = self.beside(on_lower);
            // Distances change no faster than places: well inside the road the
            // upper level is not met.
            if beside.distance + between * level < KERB_OFFSET_M {
                return Meeting { distance: lower, beside, is_kerb: false };
            }
        }
        let beside = self.beside(at(upper));
        if beside.distance >= KERB_OFFSET_M {
            return Meeting { distance: upper, beside, is_kerb: false };
        }
        let far = self.beside(on_lower);
        if far.distance < KERB_OFFSET_M {
            return Meeting { distance: lower, beside: far, is_kerb: false };
        }
        let share = (KERB_OFFSET_M - beside.distance) / (far.distance - beside.distance);
        let beside = Beside { distance: KERB_OFFSET_M + 0.01, ..beside };
        Meeting { distance: upper + share * between, beside, is_kerb: true }
    }

    /// Whether the middle of a place's cell is road.
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

    /// What the ground is, `pixel_m` the size of a pixel there: the cover, and
    /// how much of a marking a pixel shows.
    pub(super) fn cover(
        &self,
        position: Vector2<f64>,
        beside: &Beside,
        pixel_m: f64,
    ) -> (Cover, f32) {
        let distance = beside.distance;
        if distance > PAVEMENT_OFFSET_M {
            (Cover::Grass, 0.0)
        } else if distance > KERB_OFFSET_M + KERB_WIDTH_M {
            (Cover::Pavement, 0.0)
        } else if distance > KERB_OFFSET_M {
            (Cover::Kerb, 0.0)
        } else {
            let paint = self.paint(position, beside, pixel_m);
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
    fn paint(&self, position: Vector2<f64>, beside: &Beside, pixel_m: f64) -> f64 {
        let line = |away: f64, half_width: f64| {
            ((half_width - away) / pixel_m + 0.5).clamp(0.0, 1.0)
                * (2.0 * half_width / pixel_m).min(1.0)
        };
        if is_crossing(position, 18.0) {
            // On an arm of the crossing: how far out, how far from its middle.
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
        if beside.distance < 0.3 {
            let s = self.route.s_beside(position, beside.piece);
            let dash = s - (s / 9.0).floor() * 9.0;
            return if dash < 4.0 { line(beside.distance, 0.07) } else { 0.0 };
        }
        line((beside.distance - LANES_OFFSET_M).abs(), 0.06)
    }

    /// What a camera sees of the ground.
    pub(super) fn look(&self, position: Vector2<f64>, beside: &Beside, pixel_m: f32) -> Look {
        let (cover, paint) = self.cover(position, beside, f64::from(pixel_m));
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
        Look { albedo, gloss: 0.0 }
    }

    /// Noise about 0 of a detail that is seen so well.
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
