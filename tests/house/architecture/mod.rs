//! The house rules that a compiler does not check: who may name whom, where
//! `unsafe` may stand, how long a file may be, and that every op has its
//! contract and its row in docs/numerics.md.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common::bounds::{self, Row};
use crate::common::require;
use std::fs;
use std::path::{Path, PathBuf};

mod adding_lists;
mod frame_path;
mod imports;
mod skips;
mod troubleshooting;

/// Which rooms a room may name. Lower rooms never name higher ones.
const LAYERS: [(&str, &[&str]); 19] = [
    ("types", &[]),
    ("ros", &[]),
    ("input_file", &[]),
    ("yaml", &["input_file"]),
    ("config", &["types", "ros", "input_file", "yaml"]),
    ("device", &["types"]),
    ("ops", &["types", "device"]),
    ("infer", &["types", "input_file", "device", "ops"]),
    ("transport", &["types", "ros", "input_file", "yaml"]),
    ("eval", &["types", "input_file", "transport", "draw", "output_folder"]),
    ("sim", &["types", "transport", "output_folder"]),
    ("detectors", &["types", "device", "ops", "infer", "config"]),
    ("draw", &["types", "ops", "config", "detectors", "transport"]),
    ("runtime", &["types", "device", "config", "detectors", "transport"]),
    ("output_folder", &["transport"]),
    (
        "replay",
        &[
            "types",
            "device",
            "config",
            "detectors",
            "draw",
            "runtime",
            "transport",
            "output_folder",
        ],
    ),
    (
        "node",
        &["types", "ros", "device", "ops", "config", "detectors", "draw", "runtime", "transport"],
    ),
    ("bench", &["types", "device", "ops", "infer", "config", "detectors", "transport", "replay"]),
    (
        "cli",
        &[
            "bench",
            "node",
            "types",
            "ros",
            "input_file",
            "device",
            "infer",
            "config",
            "detectors",
            "draw",
            "runtime",
            "transport",
            "output_folder",
            "replay",
            "eval",
            "sim",
        ],
    ),
];

/// Files that may hold `unsafe`, each block with its argument.
const UNSAFE_FILES: [&str; 61] = [
    "python/src/array/memory.rs",
    "capi/src/call.rs",
    "capi/src/gpu.rs",
    "src/cli/heap.rs",
    "src/device/copy.rs",
    "src/device/cuda/diagnostic.rs",
    "src/device/cuda/event.rs",
    "src/device/cuda/graph.rs",
    "src/device/cuda/kernel.rs",
    "src/device/cuda/memory/borrowed.rs",
    "src/device/cuda/memory/host.rs",
    "src/device/cuda/memory/mod.rs",
    "src/device/cuda/memory/page_locked.rs",
    "src/device/cuda/memory/pointer.rs",
    "src/device/cuda/nvjpeg/library.rs",
    "src/device/cuda/nvjpeg/mod.rs",
    "src/device/cuda/open.rs",
    "src/device/cuda/registered/table.rs",
    "src/device/cuda/stream.rs",
    "src/infer/device/binding.rs",
    "src/ops/attention/kernels.rs",
    "src/ops/candidate_arrays/kernels.rs",
    "src/ops/channels_last/kernels.rs",
    "src/ops/decode_anchor/kernels.rs",
    "src/ops/decode_center/kernels.rs",
    "src/ops/decode_query/kernels.rs",
    "src/ops/decode_streampetr/kernels.rs",
    "src/ops/decode_yolo/kernels.rs",
    "src/ops/decompress/kernels.rs",
    "src/ops/densify/kernels.rs",
    "src/ops/detr3d_block/kernels.rs",
    "src/ops/gather/kernels.rs",
    "src/ops/layer_stack/folded/kernels.rs",
    "src/ops/layer_stack/kernels.rs",
    "src/ops/letterbox/kernels.rs",
    "src/ops/linear/kernels.rs",
    "src/ops/linear/warpgroup/kernels.rs",
    "src/ops/nms/cuda/kernels.rs",
    "src/ops/nms_bev_fast/kernels.rs",
    "src/ops/pillar_features/kernels.rs",
    "src/ops/resample/kernels.rs",
    "src/ops/rulebook/kernels.rs",
    "src/ops/scatter/kernels.rs",
    "src/ops/select/kernels.rs",
    "src/ops/sparse_arrays/kernels.rs",
    "src/ops/sparse_conv/kernels.rs",
    "src/ops/sparse_max_pool/kernels.rs",
    "src/ops/survivors/kernels.rs",
    "src/ops/to_map/kernels.rs",
    "src/ops/top_rows/kernels.rs",
    "src/ops/unpack/kernels.rs",
    "src/ops/view_sample/kernels.rs",
    "src/ops/view_sample/points.rs",
    "src/ops/voxel_arrays/kernels.rs",
    "src/ops/voxel_mean/kernels.rs",
    "src/ops/voxelize/kernels.rs",
    "src/runtime/isolated/memory.rs",
    "src/transport/bag/mapped.rs",
    "src/transport/bag/truncation.rs",
    "src/transport/ros2/rosout.rs",
    "src/types/device_bytes.rs",
];

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

/// The sources of the library, of the C library and of the Python package's extension module.
fn source_files() -> Vec<PathBuf> {
    ["src", "capi/src", "python/src"]
        .iter()
        .flat_map(|folder| rust_files(&root().join(folder)))
        .collect()
}

/// The lines before the test module, without comments.
fn code_of(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(str::to_owned)
        .collect()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

#[test]
fn rooms_name_only_lower_rooms() {
    let all: Vec<&str> = LAYERS.iter().map(|(room, _)| *room).collect();
    let mut wrong = Vec::new();
    for (room, allowed) in LAYERS {
        let path = root().join("src").join(room);
        let files = if path.is_dir() { rust_files(&path) } else { vec![path.with_extension("rs")] };
        assert!(!files.is_empty(), "{room} is empty");
        for file in files {
            for line in code_of(&file) {
                for other in &all {
                    let named = line.contains(&format!("crate::{other}::"))
                        || line.contains(&format!("crate::{other};"))
                        || line.contains(&format!("crate::{{{other}"));
                    if named && *other != room && !allowed.contains(other) {
                        wrong.push(format!("{}: {}", relative(&file), line.trim()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "higher rooms named from lower ones:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_stands_only_where_it_is_argued() {
    let mut wrong = Vec::new();
    for file in source_files() {
        let name = relative(&file);
        let text = fs::read_to_string(&file).unwrap();
        let uses = text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains("unsafe ") && !code.contains("unsafe_code")
        });
        if uses && !UNSAFE_FILES.contains(&name.as_str()) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "unsafe outside its files: {wrong:?}");
    for file in UNSAFE_FILES {
        let text = fs::read_to_string(root().join(file)).unwrap();
        // An unsafe function that does nothing unsafe itself has a contract alone.
        let is_argued = text.contains("// SAFETY:") || text.contains("/// # Safety");
        assert!(is_argued, "{file} has no SAFETY argument");
    }
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

#[test]
fn every_op_has_its_contract_and_numerics_row() {
    let numerics = fs::read_to_string(root().join("docs/numerics.md")).unwrap();
    let mut num_ops = 0;
    for entry in fs::read_dir(root().join("src/ops")).unwrap() {
        let path = entry.unwrap().path();
        let op = path.file_name().unwrap().to_str().unwrap().to_owned();
        // The common part of the suppressions, and the measures of overlap.
        if !path.join("mod.rs").is_file() || ["nms", "overlap"].contains(&op.as_str()) {
            continue;
        }
        num_ops += 1;
        let contract = fs::read_to_string(path.join("mod.rs")).unwrap();
        assert!(contract.starts_with("//! "), "{op}: mod.rs does not open with its contract");
        assert!(numerics.contains(&format!("| `{op}` |")), "{op}: no row in docs/numerics.md");
    }
    assert!(num_ops >= 19, "only {num_ops} ops found");
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

/// A module with children is `x/mod.rs`, never `x.rs` beside `x/`.
#[test]
fn a_module_is_a_file_or_a_folder() {
    let files = rust_files(&root().join("src"));
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
    for entry in fs::read_dir(root().join("kernels")).unwrap() {
        let path = entry.unwrap().path();
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

/// An op that runs on CUDA has a kernel file and a file of parity tests, both with
/// the name of its folder.
#[test]
fn every_op_on_cuda_has_its_kernel_and_its_parity_tests() {
    let parity = fs::read_to_string(root().join("tests/parity/main.rs")).unwrap();
    let mut num_ops = 0;
    for entry in fs::read_dir(root().join("src/ops")).unwrap() {
        let path = entry.unwrap().path();
        if !path.join("cuda.rs").is_file() && !path.join("cuda/mod.rs").is_file() {
            continue;
        }
        num_ops += 1;
        let op = path.file_name().unwrap().to_str().unwrap();
        let is_there = |file: String| root().join(file).is_file();
        let has_kernel = ["cu", "cuh"].iter().any(|e| is_there(format!("kernels/{op}.{e}")));
        assert!(has_kernel, "{op}: no kernels/{op}.cu");
        assert!(is_there(format!("tests/parity/{op}.rs")), "{op}: no tests/parity/{op}.rs");
        assert!(parity.contains(&format!("mod {op};")), "{op}: tests/parity/main.rs leaves it out");
    }
    assert!(num_ops >= 19, "only {num_ops} ops on CUDA found");
}

/// Every bound is of an op there is and is read by a test, by all of its names.
#[test]
fn every_bound_between_devices_is_tested() {
    let mut sources = rust_files(&root().join("tests/parity"));
    sources.extend(rust_files(&root().join("tests/devices")));
    sources.extend([root().join("tests/cli/aarch64.rs"), root().join("tests/common/agreement.rs")]);
    let text: String = sources.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    assert!(!bounds::ROWS.is_empty());
    for Row { op, part, number, .. } in bounds::ROWS.iter() {
        let is_known = *op == "network" || root().join("src/ops").join(op).is_dir();
        assert!(is_known, "docs/numerics.md: {op} is no op");
        for name in [op, part, number] {
            assert!(text.contains(&format!("\"{name}\"")), "no test reads {op}, {part}, {number}");
        }
    }
}

/// Each program links the whole package: a new suite is a module of one of them.
#[test]
fn there_are_at_most_ten_test_programs() {
    let tests = root().join("tests");
    let is_program = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "rs")
            || path.join("main.rs").is_file()
    };
    let entries = fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path());
    let programs: Vec<_> = entries.filter(is_program).collect();
    assert!((1..=10).contains(&programs.len()), "{programs:?}");
}

/// The features of the package are those of the table in `lib.rs`, and CI checks each alone.
#[test]
fn every_feature_is_documented_and_checked_alone() {
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
    let checked = ci.split("for features in \"\" ").nth(1).unwrap().split(';').next().unwrap();
    let checked: Vec<&str> = checked.split_whitespace().collect();
    let is_elsewhere = |name: &str| name == "default" || name == "ros2";
    let alone: Vec<&str> = sorted.into_iter().filter(|name| !is_elsewhere(name)).collect();
    assert_eq!(checked, alone, ".ci/run");
}
