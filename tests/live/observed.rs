//! Metrics and spans of a live node.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use det_post::config::Config;
use det_post::node::{Change, LiveNode, LiveOptions};
use det_post_ros::middleware::MiddlewareOptions;
use det_post_ros::{NodeName, Remaps};
use det_post_types::{FRAME_SPANS, Stamp};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::memory_middleware::MemoryMiddleware;
use super::recording::IMAGE_TOPIC;
use super::session::{CAMERA_OUT, PATIENCE, image_message, sample};

/// The stamps of the spans of frames in this process.
#[derive(Clone, Default)]
struct Stamps(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Stamps {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "frame" && attributes.metadata().target() == FRAME_SPANS
        {
            attributes.record(&mut self.clone());
        }
    }
}

impl Visit for Stamps {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "stamp" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

/// Totals rise from one text to the next, the last one has everything, and every frame has a span.
#[test]
fn metrics_and_spans_have_every_frame() {
    let path = sample().join("sample.param.yaml");
    let overrides = ["device:=cpu".to_owned(), "diagnostics_period_s:=0.1".to_owned()];
    let config = Config::load(&[path], &overrides).unwrap();
    let node = NodeName::new("", "det_post").unwrap();
    let (middleware, graph) =
        MemoryMiddleware::open(MiddlewareOptions { node, remaps: Remaps::default() });
    let texts = Arc::new(Mutex::new(Vec::<String>::new()));
    let taken = Arc::clone(&texts);
    let stamps = Stamps::default();
    // Of all tests in this process: stamps tell the frames apart.
    let subscriber = tracing_subscriber::registry().with(stamps.clone());
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let options = LiveOptions {
        on_metrics: Some(Box::new(move |text| taken.lock().unwrap().push(text.to_owned()))),
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
    for second in 7771..=7773 {
        assert_eq!(graph.send(IMAGE_TOPIC, &image_message(Stamp::from_ros(second, 0))), 1);
        wait(&|| !graph.take(CAMERA_OUT).is_empty());
        if second == 7771 {
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
    let mut stamps = stamps.0.lock().unwrap().clone();
    stamps.retain(|stamp| stamp.starts_with("777"));
    assert_eq!(stamps, ["7771.000000000", "7772.000000000", "7773.000000000"]);
}
