//! Which detections belong to which truth.

use std::collections::BTreeMap;

use super::streams::Stream;
use crate::Frame;
use crate::parts::{FrameParts, Parts};
use det_post_types::{Error, ErrorKind, Result, Stamp};

/// `DETECTIONS=TRUTH`, two topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPair {
    pub(super) detections: String,
    pub(super) truth: String,
}

/// Reads `DETECTIONS=TRUTH`.
pub fn parse_pair(text: &str) -> std::result::Result<TopicPair, String> {
    match text.split_once('=') {
        Some((detections, truth)) if !detections.is_empty() && !truth.is_empty() => {
            Ok(TopicPair { detections: detections.into(), truth: truth.into() })
        }
        _ => Err("a pair is DETECTIONS=TRUTH, two topics".into()),
    }
}

/// The topics of one kind of sensor in a drive.
pub(super) struct Topics<'a, T, D> {
    /// Where the detections of the drive were read from.
    pub(super) drive: &'a str,
    pub(super) detections: &'a [Stream<D>],
    pub(super) truth: &'a [Stream<T>],
}

/// The frames of a pair of topics that both have.
pub(super) struct Paired<T, D> {
    pub(super) name: String,
    pub(super) detections: String,
    pub(super) truth: String,
    pub(super) frame_id: String,
    pub(super) frames: Vec<Frame<T, D>>,
    /// Of each frame its masks and keypoints.
    pub(super) parts: Vec<FrameParts>,
    /// Of each frame.
    pub(super) stamps: Vec<Stamp>,
    /// Of each frame the index of its drive.
    pub(super) drives: Vec<usize>,
    /// Frames of truth without a message of detections.
    pub(super) num_truth_without_detections: usize,
    /// Messages of detections without truth.
    pub(super) num_detections_without_truth: usize,
}

/// Pairs topics of detections with topics of truth: those that `wanted` names,
/// and of the rest those of one frame of reference. The frames of all drives are
/// those of one pair; truth of a drive that lacks the topic of detections is
/// without detections. What has no partner is named in the log.
///
/// # Errors
/// `Argument` when a pair has no frame in common in any drive.
pub(super) fn pair<T: Clone, D: Clone>(
    drives: &[Topics<'_, T, D>],
    wanted: &[TopicPair],
    count_missing: bool,
) -> Result<Vec<Paired<T, D>>> {
    let mut pairs: Vec<Paired<T, D>> = Vec::new();
    for Topics { drive, detections, truth } in drives {
        for found in *detections {
            let Some(there) = partner(found, truth, wanted) else {
                tracing::warn!(
                    "{drive}: {} (frame {:?}) belongs to no truth ({}); --pair {}=TRUTH would say \
                     to which",
                    found.topic,
                    found.frame_id,
                    describe(truth),
                    found.topic
                );
                continue;
            };
            let is_same = |pair: &Paired<T, D>| {
                (&pair.detections, &pair.truth) == (&found.topic, &there.topic)
            };
            if !pairs.iter().any(is_same) {
                pairs.push(Paired::new(found, there));
            }
        }
    }
    for pair in &mut pairs {
        pair.add_frames(drives, wanted, count_missing)?;
    }
    if count_missing {
        for Topics { drive, truth, .. } in drives {
            for there in truth.iter().filter(|there| pairs.iter().all(|p| p.truth != there.topic)) {
                tracing::warn!(
                    "{drive}: no detections belong to {} (frame {:?}, {}), which is not counted",
                    there.topic,
                    there.frame_id,
                    span(there.frames.keys())
                );
            }
        }
    }
    Ok(pairs)
}

impl<T, D> Topics<'_, T, D> {
    /// Whether a topic of detections belongs to one of truth.
    pub(super) fn has_pairs(&self, wanted: &[TopicPair]) -> bool {
        self.detections.iter().any(|found| partner(found, self.truth, wanted).is_some())
    }
}

/// The topic of truth that a topic of detections belongs to.
fn partner<'a, T, D>(
    found: &Stream<D>,
    truth: &'a [Stream<T>],
    wanted: &[TopicPair],
) -> Option<&'a Stream<T>> {
    let named = wanted.iter().find(|pair| is_called(&found.topic, &pair.detections));
    truth.iter().find(|stream| match named {
        Some(pair) => is_called(&stream.topic, &pair.truth),
        None => stream.frame_id == found.frame_id,
    })
}

/// Whether a topic has a name, with or without its leading slash: recordings of other tools have names
/// without, which are read with it.
pub(super) fn is_called(topic: &str, name: &str) -> bool {
    topic == name || topic.strip_prefix('/') == Some(name)
}

/// Topics with their frames of reference.
pub(super) fn describe<T>(streams: &[Stream<T>]) -> String {
    let each = streams.iter().map(|stream| format!("{} in {:?}", stream.topic, stream.frame_id));
    each.collect::<Vec<_>>().join(", ")
}

impl<T: Clone, D: Clone> Paired<T, D> {
    fn new(found: &Stream<D>, there: &Stream<T>) -> Self {
        Self {
            name: found.name.clone(),
            detections: found.topic.clone(),
            truth: there.topic.clone(),
            frame_id: there.frame_id.clone(),
            frames: Vec::new(),
            parts: Vec::new(),
            stamps: Vec::new(),
            drives: Vec::new(),
            num_truth_without_detections: 0,
            num_detections_without_truth: 0,
        }
    }

    /// Adds the frames of all drives.
    fn add_frames(
        &mut self,
        drives: &[Topics<'_, T, D>],
        wanted: &[TopicPair],
        count_missing: bool,
    ) -> Result<()> {
        let (mut num_common, mut apart) = (0, Vec::new());
        for (index, Topics { drive, detections, truth }) in drives.iter().enumerate() {
            let Some(there) = truth.iter().find(|there| there.topic == self.truth) else {
                continue;
            };
            let found = detections.iter().find(|found| found.topic == self.detections);
            if found.is_some_and(|found| {
                partner(found, truth, wanted).is_none_or(|partner| partner.topic != self.truth)
            }) {
                continue;
            }
            let num = self.match_frames(index, found, there, count_missing);
            num_common += num;
            if num == 0 {
                let found = found.map_or_else(|| "no frames".into(), |of| span(of.frames.keys()));
                apart.push(format!(
                    "{drive}: no frame of {} ({found}) has its stamp in {} ({})",
                    self.detections,
                    self.truth,
                    span(there.frames.keys())
                ));
            }
        }
        if num_common == 0 && !apart.is_empty() {
            let num_drives = apart.len();
            let mut message = apart.swap_remove(0);
            if num_drives > 1 {
                message += &format!("; nor in any other of {num_drives} drives");
            }
            return Err(Error::new(ErrorKind::Argument, "eval", message));
        }
        for drive in apart {
            tracing::warn!("{drive}");
        }
        Ok(())
    }

    /// Adds the frames of a drive; how many of them both topics have.
    fn match_frames(
        &mut self,
        drive: usize,
        found: Option<&Stream<D>>,
        there: &Stream<T>,
        count_missing: bool,
    ) -> usize {
        if let Some(found) = found.filter(|found| found.frame_id != there.frame_id) {
            tracing::warn!(
                "{} is in {:?}, {} in {:?}: compared as if they were one",
                found.topic,
                found.frame_id,
                there.topic,
                there.frame_id
            );
        }
        let mut num_common = 0;
        for (stamp, truth) in &there.frames {
            let detections = found.and_then(|found| found.frames.get(stamp));
            num_common += usize::from(detections.is_some());
            if detections.is_some() || count_missing {
                let detections = detections.cloned().unwrap_or_default();
                let parts = |stream: &BTreeMap<Stamp, Parts>| {
                    stream.get(stamp).cloned().unwrap_or_default()
                };
                let of_found = found.map(|found| parts(&found.parts)).unwrap_or_default();
                self.parts.push(FrameParts { truth: parts(&there.parts), detections: of_found });
                self.stamps.push(*stamp);
                self.drives.push(drive);
                self.frames.push(Frame { truth: truth.clone(), detections });
            }
        }
        self.num_truth_without_detections += there.frames.len() - num_common;
        self.num_detections_without_truth +=
            found.map_or(0, |found| found.frames.len()) - num_common;
        num_common
    }
}

fn span<'a>(stamps: impl DoubleEndedIterator<Item = &'a Stamp> + Clone) -> String {
    match (stamps.clone().next(), stamps.clone().next_back()) {
        (Some(first), Some(last)) => format!("{} frames, {first} to {last}", stamps.count()),
        _ => "no frames".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_lack_their_slash() {
        for (topic, name, expected) in [
            ("/lidar/truth", "/lidar/truth", true),
            ("/lidar/truth", "lidar/truth", true),
            ("lidar", "lidar", true),
            ("lidar", "/lidar", false),
            ("//lidar", "lidar", false),
        ] {
            assert_eq!(is_called(topic, name), expected, "{topic} {name}");
        }
    }
}
