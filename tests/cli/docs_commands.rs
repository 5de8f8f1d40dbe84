//! The commands in README.md and docs/ are ones that the program understands,
//! and those marked `<!-- runs -->` run as written, from only a clone.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::replay::det_post;
use crate::common::require::{Need, skip};
use crate::common::streampetr::{Form, Weights, save};
use crate::common::surround_rig::SIZES;

#[path = "../../examples/one_message.rs"]
mod one_message;
#[path = "../../examples/replay.rs"]
mod replay;
#[path = "../../examples/suppress.rs"]
mod suppress;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// README.md and all pages below docs/, but for decisions, which are history.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    for folder in ["docs", "docs/tutorials"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    pages.sort();
    pages
}

/// The fenced blocks that follow a line `<!-- runs -->`.
fn runnable_blocks(page: &str) -> Vec<String> {
    let parts = page.split("<!-- runs -->\n```sh\n").skip(1);
    parts.map(|part| part.split_once("```").unwrap().0.to_owned()).collect()
}

/// Lines of code that call the program, without prompt, comment and what
/// follows an operator of the shell.
fn calls(page: &str) -> Vec<String> {
    let mut calls = Vec::new();
    let mut is_fenced = false;
    let page = page.replace("\\\n", " ");
    for line in page.lines() {
        is_fenced ^= line.starts_with("```");
        if !is_fenced && !line.starts_with("    ") {
            continue;
        }
        let line = line.trim().trim_start_matches("$ ");
        if line.starts_with("det_post ") {
            let end = [" #", " &&", " |", " ;", "…"];
            let end = end.iter().filter_map(|end| line.find(end)).min();
            calls.push(line[..end.unwrap_or(line.len())].to_owned());
        }
    }
    calls
}

#[test]
fn options_in_the_docs_exist() {
    let mut num_calls = 0;
    for page in pages() {
        for call in calls(&fs::read_to_string(&page).unwrap()) {
            let mut words = call.split_whitespace().skip(1);
            let command = words.next().unwrap();
            if command.starts_with('-') {
                continue;
            }
            let help = det_post(&[command, "--help"]);
            assert_eq!(help.code, 0, "{}: no such command: {call}", page.display());
            let ros_args = call.find("--ros-args").unwrap_or(call.len());
            let options = call[..ros_args].split_whitespace().filter(|w| w.starts_with("--"));
            for option in options {
                let name = option.split('=').next().unwrap();
                assert!(help.stdout.contains(name), "{}: no {name}: {call}", page.display());
            }
            num_calls += 1;
        }
    }
    assert!(num_calls >= 15, "{num_calls} calls found");
}

/// Runs the marked commands of a page one after the other in a folder that has these parts
/// of a clone; what they printed. `programs` are folders searched before all others.
fn run_marked(name: &str, parts: &[&str], programs: &[&Path]) -> Vec<String> {
    run_marked_beside(name, parts, &[], programs)
}

/// As [`run_marked`], with more folders, by the names that the page gives them.
fn run_marked_beside(
    name: &str,
    parts: &[&str],
    folders: &[(&str, &Path)],
    programs: &[&Path],
) -> Vec<String> {
    let blocks = runnable_blocks(&fs::read_to_string(root().join(name)).unwrap());
    assert!(!blocks.is_empty(), "{name} marks no commands");
    let clone = tempfile::tempdir().unwrap();
    for part in parts {
        symlink(root().join(part), clone.path().join(part)).unwrap();
    }
    for (name, folder) in folders {
        symlink(folder, clone.path().join(name)).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_det_post")).parent().unwrap();
    let others = std::env::var_os("PATH").unwrap();
    let others: Vec<PathBuf> = std::env::split_paths(&others).collect();
    let folders = programs.iter().copied().chain([program]);
    let path = folders.chain(others.iter().map(PathBuf::as_path));
    let path = std::env::join_paths(path).unwrap();
    let run = |block: String| {
        let run = Command::new("sh")
            .args(["-ec", &block])
            .current_dir(clone.path())
            .env("PATH", &path)
            .env_remove("ORT_DYLIB_PATH")
            .env_remove("RUST_LOG")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap();
        let [out, err] = [&run.stdout, &run.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(run.status.success(), "{name}:\n{block}\n{out}\n{err}");
        out.into_owned()
    };
    blocks.into_iter().map(run).collect()
}

#[test]
fn marked_commands_run_from_a_clone() {
    for name in ["README.md", "docs/tutorials/your-network.md"] {
        for out in run_marked(name, &["config", "models"], &[]) {
            assert!(out.contains("/truth/lidar_0"), "{name}: nothing was evaluated:\n{out}");
        }
    }
}

/// From a checkpoint that a script makes to detections.
#[test]
fn the_tutorial_of_voxel_networks_runs() {
    let Some(python) = std::env::var_os("DET_POST_TORCH_PYTHON") else {
        skip(Need::Torch, "DET_POST_TORCH_PYTHON names no Python");
        return;
    };
    let programs = tempfile::tempdir().unwrap();
    let python3 = programs.path().join("python3");
    // A link would not find the packages of a virtual environment.
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", Path::new(&python).display());
    fs::write(&python3, script).unwrap();
    fs::set_permissions(&python3, fs::Permissions::from_mode(0o755)).unwrap();
    let name = "docs/tutorials/your-voxel-network.md";
    let parts = ["config", "models", "tools", "training"];
    let outputs = run_marked(name, &parts, &[programs.path()]);
    let all = outputs.concat();
    for expected in ["family openpcdet", "outputs reg_0 height_0 dim_0 rot_0 vel_0 hm_0"] {
        assert!(all.contains(expected), "{name}: {expected}:\n{all}");
    }
    assert!(outputs.last().unwrap().contains("/truth/lidar_0"), "nothing was evaluated:\n{all}");
}

/// With a small network in place of Autoware's, in files of the same names and tensors.
#[test]
fn the_tutorial_of_six_cameras_runs() {
    let networks = tempfile::tempdir().unwrap();
    save(networks.path(), &SIZES, &Weights::random(&SIZES, 11), Form::AllLayers);
    let folders = [("streampetr", networks.path())];
    let name = "docs/tutorials/six-cameras.md";
    let outputs = run_marked_beside(name, &["config", "models"], &folders, &[]);
    let [drive, parameters, replay, streampetr] = &outputs[..] else { panic!("{outputs:?}") };
    for (expected, printed) in [
        ("/camera_5/camera_info", drive),
        ("reference_camera: 0", parameters),
        ("4 in, 3 out", replay),
        ("uncalibrated: surround: camera 5 (camera_5_optical_frame)", replay),
        ("input  /camera_5/image  4 in", replay),
        ("skew   0.0 to 0.0 ms", replay),
        ("/truth/surround", replay),
        ("head: streampetr_autoware", streampetr),
        ("4 in, 3 out", streampetr),
    ] {
        assert!(printed.contains(expected), "{name}: {expected}:\n{printed}");
    }
}

/// The names of the examples that README.md runs, all of them without arguments.
fn examples_in_readme() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let runs = readme.lines().filter_map(|line| {
        line.trim().strip_prefix("cargo run --release --example ").map(str::to_owned)
    });
    runs.map(|run| run.split('#').next().unwrap().trim().to_owned()).collect()
}

#[test]
fn examples_in_the_readme_run_without_arguments_and_data() {
    let mut names = examples_in_readme();
    names.sort();
    assert_eq!(names, ["one_message", "replay", "suppress"]);
    one_message::main().unwrap();
    replay::main().unwrap();
    suppress::main().unwrap();
}
