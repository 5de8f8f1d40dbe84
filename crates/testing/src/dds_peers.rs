//! Processes of other implementations of DDS: CycloneDDS by its Python package, and Fast DDS by a
//! program that is compiled here.
//!
//! Each takes commands from its standard input, a line each, and answers a line; it ends with that input.
//! All traffic stays on the loopback interface.
#![allow(dead_code, reason = "no test program calls all of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use super::require::{Need, skip};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const FAST_DDS: &str = include_str!("../../../tests/peers/fast_dds_peer.cpp");

/// Loopback only, without multicast.
const INTERFACE: &str = "<Interfaces><NetworkInterface name=\"lo\"/></Interfaces>\
    <AllowMulticast>false</AllowMulticast>";
const DISCOVERY: &str = "<Discovery><Peers><Peer address=\"127.0.0.1\"/></Peers>\
    <ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>20</MaxAutoParticipantIndex>\
    </Discovery><Internal><SocketReceiveBufferSize min=\"default\" max=\"10MB\"/></Internal>";

/// How CycloneDDS cuts messages up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragments {
    /// Several of 4000 bytes a datagram of up to 65,500.
    Large,
    /// As it does where nothing is configured: of 1344 bytes, a datagram up to 14,720.
    Default,
}

/// A process. It ends when this is dropped.
pub struct PeerProcess {
    process: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl PeerProcess {
    /// CycloneDDS in a domain, ready; `None`, and said so, when it is not there.
    pub fn cyclone(domain: u16, fragments: Fragments) -> Option<Self> {
        let python = match python() {
            Ok(python) => python,
            Err(reason) => {
                skip(Need::Peers, reason);
                return None;
            }
        };
        let sizes = match fragments {
            Fragments::Large => {
                "<MaxMessageSize>65500B</MaxMessageSize><FragmentSize>4000B</FragmentSize>"
            }
            Fragments::Default => "",
        };
        let settings = format!(
            "<CycloneDDS><Domain id=\"any\"><General>{INTERFACE}{sizes}</General>{DISCOVERY}\
             </Domain></CycloneDDS>"
        );
        let mut command = Command::new(python);
        command.arg("-B").arg(peers_folder().join("dds_peer.py"));
        command.arg(domain.to_string()).env("CYCLONEDDS_URI", settings);
        Some(Self::start(&mut command, "\"ready\""))
    }

    /// Fast DDS in a domain, ready; `None`, and said so, when it is not there.
    pub fn fast_dds(domain: u16) -> Option<Self> {
        match fast_dds_program() {
            Ok(program) => {
                Some(Self::start(Command::new(program).arg(domain.to_string()), "ok ready"))
            }
            Err(reason) => {
                skip(Need::FastDds, reason);
                None
            }
        }
    }

    fn start(command: &mut Command, ready: &str) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let commands = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut peer = Self { process, commands, answers };
        assert_eq!(peer.finish(), ready);
        peer
    }

    /// Number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Starts a command; `finish` gives its answer.
    pub fn begin(&mut self, command: &str) {
        writeln!(self.commands.as_mut().unwrap(), "{command}").unwrap();
    }

    /// The line that answers the command that was begun.
    pub fn finish(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the peer is gone");
        line.trim_end().to_owned()
    }

    /// Does a command.
    pub fn ask(&mut self, command: &str) -> String {
        self.begin(command);
        self.finish()
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        self.commands = None;
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.process.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                self.process.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn peers_folder() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/peers", "../../tests/peers"].map(|folder| package.join(folder));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap()
}

/// A Python that has CycloneDDS, looked for once; the reason why there is none.
fn python() -> Result<&'static str, &'static str> {
    static PYTHON: OnceLock<Result<String, String>> = OnceLock::new();
    let find = || {
        let unset = |_| "DET_POST_PEER_PYTHON is not set".to_owned();
        let python = std::env::var("DET_POST_PEER_PYTHON").map_err(unset)?;
        let has = Command::new(&python).args(["-c", "import cyclonedds"]).output().unwrap();
        if has.status.success() { Ok(python) } else { Err(format!("{python} has no cyclonedds")) }
    };
    PYTHON.get_or_init(find).as_deref().map_err(String::as_str)
}

/// The program, compiled once for each text of it; the reason why there is none.
fn fast_dds_program() -> Result<&'static Path, &'static str> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(compile).as_deref().map_err(String::as_str)
}

fn compile() -> Result<PathBuf, String> {
    if !Path::new("/usr/include/fastdds/dds/domain/DomainParticipant.hpp").exists() {
        return Err("no headers of Fast DDS (Debian: libfastrtps-dev)".to_owned());
    }
    let mut hasher = DefaultHasher::new();
    FAST_DDS.hash(&mut hasher);
    // Test programs are in `target/PROFILE/deps`.
    let folder = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("tmp");
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join(format!("fast_dds_peer-{:016x}", hasher.finish()));
    if program.exists() {
        return Ok(program);
    }
    let partial = program.with_extension(std::process::id().to_string());
    let compiled = Command::new("c++")
        .args(["-std=c++17", "-O1"])
        .arg(peers_folder().join("fast_dds_peer.cpp"))
        .args(["-lfastrtps", "-lfastcdr", "-o"])
        .arg(&partial)
        .output();
    let Ok(compiled) = compiled else { return Err("no c++".to_owned()) };
    let messages = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "the peer does not compile: {messages}");
    std::fs::rename(&partial, &program).unwrap();
    Ok(program)
}
