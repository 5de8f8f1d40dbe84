//! A drive as a recording, with the truth beside every scan and image.

mod instances;
mod merged;
mod messages;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Drive, SCAN_RATE_HZ, START};
use det_post_ros::output_folder::{OutputFolder, Replaces};
use det_post_types::{Error, ErrorKind, Result, Stamp};
pub use messages::ImageFormat;
use messages::Recorder;

/// Rate of `/tf` and `/clock`. Every stamp of a LiDAR is a multiple of it.
const TF_RATE_HZ: f64 = 100.0;
/// The longest drive.
const MAX_SECONDS: f64 = 3600.0;

/// What is recorded at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Transform,
    Image { camera: usize, index: u64 },
    Scan { lidar: usize, index: u64 },
}

/// Writes the first `seconds` of a drive as a rosbag2 recording to the folder `out`, whose
/// earlier recording is replaced. `on_frame` is called before every image and scan with its
/// number and their count. Returns whether the recording is complete: setting `stop` ends it
/// early, and what was written stays in `det_post.partial/`.
///
/// | topic | messages |
/// |---|---|
/// | `/lidar_N/points` | `PointCloud2`, at 10 Hz |
/// | `/lidar/points` | with [`Rig::has_merged_cloud`](crate::Rig), the points of all LiDARs in `base_link`, in their order |
/// | `/camera_N/image`, or `/camera_N/image/compressed` | `Image` or `CompressedImage` |
/// | `/camera_N/camera_info` | `CameraInfo` |
/// | `/truth/lidar_N`, `/truth/camera_N` | detection arrays, each with a topic of attributes |
/// | `/truth/camera_N/instances` | with [`Rig::has_masks`](crate::Rig), an `Image` of `mono16`: by pixel the position of the visible object in the array, from 1; 0 for none |
/// | `/truth/surround` | the same in `base_link`, at the stamps of the images, for several cameras |
/// | `/tf`, `/tf_static`, `/clock` | poses of vehicle and sensors, time |
///
/// # Errors
/// `Usage` when `seconds` is out of range or the folder holds something else, `Io` when the
/// recording cannot be written.
pub fn record(
    drive: &Drive,
    seconds: f64,
    format: ImageFormat,
    out: &Path,
    stop: &AtomicBool,
    on_frame: &mut dyn FnMut(u64, u64),
) -> Result<bool> {
    if !(seconds > 0.0 && seconds <= MAX_SECONDS) {
        let message =
            format!("--seconds must be above 0 and at most {MAX_SECONDS}, found {seconds}");
        return Err(Error::new(ErrorKind::Usage, "simulate", message));
    }
    let mut folder = OutputFolder::open(out, Replaces::Everything)?;
    let mut recorder = Recorder::create(drive, folder.recording(None)?, format)?;
    let events = events(drive, seconds);
    let is_frame = |event: &Event| *event != Event::Transform;
    let num_frames = events.iter().filter(|(_, event)| is_frame(event)).count() as u64;
    recorder.mounts(START)?;
    let (mut is_complete, mut frame) = (true, 0);
    for &(log_time, event) in &events {
        if stop.load(Ordering::Relaxed) {
            is_complete = false;
            break;
        }
        if is_frame(&event) {
            on_frame(frame, num_frames);
            frame += 1;
        }
        match event {
            Event::Transform => recorder.transform(log_time)?,
            Event::Image { camera, index } => recorder.image(camera, index, log_time)?,
            Event::Scan { lidar, index } => recorder.scan(lidar, index, log_time)?,
        }
    }
    recorder.finish()?;
    if is_complete {
        folder.finish()?
    } else {
        folder.keep_partial()?
    }
    Ok(is_complete)
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
        let stamp = rig.image_stamp(index);
        let event = |camera| (stamp, Event::Image { camera, index });
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
    use crate::Options;

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
        assert_eq!(count(|e| matches!(e, Event::Image { .. })), 3 * 36);
        assert_eq!(count(|e| matches!(e, Event::Transform)), 121);
        // Every sensor's stamp lies between transforms that are recorded.
        let end = Stamp::from_nanos(START.nanos() + 1_200_000_000);
        assert_eq!(events.last().unwrap().0, end);
    }
}
