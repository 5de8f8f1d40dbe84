//! Participants on the loopback interface: two of this crate, and one of CycloneDDS where
//! `DET_POST_PEER_PYTHON` names a Python that has `cyclonedds`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "../../testing/src/dds_peers.rs"]
mod dds_peers;
#[path = "../../../tests/common/domain.rs"]
mod domain;
#[path = "../../testing/src/require.rs"]
mod require;

use std::any::Any;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dds_peers::{Fragments, PeerProcess};
use det_post_rtps::{
    Assembler, Durability, Event, Guid, History, Interfaces, Participant, ParticipantSettings, Qos,
    Reader, ReaderSettings, Reliability, Sample, SampleData, SampleIdentity, Target, WriteOptions,
    Writer, WriterSettings,
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);
const IMAGE: &str = "sensor_msgs::msg::dds_::Image_";

/// A domain that no other test uses.
struct Domain(domain::Domain);

impl Domain {
    fn reserve() -> Self {
        Self(domain::Domain::reserve())
    }

    fn join(&self) -> Participant {
        let settings = ParticipantSettings {
            interfaces: Interfaces::Localhost,
            name: "test".to_owned(),
            user_data: b"enclave=/;".to_vec(),
            ..ParticipantSettings::new(self.0.id)
        };
        Participant::join(settings).unwrap()
    }
}

fn qos(reliability: Reliability, durability: Durability) -> Qos {
    Qos { reliability, durability, history: History::KeepLast(10) }
}

const RELIABLE: Reliability = Reliability::Reliable;
const BEST_EFFORT: Reliability = Reliability::BestEffort;

fn reader(participant: &Participant, topic: &str, qos: Qos) -> Reader {
    let settings = ReaderSettings {
        topic: topic.to_owned(),
        type_name: IMAGE.to_owned(),
        qos,
        user_data: b"typehash=1;".to_vec(),
        assembler: None,
    };
    participant.create_reader(settings).unwrap()
}

fn writer(participant: &Participant, topic: &str, qos: Qos) -> Writer {
    let settings = WriterSettings {
        topic: topic.to_owned(),
        type_name: IMAGE.to_owned(),
        qos,
        user_data: b"typehash=1;".to_vec(),
        keep_unconfirmed: 100,
    };
    participant.create_writer(settings).unwrap()
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn next(reader: &Reader) -> Sample {
    assert!(reader.wait(PATIENCE), "no sample arrives");
    reader.take().unwrap()
}

fn cdr(len: usize, seed: u8) -> Vec<u8> {
    let body = (4..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed));
    [0, 1, 0, 0].into_iter().chain(body).collect()
}

#[test]
fn two_participants_exchange_samples_of_every_kind() {
    let domain = Domain::reserve();
    let (here, there) = (domain.join(), domain.join());
    for (index, reliability) in [RELIABLE, BEST_EFFORT].into_iter().enumerate() {
        for durability in [Durability::Volatile, Durability::TransientLocal] {
            let topic = format!("rt/topic_{index}_{durability:?}");
            let qos = qos(reliability, durability);
            let writer = writer(&here, &topic, qos);
            let early = cdr(40, 1);
            if durability == Durability::TransientLocal {
                writer.write(&early, &WriteOptions::default()).unwrap();
            }
            let reader = reader(&there, &topic, qos);
            if durability == Durability::TransientLocal {
                assert_eq!(next(&reader).data.bytes(), early, "{topic}");
            }
            wait("matched", || writer.matched() == [reader.guid()]);
            wait("matched", || reader.matched() == [writer.guid()]);
            for (len, seed) in [(8, 2), (1000, 3), (16_000, 4), (100_000, 5), (1_000_000, 6)] {
                let related = SampleIdentity { writer: reader.guid(), number: len as i64 };
                let options = WriteOptions { related: Some(related), source_timestamp: Some(7) };
                let number = writer.write(&cdr(len, seed), &options).unwrap();
                let sample = next(&reader);
                assert_eq!(sample.data.bytes(), cdr(len, seed), "{topic}: {len}");
                assert_eq!((sample.writer, sample.number), (writer.guid(), number));
                assert_eq!(sample.related, Some(related));
                assert_eq!(sample.source_timestamp, Some(7));
            }
            if reliability == RELIABLE {
                assert!(writer.wait_confirmed(PATIENCE));
                assert!(writer.is_known_to(reader.guid()));
            }
        }
    }
    let known = here.participants();
    assert_eq!(known.len(), 1);
    assert_eq!((&known[0].name[..], &known[0].user_data[..]), ("test", &b"enclave=/;"[..]));
    let left = there.guid();
    drop(there);
    wait_event(
        &here,
        |event| matches!(event, Event::ParticipantRemoved { guid, .. } if *guid == left),
    );
}

fn wait_event(participant: &Participant, is_it: impl Fn(&Event) -> bool) -> Event {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(event) = participant.next_event(PATIENCE)
            && is_it(&event)
        {
            return event;
        }
    }
    panic!("the event does not come")
}

struct Peer(PeerProcess);

impl Peer {
    fn start(domain: &Domain) -> Option<Self> {
        PeerProcess::cyclone(domain.0.id, Fragments::Large).map(Self)
    }

    fn ask(&mut self, command: &Value) -> Value {
        self.begin(command);
        self.finish()
    }

    fn begin(&mut self, command: &Value) {
        self.0.begin(&command.to_string());
    }

    fn finish(&mut self) -> Value {
        let answer: Value = serde_json::from_str(&self.0.finish()).unwrap();
        assert!(answer["error"].is_null(), "{answer}");
        answer["ok"].clone()
    }

    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

fn image() -> Value {
    json!({"header": {"stamp": {"sec": 1, "nanosec": 2}, "frame_id": "camera"}, "height": 1,
           "width": 1, "encoding": "rgb8", "is_bigendian": 0, "step": 3, "data": []})
}

#[test]
fn samples_pass_between_cyclone_and_this_crate() {
    let domain = Domain::reserve();
    let here = domain.join();
    let Some(mut peer) = Peer::start(&domain) else { return };
    for (name, is_reliable) in [("reliable", true), ("best_effort", false)] {
        let reliability = if is_reliable { RELIABLE } else { BEST_EFFORT };
        let qos = qos(reliability, Durability::Volatile);
        let (topic_in, topic_out) = (format!("/in_{name}"), format!("/out_{name}"));
        let reader = reader(&here, &format!("rt{topic_in}"), qos);
        let writer = writer(&here, &format!("rt{topic_out}"), qos);
        let more = json!({"reliable": is_reliable, "depth": 10, "type": "sensor_msgs/msg/Image"});
        for (op, topic) in [("writer", &topic_in), ("reader", &topic_out)] {
            let mut command = more.clone();
            command["op"] = json!(op);
            (command["id"], command["topic"]) = (json!(topic), json!(topic));
            peer.ask(&command);
            let matched = json!({"op": "matched", "id": topic, "count": 1, "timeout": 20});
            assert_eq!(peer.ask(&matched), json!(1), "{topic}");
        }
        wait("matched", || reader.matched().len() == 1 && writer.matched().len() == 1);
        // From Cyclone: frames of 1 MB at 10 Hz.
        let count = 10;
        peer.begin(&json!({"op": "stream", "id": topic_in, "count": count, "hz": 10,
                           "size": 1_000_000, "sample": image()}));
        let mut first = Vec::new();
        for number in 0..count {
            let sample = next(&reader);
            assert!(sample.data.bytes().len() > 1_000_000);
            assert!(sample.source_timestamp.is_some());
            assert_eq!(sample.number, number + 1);
            first = sample.data.bytes().to_vec();
        }
        peer.finish();
        // And the last of them back.
        for _ in 0..3 {
            writer.write(&first, &WriteOptions::default()).unwrap();
            let take =
                json!({"op": "take", "id": topic_out, "count": 1, "timeout": 20, "hex": true});
            let taken = peer.ask(&take);
            let hex: String = first.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(taken[0] == json!(hex), "{topic_out}");
        }
        if is_reliable {
            assert!(writer.wait_confirmed(PATIENCE));
        }
    }
}

/// Buffers in which samples arrive; they are used again.
type Pool = Arc<Mutex<Vec<Vec<u8>>>>;

struct Buffers(Pool);

struct Buffer {
    bytes: Vec<u8>,
    pool: Pool,
}

impl Assembler for Buffers {
    fn target(&mut self, _: Guid, len: usize, _: &[u8]) -> Option<Box<dyn Target>> {
        let mut bytes = self.0.lock().unwrap().pop()?;
        bytes.resize(len, 0);
        Some(Box::new(Buffer { bytes, pool: Arc::clone(&self.0) }))
    }
}

impl Target for Buffer {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.lock().unwrap().push(std::mem::take(&mut self.bytes));
    }
}

/// User and system time of this process.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // Clock ticks of a hundredth of a second.
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

/// Receives images of 1080p from Cyclone into buffers of the caller; returns the processor time
/// of each.
fn cost_of_images(fragments: Fragments, count: u64, hz: f64) -> Option<Duration> {
    let domain = Domain::reserve();
    let mut peer = PeerProcess::cyclone(domain.0.id, fragments).map(Peer)?;
    let here = domain.join();
    let pool: Pool = Arc::new(Mutex::new(vec![Vec::new(); 12]));
    let settings = ReaderSettings {
        topic: "rt/image".to_owned(),
        type_name: IMAGE.to_owned(),
        qos: qos(RELIABLE, Durability::Volatile),
        user_data: Vec::new(),
        assembler: Some(Box::new(Buffers(pool))),
    };
    let reader = here.create_reader(settings).unwrap();
    peer.ask(&json!({"op": "writer", "id": "w", "topic": "/image", "reliable": true,
                     "patient": true, "type": "sensor_msgs/msg/Image"}));
    peer.ask(&json!({"op": "matched", "id": "w", "count": 1, "timeout": 20}));
    wait("matched", || reader.matched().len() == 1);
    let before = (processor_time(), here.statistics());
    peer.begin(&json!({"op": "stream", "id": "w", "count": count, "hz": hz,
                       "size": 1920 * 1080 * 3, "sample": image()}));
    let mut num_bytes = 0;
    for _ in 0..count {
        let sample = next(&reader);
        assert!(matches!(sample.data, SampleData::Target(_)), "in memory of the participant");
        num_bytes += sample.data.bytes().len() as u64;
    }
    peer.finish();
    let after = (processor_time(), here.statistics());
    // Nothing is copied twice: not to the reader's buffer, and not what is sent again.
    assert_eq!(after.1.copied_bytes - before.1.copied_bytes, num_bytes);
    Some((after.0 - before.0) / u32::try_from(count).unwrap())
}

#[test]
fn an_image_is_copied_once_from_its_datagrams() {
    cost_of_images(Fragments::Default, 10, 10.0);
}

/// In a release build.
#[test]
#[ignore = "measures for half a minute"]
fn an_image_takes_little_processor_time() {
    for fragments in [Fragments::Default, Fragments::Large] {
        let Some(cost) = cost_of_images(fragments, 420, 30.0) else { return };
        println!("{fragments:?}: {cost:.2?} of processor time an image of 6.2 MB");
        assert!(cost < Duration::from_micros(14_500));
    }
}

/// `DET_POST_STOPPED_SECONDS` sets how long the peer is stopped.
#[test]
#[ignore = "takes half a minute"]
fn a_stopped_cyclone_matches_again() {
    let domain = Domain::reserve();
    let here = domain.join();
    let Some(mut peer) = Peer::start(&domain) else { return };
    let qos = qos(RELIABLE, Durability::Volatile);
    let reader = reader(&here, "rt/in", qos);
    let writer = writer(&here, "rt/out", qos);
    let of = |op: &str, id: &str| json!({"op": op, "id": id, "topic": id, "type": "sensor_msgs/msg/Image", "reliable": true});
    peer.ask(&of("writer", "/in"));
    peer.ask(&of("reader", "/out"));
    wait("matched", || reader.matched().len() == 1 && writer.matched().len() == 1);
    let seconds =
        std::env::var("DET_POST_STOPPED_SECONDS").map_or(20, |text| text.parse().unwrap());
    peer.signal("-STOP");
    std::thread::sleep(Duration::from_secs(seconds));
    assert!(reader.matched().is_empty() && writer.matched().is_empty());
    peer.signal("-CONT");
    let began = Instant::now();
    wait("matched", || reader.matched().len() == 1 && writer.matched().len() == 1);
    for id in ["/in", "/out"] {
        assert_eq!(peer.ask(&json!({"op": "matched", "id": id, "count": 1})), json!(1), "{id}");
    }
    println!("matched after {:.1?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(5));
    peer.ask(&json!({"op": "stream", "id": "/in", "count": 1, "hz": 10, "size": 100_000,
                     "sample": image()}));
    let found = next(&reader);
    writer.write(found.data.bytes(), &WriteOptions::default()).unwrap();
    let taken =
        peer.ask(&json!({"op": "take", "id": "/out", "count": 1, "timeout": 20, "hex": true}));
    assert_eq!(taken.as_array().unwrap().len(), 1);
}
