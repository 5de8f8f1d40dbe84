//! Static objects along the road: houses, trees, hedges, street lamps and signs.

use nalgebra::{Vector2, Vector3};

use super::material::Material;
use super::random::Random;
use super::route::{KERB_OFFSET_M, PAVEMENT_OFFSET_M, Route, left_of};
use super::solid::{Shape, Solid};
use super::traffic::PAVEMENT_HEIGHT_M;

/// Minimum distance of houses from the centreline.
const HOUSE_OFFSET_M: f64 = 11.6;

const WALLS: [[f32; 3]; 10] = [
    [0.36, 0.17, 0.11],
    [0.3, 0.14, 0.1],
    [0.6, 0.55, 0.44],
    [0.55, 0.42, 0.26],
    [0.62, 0.6, 0.56],
    [0.42, 0.4, 0.37],
    [0.5, 0.33, 0.23],
    [0.42, 0.24, 0.16],
    [0.56, 0.5, 0.36],
    [0.46, 0.5, 0.48],
];
const ROOFS: [[f32; 3]; 4] =
    [[0.24, 0.08, 0.05], [0.1, 0.09, 0.09], [0.17, 0.1, 0.07], [0.07, 0.08, 0.09]];
const LEAVES: [[f32; 3]; 5] = [
    [0.1, 0.2, 0.04],
    [0.13, 0.22, 0.05],
    [0.07, 0.16, 0.05],
    [0.2, 0.21, 0.05],
    [0.09, 0.17, 0.07],
];
const TRUNK: [f32; 3] = [0.13, 0.09, 0.06];
const STEEL: [f32; 3] = [0.16, 0.18, 0.18];

/// A rectangle on the ground: middle, unit vector of the length, half extents.
#[derive(Clone, Copy, Debug)]
struct Plot {
    middle: Vector2<f64>,
    along: Vector2<f64>,
    half: [f64; 2],
}

impl Plot {
    fn corner_points(&self) -> [Vector2<f64>; 4] {
        let (u, v) = (self.along * self.half[0], left_of(self.along) * self.half[1]);
        [u + v, u - v, -u - v, -u + v].map(|reach| self.middle + reach)
    }

    /// Whether the two are disjoint, by the separating axis theorem.
    fn is_apart_from(&self, other: &Self) -> bool {
        let separates = |axis: Vector2<f64>| {
            let span = |plot: &Self| {
                let at = plot.corner_points().map(|corner| corner.dot(&axis));
                at.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &x| {
                    [low.min(x), high.max(x)]
                })
            };
            let ([a_low, a_high], [b_low, b_high]) = (span(self), span(other));
            a_high < b_low || b_high < a_low
        };
        [self, other].iter().any(|plot| separates(plot.along) || separates(left_of(plot.along)))
    }
}

/// All static objects along a road, in the map.
pub(super) fn build(random: &mut Random, route: &Route) -> Vec<Solid> {
    let mut town = Town { route, solids: Vec::new(), plots: Vec::new() };
    town.houses(random);
    town.greenery(random);
    town.lamps(random);
    town.signs(random);
    town.solids
}

struct Town<'a> {
    route: &'a Route,
    solids: Vec<Solid>,
    plots: Vec<Plot>,
}

impl Town<'_> {
    fn is_clear(&self, plot: &Plot, offset: f64) -> bool {
        let corners = plot.corner_points();
        (0..4).all(|i| {
            let (a, b) = (corners[i], corners[(i + 1) % 4]);
            (0..6).all(|k| self.route.distance(a + (b - a) * (k as f64 / 6.0)) > offset)
        })
    }

    fn houses(&mut self, random: &mut Random) {
        for side in [-1.0, 1.0] {
            let mut s = random.range(0.0, 8.0);
            while s < self.route.length() {
                let (width, depth) = (random.range(9.0, 19.0), random.range(9.0, 12.0));
                let setback = if random.chance(0.5) { 0.3 } else { random.range(0.5, 4.0) };
                let point = self.route.at(s + 0.5 * width);
                let offset = HOUSE_OFFSET_M + setback + 0.5 * depth;
                let plot = Plot {
                    middle: point.at_offset(side * offset),
                    along: point.tangent,
                    half: [0.5 * width, 0.5 * depth],
                };
                let is_free = self.is_clear(&plot, HOUSE_OFFSET_M)
                    && self.plots.iter().all(|other| plot.is_apart_from(other));
                if is_free && random.chance(0.9) {
                    self.house(random, &plot);
                    self.plots.push(plot);
                    let gap = if random.chance(0.55) { 0.1 } else { random.range(2.0, 9.0) };
                    s += width + gap;
                } else {
                    s += 3.0;
                }
            }
        }
    }

    fn house(&mut self, random: &mut Random, plot: &Plot) {
        let half_height = 0.5 * (3.0 * (2 + random.below(3)) as f64 + random.range(0.6, 1.0));
        let texture = random.next() as u32;
        let place = |solid: Solid, z: f64| {
            let origin = Vector3::new(plot.middle.x, plot.middle.y, PAVEMENT_HEIGHT_M + z);
            solid.placed(&origin, [plot.along.x, plot.along.y]).textured(texture)
        };
        let [length, depth] = plot.half;
        let wall = Solid::new(
            Shape::CUBE,
            Material::Facade,
            random.pick(&WALLS),
            [0.0; 3],
            [length, depth, half_height],
        );
        self.solids.push(place(wall, half_height));
        let color = random.pick(&ROOFS);
        let (taper, rise) = match random.unit() {
            x if x < 0.5 => (Shape::Box { front: 0.0, back: 0.0, side: 0.98 }, 1.7),
            x if x < 0.75 => (Shape::Box { front: 0.3, back: 0.3, side: 0.75 }, 1.4),
            _ => (Shape::CUBE, 0.15),
        };
        let half = [length + 0.25, depth + 0.25, rise];
        let roof = Solid::new(taper, Material::Roof, color, [0.0; 3], half);
        self.solids.push(place(roof, 2.0 * half_height + rise));
        if rise > 1.0 {
            let x = random.range(-0.7, 0.7) * length;
            let (center, half) = ([x, 0.2 * depth, 0.0], [0.35, 0.3, 1.2]);
            let color = random.pick(&WALLS[..2]);
            let chimney = Solid::new(Shape::CUBE, Material::Stone, color, center, half);
            self.solids.push(place(chimney, 2.0 * half_height + 2.0 * rise - 0.2));
        }
    }

    fn greenery(&mut self, random: &mut Random) {
        for side in [-1.0, 1.0] {
            let mut s = random.range(0.0, 10.0);
            while s < self.route.length() {
                let offset = side * random.range(9.9, 10.7);
                let at = self.route.at(s).at_offset(offset);
                if random.chance(0.75) && self.is_on_grass(at, 0.6) {
                    self.tree(random, at);
                }
                s += random.range(9.0, 20.0);
            }
            let mut s = random.range(0.0, 10.0);
            while s < self.route.length() {
                let length = random.range(4.0, 13.0);
                let point = self.route.at(s + 0.5 * length);
                let plot = Plot {
                    middle: point.at_offset(side * 9.65),
                    along: point.tangent,
                    half: [0.5 * length, 0.35],
                };
                if random.chance(0.45) && self.is_clear(&plot, PAVEMENT_OFFSET_M) {
                    self.hedge(random, &plot);
                }
                s += length + random.range(1.2, 8.0);
            }
        }
        // Gardens behind the houses.
        let [low, high] = self.route.bounds();
        for _ in 0..260 {
            let at = Vector2::new(
                random.range(low.x - 30.0, high.x + 30.0),
                random.range(low.y - 30.0, high.y + 30.0),
            );
            if self.is_on_grass(at, 3.0) && self.route.distance(at) > 14.0 {
                self.tree(random, at);
            }
        }
    }

    fn is_on_grass(&self, at: Vector2<f64>, half_m: f64) -> bool {
        let plot_of_object = Plot { middle: at, along: Vector2::x(), half: [half_m, half_m] };
        self.route.distance(at) > PAVEMENT_OFFSET_M + 0.4
            && self.plots.iter().all(|plot| plot.is_apart_from(&plot_of_object))
    }

    fn tree(&mut self, random: &mut Random, at: Vector2<f64>) {
        let height = random.range(4.5, 9.5);
        let trunk = random.range(0.12, 0.24);
        let bare = random.range(2.1, 2.8);
        let (color, texture) = (random.pick(&LEAVES), random.next() as u32);
        let base = Vector3::new(at.x, at.y, PAVEMENT_HEIGHT_M);
        let stem = 0.5 * (bare + 0.4 * (height - bare));
        let half = [trunk, trunk, stem];
        let solid = Solid::new(Shape::Cylinder, Material::Bark, TRUNK, [0.0, 0.0, stem], half);
        self.solids.push(solid.placed(&base, [1.0, 0.0]).textured(texture));
        let reach = random.range(0.3, 0.42) * (height - bare) + 0.3;
        let crown = 0.5 * (height - bare);
        for i in 0..6_u32 {
            // One in the middle, one on top, four around.
            let (sin, cos) = libm::sincos(f64::from(i) * 1.57 + random.range(-0.5, 0.5));
            let aside = if i < 2 { 0.1 } else { random.range(0.45, 0.65) } * reach;
            let level = match i {
                0 => 1.0,
                1 => 1.45,
                _ => random.range(0.6, 1.15),
            };
            let size = if i == 0 { 0.85 } else { random.range(0.5, 0.66) };
            let center = [aside * cos, aside * sin, bare + crown * level];
            let half = [reach * size, reach * size, crown * size * 0.95];
            let tint = random.range(0.8, 1.2) as f32;
            let tint = color.map(|value| value * tint);
            let part = Solid::new(Shape::Ellipsoid, Material::Leaves, tint, center, half);
            self.solids.push(part.placed(&base, [1.0, 0.0]).textured(texture.wrapping_add(i)));
        }
    }

    fn hedge(&mut self, random: &mut Random, plot: &Plot) {
        let height = random.range(0.8, 1.7);
        let solid = Solid::new(
            Shape::Box { front: 0.02, back: 0.02, side: 0.15 },
            Material::Hedge,
            random.pick(&LEAVES),
            [0.0, 0.0, 0.5 * height],
            [plot.half[0], plot.half[1], 0.5 * height],
        );
        let base = Vector3::new(plot.middle.x, plot.middle.y, PAVEMENT_HEIGHT_M);
        let texture = random.next() as u32;
        self.solids.push(solid.placed(&base, [plot.along.x, plot.along.y]).textured(texture));
    }

    fn lamps(&mut self, random: &mut Random) {
        let (mut s, mut side) = (random.range(0.0, 20.0), 1.0);
        while s < self.route.length() {
            if self.route.distance_to_crossing(s) > 11.0 {
                let point = self.route.at(s);
                let at = point.at_offset(side * (KERB_OFFSET_M + 0.35));
                let inward = point.left() * -side;
                self.mast(at, inward, 6.5);
                let arm = |x: f64, half: [f64; 3]| {
                    Solid::new(Shape::CUBE, Material::Metal, STEEL, [x, 0.0, 6.5], half)
                };
                let base = Vector3::new(at.x, at.y, PAVEMENT_HEIGHT_M);
                for part in [arm(0.75, [0.75, 0.035, 0.035]), arm(1.6, [0.35, 0.12, 0.06])] {
                    self.solids.push(part.placed(&base, [inward.x, inward.y]));
                }
            }
            side = -side;
            s += random.range(19.0, 27.0);
        }
    }

    fn mast(&mut self, at: Vector2<f64>, along: Vector2<f64>, height: f64) {
        let (center, half) = ([0.0, 0.0, 0.5 * height], [0.065, 0.065, 0.5 * height]);
        let base = Vector3::new(at.x, at.y, PAVEMENT_HEIGHT_M);
        let mast = Solid::new(Shape::Cylinder, Material::Metal, STEEL, center, half);
        self.solids.push(mast.placed(&base, [along.x, along.y]));
    }

    fn signs(&mut self, random: &mut Random) {
        // On every arm of the crossing, and at random positions.
        let mut positions: Vec<(f64, f64)> = Vec::new();
        for s in [0.0, self.route.second_pass()] {
            positions.extend([(s - 10.5, 1.0), (s + 10.5, -1.0)]);
        }
        for _ in 0..10 {
            positions.push((random.range(0.0, self.route.length()), random.sign()));
        }
        for (s, direction) in positions {
            let point = self.route.at(s);
            let at = point.at_offset(-direction * (KERB_OFFSET_M + 0.5));
            if self.route.distance(at) < KERB_OFFSET_M + 0.3 {
                continue;
            }
            let facing = point.tangent * -direction;
            self.mast(at, facing, 2.6);
            let disc = Solid::new(
                Shape::CUBE,
                Material::Sign,
                random.pick(&[[0.5, 0.02, 0.02], [0.02, 0.08, 0.4], [0.6, 0.4, 0.02]]),
                [0.08, 0.0, 2.35],
                [0.015, 0.32, 0.32],
            );
            let base = Vector3::new(at.x, at.y, PAVEMENT_HEIGHT_M);
            self.solids.push(disc.placed(&base, [facing.x, facing.y]));
        }
    }
}
