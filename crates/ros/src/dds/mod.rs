//! A ROS 2 graph without ROS: a DDS participant in pure Rust.
//!
//! [`DdsMiddleware`] joins the domain that ROS's environment names and appears as one
//! ROS node: names of topics, types and services as ROS mangles them, ROS's
//! QoS, `ros_discovery_info` for `ros2 node`, and services in the conventions
//! of CycloneDDS and of Fast DDS.
//!
//! A message is decoded on the subscription's thread, borrowed from the sample
//! that the participant put together; where the receiver gives buffers, in the
//! receiver's own.
//!
//! Memory: a subscription keeps its depth of messages, and up to 64 MiB of
//! fragments of unfinished messages; a publisher keeps at most 64 MiB of what it
//! sent. What a hostile peer can make the participant keep is bounded by
//! `det_post_rtps`.
//!
//! Not supported: DDS security, static peers, shared memory, and multicast
//! groups other than discovery's. A peer of another type, or one that asks for
//! exclusive ownership or partitions, is reported and not matched.

mod announcement;
mod counters;
mod environment;
mod error;
mod graph;
mod names;
mod peers;
mod publisher;
mod qos;
mod responses;
mod service;
mod subscription;
mod threads;
mod write;

use std::sync::Arc;

pub use environment::{DdsSettings, DiscoveryRange};

use crate::middleware::{
    Handler, InputKind, MessageBuffers, Middleware, MiddlewareOptions, Publisher, Qos, Receiver,
    ServiceKind, Subscription, Watcher,
};
use det_post_types::Result;
use error::error;
use graph::Graph;
use subscription::Input;
use threads::Threads;

/// A node in the ROS 2 graph over DDS.
pub struct DdsMiddleware {
    options: MiddlewareOptions,
    /// Of subscriptions and services. They share the graph: the participant
    /// leaves after they have ended.
    threads: Threads,
    /// Follows discovery until the end: services depend on it.
    observer: Threads,
    graph: Arc<Graph>,
    serves: bool,
}

impl DdsMiddleware {
    /// Joins the graph.
    ///
    /// # Errors
    /// `Middleware` when no participant can be started.
    pub fn open(options: MiddlewareOptions, settings: &DdsSettings) -> Result<Self> {
        environment::warn_of_limits();
        let graph = Arc::new(Graph::join(options.node.clone(), settings)?);
        let mut observer = Threads::default();
        let observed = Arc::clone(&graph);
        observer.spawn("dds graph", &graph.watchers, move |stop| observed.observe(stop))?;
        Ok(Self { options, threads: Threads::default(), observer, graph, serves: false })
    }

    fn resolve_service(&self, name: &str) -> String {
        self.options.remaps.resolve_service(&self.options.node, name)
    }
}

impl Middleware for DdsMiddleware {
    fn name(&self) -> &'static str {
        "dds"
    }

    fn resolve(&self, topic: &str) -> String {
        self.options.remaps.resolve(&self.options.node, topic)
    }

    fn subscribe(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
    ) -> Result<Box<dyn Subscription>> {
        let input = Input { topic: self.resolve(topic), kind, qos, receiver, buffers: None };
        Ok(Box::new(subscription::start(&self.graph, &mut self.threads, input)?))
    }

    fn subscribe_into(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
        buffers: Box<dyn MessageBuffers>,
    ) -> Result<Box<dyn Subscription>> {
        let topic = self.resolve(topic);
        let input = Input { topic, kind, qos, receiver, buffers: Some(buffers) };
        Ok(Box::new(subscription::start(&self.graph, &mut self.threads, input)?))
    }

    fn advertise(
        &mut self,
        topic: &str,
        type_name: &'static str,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        let topic = self.resolve(topic);
        Ok(Box::new(publisher::DdsPublisher::new(&self.graph, topic, type_name, qos)?))
    }

    fn serve(&mut self, handler: Handler) -> Result<()> {
        if self.serves {
            return Err(error("services are served already"));
        }
        let handler = Arc::new(handler);
        // A transition may take as long as loading networks: a separate thread
        // leaves the other services responsive.
        let (changing, quick): (Vec<_>, Vec<_>) =
            ServiceKind::of_nodes().partition(|kind| *kind == ServiceKind::ChangeState);
        for (name, kinds) in [("dds services", quick), ("dds state", changing)] {
            let named = kinds.into_iter();
            let named =
                named.map(|kind| (kind, self.resolve_service(&format!("~/{}", kind.name()))));
            let named: Vec<_> = named.collect();
            let named = named.into_iter();
            service::start(&self.graph, &mut self.threads, name, named, &handler)?;
        }
        self.serves = true;
        Ok(())
    }

    fn serve_named(&mut self, kind: ServiceKind, name: &str, handler: Handler) -> Result<()> {
        let named = std::iter::once((kind, self.resolve_service(name)));
        service::start(&self.graph, &mut self.threads, "dds named", named, &Arc::new(handler))
    }

    fn watch(&mut self, watcher: Watcher) {
        self.graph.watchers.add(watcher);
    }

    fn published_topics(&self, type_name: &str) -> Option<Vec<String>> {
        Some(self.graph.published_topics(type_name))
    }
}

impl Drop for DdsMiddleware {
    fn drop(&mut self) {
        // Services retire their writers as they end.
        self.threads.end();
        self.graph.drain();
        self.observer.end();
    }
}
