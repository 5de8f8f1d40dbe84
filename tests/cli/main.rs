//! The program as users run it: commands, parameter files, launch files, output folders, `eval` and `simulate`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

#[path = "../common/mod.rs"]
mod common;

mod aarch64;
mod commands;
mod config;
mod docs_commands;
mod dropin;
mod dropin_cameras;
mod dropin_proposals;
mod eval;
mod eval_numbers;
mod eval_parts;
mod eval_peers;
mod fingerprint;
mod first_hour;
mod keypoints;
mod launch;
mod observe;
mod outputs;
mod page;
mod precision;
mod sample;
mod simulate;
mod surround_config;
