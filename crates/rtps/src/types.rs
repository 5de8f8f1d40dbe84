//! Identifiers, samples and events.

use std::any::Any;
use std::fmt;
use std::net::Ipv4Addr;

use crate::qos::Qos;

/// The part of a [`Guid`] that names a participant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GuidPrefix(pub [u8; 12]);

/// The part of a [`Guid`] that names a reader or writer of a participant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityId(pub [u8; 4]);

/// The global identifier of a participant, reader or writer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid {
    /// The participant.
    pub prefix: GuidPrefix,
    /// The reader or writer, or [`EntityId::PARTICIPANT`].
    pub entity: EntityId,
}

impl EntityId {
    /// No or any entity.
    pub const UNKNOWN: Self = Self([0; 4]);
    /// The participant itself.
    pub const PARTICIPANT: Self = Self([0, 0, 1, 0xc1]);
}

impl Guid {
    /// The 16 bytes as on the wire.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..12].copy_from_slice(&self.prefix.0);
        bytes[12..].copy_from_slice(&self.entity.0);
        bytes
    }

    /// From the 16 bytes as on the wire.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self {
            prefix: GuidPrefix(std::array::from_fn(|i| bytes[i])),
            entity: EntityId(std::array::from_fn(|i| bytes[12 + i])),
        }
    }
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Debug for GuidPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}.{:?}", self.prefix, self.entity)
    }
}

/// A sample by its writer and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleIdentity {
    /// The writer, or the reader that Fast DDS clients name in its place.
    pub writer: Guid,
    /// The sequence number, from 1.
    pub number: i64,
}

/// A sample that has arrived.
#[derive(Debug)]
pub struct Sample {
    /// Its writer.
    pub writer: Guid,
    /// Its sequence number, from 1.
    pub number: i64,
    /// When it was written, in nanoseconds since 1970 of the writer's clock.
    pub source_timestamp: Option<i64>,
    /// The request that it answers, or by which a Fast DDS client names itself. An unknown
    /// number has been replaced by the sample's number.
    pub related: Option<SampleIdentity>,
    /// Encapsulation header and CDR. Empty for a sample without data.
    pub data: SampleData,
}

/// The bytes of a sample.
pub enum SampleData {
    /// In memory of the participant.
    Owned(Vec<u8>),
    /// In the buffer that the reader's [`Assembler`] gave.
    Target(Box<dyn Target>),
}

impl SampleData {
    /// The bytes: encapsulation header and CDR.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Target(target) => target.bytes(),
        }
    }
}

impl fmt::Debug for SampleData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if matches!(self, Self::Owned(_)) { "Owned" } else { "Target" };
        write!(f, "{name}({} bytes)", self.bytes().len())
    }
}

/// Gives buffers for samples that arrive in fragments, so that they are copied once from
/// the socket's buffer to where they are used.
///
/// Called on the participant's thread with its state locked: it returns at once, and calls
/// neither the participant nor its readers and writers.
pub trait Assembler: Send {
    /// A buffer of exactly `len` bytes for a sample, encapsulation header included; `None`
    /// for memory of the participant. `start` is the beginning of the sample as far as the
    /// first fragment that arrived holds it; empty when another fragment arrived first.
    /// `len` is within the limits, but a claim of the peer: the sample may stay unfinished, and
    /// the buffer is then dropped.
    fn target(&mut self, writer: Guid, len: usize, start: &[u8]) -> Option<Box<dyn Target>>;
}

/// A buffer for one sample.
pub trait Target: Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, to be filled.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// The buffer as its type, for a downcast after the sample is taken.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// What accompanies a sample that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The request that the sample answers. Written as 0x0083 and as 0x800f, which older
    /// Fast DDS clients read.
    pub related: Option<SampleIdentity>,
    /// When the sample was made, in nanoseconds since 1970; `None` for now.
    pub source_timestamp: Option<i64>,
}

/// Whether an endpoint reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointKind {
    /// It receives samples.
    Reader,
    /// It sends samples.
    Writer,
}

/// A reader or writer of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointInfo {
    /// Its identifier.
    pub guid: Guid,
    /// Whether it reads or writes.
    pub kind: EndpointKind,
    /// DDS name of the topic.
    pub topic: String,
    /// DDS name of the type.
    pub type_name: String,
    /// Its quality of service.
    pub qos: Qos,
    /// Its user data.
    pub user_data: Vec<u8>,
}

/// Another participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParticipantInfo {
    /// Its identifier, with [`EntityId::PARTICIPANT`].
    pub guid: Guid,
    /// Its name, empty when it has none.
    pub name: String,
    /// Its user data.
    pub user_data: Vec<u8>,
    /// The implementation: two bytes that OMG assigns.
    pub vendor: [u8; 2],
    /// The address that it announced and that is used to reach it.
    pub address: Ipv4Addr,
}

/// Why a participant is no longer known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// It said that it leaves.
    Left,
    /// It was silent for longer than it announced.
    Lost,
    /// The table of participants was full.
    Evicted,
}

/// Why two endpoints of a topic do not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The peer's type has this other DDS name.
    TypeName(String),
    /// The writer is best effort, the reader reliable.
    Reliability,
    /// The writer keeps less for late readers than the reader wants.
    Durability,
    /// The reader wants samples more often than the writer promises.
    Deadline,
    /// The reader wants another or a quicker sign of life.
    Liveliness,
    /// The peer wants exclusive ownership, which is not served.
    Ownership,
    /// The peer is in other partitions than the default one, which are not served.
    Partition,
    /// The reader wants the order of source times.
    DestinationOrder,
    /// The reader wants groups of samples in order, which are not served.
    Presentation,
}

impl Mismatch {
    /// ROS's name of the policy; `type` for types.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TypeName(_) => "type",
            Self::Reliability => "reliability",
            Self::Durability => "durability",
            Self::Deadline => "deadline",
            Self::Liveliness => "liveliness",
            Self::Ownership => "ownership",
            Self::Partition => "partition",
            Self::DestinationOrder => "destination order",
            Self::Presentation => "presentation",
        }
    }
}

/// What happened in the domain, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A participant is known.
    ParticipantDiscovered(ParticipantInfo),
    /// A participant is no longer known. Events of its endpoints precede this one.
    ParticipantRemoved {
        /// The participant.
        guid: Guid,
        /// Why.
        reason: RemovalReason,
    },
    /// A reader or writer of a peer is known, or has changed.
    EndpointDiscovered(EndpointInfo),
    /// A reader or writer of a peer is no longer known.
    EndpointRemoved {
        /// The endpoint.
        guid: Guid,
        /// Whether it was a reader or a writer.
        kind: EndpointKind,
    },
    /// A reader or writer of ours and one of a peer match.
    Matched {
        /// Ours.
        ours: Guid,
        /// The peer's.
        theirs: Guid,
    },
    /// They no longer match: one of them is gone or has changed. Not reported for a reader
    /// or writer of ours that is deleted.
    Unmatched {
        /// Ours.
        ours: Guid,
        /// The peer's.
        theirs: Guid,
    },
    /// A peer on a topic of ours cannot match. Reported once until the peer changes; its
    /// end is [`Event::EndpointRemoved`].
    Incompatible {
        /// Ours.
        ours: Guid,
        /// The peer's.
        theirs: Guid,
        /// The first policy that differs.
        mismatch: Mismatch,
    },
    /// Samples that a reader of ours will not get.
    Lost {
        /// The reader.
        reader: Guid,
        /// The writer of the samples.
        writer: Guid,
        /// How many.
        count: u64,
    },
}

/// Counters since the participant was created, and what is kept now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Datagrams and submessages that are not RTPS as specified.
    pub malformed: u64,
    /// Datagrams in the name of a known participant from an address that it did not announce.
    pub forged: u64,
    /// Datagrams of participants that are not known, but their announcements.
    pub strangers: u64,
    /// Participants that the limit refused or evicted.
    pub participants_over_limit: u64,
    /// Endpoints that the limit refused or evicted.
    pub endpoints_over_limit: u64,
    /// Matches that the limit refused.
    pub matches_over_limit: u64,
    /// Samples that exceeded the limit of a sample.
    pub samples_over_limit: u64,
    /// Unfinished samples that were dropped for memory or silence.
    pub unfinished_dropped: u64,
    /// Complete samples that newer ones replaced before they were taken.
    pub samples_replaced: u64,
    /// Bytes that were copied from datagrams to samples, into memory of an
    /// [`Assembler`] or of the participant: of a sample that arrives once, its length.
    pub copied_bytes: u64,
    /// Events that were dropped because they were not taken.
    pub events_dropped: u64,
    /// Datagrams that were dropped because too many waited to be sent, or the system
    /// refused them.
    pub sends_dropped: u64,
    /// Readers that were given up as stalled.
    pub stalled: u64,
    /// Writers of peers that started a new numbering.
    pub renumbered: u64,
    /// Participants known now.
    pub participants: usize,
    /// Endpoints of peers known now.
    pub endpoints: usize,
    /// Bytes of unfinished and waiting samples now.
    pub held_bytes: usize,
    /// Bytes in histories of writers now.
    pub history_bytes: usize,
}
