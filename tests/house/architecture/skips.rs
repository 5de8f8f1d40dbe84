//! Skipped tests are recorded, and fail where what they need is required.

use std::process::{Command, Output};

use super::require::{Need, parse, required, skip};
use super::{root, rust_files};

/// Skips itself; run by the tests below, in a process of its own.
#[test]
#[ignore = "the others run it"]
fn a_skipped_test() {
    skip(Need::Ros2, "planted");
}

fn run_skipped(variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "architecture::skips::a_skipped_test",
            "--include-ignored",
            "--test-threads=2",
        ])
        .env_remove("DET_POST_REQUIRE")
        .env_remove("DET_POST_REQUIRE_CUDA")
        .env_remove("DET_POST_SKIPPED")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn a_skip_is_printed_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("skipped.tsv");
    for _ in 0..2 {
        let output = run_skipped(&[("DET_POST_SKIPPED", record.to_str().unwrap())]);
        assert!(output.status.success());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("skipped: "), "{stderr}");
        assert!(
            stderr.ends_with("architecture::skips::a_skipped_test: no ros2: planted\n"),
            "{stderr}"
        );
    }
    let text = std::fs::read_to_string(record).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    for line in text.lines() {
        let fields: Vec<_> = line.split('\t').collect();
        assert_eq!([fields[0], fields[2]], ["ros2", "planted"], "{line}");
        assert!(fields[1].ends_with("::skips::a_skipped_test"), "{line}");
    }
}

#[test]
fn a_required_need_is_no_reason_to_skip() {
    for (list, is_skipped) in
        [("", true), ("cuda, data", true), ("ros2", false), ("data,ros2", false)]
    {
        let output = run_skipped(&[("DET_POST_REQUIRE", list)]);
        assert_eq!(output.status.success(), is_skipped, "{list:?}");
    }
    assert!(run_skipped(&[("DET_POST_REQUIRE_CUDA", "1")]).status.success());
}

#[test]
fn an_unknown_need_is_refused() {
    assert!(!run_skipped(&[("DET_POST_REQUIRE", "cuad")]).status.success());
    let problem = parse("cuda,cuad").unwrap_err();
    assert!(problem.contains("`cuad`") && problem.contains("cuda, data, ort, peers"), "{problem}");
    assert_eq!(parse(" cuda,, peers ").unwrap(), [Need::Cuda, Need::Peers]);
    // The needs of this very run.
    required().unwrap();
}

/// A printed line is hidden by libtest and recorded nowhere.
#[test]
fn tests_skip_through_one_function() {
    let printed = concat!("println!(\"", "skipped");
    for path in rust_files(&root().join("tests")).into_iter().chain(super::source_files()) {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(printed), "{}: use crates/testing/src/require.rs", path.display());
    }
}
