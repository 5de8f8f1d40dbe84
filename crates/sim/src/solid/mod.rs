//! Solids and their intersection with rays.
//!
//! All objects are made of convex solids, each defined in a cube of half extents
//! 1: tapered boxes, cylinders and ellipsoids. A ray is transformed into the
//! cube, where it intersects the solid in an interval; the nearer end is the
//! hit. LiDAR and camera share this arithmetic and differ only in their rays.
//! Rays come in chunks of [`LANES`] with the directions `a * p[i] + b * q[i]`: a
//! row of pixels, or a column of beams.

use nalgebra::{Matrix3, Vector3};

use super::material::Material;
use super::surface::{Face, SurfacePoint};

/// Number of rays in a chunk.
pub(super) const LANES: usize = 8;

/// A number per ray of a chunk.
pub(super) type Lanes = [f32; LANES];

/// The shape of a solid in the cube from -1 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// A box with a smaller top: narrowed at the front (+x), at the back and at
    /// either side (y) by these fractions of the half extents.
    Box { front: f32, back: f32, side: f32 },
    /// A cylinder along z.
    Cylinder,
    /// An ellipsoid.
    Ellipsoid,
}

impl Shape {
    /// A box without taper.
    pub(super) const CUBE: Self = Self::Box { front: 0.0, back: 0.0, side: 0.0 };
}

/// A solid in a frame: the map, or that of the actor it is part of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solid {
    /// Its shape.
    pub(super) shape: Shape,
    /// Its material.
    pub(super) material: Material,
    /// Base colour, linear RGB.
    pub(super) color: [f32; 3],
    /// Key of its texture.
    pub(super) texture: u32,
    /// Its centre.
    pub(super) center: Vector3<f64>,
    /// Its axes, as columns.
    pub(super) axes: Matrix3<f64>,
    /// Half extents along its axes.
    pub(super) half: Vector3<f64>,
}

impl Solid {
    /// An upright solid whose x axis is that of its frame.
    pub(super) fn new(
        shape: Shape,
        material: Material,
        color: [f32; 3],
        center: [f64; 3],
        half: [f64; 3],
    ) -> Self {
        Self {
            shape,
            material,
            color,
            texture: 0,
            center: center.into(),
            axes: Matrix3::identity(),
            half: half.into(),
        }
    }

    /// The same solid with another texture key.
    pub(super) fn textured(self, texture: u32) -> Self {
        Self { texture, ..self }
    }

    /// Leaned about the y axis: the top moves forward (towards +x) by the fraction
    /// `slope` of its height.
    pub(super) fn leaned(self, slope: f64) -> Self {
        let length = (1.0 + slope * slope).sqrt();
        let (sin, cos) = (slope / length, 1.0 / length);
        let turn = Matrix3::new(cos, 0.0, sin, 0.0, 1.0, 0.0, -sin, 0.0, cos);
        Self { axes: turn * self.axes, ..self }
    }

    /// Upside down: a tapered box is then narrower below.
    pub(super) fn flipped(self) -> Self {
        let turn = Matrix3::from_diagonal(&Vector3::new(1.0, -1.0, -1.0));
        Self { axes: self.axes * turn, ..self }
    }

    /// Lying along y: for wheels.
    pub(super) fn across(self) -> Self {
        let turn = Matrix3::new(1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 0.0);
        Self { axes: turn * self.axes, ..self }
    }

    /// Rotated about the vertical axis by a unit vector (cosine, sine), then
    /// translated.
    pub(super) fn placed(&self, origin: &Vector3<f64>, [cos, sin]: [f64; 2]) -> Self {
        let turn = Matrix3::new(cos, -sin, 0.0, sin, cos, 0.0, 0.0, 0.0, 1.0);
        Self { center: origin + turn * self.center, axes: turn * self.axes, ..*self }
    }
}

/// A solid in the frame of a sensor, prepared for intersection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// From the sensor's frame into the cube: `cube_from_sensor * (p - center)`.
    pub(super) cube_from_sensor: Matrix3<f32>,
    /// Centre in the sensor's frame.
    pub(super) center: Vector3<f32>,
    /// From the cube into the sensor's frame, less the centre.
    pub(super) sensor_from_cube: Matrix3<f32>,
    /// Shape in the cube.
    pub(super) shape: Shape,
}

impl Target {
    /// A solid seen from `origin` with axes `sensor_from_map`.
    pub(super) fn new(
        solid: &Solid,
        origin: &Vector3<f64>,
        sensor_from_map: &Matrix3<f64>,
    ) -> Self {
        let axes = sensor_from_map * solid.axes;
        let scaled = Matrix3::from_diagonal(&solid.half.map(|half| 1.0 / half)) * axes.transpose();
        let center = sensor_from_map * (solid.center - origin);
        Self {
            cube_from_sensor: scaled.map(|value| value as f32),
            center: center.map(|value| value as f32),
            sensor_from_cube: (axes * Matrix3::from_diagonal(&solid.half))
                .map(|value| value as f32),
            shape: solid.shape,
        }
    }

    /// The corners of the cube in the sensor's frame.
    pub(super) fn corners(&self) -> [Vector3<f32>; 8] {
        std::array::from_fn(|i| {
            let sign = |bit: usize| if i >> bit & 1 == 0 { -1.0 } else { 1.0 };
            self.center + self.sensor_from_cube * Vector3::new(sign(0), sign(1), sign(2))
        })
    }
}

/// Rays in a cube, from `origin` in the directions `a * p[i] + b * q[i]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rays {
    /// The common origin.
    pub(super) origin: Vector3<f32>,
    /// Factor of `p`.
    pub(super) a: Vector3<f32>,
    /// Factor of `q`.
    pub(super) b: Vector3<f32>,
}

/// The distance along each ray (in lengths of its direction) at which it enters
/// the shape; infinity where it misses the shape or starts inside or beyond it.
#[inline(always)]
pub(super) fn intersect(shape: Shape, rays: &Rays, p: &Lanes, q: &Lanes) -> Lanes {
    let mut directions = [[0.0; LANES]; 3];
    for (axis, direction) in directions.iter_mut().enumerate() {
        for (i, direction) in direction.iter_mut().enumerate() {
            *direction = rays.a[axis] * p[i] + rays.b[axis] * q[i];
        }
    }
    let mut interval = Interval { enter: [f32::NEG_INFINITY; LANES], exit: [f32::INFINITY; LANES] };
    interval.cut([0.0, 0.0, 1.0], 1.0, &rays.origin, &directions);
    interval.cut([0.0, 0.0, -1.0], 1.0, &rays.origin, &directions);
    match shape {
        Shape::Box { front, back, side } => {
            for (normal, taper) in [
                ([1.0, 0.0, 0.5 * front], front),
                ([-1.0, 0.0, 0.5 * back], back),
                ([0.0, 1.0, 0.5 * side], side),
                ([0.0, -1.0, 0.5 * side], side),
            ] {
                interval.cut(normal, 1.0 - 0.5 * taper, &rays.origin, &directions);
            }
        }
        Shape::Cylinder => interval.cut_round(0.0, &rays.origin, &directions),
        Shape::Ellipsoid => interval.cut_round(1.0, &rays.origin, &directions),
    }
    let mut at = [f32::INFINITY; LANES];
    for (i, at) in at.iter_mut().enumerate() {
        let is_hit = interval.enter[i] <= interval.exit[i] && interval.enter[i] > 0.0;
        *at = if is_hit { interval.enter[i] } else { f32::INFINITY };
    }
    at
}

/// The interval of each ray inside the shape.
struct Interval {
    enter: Lanes,
    exit: Lanes,
}

impl Interval {
    /// Intersects with the half space `normal . x <= h`.
    #[inline(always)]
    fn cut(&mut self, normal: [f32; 3], h: f32, origin: &Vector3<f32>, d: &[Lanes; 3]) {
        let room = h - (normal[0] * origin.x + normal[1] * origin.y + normal[2] * origin.z);
        let ends = self.enter.iter_mut().zip(&mut self.exit);
        for (i, (own_enter, own_exit)) in ends.enumerate() {
            let towards = normal[0] * d[0][i] + normal[1] * d[1][i] + normal[2] * d[2][i];
            let towards = if towards == 0.0 { 1e-20 } else { towards };
            let at = room / towards;
            let exit = if towards > 0.0 { at } else { f32::INFINITY };
            let enter = if towards > 0.0 { f32::NEG_INFINITY } else { at };
            *own_exit = if exit < *own_exit { exit } else { *own_exit };
            *own_enter = if enter > *own_enter { enter } else { *own_enter };
        }
    }

    /// Intersects with a cylinder along z (`round` 0) or a sphere (1).
    #[inline(always)]
    fn cut_round(&mut self, round: f32, o: &Vector3<f32>, d: &[Lanes; 3]) {
        let c = o.x * o.x + o.y * o.y + round * o.z * o.z - 1.0;
        let ends = self.enter.iter_mut().zip(&mut self.exit);
        for (i, (own_enter, own_exit)) in ends.enumerate() {
            let z = round * d[2][i];
            let a = d[0][i] * d[0][i] + d[1][i] * d[1][i] + z * z + 1e-20;
            let b = d[0][i] * o.x + d[1][i] * o.y + z * o.z;
            let discriminant = b * b - a * c;
            let is_missed = discriminant < 0.0;
            let root = if is_missed { 0.0 } else { discriminant }.sqrt();
            let (near, far) = ((-b - root) / a, (root - b) / a);
            let far = if is_missed { f32::NEG_INFINITY } else { far };
            *own_enter = if near > *own_enter { near } else { *own_enter };
            *own_exit = if far < *own_exit { far } else { *own_exit };
        }
    }
}

/// The surface point of a target at `point`, a position in the sensor's frame.
#[inline]
pub(super) fn surface_point(target: &Target, point: &Vector3<f32>) -> SurfacePoint {
    let position = target.cube_from_sensor * (point - target.center);
    let (face, normal) = match target.shape {
        Shape::Box { front, back, side } => {
            let lift = 0.5 * (position.z + 1.0);
            let planes = [
                (Face::Front, Vector3::new(1.0, 0.0, 0.5 * front), position.x + front * lift),
                (Face::Back, Vector3::new(-1.0, 0.0, 0.5 * back), back * lift - position.x),
                (Face::Side, Vector3::new(0.0, 1.0, 0.5 * side), position.y + side * lift),
                (Face::Side, Vector3::new(0.0, -1.0, 0.5 * side), side * lift - position.y),
                (Face::Top, Vector3::new(0.0, 0.0, 1.0), position.z),
                (Face::Bottom, Vector3::new(0.0, 0.0, -1.0), -position.z),
            ];
            let mut outermost = planes[0];
            for plane in &planes[1..] {
                if plane.2 > outermost.2 {
                    outermost = *plane;
                }
            }
            (outermost.0, outermost.1)
        }
        Shape::Cylinder => {
            let round = position.x * position.x + position.y * position.y;
            if position.z * position.z > round {
                let face = if position.z > 0.0 { Face::Top } else { Face::Bottom };
                (face, Vector3::new(0.0, 0.0, position.z))
            } else {
                (Face::Round, Vector3::new(position.x, position.y, 0.0))
            }
        }
        Shape::Ellipsoid => (Face::Round, position),
    };
    // Normals transform by the transpose of `cube_from_sensor`.
    let normal = target.cube_from_sensor.tr_mul(&normal);
    let length = normal.norm();
    let normal = if length > 0.0 { normal / length } else { Vector3::z() };
    SurfacePoint { position, face, normal }
}

#[cfg(test)]
mod tests;
