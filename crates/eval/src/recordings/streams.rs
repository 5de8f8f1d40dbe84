//! Frames by topic and stamp: detections and truth, read into memory.

use std::collections::BTreeMap;

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
}

impl<C, L> Streams<C, L> {
    pub fn new() -> Self {
        Self {
            cameras: Vec::new(),
            lidars: Vec::new(),
            damage: Vec::new(),
            num_repeated: 0,
            num_incomplete: 0,
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
pub struct Classes(Vec<String>);

impl Classes {
    /// The index of a name.
    pub fn index(&mut self, name: &str) -> u32 {
        let at = self.0.iter().position(|known| known == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        at as u32
    }

    /// Names by their indices.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Names with their indices, by name.
    pub fn by_name(&self) -> Vec<(&str, u32)> {
        let mut names: Vec<_> =
            self.0.iter().enumerate().map(|(at, name)| (name.as_str(), at as u32)).collect();
        names.sort_unstable();
        names
    }
}
