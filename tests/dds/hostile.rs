//! Hostile RTPS peers: claims allocate nothing, announcements are bounded, and no
//! datagram ends the participant.
//!
//! Uses the loopback interface only, and needs no other DDS implementation.

use super::memory::growth;
use super::peer::{Heard, PATIENCE, Turn, exclusive_turn};
use super::rtps::{
    Datagram, Entity, Fragment, GAP, LIVELINESS_WRITER, Parameters, Prefix, Rogue,
    SEDP_READERS_READER, SEDP_READERS_WRITER, SEDP_TOPICS_WRITER, SEDP_WRITERS_READER,
    SEDP_WRITERS_WRITER, SPDP_READER, SPDP_WRITER, UNKNOWN,
};
use det_post_ros::dds::DdsMiddleware;
use det_post_ros::messages::Image;
use det_post_ros::middleware::{InputKind, Middleware, Qos, Received, Reliability, Subscription};
use det_post_types::{Header, ImagePayload, Stamp};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// The most that hostile datagrams may take while they are processed.
const MAX_GROWTH: usize = 32 * MIB;

const WRITER: Entity = [0, 0, 1, 3];
const READER: Entity = [0, 0, 2, 4];
const TOPIC: &str = "rt/image";
const TYPE: &str = "sensor_msgs::msg::dds_::Image_";

/// A middleware that hears images, and a peer that sends good ones.
struct Site {
    input: Box<dyn Subscription>,
    /// The digest of each image: whole ones would be most of what this holds.
    heard: Heard<u64>,
    honest: Rogue,
    num_sent: i64,
    _middleware: DdsMiddleware,
}

impl Site {
    fn new(turn: &Turn) -> Self {
        let mut middleware = turn.middleware("det_post");
        let (heard, receiver) = Heard::receiver(|received| match received {
            Ok(Received::Image { payload: ImagePayload::Raw(image), .. }) => digest(image.data()),
            _ => 0,
        });
        let qos = Qos { reliability: Reliability::Reliable, ..Qos::SENSOR_DATA };
        let input = middleware.subscribe("/image", InputKind::Image, qos, receiver).unwrap();
        let honest = Rogue::new(turn.domain, 1);
        let site = Self { input, heard, honest, num_sent: 0, _middleware: middleware };
        site.await_matched(&site.honest);
        site
    }

    /// A peer whose writer of images is matched.
    fn rogue(&self, turn: &Turn, name: u8) -> Rogue {
        let rogue = Rogue::new(turn.domain, name);
        self.await_matched(&rogue);
        rogue
    }

    /// Announces a peer and its writer until they are known: what a participant that
    /// is not known sends is ignored, and nothing else here sends it again.
    fn await_matched(&self, rogue: &Rogue) {
        let before = self.input.num_publishers();
        let began = Instant::now();
        while self.input.num_publishers() == before {
            assert!(began.elapsed() < PATIENCE, "a peer is not matched");
            rogue.announce();
            rogue.announce_writer(1, WRITER, TOPIC, TYPE);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends a small and a fragmented image, and waits until both arrive.
    fn assert_serves(&mut self) {
        for (width, size) in [(4, 1000), (400, 1300)] {
            self.num_sent += 1;
            let data: Vec<u8> =
                (0..width * width * 3).map(|i| (i as i64 + self.num_sent) as u8).collect();
            let cdr = image_message(width, &data);
            let before = self.heard.all().len();
            let began = Instant::now();
            let mut num_sends = 0;
            while !self.heard.all()[before..].contains(&digest(&data)) {
                assert!(began.elapsed() < PATIENCE, "image {} does not arrive", self.num_sent);
                // Sent again, as a reliable writer does: sockets of a busy machine overflow.
                if began.elapsed() >= num_sends * Duration::from_secs(1) {
                    self.honest.send_whole(WRITER, self.num_sent, &cdr, size);
                    num_sends += 1;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Waits until the middleware has processed what it was sent on its port for discovery.
    fn await_discovery(&self, turn: &Turn, name: u8) {
        let _rogue = self.rogue(turn, name);
    }
}

fn digest(data: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    hasher.finish()
}

fn image_message(width: u32, data: &[u8]) -> Vec<u8> {
    let header = Header { stamp: Stamp::from_nanos(1_000_000_002), frame_id: "camera" };
    let image = Image {
        header,
        height: width,
        width,
        encoding: "rgb8",
        is_bigendian: false,
        step: 3 * width,
        data,
    };
    let mut cdr = Vec::new();
    image.encode(&mut cdr).unwrap();
    cdr
}

/// Waits a little after every few datagrams, for the sockets' buffers.
fn paced(index: usize) {
    if index % 20 == 19 {
        std::thread::sleep(Duration::from_millis(4));
    }
}

/// A heartbeat of 52 bytes may make a reader list every missing number.
#[test]
fn ranges_of_any_length_take_no_memory() {
    let turn = exclusive_turn();
    let mut site = Site::new(&turn);
    let rogue = site.rogue(&turn, 2);
    site.assert_serves();
    let mut count = 0;
    for last in [20_000_000, 1 << 40, 1 << 62, i64::MAX] {
        let grown = growth(|| {
            for first in [1, 2, last] {
                count += 1;
                rogue.send(&rogue.datagram().heartbeat(WRITER, first, last, count));
            }
            site.assert_serves();
        });
        assert!(grown < MAX_GROWTH, "heartbeats up to {last} took {} MiB", grown / MIB);
    }
    let rogue = site.rogue(&turn, 3);
    for base in [20_000_000, 1 << 40, 1 << 62, i64::MAX] {
        let grown = growth(|| {
            for start in [2, 3, 10_000, base - 1] {
                rogue.send(&rogue.datagram().gap(WRITER, start, base, u32::MAX));
            }
            site.assert_serves();
        });
        assert!(grown < MAX_GROWTH, "gaps up to {base} took {} MiB", grown / MIB);
    }
    // Requests to built-in and other writers for everything, and for what never existed.
    for (index, base) in [0, 1, 1 << 40, 1 << 62, i64::MAX].into_iter().enumerate() {
        let grown = growth(|| {
            let count = index as i32;
            for ids in [[SEDP_WRITERS_READER, SEDP_WRITERS_WRITER], [READER, UNKNOWN]] {
                rogue.discover(&rogue.datagram().ack_nack(ids, base, u32::MAX, count));
                for fragment in [0, 1, u32::MAX - 40, u32::MAX] {
                    let ask = rogue.datagram().nack_frag(ids, 1, fragment, count);
                    rogue.discover(&ask);
                }
            }
            site.assert_serves();
        });
        assert!(grown < MAX_GROWTH, "requests from {base} took {} MiB", grown / MIB);
    }
    site.await_discovery(&turn, 4);
}

/// Four claims of 256 MiB would hold 1 GiB, from any sender.
#[test]
fn fragments_use_memory_as_they_arrive_not_as_claimed() {
    let turn = exclusive_turn();
    let mut site = Site::new(&turn);
    let rogue = site.rogue(&turn, 2);
    site.assert_serves();
    let stranger = Rogue::new(turn.domain, 99);
    let builtin = [
        [SPDP_READER, SPDP_WRITER],
        [SEDP_WRITERS_READER, SEDP_WRITERS_WRITER],
        [SEDP_READERS_READER, SEDP_READERS_WRITER],
        [UNKNOWN, SEDP_TOPICS_WRITER],
        [UNKNOWN, LIVELINESS_WRITER],
    ];
    let grown = growth(|| {
        for message in 2..6 {
            for total in [256 << 20, 120 << 20, u32::MAX] {
                for start in [1, 2, total / 1000] {
                    let fragment = Fragment { start, size: 1000, total };
                    let of = |ids, sender: &Rogue| {
                        sender.datagram().data_frag(ids, message, fragment, &[7; 1000])
                    };
                    for ids in builtin {
                        stranger.discover(&of(ids, &stranger));
                        rogue.discover(&of(ids, &rogue));
                    }
                    for sender in [&stranger, &rogue] {
                        sender.send(&of([UNKNOWN, WRITER], sender));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        site.assert_serves();
    });
    assert!(grown < MAX_GROWTH, "fragments took {} MiB", grown / MIB);
    // Any number of claims within the limit, from a matched writer.
    let grown = growth(|| {
        for message in 0..4000 {
            let fragment = Fragment { start: 1, size: 1000, total: 100 << 20 };
            let claim =
                rogue.datagram().data_frag([UNKNOWN, WRITER], 100 + message, fragment, &[7; 1000]);
            rogue.send(&claim);
            paced(message as usize);
        }
        site.assert_serves();
    });
    assert!(grown < MAX_GROWTH, "claims of a matched writer took {} MiB", grown / MIB);
}

#[test]
fn announcements_are_bounded() {
    let turn = exclusive_turn();
    let mut site = Site::new(&turn);
    let rogue = site.rogue(&turn, 2);
    site.assert_serves();
    let grown = growth(|| {
        for index in 0..10_000_usize {
            let [a, b, ..] = index.to_le_bytes();
            let prefix: Prefix = [9, 9, a, b, 1, 2, 3, 4, 5, 6, 7, 8];
            let payload = rogue.participant(prefix, 20);
            let ids = [SPDP_READER, SPDP_WRITER];
            rogue.discover(&Datagram::from(prefix).data(ids, 1, &payload));
            paced(index);
        }
        site.assert_serves();
    });
    println!("10,000 participants took {} MiB", grown / MIB);
    assert!(grown < MAX_GROWTH, "participants took {} MiB", grown / MIB);
    let grown = growth(|| {
        for index in 0..20_000_usize {
            let [a, b, c, ..] = index.to_le_bytes();
            let topic = if index % 2 == 0 { TOPIC.to_owned() } else { format!("rt/other_{index}") };
            rogue.announce_reader(index as i64 + 1, [a, b, c, 4], &topic, TYPE);
            paced(index);
        }
        site.assert_serves();
    });
    println!("20,000 endpoints took {} MiB", grown / MIB);
    assert!(grown < 2 * MAX_GROWTH, "endpoints took {} MiB", grown / MIB);
    // Known peers stay, and new ones are discovered.
    site.await_discovery(&turn, 3);
}

/// Valid datagrams of every kind with fields replaced, cut, repeated and mixed.
/// `DET_POST_FUZZ_ITERATIONS` sets how many.
#[test]
fn mutated_datagrams_do_no_harm() {
    let turn = exclusive_turn();
    let count = std::env::var("DET_POST_FUZZ_ITERATIONS")
        .map_or(5000, |text| text.parse::<usize>().unwrap());
    let mut site = Site::new(&turn);
    let rogue = site.rogue(&turn, 2);
    rogue.announce_reader(1, READER, "rt/rosout", "rcl_interfaces::msg::dds_::Log_");
    site.assert_serves();
    let seeds = seeds(&rogue);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    println!("{count} datagrams from {} kinds, seed {:#x}", seeds.len(), random.0);
    let began = Instant::now();
    let grown = growth(|| {
        for index in 0..count {
            let mut bytes = seeds[random.below(seeds.len())].0.clone();
            random.mutate(&mut bytes, &seeds);
            rogue.send_to(random.below(2), &bytes);
            paced(index);
            if index % 1000 == 999 {
                site.assert_serves();
            }
        }
        site.assert_serves();
    });
    println!("took {:.1?}; grew by {} MiB", began.elapsed(), grown / MIB);
    assert!(grown < 2 * MAX_GROWTH, "they took {} MiB", grown / MIB);
    site.await_discovery(&turn, 3);
}

/// One datagram of every kind, from a participant that is matched.
fn seeds(rogue: &Rogue) -> Vec<Datagram> {
    let inline_qos = Parameters::default()
        .with(0x70, &[1; 16])
        .with(0x71, &[0, 0, 0, 1])
        .with(0x83, &[&rogue.prefix[..], &WRITER, &[0; 8]].concat())
        .list();
    let fragment = Fragment { start: 1, size: 100, total: 1000 };
    let cdr = image_message(4, &[1; 48]);
    let [spdp, sedp_writers, sedp_readers] = [
        [SPDP_READER, SPDP_WRITER],
        [SEDP_WRITERS_READER, SEDP_WRITERS_WRITER],
        [SEDP_READERS_READER, SEDP_READERS_WRITER],
    ];
    let user = [UNKNOWN, WRITER];
    let info_destination = rogue.datagram().submessage(0x0e, 0, &[0; 12]);
    let info_timestamp = rogue.datagram().submessage(0x09, 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let info_source = rogue.datagram().submessage(0x0c, 0, &[2; 20]);
    let info_reply = rogue.datagram().submessage(0x0f, 0, &[&[1, 0, 0, 0], &[1; 24][..]].concat());
    let participant = rogue.participant(rogue.prefix, 2);
    let other = rogue.participant([5; 12], 2);
    let endpoint = rogue.endpoint([0, 0, 9, 3], TOPIC, TYPE);
    let reader = rogue.endpoint([0, 0, 9, 4], TOPIC, TYPE);
    vec![
        info_timestamp.data(user, 5, &cdr),
        info_destination.heartbeat(WRITER, 1, 10, 1),
        info_source.heartbeat(SEDP_WRITERS_WRITER, 1, 10, 1),
        info_reply.gap(WRITER, 3, 9, 0x8000_0001),
        rogue.datagram().data_with(&inline_qos, user, 6, &cdr),
        rogue.datagram().data(spdp, 2, &participant),
        rogue.datagram().data(spdp, 3, &other),
        rogue.datagram().data(sedp_writers, 2, &endpoint),
        rogue.datagram().data(sedp_readers, 2, &reader),
        rogue.datagram().data([UNKNOWN, SEDP_TOPICS_WRITER], 1, &endpoint),
        rogue.datagram().data(
            [UNKNOWN, LIVELINESS_WRITER],
            1,
            &[&[0, 1, 0, 0], &[1; 28][..]].concat(),
        ),
        rogue.datagram().data_frag(user, 7, fragment, &[3; 100]),
        rogue.datagram().data_frag(sedp_writers, 7, fragment, &[3; 100]),
        rogue.datagram().ack_nack(sedp_writers, 1, 0x8000_0001, 1),
        rogue.datagram().nack_frag(sedp_readers, 1, 1, 1),
        rogue.datagram().submessage(0x13, 0, &[1; 24]),
        rogue.datagram().submessage(GAP, 0, &[0; 28]),
    ]
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Leaves the header as it is, which lets a datagram in.
    fn mutate(&mut self, bytes: &mut Vec<u8>, seeds: &[Datagram]) {
        const HEADER: usize = 20;
        const ODD: [u32; 8] = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x100];
        for _ in 0..=self.below(4) {
            let body = bytes.len().saturating_sub(HEADER);
            let at = HEADER + self.below(body);
            match self.below(7) {
                0 => bytes.truncate(at),
                1 => bytes.extend_from_slice(&seeds[self.below(seeds.len())].0[HEADER..]),
                2 if at < bytes.len() => bytes[at] = self.next() as u8,
                3 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                4 if at + 4 <= bytes.len() => {
                    let at = at & !3;
                    bytes[at..at + 4].copy_from_slice(&ODD[self.below(ODD.len())].to_le_bytes());
                }
                5 if at + 2 <= bytes.len() => {
                    let at = at & !1;
                    bytes[at..at + 2].copy_from_slice(&(self.next() as u16).to_le_bytes());
                }
                _ => {
                    let doubled = bytes[at.min(bytes.len())..].to_vec();
                    bytes.extend(doubled);
                }
            }
            bytes.truncate(60_000);
        }
    }
}
