//! The calibrations that are in force when a slice of a recording starts.

use std::path::Path;
use std::time::Duration;

use super::channel::ReplayChannel;
use super::slice::before;
use det_post_ros::bag::{BagReader, LogSpan, ReadOptions};
use det_post_types::{Error, Result, Stamp};

/// Calibrations that are published with every image are found this far before a slice.
const CALIBRATION_PERIOD: Duration = Duration::from_secs(10);

/// Reads the calibrations of the channels' cameras that are in force when the slice starts, and
/// gives the damage that was met. The main reader skips the chunks before a slice.
///
/// # Errors
/// Returns the errors of opening the recording.
pub(super) fn read_calibrations(
    bag: &Path,
    options: &ReadOptions,
    start: Stamp,
    channels: &[ReplayChannel],
) -> Result<Vec<Error>> {
    let mut damage = Vec::new();
    let topics = || channels.iter().flat_map(ReplayChannel::calibration_topics);
    let recent = before(start, CALIBRATION_PERIOD);
    // A topic with no message in the recent past has few: its chunks are found by the index.
    for (from, to) in [(Some(recent), start), (None, recent)] {
        let missing: Vec<&str> =
            topics().filter(|topic| !topic.is_known()).map(|topic| topic.name.as_str()).collect();
        if missing.is_empty() {
            break;
        }
        let mut reader = BagReader::open_with(bag, options)?;
        reader.select(&missing);
        reader.limit(LogSpan { from, to: Some(to) });
        loop {
            match reader.next_message() {
                Ok(Some(message)) => topics().for_each(|topic| topic.take(&message)),
                Ok(None) => break,
                // Messages after it are sound.
                Err(error) => damage.push(error),
            }
        }
    }
    Ok(damage)
}
