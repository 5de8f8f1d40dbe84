//! The road: two blocks that share a corner, driven as a figure of eight.
//!
//! From the crossing at the origin the centreline leaves to the east, goes left
//! round the first block, crosses itself southward, goes right round the
//! second block and comes back from the west. Places on the road are given by
//! `s`, the length along the centreline from the crossing, and `offset`, metres
//! to its left.
//!
//! Vehicles keep to slots [`SLOT_M`] apart. The way round each block is a whole
//! number of slots and a half, so where the road crosses itself those of one
//! arm pass between those of the other.

use nalgebra::Vector2;

use super::random::Random;

/// Length of road to each moving vehicle.
pub(super) const SLOT_M: f64 = 38.0;
/// Half the width of the carriageway: what lies beyond is pavement.
pub(super) const KERB_OFFSET_M: f64 = 5.7;
/// From the kerb to here there is pavement; beyond, grass.
pub(super) const PAVEMENT_OFFSET_M: f64 = 9.2;
/// Half the width of the two lanes; between them and the kerb cars park.
pub(super) const LANES_OFFSET_M: f64 = 3.5;

/// A place on the centreline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Where it is.
    pub(super) position: Vector2<f64>,
    /// Unit vector along the road.
    pub(super) tangent: Vector2<f64>,
    /// Turn to the left per metre.
    pub(super) curvature: f64,
}

impl Place {
    /// Unit vector to the left.
    pub(super) fn left(&self) -> Vector2<f64> {
        left_of(self.tangent)
    }

    /// The position `offset` metres to the left.
    pub(super) fn beside(&self, offset: f64) -> Vector2<f64> {
        self.position + self.left() * offset
    }
}

pub(super) fn left_of(v: Vector2<f64>) -> Vector2<f64> {
    Vector2::new(-v.y, v.x)
}

/// A place seen from the road.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// Metres from the centreline.
    pub(super) distance: f64,
    /// The piece that is nearest.
    pub(super) piece: usize,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Line,
    /// A quarter of a circle; `turn` is 1 to the left, -1 to the right.
    Arc {
        center: Vector2<f64>,
        radius: f64,
        turn: f64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start_s: f64,
    length: f64,
    start: Vector2<f64>,
    tangent: Vector2<f64>,
    form: Form,
}

/// The road.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pieces: Vec<Piece>,
    length: f64,
    second_pass: f64,
}

impl Route {
    /// A road of random blocks.
    pub(super) fn new(random: &mut Random) -> Self {
        let mut route = Self { pieces: Vec::new(), length: 0.0, second_pass: 0.0 };
        route.push_block(random, Vector2::new(1.0, 0.0), 1.0);
        route.second_pass = route.length;
        route.push_block(random, Vector2::new(0.0, -1.0), -1.0);
        route
    }

    /// Goes round a block from the origin back to it, turning left (1) or
    /// right (-1) at its three other corners.
    fn push_block(&mut self, random: &mut Random, tangent: Vector2<f64>, turn: f64) {
        // Wide enough for two buses that meet.
        let radii = [(); 3].map(|()| random.range(29.0, 36.0));
        let num_slots = 11.5 + random.below(3) as f64;
        // A corner of radius r is this much shorter than its two sides.
        let saved = (2.0 - std::f64::consts::FRAC_PI_2) * radii.iter().sum::<f64>();
        let half = 0.5 * (num_slots * SLOT_M + saved);
        let first = half * random.range(0.46, 0.54);
        let sides = [first, half - first, first, half - first];
        let (mut position, mut tangent) = (Vector2::zeros(), tangent);
        for side in 0..4 {
            let cut = |corner: usize| radii.get(corner).copied().unwrap_or(0.0);
            let before = if side == 0 { 0.0 } else { cut(side - 1) };
            let length = sides[side] - before - cut(side);
            self.push(position, tangent, length, Form::Line);
            position += tangent * length;
            if side == 3 {
                break;
            }
            let radius = radii[side];
            let inward = left_of(tangent) * turn;
            let center = position + inward * radius;
            let length = radius * std::f64::consts::FRAC_PI_2;
            self.push(position, tangent, length, Form::Arc { center, radius, turn });
            position = center + tangent * radius;
            tangent = inward;
        }
    }

    fn push(&mut self, start: Vector2<f64>, tangent: Vector2<f64>, length: f64, form: Form) {
        self.pieces.push(Piece { start_s: self.length, length, start, tangent, form });
        self.length += length;
    }

    /// Length of the whole way round.
    pub(super) fn length(&self) -> f64 {
        self.length
    }

    /// `s` where the road crosses itself for the second time.
    pub(super) fn second_pass(&self) -> f64 {
        self.second_pass
    }

    /// Number of straight and curved pieces.
    pub(super) fn num_pieces(&self) -> usize {
        self.pieces.len()
    }

    /// `s` of the middles of the curves.
    pub(super) fn curves(&self) -> impl Iterator<Item = f64> {
        let is_curve = |piece: &&Piece| matches!(piece.form, Form::Arc { .. });
        self.pieces.iter().filter(is_curve).map(|piece| piece.start_s + 0.5 * piece.length)
    }

    /// Along the road, metres from `s` to the crossing.
    pub(super) fn distance_to_crossing(&self, s: f64) -> f64 {
        let s = self.wrapped(s);
        let distance = |to: f64| (s - to).abs();
        distance(0.0).min(distance(self.second_pass)).min(distance(self.length))
    }

    /// Whether the road is straight at `s`.
    pub(super) fn is_straight(&self, s: f64) -> bool {
        matches!(self.piece_at(self.wrapped(s)).form, Form::Line)
    }

    fn wrapped(&self, s: f64) -> f64 {
        s - (s / self.length).floor() * self.length
    }

    fn piece_at(&self, s: f64) -> &Piece {
        let next = self.pieces.partition_point(|piece| piece.start_s <= s);
        &self.pieces[next.saturating_sub(1)]
    }

    /// The place at `s`, which may be any number: the road is closed.
    pub(super) fn at(&self, s: f64) -> Place {
        let s = self.wrapped(s);
        let piece = self.piece_at(s);
        let along = s - piece.start_s;
        match piece.form {
            Form::Line => Place {
                position: piece.start + piece.tangent * along,
                tangent: piece.tangent,
                curvature: 0.0,
            },
            Form::Arc { center, radius, turn } => {
                let (sin, cos) = libm::sincos(along / radius);
                let left = left_of(piece.tangent);
                let tangent = piece.tangent * cos + left * (turn * sin);
                let outward = left_of(tangent) * -turn;
                Place { position: center + outward * radius, tangent, curvature: turn / radius }
            }
        }
    }

    /// The nearest of the pieces in `mask` (bit i: piece i).
    pub(super) fn beside(&self, position: Vector2<f64>, mut mask: u32) -> Beside {
        let mut nearest = Beside { distance: f64::INFINITY, piece: 0 };
        while mask != 0 {
            let piece = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let distance = self.pieces[piece].distance(position);
            if distance < nearest.distance {
                nearest = Beside { distance, piece };
            }
        }
        nearest
    }

    /// `s` of a place that is nearest to a piece.
    pub(super) fn s_beside(&self, position: Vector2<f64>, piece: usize) -> f64 {
        let piece = &self.pieces[piece];
        let along = match piece.form {
            Form::Line => (position - piece.start).dot(&piece.tangent),
            Form::Arc { center, radius, .. } => {
                let (from_center, outward) = (position - center, piece.start - center);
                radius
                    * libm::atan2(
                        from_center.dot(&piece.tangent),
                        from_center.dot(&outward) / radius,
                    )
            }
        };
        piece.start_s + along
    }

    /// Metres from the centreline.
    pub(super) fn distance(&self, position: Vector2<f64>) -> f64 {
        self.beside(position, (1 << self.pieces.len()) - 1).distance
    }

    /// Of all pieces the lowest and the highest coordinates.
    pub(super) fn bounds(&self) -> [Vector2<f64>; 2] {
        let mut bounds = [Vector2::repeat(f64::INFINITY), Vector2::repeat(f64::NEG_INFINITY)];
        for piece in &self.pieces {
            let reach = match piece.form {
                Form::Line => 0.0,
                Form::Arc { radius, .. } => radius,
            };
            bounds[0] = bounds[0].inf(&(piece.start - Vector2::repeat(reach)));
            bounds[1] = bounds[1].sup(&(piece.start + Vector2::repeat(reach)));
        }
        bounds
    }
}

impl Piece {
    #[inline]
    fn distance(&self, position: Vector2<f64>) -> f64 {
        match self.form {
            Form::Line => {
                let from_start = position - self.start;
                let along = from_start.dot(&self.tangent);
                let beyond = along - along.clamp(0.0, self.length);
                let across = from_start.dot(&left_of(self.tangent));
                (across * across + beyond * beyond).sqrt()
            }
            Form::Arc { center, radius, .. } => {
                let from_center = position - center;
                let ahead = from_center.dot(&self.tangent);
                let outward = from_center.dot(&(self.start - center));
                if ahead >= 0.0 && outward >= 0.0 {
                    (from_center.norm() - radius).abs()
                } else {
                    // The neighbours are lines that end where this begins.
                    f64::INFINITY
                }
            }
        }
    }
}
