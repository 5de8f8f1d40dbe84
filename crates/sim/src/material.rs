//! Materials: their reflectivity to a LiDAR and their appearance to a camera.

use nalgebra::Vector3;

use super::random::{floor, noise_2d, noise_3d};
use super::surface::{Face, SurfacePoint};

/// The material of a solid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Material {
    /// Body of a car, with lamps and plates at its ends.
    CarBody,
    /// Roof and windows of a car.
    CarCabin,
    /// Driver's cab of a truck.
    TruckCab,
    /// Load of a truck: panels with a stripe.
    Cargo,
    /// Body of a bus, windows all round.
    BusBody,
    /// Tyre and hub; the hub is at the ends of a cylinder.
    Wheel,
    /// Tyre and spokes of a bicycle: rays pass between the spokes.
    BicycleWheel,
    /// Painted metal.
    Metal,
    /// Dark plastic.
    Plastic,
    /// Clothes.
    Cloth,
    /// Skin.
    Skin,
    /// Hair.
    Hair,
    /// Walls with windows.
    Facade,
    /// Tiles.
    Roof,
    /// Trunk of a tree.
    Bark,
    /// Crown of a tree: rays pass through gaps.
    Leaves,
    /// A hedge: leaves without gaps.
    Hedge,
    /// A traffic sign, retroreflective.
    Sign,
    /// Stone.
    Stone,
}

/// The appearance of a surface to a camera.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appearance {
    /// Albedo: red, green, blue, linear.
    pub(super) albedo: [f32; 3],
    /// Specular share, 0 to 1.
    pub(super) gloss: f32,
}

/// The response of a surface to a LiDAR pulse.
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    /// Reflected share of light at normal incidence; retroreflectors exceed 1.
    pub(super) reflectivity: f32,
    /// Probability that there is no echo.
    pub(super) loss: f32,
    /// Depth in metres up to which the pulse penetrates.
    pub(super) depth_m: f32,
}

const GLASS: Appearance = Appearance { albedo: [0.012, 0.015, 0.018], gloss: 0.5 };
const RUBBER: [f32; 3] = [0.022, 0.022, 0.024];

impl Material {
    /// Whether it has gaps that rays pass through.
    pub(super) fn has_gaps(self) -> bool {
        matches!(self, Self::Leaves | Self::BicycleWheel)
    }

    /// Whether a ray that meets the solid at `position` (in its cube) passes
    /// through a gap.
    #[inline]
    pub(super) fn is_gap(self, texture: u32, position: &Vector3<f32>) -> bool {
        match self {
            Self::Leaves => {
                let p = position * 7.0;
                let edge = 0.5 - 0.3 * position.z;
                noise_3d(texture, p.x, p.y, p.z * 1.3) < 0.36 + 0.04 * edge
            }
            Self::BicycleWheel => {
                let r = position.x * position.x + position.y * position.y;
                let on_spoke = (position.x * position.y).abs() < 0.02 * r
                    || (position.x * position.x - position.y * position.y).abs() < 0.04 * r;
                r < 0.78 && !on_spoke && r > 0.02
            }
            _ => false,
        }
    }

    /// The response to a LiDAR pulse.
    pub(super) fn echo(self, point: &SurfacePoint) -> Echo {
        let solid = |reflectivity| Echo { reflectivity, loss: 0.01, depth_m: 0.0 };
        let glass = Echo { reflectivity: 0.08, loss: 0.6, depth_m: 0.0 };
        match self {
            Self::CarBody => match end_part(point) {
                EndPart::Plate => solid(1.3),
                EndPart::Lamp => solid(0.9),
                EndPart::Body => solid(0.42),
            },
            Self::CarCabin if is_car_window(point) => glass,
            Self::TruckCab if is_cab_window(point) => glass,
            Self::BusBody if is_bus_window(point) => glass,
            Self::CarCabin | Self::TruckCab | Self::BusBody => solid(0.42),
            Self::Cargo => solid(0.5),
            Self::Wheel | Self::BicycleWheel => solid(0.1),
            Self::Metal => solid(0.45),
            Self::Plastic => solid(0.16),
            Self::Cloth => solid(0.32),
            Self::Skin => solid(0.45),
            Self::Hair => solid(0.2),
            Self::Facade => solid(0.38),
            Self::Roof => solid(0.22),
            Self::Bark => solid(0.28),
            Self::Leaves => Echo { reflectivity: 0.45, loss: 0.05, depth_m: 0.5 },
            Self::Hedge => Echo { reflectivity: 0.45, loss: 0.02, depth_m: 0.2 },
            Self::Sign => solid(1.6),
            Self::Stone => solid(0.3),
        }
    }

    /// The appearance at a surface point. `color` and `texture` are the solid's,
    /// `half` its half extents; `pixel_m` is the footprint of a pixel, and smaller
    /// details are left out.
    pub(super) fn appearance(
        self,
        point: &SurfacePoint,
        color: [f32; 3],
        texture: u32,
        half: &Vector3<f32>,
        pixel_m: f32,
    ) -> Appearance {
        let position = point.position.component_mul(half);
        let matt = |albedo| Appearance { albedo, gloss: 0.0 };
        match self {
            Self::CarBody => car_body(point, color, &position),
            Self::CarCabin if is_car_window(point) => GLASS,
            Self::CarCabin => Appearance { albedo: color, gloss: 0.25 },
            Self::TruckCab if is_cab_window(point) => GLASS,
            Self::TruckCab => car_body(point, color, &position),
            Self::Cargo => cargo(point, color, &position, pixel_m),
            Self::BusBody => bus_body(point, color, &position),
            Self::Wheel => {
                let r = point.position.x * point.position.x + point.position.y * point.position.y;
                let hub = point.face != Face::Round && r < 0.42;
                if hub { Appearance { albedo: [0.35; 3], gloss: 0.2 } } else { matt(RUBBER) }
            }
            Self::BicycleWheel => matt(RUBBER),
            Self::Metal => Appearance { albedo: color, gloss: 0.15 },
            Self::Plastic | Self::Skin => matt(color),
            Self::Hair => matt(color),
            Self::Cloth => {
                let fold = noise_2d(texture, position.z * 9.0, (position.x + position.y) * 14.0);
                matt(scaled(color, 0.75 + 0.5 * fold))
            }
            Self::Facade => facade(point, color, texture, half, pixel_m),
            Self::Roof => {
                let row = fraction((position.z + position.y.abs() * 0.3) * 4.0);
                let fade = fade(pixel_m, 0.12);
                matt(scaled(color, 1.0 + fade * (0.3 * row - 0.15)))
            }
            Self::Bark => {
                let ridge = noise_2d(texture, position.z * 3.0, (position.x - position.y) * 40.0);
                matt(scaled(color, 0.6 + 0.8 * ridge))
            }
            Self::Leaves => {
                let p = position * 4.5;
                let clump = noise_3d(texture ^ 77, p.x, p.y, p.z);
                let height = 0.8 + 0.25 * point.position.z;
                matt(scaled(color, (0.45 + 1.0 * clump) * height))
            }
            Self::Hedge => {
                let (u, v) = match point.face {
                    Face::Top | Face::Bottom => (position.x, position.y),
                    Face::Side => (position.x, position.z),
                    _ => (position.y, position.z),
                };
                let coarse = noise_2d(texture, u * 5.0, v * 5.0);
                let fine = noise_2d(texture ^ 5, u * 19.0, v * 19.0);
                matt(scaled(color, 0.4 + 0.65 * coarse + 0.55 * fine * fade(pixel_m, 0.05)))
            }
            Self::Sign => sign(point, color),
            Self::Stone => {
                let grain =
                    noise_2d(texture, position.x * 7.0 + position.z * 5.0, position.y * 7.0);
                matt(scaled(color, 0.85 + 0.3 * grain))
            }
        }
    }
}

/// 1 where details of this size are visible, falling to 0 where a pixel is
/// larger.
#[inline]
pub(super) fn fade(pixel_m: f32, detail_m: f32) -> f32 {
    (2.0 - 2.0 * pixel_m / detail_m).clamp(0.0, 1.0)
}

#[inline]
pub(super) fn fraction(x: f32) -> f32 {
    x - floor(x).1
}

#[inline]
pub(super) fn scaled(color: [f32; 3], factor: f32) -> [f32; 3] {
    let [red, green, blue] = color;
    [red * factor, green * factor, blue * factor]
}

enum EndPart {
    Body,
    Lamp,
    Plate,
}

/// Parts of the front and the back of a vehicle's body.
fn end_part(point: &SurfacePoint) -> EndPart {
    let (y, z) = (point.position.y.abs(), point.position.z);
    match point.face {
        Face::Front | Face::Back if y > 0.62 && y < 0.95 && z > 0.05 && z < 0.55 => EndPart::Lamp,
        Face::Front | Face::Back if y < 0.28 && z > -0.5 && z < -0.2 => EndPart::Plate,
        _ => EndPart::Body,
    }
}

fn car_body(point: &SurfacePoint, color: [f32; 3], position: &Vector3<f32>) -> Appearance {
    match (end_part(point), point.face) {
        (EndPart::Lamp, Face::Front) => return Appearance { albedo: [0.8, 0.8, 0.75], gloss: 0.4 },
        (EndPart::Lamp, _) => return Appearance { albedo: [0.45, 0.02, 0.02], gloss: 0.3 },
        (EndPart::Plate, _) => return Appearance { albedo: [0.75, 0.75, 0.7], gloss: 0.0 },
        (EndPart::Body, _) => {}
    }
    let skirt = point.position.z < -0.72;
    let grille =
        point.face == Face::Front && point.position.z < -0.05 && point.position.y.abs() < 0.55;
    if skirt || grille {
        return Appearance { albedo: [0.03; 3], gloss: 0.05 };
    }
    // Gaps of the doors.
    let gap = point.face == Face::Side
        && ((position.x - 0.55).abs() < 0.012 || (position.x + 0.5).abs() < 0.012);
    Appearance { albedo: if gap { scaled(color, 0.3) } else { color }, gloss: 0.3 }
}

/// All of the cabin but its roof and its pillars.
fn is_car_window(point: &SurfacePoint) -> bool {
    let (x, y, z) = (point.position.x, point.position.y.abs(), point.position.z);
    match point.face {
        Face::Front | Face::Back => y < 0.86 - 0.06 * z && z < 0.86,
        Face::Side => z < 0.84 && (x + 0.05).abs() > 0.05 && x.abs() < 0.9 - 0.12 * z,
        _ => false,
    }
}

fn is_cab_window(point: &SurfacePoint) -> bool {
    let (x, y, z) = (point.position.x, point.position.y.abs(), point.position.z);
    match point.face {
        Face::Front => y < 0.88 && z > 0.1 && z < 0.82,
        Face::Side => x > -0.35 && x < 0.75 && z > 0.12 && z < 0.78,
        _ => false,
    }
}

fn is_bus_window(point: &SurfacePoint) -> bool {
    let (x, y, z) = (point.position.x, point.position.y.abs(), point.position.z);
    match point.face {
        Face::Front => y < 0.92 && z > -0.35 && z < 0.62,
        Face::Back => y < 0.8 && z > 0.15 && z < 0.65,
        Face::Side => z > -0.05 && z < 0.62 && fraction((x + 1.0) * 3.5) > 0.06,
        _ => false,
    }
}

fn bus_body(point: &SurfacePoint, color: [f32; 3], position: &Vector3<f32>) -> Appearance {
    if is_bus_window(point) {
        return GLASS;
    }
    match point.face {
        // The board of its destination.
        Face::Front
            if point.position.z > 0.7
                && point.position.z < 0.92
                && point.position.y.abs() < 0.7 =>
        {
            let lit = fraction(position.y * 6.0) > 0.35
                && point.position.z > 0.75
                && point.position.z < 0.87;
            Appearance { albedo: if lit { [1.0, 0.55, 0.05] } else { [0.02; 3] }, gloss: 0.0 }
        }
        Face::Side if point.position.z < -0.45 && point.position.z > -0.6 => {
            Appearance { albedo: [0.75, 0.75, 0.72], gloss: 0.2 }
        }
        _ => car_body(point, color, position),
    }
}

fn cargo(
    point: &SurfacePoint,
    color: [f32; 3],
    position: &Vector3<f32>,
    pixel_m: f32,
) -> Appearance {
    let rib = fade(pixel_m, 0.1);
    let lamp = point.face == Face::Back && point.position.z < -0.88 && point.position.y.abs() > 0.7;
    let doors = point.face == Face::Back && point.position.y.abs() < 0.015;
    let stripe = point.face == Face::Side && (point.position.z + 0.1).abs() < 0.22;
    let shade = match point.face {
        Face::Side => 1.0 - 0.12 * rib * f32::from(u8::from(fraction(position.x * 1.6) < 0.06)),
        _ => 1.0,
    };
    let albedo = match () {
        () if lamp => [0.45, 0.02, 0.02],
        () if doors => [0.05; 3],
        () if stripe => [0.3 + 0.5 * color[2], 0.35 * color[1] + 0.1, 0.4 * color[0]],
        () => scaled(color, shade),
    };
    Appearance { albedo, gloss: 0.08 }
}

fn facade(
    point: &SurfacePoint,
    color: [f32; 3],
    texture: u32,
    half: &Vector3<f32>,
    pixel_m: f32,
) -> Appearance {
    let position = point.position.component_mul(half);
    let u = match point.face {
        Face::Front | Face::Back => position.y,
        Face::Side => position.x,
        _ => return Appearance { albedo: [0.2, 0.19, 0.18], gloss: 0.0 },
    };
    let half_height = half.z;
    let height = position.z + half_height;
    let (pitch, storey) = (2.2 + (texture % 5) as f32 * 0.25, 3.0);
    let (column, row) = ((u / pitch + 100.5).floor(), (height / storey).floor());
    let (du, dv) = ((fraction(u / pitch + 0.5) - 0.5) * pitch, fraction(height / storey) * storey);
    let is_door = row < 0.5 && noise_2d(texture ^ 3, column * 7.3, 0.0) < 0.3;
    let (sill, head) = if is_door { (0.0, 2.2) } else { (0.9, 2.3) };
    let half_width = if is_door { 0.5 } else { 0.3 + (texture >> 8 & 3) as f32 * 0.1 };
    let below_roof = height < 2.0 * half_height - 0.5;
    let within = |grow: f32| {
        du.abs() < half_width + grow && dv > sill - grow && dv < head + grow && below_roof
    };
    if within(0.0) {
        let pane = (du.abs() > 0.025 || is_door) && (dv - 1.75).abs() > 0.02;
        let lit = noise_2d(texture ^ 9, column * 3.7, row * 5.1);
        return match (is_door, pane) {
            (true, _) => Appearance { albedo: scaled([0.16, 0.09, 0.06], 0.6 + lit), gloss: 0.05 },
            (_, true) => {
                Appearance { albedo: scaled([0.03, 0.035, 0.04], 0.3 + 1.4 * lit), gloss: 0.3 }
            }
            (_, false) => Appearance { albedo: [0.55; 3], gloss: 0.0 },
        };
    }
    if within(0.12) {
        return Appearance { albedo: [0.6, 0.58, 0.55], gloss: 0.0 };
    }
    let stain = noise_2d(texture ^ 1, u * 0.5, height * 0.3);
    let mut shade = 0.86 + 0.28 * stain;
    if texture & 1 == 0 {
        // Courses of brick.
        let course = (height / 0.16).floor();
        let joint = fraction(height / 0.16) < 0.12
            || fraction(u / 0.48 + 0.5 * (course * 0.5).fract() * 2.0) < 0.05;
        let brick = noise_2d(texture ^ 2, (u / 0.48).floor() * 1.7, course * 3.1);
        let detail = if joint { 0.25 } else { 0.3 * (brick - 0.5) };
        shade += fade(pixel_m, 0.08) * detail;
    }
    if height < 0.5 {
        shade *= 0.7;
    }
    Appearance { albedo: scaled(color, shade), gloss: 0.0 }
}

fn sign(point: &SurfacePoint, color: [f32; 3]) -> Appearance {
    let (y, z) = (point.position.y, point.position.z);
    let r = y * y + z * z;
    let albedo = match point.face {
        Face::Front | Face::Back if r > 0.55 => color,
        Face::Front | Face::Back if y.abs() < 0.18 => [0.05; 3],
        _ => [0.8; 3],
    };
    Appearance { albedo, gloss: 0.0 }
}
