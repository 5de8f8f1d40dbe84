//! Load, malformed messages, and stopping in the middle of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use det_post::node::Change;
use det_post_ros::LifecycleState;
use det_post_types::Stamp;

use super::diagnostics::await_status;
use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::session::{CAMERA_OUT, LIDAR_OUT, PATIENCE, Session, cloud, image_message};

/// A generator of its own, so that the same messages come every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn ten_thousand_malformed_messages_change_nothing() {
    let session = Session::active(&["diagnostics_period_s:=0.2"]);
    let stamp = Stamp::from_ros(5, 0);
    let (good_image, good_cloud) = (image_message(stamp), cloud(stamp));
    let boxes = session.send_for(IMAGE_TOPIC, &good_image, CAMERA_OUT);
    let objects = session.send_for(CLOUD_TOPIC, &good_cloud, LIDAR_OUT);
    let mut random = Random(7);
    for round in 0..5_000 {
        for (topic, good) in [(IMAGE_TOPIC, &good_image), (CLOUD_TOPIC, &good_cloud)] {
            let bad = match round % 4 {
                // Cut short of what its lengths claim.
                0 => good[..random.below(good.len() - 64)].to_vec(),
                1 => (0..random.below(200)).map(|_| random.below(256) as u8).collect(),
                // A length, a size or a step that claims far too much.
                2 => {
                    let mut bad = good[..good.len().min(4096)].to_vec();
                    let at = 4 * (1 + random.below(30));
                    bad[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
                    bad
                }
                _ => [&[9, 9, 9, 9], &good[4..200]].concat(),
            };
            session.graph.send(topic, &bad);
        }
        if round % 1000 == 999 {
            assert!(session.send_for(IMAGE_TOPIC, &good_image, CAMERA_OUT) == boxes);
            assert!(session.send_for(CLOUD_TOPIC, &good_cloud, LIDAR_OUT) == objects);
        }
    }
    for channel in ["camera", "lidar"] {
        let name = format!("det_post: {channel}: input");
        let status = await_status(&session, &name, |status| {
            let refused = status.values.iter().filter(|(key, _)| key.starts_with("refused."));
            let num_refused: u64 = refused.map(|(_, count)| count.parse::<u64>().unwrap()).sum();
            num_refused == 5_000 && status.number("received") >= 6.0
        });
        assert_eq!(status.number("received"), 6.0, "{status:?}");
    }
}

#[test]
fn messages_over_the_bound_are_refused() {
    let session = Session::active(&["camera.max_payload_bytes:=1000"]);
    session.graph.send(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)));
    let status = await_status(&session, "det_post: camera: input", |status| {
        status.values.contains_key("refused.message_too_large")
    });
    assert_eq!(status.number("received"), 0.0);
}

#[test]
fn under_load_the_newest_wins_and_every_frame_is_accounted_for() {
    let session = Session::active(&[]);
    let num_sent = 400;
    for index in 0..num_sent {
        session.graph.send(IMAGE_TOPIC, &image_message(Stamp::from_ros(1 + index, 0)));
    }
    let last = Stamp::from_ros(num_sent, 0);
    let start = Instant::now();
    let mut stamps = Vec::new();
    while stamps.last() != Some(&last) {
        assert!(start.elapsed() < PATIENCE);
        let taken = session.graph.take(CAMERA_OUT);
        stamps.extend(taken.iter().map(|cdr| super::session::stamp_of(cdr)));
    }
    assert!(stamps.is_sorted());
    let num_out = stamps.len() as f64;
    let input = await_status(&session, "det_post: camera: input", |status| {
        status.number("overtaken") + num_out >= f64::from(num_sent)
    });
    assert_eq!(input.number("received"), f64::from(num_sent));
    assert_eq!(input.number("overtaken") + num_out, f64::from(num_sent));
}

/// Ends the senders of a scope, also when a wait in it fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn shutting_down_under_load_is_quick() {
    let session = Session::active(&[]);
    let (image, points) = (image_message(Stamp::from_ros(1, 0)), cloud(Stamp::from_ros(1, 0)));
    // A frame in flight is finished: on a busy machine that takes its time.
    let start = Instant::now();
    session.send_for(IMAGE_TOPIC, &image, CAMERA_OUT);
    session.send_for(CLOUD_TOPIC, &points, LIDAR_OUT);
    let frame = start.elapsed();

    let stop = AtomicBool::new(false);
    let num_sent = AtomicUsize::new(0);
    let (result, took) = std::thread::scope(|scope| {
        let _stop = SetOnDrop(&stop);
        for (topic, cdr) in [(IMAGE_TOPIC, &image), (CLOUD_TOPIC, &points)] {
            let (session, stop, num_sent) = (&session, &stop, &num_sent);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    num_sent.fetch_add(session.graph.send(topic, cdr), Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
        }
        session.wait(CAMERA_OUT, 2);
        session.wait(LIDAR_OUT, 2);
        while num_sent.load(Ordering::Relaxed) <= 10 {
            std::thread::yield_now();
        }
        let start = Instant::now();
        let result = session.node.shut_down(Duration::from_secs(20));
        (result, start.elapsed())
    });
    result.unwrap();
    println!("shut down after {took:?}, two frames take {frame:?}");
    // A fraction of a second on a machine that does nothing else; `ros2 launch` waits for five.
    assert!(took < Duration::from_secs(5).max(8 * frame), "{took:?}");
    assert_eq!(session.node.state(), LifecycleState::Finalized);
    // The channels' threads have ended and the inputs are unsubscribed.
    for (topic, cdr, output) in [(IMAGE_TOPIC, image, CAMERA_OUT), (CLOUD_TOPIC, points, LIDAR_OUT)]
    {
        session.graph.take(output);
        assert_eq!(session.graph.send(topic, &cdr), 0);
        assert!(session.graph.take(output).is_empty());
    }
}

#[test]
fn starting_and_stopping_under_load_loses_no_channel() {
    let session = Session::active(&[]);
    let stop = AtomicBool::new(false);
    let image = image_message(Stamp::from_ros(1, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                session.graph.send(IMAGE_TOPIC, &image);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let turn = || {
            session.node.change(Change::Deactivate)?;
            session.node.change(Change::Activate)
        };
        let result = (0..20).try_for_each(|_| turn());
        stop.store(true, Ordering::Relaxed);
        result.unwrap();
    });
    session.graph.take(CAMERA_OUT);
    session.graph.send(IMAGE_TOPIC, &image);
    assert!(!session.wait(CAMERA_OUT, 1).is_empty());
}
