//! A process that stands still past every lease and goes on, as after a suspend, and one that is
//! killed: with CycloneDDS and Fast DDS.

use super::fast_dds_peer::{FastDdsPeer, to_hex};
use super::node::{Program, await_status};
use super::peer::{PATIENCE, Peer, Turn, turn};
use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::session::{CAMERA_OUT, LIDAR_OUT, messages, sample};
use det_post::node::DIAGNOSTICS_TOPIC;
use det_post_ros::messages::{Detection2DArray, Detection3DArray, DiagnosticArray};
use det_post_ros::middleware::InputKind;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longer than the lease of every participant: 10 s, and 20 s of Fast DDS from its last
/// announcement on.
const PAUSE: Duration = Duration::from_secs(22);

/// Within which both sides are matched again.
const RECOVERY: Duration = Duration::from_secs(5);

/// Within which a killed node has left the graph.
const KILLED: Duration = Duration::from_secs(12);

/// Stops a process, waits, and lets it go on.
struct Paused(Vec<u32>);

impl Paused {
    fn start(processes: &[u32]) -> Self {
        processes.iter().for_each(|process| signal(*process, "-STOP"));
        Self(processes.to_vec())
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.iter().for_each(|process| signal(*process, "-CONT"));
    }
}

fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// The inputs (best effort and reliable) and outputs of the sample.
const INPUTS: [(&str, InputKind, bool); 2] =
    [(IMAGE_TOPIC, InputKind::Image, false), (CLOUD_TOPIC, InputKind::PointCloud2, true)];
const OUTPUTS: [(&str, &str); 2] =
    [(CAMERA_OUT, Detection2DArray::TYPE), (LIDAR_OUT, Detection3DArray::TYPE)];

const STATE: &str = "lifecycle_msgs/srv/GetState";

/// The node, and a peer of each implementation with all its topics.
struct Site {
    program: Program,
    cyclone: Peer,
    fast: Option<FastDdsPeer>,
    /// A message of each input.
    frames: [Vec<u8>; 2],
    turn: Turn,
}

impl Site {
    fn new() -> Option<Self> {
        let turn = turn();
        let fast = FastDdsPeer::start(turn.domain);
        let cyclone = turn.peer()?;
        let parameters = ["camera.qos.reliability:=best_effort", "diagnostics_period_s:=0.2"];
        let program = Program::start_sample(turn.domain, &parameters);
        let drive = messages(&sample().join("drive"));
        let frames = INPUTS.map(|(topic, ..)| {
            drive.iter().find(|(of, ..)| of == topic).map(|(.., cdr)| cdr.clone()).unwrap()
        });
        let mut site = Self { program, cyclone, fast, frames, turn };
        for (topic, kind, is_reliable) in INPUTS {
            let reliable = json!({"reliable": is_reliable});
            site.cyclone.writer(topic, kind.type_name(), &reliable, 1);
            let options = if is_reliable { "reliable=" } else { "" };
            if let Some(fast) = &mut site.fast {
                fast.writer(topic, topic, kind.type_name(), options);
            }
        }
        for (topic, type_name) in OUTPUTS {
            site.cyclone.reader(topic, type_name, &json!({"reliable": true}), 1);
            if let Some(fast) = &mut site.fast {
                fast.reader(topic, topic, type_name, "reliable=");
            }
        }
        site.assert_matched(1, PATIENCE);
        site.assert_serves(PATIENCE);
        Some(site)
    }

    fn topics() -> impl Iterator<Item = &'static str> {
        INPUTS.into_iter().map(|(topic, ..)| topic).chain(OUTPUTS.map(|(topic, _)| topic))
    }

    /// Waits until every endpoint of the peers has `count` peers.
    fn assert_matched(&mut self, count: usize, patience: Duration) {
        let deadline = Instant::now() + patience;
        for topic in Self::topics() {
            let left = deadline.saturating_duration_since(Instant::now());
            let seconds = left.as_secs_f64();
            let ask = json!({"op": "matched", "id": topic, "count": count, "timeout": seconds});
            assert_eq!(self.cyclone.ask(&ask), json!(count), "CycloneDDS: {topic} in {patience:?}");
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(fast) = &mut self.fast {
                assert_eq!(fast.matched(topic, count, left), count, "Fast DDS: {topic}");
            }
        }
    }

    /// Waits until a frame of each input of each peer gives detections at both peers, and the
    /// service answers both.
    fn assert_serves(&mut self, patience: Duration) {
        let began = Instant::now();
        let seconds = patience.as_secs_f64();
        for ((input, output), frame) in INPUTS
            .map(|(topic, ..)| topic)
            .iter()
            .zip(OUTPUTS.map(|(topic, _)| topic))
            .zip(&self.frames)
        {
            for is_fast in [false, true] {
                if is_fast && self.fast.is_none() {
                    continue;
                }
                // What was found before is not what is found in this frame.
                self.cyclone.ask(&json!({"op": "take", "id": output, "count": 0}));
                if let Some(fast) = &mut self.fast {
                    fast.take(output, 0, Duration::ZERO);
                }
                let mut came: [bool; 2] = [false, self.fast.is_none()];
                // A frame may come before the node has found its writer again.
                while came != [true; 2] {
                    assert!(began.elapsed() < patience, "{input} to {output}: {came:?} of peers");
                    match &mut self.fast {
                        Some(fast) if is_fast => fast.write(input, frame),
                        _ => {
                            let hex = to_hex(frame);
                            self.cyclone.ask(&json!({"op": "raw", "id": input, "hex": hex}));
                        }
                    }
                    let take = json!({"op": "take", "id": output, "count": 1, "timeout": 0.3});
                    came[0] |= self.cyclone.ask(&take) != json!([]);
                    if let Some(fast) = &mut self.fast {
                        came[1] |= !fast.take(output, 1, Duration::from_millis(300)).is_empty();
                    }
                }
            }
        }
        let state = self.cyclone.ask(&json!({"op": "call", "service": "/det_post/get_state",
            "type": STATE, "request": {}, "timeout": seconds}));
        assert_ne!(state, Value::Null, "CycloneDDS: no answer");
        if let Some(fast) = &mut self.fast {
            let request = [0, 1, 0, 0, 0, 0, 0, 0];
            let state = fast.call("/det_post/get_state", STATE, &request, patience);
            assert!(state.is_some(), "Fast DDS: no answer");
        }
        println!("all topics and services within {:.1?}", began.elapsed());
    }
}

#[test]
fn a_node_that_stood_still_is_matched_again() {
    let Some(mut site) = Site::new() else { return };
    let paused = Paused::start(&[site.program.id()]);
    site.turn.rest(PAUSE);
    // The peers have given it up.
    site.assert_matched(0, Duration::from_secs(1));
    drop(paused);
    site.assert_matched(1, RECOVERY);
    site.assert_serves(RECOVERY);
    assert_eq!(site.program.interrupt().0, Some(0));
}

#[test]
fn peers_that_stood_still_are_matched_again() {
    let Some(mut site) = Site::new() else { return };
    let Some(mut observer) = site.turn.peer() else { return };
    observer.reader(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, &json!({"reliable": true}), 1);
    let publishers = |observer: &mut Peer, count: f64| {
        for channel in ["camera", "lidar"] {
            let name = format!("det_post: {channel}: input");
            await_status(observer, &name, |input| input.number("publishers") == count);
        }
    };
    let num_peers = if site.fast.is_some() { 2.0 } else { 1.0 };
    publishers(&mut observer, num_peers);
    let processes = site.fast.iter().map(FastDdsPeer::id).chain([site.cyclone.id()]);
    let paused = Paused::start(&Vec::from_iter(processes));
    site.turn.rest(PAUSE);
    // The node has given them up.
    publishers(&mut observer, 0.0);
    drop(paused);
    site.assert_matched(1, RECOVERY);
    site.assert_serves(RECOVERY);
    publishers(&mut observer, num_peers);
    assert_eq!(site.program.interrupt().0, Some(0));
}

#[test]
fn a_killed_node_leaves_the_graph() {
    let Some(mut site) = Site::new() else { return };
    signal(site.program.id(), "-KILL");
    site.turn.end();
    site.assert_matched(0, KILLED);
}
