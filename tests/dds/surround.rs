//! Six compressed cameras of another DDS implementation: the detections of a replay, and what
//! becomes of a camera that is cut, delayed or restarted.

use std::collections::BTreeMap;
use std::path::Path;

use det_post::node::DIAGNOSTICS_TOPIC;
use det_post_ros::messages::{Detection3DArray, DiagnosticArray};
use det_post_ros::middleware::InputKind;
use serde_json::{Value, json};

use super::node::{PROGRAM, Program, Status, await_status, diagnostics};
use super::peer::{Peer, turn};
use super::session::messages;
use super::shared_data::shared_data;
use super::surround_rig::{Fixture, nuscenes_parameters, nuscenes_topics};

const OUTPUT: &str = "/det_post/rig/detections";
const FRAMES: &str = "det_post: rig: frames";
const NUM_ROUNDS: usize = 5;

fn input(camera: usize) -> String {
    format!("det_post: rig: input {camera}")
}

/// The cameras and the node.
struct Rig {
    peer: Peer,
    program: Program,
    topics: [String; 6],
    /// The images of each camera by round, in hexadecimal digits.
    images: [Vec<String>; 6],
    /// Without the recorded rounds: the time from round to round.
    num_sent: usize,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reliable, so that what is lost is lost by the channel.
fn reliable() -> Value {
    json!({"reliable": true, "depth": 100})
}

impl Rig {
    fn start(mut peer: Peer, domain: u16, fixture: &Fixture, bag: &Path, more: &[&str]) -> Self {
        let topics = nuscenes_topics();
        let mut images = [(); 6].map(|()| Vec::new());
        for (topic, _, data) in messages(bag) {
            if let Some(camera) = topics.iter().position(|of| *of == topic) {
                images[camera].push(hex(&data));
            }
        }
        let mut parameters = nuscenes_parameters(fixture);
        parameters.extend(
            ["rig.qos.reliability:=reliable", "diagnostics_period_s:=0.1", "rig.gap_warn_s:=1.0"]
                .iter()
                .chain(more)
                .map(|&text| text.to_owned()),
        );
        let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
        let config = fixture.path("rig.param.yaml");
        let program = Program::start(Path::new(PROGRAM), domain, &config, &parameters);
        for topic in &topics {
            peer.writer(topic, InputKind::CompressedImage.type_name(), &reliable(), 1);
        }
        peer.reader(OUTPUT, Detection3DArray::TYPE, &reliable(), 1);
        peer.reader(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, &reliable(), 1);
        Self { peer, program, topics, images, num_sent: 0 }
    }

    /// Sends the image of a camera in a round; after the recorded ones, the first again with
    /// a stamp of half a second more a round.
    fn send(&mut self, camera: usize, round: usize) {
        let mut message = self.images[camera].get(round).unwrap_or(&self.images[camera][0]).clone();
        if round >= self.images[camera].len() {
            // The stamp is at byte 4: seconds and nanoseconds, little-endian.
            let field = |at: usize| {
                let bytes = u32::from_str_radix(&message[2 * at..2 * at + 8], 16).unwrap();
                u64::from(bytes.swap_bytes())
            };
            let nanos = field(4) * 1_000_000_000 + field(8) + 500_000_000 * round as u64;
            let [seconds, rest] = [nanos / 1_000_000_000, nanos % 1_000_000_000]
                .map(|field| hex(&u32::try_from(field).unwrap().to_le_bytes()));
            message.replace_range(8..24, &(seconds + &rest));
        }
        self.peer.ask(&json!({"op": "raw", "id": self.topics[camera], "hex": message}));
    }

    /// Sends a round, but for some cameras.
    fn round_without(&mut self, missing: &[usize]) -> usize {
        let round = self.num_sent;
        self.num_sent += 1;
        for camera in (0..6).filter(|camera| !missing.contains(camera)) {
            self.send(camera, round);
        }
        round
    }

    /// The detections of the next frame.
    fn next(&mut self) -> Value {
        let take = json!({"op": "take", "id": OUTPUT, "count": 1, "timeout": 20, "hex": true});
        let mut taken = self.peer.ask(&take);
        assert_eq!(taken.as_array().map(Vec::len), Some(1), "one frame at a time");
        taken[0].take()
    }

    fn await_state(&mut self, camera: usize, state: &str) -> Status {
        await_status(&mut self.peer, &input(camera), |status| status.values["state"] == state)
    }
}

#[test]
fn six_compressed_cameras_have_the_frames_of_a_replay_and_recover() {
    let turn = turn();
    let Some(data) = shared_data() else { return };
    let Some(peer) = turn.peer() else { return };
    let fixture = Fixture::new();
    let bag = data.join("bags/nuscenes_surround_mcap");
    let parameters = nuscenes_parameters(&fixture);
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let replay = fixture.replay(&bag, "replay", &parameters);
    let report = &replay.expect_code(0).report()["channels"]["rig"];
    let expected: Vec<_> = messages(&fixture.path("replay").join("detections"))
        .into_iter()
        .filter(|(topic, ..)| topic == OUTPUT)
        .map(|(.., cdr)| json!(hex(&cdr)))
        .collect();
    assert_eq!(expected.len(), NUM_ROUNDS);

    let mut rig = Rig::start(peer, turn.domain, &fixture, &bag, &["rig.sync.deadline_s:=0.3"]);
    // The skews of the windows between two diagnostics, by camera.
    let mut skews: [BTreeMap<String, f64>; 6] = Default::default();
    for (round, expected) in expected.iter().enumerate() {
        rig.round_without(&[]);
        assert!(rig.next() == *expected, "round {round}");
        for statuses in diagnostics(&mut rig.peer) {
            for (camera, skews) in skews.iter_mut().enumerate() {
                let values = &statuses[&input(camera)].values;
                let parts = values.iter().filter(|(key, _)| key.starts_with("skew_"));
                skews.extend(parts.map(|(key, value)| (key.clone(), value.parse().unwrap())));
            }
        }
    }
    for (camera, skews) in skews.iter().enumerate() {
        for part in ["min", "median", "max"] {
            let of_replay = report["inputs"][camera]["skew_ms"][part].as_f64().unwrap();
            let found = skews[&format!("skew_{part}_ms")];
            assert!((found - of_replay).abs() < 1e-3, "camera {camera}: {found}, {of_replay}");
        }
        let status = rig.await_state(camera, "ok");
        assert_eq!((status.number("received"), status.number("unused")), (5.0, 0.0), "{status:?}");
        assert!(status.number("publishers") == 1.0, "{status:?}");
    }

    // An image that comes twice is refused, and changes nothing else.
    rig.send(2, NUM_ROUNDS - 1);
    let status = rig.await_state(2, "refused");
    assert_eq!(status.number("refused.stamp_not_newer"), 1.0, "{status:?}");

    // Camera 3 is cut: frames are dropped with its name, and it is the one that is stale.
    rig.peer.ask(&json!({"op": "close", "id": rig.topics[3]}));
    rig.round_without(&[3]);
    let dropped =
        await_status(&mut rig.peer, FRAMES, |status| status.message.contains("incomplete_views"));
    assert!(dropped.message.contains(&rig.topics[3]), "{dropped:?}");
    assert_eq!(dropped.number("dropped.incomplete_views"), 1.0, "{dropped:?}");
    let stale = await_status(&mut rig.peer, &input(3), |status| {
        status.values["state"] == "stale" && status.number("publishers") == 0.0
    });
    assert!(stale.message.contains("no publisher"), "{stale:?}");

    // It is restarted: the next frame is whole, and it is ok.
    let topic = rig.topics[3].clone();
    rig.peer.writer(&topic, InputKind::CompressedImage.type_name(), &reliable(), 1);
    rig.round_without(&[]);
    rig.next();
    rig.await_state(3, "ok");

    // Camera 5 is delayed beyond the deadline: the frame is dropped, its image is late.
    let round = rig.round_without(&[5]);
    await_status(&mut rig.peer, FRAMES, |status| status.message.contains("incomplete_views"));
    rig.send(5, round);
    rig.round_without(&[]);
    rig.next();
    let late = rig.await_state(5, "late");
    assert_eq!(late.number("unused"), 1.0, "{late:?}");
    rig.round_without(&[]);
    rig.next();
    rig.await_state(5, "ok");
    assert_eq!(rig.program.interrupt().0, Some(0));
}

#[test]
fn cameras_that_are_too_far_apart_are_refused_as_in_a_replay() {
    let turn = turn();
    let Some(data) = shared_data() else { return };
    let Some(peer) = turn.peer() else { return };
    let fixture = Fixture::new();
    let bag = data.join("bags/nuscenes_surround_mcap");
    let strict = ["rig.sync.max_skew_s:=0.01", "rig.sync.deadline_s:=0.1"];
    let mut rig = Rig::start(peer, turn.domain, &fixture, &bag, &strict);
    let mut num_dropped = 0.0;
    for _ in 0..NUM_ROUNDS {
        rig.round_without(&[]);
        let dropped = await_status(&mut rig.peer, FRAMES, |status| {
            status.values.contains_key("dropped.incomplete_views")
        });
        num_dropped += dropped.number("dropped.incomplete_views");
        // All that are further than 10 ms from the front camera.
        assert!(dropped.message.contains("missing: /camera/"), "{dropped:?}");
    }
    assert_eq!(num_dropped, NUM_ROUNDS as f64);
    let none = json!({"op": "take", "id": OUTPUT, "count": 1, "timeout": 0.5});
    assert_eq!(rig.peer.ask(&none), json!([]));
    assert_eq!(rig.program.interrupt().0, Some(0));
}
