//! The drive: its parts, and the poses of the ego vehicle and of the actors.

use super::cast::Beams;
use super::class::Class;
use super::ground::Ground;
use super::light::Light;
use super::random::Random;
use super::rig::{Options, Rig, START};
use super::route::Route;
use super::shadow::ShadowMap;
use super::solid::Solid;
use super::town;
use super::traffic::{Actor, Traffic};
use det_post_types::{Box3d, Result, Stamp};

/// Cell size of the shadow map of static objects.
const TOWN_SHADOW_CELL_M: f64 = 0.3;

/// The streams of random numbers.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Route,
    Town,
    Traffic,
    Light,
    Lidar,
    Camera,
}

/// A drive: a town, its traffic, and an ego vehicle with sensors.
///
/// Time 0 is [`START`]. The road is closed, so the drive has no end.
#[derive(Clone, Debug)]
pub struct Drive {
    pub(super) seed: u64,
    pub(super) rig: Rig,
    pub(super) num_threads: usize,
    pub(super) route: Route,
    pub(super) ground: Ground,
    pub(super) town: Vec<Solid>,
    pub(super) traffic: Traffic,
    pub(super) light: Light,
    /// Of static objects.
    pub(super) shadows: ShadowMap,
    pub(super) beams: Beams,
}

/// Position, heading and velocity in the map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// x, y, z in metres.
    pub position_m: [f64; 3],
    /// Heading, counter-clockwise from +x.
    pub yaw_rad: f64,
    /// Metres per second along x and y.
    pub velocity_mps: [f64; 2],
}

/// An actor in the map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    /// Its number, constant over time and never 0.
    pub track_id: u32,
    /// Its class.
    pub class: Class,
    /// Its box.
    pub bbox: Box3d,
    /// Metres per second along x and y.
    pub velocity_mps: [f32; 2],
}

impl Drive {
    /// The drive with this seed.
    ///
    /// # Errors
    /// `Usage` when an option is out of its range.
    pub fn new(seed: u64, options: &Options) -> Result<Self> {
        let rig = Rig::new(options)?;
        let random = |stream: Stream| Random::new(&[seed, stream as u64]);
        let route = Route::new(&mut random(Stream::Route));
        let town = town::build(&mut random(Stream::Town), &route);
        let traffic = Traffic::new(&mut random(Stream::Traffic), &route, options.num_actors);
        let mut sky = random(Stream::Light);
        let ground = Ground::new(&route, sky.next() as u32);
        let light = Light::new(&mut sky);
        let mut shadows = ShadowMap::default();
        shadows.clear(ground.bounds(), TOWN_SHADOW_CELL_M);
        town.iter().for_each(|solid| shadows.add(solid, &light.sun));
        Ok(Self {
            seed,
            rig,
            num_threads: options.num_threads.max(1),
            ground,
            light,
            shadows,
            beams: Beams::new(),
            route,
            town,
            traffic,
        })
    }

    /// The sensors.
    pub fn rig(&self) -> &Rig {
        &self.rig
    }

    /// The ego vehicle's `base_link` in the map.
    pub fn ego(&self, stamp: Stamp) -> Pose {
        let state = self.traffic.ego(&self.route, stamp.seconds_since(START));
        Pose {
            position_m: state.position.into(),
            yaw_rad: libm::atan2(state.heading.y, state.heading.x),
            velocity_mps: state.velocity.into(),
        }
    }

    /// All actors, in the map.
    pub fn objects(&self, stamp: Stamp) -> Vec<Object> {
        let time_s = stamp.seconds_since(START);
        let object = |actor: &Actor| {
            let state = self.traffic.actor(&self.route, actor, time_s);
            let [length, width, height] = actor.body.size_m.map(|extent| extent as f32);
            let [x, y, z] = state.position.map(|value| value as f32).into();
            Object {
                track_id: actor.track_id,
                class: actor.body.class,
                bbox: Box3d {
                    center: [x, y, z + 0.5 * height],
                    length_m: length,
                    width_m: width,
                    height_m: height,
                    yaw_rad: libm::atan2(state.heading.y, state.heading.x) as f32,
                },
                velocity_mps: state.velocity.map(|value| value as f32).into(),
            }
        };
        self.traffic.actors.iter().map(object).collect()
    }

    pub(super) fn world(&self) -> (&[Solid], &Traffic, &Route) {
        (&self.town, &self.traffic, &self.route)
    }
}
