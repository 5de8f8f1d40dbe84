//! Compiles the kernels into the fatbins that programs embed, lists their sources and the
//! structs in them.
//!
//! Sets `DET_POST_KERNELS` (the folder of the fatbins) and the cfg `kernels` when it
//! could; without nvcc it warns and the build goes on, and CUDA is reported as
//! built without kernels. A variable that is set and wrong fails the build. Beside each
//! fatbin are the names of its kernels and a log of ptxas, which has what they take.
//! Environment: `DET_POST_NVCC` names the compiler, `DET_POST_CUDA_ARCHS` the
//! architectures (`87` or `80,90`);
//! `DET_POST_CUDA_LINE_INFO=1` adds line tables for profilers and compute-sanitizer,
//! which nearly triple the size of the kernels.
//!
//! An image is compiled once for all profiles: the folder `det_post_kernels` of the target
//! folder keeps it under everything that it depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Machine code is made for these, as far as the toolkit knows them, and PTX
/// for the lowest.
const ARCHITECTURES: [u32; 7] = [80, 86, 87, 89, 90, 100, 120];

/// The switches of every kernel. Contraction is off so that a kernel computes
/// what its CPU twin computes; a fused multiply-add is written where wanted.
const SWITCHES: [&str; 3] = ["-O3", "-std=c++17", "--fmad=false"];

/// How many compiled images the cache keeps.
const MAX_CACHED: usize = 40;

#[path = "build/images.rs"]
mod images;
#[path = "build/structs.rs"]
mod structs;

use images::{FAMILIES, IMAGES};

type Sources = BTreeMap<String, String>;

fn main() {
    println!("cargo:rustc-check-cfg=cfg(kernels)");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    for family in FAMILIES {
        println!("cargo:rerun-if-changed={family}");
    }
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
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        refuse("OUT_DIR is not set");
    };
    let sources = read_sources().unwrap_or_else(|e| refuse(&e));
    list_sources(&sources, &out).unwrap_or_else(|e| refuse(&e));
    if let Err(reason) = compile(&sources, &out) {
        println!("cargo:warning=built without CUDA kernels: {reason}");
    }
}

/// Every source by its path below this folder, such as `nms/args.cuh`.
fn read_sources() -> Result<Sources, String> {
    let mut sources = Sources::new();
    for family in FAMILIES {
        let entries = Path::new(family).read_dir().map_err(|e| format!("{family}: {e}"))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.extension().is_some_and(|e| e == "cu" || e == "cuh") {
                let text = fs::read_to_string(&path);
                let text = text.map_err(|e| format!("{}: {e}", path.display()))?;
                sources.insert(path.to_string_lossy().replace('\\', "/"), text);
            }
        }
    }
    Ok(sources)
}

/// Writes the table of the sources' texts and the macro `struct_fields` to the build's output.
fn list_sources(sources: &Sources, out: &Path) -> Result<(), String> {
    let here = env::current_dir().map_err(|e| e.to_string())?;
    let mut table = "&[\n".to_owned();
    for name in sources.keys() {
        let _ = writeln!(table, "    ({name:?}, include_str!({:?})),", here.join(name));
    }
    table.push_str("]\n");
    write(&out.join("sources.rs"), &table)?;
    write(&out.join("structs.rs"), &structs::macro_of(sources))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn compile(sources: &Sources, out: &Path) -> Result<(), String> {
    let nvcc = find_nvcc().ok_or(
        "no nvcc in DET_POST_NVCC, CUDACXX, CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda, /opt/cuda",
    )?;
    let targets = targets(&architectures(&nvcc)?);
    let mut switches = SWITCHES.to_vec();
    switches.extend(["-fatbin", "-Xptxas", "-v", "--threads", "0"]);
    switches.push(compression(&nvcc));
    if env::var("DET_POST_CUDA_LINE_INFO").is_ok_and(|value| value == "1") {
        switches.push("-lineinfo");
    }
    switches.extend(targets.iter().map(String::as_str));
    let compiler = Compiler { version: version(&nvcc), nvcc, switches, cache: cache(out) };
    // One image a core, the longest first: none is left to one core at the end.
    let num_cores = std::thread::available_parallelism().map_or(1, usize::from);
    let images = Mutex::new(IMAGES.into_iter());
    let next = || images.lock().ok()?.next();
    let compile_images = || {
        while let Some((name, files)) = next() {
            compiler.provide(name, files, sources, out)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..num_cores).map(|_| scope.spawn(compile_images)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err("a thread of the build ended early".to_owned()))
        })
    })?;
    remove_old(&compiler.cache);
    println!("cargo:rustc-env=DET_POST_KERNELS={}", out.display());
    println!("cargo:rustc-cfg=kernels");
    Ok(())
}

struct Compiler<'a> {
    nvcc: PathBuf,
    /// What it says of itself.
    version: String,
    switches: Vec<&'a str>,
    cache: PathBuf,
}

/// What stands beside each other under an image's name.
const EXTENSIONS: [&str; 3] = ["fatbin", "kernels", "log"];

impl Compiler<'_> {
    /// Writes image `name` of `files` to `out`: from the cache, or compiled.
    fn provide(
        &self,
        name: &str,
        files: &[&str],
        sources: &Sources,
        out: &Path,
    ) -> Result<(), String> {
        let key = self.key(files, sources);
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let cached = self.cache.join(format!("{name}-{:016x}", hasher.finish()));
        if fs::read_to_string(cached.join("key")).ok().as_ref() != Some(&key) {
            self.compile(name, files, &key, &cached)?;
        }
        for extension in EXTENSIONS {
            let from = cached.join(name).with_extension(extension);
            let to = out.join(name).with_extension(extension);
            fs::copy(&from, to).map_err(|e| format!("{}: {e}", from.display()))?;
        }
        Ok(())
    }

    /// Everything that the image depends on: compiler, switches, files and what they include.
    fn key(&self, files: &[&str], sources: &Sources) -> String {
        let mut open: Vec<String> = files.iter().map(|name| format!("{name}.cu")).collect();
        let mut needed = BTreeSet::new();
        while let Some(name) = open.pop() {
            let includes = sources.get(&name).into_iter().flat_map(|text| text.lines());
            let includes = includes.filter_map(|line| line.strip_prefix("#include \""));
            open.extend(includes.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            if !needed.insert(name) {
                continue;
            }
            open.retain(|name| !needed.contains(name));
        }
        let mut key =
            format!("{}\n{}\n{}\n", self.version, self.switches.join(" "), files.join(" "));
        for name in needed {
            let text = sources.get(&name).map_or("", String::as_str);
            let _ = writeln!(key, "// {name}\n{text}");
        }
        key
    }

    /// Compiles files as one unit into `name.fatbin` in a folder of the cache; with `log`, what
    /// ptxas says, and with `kernels`, the names of its kernels, one a line.
    fn compile(&self, name: &str, files: &[&str], key: &str, cached: &Path) -> Result<(), String> {
        // Another build may write the same image: only whole folders get its name.
        let folder = cached.with_extension(std::process::id().to_string());
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let image = folder.join(name);
        let unit = image.with_extension("cu");
        let text: String = files.iter().map(|name| format!("#include \"{name}.cu\"\n")).collect();
        write(&unit, &text)?;
        let mut command = Command::new(&self.nvcc);
        command.args(&self.switches).args(["-I", "."]);
        command.arg("-o").arg(image.with_extension("fatbin")).arg(&unit);
        let output = command.output().map_err(|e| format!("{}: {e}", self.nvcc.display()))?;
        if !output.status.success() {
            // A kernel that does not compile fails the build, a missing nvcc does not.
            refuse(&format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        let log = String::from_utf8_lossy(&output.stderr);
        let entries = log.lines().filter_map(|line| line.split_once("Compiling entry function '"));
        let mut kernels: Vec<&str> =
            entries.filter_map(|(_, name)| Some(name.split_once('\'')?.0)).collect();
        kernels.sort_unstable();
        kernels.dedup();
        write(&image.with_extension("log"), &log)?;
        write(&image.with_extension("kernels"), &kernels.join("\n"))?;
        write(&folder.join("key"), key)?;
        let _ = fs::remove_dir_all(cached);
        fs::rename(&folder, cached).map_err(|e| format!("{}: {e}", cached.display()))
    }
}

/// The folder of the target folder that keeps images, else one of this build.
fn cache(out: &Path) -> PathBuf {
    let target = out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.unwrap_or(out).join("det_post_kernels")
}

/// Removes the oldest images.
fn remove_old(cache: &Path) {
    let entries = cache.read_dir().into_iter().flatten().flatten();
    let time = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let mut images: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    images.sort_by_key(time);
    for old in images.iter().rev().skip(MAX_CACHED) {
        let _ = fs::remove_dir_all(old);
    }
}

fn version(nvcc: &Path) -> String {
    let output = Command::new(nvcc).arg("--version").output();
    output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned())
}

/// The switches for architectures in ascending order. Those of a generation share one run of the front end,
/// which takes two thirds of the time of an architecture: kernels distinguish only generations.
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
