//! The road: a figure of eight around two blocks that share a corner.
//!
//! From the crossing at the origin the centreline leaves to the east, turns left
//! around the first block, crosses itself southward, turns right around the
//! second block and returns from the west. A position on the road is given by
//! `s`, the arc length along the centreline from the crossing, and `offset`,
//! metres to its left.
//!
//! Moving vehicles are [`SLOT_M`] apart. The road around each block is a
//! half-integer number of slots long, so at the crossing the vehicles of one arm
//! pass between those of the other.

use nalgebra::Vector2;

use super::random::Random;

/// Spacing of moving vehicles.
pub(super) const SLOT_M: f64 = 38.0;
/// Offset of the kerbs: half the width of the carriageway.
pub(super) const KERB_OFFSET_M: f64 = 5.7;
/// Offset of the outer edges of the pavements; beyond them is grass.
pub(super) const PAVEMENT_OFFSET_M: f64 = 9.2;
/// Offset of the outer edges of the lanes; parking bays are between them and the
/// kerbs.
pub(super) const LANES_OFFSET_M: f64 = 3.5;

/// A point on the centreline.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoadPoint {
    /// Its position.
    pub(super) position: Vector2<f64>,
    /// Unit vector along the road.
    pub(super) tangent: Vector2<f64>,
    /// Curvature per metre, positive to the left.
    pub(super) curvature: f64,
}

impl RoadPoint {
    /// Unit vector to the left.
    pub(super) fn left(&self) -> Vector2<f64> {
        left_of(self.tangent)
    }

    /// The position `offset` metres to the left.
    pub(super) fn at_offset(&self, offset: f64) -> Vector2<f64> {
        self.position + self.left() * offset
    }
}

pub(super) fn left_of(v: Vector2<f64>) -> Vector2<f64> {
    Vector2::new(-v.y, v.x)
}

/// The piece of road nearest to a position.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearestPiece {
    /// Metres from the centreline.
    pub(super) distance: f64,
    /// Its index.
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

    /// Adds the pieces around a block from the origin back to it, turning left (1)
    /// or right (-1) at its three other corners.
    fn push_block(&mut self, random: &mut Random, tangent: Vector2<f64>, turn: f64) {
        // Wide enough for two oncoming buses.
        let radii = [(); 3].map(|()| random.range(29.0, 36.0));
        let num_slots = 11.5 + random.below(3) as f64;
        // The length that an arc of radius r saves compared with its two sides.
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

    /// Total length.
    pub(super) fn length(&self) -> f64 {
        self.length
    }

    /// `s` of the second pass through the crossing.
    pub(super) fn second_pass(&self) -> f64 {
        self.second_pass
    }

    /// Number of straight and curved pieces.
    pub(super) fn num_pieces(&self) -> usize {
        self.pieces.len()
    }

    /// `s` of the middle of each curve.
    pub(super) fn curves(&self) -> impl Iterator<Item = f64> {
        let is_curve = |piece: &&Piece| matches!(piece.form, Form::Arc { .. });
        self.pieces.iter().filter(is_curve).map(|piece| piece.start_s + 0.5 * piece.length)
    }

    /// Distance along the road from `s` to the crossing.
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

    /// The point at `s`, which may be any number: the road is closed.
    pub(super) fn at(&self, s: f64) -> RoadPoint {
        let s = self.wrapped(s);
        let piece = self.piece_at(s);
        let along = s - piece.start_s;
        match piece.form {
            Form::Line => RoadPoint {
                position: piece.start + piece.tangent * along,
                tangent: piece.tangent,
                curvature: 0.0,
            },
            Form::Arc { center, radius, turn } => {
                let (sin, cos) = libm::sincos(along / radius);
                let left = left_of(piece.tangent);
                let tangent = piece.tangent * cos + left * (turn * sin);
                let outward = left_of(tangent) * -turn;
                RoadPoint { position: center + outward * radius, tangent, curvature: turn / radius }
            }
        }
    }

    /// The nearest of the pieces in `mask` (bit i is piece i).
    pub(super) fn nearest_piece(&self, position: Vector2<f64>, mut mask: u32) -> NearestPiece {
        let mut nearest = NearestPiece { distance: f64::INFINITY, piece: 0 };
        while mask != 0 {
            let piece = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let distance = self.pieces[piece].distance(position);
            if distance < nearest.distance {
                nearest = NearestPiece { distance, piece };
            }
        }
        nearest
    }

    /// `s` of the point of a piece that is nearest to a position.
    pub(super) fn s_near(&self, position: Vector2<f64>, piece: usize) -> f64 {
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
        self.nearest_piece(position, (1 << self.pieces.len()) - 1).distance
    }

    /// Lowest and highest coordinates of all pieces.
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
                    // The neighbouring lines are nearer there.
                    f64::INFINITY
                }
            }
        }
    }
}
