//! A sample that arrives in fragments (8.4.14.1): memory follows what arrives, not what a
//! fragment claims.

use std::time::Instant;

use crate::types::{Sample, SampleData, SampleIdentity, Target};
use crate::wire::{DataFrag, NumberSet};

/// The most fragments of a sample, which bounds the record of those that arrived.
const MAX_FRAGMENTS: usize = 1 << 17;

/// How far beyond what arrived a fragment may lie. One that lies farther is dropped, and
/// asked for again.
const SLACK: usize = 1 << 20;

/// An unfinished sample.
pub(crate) struct Assembly {
    pub related: Option<SampleIdentity>,
    pub source_timestamp: Option<i64>,
    /// When a new fragment arrived.
    pub grown: Instant,
    total: usize,
    size: usize,
    buffer: Buffer,
    /// A bit for each fragment up to the last that arrived.
    arrived: Vec<u64>,
    num_arrived: usize,
    /// All before it arrived.
    first_missing: usize,
}

enum Buffer {
    Owned(Vec<u8>),
    Target(Box<dyn Target>),
}

/// Whether the claims of a fragment can be served.
pub(crate) fn is_servable(fragment: &DataFrag<'_>, max_bytes: usize) -> bool {
    let (total, size) = (fragment.total as usize, usize::from(fragment.size));
    total <= max_bytes && total.div_ceil(size) <= MAX_FRAGMENTS
}

impl Assembly {
    /// Nothing has arrived of the sample of `fragment`; it goes to `target` if its length is
    /// the sample's, else to memory of its own.
    pub fn new(fragment: &DataFrag<'_>, target: Option<Box<dyn Target>>, now: Instant) -> Self {
        let total = fragment.total as usize;
        let buffer = match target {
            Some(target) if target.bytes().len() == total => Buffer::Target(target),
            _ => Buffer::Owned(Vec::new()),
        };
        Self {
            related: None,
            source_timestamp: None,
            grown: now,
            total,
            size: fragment.size.into(),
            buffer,
            arrived: Vec::new(),
            num_arrived: 0,
            first_missing: 0,
        }
    }

    /// Bytes that it holds in memory of the participant.
    pub fn held(&self) -> usize {
        let buffer = match &self.buffer {
            Buffer::Owned(bytes) => bytes.capacity(),
            Buffer::Target(_) => 0,
        };
        buffer + self.arrived.capacity() * size_of::<u64>()
    }

    fn num_fragments(&self) -> usize {
        self.total.div_ceil(self.size)
    }

    pub fn is_complete(&self) -> bool {
        self.num_arrived == self.num_fragments()
    }

    /// Adds what a submessage carries; returns how many bytes of it were new.
    pub fn add(&mut self, fragment: &DataFrag<'_>, now: Instant) -> usize {
        if fragment.total as usize != self.total || usize::from(fragment.size) != self.size {
            return 0;
        }
        if let Some(inline) = &fragment.inline {
            self.related = self.related.or(inline.related);
        }
        let start = fragment.first as usize - 1;
        let count = usize::from(fragment.count.max(1));
        let mut added = 0;
        let pieces = fragment.payload.chunks(self.size).take(count);
        for (index, piece) in (start..self.num_fragments()).zip(pieces) {
            added += self.add_one(index, piece);
        }
        if added > 0 {
            self.grown = now;
        }
        added
    }

    fn add_one(&mut self, index: usize, piece: &[u8]) -> usize {
        let offset = index * self.size;
        let len = self.size.min(self.total - offset);
        let Some(piece) = piece.get(..len) else { return 0 };
        if self.has(index) || !self.store(offset, piece) {
            return 0;
        }
        if self.arrived.len() <= index / 64 {
            self.arrived.resize(index / 64 + 1, 0);
        }
        self.arrived[index / 64] |= 1 << (index % 64);
        self.num_arrived += 1;
        while self.has(self.first_missing) {
            self.first_missing += 1;
        }
        len
    }

    fn has(&self, index: usize) -> bool {
        self.arrived.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn store(&mut self, offset: usize, piece: &[u8]) -> bool {
        let end = offset + piece.len();
        match &mut self.buffer {
            Buffer::Target(target) => match target.bytes_mut().get_mut(offset..end) {
                Some(place) => place.copy_from_slice(piece),
                None => return false,
            },
            Buffer::Owned(bytes) => {
                if end > bytes.len() {
                    if offset > self.num_arrived * self.size + SLACK {
                        return false;
                    }
                    grow(bytes, end, self.total);
                    bytes.resize(offset.max(bytes.len()), 0);
                }
                let over = bytes.len() - offset;
                let (old, new) = piece.split_at(over.min(piece.len()));
                bytes[offset..offset + old.len()].copy_from_slice(old);
                bytes.extend_from_slice(new);
            }
        }
        true
    }

    /// Fragments that are missing, from 1, in at most `sets` sets.
    pub fn missing(&self, sets: usize) -> Vec<NumberSet> {
        let mut found: Vec<NumberSet> = Vec::new();
        let mut index = self.first_missing;
        while index < self.num_fragments() {
            if self.has(index) {
                index += 1;
                continue;
            }
            if found.len() == sets {
                break;
            }
            let mut set = NumberSet::new(index as i64 + 1);
            let end = self.num_fragments().min(index + NumberSet::MAX as usize);
            (index..end).filter(|i| !self.has(*i)).for_each(|i| set.insert(i as i64 + 1));
            found.push(set);
            index = end;
        }
        found
    }

    /// The sample, once it is complete.
    pub fn finish(self) -> SampleData {
        match self.buffer {
            Buffer::Owned(bytes) => SampleData::Owned(bytes),
            Buffer::Target(target) => SampleData::Target(target),
        }
    }
}

/// Reserves room up to `end` and a quarter more, but no more than `total`.
fn grow(bytes: &mut Vec<u8>, end: usize, total: usize) {
    if end > bytes.capacity() {
        let wanted = (end + end / 4 + 4096).min(total).max(end);
        bytes.reserve_exact(wanted - bytes.len());
    }
}

/// An unknown number in the related identity is the sample's: Fast DDS clients leave it out.
pub(super) fn resolved(mut sample: Sample) -> Sample {
    if let Some(related) = &mut sample.related
        && related.number <= 0
    {
        related.number = sample.number;
    }
    sample
}

/// Bytes of the participant's memory that a sample holds, with what surrounds it.
pub(super) fn held_by(sample: &Sample) -> usize {
    let data = match &sample.data {
        SampleData::Owned(bytes) => bytes.capacity(),
        SampleData::Target(_) => 0,
    };
    data + size_of::<Sample>()
}
