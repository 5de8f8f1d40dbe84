//! What the program writes and what it leaves as it is: output folders, signals,
//! full disks, closed pipes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::replay::{Run, det_post};
use common::require::{Need, skip};
use common::stand_in;
use det_post_ros::bag::BagReader;
use det_post_ros::messages::Image;
use det_post_types::{Header, Stamp};
use serde_json::Value;

const MARKER: &str = ".det_post.jsonl";
const PARTIAL: &str = "det_post.partial";

/// A simulated drive and networks that know nothing, made once.
pub(super) struct Fixture {
    _keeper: tempfile::TempDir,
    models: PathBuf,
    pub(super) drive: PathBuf,
}

pub(super) fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let keeper = tempfile::tempdir().unwrap();
        let [models, drive] = ["models", "drive"].map(|name| keeper.path().join(name));
        stand_in::write(&models);
        simulate(&drive).expect_code(0);
        Fixture { _keeper: keeper, models, drive }
    })
}

fn simulate(out: &Path) -> Run {
    det_post(&["simulate", "--seconds", "0.6", "--points", "4096", "--out", text(out)])
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The arguments of a replay of the camera and the lidar of a drive.
pub(super) fn replay_arguments(bag: &Path, out: &Path, more: &[&str]) -> Vec<String> {
    let models = &fixture().models;
    let mut arguments: Vec<String> =
        ["replay", text(bag), "--config", "config/demo.param.yaml", "--device", "cpu"]
            .map(str::to_owned)
            .into();
    for (key, file) in [
        ("camera.model_path", "camera.onnx"),
        ("lidar.encoder_path", "lidar_encoder.onnx"),
        ("lidar.model_path", "lidar_head.onnx"),
    ] {
        arguments.extend(["-p".into(), format!("{key}:={}", text(&models.join(file)))]);
    }
    arguments.extend(["--out", text(out)].map(str::to_owned));
    arguments.extend(more.iter().map(|&argument| argument.to_owned()));
    arguments
}

fn replay(bag: &Path, out: &Path) -> Run {
    let arguments = replay_arguments(bag, out, &[]);
    det_post(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn command(arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_det_post"));
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("ORT_DYLIB_PATH")
        .env_remove("RUST_LOG");
    command
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}

fn spawn(arguments: &[String]) -> Child {
    command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

/// Waits for a path, and fails the test when the process ends before.
fn await_path(child: &mut Child, path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(child.try_wait().unwrap().is_none(), "ended before {} was there", path.display());
        assert!(start.elapsed() < Duration::from_secs(300), "no {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the process has opened a file, and fails the test when it ends
/// before.
fn await_open(child: &mut Child, path: &Path) {
    let start = Instant::now();
    let descriptors = format!("/proc/{}/fd", child.id());
    let is_open = || {
        let links = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        links.filter_map(|link| fs::read_link(link.path()).ok()).any(|target| target == path)
    };
    while !is_open() {
        assert!(child.try_wait().unwrap().is_none(), "ended before it read {}", path.display());
        assert!(start.elapsed() < Duration::from_secs(300), "{} is not read", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Every file below a folder with its bytes.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = text(path.strip_prefix(folder).unwrap()).to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn names(folder: &Path) -> Vec<String> {
    tree(folder).into_keys().collect()
}

fn copy(from: &Path, to: &Path) {
    for (name, bytes) in tree(from) {
        if name != MARKER {
            fs::create_dir_all(to.join(&name).parent().unwrap()).unwrap();
            fs::write(to.join(name), bytes).unwrap();
        }
    }
}

#[track_caller]
fn expect_refusal(run: &Run, words: &[&str]) {
    run.expect_code(2);
    for word in words {
        assert!(run.stderr.contains(word), "{word:?} is missing in {}", run.stderr);
    }
}

/// The system refuses a file of the recording: a loss as any other, for every command.
#[test]
fn a_file_that_cannot_be_opened_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    copy(&fixture().drive, &bag);
    fs::remove_file(bag.join("metadata.yaml")).unwrap();
    let lost = bag.join("drive_1.mcap");
    fs::create_dir(&lost).unwrap();
    let run = det_post(&["inspect", text(&bag)]);
    run.expect_code(3);
    assert!(run.stdout.contains("/lidar_0/points") && run.stdout.contains("6 messages"));
    let line = run.stdout.lines().find(|line| line.starts_with("damaged: ")).unwrap();
    assert!(line.contains(text(&lost)), "{}", run.stdout);
    replay(&bag, &folder.path().join("out")).expect_code(3);
}

#[test]
fn a_replay_beside_its_recording_leaves_the_recording_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let bag = out.join("detections");
    copy(&fixture().drive, &bag);
    let before = tree(out);
    let run = replay(&bag, out);
    expect_refusal(&run, &[text(&bag), "was not written by det_post"]);
    assert!(tree(out) == before, "{:?}", names(out));

    // The same with a recording that `simulate` wrote there.
    fs::remove_dir_all(&bag).unwrap();
    simulate(&bag).expect_code(0);
    let before = tree(out);
    expect_refusal(&replay(&bag, out), &[text(&bag), "is itself an output folder"]);
    assert!(tree(out) == before, "{:?}", names(out));
}

/// Capacities beyond a limit of the address space are refused by name; nothing is allocated, which would
/// abort the process.
#[test]
fn capacities_beyond_a_limit_of_the_address_space_are_refused() {
    let script = "ulimit -v \"$1\"; shift; exec \"$@\"";
    let drive = text(&fixture().drive);
    let capacity = "lidar.point_capacity:=16777216";
    let config = "config/demo.param.yaml";
    let commands: [&[&str]; 2] = [
        &["check", config, "-p", capacity],
        &["replay", drive, "-c", config, "-p", capacity, "--device", "cpu"],
    ];
    for arguments in commands {
        for kibibytes in ["700000", "1000000", "1300000"] {
            let mut bash = Command::new("bash");
            bash.args(["-c", script, "bash", kibibytes, env!("CARGO_BIN_EXE_det_post")]);
            let output = bash.args(arguments).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            let place = format!("{} with {kibibytes} KiB: {stderr}", arguments[0]);
            assert_eq!(output.status.code(), Some(2), "{place}");
            assert!(stderr.contains("lidar.point_capacity: found 16777216"), "{place}");
            assert!(!stderr.contains("panicked") && !stderr.contains("allocation"), "{place}");
        }
    }
}

/// The folder is looked at before networks are loaded, which may take minutes.
#[test]
fn a_foreign_file_is_named_before_networks_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("detections.jsonl"), "mine").unwrap();
    let network = folder.path().join("broken.onnx");
    fs::write(&network, "no network").unwrap();
    let channel = [
        "-p",
        "camera.input:=/x",
        "-p",
        "camera.head:=yolox",
        "--out",
        text(&out),
        "--device",
        "cpu",
    ];
    let model = format!("camera.model_path:={}", network.display());
    let bag = text(&fixture().drive).to_owned();
    let run = det_post(&[&["replay", &bag, "-p", &model][..], &channel].concat());
    expect_refusal(&run, &["detections.jsonl was not written by det_post"]);
    assert_eq!(names(&out), ["detections.jsonl"]);
}

#[test]
fn a_simulation_replaces_simulations_alone() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    copy(&fixture().drive, &bag);
    fs::write(bag.join("notes.txt"), "mine").unwrap();
    let before = tree(&bag);
    expect_refusal(&simulate(&bag), &[text(&bag), "was not written by det_post"]);
    assert!(tree(&bag) == before, "{:?}", names(&bag));

    fs::remove_dir_all(&bag).unwrap();
    for _ in 0..2 {
        simulate(&bag).expect_code(0);
        assert_eq!(names(&bag), [MARKER, "drive_0.mcap", "metadata.yaml"]);
    }
    fs::write(bag.join("notes.txt"), "mine").unwrap();
    expect_refusal(&simulate(&bag), &["notes.txt was not written by det_post"]);
}

#[test]
fn replays_replace_replays_and_edited_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let drive = &fixture().drive;
    fs::write(out.join("mine.txt"), "mine").unwrap();
    replay(drive, out).expect_code(0);
    let first = tree(out);
    replay(drive, out).expect_code(0);
    for name in ["detections.jsonl", "detections/detections_0.mcap", "mine.txt"] {
        assert!(!first[name].is_empty() && first[name] == tree(out)[name], "{name}");
    }
    // Without the list, nothing is det_post's.
    fs::remove_file(out.join(MARKER)).unwrap();
    let before = tree(out);
    let words = ["was not written by det_post", "move or remove it", text(out)];
    expect_refusal(&replay(drive, out), &words);
    assert!(tree(out) == before, "{:?}", names(out));
}

#[test]
fn links_out_of_the_folder_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let [out, elsewhere] = ["out", "elsewhere"].map(|name| folder.path().join(name));
    fs::create_dir_all(&out).unwrap();
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("detections_0.mcap"), "theirs").unwrap();
    let before = tree(&elsewhere);
    for (name, target) in [
        ("detections", elsewhere.clone()),
        ("detections.jsonl", elsewhere.join("detections_0.mcap")),
        ("report.json", elsewhere.join("new.json")),
        ("images", elsewhere.clone()),
    ] {
        symlink(target, out.join(name)).unwrap();
        let run = replay(&fixture().drive, &out);
        expect_refusal(&run, &[text(&out.join(name)), "symbolic link"]);
        assert!(tree(&elsewhere) == before, "{name}");
        fs::remove_file(out.join(name)).unwrap();
    }
}

#[test]
fn two_replays_do_not_write_to_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let drive = &fixture().drive;
    let mut first = spawn(&replay_arguments(drive, &out, &["--rate", "0.01"]));
    await_path(&mut first, &out.join(PARTIAL).join("detections/detections_0.mcap"));
    let second = replay(drive, &out);
    second.expect_code(1);
    let words = format!("another det_post is writing to {}", out.display());
    assert!(second.stderr.contains(&words), "{}", second.stderr);
    // The lock ends with its process, however that ends.
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(out.join(PARTIAL).join("detections.jsonl").exists());
    replay(drive, &out).expect_code(0);
    assert!(!out.join(PARTIAL).exists());
}

/// Checks what a replay that was asked to stop has left: a whole result, or a
/// part under another name. Says whether it was whole.
fn check_ended(status: ExitStatus, out: &Path) -> bool {
    let results = ["detections.jsonl", "detections/metadata.yaml", "report.json"];
    let is_there = |folder: &Path| results.map(|name| folder.join(name).is_file());
    match (status.code(), status.signal()) {
        (Some(0), _) => {
            assert_eq!(is_there(out), [true; 3]);
            assert!(!out.join(PARTIAL).exists());
            let report: Value =
                serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
            assert_eq!(report["interrupted"], false);
            let num_lines =
                fs::read_to_string(out.join("detections.jsonl")).unwrap().lines().count();
            assert_eq!(report["num_messages"], num_lines);
            true
        }
        // Stopped while the networks were loaded: nothing was begun.
        (Some(4), _) if !out.exists() => false,
        (Some(4), _) => {
            assert_eq!(is_there(out), [false; 3], "{:?}", names(out));
            let partial = out.join(PARTIAL);
            assert_eq!(is_there(&partial), [true; 3]);
            let report: Value =
                serde_json::from_slice(&fs::read(partial.join("report.json")).unwrap()).unwrap();
            assert_eq!(report["interrupted"], true);
            assert!(BagReader::open(&partial.join("detections")).is_ok());
            false
        }
        // Before the program could listen there is nothing to leave.
        (None, Some(15)) => {
            assert!(!out.exists(), "{:?}", names(out));
            false
        }
        other => panic!("{other:?}"),
    }
}

/// `DET_POST_KILLS=50` asks for more.
#[test]
fn a_replay_that_is_terminated_leaves_a_whole_result_or_a_part() {
    let num_kills = std::env::var("DET_POST_KILLS").map_or(6, |num| num.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let drive = &fixture().drive;
    let start = Instant::now();
    replay(drive, &folder.path().join("whole")).expect_code(0);
    let whole = start.elapsed();
    let seed = std::process::id();
    println!("a whole replay takes {whole:?}, {num_kills} kills, seed {seed}");
    let mut state = u64::from(seed);
    let mut num_whole = 0;
    for kill in 0..num_kills {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (state >> 33) as f64 / (1_u64 << 31) as f64;
        let out = folder.path().join(format!("out_{kill}"));
        let mut child = spawn(&replay_arguments(drive, &out, &[]));
        std::thread::sleep(whole.mul_f64(1.1 * share));
        let has_ended = child.try_wait().unwrap().is_some();
        if !has_ended {
            signal(&child, "-TERM");
        }
        let is_whole = check_ended(child.wait().unwrap(), &out);
        let left = match (is_whole, out.exists()) {
            (true, _) => "the whole",
            (false, true) => "a part",
            (false, false) => "nothing: it did not listen yet",
        };
        println!("after {share:.3} of 1.1 of it: {left}");
        assert!(is_whole || !has_ended);
        num_whole += usize::from(is_whole);
        // The next replay takes the place of either.
        if kill % 10 == 0 {
            replay(drive, &out).expect_code(0);
            assert!(!out.join(PARTIAL).exists());
        }
    }
    println!("{num_whole} of {num_kills} were whole");
}

/// Whether this process, and with it its children, ignores SIGHUP, as below `nohup`.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 != 0
}

#[test]
fn every_signal_that_asks_to_stop_is_code_4() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let drive = &fixture().drive;
    let names = ["-TERM", "-INT", "-HUP"];
    for name in names.into_iter().filter(|&name| name != "-HUP" || !ignores_hangup()) {
        let out = path(&format!("out{name}"));
        replay(drive, &out).expect_code(0);
        let before = fs::read(out.join("detections.jsonl")).unwrap();
        let mut child = spawn(&replay_arguments(drive, &out, &["--rate", "0.01"]));
        await_path(&mut child, &out.join(PARTIAL).join("detections/detections_0.mcap"));
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(4), "replay {name}");
        // The results of the run before are still there.
        assert!(fs::read(out.join("detections.jsonl")).unwrap() == before);
        assert!(out.join(PARTIAL).join("report.json").is_file());

        let bag = path(&format!("drive{name}"));
        let mut child = spawn(&owned(&["simulate", "--seconds", "600", "--out", text(&bag)]));
        await_path(&mut child, &bag.join(PARTIAL));
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(4), "simulate {name}");
        assert!(!bag.join("metadata.yaml").exists());
        assert!(BagReader::open(&bag.join(PARTIAL)).is_ok());
        assert!(BagReader::open(&bag).is_err());
    }
    let models = text(&fixture().models);
    for (wanted, case) in [("drive", "simulating"), ("detections", "detecting")] {
        let out = path(case);
        let seconds = if case == "simulating" { "600" } else { "1" };
        let arguments = ["demo", "--seconds", seconds, "--models", models, "--out", text(&out)];
        let mut child = spawn(&owned(&arguments));
        let awaited = match wanted {
            "drive" => out.join("drive").join(PARTIAL),
            name => out.join(PARTIAL).join(name),
        };
        await_path(&mut child, &awaited);
        signal(&child, "-TERM");
        assert_eq!(child.wait().unwrap().code(), Some(4), "demo {case}");
        assert!(!out.join("report.json").exists() && !out.join("detections.jsonl").exists());
        assert!(out.join(PARTIAL).join("demo.param.yaml").is_file());
    }
}

#[test]
fn an_evaluation_that_is_terminated_is_code_4_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("detections.jsonl");
    let line = |stamp: u64| {
        format!(
            "{{\"channel\":\"camera\",\"topic\":\"/camera\",\"stamp_ns\":{stamp},\"frame_id\":\
             \"camera_0_optical_frame\",\"detections_2d\":[]}}\n"
        )
    };
    fs::write(&lines, (0..1_000_000).map(line).collect::<String>()).unwrap();
    let json = folder.path().join("eval.json");
    let drive = text(&fixture().drive);
    let arguments = ["eval", "--detections", text(&lines), "--truth", drive, "--json", text(&json)];
    let mut child = spawn(&owned(&arguments));
    await_open(&mut child, &lines);
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert_eq!(names(folder.path()), ["detections.jsonl"]);
}

#[test]
fn a_hangup_is_ignored_below_nohup() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_det_post")])
        .args(["simulate", "--seconds", "0.4", "--points", "4096", "--out", text(&bag)])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    await_path(&mut child, &bag.join(PARTIAL));
    signal(&child, "-HUP");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(bag.join("metadata.yaml").is_file());
}

/// A recording of small images at these log times, as rosbag2's sqlite3.
fn write_images(path: &Path, log_times_ns: &[i64]) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
                 serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL);
             CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL,
                 timestamp INTEGER NOT NULL, data BLOB NOT NULL);
             CREATE INDEX timestamp_idx ON messages (timestamp ASC);
             INSERT INTO topics VALUES (1, '/camera_0/image', 'sensor_msgs/msg/Image', 'cdr', '');",
        )
        .unwrap();
    let pixels = vec![90; 64 * 48 * 3];
    for (at, log_time) in log_times_ns.iter().enumerate() {
        let image = Image {
            header: Header { stamp: Stamp::from_ros(1_700_000_000 + at as i32, 0), frame_id: "c" },
            height: 48,
            width: 64,
            encoding: "rgb8",
            is_bigendian: false,
            step: 64 * 3,
            data: &pixels,
        };
        let mut message = Vec::new();
        image.encode(&mut message).unwrap();
        let insert = "INSERT INTO messages(topic_id, timestamp, data) VALUES (1, ?, ?)";
        connection.execute(insert, (log_time, message)).unwrap();
    }
}

#[test]
fn a_log_time_before_1970_drops_its_frame_alone() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("images.db3");
    write_images(&bag, &[-5_000_000_000, 1_000, 2_000, i64::MIN]);
    for rate in ["max", "1000"] {
        let out = folder.path().join(rate);
        let arguments = replay_arguments(&bag, &out, &["--rate", rate]);
        let run = det_post(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        run.expect_code(0);
        let report: Value =
            serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
        let camera = &report["channels"]["camera"];
        let dropped = &camera["dropped"]["time_out_of_range"];
        assert_eq!((&camera["frames_in"], &dropped["count"]), (&4.into(), &2.into()), "{report}");
        let first = dropped["first"].as_str().unwrap();
        assert!(first.contains("is before 1970"), "{first}");
        let lines = fs::read_to_string(out.join("detections.jsonl")).unwrap();
        assert_eq!(camera["frames_out"], lines.lines().count());
        assert!(!lines.is_empty());
    }
}

/// Runs a command whose standard output nobody reads.
fn run_unread(arguments: &[String]) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command(arguments).stdout(writer).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_closed_stdout_ends_every_command_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| text(&folder.path().join(name)).to_owned();
    let (drive, models) = (text(&fixture().drive), text(&fixture().models));
    let out = folder.path().join("out");
    replay(&fixture().drive, &out).expect_code(0);
    let simulated = path("simulated");
    let demo = path("demo");
    let commands = [
        owned(&["inspect", drive]),
        owned(&["check", "config/demo.param.yaml"]),
        owned(&["simulate", "--seconds", "0.1", "--points", "1024", "--out", &simulated]),
        replay_arguments(&fixture().drive, &folder.path().join("replayed"), &[]),
        owned(&["eval", "--detections", text(&out), "--truth", drive]),
        owned(&["demo", "--seconds", "0.4", "--models", models, "--out", &demo]),
        owned(&["bench", "--device", "cpu"]),
        owned(&["--help"]),
        owned(&["--version"]),
    ];
    for arguments in commands {
        let start = Instant::now();
        let (code, stderr) = run_unread(&arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
        for word in ["panicked", "ERROR", "Broken pipe"] {
            assert!(!stderr.contains(word), "{arguments:?}: {stderr}");
        }
        // A bench that nobody reads does not measure all its cases.
        assert!(start.elapsed() < Duration::from_secs(60), "{arguments:?}");
    }
    // The files are whole all the same.
    assert!(folder.path().join("replayed/report.json").is_file());
}

#[test]
fn a_closed_stderr_changes_no_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let bag = text(&folder.path().join("drive")).to_owned();
    let cases = [
        (owned(&["inspect", "no/such/recording"]), 1),
        (owned(&["check", "config/demo.param.yaml", "-p", "camera.score_treshold:=1"]), 2),
        (owned(&["simulate", "--seconds", "0.1", "--points", "1024", "--out", &bag]), 0),
    ];
    for (arguments, code) in cases {
        // As `2>&1 | head -1` leaves it.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let errors = writer.try_clone().unwrap();
        let status = command(&arguments).stdout(writer).stderr(errors).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_stdout_that_is_full_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let arguments = owned(&["check", "config/demo.param.yaml"]);
    let output = command(&arguments).stdout(full).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("stdout: cannot write the results: No space left"), "{stderr}");
}

#[test]
fn a_disk_that_is_full_and_a_folder_that_cannot_be_written_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    // Files of at most 256 KiB stand for a disk without space.
    let limited = Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 256; exec \"$@\"", "bash"])
        .arg(env!("CARGO_BIN_EXE_det_post"))
        .args(["simulate", "--seconds", "1", "--out", text(&bag)])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(1), "{stderr}");
    let named = bag.join(PARTIAL).join("drive_0.mcap");
    assert!(stderr.contains(&format!("cannot write {}", named.display())), "{stderr}");
    assert!(stderr.contains("File too large"), "{stderr}");
    assert!(!bag.join("metadata.yaml").exists() && !bag.join("drive_0.mcap").exists());
    simulate(&bag).expect_code(0);

    fs::write(folder.path().join("file"), "mine").unwrap();
    for out in [folder.path().join("file"), folder.path().join("file/below")] {
        for run in [simulate(&out), replay(&fixture().drive, &out)] {
            run.expect_code(1);
            assert!(
                run.stderr.contains(&format!("cannot make {}", out.display())),
                "{}",
                run.stderr
            );
        }
    }
    a_full_file_system_is_named(folder.path());
}

/// On a file system of 1 MiB, where one can be mounted.
fn a_full_file_system_is_named(folder: &Path) {
    let disk = folder.join("disk");
    fs::create_dir(&disk).unwrap();
    let script =
        "mount -t tmpfs -o size=1m tmpfs \"$1\" 2>/dev/null || exit 99; shift; exec \"$@\"";
    let mut child = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", text(&disk)])
        .arg(env!("CARGO_BIN_EXE_det_post"))
        .args(["simulate", "--seconds", "1", "--out", text(&disk.join("drive"))])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let code = child.wait().unwrap().code();
    if code == Some(99) || stderr.starts_with("unshare:") {
        skip(Need::Namespaces, format_args!("cannot mount a file system {}", stderr.trim()));
        return;
    }
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("cannot write") && stderr.contains("No space left"), "{stderr}");
    assert!(stderr.contains(text(&disk.join("drive").join(PARTIAL))), "{stderr}");
}
