//! A live node that runs for long holds no more memory than after its first
//! frames.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they saw")]

use crate::common::{recording, session};
use std::process::Command;
use std::sync::atomic::Ordering;

use super::allocations::by_itself;
use super::allocator::NUM_BYTES;
use det_post_ros::ParameterValue;
use det_post_types::Stamp;
use recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use session::{CAMERA_OUT, LIDAR_OUT, Session, cloud, image_message};

/// Frames of both channels, with malformed messages, refused parameters and
/// diagnostics in between.
fn run(session: &Session, seconds: std::ops::Range<i32>) -> i64 {
    for second in seconds {
        let stamp = Stamp::from_ros(second, 0);
        let (image, points) = (image_message(stamp), cloud(stamp));
        session.graph.send(IMAGE_TOPIC, &image[..100]);
        session.graph.send(CLOUD_TOPIC, &points[..100]);
        session.send_for(IMAGE_TOPIC, &image, CAMERA_OUT);
        session.send_for(CLOUD_TOPIC, &points, LIDAR_OUT);
        // Published after the detections, 3 MB each.
        session.next(&format!("{CAMERA_OUT}/debug_image"));
        session.next(&format!("{LIDAR_OUT}/debug_image"));
        let max = ParameterValue::Integer(i64::from(100 + second % 2));
        session.set("camera.max_detections", max).unwrap();
        session.set("camera.max_detections", ParameterValue::Integer(0)).unwrap_err();
        take_all(session);
    }
    NUM_BYTES.load(Ordering::Relaxed)
}

fn take_all(session: &Session) {
    for (topic, ..) in session.graph.outputs() {
        session.graph.take(&topic);
    }
}

/// Runs by itself in a process: what other tests hold would be counted, too.
#[test]
fn memory_stays_flat() {
    let _single = by_itself();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "live_memory::memory_stays_flat_single", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
    println!("{out}");
}

#[test]
#[ignore = "`memory_stays_flat` runs it"]
fn memory_stays_flat_single() {
    let session = Session::active(&["diagnostics_period_s:=0.1"]);
    for topic in [CAMERA_OUT, LIDAR_OUT] {
        session.graph.set_subscribers(&format!("{topic}/debug_image"), 1);
        session.graph.set_subscribers(&format!("{topic}/markers"), 1);
    }
    let warm = run(&session, 0..60);
    let later = run(&session, 60..360);
    println!("{warm} bytes after 60 frames, {later} after 360");
    // What is under way at the moment may differ by a message or two.
    assert!(later - warm < 2 << 20, "{warm} {later}");
    assert!((later - warm) * 20 < warm, "{warm} {later}");
}
