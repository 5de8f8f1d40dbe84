//! The installed package: `find_package(det_post)`, pkg-config, and the examples.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::require::{Need, skip};
use super::{build, library, root};

/// Runs a command in the root of the package and returns what it printed.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.current_dir(root()).output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}:\n{out}\n{err}");
    out.into_owned()
}

/// In the place of cargo a script that hands over the library of the tests, since a release
/// build takes minutes.
fn stand_in_for_cargo(path: &Path) {
    let program = build().join("det_post").display().to_string();
    let library = library().join("libdet_post_c.so").display().to_string();
    let script = format!(
        "#!/bin/sh\nset -e\nmkdir -p \"$CARGO_TARGET_DIR/release\"\n\
         case \"$*\" in\n\
         'build --release -p det_post_capi')\n\
         cp '{library}' \"$CARGO_TARGET_DIR/release/\" ;;\n\
         'build --release --bin det_post') cp '{program}' \"$CARGO_TARGET_DIR/release/\" ;;\n\
         *) echo \"unexpected: $*\"; exit 1 ;;\nesac\n"
    );
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_installed_package_is_found_and_its_examples_run() {
    if Command::new("cmake").arg("--version").output().is_err() {
        skip(Need::Compiler, "no cmake");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let define = |name: &str, to: &Path| format!("-D{name}={}", to.display());
    stand_in_for_cargo(&path("cargo"));
    run(Command::new("cmake")
        .args(["-S", ".", "-DDET_POST_ROS2=OFF", "-DBUILD_TESTING=OFF", "-B"])
        .arg(path("build"))
        .arg(define("CARGO_EXECUTABLE", &path("cargo")))
        .arg(define("CMAKE_INSTALL_PREFIX", &path("prefix"))));
    run(Command::new("cmake").arg("--build").arg(path("build")));
    run(Command::new("cmake").arg("--install").arg(path("build")));

    run(Command::new("cmake")
        .args(["-S", "examples/cpp", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror", "-B"])
        .arg(path("examples"))
        .arg(define("CMAKE_PREFIX_PATH", &path("prefix"))));
    run(Command::new("cmake").arg("--build").arg(path("examples")));
    let image = run(Command::new(path("examples").join("image")).args([
        "config/demo.param.yaml",
        "camera",
        "docs/images/camera.png",
    ]));
    assert!(image.lines().count() > 0, "nothing is found in the image");
    let cloud: Vec<u8> = (0..400_i16)
        .flat_map(|i| [10.0 + f32::from(i % 20) * 0.2, f32::from(i / 20) * 0.1, -0.5, 0.3])
        .flat_map(f32::to_le_bytes)
        .collect();
    fs::write(path("cloud.bin"), cloud).unwrap();
    let program = path("examples").join("cloud");
    let cloud = path("cloud.bin");
    run(Command::new(&program).args(["config/demo.param.yaml", "lidar"]).arg(&cloud));
    let refused = Command::new(&program).args(["no_file.yaml", "lidar"]).arg(&cloud).output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).starts_with("config: "), "{refused:?}");

    if Command::new("pkg-config").arg("--version").output().is_err() {
        skip(Need::Compiler, "no pkg-config");
        return;
    }
    let found = run(Command::new("pkg-config")
        .args(["--cflags", "--libs", "det_post"])
        .env("PKG_CONFIG_PATH", path("prefix").join("lib/pkgconfig")));
    assert!(found.contains("-I") && found.contains("-ldet_post_c"), "{found}");
}
