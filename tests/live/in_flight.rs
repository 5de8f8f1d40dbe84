//! Two live frames at once: the same order and account as one after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use det_post::ErrorKind;
use det_post::config::{ChannelConfig, Config};
use det_post::detectors::{Detector, PayloadKind};
use det_post::node::{Change, LiveNode};
use det_post_ros::middleware::MiddlewareOptions;
use det_post_ros::{NodeName, ParameterValue, Remaps};
use det_post_types::{DeviceChoice, Stamp};

use super::diagnostics;
use super::memory_middleware::MemoryMiddleware;
use super::pipelined::{Faults, Pipelined, Step};
use super::recording::IMAGE_TOPIC;
use super::session::{CAMERA_OUT, PATIENCE, Session, image_message, sample, stamp_of};

const NUM_SENT: i32 = 400;
/// The first of these, while the debug image has a subscriber.
const NUM_DRAWN: i32 = 100;

/// A node whose camera has a detector with uploads and networks of 2 ms, of which some fail.
fn open(frames_in_flight: usize, most: &Arc<AtomicUsize>) -> Session {
    let faults: Faults = Arc::new(|number, step| match (number % 5, step) {
        (1, Step::Submit) => Some(ErrorKind::Encoding),
        (3, Step::Collect) => Some(ErrorKind::Inference),
        _ => None,
    });
    let seen = Arc::clone(most);
    let factory = move |_: &ChannelConfig, _: DeviceChoice| {
        let detector = Pipelined::new(PayloadKind::Image, &faults, &seen);
        Ok(Box::new(detector.taking(Duration::from_millis(2))) as Box<dyn Detector>)
    };
    let folder = sample().display();
    let parameters = [
        "diagnostics_period_s:=0.1".to_owned(),
        format!("camera.input:={IMAGE_TOPIC}"),
        format!("camera.head:={folder}/heads/blobs_yolov8.yaml"),
        format!("camera.model_path:={folder}/models/blobs_yolov8.onnx"),
        format!("camera.frames_in_flight:={frames_in_flight}"),
    ];
    let node = NodeName::new("", "det_post").unwrap();
    let config = Config::load_for(&node, &[], &parameters).unwrap();
    let (middleware, graph) =
        MemoryMiddleware::open(MiddlewareOptions { node, remaps: Remaps::default() });
    let node = LiveNode::with_factory(config, Box::new(middleware), Arc::new(factory)).unwrap();
    node.change(Change::Configure).unwrap();
    node.change(Change::Activate).unwrap();
    Session { node, graph }
}

#[test]
fn frames_in_flight_are_published_in_order_and_a_fault_costs_its_frame() {
    for frames_in_flight in [1, 2] {
        let most = Arc::new(AtomicUsize::new(0));
        let session = open(frames_in_flight, &most);
        let debug_image = format!("{CAMERA_OUT}/debug_image");
        session.graph.set_subscribers(&debug_image, 1);
        for number in 1..=NUM_SENT {
            session.graph.send(IMAGE_TOPIC, &image_message(Stamp::from_ros(number, 0)));
            std::thread::sleep(Duration::from_millis(1));
            if number == NUM_DRAWN {
                // Drawn with any number of frames in flight.
                assert_eq!(most.load(Ordering::Relaxed), frames_in_flight);
                session.graph.set_subscribers(&debug_image, 0);
            }
            if number % 50 == 0 {
                // Applied between frames, which the detector checks.
                let score = ParameterValue::Number(f64::from(number) / 1000.0);
                session.set("camera.score_threshold", score).unwrap();
            }
        }
        let (start, mut published, mut num_dropped) = (Instant::now(), vec![], 0.0);
        let mut num_overtaken = 0.0;
        while published.len() as f64 + num_dropped + num_overtaken < f64::from(NUM_SENT) {
            assert!(
                start.elapsed() < PATIENCE,
                "{} published, {num_dropped} dropped, {num_overtaken} overtaken",
                published.len()
            );
            let taken = session.graph.take(CAMERA_OUT);
            published.extend(taken.iter().map(|cdr| stamp_of(cdr).nanos() / 1_000_000_000));
            for cdr in session.graph.take("/diagnostics") {
                let statuses = diagnostics::decode(&cdr);
                if let Some(input) = statuses.get("det_post: camera: input") {
                    num_overtaken = input.number("overtaken");
                }
                if let Some(frames) = statuses.get("det_post: camera: frames") {
                    let dropped = frames.values.keys().filter(|key| key.starts_with("dropped."));
                    num_dropped += dropped.map(|key| frames.number(key)).sum::<f64>();
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(published.len() as f64 + num_dropped + num_overtaken, f64::from(NUM_SENT));
        assert!(published.is_sorted(), "{published:?}");
        let drawn = session.graph.take(&debug_image);
        let drawn: Vec<_> = drawn.iter().map(|cdr| stamp_of(cdr).nanos() / 1_000_000_000).collect();
        assert!(!drawn.is_empty() && drawn.is_sorted(), "{drawn:?}");
        assert!(drawn.iter().all(|number| published.contains(number)), "{drawn:?}");
        assert_eq!(published.last(), Some(&i64::from(NUM_SENT)));
        assert!(num_dropped > 0.0, "no fault was hit");
        assert!(published.iter().all(|number| ![1, 3].contains(&(number % 5))), "{published:?}");
        assert_eq!(most.load(Ordering::Relaxed), frames_in_flight);
    }
}
