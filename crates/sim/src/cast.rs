//! The rays of a LiDAR, column by column, and their first hits.

use multiversion::multiversion;
use nalgebra::Vector3;

use super::scene::Scene;
use super::solid::{LANES, Lanes, Rays, Target, intersect};

/// Beams of every LiDAR.
pub const NUM_BEAMS: usize = 64;
/// The maximum range.
pub const MAX_RANGE_M: f32 = 120.0;
/// Number of chunks of beams.
pub(super) const CHUNKS: usize = NUM_BEAMS / LANES;

/// The elevations of the beams, chunk by chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beams {
    pub(super) cos: [Lanes; CHUNKS],
    pub(super) sin: [Lanes; CHUNKS],
}

impl Beams {
    /// As the HDL-64E: 32 from -24.33 to -8.83 degrees, 32 on to 2 degrees.
    pub(super) fn new() -> Self {
        let mut beams = Self { cos: [[0.0; LANES]; CHUNKS], sin: [[0.0; LANES]; CHUNKS] };
        for beam in 0..NUM_BEAMS {
            let step = beam as f64;
            let degrees =
                if beam < 32 { -24.33 + 0.5 * step } else { -8.333 + (step - 32.0) / 3.0 };
            let (sin, cos) = libm::sincos(degrees.to_radians());
            beams.cos[beam / LANES][beam % LANES] = cos as f32;
            beams.sin[beam / LANES][beam % LANES] = sin as f32;
        }
        beams
    }
}

/// The motion of an actor in the frame of the sensor at the stamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActorMotion {
    pub(super) center: Vector3<f32>,
    pub(super) velocity: Vector3<f32>,
    pub(super) yaw_rate: f32,
}

/// The rays of a column: their common origin and horizontal direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) origin: Vector3<f32>,
    pub(super) ahead: Vector3<f32>,
    pub(super) time_s: f32,
}

impl Column {
    /// The rays relative to an actor that stays at its pose of the stamp: the
    /// actor's motion since the stamp is applied to the rays, inverted.
    pub(super) fn relative_to(&self, motion: &ActorMotion) -> Self {
        let (turn, t) = (-motion.yaw_rate * self.time_s, self.time_s);
        // The angle is a few hundredths of a radian: second order suffices.
        let (cos, sin) = (1.0 - 0.5 * turn * turn, turn);
        let turned =
            |v: Vector3<f32>| Vector3::new(cos * v.x - sin * v.y, sin * v.x + cos * v.y, v.z);
        let from_center = self.origin - motion.center - motion.velocity * t;
        Self { origin: motion.center + turned(from_center), ahead: turned(self.ahead), ..*self }
    }
}

/// The first hits of the beams of a column.
#[derive(Clone, Copy)]
pub(super) struct Hits {
    pub(super) range: [Lanes; CHUNKS],
    pub(super) solid: [[u32; LANES]; CHUNKS],
}

/// The interval of azimuths that contains a target which may shift by `shift`
/// metres; `None` when it may be at every azimuth.
pub(super) fn azimuths(target: &Target, shift: f64) -> Option<[f64; 2]> {
    let center = target.center.xy().map(f64::from);
    let distance = center.norm();
    let middle = libm::atan2(center.y, center.x);
    let (mut low, mut high, mut nearest) = (0.0_f64, 0.0_f64, distance);
    for corner in target.corners() {
        let corner = corner.xy().map(f64::from);
        let (ahead, aside) = (corner.dot(&center), center.perp(&corner));
        if ahead <= 0.0 {
            return None;
        }
        let angle = libm::atan2(aside, ahead);
        low = low.min(angle);
        high = high.max(angle);
        nearest = nearest.min(ahead / distance);
    }
    if nearest <= 2.0 * shift {
        return None;
    }
    let margin = shift / (nearest - shift);
    Some([middle + low - margin, middle + high + margin])
}

/// Casts the beams of a column at the solids of `list`: static ones, or those of
/// one actor. Returns a bit mask of the beams that hit one of them when occlusion
/// is ignored.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn cast(
    scene: &Scene,
    list: &[u32],
    beams: &Beams,
    column: &Column,
    hits: &mut Hits,
) -> u64 {
    let mut unoccluded = 0_u64;
    for &index in list {
        let target = &scene.targets[index as usize];
        let solid = &scene.solids[index as usize];
        let rays = Rays {
            origin: target.cube_from_sensor * (column.origin - target.center),
            a: target.cube_from_sensor * column.ahead,
            b: target.cube_from_sensor.column(2).into(),
        };
        let [low, high] = slopes(target, &column.origin);
        for chunk in 0..CHUNKS {
            let (cos, sin) = (&beams.cos[chunk], &beams.sin[chunk]);
            if sin[LANES - 1] < low * cos[LANES - 1] || sin[0] > high * cos[0] {
                continue;
            }
            let mut at = intersect(target.shape, &rays, cos, sin);
            if solid.material.has_gaps() {
                for i in 0..LANES {
                    let position = rays.origin + (rays.a * cos[i] + rays.b * sin[i]) * at[i];
                    if at[i] < MAX_RANGE_M && solid.material.is_gap(solid.texture, &position) {
                        at[i] = f32::INFINITY;
                    }
                }
            }
            let (range, what) = (&mut hits.range[chunk], &mut hits.solid[chunk]);
            for i in 0..LANES {
                unoccluded |= u64::from(at[i] < MAX_RANGE_M) << (chunk * LANES + i);
                if at[i] < range[i] {
                    range[i] = at[i];
                    what[i] = index;
                }
            }
        }
    }
    unoccluded
}

/// The interval of slopes (height over horizontal distance) that contains a
/// target.
#[inline(always)]
fn slopes(target: &Target, origin: &Vector3<f32>) -> [f32; 2] {
    let m = &target.sensor_from_cube;
    let reach = |row: usize| m[(row, 0)].abs() + m[(row, 1)].abs() + m[(row, 2)].abs();
    let (level, up) = (reach(0) + reach(1), reach(2));
    let away = target.center - origin;
    let distance = (away.x * away.x + away.y * away.y).sqrt();
    if distance <= 1.01 * level {
        return [f32::NEG_INFINITY, f32::INFINITY];
    }
    let (near, far) = (distance - level, distance + level);
    let (bottom, top) = (away.z - up, away.z + up);
    [(bottom / near).min(bottom / far), (top / near).max(top / far)]
}
