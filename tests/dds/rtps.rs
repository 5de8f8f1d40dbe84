//! RTPS datagrams written byte by byte, valid or not, and a peer that sends them.

use std::net::UdpSocket;

/// The part of an identifier that names a participant.
pub type Prefix = [u8; 12];
/// The part of an identifier that names a reader or writer of it.
pub type Entity = [u8; 4];

pub const UNKNOWN: Entity = [0; 4];
pub const SPDP_WRITER: Entity = [0, 1, 0, 0xc2];
pub const SPDP_READER: Entity = [0, 1, 0, 0xc7];
pub const SEDP_TOPICS_WRITER: Entity = [0, 0, 2, 0xc2];
pub const SEDP_WRITERS_WRITER: Entity = [0, 0, 3, 0xc2];
pub const SEDP_WRITERS_READER: Entity = [0, 0, 3, 0xc7];
pub const SEDP_READERS_WRITER: Entity = [0, 0, 4, 0xc2];
pub const SEDP_READERS_READER: Entity = [0, 0, 4, 0xc7];
pub const LIVELINESS_WRITER: Entity = [0, 2, 0, 0xc2];

/// Kinds of submessages.
pub const ACK_NACK: u8 = 0x06;
pub const HEARTBEAT: u8 = 0x07;
pub const GAP: u8 = 0x08;
pub const NACK_FRAG: u8 = 0x12;
pub const DATA: u8 = 0x15;
pub const DATA_FRAG: u8 = 0x16;

/// Every field is little endian.
const LITTLE_ENDIAN: u8 = 1;
const WITH_INLINE_QOS: u8 = 2;
const WITH_DATA: u8 = 4;

/// A datagram that is being written.
#[derive(Clone)]
pub struct Datagram(pub Vec<u8>);

/// A fragment of a message.
#[derive(Clone, Copy)]
pub struct Fragment {
    /// From 1.
    pub start: u32,
    /// Of how many bytes all but the last are.
    pub size: u16,
    /// Bytes of the whole message.
    pub total: u32,
}

impl Datagram {
    /// From a participant, no submessage yet.
    pub fn from(prefix: Prefix) -> Self {
        Self([b"RTPS\x02\x04\x01\x10".as_slice(), &prefix].concat())
    }

    /// Appends a submessage.
    pub fn submessage(mut self, kind: u8, flags: u8, body: &[u8]) -> Self {
        let len = u16::try_from(body.len()).unwrap();
        self.0.extend([kind, flags | LITTLE_ENDIAN]);
        self.0.extend(len.to_le_bytes());
        self.0.extend(body);
        self
    }

    /// What the writer has: numbers from `first` to `last`.
    pub fn heartbeat(self, writer: Entity, first: i64, last: i64, count: i32) -> Self {
        let body = [&UNKNOWN[..], &writer, &number(first), &number(last), &count.to_le_bytes()];
        self.submessage(HEARTBEAT, 0, &body.concat())
    }

    /// Numbers from `start` to before `base`, and those set in `bits` from `base` on, do not exist.
    pub fn gap(self, writer: Entity, start: i64, base: i64, bits: u32) -> Self {
        let body = [&UNKNOWN[..], &writer, &number(start), &number(base), &bits_of(bits)];
        self.submessage(GAP, 0, &body.concat())
    }

    /// A reader has all before `base`, and asks for what is set in `bits`.
    pub fn ack_nack(self, [reader, writer]: [Entity; 2], base: i64, bits: u32, count: i32) -> Self {
        let count = count.to_le_bytes();
        let body = [&reader[..], &writer, &number(base), &bits_of(bits), &count];
        self.submessage(ACK_NACK, 0, &body.concat())
    }

    /// A reader asks for fragments of a message.
    pub fn nack_frag(
        self,
        [reader, writer]: [Entity; 2],
        message: i64,
        base: u32,
        count: i32,
    ) -> Self {
        let body = [
            &reader[..],
            &writer,
            &number(message),
            &base.to_le_bytes(),
            &bits_of(u32::MAX),
            &count.to_le_bytes(),
        ];
        self.submessage(NACK_FRAG, 0, &body.concat())
    }

    /// A message, or a discovery sample.
    pub fn data(self, [reader, writer]: [Entity; 2], message: i64, payload: &[u8]) -> Self {
        self.data_with(&[], [reader, writer], message, payload)
    }

    /// A message with a list of parameters beside it, which may be any bytes.
    pub fn data_with(
        self,
        inline_qos: &[u8],
        [reader, writer]: [Entity; 2],
        message: i64,
        payload: &[u8],
    ) -> Self {
        let flags = WITH_DATA | if inline_qos.is_empty() { 0 } else { WITH_INLINE_QOS };
        let body = [&[0, 0, 16, 0], &reader[..], &writer, &number(message), inline_qos, payload];
        self.submessage(DATA, flags, &body.concat())
    }

    /// A fragment of a message.
    pub fn data_frag(
        self,
        [reader, writer]: [Entity; 2],
        message: i64,
        fragment: Fragment,
        payload: &[u8],
    ) -> Self {
        let body = [
            &[0, 0, 28, 0],
            &reader[..],
            &writer,
            &number(message),
            &fragment.start.to_le_bytes(),
            &1u16.to_le_bytes(),
            &fragment.size.to_le_bytes(),
            &fragment.total.to_le_bytes(),
            payload,
        ];
        self.submessage(DATA_FRAG, 0, &body.concat())
    }
}

fn number(value: i64) -> [u8; 8] {
    let [high, low] = [(value >> 32) as u32, value as u32].map(u32::to_le_bytes);
    [high, low].concat().try_into().unwrap()
}

fn bits_of(bits: u32) -> [u8; 8] {
    [32u32.to_le_bytes(), bits.to_le_bytes()].concat().try_into().unwrap()
}

/// A list of parameters, as discovery samples and inline QoS are.
#[derive(Clone, Default)]
pub struct Parameters(Vec<u8>);

impl Parameters {
    pub fn with(mut self, id: u16, value: &[u8]) -> Self {
        let len = value.len().next_multiple_of(4);
        self.0.extend(id.to_le_bytes());
        self.0.extend(u16::try_from(len).unwrap().to_le_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len() + len - value.len(), 0);
        self
    }

    pub fn with_text(self, id: u16, text: &str) -> Self {
        let len = u32::try_from(text.len() + 1).unwrap().to_le_bytes();
        self.with(id, &[&len, text.as_bytes(), &[0]].concat())
    }

    /// The list with its end.
    pub fn list(self) -> Vec<u8> {
        [&self.0[..], &[1, 0, 0, 0]].concat()
    }

    /// The list as a message of its own.
    pub fn sample(self) -> Vec<u8> {
        [&[0, 3, 0, 0], &self.list()[..]].concat()
    }
}

/// A participant that sends only the datagrams of a test.
pub struct Rogue {
    pub prefix: Prefix,
    pub socket: UdpSocket,
    /// Ports of the middleware: for discovery, for messages.
    ports: [u16; 2],
}

/// The ports of the first participant of a domain, for discovery and for messages.
pub fn first_ports(domain: u16) -> [u16; 2] {
    [10, 11].map(|offset| 7400 + 250 * domain + offset)
}

impl Rogue {
    /// A participant that is not announced yet.
    pub fn new(domain: u16, name: u8) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let prefix = [1, 16, name, name, 7, 7, 7, 7, 0, 0, 0, name];
        Self { prefix, socket, ports: first_ports(domain) }
    }

    pub fn datagram(&self) -> Datagram {
        Datagram::from(self.prefix)
    }

    /// Sends to the port for discovery.
    pub fn discover(&self, datagram: &Datagram) {
        self.send_to(0, &datagram.0);
    }

    /// Sends to the port for messages.
    pub fn send(&self, datagram: &Datagram) {
        self.send_to(1, &datagram.0);
    }

    /// Sends any bytes to either port.
    pub fn send_to(&self, port: usize, bytes: &[u8]) {
        self.socket.send_to(bytes, ("127.0.0.1", self.ports[port])).unwrap();
    }

    /// The discovery sample of a participant, with copies of this one's locator.
    pub fn participant(&self, prefix: Prefix, num_locators: usize) -> Vec<u8> {
        let port = u32::from(self.socket.local_addr().unwrap().port());
        let kind = 1u32.to_le_bytes();
        let locator = [&kind[..], &port.to_le_bytes(), &[0; 12], &[127, 0, 0, 1]].concat();
        let mut parameters = Parameters::default()
            .with(0x15, &[2, 4])
            .with(0x16, &[1, 16])
            .with(0x50, &[&prefix[..], &[0, 0, 1, 0xc1]].concat())
            .with(0x58, &0x1800_0c3f_u32.to_le_bytes())
            .with(0x02, &[0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff]);
        for _ in 0..num_locators {
            parameters = parameters.with(0x31, &locator).with(0x32, &locator);
        }
        parameters.sample()
    }

    /// Announces itself, so that its discovery is heard.
    pub fn announce(&self) {
        let payload = self.participant(self.prefix, 1);
        self.discover(&self.datagram().data([SPDP_READER, SPDP_WRITER], 1, &payload));
    }

    /// The discovery sample of a reliable writer or reader of a topic.
    pub fn endpoint(&self, entity: Entity, topic: &str, dds_type: &str) -> Vec<u8> {
        Parameters::default()
            .with(0x5a, &[&self.prefix[..], &entity].concat())
            .with_text(0x05, topic)
            .with_text(0x07, dds_type)
            .with(0x1a, &[&2u32.to_le_bytes()[..], &[0; 8]].concat())
            .sample()
    }

    /// Announces a reliable writer of a topic, as the `number`th of its writers.
    pub fn announce_writer(&self, number: i64, entity: Entity, topic: &str, dds_type: &str) {
        let payload = self.endpoint(entity, topic, dds_type);
        let ids = [SEDP_WRITERS_READER, SEDP_WRITERS_WRITER];
        self.discover(&self.datagram().data(ids, number, &payload));
    }

    /// Announces a reliable reader of a topic, as the `number`th of its readers.
    pub fn announce_reader(&self, number: i64, entity: Entity, topic: &str, dds_type: &str) {
        let payload = self.endpoint(entity, topic, dds_type);
        let ids = [SEDP_READERS_READER, SEDP_READERS_WRITER];
        self.discover(&self.datagram().data(ids, number, &payload));
    }

    /// Sends a whole message, in fragments of `size` bytes when it is longer.
    pub fn send_whole(&self, writer: Entity, message: i64, payload: &[u8], size: u16) {
        if payload.len() <= usize::from(size) {
            return self.send(&self.datagram().data([UNKNOWN, writer], message, payload));
        }
        let total = u32::try_from(payload.len()).unwrap();
        for (index, part) in payload.chunks(size.into()).enumerate() {
            let fragment = Fragment { start: index as u32 + 1, size, total };
            self.send(&self.datagram().data_frag([UNKNOWN, writer], message, fragment, part));
        }
    }
}
