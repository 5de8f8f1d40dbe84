//! The program itself, `det_post run`, in a graph without ROS.

use super::drive::NUM_FRAMES;
use super::peer::{PATIENCE, Peer, turn};
use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::replay;
use super::session::{CAMERA_OUT, LIDAR_OUT, messages, sample};
use det_post::transport::door::InputKind;
use det_post::transport::messages::{Detection2DArray, Detection3DArray};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program, which ends with the test.
struct Program(Child);

impl Program {
    fn start(domain: u16) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_det_post"));
        command.arg("run").arg("--config").arg(sample().join("sample.param.yaml"));
        for parameter in [
            "camera.engine.kind:=rten",
            "lidar.engine.kind:=rten",
            "camera.qos.reliability:=reliable",
            "lidar.qos.reliability:=reliable",
        ] {
            command.args(["-p", parameter]);
        }
        command
            .args(["--door", "dds"])
            .env("ROS_DOMAIN_ID", domain.to_string())
            .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
            .stdin(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Asks it to stop, and gives its exit code and how long that took.
    fn interrupt(mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return (status.code(), began.elapsed());
            }
            assert!(began.elapsed() < PATIENCE, "the program does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended where the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn call(peer: &mut Peer, service: &str, type_name: &str, request: &Value) -> Value {
    let service = format!("/det_post/{service}");
    peer.ask(&json!({"op": "call", "service": service, "type": type_name, "request": request,
        "timeout": 20}))
}

#[test]
fn replay_and_the_program_over_dds_give_the_same_detections() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let out = tempfile::tempdir().unwrap();
    let config = sample().join("sample.param.yaml").display().to_string();
    replay::replay(&sample().join("drive"), &config, &[], out.path()).expect_code(0);
    let replayed = messages(&out.path().join("detections"));

    let program = Program::start(turn.domain);
    let reliable = json!({"reliable": true});
    peer.writer(IMAGE_TOPIC, InputKind::Image.type_name(), &reliable, 1);
    peer.writer(CLOUD_TOPIC, InputKind::PointCloud2.type_name(), &reliable, 1);
    peer.reader(CAMERA_OUT, Detection2DArray::TYPE, &reliable, 1);
    peer.reader(LIDAR_OUT, Detection3DArray::TYPE, &reliable, 1);
    let of_state = "lifecycle_msgs/srv/GetState";
    let state = call(&mut peer, "get_state", of_state, &json!({}));
    assert_eq!(state["current_state"]["label"], json!("active"));

    let mut num_compared = 0;
    for (topic, log_time, cdr) in messages(&sample().join("drive")) {
        let output = if topic == IMAGE_TOPIC { CAMERA_OUT } else { LIDAR_OUT };
        let hex: String = cdr.iter().map(|byte| format!("{byte:02x}")).collect();
        peer.ask(&json!({"op": "raw", "id": topic, "hex": hex}));
        let came =
            peer.ask(&json!({"op": "take", "id": output, "count": 1, "timeout": 20, "hex": true}));
        let of_replay =
            replayed.iter().find(|(topic, time, _)| topic == output && *time == log_time).unwrap();
        let expected: String = of_replay.2.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(came, json!([expected]), "{output} at {log_time}");
        num_compared += 1;
    }
    assert_eq!(num_compared, 2 * NUM_FRAMES);

    // A threshold that nothing reaches, by a service, and one that is refused.
    let of_set = "rcl_interfaces/srv/SetParameters";
    let mut set = |value: f64| {
        let parameter = json!({"name": "camera.score_threshold",
            "value": {"type": 3, "double_value": value}});
        let told = call(&mut peer, "set_parameters", of_set, &json!({"parameters": [parameter]}));
        told["results"][0].clone()
    };
    assert_eq!(set(1.0), json!({"successful": true, "reason": ""}));
    let refused = set(1.5);
    assert_eq!(refused["successful"], json!(false));
    assert!(refused["reason"].as_str().unwrap().contains("1.5"), "{refused}");

    let (code, took) = program.interrupt();
    println!("the program has ended {took:?} after the signal");
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(2), "{took:?}");
}
