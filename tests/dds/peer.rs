//! A DDS peer in another process, and the middleware it talks to.

use det_post_ros::dds::{DdsMiddleware, DdsSettings, DiscoveryRange};
use det_post_ros::middleware::{
    Middleware, MiddlewareEvent, MiddlewareOptions, Received, Receiver,
};
use det_post_ros::{NodeName, Remaps};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use super::common::domain::Domain;
use super::dds_peers::{Fragments, PeerProcess};

/// How long anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A test's turn, and the domain it has for itself.
pub struct Turn {
    pub domain: u16,
    _domain: Domain,
    _held: Option<Held>,
}

/// Tests that measure threads, memory or time have this process for themselves.
static TURNS: RwLock<()> = RwLock::new(());

enum Held {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Exclusive { _guard: RwLockWriteGuard<'static, ()> },
}

impl Held {
    fn shared() -> Self {
        Self::Shared { _guard: TURNS.read().unwrap_or_else(PoisonError::into_inner) }
    }

    fn exclusive() -> Self {
        Self::Exclusive { _guard: TURNS.write().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// Waits for this test's turn, beside others.
pub fn turn() -> Turn {
    Turn::new(Held::shared())
}

/// Waits for this test's turn, in which no other test runs.
pub fn exclusive_turn() -> Turn {
    Turn::new(Held::exclusive())
}

impl Turn {
    fn new(held: Held) -> Self {
        let domain = Domain::reserve();
        Self { domain: domain.id, _domain: domain, _held: Some(held) }
    }

    /// Another domain, in the same turn.
    pub fn elsewhere(&self) -> Self {
        let domain = Domain::reserve();
        Self { domain: domain.id, _domain: domain, _held: None }
    }

    /// Lets all tests run from now on: what is left only waits for other processes.
    pub fn end(&mut self) {
        self._held = None;
    }

    /// Waits for so long or longer, in which all tests may run; none does afterwards, when the
    /// test measures how long something takes.
    pub fn rest(&mut self, time: Duration) {
        self.end();
        std::thread::sleep(time);
        self._held = Some(Held::exclusive());
    }

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
        PeerProcess::cyclone(self.domain, Fragments::Large).map(Peer)
    }
}

/// The process, which ends when this is dropped.
pub struct Peer(PeerProcess);

impl Peer {
    /// Number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Starts a command; `finish` gives its answer.
    pub fn begin(&mut self, command: &Value) {
        self.0.begin(&command.to_string());
    }

    /// The answer to the command that was begun.
    pub fn finish(&mut self) -> Value {
        let answer: Value = serde_json::from_str(&self.0.finish()).unwrap();
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
