//! Compiles `kernels/*.cu` into the fatbins that the program embeds, and asks which
//! services the sourced ROS 2 has types of.
//!
//! Sets `DET_POST_KERNELS` (their folder) and the cfg `kernels` when it
//! could; without nvcc it warns and the build goes on, and CUDA is reported as
//! built without kernels. A variable that is set and wrong fails the build. Beside each
//! fatbin are the names of its kernels and a log of ptxas, which has what they take.
//! Environment: `DET_POST_NVCC` names the compiler, `DET_POST_CUDA_ARCHS` the
//! architectures (`87` or `80,90`);
//! `DET_POST_CUDA_LINE_INFO=1` adds line tables for profilers and compute-sanitizer,
//! which nearly triple the size of the kernels.
//!
//! Sets the cfg `iron_services` where r2r generates the types of the services that
//! nodes have from ROS 2 Iron on, and `std_srvs` where it generates those of that package.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Machine code is made for these, as far as the toolkit knows them, and PTX
/// for the lowest.
const ARCHITECTURES: [u32; 7] = [80, 86, 87, 89, 90, 100, 120];

/// The fatbins of which a program loads what its channels use, and their files; the longest to
/// compile first. All other files are in `frames`.
const IMAGES: [(&str, &[&str]); 4] = [
    (
        "surround",
        &[
            "attention",
            "channels_last",
            "decode_query",
            "decode_streampetr",
            "detr3d_block",
            "layer_stack",
            "linear",
            "resample",
            "top_rows",
            "view_sample",
        ],
    ),
    ("sparse", &["rulebook", "sparse_arrays", "sparse_conv", "sparse_max_pool", "to_map"]),
    ("camera", &["decode_yolo", "letterbox", "nms_fast", "nms_iou", "nms_rotated", "nms_soft"]),
    (
        "lidar",
        &[
            "decode_anchor",
            "decode_center",
            "densify",
            "nms_bev",
            "nms_bev_fast",
            "nms_circle",
            "nms_iou_3d",
            "pillar_features",
            "scatter",
            "survivors",
            "unpack",
            "voxel_arrays",
            "voxel_mean",
            "voxelize",
        ],
    ),
];

/// The switches of every kernel. Contraction is off so that a kernel computes
/// what its CPU twin computes; a fused multiply-add is written where wanted.
const SWITCHES: [&str; 3] = ["-O3", "-std=c++17", "--fmad=false"];

fn main() {
    println!("cargo:rustc-check-cfg=cfg(iron_services, kernels, std_srvs)");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=kernels");
    for name in [
        "DET_POST_NVCC",
        "DET_POST_CUDA_ARCHS",
        "DET_POST_CUDA_LINE_INFO",
        "CUDACXX",
        "CUDA_HOME",
        "CUDA_PATH",
    ] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if env::var_os("CARGO_FEATURE_ROS2").is_some() {
        ask_ros();
    }
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    if let Err(reason) = compile() {
        println!("cargo:warning=built without CUDA kernels: {reason}");
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

fn compile() -> Result<(), String> {
    let nvcc = find_nvcc().ok_or(
        "no nvcc in DET_POST_NVCC, CUDACXX, CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda, /opt/cuda",
    )?;
    let targets = targets(&architectures(&nvcc)?);
    let mut switches = SWITCHES.to_vec();
    switches.extend(["-fatbin", "-Xptxas", "-v", "-I", "kernels", "--threads", "0"]);
    switches.push(compression(&nvcc));
    if env::var("DET_POST_CUDA_LINE_INFO").is_ok_and(|value| value == "1") {
        switches.push("-lineinfo");
    }
    switches.extend(targets.iter().map(String::as_str));
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    // One image a core, the longest first: none is left to a core alone at the end.
    let num_cores = std::thread::available_parallelism().map_or(1, usize::from);
    let images = Mutex::new(images()?.into_iter());
    let next = || images.lock().ok()?.next();
    let compile_images = || {
        while let Some((name, files)) = next() {
            compile_image(&nvcc, &switches, &out.join(name), &files)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..num_cores).map(|_| scope.spawn(compile_images)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err("a thread of the build ended early".to_owned()))
        })
    })?;
    println!("cargo:rustc-env=DET_POST_KERNELS={}", out.display());
    println!("cargo:rustc-cfg=kernels");
    Ok(())
}

/// Compiles files as one unit into `image` with the extension `fatbin`; with `log`, what ptxas
/// says, and with `kernels`, the names of its kernels, one a line.
fn compile_image(
    nvcc: &Path,
    switches: &[&str],
    image: &Path,
    files: &[String],
) -> Result<(), String> {
    let unit = image.with_extension("cu");
    let text: String = files.iter().map(|name| format!("#include \"{name}.cu\"\n")).collect();
    std::fs::write(&unit, text).map_err(|e| format!("{}: {e}", unit.display()))?;
    let mut command = Command::new(nvcc);
    command.args(switches).arg("-o").arg(image.with_extension("fatbin")).arg(&unit);
    let output = command.output().map_err(|e| format!("{}: {e}", nvcc.display()))?;
    if !output.status.success() {
        // A kernel that does not compile fails the build, a missing nvcc does not.
        eprintln!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
        std::process::exit(1);
    }
    let log = String::from_utf8_lossy(&output.stderr);
    let entries = log.lines().filter_map(|line| line.split_once("Compiling entry function '"));
    let mut kernels: Vec<&str> =
        entries.filter_map(|(_, name)| Some(name.split_once('\'')?.0)).collect();
    kernels.sort_unstable();
    kernels.dedup();
    for (extension, text) in [("log", &*log), ("kernels", &kernels.join("\n"))] {
        let path = image.with_extension(extension);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// The switches for architectures in ascending order. Those of a generation share one run of the front end,
/// which takes two thirds of the time of an architecture: kernels distinguish generations alone.
fn targets(architectures: &[u32]) -> Vec<String> {
    let generation = |architecture: &u32| (architecture / 10).min(10);
    let mut targets = Vec::new();
    for group in architectures.chunk_by(|a, b| generation(a) == generation(b)) {
        let ptx = format!("compute_{}", group[0]);
        let is_lowest = targets.is_empty();
        if group[0] == 90 {
            // Every GPU of 9.0 is a 9.0a: it has matrix instructions of warpgroups. PTX of
            // 9.0a would run on no other.
            targets.push("-gencode=arch=compute_90a,code=sm_90a".to_owned());
            if is_lowest {
                targets.push(format!("-gencode=arch={ptx},code={ptx}"));
            }
            continue;
        }
        let mut codes: Vec<String> = group.iter().map(|code| format!("sm_{code}")).collect();
        if is_lowest {
            codes.push(ptx.clone());
        }
        targets.push(format!("-gencode=arch={ptx},code=[{}]", codes.join(",")));
    }
    targets
}

/// The fatbins and their files, the longest to compile first.
fn images() -> Result<Vec<(&'static str, Vec<String>)>, String> {
    let folder = Path::new("kernels");
    let entries = folder.read_dir().map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".cu")?.to_owned()))
        .collect();
    names.sort();
    let mut images = Vec::new();
    for (image, files) in IMAGES {
        let is_of_image = |name: &mut String| files.contains(&name.as_str());
        images.push((image, names.extract_if(.., is_of_image).collect()));
    }
    images.push(("frames", names));
    Ok(images)
}

/// Fails the build for a variable that is set and wrong, which no program without kernels
/// makes good.
fn refuse(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(1)
}

fn find_nvcc() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(named) = set("DET_POST_NVCC").map(PathBuf::from).filter(|nvcc| !nvcc.is_file()) {
        refuse(&format!("DET_POST_NVCC: found {}, which is not a file", named.display()));
    }
    let named = ["DET_POST_NVCC", "CUDACXX"].into_iter().filter_map(set).map(PathBuf::from);
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(set);
    let homes = homes.map(|home| PathBuf::from(home).join("bin"));
    let path: OsString = env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = env::split_paths(&path).collect();
    let usual = ["/usr/local/cuda/bin", "/opt/cuda/bin"].map(PathBuf::from);
    let folders = homes.chain(path).chain(usual);
    named.chain(folders.map(|folder| folder.join("nvcc"))).find(|nvcc| nvcc.is_file())
}

/// The switch for the smallest kernels: zstd from CUDA 12.8 on, LZ4 before.
fn compression(nvcc: &Path) -> &'static str {
    let help = Command::new(nvcc).arg("--help").output();
    let help = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    match help {
        Ok(text) if text.contains("--compress-mode") => "--compress-mode=size",
        _ => "-Xfatbin=-compress-all",
    }
}

fn architectures(nvcc: &Path) -> Result<Vec<u32>, String> {
    let mut wanted: Vec<u32> = match env::var("DET_POST_CUDA_ARCHS") {
        Ok(list) if !list.trim().is_empty() => list
            .split([',', ' ', ';'])
            .filter(|word| !word.is_empty())
            .map(|word| {
                let wanted = "wanted numbers, such as 87 or 80,90";
                let refuse = || refuse(&format!("DET_POST_CUDA_ARCHS: found {word:?}, {wanted}"));
                word.parse().unwrap_or_else(|_| refuse())
            })
            .collect(),
        _ => {
            let output = Command::new(nvcc)
                .arg("--list-gpu-code")
                .output()
                .map_err(|e| format!("{}: {e}", nvcc.display()))?;
            let listed = String::from_utf8_lossy(&output.stdout);
            let listed: Vec<u32> = listed
                .lines()
                .filter_map(|line| line.trim().strip_prefix("sm_")?.parse().ok())
                .collect();
            ARCHITECTURES.into_iter().filter(|a| listed.contains(a)).collect()
        }
    };
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Err(format!("{} knows none of {ARCHITECTURES:?}", nvcc.display()));
    }
    Ok(wanted)
}
