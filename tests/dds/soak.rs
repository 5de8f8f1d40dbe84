//! `det_post run` with the networks of the demo, a camera and a LiDAR at full
//! rate: every frame is accounted for, memory and threads stay.

use super::node::{PROGRAM, Program, Status, diagnostics};
use super::peer::{PATIENCE, Peer, exclusive_turn, with};
use det_post::node::DIAGNOSTICS_TOPIC;
use det_post_ros::messages::{Detection2DArray, Detection3DArray, DiagnosticArray};
use det_post_ros::middleware::InputKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A channel, and what is sent to it.
struct Channel {
    name: &'static str,
    input: &'static str,
    kind: InputKind,
    output: &'static str,
    output_type: &'static str,
    num_bytes: usize,
    hz: f64,
}

/// 1080p in colour.
const CAMERA: Channel = Channel {
    name: "camera",
    input: "/camera_0/image",
    kind: InputKind::Image,
    output: "/det_post/camera/detections",
    output_type: Detection2DArray::TYPE,
    num_bytes: 1920 * 1080 * 3,
    hz: 30.0,
};

const NUM_POINTS: usize = 100_000;

const LIDAR: Channel = Channel {
    name: "lidar",
    input: "/lidar_0/points",
    kind: InputKind::PointCloud2,
    output: "/det_post/lidar/detections",
    output_type: Detection3DArray::TYPE,
    num_bytes: NUM_POINTS * 16,
    hz: 10.0,
};

/// Bytes that fragments of an input's unfinished messages hold, at most.
const MAX_UNJOINED_BYTES: usize = 64 << 20;

impl Channel {
    fn sample(&self) -> Value {
        let header = json!({"frame_id": "sensor"});
        if self.kind == InputKind::Image {
            return json!({"header": header, "height": 1080, "width": 1920, "encoding": "rgb8",
                "step": 5760});
        }
        let field =
            |name, offset| json!({"name": name, "offset": offset, "datatype": 7, "count": 1});
        json!({"header": header, "height": 1, "width": NUM_POINTS, "point_step": 16,
            "row_step": self.num_bytes, "is_dense": true, "fields": [
                field("x", 0), field("y", 4), field("z", 8), field("intensity", 12)]})
    }

    /// Starts to send so many frames.
    fn begin(&self, peer: &mut Peer, count: u64, hz: f64) {
        peer.begin(&with(
            json!({"op": "stream", "id": self.input, "count": count, "hz": hz}),
            &json!({"size": self.num_bytes, "sample": self.sample()}),
        ));
    }
}

/// What the node has said of a channel.
#[derive(Default)]
struct Told {
    /// Totals, by the name they have in the diagnostics.
    totals: BTreeMap<String, f64>,
    /// Dropped frames, reported per window.
    num_dropped: f64,
    /// Medians of the windows, from arrival to publication, in milliseconds.
    responses: Vec<f64>,
}

impl Told {
    fn note(&mut self, input: &Status, frames: &Status, latency: &Status) {
        for (status, key) in [
            (input, "received"),
            (input, "overtaken"),
            (input, "abandoned"),
            (input, "lost_in_middleware"),
            (frames, "frames_out_total"),
        ] {
            self.totals.insert(key.to_owned(), status.number(key));
        }
        let refused = input.values.keys().filter(|key| key.starts_with("refused."));
        let refused = refused.fold(0.0, |sum, key| sum + input.number(key));
        self.totals.insert("refused".to_owned(), refused);
        let dropped = frames.values.keys().filter(|key| key.starts_with("dropped."));
        self.num_dropped += dropped.map(|key| frames.number(key)).sum::<f64>();
        if latency.values.contains_key("response_p50_ms") {
            self.responses.push(latency.number("response_p50_ms"));
        }
    }

    /// Asserts that all that was sent is accounted for; `num_outputs` messages
    /// came out.
    fn assert_sums(&mut self, channel: &Channel, num_sent: u64, num_outputs: u64) {
        let Self { totals, num_dropped, responses } = self;
        responses.sort_by(f64::total_cmp);
        let median = responses.get(responses.len() / 2).copied().unwrap_or(f64::NAN);
        println!(
            "{}: {num_sent} sent, {totals:?}, {num_dropped} dropped; response {median:.1} ms",
            channel.name
        );
        let total = |key: &str| totals[key];
        let arrived = total("received") + total("refused") + total("lost_in_middleware");
        assert_eq!(num_sent as f64, arrived, "{}: sent and arrived", channel.name);
        let done = total("frames_out_total") + total("overtaken") + total("abandoned");
        assert_eq!(total("received"), done + *num_dropped, "{}: received and done", channel.name);
        assert_eq!(num_outputs as f64, total("frames_out_total"), "{}: outputs", channel.name);
    }
}

/// What is listened to while the sensors send.
struct Listener {
    peer: Peer,
    told: [Told; 2],
    num_outputs: [u64; 2],
}

impl Listener {
    fn listen(&mut self) {
        for (channel, num) in [CAMERA, LIDAR].iter().zip(&mut self.num_outputs) {
            let came = self.peer.ask(&json!({"op": "count", "id": channel.output}));
            *num += came.as_u64().unwrap();
        }
        for statuses in diagnostics(&mut self.peer) {
            for (channel, told) in [CAMERA, LIDAR].iter().zip(&mut self.told) {
                let [input, frames, latency] = ["input", "frames", "latency"]
                    .map(|part| statuses.get(&format!("det_post: {}: {part}", channel.name)));
                if let (Some(input), Some(frames), Some(latency)) = (input, frames, latency) {
                    told.note(input, frames, latency);
                }
            }
        }
    }

    /// Listens until as many outputs have come, or for so long.
    fn wait(&mut self, num_outputs: [u64; 2], patience: Duration) {
        let began = Instant::now();
        while (0..2).any(|i| self.num_outputs[i] < num_outputs[i]) && began.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(200));
            self.listen();
        }
    }
}

/// `DET_POST_SOAK_SECONDS` is the duration, `DET_POST_SOAK_PROGRAM` which build
/// of the program when it is not this one.
#[test]
#[ignore = "takes ten minutes"]
fn the_program_loses_nothing_untold() {
    let turn = exclusive_turn();
    let seconds = std::env::var("DET_POST_SOAK_SECONDS").map_or(600, |text| text.parse().unwrap());
    let program = std::env::var("DET_POST_SOAK_PROGRAM").unwrap_or_else(|_| PROGRAM.to_owned());
    let (Some(camera), Some(lidar), Some(listening)) = (turn.peer(), turn.peer(), turn.peer())
    else {
        return;
    };
    let mut senders = [(CAMERA, camera), (LIDAR, lidar)];
    let mut listener = Listener { peer: listening, told: Default::default(), num_outputs: [0; 2] };
    let config = Path::new("config/demo.param.yaml");
    let program = Program::start(Path::new(&program), turn.domain, config, &["device:=cpu"]);
    let reliable = json!({"reliable": true, "depth": 1000});
    listener.peer.reader(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, &reliable, 1);
    for (channel, peer) in &mut senders {
        listener.peer.reader(channel.output, channel.output_type, &reliable, 1);
        peer.writer(channel.input, channel.kind.type_name(), &json!({"depth": 5}), 1);
    }

    // Losses before the first or after the last received message are unknown.
    for (channel, peer) in &mut senders {
        channel.begin(peer, 1, 1.0);
        peer.finish();
    }
    listener.wait([1; 2], PATIENCE);
    assert_eq!(listener.num_outputs, [1; 2], "the first frames are served");
    for (channel, peer) in &mut senders {
        channel.begin(peer, (seconds as f64 * channel.hz) as u64, channel.hz);
    }
    let (mut memory, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        listener.listen();
        memory.push(program.status("VmRSS:"));
        threads.push(program.status("Threads:"));
    }
    for (channel, peer) in &mut senders {
        let late = peer.finish().as_f64().unwrap();
        println!("{}: the last frame was sent {:.1} ms late", channel.name, 1e3 * late);
        channel.begin(peer, 3, 2.0);
        peer.finish();
    }
    listener.wait([u64::MAX; 2], Duration::from_secs(4));

    let quarter = memory.len() / 4;
    let settled = &memory[quarter..];
    let [least, most] = [settled.iter().min(), settled.iter().max()].map(|kib| kib.unwrap() << 10);
    println!("memory: {} to {} MiB after a quarter of the time", least >> 20, most >> 20);
    let [fewest, most_threads] =
        [threads[quarter..].iter().min(), threads[quarter..].iter().max()].map(Option::unwrap);
    println!("threads: {fewest} to {most_threads}");
    for (i, (channel, _)) in senders.iter().enumerate() {
        let num_sent = 1 + (seconds as f64 * channel.hz) as u64 + 3;
        listener.told[i].assert_sums(channel, num_sent, listener.num_outputs[i]);
    }
    // A busy machine loses messages; each may leave its fragments, and their room stays.
    let left_by = |(told, channel): (&Told, &Channel)| {
        (told.totals["lost_in_middleware"] as usize * channel.num_bytes).min(MAX_UNJOINED_BYTES)
    };
    let left: usize = listener.told.iter().zip([&CAMERA, &LIDAR]).map(left_by).sum();
    println!("memory: {} MiB for fragments of what was lost, at most", left >> 20);
    assert!(most <= least + least / 20 + left, "memory is not flat within 5 %: {least} to {most}");
    assert_eq!(fewest, most_threads, "threads come or go");
    assert_eq!(program.interrupt().0, Some(0));
}
