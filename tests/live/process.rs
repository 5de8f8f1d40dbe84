//! `det_post run` as a process: what it refuses, and how it ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[cfg(feature = "dds")]
use super::common::domain::Domain;
use super::replay::det_post;
use super::session::{PATIENCE, sample};

/// The shipped sample's parameters.
fn config() -> String {
    sample().join("sample.param.yaml").display().to_string()
}

#[test]
fn refused_starts_state_their_reasons() {
    let config = config();
    let run = |rest: &[&str]| det_post(&[&["run", "--config", &config], rest].concat());
    #[cfg(not(feature = "ros2"))]
    {
        let ros2 = run(&["--middleware", "ros2"]);
        ros2.expect_code(2);
        assert!(ros2.stderr.contains("--features ros2"), "{}", ros2.stderr);
    }
    let unknown = run(&["--ros-args", "-p", "camera.score_treshold:=0.5"]);
    unknown.expect_code(2);
    assert!(unknown.stderr.contains("did you mean `camera.score_threshold`"), "{}", unknown.stderr);
    let option = run(&["--ros-args", "--fly"]);
    option.expect_code(2);
    assert!(option.stderr.contains("--fly"), "{}", option.stderr);
    let name = run(&["--ros-args", "-r", "__node:=1x"]);
    name.expect_code(2);
    let elsewhere = det_post(&["inspect", &config, "--ros-args", "-r", "a:=b"]);
    elsewhere.expect_code(2);
    assert!(
        elsewhere.stderr.contains("`run`, `replay`, `check` and `migrate` take --ros-args"),
        "{}",
        elsewhere.stderr
    );
}

/// A node in a domain of its own, only on this machine.
#[cfg(feature = "dds")]
fn spawn(domain: &Domain, rest: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_det_post"))
        .args(["run", "--config", &config(), "--middleware", "dds"])
        .args(rest)
        .env("ROS_DOMAIN_ID", domain.id.to_string())
        .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        .env_remove("ORT_DYLIB_PATH")
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads the log until a line says `text`; the rest is read on and dropped, so
/// that the process never waits for its reader.
#[cfg(feature = "dds")]
fn await_line(child: &mut Child, text: &str) {
    let start = Instant::now();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut log = String::new();
    loop {
        let line = lines.next().unwrap_or_else(|| panic!("{text:?} is not in\n{log}")).unwrap();
        log += &line;
        log.push('\n');
        assert!(start.elapsed() < 3 * PATIENCE, "{log}");
        if line.contains(text) {
            break;
        }
    }
    std::thread::spawn(move || lines.for_each(drop));
}

#[cfg(feature = "dds")]
fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

#[cfg(feature = "dds")]
#[test]
fn signals_end_it_with_code_0_before_a_launch_file_escalates() {
    // A supervisor signals a group, and the launch file in it the node once more.
    for names in [&["-TERM"][..], &["-INT"], &["-TERM", "-INT", "-INT"]] {
        let domain = Domain::reserve();
        let mut child = spawn(&domain, &["--ros-args", "-r", "__ns:=/test"]);
        await_line(&mut child, "activating -> active");
        let start = Instant::now();
        // At once: before the node could end after the first.
        let all = names.join(" ");
        let commands: Vec<_> =
            names.iter().map(|name| format!("kill {name} {}", child.id())).collect();
        let script = commands.join("; ");
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
        let code = child.wait().unwrap().code();
        let took = start.elapsed();
        println!("{all}: ended after {took:?}");
        assert_eq!(code, Some(0), "{all}");
        // A second on a machine that does nothing else; `ros2 launch` waits for five.
        assert!(took < Duration::from_secs(5), "{all} {took:?}");
    }
}

#[cfg(feature = "dds")]
#[test]
fn a_network_or_a_device_that_is_not_there_ends_the_start_with_code_2() {
    for (parameter, named) in [
        ("camera.model_path:=/none/such.onnx", "/none/such.onnx"),
        ("device:=cuda:63", "ERROR device: "),
    ] {
        let domain = Domain::reserve();
        let mut child = spawn(&domain, &["-p", parameter]);
        await_line(&mut child, named);
        assert_eq!(child.wait().unwrap().code(), Some(2), "{parameter}");
    }
}

#[cfg(feature = "dds")]
#[test]
fn without_autostart_it_waits_and_ends_all_the_same() {
    let domain = Domain::reserve();
    let mut child = spawn(&domain, &["--ros-args", "-p", "autostart:=false"]);
    await_line(&mut child, "waiting for change_state");
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// An idle node that is asked to stop has nothing to warn of.
#[cfg(feature = "dds")]
#[test]
fn the_end_of_an_idle_node_is_no_warning() {
    let domain = Domain::reserve();
    let mut child = spawn(&domain, &["--ros-args", "-p", "autostart:=false"]);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("waiting for change_state")));
    signal(&child, "-TERM");
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(rest.iter().any(|line| line.contains("INFO stopping: ")), "{rest:?}");
    let is_noise = |line: &&String| line.contains("WARN") || line.contains("ERROR");
    assert_eq!(rest.iter().find(is_noise), None);
}

/// The form of log lines that every ROS node takes, with the name of its logger.
#[test]
fn lines_have_the_form_that_the_environment_asks_for() {
    let config = config();
    let arguments = ["run", "--config", &config, "-p", "camera.score_treshold:=1", "--ros-args"];
    let run = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_det_post"))
            .args(arguments)
            .args(more)
            .env("RCUTILS_CONSOLE_OUTPUT_FORMAT", "<{severity}|{name}> {message}")
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let named = run(&["-r", "__ns:=/front", "-r", "__node:=eyes"]);
    assert!(named.contains("<ERROR|front.eyes> config: "), "{named}");
    assert_eq!(run(&["--disable-stdout-logs"]), "");
}
