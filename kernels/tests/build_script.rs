//! What a build says without a compiler for the kernels, with one that fails, and
//! when Rust and CUDA differ about what they share.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped")]

#[path = "../../crates/testing/src/require.rs"]
mod require;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use require::{Need, skip};

/// The build script as a program in a folder.
fn compiled(folder: &Path) -> PathBuf {
    let program = folder.join("build_script");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", script, "-o"]).arg(&program);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs it as cargo would, with no variables but `variables`.
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
        skip(Need::Nvcc, format_args!("its absence is tested, and there is {nvcc}"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (output, out) = run(folder.path(), &[("PATH", "")]);
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
    let variables = [("DET_POST_NVCC", nvcc), ("DET_POST_CUDA_ARCHS", "90")];
    let (output, out) = run(folder.path(), &variables);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no such thing"));
    assert!(!out.contains("rustc-cfg=kernels"), "{out}");
}

#[test]
fn a_variable_that_is_wrong_fails_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let nvcc = folder.path().join("nvcc");
    std::fs::write(&nvcc, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&nvcc, std::fs::Permissions::from_mode(0o755)).unwrap();
    let nvcc = nvcc.to_str().unwrap();
    for (nvcc, architectures, part) in [
        (nvcc, "90a", "DET_POST_CUDA_ARCHS: found \"90a\", wanted numbers"),
        (nvcc, "80,9.0", "DET_POST_CUDA_ARCHS: found \"9.0\", wanted numbers"),
        ("/nowhere/nvcc", "90", "DET_POST_NVCC: found /nowhere/nvcc, which is not a file"),
    ] {
        let variables = [("DET_POST_NVCC", nvcc), ("DET_POST_CUDA_ARCHS", architectures)];
        let (output, out) = run(folder.path(), &variables);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(part), "{part}: {said}{out}");
        assert!(!out.contains("rustc-cfg=kernels"), "{out}");
    }
}

/// What nvcc is asked to make for a list of architectures, the same in each of its calls.
fn targets(architectures: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let nvcc = folder.path().join("nvcc");
    // It notes its arguments, and leaves an empty file of the name that follows -o.
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>'{}'\nwhile [ $# -gt 0 ]; do\n\
         if [ \"$1\" = -o ]; then : >\"$2\"; fi\nshift\ndone\n",
        folder.path().join("calls").display()
    );
    std::fs::write(&nvcc, script).unwrap();
    std::fs::set_permissions(&nvcc, std::fs::Permissions::from_mode(0o755)).unwrap();
    let nvcc = nvcc.to_str().unwrap();
    let variables = [("DET_POST_NVCC", nvcc), ("DET_POST_CUDA_ARCHS", architectures)];
    let (output, out) = run(folder.path(), &variables);
    assert!(output.status.success() && out.contains("rustc-cfg=kernels"), "{out}");
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
    let targets = |call: &str| {
        let words = call.split_whitespace().filter_map(|word| word.strip_prefix("-gencode="));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let calls: Vec<_> = calls.lines().map(targets).filter(|call| !call.is_empty()).collect();
    assert!(calls.len() == 6 && calls.iter().all(|call| *call == calls[0]), "{calls:?}");
    calls.into_iter().next().unwrap()
}

#[test]
fn a_generation_is_compiled_to_ptx_once() {
    for (architectures, expected) in [
        (
            "120 90,80;86,87,89,100",
            vec![
                "arch=compute_80,code=[sm_80,sm_86,sm_87,sm_89,compute_80]",
                "arch=compute_90a,code=sm_90a",
                "arch=compute_100,code=[sm_100,sm_120]",
            ],
        ),
        ("87", vec!["arch=compute_87,code=[sm_87,compute_87]"]),
        ("90", vec!["arch=compute_90a,code=sm_90a", "arch=compute_90,code=compute_90"]),
        (
            "90,120",
            vec![
                "arch=compute_90a,code=sm_90a",
                "arch=compute_90,code=compute_90",
                "arch=compute_120,code=[sm_120]",
            ],
        ),
    ] {
        assert_eq!(targets(architectures), expected, "{architectures}");
    }
}

/// Compiles a program that reads `kThreads` from the text of `cloud/unpack.cu`, by the
/// function of this crate.
fn compile_with_kernel_text(text: &str) -> (Output, PathBuf) {
    const MAIN: &str = r#"
        #[path = "SHARED"]
        mod shared;
        const TEXT: &str = include_str!("unpack.cu");
        const THREADS: u32 = shared::constant(TEXT, "kThreads = ");
        fn main() {
            println!("{THREADS}");
        }
    "#;
    let folder = tempfile::tempdir().unwrap().keep();
    std::fs::write(folder.join("unpack.cu"), text).unwrap();
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/src/shared.rs");
    std::fs::write(folder.join("main.rs"), MAIN.replace("SHARED", shared)).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder);
    (command.args(["--edition", "2024", "main.rs"]).output().unwrap(), folder)
}

fn unpack_text() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/cloud/unpack.cu")).unwrap()
}

/// A piece of the kernel's text, replaced by another.
fn planted(from: &str, to: &str) -> String {
    let text = unpack_text();
    assert!(text.contains(from), "{from} is not in unpack.cu");
    text.replace(from, to)
}

#[test]
fn rust_takes_a_constant_from_the_kernel() {
    let text = planted("constexpr uint32_t kThreads = 512;", "constexpr uint32_t kThreads = 96;");
    for (text, threads) in [(unpack_text(), "512\n"), (text, "96\n")] {
        let (output, folder) = compile_with_kernel_text(&text);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = Command::new(folder.join("main")).output().unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&printed), threads);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_constant_that_the_kernel_lacks_does_not_compile() {
    let threads = "constexpr uint32_t kThreads = 512;";
    let plants = [
        (planted(threads, "constexpr uint32_t kBlock = 512;"), "has no such definition"),
        (planted(threads, "constexpr uint32_t kThreads = 1u << 9;"), "is no decimal literal"),
        (planted(threads, &format!("{threads}\n{threads}")), "has two such definitions"),
    ];
    for (text, message) in plants {
        let (output, folder) = compile_with_kernel_text(&text);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(message), "{message}: {said}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// The sources of the kernels, in another folder.
fn copy_sources(to: &Path) {
    for family in ["arrays", "cloud", "decode", "dense", "image", "nms", "shared", "sparse", "view"]
    {
        std::fs::create_dir(to.join(family)).unwrap();
        for entry in Path::new(env!("CARGO_MANIFEST_DIR")).join(family).read_dir().unwrap() {
            let file = entry.unwrap().path();
            std::fs::copy(&file, to.join(family).join(file.file_name().unwrap())).unwrap();
        }
    }
}

/// Compiles a program that compares a struct with `Source` in a text of `cloud/unpack.cu`, by
/// the macro that a compiled build script makes of it.
fn compare_with_source(script: &Path, text: &str, rust: &str) -> Output {
    const MAIN: &str = r#"
        #![allow(dead_code)]
        #[path = "MIRROR"]
        mod mirror;
        use mirror::{Field, Kind, RustField, Struct};
        include!("structs.rs");
        trait Mirror {
            const KIND: Kind;
        }
        impl Mirror for u32 {
            const KIND: Kind = Kind::Number("uint32_t");
        }
        impl Mirror for f32 {
            const KIND: Kind = Kind::Number("float");
        }
        const fn rust_field<S, T: Mirror>(_: fn(&S) -> &T) -> RustField {
            RustField { kind: T::KIND, size: size_of::<T>(), alignment: align_of::<T>() }
        }
        #[repr(C)]
        struct PointSource { FIELDS }
        const _: () = struct_fields!("cloud/unpack.cu", "Source", PointSource).compare(
            size_of::<PointSource>(),
            align_of::<PointSource>(),
            "another size or alignment",
        );
        fn main() {}
    "#;
    let folder = tempfile::tempdir().unwrap();
    copy_sources(folder.path());
    std::fs::write(folder.path().join("cloud/unpack.cu"), text).unwrap();
    let mut command = Command::new(script);
    command.current_dir(folder.path()).env_clear().env("OUT_DIR", folder.path());
    assert!(command.output().unwrap().status.success());
    let mirror = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mirror.rs");
    let main = MAIN.replace("MIRROR", mirror).replace("FIELDS", rust);
    std::fs::write(folder.path().join("main.rs"), main).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--emit", "metadata", "main.rs"]).current_dir(folder.path());
    command.output().unwrap()
}

#[test]
fn a_struct_that_differs_from_its_mirror_does_not_compile() {
    let rust = "offset: u32, datatype: u32, scale: f32,";
    let cuda = "    uint32_t offset;\n    uint32_t datatype;\n    float scale;\n";
    let swapped = "    uint32_t datatype;\n    uint32_t offset;\n    float scale;\n";
    let with = |scale| planted("    float scale;\n", scale);
    let place = "Source::datatype differs from the Rust type in place or type";
    let cases = [
        (unpack_text(), rust, None),
        (planted(cuda, swapped), rust, Some(place)),
        (unpack_text(), "datatype: u32, offset: u32, scale: f32,", Some("Source::offset differs")),
        (with("    float factor;\n"), rust, Some("no field `factor`")),
        (with("    uint32_t scale;\n"), rust, Some("Source::scale differs")),
        (with("    float scale[1];\n"), rust, Some("Source::scale differs")),
        (with("    float scale, more;\n"), rust, Some("no field `more`")),
        (with(""), rust, Some("another size or alignment")),
        (
            planted("struct Source {", "struct alignas(16) Source {"),
            rust,
            Some("another size or alignment"),
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let script = compiled(folder.path());
    for (text, rust, message) in cases {
        let output = compare_with_source(&script, &text, rust);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), message.is_none(), "{message:?}: {said}");
        assert!(message.is_none_or(|message| said.contains(message)), "{message:?}: {said}");
    }
}
