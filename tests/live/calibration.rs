//! CameraInfo compared with the images of its camera.

use std::time::{Duration, Instant};

use det_post_ros::messages::{CameraInfo, Image};
use det_post_ros::middleware::InputKind;
use det_post_types::{Header, Stamp};

use super::diagnostics::{await_status, decode};
use super::recording::IMAGE_TOPIC;
use super::session::{CAMERA_OUT, PATIENCE, Session, image_message};

const TOPIC: &str = "/sensing/camera/camera_info";
const STATUS: &str = "det_post: camera: camera_info";

fn info(size: [u32; 2], frame_id: &str) -> Vec<u8> {
    let header = Header { stamp: Stamp::from_ros(1, 0), frame_id };
    let [width, height] = size;
    let mut bytes = Vec::new();
    CameraInfo { header, width, height, k: [1.0; 9], ..CameraInfo::default() }
        .encode(&mut bytes)
        .unwrap();
    bytes
}

#[test]
fn a_camera_info_that_does_not_match_the_images_is_a_warning_with_both_sizes() {
    let session = Session::active(&[
        "camera.camera_info:=/sensing/camera/camera_info",
        "camera.gap_warn_s:=0.2",
    ]);
    let inputs = session.graph.inputs();
    let of = |wanted: &str| inputs.iter().find(|(topic, ..)| topic == wanted).unwrap();
    assert_eq!(of(TOPIC).1, InputKind::CameraInfo);
    assert_eq!(of(TOPIC).2, of(IMAGE_TOPIC).2, "quality of service");

    session.graph.set_publishers(TOPIC, 0);
    let missing = await_status(&session, STATUS, |status| status.level == 1);
    assert!(missing.message.contains("no CameraInfo for"), "{missing:?}");
    assert!(missing.message.contains("no publisher is matched"), "{missing:?}");

    let shot = image_message(Stamp::from_ros(1, 0));
    let image = Image::decode(&shot).unwrap();
    let (size, frame_id) = ([image.width, image.height], image.header.frame_id.to_owned());
    let [width, height] = size;
    session.graph.send(TOPIC, &info(size, &frame_id));
    await_status(&session, STATUS, |status| status.message == "no image yet");
    session.send_for(IMAGE_TOPIC, &shot, CAMERA_OUT);
    let good = await_status(&session, STATUS, |status| status.message.starts_with("belongs"));
    assert_eq!((good.level, &good.values["size"]), (0, &good.values["image_size"]), "{good:?}");

    session.graph.send(TOPIC, &info([2 * width, height], &frame_id));
    let other = await_status(&session, STATUS, |status| status.level == 1);
    let expected = format!("{}x{height}; they have {width}x{height}", 2 * width);
    assert!(other.message.contains(&expected), "{other:?}");

    session.graph.send(TOPIC, &info(size, "elsewhere"));
    let elsewhere =
        await_status(&session, STATUS, |status| status.message.contains("\"elsewhere\""));
    assert!(elsewhere.message.contains(&format!("{frame_id:?}")), "{elsewhere:?}");

    session.graph.send(TOPIC, &[0, 1, 0, 0, 9]);
    let refused = await_status(&session, STATUS, |status| status.message.contains("refused"));
    assert_eq!(
        (refused.number("refused.malformed_message"), refused.number("received")),
        (1.0, 3.0)
    );

    // The one that belongs to them makes it good again.
    session.graph.send(TOPIC, &info(size, &frame_id));
    let again = await_status(&session, STATUS, |status| status.level == 0);
    assert_eq!(again.number("received"), 4.0);
}

#[test]
fn without_camera_info_there_is_no_status() {
    let session = Session::active(&[]);
    assert_eq!(session.graph.send(TOPIC, &info([4, 2], "camera")), 0);
    let start = Instant::now();
    let mut num_seen = 0;
    while num_seen < 3 {
        assert!(start.elapsed() < PATIENCE);
        for message in session.graph.take("/diagnostics") {
            assert!(!decode(&message).contains_key(STATUS));
            num_seen += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
