//! Settings of a participant and of its readers and writers.

use crate::qos::Qos;
use crate::types::Assembler;

/// Which domain to join, and how.
#[derive(Clone, Debug)]
pub struct ParticipantSettings {
    /// The domain, 0 to 232.
    pub domain: u16,
    /// The interfaces that are used.
    pub interfaces: Interfaces,
    /// The name that peers see.
    pub name: String,
    /// User data of the participant; ROS 2 writes `enclave=/;`.
    pub user_data: Vec<u8>,
    /// The wanted size of a socket's receive buffer in bytes; the system may give less.
    pub receive_buffer_bytes: usize,
    /// What peers can make the participant keep.
    pub limits: Limits,
}

impl ParticipantSettings {
    /// A participant of `domain` on all interfaces, without name and user data.
    pub fn new(domain: u16) -> Self {
        Self {
            domain,
            interfaces: Interfaces::All,
            name: String::new(),
            user_data: Vec::new(),
            receive_buffer_bytes: 32 << 20,
            limits: Limits::default(),
        }
    }
}

/// The interfaces that a participant uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interfaces {
    /// Every interface that is up and has an IPv4 address.
    All,
    /// Those with one of these names or IPv4 addresses.
    Named(Vec<String>),
    /// Only this machine.
    Localhost,
    /// No other participant: no socket is opened.
    None,
}

/// What peers can make a participant keep. What is over a limit is refused or evicts
/// something else, and is counted in [`Statistics`](crate::Statistics).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Known participants.
    pub participants: usize,
    /// Known readers and writers of all participants.
    pub endpoints: usize,
    /// Matched endpoints of one reader or writer.
    pub matches: usize,
    /// Addresses of a kind that are read from an announcement.
    pub locators: usize,
    /// Bytes of a sample that arrives.
    pub sample_bytes: usize,
    /// Bytes of unfinished and waiting samples of a reader.
    pub reader_bytes: usize,
    /// Bytes of unfinished and waiting samples of all readers.
    pub participant_bytes: usize,
    /// Samples that a reader keeps until they are taken, where its history keeps all.
    pub reader_samples: usize,
    /// Bytes of samples that a writer keeps.
    pub writer_bytes: usize,
    /// Events that wait for [`Participant::next_event`](crate::Participant::next_event).
    pub events: usize,
    /// Datagrams that wait to be sent.
    pub datagrams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            participants: 512,
            endpoints: 8192,
            matches: 1024,
            locators: 16,
            sample_bytes: 64 << 20,
            reader_bytes: 64 << 20,
            participant_bytes: 256 << 20,
            reader_samples: 1024,
            writer_bytes: 64 << 20,
            events: 65_536,
            datagrams: 4096,
        }
    }
}

/// A reader to create.
pub struct ReaderSettings {
    /// DDS name of the topic, such as `rt/camera/image_raw`.
    pub topic: String,
    /// DDS name of the type, such as `sensor_msgs::msg::dds_::Image_`.
    pub type_name: String,
    /// Quality of service that is requested.
    pub qos: Qos,
    /// User data of the endpoint; ROS 2 writes `typehash=…;`.
    pub user_data: Vec<u8>,
    /// Where samples of more than a datagram are put together; `None` for memory of
    /// the participant.
    pub assembler: Option<Box<dyn Assembler>>,
}

/// A writer to create.
#[derive(Clone, Debug)]
pub struct WriterSettings {
    /// DDS name of the topic.
    pub topic: String,
    /// DDS name of the type.
    pub type_name: String,
    /// Quality of service that is offered.
    pub qos: Qos,
    /// User data of the endpoint.
    pub user_data: Vec<u8>,
    /// Samples over the depth that a reliable writer keeps for readers that have not
    /// confirmed them. With 0, a new sample always replaces the oldest of the depth.
    pub keep_unconfirmed: usize,
}
