//! Runs the tests of the Python package with the program and the extension module that this
//! build made: mypy on the package, then pytest.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use self::require::{Need, skip};

#[path = "../../crates/testing/src/onnx.rs"]
mod onnx;
#[path = "../../crates/testing/src/require.rs"]
mod require;
#[path = "../../tests/common/safetensors.rs"]
mod safetensors;
#[path = "../../tests/common/streampetr.rs"]
#[allow(dead_code, reason = "each program uses its part")]
mod streampetr;
#[path = "../../tests/common/view_files.rs"]
mod view_files;

/// Golden view decoders as files, where the shared data is: `test_views.py` takes them.
fn view_cases() -> Option<(PathBuf, tempfile::TempDir)> {
    let data = env::var_os("DET_POST_SHARED_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        PathBuf::from,
    );
    let surround = data.join("surround");
    if !surround.is_dir() {
        skip(Need::Data, format_args!("{} is no folder", surround.display()));
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    view_files::save_all(&surround, folder.path());
    Some((surround, folder))
}

/// The folder of this build, such as target/debug.
fn build() -> PathBuf {
    let this = env::current_exe().unwrap();
    this.ancestors().nth(2).unwrap().to_owned()
}

/// A package of links: the Python files and the extension module beside them.
fn link_package(site: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("det_post");
    let package = site.join("det_post");
    let _ = fs::remove_dir_all(&package);
    fs::create_dir_all(&package).unwrap();
    for entry in fs::read_dir(source).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        // A copy of the module in the source folder is of an earlier build.
        if name != "__pycache__" && !name.to_string_lossy().ends_with(".so") {
            symlink(entry.path(), package.join(name)).unwrap();
        }
    }
    symlink(build().join("deps/lib_ops.so"), package.join("_ops.abi3.so")).unwrap();
}

#[test]
fn package() {
    let Some(python) = env::var_os("DET_POST_PEER_PYTHON") else {
        return skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
    };
    let program = build().join("det_post");
    assert!(program.is_file(), "no {}: run `cargo test --workspace`", program.display());
    let site = build().join("python");
    link_package(&site);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command
            .args(["-m"])
            .args(arguments)
            .current_dir(folder.parent().unwrap())
            .env("DET_POST_PROGRAM", &program)
            .env("PYTHONPATH", &site)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    let config = "--config-file=python/pyproject.toml";
    // mypy has one thread, and the tests wait for programs: beside each other.
    let mut mypy = command(&["mypy", config, "python/det_post"]).spawn().unwrap();
    let cases = view_cases();
    let mut tests = command(&["pytest", "-q", config, "python/tests"]);
    if let Some((data, files)) = &cases {
        tests.env("DET_POST_VIEW_DATA", data).env("DET_POST_VIEW_FILES", files.path());
    }
    let tests = tests.status().unwrap();
    let types = mypy.wait().unwrap();
    assert!(types.success() && tests.success(), "mypy: {types}, pytest: {tests}");
}
