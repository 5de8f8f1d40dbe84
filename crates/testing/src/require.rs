//! What a test needs beyond this package, and how a test is skipped without it.
//!
//! A skipped test prints one line past libtest's capture and appends the same
//! fields to the file that `DET_POST_SKIPPED` names. `DET_POST_REQUIRE` lists
//! needs, separated by commas, whose absence is a failure instead;
//! `DET_POST_REQUIRE_CUDA=1` is short for `cuda`.
#![allow(dead_code, reason = "each test program has needs of its own")]
#![allow(clippy::panic, reason = "tests fail by panicking")]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Something that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A GPU with a CUDA driver; for networks there, ONNX Runtime's CUDA provider.
    Cuda,
    /// The recordings, networks and references of `DET_POST_SHARED_DATA`.
    Data,
    /// The library of ONNX Runtime that `ORT_DYLIB_PATH` names.
    Ort,
    /// The Python of `DET_POST_PEER_PYTHON` with the peers' packages.
    Peers,
    /// The trained networks in `models/`.
    Models,
    /// `nvcc` or, for the test of its absence, a machine without it.
    Nvcc,
    /// User and mount namespaces.
    Namespaces,
    /// A sourced ROS 2.
    Ros2,
    /// The Python of `DET_POST_TORCH_PYTHON` with torch and onnx.
    Torch,
    /// `gcc` and `g++`.
    Compiler,
    /// nvJPEG, and a GPU with JPEG engines.
    NvJpeg,
    /// libnvcuvid, and a GPU whose engines decode H.264.
    Nvdec,
    /// Chromium or Chrome.
    Chromium,
    /// The program for aarch64 that `DET_POST_AARCH64_PROGRAM` names, and qemu.
    Aarch64,
    /// The library and headers of Fast DDS, and `c++`.
    FastDds,
    /// `tshark`.
    Tshark,
}

impl Need {
    const ALL: [Self; 16] = [
        Self::Cuda,
        Self::Data,
        Self::Ort,
        Self::Peers,
        Self::Models,
        Self::Nvcc,
        Self::Namespaces,
        Self::Ros2,
        Self::Torch,
        Self::Compiler,
        Self::NvJpeg,
        Self::Nvdec,
        Self::Chromium,
        Self::Aarch64,
        Self::FastDds,
        Self::Tshark,
    ];

    /// The need in `DET_POST_REQUIRE` and in the lines of skipped tests.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Data => "data",
            Self::Ort => "ort",
            Self::Peers => "peers",
            Self::Models => "models",
            Self::Nvcc => "nvcc",
            Self::Namespaces => "namespaces",
            Self::Ros2 => "ros2",
            Self::Torch => "torch",
            Self::Compiler => "compiler",
            Self::NvJpeg => "nvjpeg",
            Self::Nvdec => "nvdec",
            Self::Chromium => "chromium",
            Self::Aarch64 => "aarch64",
            Self::FastDds => "fastdds",
            Self::Tshark => "tshark",
        }
    }
}

/// The needs in a value of `DET_POST_REQUIRE`; an error names a word that is no need.
pub fn parse(list: &str) -> Result<Vec<Need>, String> {
    let need = |word: &str| {
        let known = Need::ALL.into_iter().find(|need| need.word() == word);
        known.ok_or_else(|| {
            let words = Need::ALL.map(Need::word).join(", ");
            format!("DET_POST_REQUIRE: `{word}` is none of {words}")
        })
    };
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(need).collect()
}

/// The needs whose absence is a failure in this run.
pub fn required() -> Result<Vec<Need>, String> {
    let mut needs = parse(&std::env::var("DET_POST_REQUIRE").unwrap_or_default())?;
    if std::env::var("DET_POST_REQUIRE_CUDA").is_ok_and(|value| value == "1") {
        needs.push(Need::Cuda);
    }
    Ok(needs)
}

/// Records that the calling test, or a part of it, is skipped.
///
/// # Panics
///
/// If the need is required, `DET_POST_REQUIRE` has an unknown word, or
/// the record cannot be written.
#[track_caller]
pub fn skip(need: Need, reason: impl Display) {
    let word = need.word();
    match required() {
        Err(problem) => panic!("{problem}"),
        Ok(needs) => assert!(!needs.contains(&need), "{word} is required: {reason}"),
    }
    let program = std::env::current_exe().ok();
    let program = program.as_ref().and_then(|path| path.file_stem()?.to_str()).unwrap_or("?");
    // Without the hash that cargo appends.
    let program = program.rsplit_once('-').map_or(program, |(name, _)| name);
    let thread = std::thread::current();
    let test = format!("{program}::{}", thread.name().unwrap_or("?"));
    // `println!` is captured in tests that pass; the handle is not.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: no {word}: {reason}");
    if let Some(path) = std::env::var_os("DET_POST_SKIPPED") {
        let line = format!("{word}\t{test}\t{reason}\n");
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        assert!(written.is_ok(), "DET_POST_SKIPPED: {}: {written:?}", path.display());
    }
}
