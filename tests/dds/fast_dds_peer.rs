//! A peer in another process that is Fast DDS, set up as ROS 2 does it.

use super::dds_peers::PeerProcess;
use super::peer::{PATIENCE, dds_type};
use std::time::Duration;

/// The process, which ends when this is dropped.
pub struct FastDdsPeer(PeerProcess);

impl FastDdsPeer {
    /// A peer in a domain; `None`, and said so, when there is no Fast DDS.
    pub fn start(domain: u16) -> Option<Self> {
        PeerProcess::fast_dds(domain).map(Self)
    }

    /// Number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Starts a command; `finish` gives its answer.
    pub fn begin(&mut self, command: &str) {
        self.0.begin(command);
    }

    /// The answer to the command that was begun.
    pub fn finish(&mut self) -> String {
        let line = self.0.finish();
        line.strip_prefix("ok").unwrap_or_else(|| panic!("{line:?}")).trim_start().to_owned()
    }

    /// Does a command.
    pub fn ask(&mut self, command: &str) -> String {
        self.begin(command);
        self.finish()
    }

    /// Writes a topic of ROS, known as `id`. Options: `reliable= latched= keep_all= depth=N
    /// exclusive= partition=NAME`.
    pub fn writer(&mut self, id: &str, topic: &str, type_name: &str, options: &str) {
        self.ask(&format!("writer {id} rt{topic} {} {options}", dds_type(type_name)));
    }

    /// Reads a topic of ROS, known as `id`, with options as of a writer.
    pub fn reader(&mut self, id: &str, topic: &str, type_name: &str, options: &str) {
        self.ask(&format!("reader {id} rt{topic} {} {options}", dds_type(type_name)));
    }

    /// Waits until an endpoint has so many peers, or for so long; how many it has.
    pub fn matched(&mut self, id: &str, count: usize, patience: Duration) -> usize {
        let answer = self.ask(&format!("matched {id} {count} {}", patience.as_secs_f64()));
        answer.parse().unwrap()
    }

    /// Waits until an endpoint has so many peers.
    pub fn wait_matched(&mut self, id: &str, count: usize) {
        assert_eq!(self.matched(id, count, PATIENCE), count, "peers on {id}");
    }

    /// Writes a whole message.
    pub fn write(&mut self, id: &str, cdr: &[u8]) {
        self.ask(&format!("write {id} {}", to_hex(cdr)));
    }

    /// Takes at least `count` whole messages, or what has come within `patience`.
    pub fn take(&mut self, id: &str, count: usize, patience: Duration) -> Vec<Vec<u8>> {
        let answer = self.ask(&format!("take {id} {count} {}", patience.as_secs_f64()));
        answer.split_whitespace().map(from_hex).collect()
    }

    /// The response to a request, both whole messages; `None` without an answer within
    /// `patience`.
    pub fn call(
        &mut self,
        service: &str,
        service_type: &str,
        request: &[u8],
        patience: Duration,
    ) -> Option<Vec<u8>> {
        let (dds_type, request) = (dds_type(service_type), to_hex(request));
        let dds_type = dds_type.strip_suffix('_').unwrap();
        let seconds = patience.as_secs_f64();
        let answer = self.ask(&format!("call {service} {dds_type} {request} {seconds}"));
        (!answer.is_empty()).then(|| from_hex(&answer))
    }
}

/// Hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).unwrap();
    (0..text.len() / 2).map(|i| digits(2 * i)).collect()
}

/// FNV-1a of 64 bits, as the peer tells it of long messages.
pub fn digest(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
