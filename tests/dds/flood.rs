//! `det_post run` under a flood of hostile datagrams from matched and unknown peers:
//! the same detections, services that answer, resident memory at most 1.3 times.

use super::node::{PROGRAM, Program, await_status, call};
use super::peer::{PATIENCE, Peer, exclusive_turn};
use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::rtps::{
    Datagram, Entity, Fragment, LIVELINESS_WRITER, Parameters, Prefix, Rogue, SEDP_READERS_READER,
    SEDP_READERS_WRITER, SEDP_WRITERS_READER, SEDP_WRITERS_WRITER, SPDP_READER, SPDP_WRITER,
    UNKNOWN, first_ports,
};
use super::session::{CAMERA_OUT, LIDAR_OUT, messages, sample};
use det_post::node::DIAGNOSTICS_TOPIC;
use det_post_ros::messages::{Detection2DArray, Detection3DArray, DiagnosticArray};
use det_post_ros::middleware::InputKind;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const RATE_HZ: f64 = 1000.0;

const IMAGES: Entity = [0, 0, 1, 3];
const CLOUDS: Entity = [0, 0, 2, 3];
const DETECTIONS: Entity = [0, 0, 3, 4];
const IMAGE_TYPE: &str = "sensor_msgs::msg::dds_::Image_";
const CLOUD_TYPE: &str = "sensor_msgs::msg::dds_::PointCloud2_";
const DETECTIONS_TYPE: &str = "vision_msgs::msg::dds_::Detection2DArray_";

/// A matched and an unknown peer that send hostile datagrams.
struct Mob {
    matched: Rogue,
    stranger: Rogue,
    num_sent: u64,
}

impl Mob {
    fn new(domain: u16) -> Self {
        let (matched, stranger) = (Rogue::new(domain, 66), Rogue::new(domain, 67));
        // Sent until they are known: what a participant that is not known sends is ignored.
        for _ in 0..20 {
            matched.announce();
            matched.announce_writer(1, IMAGES, &format!("rt{IMAGE_TOPIC}"), IMAGE_TYPE);
            matched.announce_writer(2, CLOUDS, &format!("rt{CLOUD_TOPIC}"), CLOUD_TYPE);
            matched.announce_reader(1, DETECTIONS, &format!("rt{CAMERA_OUT}"), DETECTIONS_TYPE);
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { matched, stranger, num_sent: 0 }
    }

    /// Sends one datagram after the other at the rate, for so long.
    fn flood(&mut self, time: Duration) {
        let (began, first) = (Instant::now(), self.num_sent);
        while began.elapsed() < time {
            let due = (began.elapsed().as_secs_f64() * RATE_HZ) as u64;
            while self.num_sent - first < due {
                self.send_one();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn send_one(&mut self) {
        let n = self.num_sent;
        self.num_sent += 1;
        let (round, message) = ((n / 12) as i32 + 1, (n / 12) as i64 + 10);
        let sender = if n % 24 < 12 { &self.matched } else { &self.stranger };
        let writer = if n % 48 < 24 { IMAGES } else { CLOUDS };
        let [a, b, c, ..] = n.to_le_bytes();
        let far = [20_000, 1 << 30, 1 << 40, 1 << 62][(n / 12 % 4) as usize];
        let fragment = |total| Fragment { start: 1 + (n % 5) as u32, size: 1200, total };
        let datagram = sender.datagram();
        let users = [UNKNOWN, writer];
        let [spdp, sedp_writers, sedp_readers] = [
            [SPDP_READER, SPDP_WRITER],
            [SEDP_WRITERS_READER, SEDP_WRITERS_WRITER],
            [SEDP_READERS_READER, SEDP_READERS_WRITER],
        ];
        match n % 12 {
            0 => sender.send(&datagram.heartbeat(writer, 1, far, round)),
            1 => sender.send(&datagram.gap(writer, message + 5, message + far, u32::MAX)),
            2 => sender.send(&datagram.data_frag(users, message, fragment(60 << 20), &[1; 1200])),
            3 => sender.discover(&datagram.data_frag(
                sedp_writers,
                message,
                fragment(256 << 20),
                &[2; 1200],
            )),
            4 => sender.discover(&datagram.ack_nack(
                [SEDP_WRITERS_READER, SEDP_WRITERS_WRITER],
                far,
                u32::MAX,
                round,
            )),
            5 => sender.discover(&datagram.nack_frag(
                [DETECTIONS, UNKNOWN],
                message,
                u32::MAX - 200,
                round,
            )),
            6 => {
                let mut list = Parameters::default();
                for id in 0..200 {
                    list = list.with(0x8000 + id, &[3; 4]);
                }
                sender.send(&datagram.data_with(&list.list(), users, message, &[0, 1, 0, 0, 9, 9]));
            }
            7 => {
                let prefix: Prefix = [7, 7, a, b, c, 1, 1, 1, 1, 1, 1, 1];
                let payload = sender.participant(prefix, 8);
                sender.discover(&Datagram::from(prefix).data(spdp, 1, &payload));
            }
            8 => {
                let topic = if n % 24 < 12 { CAMERA_OUT.to_owned() } else { format!("/t{n}") };
                let payload = sender.endpoint([a, b, c, 4], &format!("rt{topic}"), DETECTIONS_TYPE);
                sender.discover(&datagram.data(sedp_readers, message, &payload));
            }
            9 => {
                let payload = sender.endpoint([a, b, c, 3], &format!("rt/t{n}"), IMAGE_TYPE);
                sender.discover(&datagram.data(sedp_writers, message, &payload));
            }
            10 => sender.discover(&datagram.heartbeat(SEDP_WRITERS_WRITER, 1, far, round)),
            _ => {
                let payload = [&[0, 1, 0, 0], &[a; 28][..]].concat();
                let ids = [UNKNOWN, LIVELINESS_WRITER];
                sender.discover(&datagram.data(ids, message, &payload));
            }
        }
    }
}

/// Waits until the program listens, which makes it the first participant.
fn await_first(domain: u16) {
    let port = format!(":{:04X} ", first_ports(domain)[0]);
    let began = Instant::now();
    while !std::fs::read_to_string("/proc/net/udp").unwrap().contains(&port) {
        assert!(began.elapsed() < PATIENCE, "the program does not listen on {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a good frame of each channel, and gives what is found in them.
fn serve(peer: &mut Peer, frames: &[(&str, &str, String)]) -> Vec<Value> {
    let mut found = Vec::new();
    for (topic, output, hex) in frames {
        peer.ask(&json!({"op": "raw", "id": topic, "hex": hex}));
        let take = json!({"op": "take", "id": output, "count": 1, "timeout": 20, "hex": true});
        found.push(peer.ask(&take));
    }
    found
}

/// `DET_POST_FLOOD_SECONDS` sets how long.
#[test]
fn a_flood_of_hostile_datagrams_changes_nothing() {
    let turn = exclusive_turn();
    let seconds = std::env::var("DET_POST_FLOOD_SECONDS").map_or(6, |text| text.parse().unwrap());
    let parameters = ["diagnostics_period_s:=0.2"];
    let config = sample().join("sample.param.yaml");
    let reliable_inputs = ["camera.qos.reliability:=reliable", "lidar.qos.reliability:=reliable"];
    let engines = ["camera.engine.kind:=rten", "lidar.engine.kind:=rten"];
    let parameters = [&parameters[..], &reliable_inputs, &engines].concat();
    let program = Program::start(std::path::Path::new(PROGRAM), turn.domain, &config, &parameters);
    await_first(turn.domain);
    let Some(mut peer) = turn.peer() else { return };
    let reliable = json!({"reliable": true, "depth": 100});
    peer.writer(IMAGE_TOPIC, InputKind::Image.type_name(), &reliable, 1);
    peer.writer(CLOUD_TOPIC, InputKind::PointCloud2.type_name(), &reliable, 1);
    peer.reader(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, &reliable, 1);
    peer.reader(CAMERA_OUT, Detection2DArray::TYPE, &reliable, 1);
    peer.reader(LIDAR_OUT, Detection3DArray::TYPE, &reliable, 1);
    let drive = messages(&sample().join("drive"));
    let frames = [(IMAGE_TOPIC, CAMERA_OUT), (CLOUD_TOPIC, LIDAR_OUT)].map(|(topic, output)| {
        let (.., cdr) = drive.iter().find(|(of, ..)| of == topic).unwrap();
        (topic, output, cdr.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    });
    let of_state = "lifecycle_msgs/srv/GetState";
    let is_active = |peer: &mut Peer| {
        let state = call(peer, "get_state", of_state, &json!({}));
        assert_eq!(state["current_state"]["label"], json!("active"));
    };
    is_active(&mut peer);
    let good = serve(&mut peer, &frames);
    for _ in 0..20 {
        assert_eq!(serve(&mut peer, &frames), good);
    }
    let before = program.status("VmRSS:");

    let mut mob = Mob::new(turn.domain);
    for channel in ["camera", "lidar"] {
        let name = format!("det_post: {channel}: input");
        await_status(&mut peer, &name, |input| input.number("publishers") >= 2.0);
    }
    // What the matched peer sends is decoded, and refused.
    let malformed = mob.matched.datagram().data([UNKNOWN, IMAGES], 1, &[0, 1, 0, 0, 9, 9]);
    (0..3).for_each(|_| mob.matched.send(&malformed));
    await_status(&mut peer, "det_post: camera: input", |input| {
        input.values.keys().any(|key| key.starts_with("refused.") && input.number(key) > 0.0)
    });
    let (began, mut most, mut slowest) = (Instant::now(), before, Duration::ZERO);
    while began.elapsed() < Duration::from_secs(seconds) {
        mob.flood(Duration::from_millis(900));
        let asked = Instant::now();
        std::thread::scope(|scope| {
            let flooding = scope.spawn(|| mob.flood(Duration::from_millis(600)));
            assert_eq!(serve(&mut peer, &frames), good);
            is_active(&mut peer);
            slowest = slowest.max(asked.elapsed());
            flooding.join().unwrap();
        });
        most = most.max(program.status("VmRSS:"));
    }
    let rate = mob.num_sent as f64 / began.elapsed().as_secs_f64();
    println!(
        "{} datagrams at {rate:.0} Hz: {} KiB before, {most} KiB at most; two frames and a service \
         took {slowest:.1?} at most",
        mob.num_sent, before
    );
    assert!(most as f64 <= 1.3 * before as f64, "{before} KiB before, {most} KiB at most");
    assert_eq!(program.interrupt().0, Some(0));
}
