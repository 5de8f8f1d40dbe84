//! The frames of a buffer and their edges, in a table of bounded size.
//!
//! A full table evicts a frame for a new one. Only leaves are evicted, since paths
//! between other frames contain the inner ones. Leaves that no lookup has used are
//! evicted first, then the one used longest ago; among equals, the one updated
//! longest ago.

use std::cell::Cell;
use std::collections::HashMap;

use super::motion::Motion;

pub(super) type FrameIndex = usize;

/// From a frame to its parent.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub parent: FrameIndex,
    pub motion: Motion,
}

#[derive(Clone, Debug, Default)]
struct Frame {
    /// Empty for a free slot.
    name: Box<str>,
    edge: Option<Edge>,
    /// The tick of the last transform that named the frame.
    updated: u64,
    /// The tick of the last lookup whose path contained the frame; 0 for none.
    used: Cell<u64>,
}

/// A forest of named frames. An index is valid until its frame is evicted.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    slots: Vec<Frame>,
    free: Vec<FrameIndex>,
    index_of: HashMap<Box<str>, FrameIndex>,
    /// Orders updates and lookups.
    tick: Cell<u64>,
}

impl Frames {
    pub fn len(&self) -> usize {
        self.index_of.len()
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn find(&self, name: &str) -> Option<FrameIndex> {
        self.index_of.get(name).copied()
    }

    pub fn name(&self, frame: FrameIndex) -> &str {
        &self.slots[frame].name
    }

    pub fn edge(&self, frame: FrameIndex) -> Option<&Edge> {
        self.slots[frame].edge.as_ref()
    }

    pub fn edge_mut(&mut self, frame: FrameIndex) -> &mut Option<Edge> {
        &mut self.slots[frame].edge
    }

    pub fn edges_mut(&mut self) -> impl Iterator<Item = &mut Option<Edge>> {
        self.slots.iter_mut().map(|frame| &mut frame.edge)
    }

    /// The frame of a name, added if it is unknown, and marked as updated now.
    pub fn update(&mut self, name: &str) -> FrameIndex {
        let updated = self.next_tick();
        let index = self.find(name).unwrap_or_else(|| {
            let index = self.free.pop().unwrap_or(self.slots.len());
            if index == self.slots.len() {
                self.slots.push(Frame::default());
            }
            self.slots[index] = Frame { name: name.into(), ..Frame::default() };
            self.index_of.insert(name.into(), index);
            index
        });
        self.slots[index].updated = updated;
        index
    }

    /// Marks frames as used by a lookup.
    pub fn mark_used(&self, frames: impl Iterator<Item = FrameIndex>) {
        let now = self.next_tick();
        frames.for_each(|frame| self.slots[frame].used.set(now));
    }

    /// Evicts `count` frames, but none of `kept`. Returns `false`, and evicts none,
    /// when there are not enough candidates.
    pub fn evict(&mut self, count: usize, kept: [&str; 2]) -> bool {
        let num_kept = kept.iter().filter(|name| self.find(name).is_some()).count();
        // With one kept frame there may be no other leaf; with none there always is.
        if self.len() < num_kept + count || (num_kept > 0 && self.next_to_evict(kept).is_none()) {
            return false;
        }
        for _ in 0..count {
            let Some(index) = self.next_to_evict(kept) else { return false };
            let dropped = std::mem::take(&mut self.slots[index]);
            self.index_of.remove(&dropped.name);
            self.free.push(index);
        }
        true
    }

    fn next_to_evict(&self, kept: [&str; 2]) -> Option<FrameIndex> {
        let mut is_leaf = vec![true; self.slots.len()];
        self.slots.iter().filter_map(|frame| frame.edge.as_ref()).for_each(|edge| {
            is_leaf[edge.parent] = false;
        });
        self.index_of
            .values()
            .copied()
            .filter(|index| is_leaf[*index] && !kept.contains(&self.name(*index)))
            .min_by_key(|index| (self.slots[*index].used.get(), self.slots[*index].updated))
    }

    fn next_tick(&self) -> u64 {
        self.tick.set(self.tick.get() + 1);
        self.tick.get()
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::Isometry3;

    use super::super::{TfBuffer, TfLimits, TfLosses};
    use det_post_types::Stamp;

    fn secs(seconds: f64) -> Stamp {
        Stamp::from_nanos((seconds * 1e9).round() as i64)
    }

    #[test]
    fn frames_are_bounded() {
        let mut buffer = TfBuffer::new(TfLimits { max_frames: 3, ..TfLimits::default() });
        let one = Isometry3::identity();
        buffer.insert("a", "b", secs(0.0), one, true).unwrap();
        buffer.insert("a", "c", secs(0.0), one, true).unwrap();
        buffer.insert("c", "b", secs(0.0), one, true).unwrap();
        // A chain, whose only leaf is the parent of what is new: nothing can make room.
        assert!(buffer.insert("b", "d", secs(0.0), one, true).is_err());
        assert!(buffer.lookup("a", "b", secs(0.0)).is_ok());
        // The leaf makes room.
        buffer.insert("a", "d", secs(0.0), one, true).unwrap();
        assert!(buffer.lookup("a", "d", secs(0.0)).is_ok());
        assert!(buffer.lookup("a", "b", secs(0.0)).is_err());
        let losses =
            TfLosses { num_samples_dropped: 0, num_frames_dropped: 1, num_transforms_refused: 1 };
        assert_eq!(buffer.losses(), losses);
        // Two new frames in the place of two, though the second is a leaf only then.
        buffer.insert("x", "y", secs(0.0), one, true).unwrap();
        assert_eq!((buffer.frames.len(), buffer.losses().num_frames_dropped), (3, 3));
        assert!(buffer.lookup("x", "y", secs(0.0)).is_ok());
        let mut tiny = TfBuffer::new(TfLimits { max_frames: 1, ..TfLimits::default() });
        assert!(tiny.insert("a", "b", secs(0.0), one, true).is_err());
        assert_eq!(tiny.frames.len(), 0);
    }

    /// 512 unused frames must not keep others out.
    #[test]
    fn frames_without_lookups_are_evicted_first() {
        let mut buffer = TfBuffer::default();
        let one = Isometry3::identity();
        let junk = |buffer: &mut TfBuffer, round: usize| {
            for index in 0..600 {
                let child = format!("junk_{round}_{index}");
                buffer.insert("junk", &child, secs(0.0), one, true).unwrap();
            }
        };
        // Good transforms arrive after a flood, and stay through the next ones once they
        // have been needed.
        junk(&mut buffer, 0);
        buffer.insert("map", "base", secs(0.0), one, true).unwrap();
        buffer.insert("base", "lidar", secs(0.0), one, true).unwrap();
        for round in 1..4 {
            assert!(buffer.lookup("map", "lidar", secs(0.0)).is_ok(), "round {round}");
            junk(&mut buffer, round);
            assert_eq!(buffer.frames.len(), 512);
        }
        assert!(buffer.lookup("map", "lidar", secs(0.0)).is_ok());
        // Frames of a tree are dropped one by one as others are needed.
        assert!(buffer.lookup("junk", "junk_3_599", secs(0.0)).is_ok());
        assert!(buffer.lookup("junk", "junk_3_0", secs(0.0)).is_err());
        assert!(buffer.losses().num_frames_dropped > 1000);
        assert_eq!(buffer.losses().num_transforms_refused, 0);
    }
}
