//! What a build says without a compiler for the kernels, and with one that fails.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// The build script as a program in a folder.
fn compiled(folder: &Path) -> std::path::PathBuf {
    let program = folder.join("build_script");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", script, "-o"]).arg(&program);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs it as cargo would, knowing of nothing but `variables`.
fn run(folder: &Path, variables: &[(&str, &str)]) -> (Output, String) {
    let mut command = Command::new(compiled(folder));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env_clear().env("OUT_DIR", folder);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, out)
}

#[test]
fn without_nvcc_the_build_warns_and_goes_on() {
    let usual = ["/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc"];
    if let Some(nvcc) = usual.into_iter().find(|nvcc| Path::new(nvcc).is_file()) {
        println!("skipped: there is {nvcc}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (output, out) = run(folder.path(), &[("CARGO_FEATURE_CUDA", "1"), ("PATH", "")]);
    assert!(output.status.success());
    assert!(out.contains("cargo:warning=built without CUDA kernels: no nvcc in DET_POST_NVCC"));
    assert!(!out.contains("rustc-cfg=kernels"), "{out}");
}

#[test]
fn kernels_that_do_not_compile_fail_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let nvcc = folder.path().join("nvcc");
    std::fs::write(&nvcc, "#!/bin/sh\necho 'no such thing' >&2\nexit 3\n").unwrap();
    std::fs::set_permissions(&nvcc, std::fs::Permissions::from_mode(0o755)).unwrap();
    let nvcc = nvcc.to_str().unwrap();
    let variables =
        [("CARGO_FEATURE_CUDA", "1"), ("DET_POST_NVCC", nvcc), ("DET_POST_CUDA_ARCHS", "90")];
    let (output, out) = run(folder.path(), &variables);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no such thing"));
    assert!(!out.contains("rustc-cfg=kernels"), "{out}");
}

#[test]
fn without_the_feature_no_compiler_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (output, out) = run(folder.path(), &[("DET_POST_NVCC", "/nowhere/nvcc")]);
    assert!(output.status.success());
    assert!(!out.contains("warning") && !out.contains("rustc-cfg=kernels"), "{out}");
}
