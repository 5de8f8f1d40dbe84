//! The actors and their motions.
//!
//! Every motion is a formula of time, so a frame needs no earlier ones. Moving
//! vehicles and cyclists follow slots on the road (see [`route`](super::route))
//! that all advance by the same, varying speed; each drifts a little about its
//! slot. Pedestrians walk up and down a stretch of pavement.

use nalgebra::{Vector2, Vector3};

use super::body::Body;
use super::class::Class;
use super::random::Random;
use super::route::{KERB_OFFSET_M, Route, SLOT_M, left_of};

/// Height of the pavement above the road.
pub(super) const PAVEMENT_HEIGHT_M: f64 = 0.12;
/// Distance from the centreline to the middle of a lane.
pub(super) const LANE_OFFSET_M: f64 = 1.75;
/// The same for trucks and buses.
const WIDE_OFFSET_M: f64 = 1.65;
/// Length of road within 60 m of the ego vehicle, for the density of actors.
const ROAD_NEARBY_M: f64 = 150.0;

/// The advance of the slots along the road.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotAdvance {
    mean_mps: f64,
    swing_mps: f64,
    turn_per_s: f64,
    phase: f64,
}

impl SlotAdvance {
    fn new(random: &mut Random) -> Self {
        Self {
            mean_mps: random.range(6.5, 8.5),
            swing_mps: random.range(1.5, 3.0),
            turn_per_s: random.range(0.25, 0.4),
            phase: random.range(0.0, std::f64::consts::TAU),
        }
    }

    /// Metres since time 0, and metres per second.
    fn at(&self, time_s: f64) -> [f64; 2] {
        let (sin, cos) = libm::sincos(self.turn_per_s * time_s + self.phase);
        let start = libm::cos(self.phase);
        let swing = self.swing_mps / self.turn_per_s;
        [self.mean_mps * time_s + swing * (start - cos), self.mean_mps + self.swing_mps * sin]
    }
}

/// The motion of an actor.
#[derive(Clone, Copy, Debug)]
enum Motion {
    /// Along the road, in the direction of increasing (1) or decreasing (-1) `s`.
    Stream { s: f64, direction: f64, offset: f64, drift_m: f64, drift_per_s: f64, phase: f64 },
    /// Up and down a stretch of pavement: a loop of half width `radius`.
    Stroll { s: f64, length: f64, offset: f64, radius: f64, speed_mps: f64, start: f64 },
    /// Stationary.
    Still { position: Vector3<f64>, heading: Vector2<f64> },
}

impl Motion {
    /// The same motion along the road at another position.
    fn at(self, s: f64, offset: f64) -> Self {
        match self {
            Self::Stream { direction, drift_m, drift_per_s, phase, .. } => {
                Self::Stream { s, direction, offset, drift_m, drift_per_s, phase }
            }
            other => other,
        }
    }
}

/// Position and motion of an actor at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// The middle of its base, in the map.
    pub(super) position: Vector3<f64>,
    /// Unit vector of its heading.
    pub(super) heading: Vector2<f64>,
    /// Metres per second in the map.
    pub(super) velocity: Vector2<f64>,
    /// Radians per second, counter-clockwise.
    pub(super) yaw_rate: f64,
}

/// An actor.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    /// Its number; 0 is the ego vehicle.
    pub(super) track_id: u32,
    /// Its shape.
    pub(super) body: Body,
    motion: Motion,
}

impl Actor {
    /// Phase of the legs at `time_s`, in radians.
    pub(super) fn stride(&self, time_s: f64) -> f64 {
        match self.motion {
            Motion::Stroll { speed_mps, start, .. } => {
                (start + speed_mps * time_s) * std::f64::consts::TAU / 1.4
            }
            Motion::Stream { phase, .. } => phase + time_s * 7.0,
            Motion::Still { .. } => 0.0,
        }
    }
}

/// The ego vehicle and all actors.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    slots: SlotAdvance,
    ego: Motion,
    /// In the order of their numbers, which start at 1.
    pub(super) actors: Vec<Actor>,
}

impl Traffic {
    /// Random traffic, `num_nearby` actors within 60 m of the ego vehicle on
    /// average.
    pub(super) fn new(random: &mut Random, route: &Route, num_nearby: u32) -> Self {
        let slots = SlotAdvance::new(random);
        let curves: Vec<f64> = route.curves().collect();
        let ego_s = random.pick(&curves) - random.range(50.0, 95.0);
        let stream = |random: &mut Random, s, direction, offset, most_drift_m| {
            let drift_m = random.range(0.2, most_drift_m);
            let drift_per_s = random.range(0.3, 0.9);
            let phase = random.range(0.0, std::f64::consts::TAU);
            Motion::Stream { s, direction, offset, drift_m, drift_per_s, phase }
        };
        let ego = stream(random, ego_s, 1.0, -LANE_OFFSET_M, 1.0);
        let mut traffic = Self { slots, ego, actors: Vec::new() };
        let density = f64::from(num_nearby) / ROAD_NEARBY_M;

        let num_slots = (route.length() / SLOT_M).round() as usize;
        let mut deck = Vec::new();
        for direction in [1.0, -1.0] {
            for slot in 0..num_slots {
                if direction > 0.0 && slot == 0 {
                    continue;
                }
                let s = direction * (ego_s + slot as f64 * SLOT_M);
                let what = draw(random, &mut deck);
                // At the default density all slots are occupied.
                if !random.chance(density / 0.3) {
                    continue;
                }
                // Wide vehicles keep away from parked ones; long ones stay near the middle
                // of their slots.
                let (offset, most_drift_m) = match what {
                    Class::Bus => (WIDE_OFFSET_M, 0.3),
                    Class::Truck => (WIDE_OFFSET_M, 1.0),
                    _ => (LANE_OFFSET_M, 1.2),
                };
                let lead = stream(random, s, direction, -offset * direction, most_drift_m);
                let riders: &[f64] = match what {
                    Class::Bicycle => &[0.0, 4.0, -4.0][..1 + random.below(3)],
                    Class::Car if random.chance(0.5) => &[6.0],
                    _ => &[],
                };
                if what != Class::Bicycle {
                    traffic.push(random, what, lead);
                }
                for behind in riders {
                    let s = s - direction * (behind + random.range(-0.5, 0.5));
                    let offset = -random.range(2.1, 2.65) * direction;
                    traffic.push(random, Class::Bicycle, lead.at(s, offset));
                }
            }
        }
        traffic.park(random, route, density);
        traffic.stroll(random, route, density);
        traffic
    }

    fn push(&mut self, random: &mut Random, class: Class, motion: Motion) {
        let track_id = self.actors.len() as u32 + 1;
        self.actors.push(Actor { track_id, body: Body::new(random, class), motion });
    }

    /// Adds parked vehicles at the kerbs, away from curves and the crossing.
    fn park(&mut self, random: &mut Random, route: &Route, density: f64) {
        for side in [-1.0, 1.0] {
            let mut s = 0.0;
            while s < route.length() - 10.0 {
                let class = match random.unit() {
                    x if x < 0.74 => Class::Car,
                    x if x < 0.91 => Class::Truck,
                    _ => Class::Bus,
                };
                let body = Body::new(random, class);
                let half = 0.5 * body.size_m[0];
                let s_middle = s + half + 0.5;
                // Buses swing out behind a curve.
                let is_free = [-half - 9.0, 0.0, half + 9.0].iter().all(|along| {
                    let s = s_middle + along;
                    route.is_straight(s) && route.distance_to_crossing(s) > 18.0
                });
                if is_free && random.chance((density / 0.32) * 0.65) {
                    let point = route.at(s_middle);
                    // Long vehicles park close and parallel to the kerb.
                    let care = (4.5 / body.size_m[0]).min(1.0);
                    let from_kerb = 0.04 + 0.11 * care * care;
                    let offset = side * (KERB_OFFSET_M - from_kerb - 0.5 * body.size_m[1]);
                    let position = point.at_offset(offset + care * random.range(-0.08, 0.08));
                    let heading = point.tangent * if random.chance(0.93) { -side } else { side };
                    let skew = care * care * care * random.range(-0.03, 0.03);
                    let heading = (heading + left_of(heading) * skew).normalize();
                    let position = Vector3::new(position.x, position.y, 0.0);
                    let motion = Motion::Still { position, heading };
                    let track_id = self.actors.len() as u32 + 1;
                    self.actors.push(Actor { track_id, body, motion });
                }
                s += 2.0 * half + random.range(0.9, 2.5);
            }
        }
    }

    /// Adds pedestrians in groups of one to three; some of them stand.
    fn stroll(&mut self, random: &mut Random, route: &Route, density: f64) {
        // The road holds a limited number of vehicles: beyond it pedestrians are added.
        let many = (density - 0.32).max(0.0);
        let num_groups = ((density * 0.42 + many * 0.55) * route.length()).round() as usize;
        for _ in 0..num_groups {
            let s = random.range(0.0, route.length());
            let side = random.sign();
            let length = random.range(12.0, 45.0);
            let to_crossing = |along: f64| route.distance_to_crossing(s + along);
            if to_crossing(0.0) < 13.0
                || to_crossing(length) < 13.0
                || to_crossing(0.5 * length) < 13.0
            {
                continue;
            }
            let size = match random.unit() {
                x if x < 0.62 => 1,
                x if x < 0.9 => 2,
                _ => 3,
            };
            let stands = random.chance(0.2);
            let speed_mps =
                random.sign() * if random.chance(0.06) { 2.8 } else { random.range(0.8, 1.7) };
            let start = random.range(0.0, 2.0 * length);
            let (middle, radius) = (side * random.range(7.2, 7.8), random.range(0.5, 0.75));
            for member in 0..size {
                let aside = 0.75 * member as f64;
                if stands {
                    let offset = middle + aside - 0.4;
                    let along = s + random.range(-0.4, 0.4) + 0.3 * aside;
                    let point = route.at(along).at_offset(offset);
                    let yaw = random.range(0.0, std::f64::consts::TAU);
                    let (sin, cos) = libm::sincos(yaw);
                    let position = Vector3::new(point.x, point.y, PAVEMENT_HEIGHT_M);
                    let heading = Vector2::new(cos, sin);
                    self.push(random, Class::Pedestrian, Motion::Still { position, heading });
                } else {
                    let start = start + random.range(-0.2, 0.2) + 1.1 * member as f64;
                    let motion =
                        Motion::Stroll { s, length, offset: middle, radius, speed_mps, start };
                    self.push(random, Class::Pedestrian, motion);
                }
            }
        }
    }

    /// The state of the ego vehicle: of the middle of its rear axle, on the road.
    pub(super) fn ego(&self, route: &Route, time_s: f64) -> State {
        self.state(route, &self.ego, time_s)
    }

    /// The state of an actor at a time.
    pub(super) fn actor(&self, route: &Route, actor: &Actor, time_s: f64) -> State {
        self.state(route, &actor.motion, time_s)
    }

    fn state(&self, route: &Route, motion: &Motion, time_s: f64) -> State {
        match *motion {
            Motion::Still { position, heading } => {
                State { position, heading, velocity: Vector2::zeros(), yaw_rate: 0.0 }
            }
            Motion::Stream { s, direction, offset, drift_m, drift_per_s, phase } => {
                let [driven, speed] = self.slots.at(time_s);
                let (sin, cos) = libm::sincos(drift_per_s * time_s + phase);
                let s = s + direction * (driven + drift_m * sin);
                let rate = direction * (speed + drift_m * drift_per_s * cos);
                let point = route.at(s);
                let position = point.at_offset(offset);
                State {
                    position: Vector3::new(position.x, position.y, 0.0),
                    heading: point.tangent * direction,
                    velocity: point.tangent * (rate * (1.0 - point.curvature * offset)),
                    yaw_rate: rate * point.curvature,
                }
            }
            Motion::Stroll { s, length, offset, radius, speed_mps, start } => {
                let [along, aside, along_rate, aside_rate, turn] =
                    loop_at(length, radius, start + speed_mps.abs() * time_s);
                let way = speed_mps.signum();
                let point = route.at(s + along);
                let offset = offset + aside * way;
                let position = point.at_offset(offset);
                let velocity = (point.tangent * along_rate * (1.0 - point.curvature * offset)
                    + point.left() * (aside_rate * way))
                    * speed_mps.abs();
                let heading = velocity / velocity.norm();
                // The rotation of (a, b) in the axes of the road, and that of the axes.
                let narrowing = 1.0 - point.curvature * offset;
                let (a, b) = (along_rate * narrowing, aside_rate * way);
                let a_rate = -aside_rate * turn * narrowing
                    - along_rate * point.curvature * aside_rate * way;
                let b_rate = along_rate * turn * way;
                let own_turn = (a * b_rate - b * a_rate) / (a * a + b * b);
                let yaw_rate = speed_mps.abs() * (own_turn + along_rate * point.curvature);
                State {
                    position: Vector3::new(position.x, position.y, PAVEMENT_HEIGHT_M),
                    heading,
                    velocity,
                    yaw_rate,
                }
            }
        }
    }
}

/// The position after `distance` metres on a loop of two straights of `length` and
/// two half circles: along, aside, their derivatives, and the curvature.
fn loop_at(length: f64, radius: f64, distance: f64) -> [f64; 5] {
    let bend = std::f64::consts::PI * radius;
    let round = 2.0 * (length + bend);
    let d = distance - (distance / round).floor() * round;
    let half = 0.5 * round;
    let (d, sign) = if d < half { (d, 1.0) } else { (d - half, -1.0) };
    let from = if sign > 0.0 { 0.0 } else { length };
    if d < length {
        [from + sign * d, -sign * radius, sign, 0.0, 0.0]
    } else {
        let (sin, cos) = libm::sincos((d - length) / radius);
        let end = from + sign * length;
        [end + sign * radius * sin, -sign * radius * cos, sign * cos, sign * sin, 1.0 / radius]
    }
}

/// Draws from a shuffled deck, so that every class recurs.
fn draw(random: &mut Random, deck: &mut Vec<Class>) -> Class {
    use Class::{Bicycle, Bus, Car, Truck};
    if deck.is_empty() {
        deck.extend([Car, Car, Car, Truck, Bus, Bicycle, Bicycle]);
        random.shuffle(deck);
    }
    deck.pop().unwrap_or(Class::Car)
}
