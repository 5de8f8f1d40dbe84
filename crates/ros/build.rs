//! Asks which services the sourced ROS 2 has types of.
//!
//! Sets the cfg `iron_services` where r2r generates the types of the services that
//! nodes have from ROS 2 Iron on, and `std_srvs` and `yolo_msgs` where it generates those of the
//! package.

use std::env;
use std::ffi::OsString;
use std::path::Path;

fn main() {
    println!("cargo:rustc-check-cfg=cfg(iron_services, std_srvs, yolo_msgs)");
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_ROS2").is_some() {
        ask_ros();
    }
}

/// r2r generates the types of all packages in the sourced ROS 2, unless CMake or a
/// filter names some of them.
fn ask_ros() {
    let prefixes = ["AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH"];
    let selections = ["CMAKE_IDL_PACKAGES", "IDL_PACKAGE_FILTER"];
    for name in prefixes.iter().chain(&selections) {
        println!("cargo:rerun-if-env-changed={name}");
    }
    for (cfg, package, service) in [
        ("iron_services", "type_description_interfaces", "GetTypeDescription"),
        ("std_srvs", "std_srvs", "SetBool"),
        ("yolo_msgs", "yolo_msgs", "SetClasses"),
    ] {
        let file = Path::new("share").join(package).join(format!("srv/{service}.srv"));
        let has_file = |paths: OsString| env::split_paths(&paths).any(|p| p.join(&file).is_file());
        let is_selected = |name| env::var(name).is_ok_and(|list| list.contains(package));
        if prefixes.iter().filter_map(env::var_os).any(has_file)
            && selections.iter().all(|name| env::var_os(name).is_none() || is_selected(*name))
        {
            println!("cargo:rustc-cfg={cfg}");
        }
    }
}
