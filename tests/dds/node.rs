//! The program itself, `det_post run`, in a graph without ROS.

use super::drive::NUM_FRAMES;
use super::peer::{PATIENCE, Peer, turn};
use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::replay;
use super::session::{CAMERA_OUT, LIDAR_OUT, messages, sample};
use det_post::node::{DIAGNOSTICS_TOPIC, ROSOUT_TOPIC};
use det_post_ros::messages::{
    Detection2DArray, Detection3DArray, DiagnosticArray, Log, TransitionEvent,
};
use det_post_ros::middleware::InputKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program of this build.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_det_post");

/// Time after which `ros2 launch` sends a stronger signal.
const ESCALATION: Duration = Duration::from_secs(5);

/// The program, which ends with the test.
pub struct Program(Child);

impl Program {
    /// `det_post run` of a configuration, reached by DDS.
    pub fn start(program: &Path, domain: u16, config: &Path, parameters: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.arg("run").arg("--config").arg(config);
        for parameter in parameters {
            command.args(["-p", parameter]);
        }
        command
            .args(["--middleware", "dds"])
            .env("ROS_DOMAIN_ID", domain.to_string())
            .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
            .stdin(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// As [`Program::start`], with the sample and reliable inputs.
    pub fn start_sample(domain: u16, more: &[&str]) -> Self {
        let parameters = [
            "camera.engine.kind:=rten",
            "lidar.engine.kind:=rten",
            "camera.qos.reliability:=reliable",
            "lidar.qos.reliability:=reliable",
        ];
        let config = sample().join("sample.param.yaml");
        Self::start(Path::new(PROGRAM), domain, &config, &[&parameters, more].concat())
    }

    /// Number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// A number in its `/proc/PID/status`.
    pub fn status(&self, key: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Asks it to stop, and gives its exit code and how long that took.
    pub fn interrupt(self) -> (Option<i32>, Duration) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        self.wait()
    }

    /// Waits for its end, and gives its exit code and how long that took.
    pub fn wait(mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
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

/// A status of the node: level, message, values.
#[derive(Debug)]
pub struct Status {
    pub level: u64,
    pub message: String,
    pub values: BTreeMap<String, String>,
}

impl Status {
    /// A value that is a number.
    pub fn number(&self, key: &str) -> f64 {
        self.values[key].parse().unwrap()
    }
}

/// What came on `/diagnostics` since the last look, oldest first: statuses by
/// name.
pub fn diagnostics(peer: &mut Peer) -> Vec<BTreeMap<String, Status>> {
    let messages = peer.ask(&json!({"op": "take", "id": DIAGNOSTICS_TOPIC, "count": 0}));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let status = |status: &Value| {
        let values = status["values"].as_array().unwrap().iter();
        let values = values.map(|pair| (text(&pair["key"]), text(&pair["value"]))).collect();
        let level = status["level"].as_u64().unwrap();
        (text(&status["name"]), Status { level, message: text(&status["message"]), values })
    };
    let messages = messages.as_array().unwrap().iter();
    messages
        .map(|message| message["status"].as_array().unwrap().iter().map(status).collect())
        .collect()
}

/// Waits for diagnostics in which a status is as wanted.
pub fn await_status(peer: &mut Peer, name: &str, wanted: impl Fn(&Status) -> bool) -> Status {
    let began = Instant::now();
    let mut last = None;
    while began.elapsed() < PATIENCE {
        for mut statuses in diagnostics(peer) {
            match statuses.remove(name) {
                Some(status) if wanted(&status) => return status,
                other => last = other.or(last),
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{name}: {last:?}")
}

#[test]
fn a_process_that_is_killed_shows_in_the_diagnostics() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let period = "diagnostics_period_s:=0.1";
    let program = Program::start_sample(turn.domain, &["camera.isolate:=true", period]);
    let reliable = json!({"reliable": true, "depth": 100});
    peer.reader(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, &reliable, 1);
    peer.writer(IMAGE_TOPIC, InputKind::Image.type_name(), &reliable, 1);
    let name = "det_post: camera: device";
    let good = await_status(&mut peer, name, |status| status.level == 0);
    assert_eq!(good.values["health"], "good", "{good:?}");
    let process = good.values["process"].clone();
    assert!(Command::new("kill").args(["-9", &process]).status().unwrap().success());

    let (.., image) =
        messages(&sample().join("drive")).into_iter().find(|(of, ..)| of == IMAGE_TOPIC).unwrap();
    let image: String = image.iter().map(|byte| format!("{byte:02x}")).collect();
    peer.ask(&json!({"op": "raw", "id": IMAGE_TOPIC, "hex": image}));
    let failed = await_status(&mut peer, name, |status| status.level == 1);
    assert_eq!((&*failed.values["health"], failed.number("failures")), ("rebuilding", 1.0));
    assert!(failed.message.contains("has ended (signal: 9"), "{failed:?}");
    peer.ask(&json!({"op": "raw", "id": IMAGE_TOPIC, "hex": image}));
    let again = await_status(&mut peer, name, |status| status.level == 0);
    assert_eq!((&*again.values["health"], again.number("failures")), ("good", 1.0));
    assert_ne!(again.values["process"], process);
    assert!(again.values["last_failure"].contains("has ended"), "{again:?}");
    assert_eq!(program.interrupt().0, Some(0));
}

/// Calls a service of the node.
pub fn call(peer: &mut Peer, service: &str, type_name: &str, request: &Value) -> Value {
    let service = format!("/det_post/{service}");
    peer.ask(&json!({"op": "call", "service": service, "type": type_name, "request": request,
        "timeout": 20}))
}

#[test]
fn the_answer_to_shutdown_and_the_last_event_arrive() {
    let turn = turn();
    let transition = json!({"transition": {"id": 0, "label": "shutdown"}});
    for _ in 0..3 {
        let Some(mut peer) = turn.peer() else { return };
        let program = Program::start_sample(turn.domain, &[]);
        let topic = "/det_post/transition_event";
        peer.reader(topic, TransitionEvent::TYPE, &json!({"reliable": true, "depth": 100}), 1);
        let of_state = "lifecycle_msgs/srv/GetState";
        let is_active = |state: &Value| state["current_state"]["label"] == json!("active");
        let began = Instant::now();
        while !is_active(&call(&mut peer, "get_state", of_state, &json!({}))) {
            assert!(began.elapsed() < PATIENCE, "the node does not become active");
            std::thread::sleep(Duration::from_millis(50));
        }
        let of_change = "lifecycle_msgs/srv/ChangeState";
        let told = call(&mut peer, "change_state", of_change, &transition);
        assert_eq!(told["success"], json!(true));
        let (code, took) = program.wait();
        println!("the program has ended {took:?} after it has answered");
        assert_eq!(code, Some(0));
        assert!(took < ESCALATION, "{took:?}");
        let events = peer.ask(&json!({"op": "take", "id": topic, "count": 1}));
        let last = events.as_array().unwrap().last().unwrap();
        assert_eq!(last["goal_state"]["label"], json!("finalized"), "{events}");
    }
}

#[test]
fn replay_and_the_program_over_dds_give_the_same_detections() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let out = tempfile::tempdir().unwrap();
    let config = sample().join("sample.param.yaml").display().to_string();
    replay::replay(&sample().join("drive"), &config, &[], out.path()).expect_code(0);
    let replayed = messages(&out.path().join("detections"));

    let program = Program::start_sample(turn.domain, &[]);
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
    assert!(took < ESCALATION, "{took:?}");
}

#[test]
fn a_late_subscriber_reads_the_log() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let program = Program::start_sample(turn.domain, &[]);
    let of_state = "lifecycle_msgs/srv/GetState";
    let began = Instant::now();
    let state = |peer: &mut Peer| call(peer, "get_state", of_state, &json!({}));
    while state(&mut peer)["current_state"]["label"] != json!("active") {
        assert!(began.elapsed() < PATIENCE, "the node does not become active");
        std::thread::sleep(Duration::from_millis(50));
    }
    let quality = json!({"reliable": true, "latched": true, "depth": 1000});
    peer.reader(ROSOUT_TOPIC, Log::TYPE, &quality, 1);
    let mut entries = Vec::new();
    while !entries.iter().any(|entry: &Value| entry["msg"] == json!("activating -> active")) {
        assert!(began.elapsed() < 2 * PATIENCE, "{entries:?}");
        let taken = peer.ask(&json!({"op": "take", "id": ROSOUT_TOPIC, "count": 1}));
        entries.extend(taken.as_array().unwrap().iter().cloned());
    }
    for entry in &entries {
        assert_eq!(entry["name"], json!("det_post"), "{entry}");
        assert!([20, 30, 40].contains(&entry["level"].as_u64().unwrap()), "{entry}");
        assert!(entry["file"].as_str().unwrap().ends_with(".rs"), "{entry}");
        assert!(
            entry["line"].as_u64().unwrap() > 0 && entry["stamp"]["sec"] != json!(0),
            "{entry}"
        );
    }

    // A level that is set by service holds for the log.
    let of_set = "rcl_interfaces/srv/SetLoggerLevels";
    let levels = json!({"levels": [{"name": "det_post", "level": 40}]});
    let told = call(&mut peer, "set_logger_levels", of_set, &levels);
    assert_eq!(told["results"][0]["successful"], json!(true));
    let transition = json!({"transition": {"id": 0, "label": "deactivate"}});
    let told = call(&mut peer, "change_state", "lifecycle_msgs/srv/ChangeState", &transition);
    assert_eq!(told["success"], json!(true));
    let later = peer.ask(&json!({"op": "take", "id": ROSOUT_TOPIC, "count": 1, "timeout": 1}));
    assert_eq!(later, json!([]), "INFO is below ERROR");
    assert_eq!(program.interrupt().0, Some(0));
}
