//! A camera and a LiDAR at full rate: nothing is lost, memory stays.

use super::memory::resident;
use super::one_input_slot::{next_stamp, one_input_slot};
use super::peer::{Turn, events, exclusive_turn, wait_until, with};
use det_post::runtime::arrivals::{Arrivals, NUM_ARRIVING};
use det_post::runtime::video_decoder::VideoPlace;
use det_post_ops::device::PayloadMemory;
use det_post_ros::middleware::{
    InputKind, Middleware, MiddlewareEvent, Qos, Received, Receiver, Reliability, Subscription,
};
use det_post_types::{Header, ImagePayload};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What one sensor sends.
#[derive(Clone, Copy)]
struct Sensor {
    topic: &'static str,
    kind: InputKind,
    num_bytes: usize,
    hz: f64,
}

/// 1080p in colour.
const CAMERA: Sensor =
    Sensor { topic: "/image", kind: InputKind::Image, num_bytes: 1920 * 1080 * 3, hz: 30.0 };

/// 131,072 points of 16 bytes.
const LIDAR: Sensor =
    Sensor { topic: "/points", kind: InputKind::PointCloud2, num_bytes: 131_072 * 16, hz: 10.0 };

/// Frames that may wait for a thread that waits for a processor.
const DEPTH: usize = 10;

impl Sensor {
    fn num_frames(self, duration: Duration) -> usize {
        (duration.as_secs_f64() * self.hz) as usize
    }

    /// Has a peer send so many frames.
    fn stream(self, count: u64) -> Value {
        with(
            json!({"op": "stream", "id": self.topic, "count": count, "hz": self.hz}),
            &json!({"size": self.num_bytes, "sample": self.sample()}),
        )
    }

    fn sample(self) -> Value {
        let header = json!({"frame_id": "sensor"});
        match self.kind {
            InputKind::Image => json!({"header": header, "height": 1080, "width": 1920,
                "encoding": "rgb8", "step": 5760}),
            _ => {
                let field = |name, offset| json!({"name": name, "offset": offset, "datatype": 7, "count": 1});
                json!({"header": header, "height": 1, "width": 131_072, "point_step": 16,
                    "row_step": 131_072 * 16, "is_dense": true, "fields": [
                        field("x", 0), field("y", 4), field("z", 8), field("intensity", 12)]})
            }
        }
    }
}

/// What arrived of a sensor.
#[derive(Default)]
struct Arrived {
    /// The slot that every payload is copied into, as a node does.
    slot: Vec<u8>,
    numbers: Vec<u64>,
    /// From the writer's clock to the end of the copy.
    latencies: Vec<Duration>,
    refused: Vec<String>,
}

impl Arrived {
    fn take(&mut self, header: Header<'_>, data: &[u8]) {
        self.slot.clear();
        self.slot.extend_from_slice(data);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let sent = Duration::from_nanos(u64::try_from(header.stamp.nanos()).unwrap());
        self.latencies.push(now.saturating_sub(sent));
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let (first, last) = (number(&data[..8]), number(&data[data.len() - 8..]));
        assert_eq!(first, last, "a frame is made of two");
        self.numbers.push(first);
    }
}

fn receive(arrived: &Arc<Mutex<Arrived>>) -> Receiver {
    let arrived = Arc::clone(arrived);
    Box::new(move |received| {
        let mut arrived = arrived.lock().unwrap();
        match received {
            Ok(Received::Image { header, payload: ImagePayload::Raw(image) }) => {
                arrived.take(header, image.data());
            }
            Ok(Received::Image { header, payload: ImagePayload::Compressed(file) }) => {
                arrived.take(header, file.data);
            }
            Ok(Received::Cloud { header, view }) => arrived.take(header, view.data()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => arrived.refused.push(error.to_string()),
        }
    })
}

/// Threads of middlewares and of the participants below them.
fn num_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("dds ") || name.trim_end() == "rtps").count()
}

/// What both sensors' frames came to.
struct Run {
    sensors: [(Sensor, Arc<Mutex<Arrived>>); 2],
    /// What this process held every second.
    memory: Vec<usize>,
    /// Reported losses by topic.
    told_as_lost: Vec<(String, u64)>,
}

impl Run {
    /// Asserts that the middleware reported every frame that is missing between the
    /// first and the last one that arrived.
    fn assert_all_losses_are_told(&self) {
        for (sensor, arrived) in &self.sensors {
            let numbers = &arrived.lock().unwrap().numbers;
            let (first, last) = (numbers.first().unwrap(), numbers.last().unwrap());
            let missing = last - first + 1 - numbers.len() as u64;
            let of_topic = self.told_as_lost.iter().filter(|(topic, _)| topic == sensor.topic);
            let told: u64 = of_topic.map(|(_, count)| count).sum();
            assert_eq!(told, missing, "{}: told and missing", sensor.topic);
        }
    }
}

/// Lets both sensors send for so long.
fn run(turn: &Turn, duration: Duration, reliability: Reliability) -> Option<Run> {
    let mut peers = [turn.peer()?, turn.peer()?];
    let mut middleware = turn.middleware("det_post");
    let told = events(&mut middleware);
    let qos = Qos { reliability, depth: DEPTH, ..Qos::SENSOR_DATA };
    let mut subscriptions: Vec<Box<dyn Subscription>> = Vec::new();
    let sensors = [CAMERA, LIDAR].map(|sensor| {
        let arrived = Arc::default();
        let receiver = receive(&arrived);
        subscriptions.push(middleware.subscribe(sensor.topic, sensor.kind, qos, receiver).unwrap());
        (sensor, arrived)
    });
    // A reliable sensor waits rather than lose, so that a busy machine only slows it.
    let is_reliable = reliability == Reliability::Reliable;
    let reliable = json!({"reliable": is_reliable, "patient": is_reliable, "depth": 5});
    for (peer, (sensor, _)) in peers.iter_mut().zip(&sensors) {
        peer.writer(sensor.topic, sensor.kind.type_name(), &reliable, 1);
    }
    for (peer, (sensor, _)) in peers.iter_mut().zip(&sensors) {
        peer.begin(&sensor.stream(sensor.num_frames(duration) as u64));
    }
    assert!(num_threads() > 2, "the names of threads have changed");
    let mut memory = Vec::new();
    for _ in 0..duration.as_secs() {
        std::thread::sleep(Duration::from_secs(1));
        memory.push(resident());
    }
    for (peer, (sensor, _)) in peers.iter_mut().zip(&sensors) {
        let late = peer.finish().as_f64().unwrap();
        println!("{}: the last frame was sent {:.1} ms late", sensor.topic, 1e3 * late);
    }
    if is_reliable {
        wait_until("all frames", || {
            let is_whole = |(sensor, arrived): &(Sensor, Arc<Mutex<Arrived>>)| {
                arrived.lock().unwrap().numbers.len() >= sensor.num_frames(duration)
            };
            sensors.iter().all(is_whole)
        });
    } else {
        std::thread::sleep(Duration::from_secs(1));
    }
    let lost = told.all().into_iter().filter_map(|event| match event {
        MiddlewareEvent::Lost { topic, count } => Some((topic, count)),
        _ => None,
    });
    Some(Run { sensors, memory, told_as_lost: lost.collect() })
}

/// Prints what arrived, and gives how many frames did not.
fn report(sensor: Sensor, arrived: &Mutex<Arrived>, duration: Duration) -> usize {
    let mut arrived = arrived.lock().unwrap();
    assert_eq!(arrived.refused, [""; 0]);
    assert!(arrived.numbers.is_sorted_by(|a, b| a < b), "frames out of order or twice");
    let count = sensor.num_frames(duration);
    arrived.latencies.sort();
    let at = |share: f64| {
        let last = arrived.latencies.len() - 1;
        1e3 * arrived.latencies[(share * last as f64) as usize].as_secs_f64()
    };
    println!(
        "{}: {} of {count} arrived; {:.1} ms p50, {:.1} ms p99, {:.1} ms at most after they were sent",
        sensor.topic,
        arrived.numbers.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    count - arrived.numbers.len()
}

#[test]
fn a_camera_and_a_lidar_arrive_whole() {
    let turn = exclusive_turn();
    let duration = Duration::from_secs(4);
    let Some(run) = run(&turn, duration, Reliability::Reliable) else { return };
    for (sensor, arrived) in &run.sensors {
        assert_eq!(report(*sensor, arrived, duration), 0, "{} frames lost", sensor.topic);
    }
    assert_eq!(num_threads(), 0, "threads are left");
}

/// As many streams of compressed 1080p as a vehicle has cameras, by one peer.
#[test]
fn fourteen_compressed_cameras_arrive_whole() {
    const NUM_CAMERAS: usize = 14;
    const NUM_FRAMES: usize = 30;
    let turn = exclusive_turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware("det_post");
    let qos = Qos { reliability: Reliability::Reliable, depth: DEPTH, ..Qos::SENSOR_DATA };
    let topics: Vec<String> = (0..NUM_CAMERAS).map(|i| format!("/camera_{i}/image")).collect();
    let mut cameras = Vec::new();
    for topic in &topics {
        let arrived: Arc<Mutex<Arrived>> = Arc::default();
        let kind = InputKind::CompressedImage;
        let subscription = middleware.subscribe(topic, kind, qos, receive(&arrived)).unwrap();
        cameras.push((subscription, arrived));
    }
    let patient = json!({"reliable": true, "patient": true});
    for topic in &topics {
        peer.writer(topic, InputKind::CompressedImage.type_name(), &patient, 1);
    }
    let sample = json!({"header": {"frame_id": "camera"}, "format": "jpeg"});
    let late = peer.ask(&json!({"op": "stream", "ids": topics, "count": NUM_FRAMES, "hz": 10.0,
        "size": 400_000, "sample": sample}));
    let num_arrived = || -> usize {
        cameras.iter().map(|(_, arrived)| arrived.lock().unwrap().numbers.len()).sum()
    };
    wait_until("all frames", || num_arrived() >= NUM_CAMERAS * NUM_FRAMES);
    println!("{} frames, the last sent {late} s late", num_arrived());
    let expected: Vec<u64> = (0..NUM_FRAMES as u64).collect();
    for ((_, arrived), topic) in cameras.iter().zip(&topics) {
        let arrived = arrived.lock().unwrap();
        assert_eq!((&arrived.numbers, &arrived.refused), (&expected, &Vec::new()), "{topic}");
    }
}

/// Images of several datagrams are put together in the slot's memory: the copy from the socket's
/// buffer is the only one.
#[test]
fn large_messages_arrive_in_the_memory_of_the_slot() {
    let turn = exclusive_turn();
    let Some(mut sender) = turn.peer() else { return };
    let mut middleware = turn.middleware("det_post");
    let (writer, mut reader, closer) = one_input_slot();
    let arrivals = Arrivals {
        kind: CAMERA.kind,
        writer,
        memory: (0..NUM_ARRIVING).map(|_| PayloadMemory::default()).collect(),
        decoded: PayloadMemory::default(),
        video: VideoPlace::default(),
        max_payload_bytes: usize::MAX,
        note: Box::new(|offered| assert!(offered.is_ok(), "{offered:?}")),
    };
    let (receiver, buffers) = arrivals.into_receiver();
    let num_copied = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&num_copied);
    let mut receiver = receiver;
    let receiver: Receiver = Box::new(move |received| {
        counted.fetch_add(1, Ordering::Relaxed);
        receiver(received);
    });
    let qos = Qos { reliability: Reliability::Reliable, depth: DEPTH, ..Qos::SENSOR_DATA };
    let (topic, kind) = (CAMERA.topic, CAMERA.kind);
    let _input = middleware.subscribe_into(topic, kind, qos, receiver, buffers).unwrap();
    let patient = json!({"reliable": true, "patient": true});
    sender.writer(CAMERA.topic, CAMERA.kind.type_name(), &patient, 1);
    let channel = std::thread::spawn(move || {
        let mut num_taken = 0;
        while next_stamp(&mut reader).is_some() {
            num_taken += 1;
        }
        num_taken
    });
    sender.ask(&with(CAMERA.stream(30), &json!({"hz": 10.0})));
    std::thread::sleep(Duration::from_millis(500));
    closer.close();
    let num_taken = channel.join().unwrap();
    let num_copied = num_copied.load(Ordering::Relaxed);
    println!("{num_taken} of 30 images taken, {num_copied} copied a second time");
    // The first shows the size; buffers are short where this machine is busy.
    assert!(num_taken > 15 && num_copied < 10, "{num_taken} taken, {num_copied} copied");
}

/// Seconds from the writer's clock to a reader of the other implementation
/// that takes the message as bytes.
fn ages_at_peer(turn: &Turn, sensor: Sensor, num_frames: u64) -> Option<Vec<f64>> {
    let (mut sender, mut receiver) = (turn.peer()?, turn.peer()?);
    receiver.reader(sensor.topic, sensor.kind.type_name(), &json!({"depth": DEPTH}), 0);
    sender.writer(sensor.topic, sensor.kind.type_name(), &json!({"depth": 5}), 1);
    receiver.begin(&json!({"op": "receive", "id": sensor.topic, "count": num_frames}));
    sender.ask(&sensor.stream(num_frames));
    serde_json::from_value(receiver.finish()).unwrap()
}

/// Seconds from the writer's clock to the thread of a channel, which would
/// start with the frame then.
fn ages_at_channel(turn: &Turn, sensor: Sensor, num_frames: u64) -> Option<Vec<f64>> {
    let mut sender = turn.peer()?;
    let mut middleware = turn.middleware("det_post");
    let (mut writer, mut reader, closer) = one_input_slot();
    let receiver: Receiver = Box::new(move |received| {
        writer.offer(&received.unwrap(), usize::MAX).unwrap();
    });
    let qos = Qos { depth: DEPTH, ..Qos::SENSOR_DATA };
    let subscription = middleware.subscribe(sensor.topic, sensor.kind, qos, receiver).unwrap();
    let channel = std::thread::spawn(move || {
        let mut ages = Vec::new();
        while let Some(stamp) = next_stamp(&mut reader) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            ages.push(now.as_secs_f64() - 1e-9 * stamp.nanos() as f64);
        }
        ages
    });
    sender.writer(sensor.topic, sensor.kind.type_name(), &json!({"depth": 5}), 1);
    sender.ask(&sensor.stream(num_frames));
    std::thread::sleep(Duration::from_millis(500));
    closer.close();
    drop(subscription);
    Some(channel.join().unwrap())
}

/// The latency through the middleware to the start of a frame, compared with a peer
/// that does nothing but take the bytes.
#[test]
#[ignore = "measures for two minutes"]
fn the_middleware_adds_less_than_a_millisecond() {
    let turn = exclusive_turn();
    for sensor in [CAMERA, LIDAR] {
        let num_frames = (10.0 * sensor.hz) as u64;
        let mut medians = [Vec::new(), Vec::new()];
        for _ in 0..3 {
            for (ages_at, medians) in [ages_at_peer, ages_at_channel].iter().zip(&mut medians) {
                let Some(mut ages) = ages_at(&turn, sensor, num_frames) else { return };
                ages.sort_by(f64::total_cmp);
                let at = |share: f64| 1e3 * ages[(share * (ages.len() - 1) as f64) as usize];
                println!(
                    "{}: {} of {num_frames}, {:.2} ms p50, {:.2} ms p95",
                    sensor.topic,
                    ages.len(),
                    at(0.5),
                    at(0.95)
                );
                medians.push(at(0.5));
            }
        }
        let [at_peer, at_channel] = medians.map(|mut all| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        });
        println!("{}: {at_peer:.2} ms to a peer, {at_channel:.2} ms to a channel", sensor.topic);
        assert!(at_channel < at_peer + 1.0, "{}", sensor.topic);
    }
}

/// `DET_POST_SOAK_SECONDS` is the duration.
#[test]
#[ignore = "takes ten minutes"]
fn soak() {
    let turn = exclusive_turn();
    let seconds = std::env::var("DET_POST_SOAK_SECONDS").map_or(600, |text| text.parse().unwrap());
    let duration = Duration::from_secs(seconds);
    let Some(run) = run(&turn, duration, Reliability::BestEffort) else { return };
    // An image more or less is on its way at any moment: the most of one time beside the most of another.
    let quarter = run.memory.len() / 4;
    let settled = run.memory[quarter..2 * quarter].iter().max().unwrap();
    let most = run.memory[2 * quarter..].iter().max().unwrap();
    println!(
        "memory: {} MiB at most in the second quarter, {} MiB after it",
        settled >> 20,
        most >> 20
    );
    let lost: Vec<usize> =
        run.sensors.iter().map(|(sensor, arrived)| report(*sensor, arrived, duration)).collect();
    run.assert_all_losses_are_told();
    // How many are lost is a matter of the machine's socket buffers and of how busy it is.
    println!("lost: {lost:?}");
    assert!(most * 100 <= settled * 105, "memory has grown by more than 5 %");
    assert_eq!(num_threads(), 0, "threads are left");
}
