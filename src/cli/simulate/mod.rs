//! `det_post simulate`: a drive through a town that does not exist, written as
//! a recording with the truth beside every scan and picture.

mod messages;

use std::path::{Path, PathBuf};

use super::interrupt::Interrupt;
use super::progress::Progress;
use super::{ExitStatus, stdout};
use crate::error::{Error, ErrorKind, Result};
use crate::output_folder::{OutputFolder, Replaces};
use crate::sim::{Drive, Options, SCAN_RATE_HZ, START};
use crate::types::Stamp;
use messages::{PictureFormat, Recorder};

/// Rate of `/tf` and `/clock`. Every stamp of a LiDAR is a multiple of it.
const TF_RATE_HZ: f64 = 100.0;
/// The longest drive.
const MAX_SECONDS: f64 = 3600.0;

/// Arguments of `det_post simulate`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SimulateArguments {
    /// What is made: the same seed gives the same bytes on every machine.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Length of the drive in seconds.
    #[arg(long, default_value_t = 10.0)]
    pub(super) seconds: f64,
    /// Directory of the rosbag2 recording, for it alone; one that this command wrote there is
    /// replaced.
    #[arg(short, long, value_name = "BAG")]
    pub(super) out: PathBuf,
    /// Number of cameras, the first looking ahead, the others all around.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) cameras: usize,
    /// Number of LiDARs, the first on the roof.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) lidars: usize,
    /// Vehicles, cyclists and pedestrians within 60 m on average.
    #[arg(long, default_value_t = Options::default().num_actors, value_name = "N")]
    pub(super) actors: u32,
    /// Rays of a scan; about nine in ten come back as points.
    #[arg(long, default_value_t = Options::default().num_points, value_name = "N")]
    pub(super) points: usize,
    /// Writes pictures as JPEG, on <camera>/image/compressed.
    #[arg(long)]
    pub(super) compressed: bool,
    /// Pictures a second.
    #[arg(long, default_value_t = Options::default().camera_rate_hz, value_name = "HZ")]
    pub(super) camera_rate: f64,
}

impl SimulateArguments {
    /// A drive with one sensor of each kind, as the defaults say.
    pub(super) fn of_demo(seed: u64, seconds: f64, out: &Path) -> Self {
        let Options { num_actors, num_points, camera_rate_hz, .. } = Options::default();
        Self {
            seed,
            seconds,
            out: out.to_owned(),
            cameras: 1,
            lidars: 1,
            actors: num_actors,
            points: num_points,
            compressed: false,
            camera_rate: camera_rate_hz,
        }
    }
}

/// What is recorded at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Transform,
    Picture { camera: usize, index: u64 },
    Scan { lidar: usize, index: u64 },
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
    if !(arguments.seconds > 0.0 && arguments.seconds <= MAX_SECONDS) {
        let found = arguments.seconds;
        let message =
            format!("--seconds is {found}; above 0 and at most {MAX_SECONDS} is possible");
        return Err(Error::new(ErrorKind::Usage, "simulate", message));
    }
    let mut folder = OutputFolder::open(&arguments.out, Replaces::Everything)?;
    let format = if arguments.compressed { PictureFormat::Jpeg } else { PictureFormat::Raw };
    let mut recorder = Recorder::create(&drive, folder.recording(None)?, format)?;
    let events = events(&drive, arguments.seconds);
    let num_frames = events.iter().filter(|(_, event)| *event != Event::Transform).count();
    let progress = Progress::new(Some(num_frames as u64), "frames");
    recorder.mounts(START)?;
    let mut status = ExitStatus::Done;
    for &(log_time, event) in &events {
        if interrupt.is_set() {
            status = ExitStatus::Interrupted;
            break;
        }
        match event {
            Event::Transform => recorder.transform(log_time)?,
            Event::Picture { camera, index } => recorder.picture(camera, index, log_time)?,
            Event::Scan { lidar, index } => recorder.scan(lidar, index, log_time)?,
        }
        if event != Event::Transform {
            progress.advance();
        }
    }
    drop(progress);
    recorder.finish()?;
    match status {
        ExitStatus::Interrupted => folder.keep_partial()?,
        _ => folder.finish()?,
    }
    Ok(status)
}

fn options(arguments: &SimulateArguments) -> Options {
    Options {
        num_lidars: arguments.lidars,
        num_cameras: arguments.cameras,
        num_actors: arguments.actors,
        num_points: arguments.points,
        camera_rate_hz: arguments.camera_rate,
        ..Options::default()
    }
}

/// All events of a drive in the order of their log times. A scan is there when
/// its turn is complete, half a turn after its stamp; everything else at once.
fn events(drive: &Drive, seconds: f64) -> Vec<(Stamp, Event)> {
    let rig = drive.rig();
    let after = |start: Stamp, seconds: f64| {
        Stamp::from_nanos(start.nanos() + (seconds * 1e9).round() as i64)
    };
    let count = |rate_hz: f64| (seconds * rate_hz + 1e-9) as u64;
    let mut events = Vec::new();
    for index in 0..=count(TF_RATE_HZ) {
        events.push((after(START, index as f64 / TF_RATE_HZ), Event::Transform));
    }
    for index in 0..count(rig.camera_rate_hz) {
        let stamp = rig.picture_stamp(index);
        let event = |camera| (stamp, Event::Picture { camera, index });
        events.extend((0..rig.cameras.len()).map(event));
    }
    for index in 0..count(SCAN_RATE_HZ) {
        let log_time = after(rig.scan_stamp(index), 0.5 / SCAN_RATE_HZ);
        let event = |lidar| (log_time, Event::Scan { lidar, index });
        events.extend((0..rig.lidars.len()).map(event));
    }
    events.sort();
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_times() {
        let options = Options {
            num_lidars: 2,
            num_cameras: 3,
            camera_rate_hz: 30.0,
            num_points: 1024,
            ..Options::default()
        };
        let drive = Drive::new(1, &options).unwrap();
        let events = events(&drive, 1.2);
        assert!(events.windows(2).all(|pair| pair[0] < pair[1]));
        let count = |wanted: fn(&Event) -> bool| events.iter().filter(|(_, e)| wanted(e)).count();
        assert_eq!(count(|e| matches!(e, Event::Scan { .. })), 2 * 12);
        assert_eq!(count(|e| matches!(e, Event::Picture { .. })), 3 * 36);
        assert_eq!(count(|e| matches!(e, Event::Transform)), 121);
        // Every sensor's stamp lies between transforms that are recorded.
        let end = Stamp::from_nanos(START.nanos() + 1_200_000_000);
        assert_eq!(events.last().unwrap().0, end);
    }
}
