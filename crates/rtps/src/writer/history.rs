//! The samples that a writer keeps (8.4.7.1), and the messages that carry them.

use std::time::Instant;

use crate::bounded::Bounded;
use crate::types::{EntityId, GuidPrefix};
use crate::wire::{DataParts, FragmentParts, Message, Payload};

/// Bytes of a fragment; a sample of more is sent in fragments, each in a datagram. A
/// multiple of four: some readers refuse others.
pub(crate) const FRAGMENT: usize = 16_000;

/// A sample that is sent.
pub(crate) struct Change {
    /// With its end; empty for none.
    pub inline: Vec<u8>,
    pub payload: Vec<u8>,
    pub is_key: bool,
    /// Nanoseconds since 1970.
    pub timestamp: i64,
    /// When it was sent last.
    pub sent: Instant,
}

impl Change {
    fn num_fragments(&self) -> usize {
        if self.payload.len() <= FRAGMENT { 0 } else { self.payload.len().div_ceil(FRAGMENT) }
    }
}

/// To whom a message is.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub from: GuidPrefix,
    pub writer: EntityId,
    /// `None` for every participant.
    pub to: Option<GuidPrefix>,
    pub reader: EntityId,
}

impl Address {
    pub fn ids(self) -> [EntityId; 2] {
        [self.reader, self.writer]
    }

    /// A message to it, without submessages.
    pub fn message(self) -> Message {
        let message = Message::from(self.from);
        match self.to {
            Some(to) => message.to(to),
            None => message,
        }
    }
}

/// The messages of a whole sample.
pub(super) fn messages(number: i64, change: &Change, address: Address) -> Vec<Message> {
    if change.num_fragments() > 0 {
        let all = 1..=change.num_fragments() as i64;
        return all
            .filter_map(|fragment| fragment_message(number, change, fragment, address))
            .collect();
    }
    let mut message = address.message();
    message.timestamp(change.timestamp);
    let bytes = &change.payload[..];
    message.data(&DataParts {
        reader: address.reader,
        writer: address.writer,
        number,
        inline: &change.inline,
        payload: if change.is_key { Payload::Key(bytes) } else { Payload::Data(bytes) },
    });
    vec![message]
}

/// The message of one fragment, from 1; `None` when the sample has none of that number.
pub(super) fn fragment_message(
    number: i64,
    change: &Change,
    fragment: i64,
    address: Address,
) -> Option<Message> {
    let fragment = u32::try_from(fragment).ok().filter(|fragment| *fragment >= 1)?;
    if fragment as usize > change.num_fragments() {
        return None;
    }
    let payload = change.payload.chunks(FRAGMENT).nth(fragment as usize - 1)?;
    let mut message = address.message();
    message.timestamp(change.timestamp);
    message.data_frag(&FragmentParts {
        reader: address.reader,
        writer: address.writer,
        number,
        fragment,
        size: FRAGMENT as u16,
        total: u32::try_from(change.payload.len()).ok()?,
        inline: if fragment == 1 { &change.inline } else { &[] },
        payload,
    });
    Some(message)
}

/// The samples, by their numbers.
pub(super) struct History {
    pub changes: Bounded<i64, Change>,
    pub bytes: usize,
}

impl History {
    pub fn new(limit: usize) -> Self {
        Self { changes: Bounded::new(limit), bytes: 0 }
    }

    pub fn add(&mut self, number: i64, change: Change) {
        self.bytes += size(&change);
        if !self.changes.insert(number, change) {
            self.recount();
        }
    }

    pub fn remove(&mut self, number: i64) {
        if let Some(change) = self.changes.remove(&number) {
            self.bytes = self.bytes.saturating_sub(size(&change));
        }
    }

    pub fn first(&self) -> Option<i64> {
        self.changes.first().map(|(number, _)| *number)
    }

    pub fn pop_first(&mut self) {
        if let Some((_, change)) = self.changes.pop_first() {
            self.bytes = self.bytes.saturating_sub(size(&change));
        }
    }

    fn recount(&mut self) {
        self.bytes = self.changes.iter().map(|(_, change)| size(change)).sum();
    }
}

fn size(change: &Change) -> usize {
    change.payload.len() + change.inline.len() + size_of::<Change>()
}
