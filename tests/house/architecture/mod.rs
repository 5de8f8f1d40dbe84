//! The rules that a compiler does not check: what a module may import, where `unsafe` is
//! allowed, how long a file may be, and that every operation has its contract and its row in
//! docs/numerics.md.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common::bounds::{self, Row};
use crate::common::require;
use std::fs;
use std::path::{Path, PathBuf};

mod adding_lists;
mod bindings;
mod file_names;
mod imports;
mod skips;
mod troubleshooting;
mod words;

/// Which modules of the package a module may import. The crates' manifests state the rest.
const LAYERS: [(&str, &[&str]); 8] = [
    ("config", &[]),
    ("detectors", &["config"]),
    ("draw", &["config", "detectors"]),
    ("runtime", &["config", "detectors"]),
    ("replay", &["config", "detectors", "draw", "runtime"]),
    ("node", &["config", "detectors", "draw", "runtime"]),
    ("bench", &["config", "detectors", "replay"]),
    ("cli", &["bench", "config", "detectors", "draw", "node", "replay", "runtime"]),
];

/// Crates, by the folder of their sources.
const CRATES: [&str; 11] = [
    "src",
    "capi/src",
    "crates/eval/src",
    "crates/infer/src",
    "crates/ops/src",
    "crates/ros/src",
    "crates/rtps/src",
    "crates/sim/src",
    "crates/types/src",
    "kernels/src",
    "python/src",
];

/// Where `unsafe` is allowed, block by block, each with its argument: the declarations of
/// kernels, all files of a folder, or one file.
const UNSAFE_NAMES: [&str; 1] = ["kernels.rs"];
const UNSAFE_FOLDERS: [&str; 3] = [
    "crates/ops/src/device/",
    "crates/ops/src/image/decompress/nvjpeg/",
    "crates/ops/src/view/sample/",
];
const UNSAFE_FILES: [&str; 13] = [
    "capi/src/call.rs",
    "capi/src/gpu.rs",
    "crates/infer/src/device/binding.rs",
    "crates/ops/src/image/decompress/nvdec/session.rs",
    "crates/ros/src/bag/mapped.rs",
    "crates/ros/src/bag/truncation.rs",
    "crates/ros/src/ros2/rosout.rs",
    "crates/types/src/device_bytes.rs",
    "python/src/array/memory.rs",
    "src/cli/heap.rs",
    "src/cli/local_time.rs",
    "src/runtime/isolated/memory.rs",
    "crates/ops/src/view/sample/points.rs",
];

/// The families of operations, folders of `crates/ops/src` and of `kernels`.
const FAMILIES: [&str; 8] =
    ["arrays", "cloud", "decode", "dense", "image", "nms", "sparse", "view"];

/// Lines of code a file may have, tests aside.
const MAX_LINES: usize = 400;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The sources of all crates.
fn source_files() -> Vec<PathBuf> {
    CRATES.iter().flat_map(|folder| rust_files(&root().join(folder))).collect()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

#[test]
fn modules_import_only_lower_modules() {
    let graph = imports::graph_of("src");
    let room = |name: &[String]| name.first().cloned().unwrap_or_default();
    let mut wrong = Vec::new();
    for (name, imported) in &graph {
        let from = room(name);
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == from) else { continue };
        for other in imported {
            let to = room(other);
            let is_layer = LAYERS.iter().any(|(layer, _)| *layer == to);
            if is_layer && to != from && !allowed.contains(&to.as_str()) {
                wrong.push(format!("{} imports {}", name.join("::"), other.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "lower modules import higher ones:\n{}", wrong.join("\n"));
    for (layer, _) in LAYERS {
        assert!(graph.keys().any(|name| room(name) == layer), "src/{layer} is not there");
    }
}

#[test]
fn unsafe_code_is_where_it_is_argued() {
    let mut wrong = Vec::new();
    for file in source_files() {
        let name = relative(&file);
        let text = fs::read_to_string(&file).unwrap();
        let uses = text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains("unsafe ") && !code.contains("unsafe_code")
        });
        if !uses {
            continue;
        }
        let is_allowed = UNSAFE_FILES.contains(&name.as_str())
            || UNSAFE_FOLDERS.iter().any(|folder| name.starts_with(folder))
            || UNSAFE_NAMES.iter().any(|allowed| file.ends_with(allowed));
        // An unsafe function that does nothing unsafe itself has a contract only.
        let is_argued = text.contains("// SAFETY:") || text.contains("/// # Safety");
        if !is_allowed || !is_argued {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "unsafe code where it is not allowed, or without SAFETY: {wrong:?}");
}

/// Everything in the tree was written for it: no copy of another project, whole or in part.
#[test]
fn no_foreign_sources() {
    let tracked = std::process::Command::new("git").args(["ls-files"]).current_dir(root()).output();
    let Ok(tracked) = tracked else { return };
    let files = String::from_utf8_lossy(&tracked.stdout).into_owned();
    let is_foreign = |file: &&str| {
        let parts: Vec<&str> = file.split('/').collect();
        let folders = ["third_party", "vendor", "external", "3rdparty", "deps"];
        let is_licence = parts.len() > 1
            && parts.last().is_some_and(|name| {
                name.starts_with("LICENSE") || name.starts_with("COPYING") || *name == "NOTICE"
            });
        is_licence || parts.iter().any(|part| folders.contains(part))
    };
    let foreign: Vec<&str> = files.lines().filter(is_foreign).collect();
    assert!(foreign.is_empty(), "sources of other projects: {foreign:?}");
}

#[test]
fn files_are_short() {
    let long: Vec<String> = source_files()
        .iter()
        .filter_map(|file| {
            let text = fs::read_to_string(file).unwrap();
            let num_lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
            (num_lines > MAX_LINES).then(|| format!("{} {num_lines}", relative(file)))
        })
        .collect();
    assert!(long.is_empty(), "files over {MAX_LINES} lines: {long:?}");
}

/// The operations: folders of a family that have a contract, as `family/op`.
fn operations() -> Vec<(String, PathBuf)> {
    let mut operations = Vec::new();
    for family in FAMILIES {
        let entries = fs::read_dir(root().join("crates/ops/src").join(family)).unwrap();
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.join("mod.rs").is_file() && name != "cuda" {
                operations.push((format!("{family}/{name}"), path));
            }
        }
    }
    assert!(operations.len() >= 40, "only {} operations found", operations.len());
    operations
}

#[test]
fn every_op_has_its_contract_and_numerics_row() {
    let numerics = fs::read_to_string(root().join("docs/numerics.md")).unwrap();
    for (op, path) in operations() {
        let contract = fs::read_to_string(path.join("mod.rs")).unwrap();
        assert!(contract.starts_with("//! "), "{op}: mod.rs does not open with its contract");
        // The measures of overlap are part of the suppressions.
        let has_row = numerics.contains(&format!("| `{op}` |"));
        assert!(has_row || op == "nms/geometry", "{op}: no row in docs/numerics.md");
    }
}

#[test]
fn no_room_is_a_junk_drawer() {
    for file in source_files() {
        let stem = file.file_stem().unwrap().to_str().unwrap();
        assert!(
            !["utils", "util", "helpers", "common", "misc", "manager"].contains(&stem),
            "{}: name it by what it does",
            relative(&file)
        );
    }
}

/// A module with children is a folder with its `mod.rs`, never a file beside that folder.
#[test]
fn a_module_is_a_file_or_a_folder() {
    let files = source_files();
    let twins: Vec<String> = files
        .iter()
        .filter(|file| file.with_extension("").is_dir())
        .map(|file| relative(file))
        .collect();
    assert!(twins.is_empty(), "files beside folders of their name: {twins:?}");
}

/// At load the driver is asked for the size of a kernel's first parameter: a
/// second one would not be noticed.
#[test]
fn every_kernel_takes_one_parameter_by_value() {
    let mut num_kernels = 0;
    for path in kernel_files() {
        let text = fs::read_to_string(&path).unwrap();
        let code: String = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default().trim_end_matches('\\'))
            .collect();
        for kernel in code.split("__global__").skip(1) {
            let (head, _) = kernel.split_once('{').unwrap();
            let (_, parameters) = head.rsplit_once('(').unwrap();
            let by_value = parameters.trim_start().strip_prefix("const __grid_constant__ ");
            let depths = parameters.chars().scan(0, |depth, c| {
                *depth += i32::from(c == '<') - i32::from(c == '>');
                Some((c, *depth))
            });
            let is_one = !depths.into_iter().any(|step| step == (',', 0));
            let name = relative(&path);
            assert!(by_value.is_some() && is_one, "{name}: a kernel takes ({parameters}");
            num_kernels += 1;
        }
    }
    assert!(num_kernels >= 19, "only {num_kernels} kernels found");
}

/// The sources of the kernels.
fn kernel_files() -> Vec<PathBuf> {
    let folders = FAMILIES.iter().chain(&["shared"]);
    let entries = folders.flat_map(|family| fs::read_dir(root().join("kernels").join(family)));
    entries.flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Where CPU and GPU are compared: operations, networks of them, whole frames.
const PARITY: [&str; 3] =
    ["crates/ops/tests/parity", "crates/infer/tests/parity", "tests/detectors"];

/// Operations that run on the kernels of another.
const ON_KERNELS_OF: [(&str, &str); 2] =
    [("dense/conv_transpose", "dense/conv"), ("dense/matmul", "dense/conv")];

/// An op that runs on CUDA has a kernel file of its path, and tests on both devices.
#[test]
fn every_op_on_cuda_has_its_kernel_and_its_parity_tests() {
    let sources = PARITY.map(|folder| rust_files(&root().join(folder))).concat();
    let tests: String = sources.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let examples = fs::read_to_string(root().join("crates/types/src/nms.rs")).unwrap();
    for (op, path) in operations() {
        if !["cuda.rs", "cuda/mod.rs", "kernels.rs"].iter().any(|file| path.join(file).is_file()) {
            continue;
        }
        let other = ON_KERNELS_OF.iter().find(|(name, _)| *name == op);
        let kernels = other.map_or(op.as_str(), |(_, kernels)| kernels);
        let is_there = |extension| root().join(format!("kernels/{kernels}.{extension}")).is_file();
        assert!(["cu", "cuh"].into_iter().any(is_there), "{op}: no kernels/{op}.cu");
        // Some are called through what contains them: a kind of suppression, a decoder.
        let name = op.split('/').next_back().unwrap_or_default();
        let suites = [op.replace('/', "_"), name.to_owned()];
        let is_suite = |suite| {
            PARITY.iter().any(|folder| root().join(folder).join(format!("{suite}.rs")).is_file())
        };
        // The suite of all kinds of suppression runs their examples.
        let is_example = examples.contains(&format!("(\"{}", op.replace('/', "_")));
        let is_tested = is_example
            || tests.contains(&op.replace('/', "::"))
            || suites.into_iter().any(is_suite);
        assert!(is_tested, "{op}: no test of parity names it");
    }
}

/// Every bound is of an op there is and is read by a test, by all of its names.
#[test]
fn every_bound_between_devices_is_tested() {
    let mut sources = PARITY.map(|folder| rust_files(&root().join(folder))).concat();
    sources.extend(rust_files(&root().join("tests/devices")));
    let others =
        ["tests/cli/aarch64.rs", "tests/common/agreement.rs", "crates/testing/src/compare.rs"];
    sources.extend(others.map(|path| root().join(path)));
    let text: String = sources.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    assert!(!bounds::ROWS.is_empty());
    for Row { op, part, number, .. } in bounds::ROWS.iter() {
        let is_known = *op == "network" || root().join("crates/ops/src").join(op).is_dir();
        assert!(is_known, "docs/numerics.md: {op} is no operation");
        for name in [op, part, number] {
            assert!(text.contains(&format!("\"{name}\"")), "no test reads {op}, {part}, {number}");
        }
    }
}

/// The features of the package are the rows of the table in `src/lib.rs`; CI checks each by itself.
#[test]
fn every_feature_is_documented_and_checked() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let (manifest, library, ci) = (read("Cargo.toml"), read("src/lib.rs"), read(".ci/run"));
    let section = manifest.split("[features]").nth(1).unwrap().split("\n[").next().unwrap();
    let keys = section.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = keys.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    let rows = library.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let mut documented: Vec<&str> = rows.filter_map(|row| Some(row.split_once('`')?.0)).collect();
    documented.push("default");
    documented.sort_unstable();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(documented, sorted, "Cargo.toml and src/lib.rs");
    let lists = ci.split("for features in ").skip(1);
    let lists = lists.flat_map(|rest| rest.split(';').next().unwrap().split_whitespace());
    let mut checked: Vec<&str> = lists.filter(|name| *name != "\"\"").collect();
    checked.sort_unstable();
    let is_elsewhere = |name: &str| name == "default" || name == "ros2";
    let alone: Vec<&str> = sorted.into_iter().filter(|name| !is_elsewhere(name)).collect();
    assert_eq!(checked, alone, ".ci/run");
}
