//! Where the video of a slice begins: at the last key frame before it.
//!
//! A picture depends on those before it, up to a key frame. What is read from there to the slice, or to its warm-up, is
//! decoded and makes no frames.

use std::path::Path;
use std::time::Duration;

use super::channel::ReplayChannel;
use super::slice::before;
use det_post_ros::bag::{BagReader, LogSpan, ReadOptions};
use det_post_ros::middleware::InputKind;
use det_post_ros::video::{KeyFrame, key_frame};
use det_post_types::{Error, Result, Stamp};

/// How far before a slice a key frame is looked for, in steps: most streams have one every second or two.
const STEPS: [Duration; 3] =
    [Duration::from_secs(2), Duration::from_secs(15), Duration::from_secs(120)];

/// A topic of video, and the last key frame before the slice.
struct VideoTopic {
    name: String,
    number: usize,
    kind: InputKind,
    found: Option<Stamp>,
    /// Whether its messages are video; `None`: not known yet. The first one decides.
    has_video: Option<bool>,
}

/// The log time from which messages are read so that the video of a slice that starts at `start` can be decoded;
/// `None`: from its start. With it the damage that was met.
///
/// # Errors
/// Returns the errors of opening the recording.
pub(super) fn read_from(
    bag: &Path,
    options: &ReadOptions,
    start: Stamp,
    channels: &[ReplayChannel],
) -> Result<(Option<Stamp>, Vec<Error>)> {
    let mut damage = Vec::new();
    let of_inputs = channels.iter().flat_map(ReplayChannel::video_topics);
    let mut topics: Vec<VideoTopic> = of_inputs
        .map(|(name, number, kind)| {
            let (found, has_video) = (None, matches!(kind, InputKind::Video(_)).then_some(true));
            VideoTopic { name: name.to_owned(), number, kind, found, has_video }
        })
        .collect();
    let mut end = start;
    for step in STEPS {
        let is_wanted = |topic: &&VideoTopic| topic.found.is_none();
        let missing: Vec<&str> =
            topics.iter().filter(is_wanted).map(|topic| topic.name.as_str()).collect();
        if missing.is_empty() {
            break;
        }
        let mut reader = BagReader::open_with(bag, options)?;
        reader.select(&missing);
        let from = before(start, step);
        reader.limit(LogSpan { from: Some(from), to: Some(end) });
        damage.extend(find_key_frames(&mut reader, &mut topics));
        topics.retain(|topic| topic.has_video != Some(false));
        end = from;
    }
    let is_lost = |topic: &&VideoTopic| topic.found.is_none() && topic.has_video == Some(true);
    for topic in topics.iter().filter(is_lost) {
        let seconds = STEPS[STEPS.len() - 1].as_secs();
        tracing::warn!(
            "{}: no key frame with parameter sets in the {seconds} s before the slice: frames are dropped \
             until the next one",
            topic.name
        );
    }
    Ok((topics.iter().filter_map(|topic| topic.found).min(), damage))
}

/// Notes the last key frame of each topic that has none yet. Returns the damage that was met.
fn find_key_frames(reader: &mut BagReader, topics: &mut [VideoTopic]) -> Vec<Error> {
    let mut damage = Vec::new();
    let mut newest: Vec<Option<Stamp>> = vec![None; topics.len()];
    loop {
        match reader.next_message() {
            Ok(Some(message)) => {
                for (topic, newest) in topics.iter_mut().zip(&mut newest) {
                    if topic.number != message.topic || topic.found.is_some() {
                        continue;
                    }
                    let video = topic.kind.video_in(message.data);
                    topic.has_video.get_or_insert(video.is_some());
                    if video
                        .is_some_and(|video| key_frame(video, message.data) == KeyFrame::Complete)
                    {
                        *newest = Some(message.log_time);
                    }
                }
                // Recordings of images end here.
                if topics.iter().all(|topic| topic.has_video == Some(false)) {
                    break;
                }
            }
            Ok(None) => break,
            // Messages after it are sound.
            Err(error) => damage.push(error),
        }
    }
    for (topic, newest) in topics.iter_mut().zip(newest) {
        topic.found = topic.found.or(newest);
    }
    damage
}
