//! A session with a peer of another implementation, and every datagram that it sent.

use super::dds_peers::{Fragments, PeerProcess};
use super::domain::Domain;
use super::net::{Random, TYPE, qos, reliable};
use crate::participant::{Config, Core};
use crate::qos::{Durability, Qos, Reliability};
use crate::settings::{Limits, ReaderSettings, WriterSettings};
use crate::types::{Guid, GuidPrefix};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

const REQUEST: &str = "lifecycle_msgs::srv::dds_::GetState_Request_";

/// Topics with the reliability of the peer.
const INPUTS: [(&str, bool); 2] = [("in", true), ("best_effort", false)];

/// What peers sent to a participant, which is built again and again.
pub(super) struct Session {
    pub config: Config,
    /// With their senders, as they came.
    pub datagrams: Vec<(Vec<u8>, SocketAddrV4)>,
}

/// A participant in a session.
pub(super) struct Ours {
    pub core: Core,
    /// Of `rt/in`.
    pub reader: Guid,
    /// Of `rt/out`.
    pub writer: Guid,
}

impl Ours {
    /// The same endpoints in the same order: captured datagrams name them.
    pub fn new(config: Config, now: Instant) -> Self {
        let mut core = Core::new(config, now);
        let latched = qos(Reliability::Reliable, Durability::TransientLocal, 10);
        let best_effort = qos(Reliability::BestEffort, Durability::Volatile, 10);
        let mut reader = |topic: &str, type_name: &str, qos: Qos| {
            let settings = ReaderSettings {
                topic: topic.to_owned(),
                type_name: type_name.to_owned(),
                qos,
                user_data: Vec::new(),
                assembler: None,
            };
            core.create_reader(settings, now).unwrap()
        };
        let first = reader("rt/in", TYPE, reliable(10));
        reader("rt/best_effort", TYPE, best_effort);
        reader("rq/peer/get_stateRequest", REQUEST, reliable(10));
        let mut writer = |topic: &str, type_name: &str| {
            let settings = WriterSettings {
                topic: topic.to_owned(),
                type_name: type_name.to_owned(),
                qos: latched,
                user_data: Vec::new(),
                keep_unconfirmed: 20,
            };
            core.create_writer(settings, now).unwrap()
        };
        let out = writer("rt/out", TYPE);
        writer("rr/peer/get_stateReply", &REQUEST.replace("Request", "Response"));
        Self { core, reader: first, writer: out }
    }
}

/// A peer, and what it does in a session.
#[derive(Clone, Copy, Debug)]
pub(super) enum Implementation {
    Cyclone,
    FastDds,
}

impl Implementation {
    fn start(self, domain: u16) -> Option<PeerProcess> {
        match self {
            Self::Cyclone => PeerProcess::cyclone(domain, Fragments::Default),
            Self::FastDds => PeerProcess::fast_dds(domain),
        }
    }

    /// Samples of a datagram and of many, both ways, reliable and best effort; a request; a
    /// withdrawal.
    fn script(self) -> Vec<String> {
        let mut script = Vec::new();
        match self {
            Self::Cyclone => {
                let endpoint = |op: &str, id: &str, is_reliable: bool| {
                    format!(
                        r#"{{"op": "{op}", "id": "{id}", "topic": "/{id}",
                        "type": "sensor_msgs/msg/Image", "reliable": {is_reliable}}}"#
                    )
                };
                let matched = |id: &str| {
                    format!(r#"{{"op": "matched", "id": "{id}", "count": 1, "timeout": 20}}"#)
                };
                script.extend([endpoint("reader", "out", true), matched("out")]);
                for (id, is_reliable) in INPUTS {
                    script.extend([endpoint("writer", id, is_reliable), matched(id)]);
                    for size in [300, 60_000] {
                        script.push(format!(
                            r#"{{"op": "stream", "id": "{id}", "count": 6, "hz": 20,
                            "size": {size}, "sample": {{"height": 1, "width": 1}}}}"#
                        ));
                    }
                }
                script.push(
                    r#"{"op": "take", "id": "out", "count": 4, "timeout": 3, "hex": true}"#.into(),
                );
                script.push(r#"{"op": "close", "id": "best_effort"}"#.to_owned());
            }
            Self::FastDds => {
                script.push(format!("reader out rt/out {TYPE} reliable="));
                script.push("matched out 1 20".to_owned());
                for (id, is_reliable) in INPUTS {
                    let options = if is_reliable { "reliable= latched= depth=4" } else { "" };
                    script.push(format!("writer {id} rt/{id} {TYPE} {options}"));
                    script.push(format!("matched {id} 1 20"));
                    for size in [300, 60_000, 150_000] {
                        script.push(format!("stream {id} 6 20 {size} 000100000000000000000000"));
                    }
                }
                script.push("take out 4 3".to_owned());
                let call = "call /peer/get_state lifecycle_msgs::srv::dds_::GetState";
                script.push(format!("{call} 0001000000000000 1"));
                script.push("close best_effort".to_owned());
            }
        }
        // A line is a command.
        script.into_iter().map(|command| command.replace('\n', " ")).collect()
    }
}

/// The sockets of a participant of a test on the loopback interface.
struct Sockets([UdpSocket; 2]);

impl Sockets {
    fn bind(domain: u16) -> (Self, [SocketAddrV4; 2]) {
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let ports =
            |index: u16| [10, 11].map(|offset| at(7400 + 250 * domain + 2 * index + offset));
        let bound = |address: &SocketAddrV4| {
            let socket = UdpSocket::bind(address).ok()?;
            socket.set_nonblocking(true).unwrap();
            Some(socket)
        };
        let found = (0..20).map(ports).find_map(|addresses| {
            let [meta, default] = addresses.each_ref().map(bound);
            Some((Self([meta?, default?]), addresses))
        });
        found.unwrap()
    }
}

/// Has a peer talk to a participant whose datagrams get lost now and then, both ways, so that it
/// repeats and asks; `None`, and said so, when there is no such peer.
pub(super) fn session(implementation: Implementation) -> Option<Session> {
    let domain = Domain::reserve();
    let mut peer = implementation.start(domain.id)?;
    let (sockets, [meta, default]) = Sockets::bind(domain.id);
    let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let config = Config {
        prefix: GuidPrefix([1; 12]),
        domain: domain.id,
        name: "fuzzed".to_owned(),
        user_data: Vec::new(),
        limits: Limits::default(),
        meta: vec![meta],
        default: vec![default],
        announce_to: (0..20).map(|index| at(7410 + 250 * domain.id + 2 * index)).collect(),
        own: vec![(Ipv4Addr::LOCALHOST, 8)],
    };
    let mut ours = Ours::new(config.clone(), Instant::now());
    let mut datagrams = Vec::new();
    let mut random = Random(7);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            for command in implementation.script() {
                let answer = peer.ask(&command);
                assert!(!answer.contains("error"), "{command}: {answer}");
            }
        });
        while !asking.is_finished() {
            let is_quiet = !exchange(&sockets, &mut ours, &mut datagrams, &mut random);
            if is_quiet {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    // What it says when it leaves.
    drop(peer);
    exchange(&sockets, &mut ours, &mut datagrams, &mut random);
    Some(Session { config, datagrams })
}

/// Receives and answers what is there; returns whether anything was.
fn exchange(
    sockets: &Sockets,
    ours: &mut Ours,
    datagrams: &mut Vec<(Vec<u8>, SocketAddrV4)>,
    random: &mut Random,
) -> bool {
    let mut buffer = vec![0; 1 << 16];
    let before = datagrams.len();
    for socket in &sockets.0 {
        while let Ok((len, SocketAddr::V4(from))) = socket.recv_from(&mut buffer) {
            datagrams.push((buffer[..len].to_vec(), from));
            if random.below(20) > 0 {
                ours.core.handle(&buffer[..len], from, Instant::now());
            }
        }
    }
    let now = Instant::now();
    ours.core.tick(now);
    // What comes is sent back.
    while let Some(sample) = ours.core.take(ours.reader.entity) {
        let data = sample.data.bytes();
        ours.core.write(ours.writer.entity, data, &Default::default(), 1, now).unwrap();
    }
    while let Some(datagram) = ours.core.take_datagram() {
        for to in &datagram.to {
            // What is announced is not lost: that would only take longer.
            let is_lost = datagram.bytes.len() > 1000 && random.below(5) == 0;
            if !is_lost {
                // The peer may be gone.
                let _ = sockets.0[0].send_to(&datagram.bytes, to);
            }
        }
    }
    datagrams.len() > before
}
