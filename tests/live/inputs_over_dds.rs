//! Inputs over DDS, on the loopback interface, and what the node publishes.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use det_post::Result;
use det_post_ros::dds::{DdsMiddleware, DdsSettings, DiscoveryRange};
use det_post_ros::middleware::{
    Handler, InputKind, MessageBuffers, Middleware, MiddlewareOptions, Publisher, Qos, Receiver,
    ServiceKind, Subscription, Watcher,
};
use det_post_ros::{NodeName, Remaps};

use crate::common::domain::Domain;
use crate::common::session::PATIENCE;

/// Names of topics and bytes of messages.
pub type Published = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Inputs over DDS; outputs are kept.
pub struct InputsOverDds {
    pub dds: DdsMiddleware,
    pub published: Published,
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

    fn subscribe_into(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
        buffers: Box<dyn MessageBuffers>,
    ) -> Result<Box<dyn Subscription>> {
        self.dds.subscribe_into(topic, kind, qos, receiver, buffers)
    }

    fn advertise(&mut self, topic: &str, _: &'static str, _: Qos) -> Result<Box<dyn Publisher>> {
        Ok(Box::new(Kept(self.dds.resolve(topic), Arc::clone(&self.published))))
    }

    fn serve(&mut self, _: Handler) -> Result<()> {
        Ok(())
    }

    fn serve_named(&mut self, _: ServiceKind, _: &str, _: Handler) -> Result<()> {
        Ok(())
    }

    fn watch(&mut self, watcher: Watcher) {
        self.dds.watch(watcher);
    }
}

/// A middleware of a domain.
pub fn middleware(domain: &Domain, node: &str, remaps: Remaps) -> DdsMiddleware {
    let settings = DdsSettings { domain: domain.id, range: DiscoveryRange::Localhost, gid_len: 16 };
    let node = NodeName::new("", node).unwrap();
    DdsMiddleware::open(MiddlewareOptions { node, remaps }, &settings).unwrap()
}

/// The messages of a topic.
pub fn of_topic(published: &Published, topic: &str) -> Vec<Vec<u8>> {
    let published = published.lock().unwrap();
    published.iter().filter(|(of, _)| of == topic).map(|(_, cdr)| cdr.clone()).collect()
}

/// Waits until what is seen is as wanted.
#[track_caller]
pub fn wait_until<T: Debug>(mut look: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) {
    let start = Instant::now();
    loop {
        let seen = look();
        if is_so(&seen) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{seen:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
