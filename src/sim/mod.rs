//! A simulated drive through a small town, with the truth about everything in
//! it.
//!
//! A [`Drive`] is a function of its seed and its [`Options`]: any scan or
//! picture of any time can be asked for without those before it, and is the
//! same on every machine and for any number of threads. For that no number
//! depends on a platform's mathematics library, on hash order or on a clock;
//! motions are formulas of time (`traffic`), noise is a hash of its place
//! (`random`).
//!
//! | file | what it holds |
//! |---|---|
//! | `route` | the road: a figure of eight round two blocks |
//! | `town`, `ground` | what stands along it, what it is made of |
//! | `traffic`, `body` | who moves on it, and of which solids they are made |
//! | `solid`, `material` | where rays meet solids, what lasers and cameras see there |
//! | `rig`, `scene` | the sensors; what one has around it at a time |
//! | `lidar`, `cast` | scans |
//! | `camera`, `raster`, `light`, `shadow`, `sky`, `lens` | pictures |
//! | `recording` | a drive as a recording |
//!
//! ```
//! use det_post::sim::{Drive, Options, Scan};
//!
//! let drive = Drive::new(7, &Options { num_points: 6400, ..Options::default() })?;
//! let mut scan = Scan::default();
//! drive.cloud(0, 12, &mut scan);
//! assert!(scan.points.len() > 3000);
//! assert!(scan.truth.iter().any(|object| object.class_name == "car"));
//! # Ok::<(), det_post::Error>(())
//! ```

mod body;
mod camera;
mod cast;
mod ground;
mod lens;
mod lidar;
mod light;
mod material;
mod random;
mod raster;
mod recording;
mod rig;
mod route;
mod scene;
mod shadow;
mod sky;
mod solid;
mod town;
mod traffic;

pub use camera::Picture;
pub use lidar::{MAX_RANGE_M, NUM_BEAMS, Scan, ScanPoint, TRUTH_RANGE_M};
pub use recording::{PictureFormat, record};
pub use rig::{CameraMount, LidarMount, MAX_SENSORS, Options, Rig, SCAN_RATE_HZ, START};
pub use traffic::Class;

use crate::error::Result;
use crate::types::{Box3d, Stamp};
use cast::Beams;
use ground::Ground;
use light::Light;
use random::Random;
use route::Route;
use shadow::ShadowMap;
use solid::Solid;
use traffic::Traffic;

/// Cell of the map of the shadows of what never moves.
const TOWN_SHADOW_CELL_M: f64 = 0.3;

/// What a stream of random numbers is for.
#[derive(Clone, Copy)]
enum Stream {
    Route,
    Town,
    Traffic,
    Light,
    Lidar,
    Camera,
}

/// A drive: a town, its traffic, and an ego vehicle with sensors.
///
/// Time 0 is [`START`]. The drive goes on for ever: the road is closed.
#[derive(Clone, Debug)]
pub struct Drive {
    seed: u64,
    rig: Rig,
    num_threads: usize,
    route: Route,
    ground: Ground,
    town: Vec<Solid>,
    traffic: Traffic,
    light: Light,
    /// Of what never moves.
    shadows: ShadowMap,
    beams: Beams,
}

/// Where something is in the map, and how it moves.
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
    /// Its number, the same at all times; 0 is nobody's.
    pub track_id: u32,
    /// What it is.
    pub class: Class,
    /// Where it is and how large.
    pub bbox: Box3d,
    /// Metres per second along x and y.
    pub velocity_mps: [f32; 2],
}

impl Drive {
    /// The drive of a seed.
    ///
    /// # Errors
    /// `Argument` when an option is out of its range.
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
        let object = |actor: &traffic::Actor| {
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

    fn world(&self) -> (&[Solid], &Traffic, &Route) {
        (&self.town, &self.traffic, &self.route)
    }
}

#[cfg(test)]
mod tests;
