//! CameraInfo of a peer, compared with its images.

use super::node::{Program, await_status};
use super::peer::turn;
use super::recording::IMAGE_TOPIC;
use super::session::{messages, sample};
use det_post::node::DIAGNOSTICS_TOPIC;
use det_post_ros::messages::{DiagnosticArray, Image};
use det_post_ros::middleware::InputKind;
use serde_json::{Value, json};

const TOPIC: &str = "/sensing/camera/camera_info";
const STATUS: &str = "det_post: camera: camera_info";

#[test]
fn a_camera_info_of_other_images_shows_in_the_diagnostics() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let asked = format!("camera.camera_info:={TOPIC}");
    let program = Program::start_sample(turn.domain, &[&asked, "diagnostics_period_s:=0.1"]);
    let reliable = json!({"reliable": true, "depth": 100});
    peer.reader(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, &reliable, 1);
    await_status(&mut peer, STATUS, |status| {
        status.level == 1 && status.message.contains("no publisher is matched")
    });
    peer.writer(IMAGE_TOPIC, InputKind::Image.type_name(), &reliable, 1);
    peer.writer(TOPIC, InputKind::CameraInfo.type_name(), &reliable, 1);

    let (.., encoded) =
        messages(&sample().join("drive")).into_iter().find(|(of, ..)| of == IMAGE_TOPIC).unwrap();
    let image = Image::decode(&encoded).unwrap();
    let (width, height, frame_id) = (image.width, image.height, image.header.frame_id);
    let hex: String = encoded.iter().map(|byte| format!("{byte:02x}")).collect();
    peer.ask(&json!({"op": "raw", "id": IMAGE_TOPIC, "hex": hex}));

    // Calibrated at twice the width and three times the height, then binned to that.
    let info = |more: Value| {
        let header = json!({"frame_id": frame_id});
        super::peer::with(
            json!({"header": header, "width": 2 * width, "height": 3 * height, "k": vec![1.0; 9]}),
            &more,
        )
    };
    peer.write(TOPIC, &info(json!({})));
    let other = await_status(&mut peer, STATUS, |status| status.message.contains("they have"));
    let expected =
        format!("for images of {}x{}; they have {width}x{height}", 2 * width, 3 * height);
    assert!(other.level == 1 && other.message.contains(&expected), "{other:?}");

    peer.write(TOPIC, &info(json!({"binning_x": 2, "binning_y": 3})));
    let good = await_status(&mut peer, STATUS, |status| status.level == 0);
    assert_eq!(good.message, format!("belongs to images of {width}x{height} in {frame_id:?}"));
    assert_eq!((good.number("received"), good.number("lost_in_middleware")), (2.0, 0.0));
    assert_eq!(program.interrupt().0, Some(0));
}
