//! What every kernel of this build takes on sm_90a, against the budget in
//! `kernels/resources.txt`. `DET_POST_BLESS=1` writes the budget anew. What the program
//! embeds for each architecture, and in which image each kernel is.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "../../crates/testing/src/require.rs"]
mod require;

use std::collections::BTreeSet;
use std::path::Path;

use require::{Need, skip};

/// The images of the build script.
const IMAGES: [&str; 6] = ["frames", "camera", "lidar", "sparse", "surround", "dense"];

/// The folder of the images and what ptxas says of each; `None` in a build without kernels.
fn logs() -> Option<(&'static Path, [String; 6])> {
    let folder = Path::new(option_env!("DET_POST_KERNELS")?);
    let log = |image| std::fs::read_to_string(folder.join(image).with_extension("log")).unwrap();
    Some((folder, IMAGES.map(log)))
}

/// The bytes that an architecture may add to the program, and the PTX.
const MAX_ARCHITECTURE_BYTES: u64 = 1_700_000;

/// One line a kernel: name, registers, bytes of shared memory, bytes spilled; by name.
/// `log` is the output of `ptxas -v`.
fn resources(log: &str) -> String {
    let quoted = |line: &'_ str, at: usize| line.split('\'').nth(at).unwrap_or_default().to_owned();
    // The number before `unit`.
    let number = |line: &str, unit: &str| {
        let before = line.split(unit).next().filter(|before| before.len() < line.len())?;
        before.split_whitespace().next_back()?.parse::<u32>().ok()
    };
    let (mut lines, mut name, mut spilled) = (Vec::new(), None, 0);
    for line in log.lines() {
        if line.contains("Compiling entry function") {
            name = (quoted(line, 3) == "sm_90a").then(|| quoted(line, 1));
            spilled = 0;
        } else if line.contains("bytes spill stores") {
            for unit in [" bytes spill stores", " bytes spill loads"] {
                spilled += number(line, unit).unwrap_or(0);
            }
        } else if let Some(registers) = number(line, " registers")
            && let Some(name) = name.take()
        {
            let shared = number(line, " bytes smem").unwrap_or(0);
            lines.push(format!("{name} {registers} {shared} {spilled}\n"));
        }
    }
    lines.sort();
    lines.concat()
}

#[test]
fn kernels_keep_to_their_budget() {
    let Some((_, logs)) = logs() else {
        return skip(Need::Nvcc, "this build has no kernels");
    };
    let found = resources(&logs.concat());
    if found.is_empty() {
        return skip(Need::Nvcc, "this build has no kernels for sm_90a");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("resources.txt");
    if std::env::var("DET_POST_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(&path, &found).unwrap();
    }
    let budget = std::fs::read_to_string(&path).unwrap();
    let changed: Vec<String> = [(&budget, &found, '-'), (&found, &budget, '+')]
        .into_iter()
        .flat_map(|(a, b, sign)| {
            let missing = a.lines().filter(|line| !b.lines().any(|other| other == *line));
            missing.map(move |line| format!("{sign} {line}"))
        })
        .collect();
    assert!(
        changed.is_empty(),
        "name, registers, shared bytes, bytes spilled:\n{}\n\
         `DET_POST_BLESS=1 cargo test -p det_post_kernels --test resources` writes them to kernels/resources.txt",
        changed.join("\n")
    );
}

/// Seven architectures then leave 26 of the 40 MB of the program to the rest of it.
#[test]
fn kernels_are_compressed() {
    let Some((folder, logs)) = logs() else {
        return skip(Need::Nvcc, "this build has no kernels");
    };
    let log = logs.concat();
    let entries = log.lines().filter(|line| line.contains("Compiling entry function"));
    let mut architectures: Vec<&str> =
        entries.filter_map(|line| line.split("' for '").nth(1)).collect();
    architectures.sort_unstable();
    architectures.dedup();
    assert!(!architectures.is_empty());
    let num_bytes = |image| std::fs::metadata(folder.join(image).with_extension("fatbin"));
    let num_bytes: u64 = IMAGES.map(|image| num_bytes(image).unwrap().len()).iter().sum();
    let most = (architectures.len() as u64 + 1) * MAX_ARCHITECTURE_BYTES;
    assert!(num_bytes <= most, "{num_bytes} bytes, at most {most}: {architectures:?}");
}

/// What a channel uses is in the images of its sensors and in `frames`, so that it loads no
/// others.
#[test]
fn each_kernel_is_in_one_image() {
    let Some((folder, logs)) = logs() else {
        return skip(Need::Nvcc, "this build has no kernels");
    };
    let list = |image| std::fs::read_to_string(folder.join(image).with_extension("kernels"));
    let lists = IMAGES.map(|image| list(image).unwrap());
    for (kernel, image) in [
        ("gather_3d", "frames"),
        ("letterbox_packed3_f32", "camera"),
        ("nms_iou_bitmask", "camera"),
        ("voxelize_claim", "lidar"),
        ("nms_circle_bitmask", "lidar"),
        ("rulebook_place", "sparse"),
        ("resample_yuv_f16", "surround"),
        ("linear_16_f32", "surround"),
    ] {
        let has_kernel = |list: &String| list.lines().any(|name| name == kernel);
        let found: Vec<_> =
            IMAGES.iter().zip(&lists).filter(|(_, list)| has_kernel(list)).collect();
        assert!(matches!(found[..], [(name, _)] if *name == image), "{kernel}: {found:?}");
    }
    let mut kernels: Vec<&str> = lists.iter().flat_map(|list| list.lines()).collect();
    let num_kernels = kernels.len();
    kernels.sort_unstable();
    kernels.dedup();
    assert_eq!(kernels.len(), num_kernels, "a kernel is in two images");
    let entries = logs.iter().flat_map(|log| log.lines());
    let entries = entries.filter(|line| line.contains("Compiling entry function"));
    let compiled: BTreeSet<_> = entries.filter_map(|line| line.split('\'').nth(1)).collect();
    assert_eq!(kernels, Vec::from_iter(compiled));
}

#[test]
fn resources_are_read_from_the_output_of_ptxas() {
    let log = "\
ptxas info    : Compiling entry function 'unpack' for 'sm_80'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, 16 bytes smem
ptxas info    : Compiling entry function 'unpack' for 'sm_90a'
ptxas info    : Function properties for unpack
    8 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 256 bytes smem
ptxas info    : Compiling entry function 'clear' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
";
    assert_eq!(resources(log), "clear 8 0 0\nunpack 40 256 12\n");
}
