//! A DDS peer in another process, and the middleware it talks to.

use det_post_ros::dds::{DdsMiddleware, DdsSettings, DiscoveryRange};
use det_post_ros::middleware::{
    Middleware, MiddlewareEvent, MiddlewareOptions, Received, Receiver,
};
use det_post_ros::{NodeName, Remaps};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::common::domain::Domain;
use super::require::{Need, skip};

/// Loopback alone, without multicast, in fragments that one datagram holds.
const CYCLONEDDS: &str = "<CycloneDDS><Domain id=\"any\"><General>\
    <Interfaces><NetworkInterface name=\"lo\"/></Interfaces><AllowMulticast>false</AllowMulticast>\
    <MaxMessageSize>65500B</MaxMessageSize><FragmentSize>4000B</FragmentSize></General>\
    <Discovery><Peers><Peer address=\"127.0.0.1\"/></Peers><ParticipantIndex>auto</ParticipantIndex>\
    <MaxAutoParticipantIndex>20</MaxAutoParticipantIndex></Discovery>\
    <Internal><SocketReceiveBufferSize min=\"default\" max=\"10MB\"/></Internal>\
    </Domain></CycloneDDS>";

/// How long anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A test's turn, and the domain it has for itself.
pub struct Turn {
    pub domain: u16,
    _domain: Domain,
    _turn: MutexGuard<'static, ()>,
}

/// Waits for this test's turn.
pub fn turn() -> Turn {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let domain = Domain::reserve();
    Turn { domain: domain.id, _domain: domain, _turn }
}

impl Turn {
    /// A middleware that is called `node`.
    pub fn middleware(&self, node: &str) -> DdsMiddleware {
        self.middleware_in("", node, Remaps::default())
    }

    /// A middleware in a namespace and with rules.
    pub fn middleware_in(&self, namespace: &str, node: &str, remaps: Remaps) -> DdsMiddleware {
        let settings =
            DdsSettings { domain: self.domain, range: DiscoveryRange::Localhost, gid_len: 16 };
        let node = NodeName::new(namespace, node).unwrap();
        DdsMiddleware::open(MiddlewareOptions { node, remaps }, &settings).unwrap()
    }

    /// A peer; `None`, and said so, when there is no implementation.
    pub fn peer(&self) -> Option<Peer> {
        let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
            skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
            return None;
        };
        let has = Command::new(&python).args(["-c", "import cyclonedds"]).output().unwrap();
        if !has.status.success() {
            skip(Need::Peers, format_args!("{python} has no cyclonedds"));
            return None;
        }
        Some(Peer::start(&python, self.domain))
    }
}

/// The process, which ends when this is dropped.
pub struct Peer {
    process: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(python: &str, domain: u16) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/dds_peer.py");
        let mut process = Command::new(python)
            .args(["-B", script, &domain.to_string()])
            .env("CYCLONEDDS_URI", CYCLONEDDS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut peer = Self { process, commands, answers };
        assert_eq!(peer.answer(), json!("ready"));
        peer
    }

    /// Number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the peer is gone");
        serde_json::from_str(&line).unwrap()
    }

    /// Starts a command; `finish` gives its answer.
    pub fn begin(&mut self, command: &Value) {
        writeln!(self.commands.as_mut().unwrap(), "{command}").unwrap();
    }

    /// The answer to the command that was begun.
    pub fn finish(&mut self) -> Value {
        let answer = self.answer();
        assert!(answer["error"].is_null(), "{answer}");
        answer["ok"].clone()
    }

    /// Does a command.
    pub fn ask(&mut self, command: &Value) -> Value {
        self.begin(command);
        self.finish()
    }

    /// Starts to write a topic, and waits for `num_readers`.
    pub fn writer(&mut self, topic: &str, type_name: &str, more: &Value, num_readers: usize) {
        self.ask(&with(
            json!({"op": "writer", "id": topic, "topic": topic, "type": type_name}),
            more,
        ));
        self.wait_matched(topic, num_readers);
    }

    /// Starts to read a topic, and waits for `num_writers`.
    pub fn reader(&mut self, topic: &str, type_name: &str, more: &Value, num_writers: usize) {
        self.ask(&with(
            json!({"op": "reader", "id": topic, "topic": topic, "type": type_name}),
            more,
        ));
        self.wait_matched(topic, num_writers);
    }

    /// Waits until an endpoint has so many peers.
    pub fn wait_matched(&mut self, id: &str, count: usize) {
        let found = self.ask(&json!({"op": "matched", "id": id, "count": count, "timeout": 20}));
        assert_eq!(found, json!(count), "peers on {id}");
    }

    /// Writes a sample.
    pub fn write(&mut self, id: &str, sample: &Value) {
        self.ask(&json!({"op": "write", "id": id, "sample": sample}));
    }

    /// Takes at least `count` samples, or what has come within `PATIENCE`.
    pub fn take(&mut self, id: &str, count: usize) -> Vec<Value> {
        match self.ask(&json!({"op": "take", "id": id, "count": count, "timeout": 20})) {
            Value::Array(samples) => samples,
            other => panic!("{other}"),
        }
    }
}

/// `value` with the fields of `more`.
pub fn with(mut value: Value, more: &Value) -> Value {
    for (key, field) in more.as_object().into_iter().flatten() {
        value[key] = field.clone();
    }
    value
}

impl Drop for Peer {
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

/// The calls of a receiver or a watcher so far, as text or as values.
pub struct Heard<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone + Send + 'static> Heard<T> {
    /// A receiver that keeps what `note` makes of what it gets.
    pub fn receiver(
        note: impl Fn(det_post::Result<Received<'_>>) -> T + Send + 'static,
    ) -> (Self, Receiver) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&heard);
        let receiver: Receiver =
            Box::new(move |received| told.lock().unwrap().push(note(received)));
        (Self(heard), receiver)
    }

    /// All of it.
    pub fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until the calls are enough.
    pub fn wait(&self, is_enough: impl Fn(&[T]) -> bool) -> Vec<T> {
        let deadline = Instant::now() + PATIENCE;
        while !is_enough(&self.0.lock().unwrap()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.all()
    }
}

/// The events of a middleware from now on.
pub fn events(middleware: &mut DdsMiddleware) -> Heard<MiddlewareEvent> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    middleware.watch(Box::new(move |event| told.lock().unwrap().push(event)));
    Heard(heard)
}

/// Waits until `is_so`.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The DDS name of a type of ROS.
pub fn dds_type(type_name: &str) -> String {
    let parts: Vec<&str> = type_name.split('/').collect();
    format!("{}::{}::dds_::{}_", parts[0], parts[1], parts[2])
}
