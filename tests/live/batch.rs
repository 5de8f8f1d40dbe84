//! Live cameras whose network runs once for the frames of all.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use det_post::config::Config;
use det_post::node::{Change, LiveNode};
use det_post_ros::messages::Detection2DArray;
use det_post_ros::middleware::MiddlewareOptions;
use det_post_ros::{NodeName, Remaps};
use det_post_types::Stamp;

use super::memory_middleware::MemoryMiddleware;
use super::session::{Session, picture, sample, stamp_of};

const CAMERAS: [&str; 3] = ["front", "left", "rear"];

/// A node with three cameras, in one batch or alone.
fn open(batch_wait_s: f32, is_batched: bool) -> Session {
    let folder = sample().display();
    let mut parameters = vec!["device:=cpu".to_owned(), "diagnostics_period_s:=0.1".to_owned()];
    for camera in CAMERAS {
        parameters.extend([
            format!("{camera}.input:=/{camera}"),
            format!("{camera}.head:={folder}/heads/blobs_yolov8.yaml"),
            format!("{camera}.model_path:={folder}/models/blobs_yolov8.onnx"),
            format!("{camera}.engine.kind:=rten"),
            format!("{camera}.engine.threads:=1"),
            format!("{camera}.batch_wait_s:={batch_wait_s:?}"),
        ]);
        if is_batched && camera != CAMERAS[0] {
            parameters.push(format!("{camera}.batch_with:={}", CAMERAS[0]));
        }
    }
    let node = NodeName::new("", "det_post").unwrap();
    let config = Config::load_for(&node, &[], &parameters).unwrap();
    let (middleware, graph) =
        MemoryMiddleware::open(MiddlewareOptions { node, remaps: Remaps::default() });
    let node = LiveNode::open(config, Box::new(middleware)).unwrap();
    node.change(Change::Configure).unwrap();
    node.change(Change::Activate).unwrap();
    Session { node, graph }
}

fn output(camera: &str) -> String {
    format!("/det_post/{camera}/detections")
}

#[test]
fn cameras_in_a_batch_publish_what_each_publishes_alone() {
    let alone = open(10.0, false);
    let batched = open(10.0, true);
    for number in 1..=5 {
        let stamps: BTreeMap<&str, Stamp> = CAMERAS
            .iter()
            .zip(0..)
            .map(|(camera, at)| (*camera, Stamp::from_ros(number, at)))
            .collect();
        for (camera, stamp) in &stamps {
            assert_eq!(batched.graph.send(&format!("/{camera}"), &picture(*stamp)), 1);
        }
        for (camera, stamp) in &stamps {
            // With the others, long before the wait of 10 s is over.
            let found = batched.next(&output(camera));
            assert_eq!(stamp_of(&found), *stamp);
            let expected = alone.send_for(&format!("/{camera}"), &picture(*stamp), &output(camera));
            let [found, expected] =
                [&found, &expected].map(|cdr| Detection2DArray::decode(cdr).unwrap());
            assert!(!found.detections.is_empty());
            assert_eq!(found.detections.len(), expected.detections.len());
            for (a, b) in found.detections.zip(expected.detections) {
                let (a, b) = (a.unwrap(), b.unwrap());
                let [best_a, best_b] = [&a, &b].map(|found| found.best.unwrap());
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-4 * a.abs().max(1.0);
                assert_eq!(best_a.class_id, best_b.class_id);
                assert!(near(best_a.score, best_b.score) && near(a.center[0], b.center[0]));
            }
        }
    }
}

#[test]
fn a_camera_that_is_missing_or_damaged_costs_the_others_their_wait_at_most() {
    const WAIT: Duration = Duration::from_millis(150);
    let session = open(WAIT.as_secs_f32(), true);
    for number in 1..=6 {
        let stamp = Stamp::from_ros(number, 0);
        let cdr = picture(stamp);
        let start = Instant::now();
        // The rear camera sends nothing, or what is no picture.
        if number % 2 == 0 {
            assert_eq!(session.graph.send("/rear", &cdr[..200]), 1);
        }
        for camera in &CAMERAS[..2] {
            assert_eq!(session.graph.send(&format!("/{camera}"), &cdr), 1);
        }
        for camera in &CAMERAS[..2] {
            assert_eq!(stamp_of(&session.next(&output(camera))), stamp);
        }
        assert!(start.elapsed() >= WAIT, "{:?}: they did not wait", start.elapsed());
        assert!(session.graph.take(&output("rear")).is_empty());
    }
    // Back again, it takes part.
    for camera in CAMERAS {
        assert_eq!(session.graph.send(&format!("/{camera}"), &picture(Stamp::from_ros(9, 0))), 1);
    }
    for camera in CAMERAS {
        assert_eq!(stamp_of(&session.next(&output(camera))), Stamp::from_ros(9, 0));
    }
}
