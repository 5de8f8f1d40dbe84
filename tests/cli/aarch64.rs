//! The program for aarch64 under qemu beside the one of this machine: drives are the same bytes, and
//! replays detect the same within the bounds of docs/numerics.md.

use std::path::PathBuf;
use std::process::Command;

use crate::common::agreement::agreement;
use crate::common::replay::{replay, replay_with, run};
use crate::common::require::{Need, skip};

/// Where Debian and Ubuntu put the C library for aarch64, which qemu loads.
const C_LIBRARY: &str = "/usr/aarch64-linux-gnu";

/// A command that starts the program for aarch64.
fn aarch64() -> Option<Command> {
    let Some(program) = std::env::var_os("DET_POST_AARCH64_PROGRAM") else {
        skip(Need::Aarch64, "DET_POST_AARCH64_PROGRAM is not set");
        return None;
    };
    let is_there = |qemu: &&str| Command::new(qemu).arg("--version").output().is_ok();
    let Some(qemu) = ["qemu-aarch64-static", "qemu-aarch64"].into_iter().find(is_there) else {
        skip(Need::Aarch64, "no qemu-aarch64");
        return None;
    };
    let mut command = Command::new(qemu);
    if std::env::var_os("QEMU_LD_PREFIX").is_none() {
        command.env("QEMU_LD_PREFIX", C_LIBRARY);
    }
    command.arg(program);
    Some(command)
}

fn here() -> Command {
    Command::new(env!("CARGO_BIN_EXE_det_post"))
}

/// Simulates some tenths of a second with one LiDAR and one camera, a frame of each in a tenth.
#[track_caller]
fn simulate(mut program: Command, seconds: &str, options: &[&str], out: PathBuf) -> PathBuf {
    program.args(["simulate", "--seed", "9005", "--seconds", seconds, "--out"]).arg(&out);
    run(program.args(options)).expect_code(0);
    out
}

fn a_drive_is_the_same_bytes(options: &[&str]) {
    let Some(program) = aarch64() else { return };
    let folder = tempfile::tempdir().unwrap();
    // Files of a recording have the name of its folder.
    let drives = [
        simulate(here(), "0.2", options, folder.path().join("here/drive")),
        simulate(program, "0.2", options, folder.path().join("aarch64/drive")),
    ];
    for name in ["drive_0.mcap", "metadata.yaml"] {
        let [here, there] = drives.each_ref().map(|drive| std::fs::read(drive.join(name)).unwrap());
        assert!(here == there, "{name}: {} and {} bytes differ", here.len(), there.len());
    }
}

#[test]
fn a_drive_is_the_same_bytes_on_aarch64() {
    a_drive_is_the_same_bytes(&[]);
}

#[test]
fn a_drive_of_jpeg_images_is_the_same_bytes_on_aarch64() {
    a_drive_is_the_same_bytes(&["--compressed"]);
}

/// Replays a tenth of a second of a drive by both programs. A network under qemu takes half a minute a frame.
fn a_replay_agrees(options: &[&str], config: &str, parameters: &[&str]) {
    let Some(mut program) = aarch64() else { return };
    let folder = tempfile::tempdir().unwrap();
    let drive = simulate(here(), "0.1", options, folder.path().join("drive"));
    let parameters: Vec<_> = parameters.iter().map(|&parameter| parameter.to_owned()).collect();
    let out = |name: &str| folder.path().join(name);
    let on_this = replay(&drive, config, &parameters, &out("here"));
    let on_aarch64 = replay_with(&mut program, &drive, config, &parameters, &out("aarch64"));
    for run in [&on_this, &on_aarch64] {
        run.expect_code(0);
    }
    println!("{config}: {}", agreement(&on_this.lines(), &on_aarch64.lines(), "aarch64"));
}

#[test]
fn the_demo_detects_the_same_in_jpeg_images_and_clouds_on_aarch64() {
    let input = "camera.input:=/camera_0/image/compressed";
    a_replay_agrees(&["--compressed"], "config/demo.param.yaml", &[input]);
}

#[test]
fn the_voxel_demo_detects_the_same_in_clouds_on_aarch64() {
    a_replay_agrees(&["--cameras", "0"], "config/demo_voxel.param.yaml", &[]);
}
