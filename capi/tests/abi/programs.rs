//! The shared library, and programs that are compiled against it.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::{env, iter};

use tempfile::TempDir;

use super::header::Declarations;
use super::require::{Need, skip};
use super::{library, root};

/// How a program is compiled.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    C11,
    Cpp17,
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

/// The compiler; `None`, and the test is skipped, without one.
pub fn compiler(language: Language) -> Option<Command> {
    let (program, standard) = match language {
        Language::C11 => ("gcc", "-std=c11"),
        Language::Cpp17 => ("g++", "-std=c++17"),
    };
    if Command::new(program).arg("--version").output().is_err() {
        skip(Need::Compiler, format!("no {program}"));
        return None;
    }
    let mut command = Command::new(program);
    command.args([standard, "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]);
    command.arg("-I").arg(root().join("include")).current_dir(root());
    Some(command)
}

/// A compiled program.
pub struct Program {
    folder: TempDir,
}

impl Program {
    /// Compiles a source file of this package; `None`, and the test is skipped, without a
    /// compiler.
    pub fn compile(source: &str, language: Language, options: &[&str]) -> Option<Self> {
        let mut compiler = compiler(language)?;
        let folder = tempfile::tempdir().unwrap();
        let compiled = compiler
            .args(options)
            .arg(source)
            .arg("-o")
            .arg(folder.path().join("program"))
            .arg("-L")
            .arg(library())
            .args(["-ldet_post_c", "-Wl,-rpath"])
            .arg(library())
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{source}:\n{}", text(&compiled));
        Some(Self { folder })
    }

    /// Runs it in the root of the package and returns what it printed.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> String {
        // Cargo's own list begins with the folder to which `cargo build` copies, maybe an earlier one.
        let others = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let libraries = iter::once(library()).chain(env::split_paths(&others));
        let run = Command::new(self.folder.path().join("program"))
            .args(arguments)
            .current_dir(root())
            .env("LD_LIBRARY_PATH", env::join_paths(libraries).unwrap())
            .env_remove("ORT_DYLIB_PATH")
            .env("ASAN_OPTIONS", "abort_on_error=0:detect_leaks=1")
            .env("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
            // Synchronization within the library is not seen.
            .env("TSAN_OPTIONS", "halt_on_error=1:ignore_noninstrumented_modules=1")
            .output()
            .unwrap();
        assert!(run.status.success(), "{:?}:\n{}", run.status, text(&run));
        String::from_utf8(run.stdout).unwrap()
    }
}

#[test]
fn the_header_compiles_as_c_and_as_cpp() {
    for (language, suffix) in [(Language::C11, "c"), (Language::Cpp17, "cpp")] {
        let Some(mut compiler) = compiler(language) else { return };
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("header").with_extension(suffix);
        let code =
            "#include <det_post.h>\nint main(void) { return det_post_abi_version() == 0; }\n";
        std::fs::write(&source, code).unwrap();
        let compiled = compiler.arg("-c").arg(source).arg("-o").arg(folder.path().join("o"));
        let compiled = compiled.output().unwrap();
        assert!(compiled.status.success(), "{language:?}:\n{}", text(&compiled));
    }
}

#[test]
fn the_library_exports_the_functions_of_the_header_and_no_others() {
    let listed = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(library().join("libdet_post_c.so"))
        .output();
    let Ok(listed) = listed else {
        skip(Need::Compiler, "no nm");
        return;
    };
    let listed = text(&listed);
    let exported: BTreeSet<String> =
        listed.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect();
    assert_eq!(exported, Declarations::read().function_names);
}

const AS_IT_IS: &[&str] = &[];
const OF_MEMORY: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover"];
const OF_THREADS: &[&str] = &["-fsanitize=thread"];

/// Runs a program that prints `no failures` as it is and under the sanitizers of gcc; the
/// library itself, which is Rust, is not instrumented.
#[track_caller]
fn has_no_failures(source: &str, arguments: &[&str]) {
    for options in [AS_IT_IS, OF_MEMORY, OF_THREADS] {
        let Some(program) = Program::compile(source, Language::Cpp17, options) else { return };
        assert_eq!(program.run(arguments), "no failures\n", "{source} {options:?}");
    }
}

/// Null, wrong sizes, closed objects, two threads, several detectors: statuses and messages.
#[test]
fn misuse_is_refused() {
    has_no_failures("capi/tests/abi/misuse.cpp", &["config/demo.param.yaml"]);
}

/// Frames and arrays in the memory of a GPU, written by streams that are busy.
#[test]
fn device_pointers_wait_for_their_streams() {
    let source = "capi/tests/abi/gpu.cpp";
    let Some(program) = Program::compile(source, Language::Cpp17, &["-ldl"]) else { return };
    let engines = ["camera.engine.kind:=rten", "lidar.engine.kind:=rten"];
    match program.run(&[&["config/demo.param.yaml"][..], &engines].concat()).as_str() {
        "no GPU\n" => skip(Need::Cuda, "no GPU"),
        printed => assert_eq!(printed, "no failures\n"),
    }
}

/// A node in a graph of the program detects what a detector detects, and refuses what
/// `det_post run` refuses; its log, its services, its life cycle.
#[test]
fn a_node_runs_in_a_graph_of_the_caller() {
    has_no_failures("capi/tests/abi/node.cpp", &["config/demo.param.yaml"]);
}

/// Callbacks of the component, while its node is destroyed.
#[test]
fn callbacks_end_before_their_node() {
    has_no_failures("capi/tests/abi/callbacks.cpp", &[]);
}

/// Results that were worked out by hand; null, wrong sizes, unknown numbers, two threads.
#[test]
fn operations_are_right_and_their_misuse_is_refused() {
    has_no_failures("capi/tests/abi/operations.cpp", &[]);
}
