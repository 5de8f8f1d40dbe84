//! A simulated drive through a small town, with ground truth.
//!
//! A [`Drive`] is a function of its seed and its [`Options`]: every scan and
//! image can be rendered without the earlier ones, and is the same on every
//! machine and for any number of threads. Therefore no number depends on a
//! platform's mathematics library, on hash order or on a clock; motions are
//! formulas of time (`traffic`), noise is a hash of its position (`random`).
//!
//! | file | content |
//! |---|---|
//! | `drive` | the drive: its parts, the poses of the ego vehicle and of the actors |
//! | `route` | the road: a figure of eight around two blocks |
//! | `town`, `ground` | static objects along the road; the surface of the ground |
//! | `class`, `traffic`, `body` | actors: their classes, motions and shapes |
//! | `solid`, `surface`, `material` | intersection of rays and solids; appearance and reflectivity |
//! | `rig`, `scene` | the sensors; the solids in the range of a sensor at a time |
//! | `lidar`, `cast` | scans |
//! | `camera`, `raster`, `light`, `shadow`, `sky`, `lens` | images |
//! | `surround` | truth around the vehicle, for all cameras together |
//! | `recording` | a drive as a recording |
//!
//! ```
//! use det_post_sim::{Drive, Options, Scan};
//!
//! let drive = Drive::new(7, &Options { num_points: 6400, ..Options::default() })?;
//! let mut scan = Scan::default();
//! drive.cloud(0, 12, &mut scan);
//! assert!(scan.points.len() > 3000);
//! assert!(scan.truth.iter().any(|object| object.class_name == "car"));
//! # Ok::<(), det_post_types::Error>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod body;
mod camera;
mod cast;
mod class;
mod drive;
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
mod surface;
mod surround;
mod town;
mod traffic;

pub use camera::RenderedImage;
pub use cast::{MAX_RANGE_M, NUM_BEAMS};
pub use class::Class;
pub use drive::{Drive, Object, Pose};
pub use lidar::{Scan, ScanPoint, TRUTH_RANGE_M};
pub use recording::{ImageFormat, record};
pub use rig::{CameraMount, LidarMount, MAX_SENSORS, Options, Rig, SCAN_RATE_HZ, START};
pub use surround::SeenByCameras;

#[cfg(test)]
mod tests;
