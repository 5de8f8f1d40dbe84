//! `det_post simulate`: a drive through a town that does not exist, written as
//! a recording with the truth beside every scan and image.

use std::path::{Path, PathBuf};

use super::interrupt::Interrupt;
use super::progress::Progress;
use super::{ExitStatus, stdout};
use det_post_sim::{Drive, ImageFormat, Options};
use det_post_types::{Result, Size};

/// Arguments of `det_post simulate`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SimulateArguments {
    /// Random seed: the same one gives the same bytes on every machine.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Length of the drive in seconds.
    #[arg(long, default_value_t = 10.0)]
    pub(super) seconds: f64,
    /// Folder of the rosbag2 recording: new, or written by this command.
    #[arg(short, long, value_name = "BAG")]
    pub(super) out: PathBuf,
    /// Number of cameras, the first looking ahead, the others all around.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) cameras: usize,
    /// Number of LiDARs, the first on the roof.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) lidars: usize,
    /// Writes points where a moving sensor measures them, each at its time, instead of at the stamp
    /// of the scan.
    #[arg(long)]
    pub(super) moving_scans: bool,
    /// Also writes the clouds of all LiDARs as one in base_link, on /lidar/points.
    #[arg(long)]
    pub(super) merged_cloud: bool,
    /// Also writes the visible pixels of the objects of images, on /truth/<camera>/instances.
    #[arg(long)]
    pub(super) masks: bool,
    /// Vehicles, cyclists and pedestrians within 60 m on average.
    #[arg(long, default_value_t = Options::default().num_actors, value_name = "N")]
    pub(super) actors: u32,
    /// Rays of a scan; about nine in ten come back as points.
    #[arg(long, default_value_t = Options::default().num_points, value_name = "N")]
    pub(super) points: usize,
    /// Writes images as JPEG, on <camera>/image/compressed.
    #[arg(long)]
    pub(super) compressed: bool,
    /// Images a second.
    #[arg(long, default_value_t = Options::default().camera_rate_hz, value_name = "HZ")]
    pub(super) camera_rate: f64,
    /// Width and height of the images in pixels; the width in multiples of 8.
    #[arg(long, default_value = "1280x720", value_name = "WxH", value_parser = parse_size)]
    pub(super) image_size: Size,
}

fn parse_size(text: &str) -> std::result::Result<Size, String> {
    let sides = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    sides.map(|(w, h)| Size::new(w, h)).ok_or_else(|| "a size is written 640x360".into())
}

impl SimulateArguments {
    /// A drive with six cameras and no LiDAR, for the surround network of the demo.
    pub(super) fn of_surround_demo(seed: u64, seconds: f64, out: &Path) -> Self {
        let image_size = Size::new(640, 360);
        Self { cameras: 6, lidars: 0, image_size, ..Self::of_demo(seed, seconds, out) }
    }

    /// A drive with one sensor of each kind, as the defaults say.
    pub(super) fn of_demo(seed: u64, seconds: f64, out: &Path) -> Self {
        let Options { num_actors, num_points, camera_rate_hz, image_size, .. } = Options::default();
        Self {
            seed,
            seconds,
            out: out.to_owned(),
            cameras: 1,
            lidars: 1,
            moving_scans: false,
            merged_cloud: false,
            masks: false,
            actors: num_actors,
            points: num_points,
            compressed: false,
            camera_rate: camera_rate_hz,
            image_size,
        }
    }
}

/// Simulates a drive and writes its recording.
pub(super) fn simulate(arguments: &SimulateArguments) -> Result<ExitStatus> {
    let interrupt = Interrupt::listen()?;
    let status = record(arguments, &interrupt)?;
    if status == ExitStatus::Done {
        stdout::print(&format!("{}\n", arguments.out.display()))?;
    }
    Ok(status)
}

/// Simulates a drive and writes its recording: done or, where the user stops
/// it, interrupted.
///
/// # Errors
/// `Usage` when an argument is out of range or the directory holds something
/// else, `Io` when the recording cannot be written.
pub(super) fn record(arguments: &SimulateArguments, interrupt: &Interrupt) -> Result<ExitStatus> {
    let drive = Drive::new(arguments.seed, &options(arguments))?;
    let format = if arguments.compressed { ImageFormat::Jpeg } else { ImageFormat::Raw };
    let mut progress = None;
    let mut on_frame = |frame, num_frames| {
        progress.get_or_insert_with(|| Progress::new(Some(num_frames), "frames")).set(frame);
    };
    let SimulateArguments { seconds, out, .. } = arguments;
    let is_complete =
        det_post_sim::record(&drive, *seconds, format, out, &interrupt.flag(), &mut on_frame)?;
    Ok(if is_complete { ExitStatus::Done } else { ExitStatus::Interrupted })
}

fn options(arguments: &SimulateArguments) -> Options {
    Options {
        num_lidars: arguments.lidars,
        num_cameras: arguments.cameras,
        num_actors: arguments.actors,
        num_points: arguments.points,
        camera_rate_hz: arguments.camera_rate,
        has_moving_scans: arguments.moving_scans,
        has_merged_cloud: arguments.merged_cloud,
        has_masks: arguments.masks,
        image_size: arguments.image_size,
        ..Options::default()
    }
}
