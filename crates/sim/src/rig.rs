//! The sensors of the ego vehicle: their mounting poses and times.
//!
//! The origin of `base_link` is the middle of the rear axle on the road; x
//! points forward, y left, z up.

use nalgebra::{Matrix3, Vector2, Vector3};

use super::cast::NUM_BEAMS;
use super::traffic::State;
use det_post_types::{Error, ErrorKind, Result, Size, Stamp};

/// Revolutions per second of a LiDAR.
pub const SCAN_RATE_HZ: f64 = 10.0;
/// Duration of a revolution.
pub(super) const SCAN_S: f64 = 1.0 / SCAN_RATE_HZ;
/// Stamp of the start of every drive.
pub const START: Stamp = Stamp::from_ros(1_750_000_000, 0);
/// Maximum number of sensors of a kind.
pub const MAX_SENSORS: usize = 8;

/// Options of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Number of LiDARs, up to [`MAX_SENSORS`].
    pub num_lidars: usize,
    /// Number of cameras, up to [`MAX_SENSORS`].
    pub num_cameras: usize,
    /// Average number of actors within 60 m of the ego vehicle.
    pub num_actors: u32,
    /// Number of rays in a scan, of all beams; about nine in ten return an echo.
    pub num_points: usize,
    /// Size of the images.
    pub image_size: Size,
    /// Images per second.
    pub camera_rate_hz: f64,
    /// Whether recordings have the points of a scan where they were measured, from a sensor that
    /// moves, instead of at the stamp.
    pub has_moving_scans: bool,
    /// Whether recordings also have the clouds of all LiDARs as one in `base_link`.
    pub has_merged_cloud: bool,
    /// Whether recordings also have the visible pixels of the objects of images.
    pub has_masks: bool,
    /// Number of threads for a frame. The result does not depend on it.
    pub num_threads: usize,
}

impl Default for Options {
    /// One LiDAR of 115,200 rays, one camera of 1280x720 at 10 Hz, 48 actors,
    /// as many threads as the machine has.
    fn default() -> Self {
        Self {
            num_lidars: 1,
            num_cameras: 1,
            num_actors: 48,
            num_points: 115_200,
            image_size: Size::new(1280, 720),
            camera_rate_hz: 10.0,
            has_moving_scans: false,
            has_merged_cloud: false,
            has_masks: false,
            num_threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The mounting pose of a LiDAR, without roll and pitch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LidarMount {
    /// x, y, z in `base_link`.
    pub position_m: [f64; 3],
    /// Yaw of its x axis in `base_link`, counter-clockwise.
    pub yaw_rad: f64,
}

/// The mounting pose of a camera, without roll and pitch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CameraMount {
    /// x, y, z in `base_link`.
    pub position_m: [f64; 3],
    /// Yaw of its optical axis in `base_link`, counter-clockwise.
    pub yaw_rad: f64,
}

impl CameraMount {
    /// The rotation from the optical frame (x right, y down, z forward) to
    /// `base_link`.
    pub fn base_from_optical(&self) -> Matrix3<f64> {
        let (sin, cos) = libm::sincos(self.yaw_rad);
        Matrix3::new(sin, 0.0, cos, -cos, 0.0, sin, 0.0, -1.0, 0.0)
    }
}

/// The sensors of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Rig {
    /// The LiDARs.
    pub lidars: Vec<LidarMount>,
    /// The cameras.
    pub cameras: Vec<CameraMount>,
    /// Columns of a scan.
    pub num_columns: usize,
    /// Size of the images.
    pub image_size: Size,
    /// Images per second.
    pub camera_rate_hz: f64,
    /// Whether points are recorded where they were measured.
    pub has_moving_scans: bool,
    /// Whether the clouds of all LiDARs are also recorded as one.
    pub has_merged_cloud: bool,
    /// Whether the visible pixels of the objects of images are recorded.
    pub has_masks: bool,
}

impl Rig {
    /// The sensors of `options`: the first LiDAR on the roof, the others near the
    /// corners; the first camera faces forward, the others all around.
    pub(super) fn new(options: &Options) -> Result<Self> {
        let refuse = |what: &str, found: String, allowed: &str| {
            let message = format!("{what} is {found}; {allowed} is allowed");
            Err(Error::new(ErrorKind::Usage, "simulate", message))
        };
        let most = format!("at most {MAX_SENSORS}");
        if options.num_lidars > MAX_SENSORS {
            return refuse("the number of lidars", options.num_lidars.to_string(), &most);
        }
        if options.num_cameras > MAX_SENSORS {
            return refuse("the number of cameras", options.num_cameras.to_string(), &most);
        }
        if !(1.0..=60.0).contains(&options.camera_rate_hz) {
            return refuse("the camera rate", options.camera_rate_hz.to_string(), "1 to 60");
        }
        let num_columns = options.num_points / NUM_BEAMS;
        if !(16..=65_536).contains(&num_columns) {
            let found = options.num_points.to_string();
            return refuse("the number of points", found, "1024 to 4194304");
        }
        let Size { width, height } = options.image_size;
        if !(16..=8192).contains(&width) || !(16..=8192).contains(&height) || width % 8 != 0 {
            let allowed = "16 to 8192 with a width in multiples of 8";
            return refuse("the size of the images", format!("{width}x{height}"), allowed);
        }
        if options.num_actors > 2000 {
            return refuse("the number of actors", options.num_actors.to_string(), "at most 2000");
        }
        let lidars = (0..options.num_lidars).map(|i| LIDARS[i]).collect();
        let share = std::f64::consts::TAU / options.num_cameras.max(1) as f64;
        let cameras = (0..options.num_cameras)
            .map(|i| {
                let yaw_rad = share * i as f64;
                let (sin, cos) = libm::sincos(yaw_rad);
                CameraMount { position_m: [1.25 + 0.45 * cos, 0.45 * sin, 1.62], yaw_rad }
            })
            .collect();
        let Options { image_size, camera_rate_hz, has_moving_scans, .. } = *options;
        Ok(Self {
            lidars,
            cameras,
            num_columns,
            image_size,
            camera_rate_hz,
            has_moving_scans,
            has_merged_cloud: options.has_merged_cloud,
            has_masks: options.has_masks,
        })
    }

    /// Seconds from the start of the drive to the middle of a scan.
    pub(super) fn scan_time_s(&self, index: u64) -> f64 {
        (index as f64 + 0.5) / SCAN_RATE_HZ
    }

    /// Seconds from the start of the drive to an image.
    pub(super) fn image_time_s(&self, index: u64) -> f64 {
        (index as f64 + 0.5) / self.camera_rate_hz
    }

    /// Stamp of a scan: its middle, when it faces forward.
    pub fn scan_stamp(&self, index: u64) -> Stamp {
        stamp(self.scan_time_s(index))
    }

    /// Stamp of an image.
    pub fn image_stamp(&self, index: u64) -> Stamp {
        stamp(self.image_time_s(index))
    }

    /// Focal length in pixels. The horizontal field of view is 71 degrees.
    pub fn focal_px(&self) -> f64 {
        f64::from(self.image_size.width) * 0.703_125
    }

    /// Principal point in continuous pixels (pixel `i` covers `i` to `i + 1`): the
    /// middle of an image.
    pub fn principal_px(&self) -> [f64; 2] {
        [0.5 * f64::from(self.image_size.width), 0.5 * f64::from(self.image_size.height)]
    }
}

const LIDARS: [LidarMount; MAX_SENSORS] = [
    LidarMount { position_m: [1.25, 0.0, 1.9], yaw_rad: 0.0 },
    LidarMount { position_m: [3.4, 0.9, 1.0], yaw_rad: 0.7 },
    LidarMount { position_m: [3.4, -0.9, 1.0], yaw_rad: -0.7 },
    LidarMount { position_m: [-0.9, 0.0, 1.1], yaw_rad: std::f64::consts::PI },
    LidarMount { position_m: [1.25, 0.9, 1.7], yaw_rad: std::f64::consts::FRAC_PI_2 },
    LidarMount { position_m: [1.25, -0.9, 1.7], yaw_rad: -std::f64::consts::FRAC_PI_2 },
    LidarMount { position_m: [-0.8, 0.8, 1.2], yaw_rad: 2.4 },
    LidarMount { position_m: [-0.8, -0.8, 1.2], yaw_rad: -2.4 },
];

/// The stamp of a time of the drive, to the nanosecond.
pub(super) fn stamp(time_s: f64) -> Stamp {
    Stamp::from_nanos(START.nanos() + (time_s * 1e9).round() as i64)
}

/// Position and heading in the map of a sensor on the ego vehicle.
pub(super) fn pose_of(
    ego: &State,
    [x, y, z]: [f64; 3],
    yaw_rad: f64,
) -> (Vector3<f64>, Vector2<f64>) {
    let (ahead, left) = (ego.heading, Vector2::new(-ego.heading.y, ego.heading.x));
    let level = ahead * x + left * y;
    let (sin, cos) = libm::sincos(yaw_rad);
    (ego.position + Vector3::new(level.x, level.y, z), ahead * cos + left * sin)
}
