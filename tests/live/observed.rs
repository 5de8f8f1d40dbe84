//! Metrics and a trace of a live node.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use det_post::config::Config;
use det_post::node::{Change, LiveNode, LiveOptions};
use det_post::runtime::trace::Trace;
use det_post_ros::middleware::MiddlewareOptions;
use det_post_ros::{NodeName, Remaps};
use det_post_types::Stamp;
use serde_json::Value;

use super::memory_middleware::MemoryMiddleware;
use super::recording::IMAGE_TOPIC;
use super::session::{CAMERA_OUT, PATIENCE, image_message, sample};

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Totals rise from one text to the next, the last one has everything, and every frame is in the
/// trace.
#[test]
fn metrics_and_a_trace_have_every_frame() {
    let path = sample().join("sample.param.yaml");
    let overrides = ["device:=cpu".to_owned(), "diagnostics_period_s:=0.1".to_owned()];
    let config = Config::load(&[path], &overrides).unwrap();
    let node = NodeName::new("", "det_post").unwrap();
    let (middleware, graph) =
        MemoryMiddleware::open(MiddlewareOptions { node, remaps: Remaps::default() });
    let texts = Arc::new(Mutex::new(Vec::<String>::new()));
    let taken = Arc::clone(&texts);
    let file = Shared::default();
    let trace = Arc::new(Trace::start(Box::new(file.clone())).unwrap());
    let options = LiveOptions {
        on_metrics: Some(Box::new(move |text| taken.lock().unwrap().push(text.to_owned()))),
        trace: Some(Arc::clone(&trace)),
        ..LiveOptions::default()
    };
    let live = LiveNode::with_options(config, Box::new(middleware), options).unwrap();
    live.change(Change::Configure).unwrap();
    live.change(Change::Activate).unwrap();
    // A middleware may put messages together where the channel keeps them.
    assert!(graph.offers_memory(IMAGE_TOPIC));
    let wait = |is_there: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_there() {
            assert!(start.elapsed() < PATIENCE, "{:?}", texts.lock().unwrap().last());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    for second in 1..=3 {
        assert_eq!(graph.send(IMAGE_TOPIC, &image_message(Stamp::from_ros(second, 0))), 1);
        wait(&|| !graph.take(CAMERA_OUT).is_empty());
        if second == 1 {
            let line = "det_post_frames_processed_total{channel=\"camera\"} 1\n";
            wait(&|| texts.lock().unwrap().iter().any(|text| text.contains(line)));
        }
    }
    // A message that is no image.
    graph.send(IMAGE_TOPIC, &[0, 1, 0, 0, 7]);
    let refused = "det_post_messages_refused_total{channel=\"camera\"";
    wait(&|| texts.lock().unwrap().iter().any(|text| text.contains(refused)));
    drop(live);

    let texts = texts.lock().unwrap();
    let last = texts.last().unwrap();
    let topic = format!("channel=\"camera\",topic=\"{IMAGE_TOPIC}\"");
    for line in [
        "det_post_frames_processed_total{channel=\"camera\"} 3".to_owned(),
        format!("det_post_messages_received_total{{{topic}}} 3"),
        "det_post_stage_duration_seconds_count{channel=\"camera\",stage=\"infer\"} 3".to_owned(),
        "det_post_frames_received_total{channel=\"lidar\"} 0".to_owned(),
    ] {
        assert!(last.lines().any(|found| found == line), "{line} is missing in\n{last}");
    }
    trace.finish().unwrap();
    let events: Vec<Value> = serde_json::from_slice(&file.0.lock().unwrap()).unwrap();
    let stamps: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "frame")
        .map(|event| event["args"]["stamp"].as_str().unwrap())
        .collect();
    assert_eq!(stamps, ["1.000000000", "2.000000000", "3.000000000"]);
}
