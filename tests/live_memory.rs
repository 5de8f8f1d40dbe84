//! A live node that runs for long holds no more memory than after its first
//! frames.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they saw")]

#[path = "../examples/make_sample/camera_net.rs"]
mod camera_net;
#[path = "../examples/make_sample/drive.rs"]
mod drive;
#[path = "../examples/make_sample/lidar_nets.rs"]
mod lidar_nets;
#[path = "common/onnx.rs"]
mod onnx;
#[path = "../examples/make_sample/parameters.rs"]
mod parameters;
#[path = "../examples/make_sample/recording.rs"]
mod recording;
#[path = "live/session.rs"]
#[allow(dead_code, reason = "this suite uses its part")]
mod session;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

use det_post::types::{ParameterValue, Stamp};
use recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use session::{CAMERA_OUT, LIDAR_OUT, Session, cloud, picture};

/// Counts the bytes that are held.
struct Counting;

static NUM_BYTES: AtomicI64 = AtomicI64::new(0);

#[expect(unsafe_code, reason = "counting bytes takes a global allocator")]
// SAFETY: every call is handed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        NUM_BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NUM_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Frames of both channels, with malformed messages, refused parameters and
/// diagnostics in between.
fn run(session: &Session, seconds: std::ops::Range<i32>) -> i64 {
    for second in seconds {
        let stamp = Stamp::from_ros(second, 0);
        let (image, points) = (picture(stamp), cloud(stamp));
        session.graph.send(IMAGE_TOPIC, &image[..100]);
        session.graph.send(CLOUD_TOPIC, &points[..100]);
        session.send_for(IMAGE_TOPIC, &image, CAMERA_OUT);
        session.send_for(CLOUD_TOPIC, &points, LIDAR_OUT);
        let max = ParameterValue::Integer(i64::from(100 + second % 2));
        session.set("camera.max_detections", max).unwrap();
        session.set("camera.max_detections", ParameterValue::Integer(0)).unwrap_err();
        for (topic, ..) in session.graph.outputs() {
            session.graph.take(&topic);
        }
    }
    NUM_BYTES.load(Ordering::Relaxed)
}

#[test]
fn memory_stays_flat() {
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
