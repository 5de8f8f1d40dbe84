//! The shapes of actors: a few solids each, inside one upright box.
//!
//! In an actor's own frame x points ahead, y to the left, z up from the middle
//! of its base.

use super::class::Class;
use super::material::Material;
use super::random::Random;
use super::solid::{Shape, Solid};

/// The shape and colours of an actor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    /// The class of the actor.
    pub(super) class: Class,
    /// Length, width, height of the tight box around its solids.
    pub(super) size_m: [f64; 3],
    /// Colours: paint or clothes above, trousers or load below, hair.
    colors: [[f32; 3]; 3],
    texture: u32,
}

const PAINTS: [[f32; 3]; 12] = [
    [0.62, 0.63, 0.64],
    [0.72, 0.72, 0.7],
    [0.025, 0.025, 0.03],
    [0.1, 0.105, 0.11],
    [0.28, 0.29, 0.3],
    [0.03, 0.06, 0.22],
    [0.33, 0.025, 0.025],
    [0.05, 0.16, 0.28],
    [0.04, 0.12, 0.06],
    [0.4, 0.32, 0.22],
    [0.62, 0.2, 0.03],
    [0.14, 0.09, 0.07],
];
const BUS_PAINTS: [[f32; 3]; 5] = [
    [0.65, 0.5, 0.05],
    [0.5, 0.03, 0.04],
    [0.05, 0.22, 0.42],
    [0.12, 0.35, 0.12],
    [0.7, 0.7, 0.68],
];
const CLOTHES: [[f32; 3]; 12] = [
    [0.03, 0.03, 0.04],
    [0.05, 0.07, 0.18],
    [0.3, 0.03, 0.04],
    [0.12, 0.12, 0.13],
    [0.55, 0.53, 0.5],
    [0.08, 0.2, 0.1],
    [0.5, 0.36, 0.06],
    [0.2, 0.12, 0.08],
    [0.36, 0.1, 0.22],
    [0.1, 0.28, 0.36],
    [0.6, 0.22, 0.05],
    [0.3, 0.28, 0.22],
];
const TROUSERS: [[f32; 3]; 6] = [
    [0.03, 0.03, 0.035],
    [0.05, 0.07, 0.14],
    [0.08, 0.08, 0.08],
    [0.2, 0.16, 0.1],
    [0.12, 0.14, 0.2],
    [0.3, 0.29, 0.27],
];
const SKINS: [[f32; 3]; 4] =
    [[0.55, 0.36, 0.27], [0.45, 0.27, 0.18], [0.25, 0.14, 0.09], [0.12, 0.07, 0.05]];
const HAIRS: [[f32; 3]; 5] = [
    [0.02, 0.015, 0.01],
    [0.08, 0.045, 0.02],
    [0.3, 0.2, 0.08],
    [0.3, 0.3, 0.3],
    [0.15, 0.05, 0.02],
];
const BLACK: [f32; 3] = [0.02, 0.02, 0.022];

impl Body {
    /// A random body of a class.
    pub(super) fn new(random: &mut Random, class: Class) -> Self {
        let mut range = |low, high| random.range(low, high);
        let size_m = match class {
            Class::Car => [range(3.8, 4.95), range(1.7, 1.95), range(1.42, 1.78)],
            Class::Truck => [range(5.6, 9.4), range(2.1, 2.5), range(2.5, 3.6)],
            Class::Bus => [range(10.0, 12.2), range(2.5, 2.6), range(2.9, 3.3)],
            Class::Bicycle => [range(1.65, 1.85), range(0.55, 0.66), range(1.62, 1.85)],
            Class::Pedestrian => {
                let is_child = range(0.0, 1.0) < 0.12;
                let height = if is_child { range(1.1, 1.4) } else { range(1.52, 1.95) };
                [0.42 * height, range(0.3, 0.34) * height, height]
            }
        };
        let texture = random.next() as u32;
        let colors = match class {
            Class::Car => [random.pick(&PAINTS); 3],
            Class::Truck => [random.pick(&PAINTS), random.pick(&PAINTS[..5]), BLACK],
            Class::Bus => [random.pick(&BUS_PAINTS); 3],
            Class::Bicycle | Class::Pedestrian => {
                [random.pick(&CLOTHES), random.pick(&TROUSERS), random.pick(&HAIRS)]
            }
        };
        Self { class, size_m, colors, texture }
    }

    /// Appends the solids in the actor's frame. `stride` is the phase of the
    /// legs in radians.
    pub(super) fn build(&self, stride: f64, solids: &mut Vec<Solid>) {
        let first = solids.len();
        match self.class {
            Class::Car => self.car(solids),
            Class::Truck => self.truck(solids),
            Class::Bus => self.bus(solids),
            Class::Bicycle => self.cyclist(stride, solids),
            Class::Pedestrian => self.pedestrian(stride, solids),
        }
        for (i, solid) in solids[first..].iter_mut().enumerate() {
            solid.texture = self.texture.wrapping_add(i as u32 * 0x9e37);
        }
    }

    fn car(&self, solids: &mut Vec<Solid>) {
        let [l, w, h] = self.size_m.map(|extent| 0.5 * extent);
        let paint = self.colors[0];
        let (sill, belt) = (0.2, 0.62 * 2.0 * h);
        let lower = Shape::Box { front: 0.05, back: 0.03, side: 0.05 };
        solids.push(Solid::new(
            lower,
            Material::CarBody,
            paint,
            [0.0, 0.0, 0.5 * (sill + belt)],
            [l, w, 0.5 * (belt - sill)],
        ));
        // The cabin of estates and small cars extends to the back.
        let hatch = self.texture & 1 == 0;
        let (back, front) = if hatch { (-0.97 * l, 0.42 * l) } else { (-0.68 * l, 0.44 * l) };
        let slope = if hatch { 0.16 } else { 0.34 };
        solids.push(Solid::new(
            Shape::Box { front: 0.5, back: slope, side: 0.18 },
            Material::CarCabin,
            paint,
            [0.5 * (front + back), 0.0, 0.5 * (belt + 2.0 * h)],
            [0.5 * (front - back), 0.94 * w, 0.5 * (2.0 * h - belt)],
        ));
        wheels(solids, &[0.62 * l, -0.6 * l], w, 0.32);
        for side in [-1.0, 1.0] {
            solids.push(Solid::new(
                Shape::CUBE,
                Material::Plastic,
                BLACK,
                [0.3 * l, side * (w - 0.06), belt + 0.05],
                [0.06, 0.06, 0.06],
            ));
        }
    }

    fn truck(&self, solids: &mut Vec<Solid>) {
        let [l, w, h] = self.size_m.map(|extent| 0.5 * extent);
        let [paint, load, _] = self.colors;
        let is_van = self.size_m[0] < 6.6;
        let cab = if is_van { 1.7 } else { 1.9 };
        let floor = if is_van { 0.35 } else { 0.95 };
        let cab_height = if is_van { 0.93 * 2.0 * h } else { (0.82 * 2.0 * h).min(2.75) };
        solids.push(Solid::new(
            Shape::Box { front: if is_van { 0.55 } else { 0.1 }, back: 0.0, side: 0.08 },
            Material::TruckCab,
            paint,
            [l - 0.5 * cab, 0.0, 0.5 * (0.4 + cab_height)],
            [0.5 * cab, 0.97 * w, 0.5 * (cab_height - 0.4)],
        ));
        let gap = if is_van { 0.0 } else { 0.15 };
        let (front, back) = (l - cab - gap, -l);
        let color = if is_van { paint } else { load };
        solids.push(Solid::new(
            Shape::Box { front: 0.0, back: 0.0, side: if is_van { 0.08 } else { 0.0 } },
            if is_van { Material::Metal } else { Material::Cargo },
            color,
            [0.5 * (front + back), 0.0, 0.5 * (floor + 2.0 * h)],
            [0.5 * (front - back), w, 0.5 * (2.0 * h - floor)],
        ));
        if !is_van {
            solids.push(Solid::new(
                Shape::CUBE,
                Material::Plastic,
                BLACK,
                [-0.1, 0.0, 0.72],
                [l - 0.3, 0.5 * w, 0.22],
            ));
        }
        let r = if is_van { 0.36 } else { 0.48 };
        wheels(solids, &[l - 0.95, -0.55 * l], 0.98 * w, r);
        if l > 3.9 {
            wheels(solids, &[-0.55 * l - 2.15 * r], 0.98 * w, r);
        }
        mirrors(solids, l - 0.25, w, 0.75 * cab_height);
    }

    fn bus(&self, solids: &mut Vec<Solid>) {
        let [l, w, h] = self.size_m.map(|extent| 0.5 * extent);
        solids.push(Solid::new(
            Shape::Box { front: 0.015, back: 0.01, side: 0.04 },
            Material::BusBody,
            self.colors[0],
            [0.0, 0.0, 0.5 * (0.3 + 2.0 * h)],
            [l, w, 0.5 * (2.0 * h - 0.3)],
        ));
        wheels(solids, &[l - 2.6, -l + 3.2], 0.99 * w, 0.48);
        mirrors(solids, l - 0.15, w, 0.72 * 2.0 * h);
    }

    fn cyclist(&self, stride: f64, solids: &mut Vec<Solid>) {
        let [l, w, h] = [0.5 * self.size_m[0], 0.5 * self.size_m[1], self.size_m[2]];
        let [jacket, trousers, frame] = self.colors;
        let r = 0.34;
        for x in [l - r, r - l] {
            let half = [r, r, 0.025];
            let wheel =
                Solid::new(Shape::Cylinder, Material::BicycleWheel, BLACK, [x, 0.0, r], half);
            solids.push(wheel.across());
        }
        let bar = |center, half| Solid::new(Shape::CUBE, Material::Metal, frame, center, half);
        solids.push(bar([0.05, 0.0, 0.78], [0.32, 0.025, 0.03]));
        solids.push(bar([-0.22, 0.0, 0.6], [0.025, 0.025, 0.3]).leaned(-0.25));
        solids.push(bar([0.14, 0.0, 0.55], [0.03, 0.025, 0.34]).leaned(0.9));
        solids.push(bar([0.42, 0.0, 0.68], [0.025, 0.025, 0.36]).leaned(-0.3));
        solids.push(bar([0.36, 0.0, 1.02], [0.03, w, 0.025]));
        let hip = 0.95;
        let (sin, _) = libm::sincos(stride);
        for side in [-1.0, 1.0] {
            let lift = side * 0.13 * sin;
            let center = [-0.06, side * 0.11, 0.66 + 0.3 * lift];
            let half = [0.075, 0.07, 0.3];
            let leg = Solid::new(Shape::CUBE, Material::Cloth, trousers, center, half);
            solids.push(leg.leaned(-0.45 + lift));
        }
        let (shoulder, lean) = (h - 0.3, 0.45);
        let torso = 0.5 * (shoulder - hip) + 0.1;
        let tapered = Shape::Box { front: 0.05, back: 0.1, side: 0.2 };
        let center = [-0.04, 0.0, 0.5 * (hip + shoulder)];
        let half = [0.13, 0.7 * w, torso];
        let torso = Solid::new(tapered, Material::Cloth, jacket, center, half);
        solids.push(torso.flipped().leaned(lean));
        for side in [-1.0, 1.0] {
            let center = [0.24, side * 0.78 * w, 0.5 * (shoulder + 1.05) - 0.02];
            let half = [0.055, 0.05, 0.5 * (shoulder - 0.9)];
            let arm = Solid::new(Shape::CUBE, Material::Cloth, jacket, center, half);
            solids.push(arm.leaned(-0.75));
        }
        head(solids, 0.2, h, SKINS[self.texture as usize % 4], [0.55, 0.1, 0.08]);
    }

    fn pedestrian(&self, stride: f64, solids: &mut Vec<Solid>) {
        let [l, w, h] = [0.5 * self.size_m[0], 0.5 * self.size_m[1], self.size_m[2]];
        let [jacket, trousers, hair] = self.colors;
        let (hip, shoulder) = (0.5 * h, 0.84 * h);
        let swing = if stride == 0.0 { 0.0 } else { 0.32 * libm::sin(stride) };
        for side in [-1.0, 1.0] {
            // The leg swings about the hip: its middle moves half as far as the foot.
            let slope = -side * swing;
            let center = [-0.5 * hip * slope * 0.9, side * 0.42 * w, 0.5 * hip];
            let half = [0.05 * h, 0.34 * w, 0.5 * hip * 0.98];
            let shape = Shape::Box { front: 0.2, back: 0.25, side: 0.15 };
            let leg = Solid::new(shape, Material::Cloth, trousers, center, half);
            solids.push(leg.flipped().leaned(slope));
            let slope = side * 0.8 * swing;
            let length = 0.19 * h;
            let center = [-0.9 * length * slope, side * 0.85 * w, shoulder - length];
            let half = [0.032 * h, 0.15 * w, length];
            let arm = Solid::new(Shape::CUBE, Material::Cloth, jacket, center, half);
            solids.push(arm.leaned(slope));
        }
        let torso = 0.5 * (shoulder - hip);
        let center = [0.0, 0.0, hip + torso];
        let shape = Shape::Box { front: 0.1, back: 0.1, side: 0.18 };
        let half = [0.075 * h, 0.72 * w, 1.08 * torso];
        solids.push(Solid::new(shape, Material::Cloth, jacket, center, half).flipped());
        if self.texture & 7 == 0 {
            let center = [-0.13 * h, 0.0, hip + 1.1 * torso];
            let half = [(l - 0.13 * h).min(0.08 * h), 0.5 * w, 0.7 * torso];
            solids.push(Solid::new(Shape::CUBE, Material::Cloth, trousers, center, half));
        }
        head(solids, 0.0, h, SKINS[(self.texture >> 4) as usize % 4], hair);
    }
}

/// A head with its top at `top`, and hair or a helmet.
fn head(solids: &mut Vec<Solid>, x: f64, top: f64, skin: [f32; 3], hair: [f32; 3]) {
    let r = (0.068 * top).min(0.12);
    let center = [x + 0.01, 0.0, top - 1.3 * r];
    let half = [r, 0.82 * r, 1.2 * r];
    solids.push(Solid::new(Shape::Ellipsoid, Material::Skin, skin, center, half));
    let center = [x - 0.02, 0.0, top - 0.95 * r];
    let half = [r, 0.92 * r, 0.95 * r];
    solids.push(Solid::new(Shape::Ellipsoid, Material::Hair, hair, center, half));
}

fn wheels(solids: &mut Vec<Solid>, along: &[f64], half_width: f64, r: f64) {
    for &x in along {
        for side in [-1.0, 1.0] {
            let (center, half) = ([x, side * (half_width - 0.11), r], [r, r, 0.11]);
            let wheel = Solid::new(Shape::Cylinder, Material::Wheel, BLACK, center, half);
            solids.push(wheel.across());
        }
    }
}

fn mirrors(solids: &mut Vec<Solid>, x: f64, half_width: f64, z: f64) {
    for side in [-1.0, 1.0] {
        let center = [x, side * (half_width - 0.05), z];
        let half = [0.05, 0.05, 0.16];
        solids.push(Solid::new(Shape::CUBE, Material::Plastic, BLACK, center, half));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Vector3;

    #[test]
    fn bodies_stay_in_their_boxes_and_fill_them() {
        let mut random = Random::new(&[1]);
        for class in Class::ALL {
            for _ in 0..40 {
                let body = Body::new(&mut random, class);
                let (mut low, mut high) =
                    (Vector3::repeat(f64::INFINITY), Vector3::repeat(f64::NEG_INFINITY));
                for step in 0..16 {
                    let mut solids = Vec::new();
                    body.build(0.01 + step as f64 * 0.4, &mut solids);
                    for solid in &solids {
                        for i in 0..8 {
                            let sign = |bit: usize| if i >> bit & 1 == 0 { -1.0 } else { 1.0 };
                            let corner = Vector3::new(sign(0), sign(1), sign(2));
                            let reach = match solid.shape {
                                Shape::Box { .. } => corner,
                                _ => continue,
                            };
                            let at = solid.center + solid.axes * reach.component_mul(&solid.half);
                            low = low.inf(&at);
                            high = high.sup(&at);
                        }
                        // Round solids reach their half extents along the axes of the frame.
                        if !matches!(solid.shape, Shape::Box { .. }) {
                            let reach = solid.axes.map(f64::abs) * solid.half;
                            low = low.inf(&(solid.center - reach));
                            high = high.sup(&(solid.center + reach));
                        }
                    }
                }
                let [l, w, h] = body.size_m;
                let slack = 0.08;
                assert!(
                    low.x > -0.5 * l - slack && high.x < 0.5 * l + slack,
                    "{class:?} {low} {high} {l}"
                );
                assert!(
                    low.y > -0.5 * w - slack && high.y < 0.5 * w + slack,
                    "{class:?} {low} {high} {w}"
                );
                assert!(low.z > -slack && high.z < h + slack, "{class:?} {low} {high} {h}");
                assert!(
                    high.x - low.x > 0.8 * l && high.y - low.y > 0.8 * w,
                    "{class:?} {low} {high} {l} {w}"
                );
                assert!(low.z < 0.1 && high.z > h - 0.05, "{class:?} {low} {high} {h}");
            }
        }
    }
}
