//! The ROS 2 client library, through r2r and the RMW of the sourced ROS.
//!
//! One thread owns the node of r2r. It is a tokio runtime: a task follows each stream of
//! messages or requests, another loop waits in rcl, executes commands and looks up publishers in
//! between. After each wait every message is passed to its receiver, before the next: the
//! queues of r2r, which keep the oldest message when they are full, contain at most one.
//! Requests are answered on tokio's threads for blocking work, one after another.
//!
//! Messages are taken as CDR bytes, which costs two copies before the receiver, each 0.3 ms
//! for 6.2 MB: the middleware's into a buffer of the subscription, and r2r's into a `Vec`,
//! since r2r keeps that buffer for itself. They are decoded by the readers that every
//! middleware uses. A C struct of the middleware would save the second copy, but middlewares
//! fill it from a truncated message as well, with zeros, and report nothing. Outputs are CDR
//! bytes of our own writer, published untyped.
//!
//! r2r can publish only message packages that were installed when it was
//! built; another is refused with its name.
//!
//! What r2r gives no access to: the middleware's event for lost messages, the
//! numbers that publishers give messages, and mismatches with subscribers of our
//! outputs. So lost messages are not counted but estimated from the gaps between
//! stamps ([`StampGaps`](super::middleware::StampGaps)). Publishers of our inputs are
//! looked up once a second, which shows which of them joined or left and which
//! do not fit in their quality of service.

mod error;
mod graph;
#[cfg(iron_services)]
mod iron_services;
#[cfg(any(std_srvs, yolo_msgs))]
mod named_services;
mod parameters;
#[expect(unsafe_code, reason = "a function of rcl that r2r does not bind")]
mod rosout;
mod services;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::middleware::{
    Handler, InputKind, Middleware, MiddlewareOptions, Publisher, Qos, Receiver, ServiceKind,
    Subscription, Watcher, Watchers,
};
use super::socket_buffers;
use det_post_types::Result;
use error::error;
use graph::{Command, Graph, Wanted, profile};

/// The node in the ROS graph. Dropping it ends its thread and leaves the graph.
pub struct RosMiddleware {
    options: MiddlewareOptions,
    commands: Commands,
    watchers: Watchers,
    /// Its end stops the thread.
    running: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Sends work to the thread that owns the node.
#[derive(Clone)]
struct Commands(UnboundedSender<Command>);

impl RosMiddleware {
    /// Joins the graph as the node that `options` name. ROS arguments of the
    /// process (`--ros-args`) hold, too.
    ///
    /// # Errors
    /// `Middleware` when ROS cannot be initialised: no middleware, arguments it does
    /// not take, a name it refuses.
    pub fn open(options: MiddlewareOptions) -> Result<Self> {
        let (commands, queue) = unbounded_channel();
        let (opened, is_open) = mpsc::channel();
        let (running, stopped) = oneshot::channel();
        let watchers = Watchers::default();
        let node = options.node.clone();
        let shared = watchers.clone();
        let cannot = "cannot start the thread of ROS 2";
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .thread_name("ros2 services")
            .build()
            .map_err(|cause| error(cannot).with_source(cause))?;
        let thread = std::thread::Builder::new()
            .name("ros2".into())
            .spawn(move || {
                match Graph::open(&node, shared) {
                    Ok(graph) => {
                        let _ = opened.send(Ok(()));
                        runtime.block_on(graph.run(queue, stopped));
                    }
                    Err(error) => {
                        let _ = opened.send(Err(error));
                    }
                }
                // A handler that hangs is left behind.
                runtime.shutdown_background();
            })
            .map_err(|cause| error(cannot).with_source(cause))?;
        is_open.recv().map_err(|_| error("the thread of ROS 2 ended at its start"))??;
        let commands = Commands(commands);
        for warning in socket_buffers::warnings() {
            tracing::warn!("{warning}");
        }
        Ok(Self { options, commands, watchers, running: Some(running), thread: Some(thread) })
    }
}

impl Commands {
    /// Has the thread do `work` and waits for its result.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Graph) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, result) = mpsc::channel();
        self.post(move |graph| {
            let _ = sender.send(work(graph));
        });
        result.recv().map_err(|_| error("the thread of ROS 2 has ended"))?
    }

    /// Has the thread do `work` some time; nothing happens once it has ended.
    fn post(&self, work: impl FnOnce(&mut Graph) + Send + 'static) {
        let _ = self.0.send(Box::new(work));
    }
}

impl Middleware for RosMiddleware {
    fn name(&self) -> &'static str {
        "ros2"
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
        let num_publishers = Arc::new(AtomicUsize::new(0));
        let wanted = Wanted {
            topic: topic.to_owned(),
            full_topic: self.resolve(topic),
            kind,
            qos,
            num_publishers: Arc::clone(&num_publishers),
        };
        let id = self.commands.run(move |graph| graph.subscribe(wanted, receiver))?;
        Ok(Box::new(RosSubscription { commands: self.commands.clone(), id, num_publishers }))
    }

    fn advertise(
        &mut self,
        topic: &str,
        type_name: &'static str,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        // ROS expands and remaps the name itself, and would remap a remapped one again.
        let name = topic.to_owned();
        let publisher =
            self.commands.run(move |graph| graph.advertise(&name, type_name, profile(qos)))?;
        Ok(Box::new(RosPublisher {
            commands: self.commands.clone(),
            topic: self.resolve(topic),
            publisher: Some(publisher),
        }))
    }

    fn serve(&mut self, handler: Handler) -> Result<()> {
        self.commands.run(move |graph| graph.serve(handler))
    }

    fn serve_named(&mut self, kind: ServiceKind, name: &str, handler: Handler) -> Result<()> {
        let name = name.to_owned();
        self.commands.run(move |graph| graph.serve_named(kind, &name, handler))
    }

    fn watch(&mut self, watcher: Watcher) {
        self.watchers.add(watcher);
    }

    fn published_topics(&self, type_name: &str) -> Option<Vec<String>> {
        let type_name = type_name.to_owned();
        self.commands.run(move |graph| graph.published_topics(&type_name)).ok()
    }

    fn counts_losses(&self) -> bool {
        false
    }
}

impl Drop for RosMiddleware {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of ROS 2 panicked");
        }
    }
}

struct RosSubscription {
    commands: Commands,
    id: u64,
    num_publishers: Arc<AtomicUsize>,
}

impl Subscription for RosSubscription {
    fn num_publishers(&self) -> usize {
        self.num_publishers.load(Ordering::Relaxed)
    }
}

impl Drop for RosSubscription {
    fn drop(&mut self) {
        let id = self.id;
        self.commands.post(move |graph| graph.unsubscribe(id));
    }
}

struct RosPublisher {
    commands: Commands,
    topic: String,
    /// There until it is dropped.
    publisher: Option<r2r::PublisherUntyped>,
}

impl Publisher for RosPublisher {
    fn publish(&mut self, cdr: &[u8]) -> Result<()> {
        // r2r crashes on a message that is not even a header.
        let publisher = self.publisher.as_ref().filter(|_| cdr.len() >= 4);
        let Some(publisher) = publisher else {
            return Err(error(format!(
                "{}: a message of {} bytes has no header",
                self.topic,
                cdr.len()
            )));
        };
        publisher
            .publish_raw(cdr)
            .map_err(|cause| error(format!("cannot publish on {}", self.topic)).with_source(cause))
    }

    fn num_subscribers(&self) -> usize {
        let publisher = self.publisher.as_ref();
        publisher.and_then(|p| p.get_inter_process_subscription_count().ok()).unwrap_or(0)
    }
}

impl Drop for RosPublisher {
    fn drop(&mut self) {
        if let Some(publisher) = self.publisher.take() {
            self.commands.post(move |graph| graph.withdraw(publisher));
        }
    }
}
