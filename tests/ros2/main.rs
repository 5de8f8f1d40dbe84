//! The ROS 2 middleware beside rclpy, in processes of their own: what arrives, how
//! late, and what is lost.
//!
//! Wants a sourced ROS 2 whose `python3` has rclpy; without it the tests say
//! that they were skipped.

#![cfg(feature = "ros2")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they measured")]

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use det_post::runtime::slot::SlotReader;
use det_post_ros::middleware::{
    InputKind, Middleware, MiddlewareOptions, Qos, Received, Receiver, Reliability,
};
use det_post_ros::ros2::RosMiddleware;
use det_post_ros::{NodeName, Remaps};
use det_post_types::{Header, ImagePayload};
use serde::de::DeserializeOwned;

#[path = "../common/mod.rs"]
mod common;

use common::memory::resident;
use common::one_input_slot::{next_stamp, one_input_slot};
use common::require::{Need, skip};

/// What one sensor sends, as `ros2_peer.py` knows it.
#[derive(Clone, Copy)]
struct Sensor {
    name: &'static str,
    kind: InputKind,
    hz: f64,
}

/// 1080p in colour: 6.2 MB.
const CAMERA: Sensor = Sensor { name: "image", kind: InputKind::Image, hz: 30.0 };

/// 131,072 points of 16 bytes: 2.1 MB.
const LIDAR: Sensor = Sensor { name: "cloud", kind: InputKind::PointCloud2, hz: 10.0 };

/// Messages that the middleware keeps for a reader.
const DEPTH: usize = 10;

/// One test after the other: they share the machine. `None`, and said so,
/// without ROS 2.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let has = Command::new("python3").args(["-c", "import rclpy"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        skip(Need::Ros2, "python3 has no rclpy");
        return None;
    }
    Some(turn)
}

/// A topic that no other test has.
fn topic() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("/det_post_test_{}/input_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn middleware(name: &str) -> RosMiddleware {
    let node = NodeName::new("", name).unwrap();
    RosMiddleware::open(MiddlewareOptions { node, remaps: Remaps::default() }).unwrap()
}

/// A peer that does its best and no more.
fn peer(verb: &str, topic: &str, sensor: Sensor, count: u64) -> Child {
    peer_as(Reliability::BestEffort, verb, topic, sensor, count)
}

fn peer_as(reliability: Reliability, verb: &str, topic: &str, sensor: Sensor, count: u64) -> Child {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/ros2_peer.py");
    let (count, hz) = (count.to_string(), sensor.hz.to_string());
    let reliability = match reliability {
        Reliability::BestEffort => "best_effort",
        Reliability::Reliable => "reliable",
    };
    Command::new("python3")
        .args(["-B", script, verb, topic, sensor.name, reliability, &count, &hz])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What a peer has told at its end.
fn told<T: DeserializeOwned>(peer: Child) -> T {
    let output = peer.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn seconds_since(header: &Header<'_>) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs_f64() - 1e-9 * header.stamp.nanos() as f64
}

/// What arrived of a sensor.
#[derive(Default)]
struct Arrived {
    numbers: Vec<u64>,
    refused: Vec<String>,
}

fn count(arrived: &Arc<Mutex<Arrived>>) -> Receiver {
    let arrived = Arc::clone(arrived);
    let mut copy = Vec::new();
    let mut take = move |header: Header<'_>, data: &[u8]| {
        assert_eq!(header.frame_id, "sensor");
        copy.clear();
        copy.extend_from_slice(data);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let (first, last) = (number(&copy[..8]), number(&copy[copy.len() - 8..]));
        assert_eq!(first, last, "a frame is made of two");
        first
    };
    Box::new(move |received| {
        let number = match received {
            Ok(Received::Image { header, payload: ImagePayload::Raw(image) }) => {
                assert_eq!((image.size().width, image.size().height), (1920, 1080));
                take(header, image.data())
            }
            Ok(Received::Cloud { header, view }) => {
                assert_eq!((view.width(), view.fields().as_slice().len()), (131_072, 4));
                take(header, view.data())
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => return arrived.lock().unwrap().refused.push(error.to_string()),
        };
        arrived.lock().unwrap().numbers.push(number);
    })
}

/// Seconds that the processors have worked for this process.
fn worked() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let mut numbers = stat.rsplit(')').next().unwrap().split_whitespace().skip(11);
    let mut ticks = || numbers.next().unwrap().parse::<f64>().unwrap();
    (ticks() + ticks()) / 100.0
}

/// Lets both sensors send for so long. What arrived of each, and what this
/// process held every second.
fn listen(seconds: u64, reliability: Reliability) -> ([(Sensor, Arrived); 2], Vec<usize>) {
    let mut middleware = middleware("listener");
    let qos = Qos { reliability, depth: DEPTH, ..Qos::SENSOR_DATA };
    let running = [CAMERA, LIDAR].map(|sensor| {
        let (topic, arrived) = (topic(), Arc::<Mutex<Arrived>>::default());
        let subscription = middleware.subscribe(&topic, sensor.kind, qos, count(&arrived)).unwrap();
        let num_frames = (seconds as f64 * sensor.hz) as u64;
        (sensor, subscription, arrived, peer_as(reliability, "send", &topic, sensor, num_frames))
    });
    let mut memory = Vec::new();
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        memory.push(resident());
    }
    let arrived = running.map(|(sensor, subscription, arrived, peer)| {
        let late: f64 = told(peer);
        println!("{}: the last frame was sent {:.1} ms late", sensor.name, 1e3 * late);
        drop(subscription);
        (sensor, std::mem::take(&mut *arrived.lock().unwrap()))
    });
    (arrived, memory)
}

#[test]
fn a_camera_and_a_lidar_arrive_as_they_were_sent() {
    let Some(_turn) = turn() else { return };
    for (sensor, arrived) in listen(4, Reliability::Reliable).0 {
        assert_eq!(arrived.refused, [""; 0]);
        assert!(arrived.numbers.is_sorted_by(|a, b| a < b), "frames out of order or twice");
        // A writer of ROS keeps only its last five: a busy machine loses some.
        println!("{}: {} of {} arrived", sensor.name, arrived.numbers.len(), 4.0 * sensor.hz);
        assert!(!arrived.numbers.is_empty(), "{}", sensor.name);
    }
}

/// The same, to subscribers of rclpy in processes of their own: how many
/// messages each took.
fn listen_by_rclpy(seconds: u64) -> [usize; 2] {
    let running = [CAMERA, LIDAR].map(|sensor| {
        let (topic, num_frames) = (topic(), (seconds as f64 * sensor.hz) as u64);
        let receiver = peer("receive", &topic, sensor, num_frames);
        (receiver, peer("send", &topic, sensor, num_frames))
    });
    running.map(|(receiver, sender)| {
        let _late: f64 = told(sender);
        told::<Vec<f64>>(receiver).len()
    })
}

/// `DET_POST_SOAK_SECONDS` says how long. How much is lost is a matter of socket
/// buffers and of how busy the machine is: rclpy has its turn beside the middleware.
#[test]
#[ignore = "takes two minutes"]
fn soak() {
    let Some(_turn) = turn() else { return };
    let seconds = std::env::var("DET_POST_SOAK_SECONDS").map_or(60, |text| text.parse().unwrap());
    let before = worked();
    let (sensors, memory) = listen(seconds, Reliability::BestEffort);
    let work = (worked() - before) / seconds as f64;
    let settled = memory[memory.len() / 4];
    let most = memory[memory.len() / 4..].iter().max().unwrap();
    println!("memory: {} MiB after a quarter, {} MiB at most after it", settled >> 20, most >> 20);
    println!("work: {:.1} % of a processor", 100.0 * work);
    for ((sensor, arrived), by_rclpy) in sensors.iter().zip(listen_by_rclpy(seconds)) {
        assert_eq!(arrived.refused, [""; 0]);
        let num_sent = (seconds as f64 * sensor.hz) as u64;
        let num_arrived = arrived.numbers.len();
        println!("{}: {num_arrived} of {num_sent} arrived, by rclpy {by_rclpy}", sensor.name);
    }
    // So little is held that an image on its way is more than 5 % of it.
    assert!(*most < settled + settled / 20 + 1920 * 1080 * 3, "memory has grown");
}

/// Where a message ends that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A subscriber of rclpy that takes the message as bytes.
    Rclpy,
    /// The thread of a channel, through the middleware.
    Channel,
}

/// Seconds from the writer's clock to the end of the way.
fn ages(way: Way, sensor: Sensor, num_frames: u64) -> Vec<f64> {
    let topic = topic();
    if way == Way::Rclpy {
        let receiver = peer("receive", &topic, sensor, num_frames);
        let _late: f64 = told(peer("send", &topic, sensor, num_frames));
        return told(receiver);
    }
    let (mut writer, reader, closer) = one_input_slot();
    let channel = std::thread::spawn(move || take_ages(reader));
    let receiver: Receiver = Box::new(move |received| {
        writer.offer(&received.unwrap(), usize::MAX).unwrap();
    });
    let mut middleware = middleware("measured");
    let qos = Qos { depth: DEPTH, ..Qos::SENSOR_DATA };
    let subscription = middleware.subscribe(&topic, sensor.kind, qos, receiver).unwrap();
    let _late: f64 = told(peer("send", &topic, sensor, num_frames));
    drop(subscription);
    closer.close();
    channel.join().unwrap()
}

/// How old frames are when a channel begins with them.
fn take_ages(mut reader: SlotReader) -> Vec<f64> {
    let mut ages = Vec::new();
    while let Some(stamp) = next_stamp(&mut reader) {
        ages.push(seconds_since(&Header { stamp, frame_id: "" }));
    }
    ages
}

/// The way through the middleware to where a frame begins, beside a subscriber that
/// does nothing but take the bytes.
#[test]
#[ignore = "measures for four minutes"]
fn the_middleware_adds_less_than_a_millisecond() {
    const WAYS: [Way; 2] = [Way::Rclpy, Way::Channel];
    let Some(_turn) = turn() else { return };
    for sensor in [CAMERA, LIDAR] {
        let num_frames = (10.0 * sensor.hz) as u64;
        let mut medians = WAYS.map(|_| Vec::new());
        for _ in 0..3 {
            for (way, medians) in WAYS.iter().zip(&mut medians) {
                let before = worked();
                let mut ages = ages(*way, sensor, num_frames);
                // Of rclpy, it is that of another process.
                let work = 1e3 * (worked() - before) / num_frames as f64;
                ages.sort_by(f64::total_cmp);
                let at = |share: f64| 1e3 * ages[(share * (ages.len() - 1) as f64) as usize];
                println!(
                    "{} to {way:?}: {} of {num_frames}, {:.2} ms p50, {:.2} ms p95, {work:.2} ms \
                     of work here",
                    sensor.name,
                    ages.len(),
                    at(0.5),
                    at(0.95)
                );
                medians.push(at(0.5));
            }
        }
        let [to_rclpy, to_channel] = medians.map(|mut all| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        });
        println!("{}: {to_rclpy:.2} ms to rclpy, {to_channel:.2} ms to a channel", sensor.name);
        assert!(to_channel < to_rclpy + 1.0, "{}", sensor.name);
    }
}
