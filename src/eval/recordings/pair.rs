//! Which detections belong to which truth.

use super::streams::Stream;
use crate::error::{Error, ErrorKind, Result};
use crate::eval::Frame;
use crate::types::Stamp;

/// `DETECTIONS=TRUTH`, two topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicPair {
    pub(super) detections: String,
    pub(super) truth: String,
}

/// Reads `DETECTIONS=TRUTH`.
pub(crate) fn parse_pair(text: &str) -> std::result::Result<TopicPair, String> {
    match text.split_once('=') {
        Some((detections, truth)) if !detections.is_empty() && !truth.is_empty() => {
            Ok(TopicPair { detections: detections.into(), truth: truth.into() })
        }
        _ => Err("a pair is DETECTIONS=TRUTH, two topics".into()),
    }
}

/// The frames of a pair of topics that both have.
pub(super) struct Paired<T, D> {
    pub(super) name: String,
    pub(super) detections: String,
    pub(super) truth: String,
    pub(super) frame_id: String,
    pub(super) frames: Vec<Frame<T, D>>,
    /// Of each frame.
    pub(super) stamps: Vec<Stamp>,
    /// Of each frame the index of its drive.
    pub(super) drives: Vec<usize>,
    /// Frames of truth without a message of detections.
    pub(super) num_truth_alone: usize,
    /// Messages of detections without truth.
    pub(super) num_detections_alone: usize,
}

/// Pairs topics of detections with topics of truth: those that `wanted` names,
/// and of the rest those of one frame of reference. Topics of detections that
/// stay alone are named in the log. `drive` is the index of the drive.
///
/// # Errors
/// `Argument` when a pair has no frame in common.
pub(super) fn pair<T: Clone, D: Clone>(
    detections: &[Stream<D>],
    truth: &[Stream<T>],
    wanted: &[TopicPair],
    count_missing: bool,
    drive: usize,
) -> Result<Vec<Paired<T, D>>> {
    let mut paired = Vec::new();
    for found in detections {
        let named = wanted.iter().find(|pair| pair.detections == found.topic);
        let of_topic = |stream: &&Stream<T>| match named {
            Some(pair) => stream.topic == pair.truth,
            None => stream.frame_id == found.frame_id,
        };
        match truth.iter().find(of_topic) {
            Some(there) => {
                let mut frames = match_frames(found, there, count_missing)?;
                frames.drives = vec![drive; frames.frames.len()];
                paired.push(frames);
            }
            None => tracing::warn!(
                "{} (frame {:?}) belongs to no truth ({}); --pair {}=TRUTH would say to which",
                found.topic,
                found.frame_id,
                describe(truth),
                found.topic
            ),
        }
    }
    Ok(paired)
}

/// Adds the frames of another drive to those of the same two topics.
pub(super) fn pool<T, D>(pooled: &mut Vec<Paired<T, D>>, drive: Vec<Paired<T, D>>) {
    for paired in drive {
        let is_same = |other: &&mut Paired<T, D>| {
            (&other.detections, &other.truth) == (&paired.detections, &paired.truth)
        };
        match pooled.iter_mut().find(is_same) {
            Some(sensor) => {
                sensor.frames.extend(paired.frames);
                sensor.stamps.extend(paired.stamps);
                sensor.drives.extend(paired.drives);
                sensor.num_truth_alone += paired.num_truth_alone;
                sensor.num_detections_alone += paired.num_detections_alone;
            }
            None => pooled.push(paired),
        }
    }
}

/// Topics with their frames of reference.
pub(super) fn describe<T>(streams: &[Stream<T>]) -> String {
    let each = streams.iter().map(|stream| format!("{} in {:?}", stream.topic, stream.frame_id));
    each.collect::<Vec<_>>().join(", ")
}

fn match_frames<T: Clone, D: Clone>(
    found: &Stream<D>,
    there: &Stream<T>,
    count_missing: bool,
) -> Result<Paired<T, D>> {
    if found.frame_id != there.frame_id {
        tracing::warn!(
            "{} is in {:?}, {} in {:?}: compared as if they were one",
            found.topic,
            found.frame_id,
            there.topic,
            there.frame_id
        );
    }
    let mut paired = Paired {
        name: found.name.clone(),
        detections: found.topic.clone(),
        truth: there.topic.clone(),
        frame_id: there.frame_id.clone(),
        frames: Vec::new(),
        stamps: Vec::new(),
        drives: Vec::new(),
        num_truth_alone: 0,
        num_detections_alone: 0,
    };
    for (stamp, truth) in &there.frames {
        let detections = found.frames.get(stamp);
        paired.num_truth_alone += usize::from(detections.is_none());
        if detections.is_some() || count_missing {
            let detections = detections.cloned().unwrap_or_default();
            paired.stamps.push(*stamp);
            paired.frames.push(Frame { truth: truth.clone(), detections });
        }
    }
    let num_common = there.frames.len() - paired.num_truth_alone;
    paired.num_detections_alone = found.frames.len() - num_common;
    if num_common == 0 {
        return Err(Error::new(
            ErrorKind::Argument,
            "eval",
            format!(
                "no frame of {} ({}) has its stamp in {} ({})",
                found.topic,
                span(found.frames.keys()),
                there.topic,
                span(there.frames.keys())
            ),
        ));
    }
    Ok(paired)
}

fn span<'a>(stamps: impl DoubleEndedIterator<Item = &'a Stamp> + Clone) -> String {
    match (stamps.clone().next(), stamps.clone().next_back()) {
        (Some(first), Some(last)) => format!("{} frames, {first} to {last}", stamps.count()),
        _ => "no frames".into(),
    }
}
