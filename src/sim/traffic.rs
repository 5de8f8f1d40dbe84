//! Who is on the road, and where at any time.
//!
//! Every motion is a formula of time, so any frame can be made without those
//! before it. Vehicles and cyclists that move keep to their slots on the road
//! (see [`route`](super::route)) and follow one common clock of distance, which
//! speeds up and slows down; each drifts a little about its slot. Pedestrians
//! walk up and down a stretch of pavement.

use nalgebra::{Vector2, Vector3};

use super::body::Body;
use super::class::Class;
use super::random::Random;
use super::route::{KERB_OFFSET_M, Route, SLOT_M, left_of};

/// Height of the pavement above the road.
pub(super) const PAVEMENT_HEIGHT_M: f64 = 0.12;
/// From the centreline to the middle of a lane.
pub(super) const LANE_OFFSET_M: f64 = 1.75;
/// The same for lorries and buses.
const WIDE_OFFSET_M: f64 = 1.65;
/// Road within 60 m of the ego vehicle, for the number of actors.
const ROAD_NEARBY_M: f64 = 150.0;

/// The common clock: metres driven by whoever keeps to their slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    mean_mps: f64,
    swing_mps: f64,
    turn_per_s: f64,
    phase: f64,
}

impl Clock {
    fn new(random: &mut Random) -> Self {
        Self {
            mean_mps: random.range(6.5, 8.5),
            swing_mps: random.range(1.5, 3.0),
            turn_per_s: random.range(0.25, 0.4),
            phase: random.range(0.0, std::f64::consts::TAU),
        }
    }

    /// Metres driven since time 0, and metres per second.
    fn at(&self, time_s: f64) -> [f64; 2] {
        let (sin, cos) = libm::sincos(self.turn_per_s * time_s + self.phase);
        let start = libm::cos(self.phase);
        let swing = self.swing_mps / self.turn_per_s;
        [self.mean_mps * time_s + swing * (start - cos), self.mean_mps + self.swing_mps * sin]
    }
}

/// How an actor moves.
#[derive(Clone, Copy, Debug)]
enum Motion {
    /// Along the road, `direction` 1 with `s` or -1 against it.
    Stream { s: f64, direction: f64, offset: f64, drift_m: f64, drift_per_s: f64, phase: f64 },
    /// Up and down a stretch of pavement: a long loop of half width `radius`.
    Stroll { s: f64, length: f64, offset: f64, radius: f64, speed_mps: f64, start: f64 },
    /// Not at all.
    Still { position: Vector3<f64>, heading: Vector2<f64> },
}

impl Motion {
    /// Along the road with another, at a place of its own.
    fn at(self, s: f64, offset: f64) -> Self {
        match self {
            Self::Stream { direction, drift_m, drift_per_s, phase, .. } => {
                Self::Stream { s, direction, offset, drift_m, drift_per_s, phase }
            }
            other => other,
        }
    }
}

/// Where an actor is, and how it moves there.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// The middle of its base, in the map.
    pub(super) position: Vector3<f64>,
    /// Unit vector of its heading.
    pub(super) heading: Vector2<f64>,
    /// Metres per second in the map.
    pub(super) velocity: Vector2<f64>,
    /// Radians per second to the left.
    pub(super) yaw_rate: f64,
}

/// Somebody or something on the road.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    /// Its number; 0 is the ego vehicle.
    pub(super) track_id: u32,
    /// Its shape.
    pub(super) body: Body,
    motion: Motion,
}

impl Actor {
    /// How fast its legs go, in radians of a stride at `time_s`.
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
    clock: Clock,
    ego: Motion,
    /// In the order of their numbers, which start at 1.
    pub(super) actors: Vec<Actor>,
}

impl Traffic {
    /// Random traffic, `num_nearby` actors within 60 m of the ego vehicle on
    /// average.
    pub(super) fn new(random: &mut Random, route: &Route, num_nearby: u32) -> Self {
        let clock = Clock::new(random);
        let curves: Vec<f64> = route.curves().collect();
        let ego_s = random.pick(&curves) - random.range(50.0, 95.0);
        let stream = |random: &mut Random, s, direction, offset, most_drift_m| {
            let drift_m = random.range(0.2, most_drift_m);
            let drift_per_s = random.range(0.3, 0.9);
            let phase = random.range(0.0, std::f64::consts::TAU);
            Motion::Stream { s, direction, offset, drift_m, drift_per_s, phase }
        };
        let ego = stream(random, ego_s, 1.0, -LANE_OFFSET_M, 1.0);
        let mut traffic = Self { clock, ego, actors: Vec::new() };
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
                // At the usual density all slots are taken.
                if !random.chance(density / 0.3) {
                    continue;
                }
                // Wide vehicles keep clear of those that park, long ones to the
                // middle of their slot.
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

    /// Vehicles at the kerbs, away from curves and from the crossing.
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
                // A bus that leaves a curve still swings out.
                let is_free = [-half - 9.0, 0.0, half + 9.0].iter().all(|along| {
                    let s = s_middle + along;
                    route.is_straight(s) && route.distance_to_crossing(s) > 18.0
                });
                if is_free && random.chance((density / 0.32) * 0.65) {
                    let place = route.at(s_middle);
                    // Long vehicles stand close to the kerb and straight.
                    let care = (4.5 / body.size_m[0]).min(1.0);
                    let from_kerb = 0.04 + 0.11 * care * care;
                    let offset = side * (KERB_OFFSET_M - from_kerb - 0.5 * body.size_m[1]);
                    let position = place.beside(offset + care * random.range(-0.08, 0.08));
                    let heading = place.tangent * if random.chance(0.93) { -side } else { side };
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

    /// Pedestrians, by themselves or two or three together; a few stand.
    fn stroll(&mut self, random: &mut Random, route: &Route, density: f64) {
        // Of many actors most are on foot: the road is full.
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
                    let place = route.at(along).beside(offset);
                    let yaw = random.range(0.0, std::f64::consts::TAU);
                    let (sin, cos) = libm::sincos(yaw);
                    let position = Vector3::new(place.x, place.y, PAVEMENT_HEIGHT_M);
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

    /// The ego vehicle: the middle of its rear axle on the road.
    pub(super) fn ego(&self, route: &Route, time_s: f64) -> State {
        self.state(route, &self.ego, time_s)
    }

    /// An actor at a time.
    pub(super) fn actor(&self, route: &Route, actor: &Actor, time_s: f64) -> State {
        self.state(route, &actor.motion, time_s)
    }

    fn state(&self, route: &Route, motion: &Motion, time_s: f64) -> State {
        match *motion {
            Motion::Still { position, heading } => {
                State { position, heading, velocity: Vector2::zeros(), yaw_rate: 0.0 }
            }
            Motion::Stream { s, direction, offset, drift_m, drift_per_s, phase } => {
                let [driven, speed] = self.clock.at(time_s);
                let (sin, cos) = libm::sincos(drift_per_s * time_s + phase);
                let s = s + direction * (driven + drift_m * sin);
                let rate = direction * (speed + drift_m * drift_per_s * cos);
                let place = route.at(s);
                let position = place.beside(offset);
                State {
                    position: Vector3::new(position.x, position.y, 0.0),
                    heading: place.tangent * direction,
                    velocity: place.tangent * (rate * (1.0 - place.curvature * offset)),
                    yaw_rate: rate * place.curvature,
                }
            }
            Motion::Stroll { s, length, offset, radius, speed_mps, start } => {
                let [along, aside, along_rate, aside_rate, turn] =
                    loop_at(length, radius, start + speed_mps.abs() * time_s);
                let way = speed_mps.signum();
                let place = route.at(s + along);
                let offset = offset + aside * way;
                let position = place.beside(offset);
                let velocity = (place.tangent * along_rate * (1.0 - place.curvature * offset)
                    + place.left() * (aside_rate * way))
                    * speed_mps.abs();
                let heading = velocity / velocity.norm();
                // The turn of (a, b) in the axes of the road, and the road's own.
                let narrowing = 1.0 - place.curvature * offset;
                let (a, b) = (along_rate * narrowing, aside_rate * way);
                let a_rate = -aside_rate * turn * narrowing
                    - along_rate * place.curvature * aside_rate * way;
                let b_rate = along_rate * turn * way;
                let own_turn = (a * b_rate - b * a_rate) / (a * a + b * b);
                let yaw_rate = speed_mps.abs() * (own_turn + along_rate * place.curvature);
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

/// A loop of two straights of `length` and two half circles, walked `distance`
/// metres: along, aside, their rates per metre, and the turn per metre.
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

/// Deals from a shuffled deck, so that no class stays away for long.
fn draw(random: &mut Random, deck: &mut Vec<Class>) -> Class {
    use Class::{Bicycle, Bus, Car, Truck};
    if deck.is_empty() {
        deck.extend([Car, Car, Car, Truck, Bus, Bicycle, Bicycle]);
        random.shuffle(deck);
    }
    deck.pop().unwrap_or(Class::Car)
}
