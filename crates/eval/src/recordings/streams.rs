//! Frames by topic and stamp: detections and truth, read into memory.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::parts::Parts;
use det_post_types::Stamp;

/// What one topic says, frame by frame.
pub struct Stream<T> {
    /// Short name for files and tables: the channel, or the topic.
    pub name: String,
    /// Topic.
    pub topic: String,
    /// Frame of reference of its first message.
    pub frame_id: String,
    /// By stamp.
    pub frames: BTreeMap<Stamp, Vec<T>>,
    /// By stamp, of frames with masks or keypoints.
    pub parts: BTreeMap<Stamp, Parts>,
}

/// All topics of one source, by sensor.
pub struct Streams<C, L> {
    pub cameras: Vec<Stream<C>>,
    pub lidars: Vec<Stream<L>>,
    /// What is wrong with the source; empty for a sound one.
    pub damage: Vec<String>,
    /// Frames left out because their topic has one of that stamp already.
    pub num_repeated: usize,
    /// Frames of truth left out because half of them is missing.
    pub num_incomplete: usize,
    /// Of detections whose scores are no probabilities.
    pub outside: Option<OutsideScores>,
}

/// Finite scores below 0 or above 1, such as logits or percentages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutsideScores {
    num_detections: usize,
    lowest: f32,
    highest: f32,
    /// Where the first of them was read.
    first: String,
}

impl OutsideScores {
    /// What they mean for the figures.
    pub fn describe(&self) -> String {
        let Self { num_detections, lowest, highest, first } = self;
        format!(
            "{num_detections} scores outside 0 to 1, from {lowest} to {highest} (first in {first}): they rank \
             detections, and are left out of the calibration"
        )
    }
}

impl<C, L> Streams<C, L> {
    pub fn new() -> Self {
        Self {
            cameras: Vec::new(),
            lidars: Vec::new(),
            damage: Vec::new(),
            num_repeated: 0,
            num_incomplete: 0,
            outside: None,
        }
    }
}

/// The most entries of what is wrong with a source.
const MAX_DAMAGE: usize = 100;

impl<C, L> Streams<C, L> {
    /// Notes what is wrong with a part of the source, which is left out.
    pub fn add_damage(&mut self, message: impl FnOnce() -> String) {
        match self.damage.len() {
            num if num < MAX_DAMAGE => self.damage.push(message()),
            MAX_DAMAGE => self.damage.push("further damage is not listed".to_owned()),
            _ => {}
        }
    }

    /// Notes the scores of a frame that are outside 0 to 1.
    pub fn check_scores(&mut self, scores: impl Iterator<Item = f32>, place: impl Fn() -> String) {
        for score in scores.filter(|score| score.is_finite() && !(0.0..=1.0).contains(score)) {
            let outside = self.outside.get_or_insert_with(|| OutsideScores {
                num_detections: 0,
                lowest: score,
                highest: score,
                first: place(),
            });
            outside.num_detections += 1;
            outside.lowest = outside.lowest.min(score);
            outside.highest = outside.highest.max(score);
        }
    }
}

/// Adds a frame to its topic; returns whether the stamp was new there.
pub fn insert<T>(
    streams: &mut Vec<Stream<T>>,
    [name, topic, frame_id]: [&str; 3],
    stamp: Stamp,
    objects: Vec<T>,
) -> bool {
    let at = streams.iter().position(|stream| stream.topic == topic).unwrap_or_else(|| {
        let [name, topic, frame_id] = [name, topic, frame_id].map(str::to_owned);
        let (frames, parts) = (BTreeMap::new(), BTreeMap::new());
        streams.push(Stream { name, topic, frame_id, frames, parts });
        streams.len() - 1
    });
    let frames = &mut streams[at].frames;
    let is_new = !frames.contains_key(&stamp);
    if is_new {
        frames.insert(stamp, objects);
    }
    is_new
}

/// Class names to indices, in the order of their first use.
#[derive(Default)]
pub struct Classes {
    names: Vec<String>,
    /// Of each name its number in the network, where a file of detections has it.
    numbers: Vec<Option<u32>>,
}

impl Classes {
    /// The index of a name.
    pub fn index(&mut self, name: &str) -> u32 {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.numbers.push(None);
            self.names.len() - 1
        });
        at as u32
    }

    /// The index of a name whose number in the network is known. The first number of a name holds.
    pub fn numbered(&mut self, name: &str, number: Option<u32>) -> u32 {
        let index = self.index(name);
        if let Some(known) = self.numbers.get_mut(index as usize) {
            *known = known.or(number);
        }
        index
    }

    /// Of each name the number in its network, by which pictures of frames have their colours, else
    /// its index.
    pub fn numbers(&self) -> Vec<u32> {
        self.numbers.iter().zip(0..).map(|(number, index)| number.unwrap_or(index)).collect()
    }

    /// Names by their indices.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Names with their indices, by name.
    pub fn by_name(&self) -> Vec<(&str, u32)> {
        let mut names: Vec<_> =
            self.names.iter().enumerate().map(|(at, name)| (name.as_str(), at as u32)).collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_the_colours_of_their_network() {
        let mut classes = Classes::default();
        for (name, number) in [
            ("truck", None),
            ("car", Some(0)),
            ("truck", Some(1)),
            ("truck", Some(7)),
            ("bus", None),
        ] {
            classes.numbered(name, number);
        }
        assert_eq!(classes.names(), ["truck", "car", "bus"]);
        assert_eq!(classes.numbers(), [1, 0, 2]);
    }
}
