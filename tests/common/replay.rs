//! Runs the program as a user would and reads what it wrote.
#![allow(dead_code, reason = "each suite uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A finished run of the program.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub out: PathBuf,
}

/// Runs `det_post` with arguments, in the root of the package.
pub fn det_post(arguments: &[&str]) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_det_post")).args(arguments))
}

/// Runs a command that starts `det_post`, in the root of the package.
pub fn run(command: &mut Command) -> Run {
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("ORT_DYLIB_PATH")
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        out: PathBuf::new(),
    }
}

/// Replays a recording with one shipped configuration and `-p` overrides.
pub fn replay(bag: &Path, config: &str, parameters: &[String], out: &Path) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_det_post"));
    replay_with(&mut command, bag, config, parameters, out)
}

/// As [`replay`], after the lines of a shell `script` that changes what the
/// program is given: limits, mounts.
pub fn replay_after(
    script: &str,
    bag: &Path,
    config: &str,
    parameters: &[String],
    out: &Path,
) -> Run {
    let mut command = Command::new("unshare");
    let script = format!("set -e\n{script}\nexec \"$0\" \"$@\"");
    command.args(["--map-root-user", "--mount", "sh", "-c", &script]);
    command.arg(env!("CARGO_BIN_EXE_det_post"));
    replay_with(&mut command, bag, config, parameters, out)
}

/// As [`replay`], by a command that starts `det_post`.
pub fn replay_with(
    program: &mut Command,
    bag: &Path,
    config: &str,
    parameters: &[String],
    out: &Path,
) -> Run {
    program.arg("replay").arg(bag).args(["--config", config, "--out"]).arg(out);
    for parameter in parameters {
        program.args(["-p", parameter]);
    }
    Run { out: out.into(), ..run(program) }
}

/// Replays a recording at a pace.
pub fn replay_at(bag: &Path, config: &str, rate: &str, out: &Path) -> Run {
    let (bag, out_text) = (bag.display().to_string(), out.display().to_string());
    let arguments = ["replay", &bag, "--config", config, "--rate", rate, "--out", &out_text];
    Run { out: out.into(), ..det_post(&arguments) }
}

impl Run {
    /// Fails the test, showing the log, when the exit code is another.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// The lines of `detections.jsonl`.
    pub fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.out.join("detections.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// `report.json`.
    pub fn report(&self) -> Value {
        let text = std::fs::read_to_string(self.out.join("report.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The bytes of a file that was written.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.out.join(name)).unwrap()
    }
}
