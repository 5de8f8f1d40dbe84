//! The rig over DDS: the bytes of a replay, and what diagnostics say of each
//! input.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use det_post::Result;
use det_post::node::Change;
use det_post::node::LiveNode;
use det_post::ros::{NodeName, Remaps};
use det_post::transport::cdr::Reader;
use det_post::transport::dds::{DdsMiddleware, DdsSettings, DiscoveryRange};
use det_post::transport::messages::read_header;
use det_post::transport::middleware::{
    Handler, InputKind, Middleware, MiddlewareOptions, Publisher, Qos, Receiver, Subscription,
    Switch, Watcher,
};

use super::rig::{self, Message};
use super::{replay, stub};

const PATIENCE: Duration = Duration::from_secs(20);

type Published = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Inputs over DDS; outputs are kept.
struct InputsOverDds {
    dds: DdsMiddleware,
    published: Published,
}

struct Kept(String, Published);

impl Publisher for Kept {
    fn publish(&mut self, cdr: &[u8]) -> Result<()> {
        self.1.lock().unwrap().push((self.0.clone(), cdr.to_vec()));
        Ok(())
    }

    fn num_subscribers(&self) -> usize {
        0
    }
}

impl Middleware for InputsOverDds {
    fn name(&self) -> &'static str {
        "dds"
    }

    fn resolve(&self, topic: &str) -> String {
        self.dds.resolve(topic)
    }

    fn subscribe(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
    ) -> Result<Box<dyn Subscription>> {
        self.dds.subscribe(topic, kind, qos, receiver)
    }

    fn advertise(&mut self, topic: &str, _: &'static str, _: Qos) -> Result<Box<dyn Publisher>> {
        Ok(Box::new(Kept(self.dds.resolve(topic), Arc::clone(&self.published))))
    }

    fn serve(&mut self, _: Handler) -> Result<()> {
        Ok(())
    }

    fn serve_switch(&mut self, _: &str, _: Switch) -> Result<()> {
        Ok(())
    }

    fn watch(&mut self, watcher: Watcher) {
        self.dds.watch(watcher);
    }
}

fn middleware(node: &str) -> DdsMiddleware {
    let domain = 110 + u16::try_from(std::process::id() % 89).unwrap();
    let settings = DdsSettings { domain, range: DiscoveryRange::Localhost, gid_len: 16 };
    let node = NodeName::new("", node).unwrap();
    DdsMiddleware::open(MiddlewareOptions { node, remaps: Remaps::default() }, &settings).unwrap()
}

/// Level and values of every status of a message, by name.
fn statuses(cdr: &[u8]) -> BTreeMap<String, (u8, BTreeMap<String, String>)> {
    let mut reader = Reader::new("test", cdr).unwrap();
    read_header(&mut reader).unwrap();
    let mut statuses = BTreeMap::new();
    for _ in 0..reader.sequence_len(1).unwrap() {
        let level = reader.u8().unwrap();
        let [name, _message, _hardware] = [(); 3].map(|()| reader.str().unwrap().to_owned());
        let mut values = BTreeMap::new();
        for _ in 0..reader.sequence_len(1).unwrap() {
            let key = reader.str().unwrap().to_owned();
            values.insert(key, reader.str().unwrap().to_owned());
        }
        statuses.insert(name, (level, values));
    }
    statuses
}

fn of_topic(published: &Published, topic: &str) -> Vec<Vec<u8>> {
    let published = published.lock().unwrap();
    published.iter().filter(|(of, _)| of == topic).map(|(_, cdr)| cdr.clone()).collect()
}

/// Sends the messages at the times of their arrival, once `await_prepared` returns.
fn send(sender: &mut DdsMiddleware, second: &'static str, await_prepared: impl FnOnce()) {
    let mut advertise = |topic, qos| sender.advertise(topic, rig::type_name(topic), qos).unwrap();
    let mut publishers: BTreeMap<&str, _> =
        [rig::CAMERA, second].map(|topic| (topic, advertise(topic, Qos::DEFAULT))).into();
    let mut poses = advertise(rig::TF_STATIC, Qos::LATCHED);
    poses.publish(&rig::pose()).unwrap();
    let mut calibrations = advertise(rig::CAMERA_INFO, Qos::DEFAULT);
    let start = Instant::now();
    while publishers.values().any(|publisher| publisher.num_subscribers() == 0) {
        assert!(start.elapsed() < PATIENCE, "nobody listens");
        std::thread::sleep(Duration::from_millis(5));
    }
    while calibrations.num_subscribers() == 0 {
        assert!(start.elapsed() < PATIENCE, "nobody listens");
        std::thread::sleep(Duration::from_millis(5));
    }
    calibrations.publish(&rig::calibration()).unwrap();
    await_prepared();
    let messages = rig::messages(second);
    let (start, first) = (Instant::now(), messages[0].at);
    for Message { at, topic, cdr } in messages {
        let due = start + Duration::from_secs_f64(at.seconds_since(first));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        publishers.get_mut(topic).unwrap().publish(&cdr).unwrap();
    }
}

fn check(name: &str, second: &'static str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let config = rig::config(name);
    let output = config.channels[0].output.clone();
    let expected = replay::expected(name, second, &output);
    let published = Published::default();
    let dds = middleware("det_post");
    let inputs = InputsOverDds { dds, published: Arc::clone(&published) };
    let node = LiveNode::with_factory(config, Box::new(inputs), Arc::new(stub::open)).unwrap();
    node.change(Change::Configure).unwrap();
    node.change(Change::Activate).unwrap();
    // The calibration and the pose that a LiDAR needs, before the first frame.
    let await_prepared = || {
        let start = Instant::now();
        loop {
            let last = of_topic(&published, "/diagnostics").pop().map(|cdr| statuses(&cdr));
            let is_one = |status: &str, key: &str| {
                let status = last.as_ref().and_then(|last| last.get(status));
                status.is_some_and(|(_, values)| values[key] == "1")
            };
            let has_pose = second != rig::LIDAR || is_one("det_post: node", "transforms");
            if has_pose && is_one(&format!("det_post: {name}: camera_info 0"), "received") {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{last:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    send(&mut middleware("sensors"), second, await_prepared);

    let start = Instant::now();
    while of_topic(&published, &output).len() < expected.len() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(of_topic(&published, &output), expected);

    // What happened to the inputs, each by itself.
    let wanted = [
        ("received", ["11", "11"]),
        ("unused", ["0", "2"]),
        ("overtaken", ["0", "0"]),
        ("refused.stamp_not_newer", ["1", "1"]),
    ];
    let start = Instant::now();
    loop {
        let last = of_topic(&published, "/diagnostics").pop().map(|cdr| statuses(&cdr));
        let found = last.map(|last| {
            wanted.map(|(key, _)| {
                let of_input = |input| {
                    let (_, values) = &last[&format!("det_post: {name}: input {input}")];
                    values.get(key).cloned().unwrap_or_default()
                };
                (key, [of_input(0), of_input(1)])
            })
        });
        let wanted = wanted.map(|(key, values)| (key, values.map(str::to_owned)));
        if found.as_ref() == Some(&wanted) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{found:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let dropped: u64 = of_topic(&published, "/diagnostics")
        .iter()
        .filter_map(|cdr| {
            let (_, values) = &statuses(cdr)[&format!("det_post: {name}: frames")];
            values.get("dropped.incomplete_views")?.parse::<u64>().ok()
        })
        .sum();
    assert_eq!(dropped, rig::NUM_INCOMPLETE);
}

#[test]
fn two_cameras_meet_over_dds() {
    check("cameras", rig::OTHER_CAMERA);
}

#[test]
fn a_camera_and_a_lidar_meet_over_dds() {
    check("fused", rig::LIDAR);
}
