//! The node of r2r, owned by the thread of ROS 2.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt};
use r2r::qos::{DurabilityPolicy, ReliabilityPolicy};
use tokio::select;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, LocalSet, yield_now};
use tokio::time::{interval, timeout};

use super::error::error;
use super::rosout;
use super::services::{Responder, serve_all};
use crate::NodeName;
use crate::middleware::{
    Durability, Handler, InputKind, MiddlewareEvent, Qos, Received, Receiver, Reliability,
    ServiceKind, StampGaps, Watchers, deliver,
};
use det_post_types::Result;

/// The longest wait for a message; commands and the end wait as long.
const MAX_WAIT: Duration = Duration::from_millis(20);
/// As above while a response is in progress, which is sent between two waits.
const RESPONSE_WAIT: Duration = Duration::from_millis(1);
/// How often the publishers of our inputs are looked up.
const LOOKUP_PERIOD: Duration = Duration::from_secs(1);

/// How long a closing middleware waits for responses in progress.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(400);

/// Work for the thread that owns the node.
pub(super) type Command = Box<dyn FnOnce(&mut Graph) + Send>;

/// The node and its subscriptions and services.
pub(super) struct Graph {
    node: r2r::Node,
    /// The tasks that follow streams of messages and requests.
    tasks: LocalSet,
    inputs: Vec<Input>,
    /// Whether the services of the node are served.
    serves: bool,
    responders: Vec<Responder>,
    watchers: Watchers,
    next_id: u64,
    /// Whether publishers are looked up at once.
    has_new_input: bool,
}

/// What is subscribed to.
pub(super) struct Wanted {
    /// The topic in the form of the node. ROS expands and remaps it.
    pub(super) topic: String,
    /// Its full name after that.
    pub(super) full_topic: String,
    pub(super) kind: InputKind,
    pub(super) qos: Qos,
    /// Told how many publishers there are.
    pub(super) num_publishers: Arc<AtomicUsize>,
}

/// A subscription.
struct Input {
    id: u64,
    wanted: Wanted,
    /// Hands over what arrives.
    task: AbortHandle,
    /// The mismatch at the last lookup, which has been reported.
    mismatch: Option<Mismatch>,
}

/// How a publisher does not fit an input.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mismatch {
    /// Its type is this one.
    Type(String),
    /// It offers less of this policy.
    Qos(&'static str),
}

impl Graph {
    /// Creates the node. r2r panics where ROS cannot be initialised.
    pub(super) fn open(name: &NodeName, watchers: Watchers) -> Result<Self> {
        let create = || {
            let context = r2r::Context::create()?;
            rosout::leave_to_the_node();
            r2r::Node::create(context, name.name(), name.namespace())
        };
        let node = match catch_unwind(AssertUnwindSafe(create)) {
            Ok(Ok(node)) => node,
            Ok(Err(cause)) => {
                return Err(error(format!("cannot create node {}", name.full())).with_source(cause));
            }
            Err(panic) => {
                let reason = panic.downcast_ref::<String>().map_or("unknown", String::as_str);
                return Err(error(format!("cannot initialise ROS: {reason}")));
            }
        };
        Ok(Self {
            node,
            tasks: LocalSet::new(),
            inputs: Vec::new(),
            serves: false,
            responders: Vec::new(),
            watchers,
            next_id: 0,
            has_new_input: false,
        })
    }

    /// Waits for messages and requests, which its tasks pass on, and executes commands, until
    /// `stopped`; then waits for the responses in progress.
    pub(super) async fn run(
        mut self,
        mut commands: UnboundedReceiver<Command>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut lookups = interval(LOOKUP_PERIOD);
        loop {
            select! {
                biased;
                _ = &mut stopped => break,
                Some(command) = commands.recv() => command(&mut self),
                _ = lookups.tick() => self.look_up_publishers(),
                () = self.wait() => {}
            }
            if std::mem::take(&mut self.has_new_input) {
                lookups.reset_immediately();
            }
        }
        let Self { tasks, responders, .. } = self;
        let responses = async {
            for responder in &responders {
                responder.finish().await;
            }
        };
        if timeout(DRAIN_TIMEOUT, tasks.run_until(responses)).await.is_err() {
            tracing::warn!("a response was not ready in time and is lost");
        }
    }

    /// Lets the tasks pass on what has arrived, then waits in rcl.
    async fn wait(&mut self) {
        let Self { node, tasks, inputs, responders, .. } = self;
        tasks.run_until(yield_now()).await;
        if inputs.is_empty() && responders.is_empty() {
            // With nothing to wait for r2r returns at once.
            return tokio::time::sleep(MAX_WAIT).await;
        }
        let responds = responders.iter().any(Responder::is_busy);
        node.spin_once(if responds { RESPONSE_WAIT } else { MAX_WAIT });
    }

    pub(super) fn subscribe(&mut self, wanted: Wanted, receiver: Receiver) -> Result<u64> {
        let task = self.open_input(&wanted, receiver).map_err(|cause| {
            let (topic, type_name) = (&wanted.full_topic, wanted.kind.type_name());
            let package = type_name.split('/').next().unwrap_or(type_name);
            let message = format!(
                "cannot subscribe to {topic} as {type_name}; if {package} was not installed when \
                 det_post was built, build it again with it"
            );
            error(message).with_source(cause)
        })?;
        let id = self.next_id;
        self.next_id += 1;
        self.inputs.push(Input { id, wanted, task, mismatch: None });
        self.has_new_input = true;
        Ok(id)
    }

    fn open_input(&mut self, wanted: &Wanted, receiver: Receiver) -> r2r::Result<AbortHandle> {
        let Wanted { topic, kind, qos, .. } = wanted;
        let stream = self.node.subscribe_raw(topic, kind.type_name(), profile(*qos))?;
        let (topic, watchers) = (wanted.full_topic.clone(), self.watchers.clone());
        let missing =
            move |count| watchers.report(&MiddlewareEvent::Missing { topic: topic.clone(), count });
        let task = deliver_all(stream, *kind, receiver, missing);
        Ok(self.tasks.spawn_local(task).abort_handle())
    }

    pub(super) fn unsubscribe(&mut self, id: u64) {
        let Some(position) = self.inputs.iter().position(|input| input.id == id) else { return };
        let Input { wanted, mismatch, task, .. } = self.inputs.remove(position);
        task.abort();
        if mismatch.is_some() {
            self.watchers.report(&MiddlewareEvent::Compatible { topic: wanted.full_topic });
        }
    }

    pub(super) fn advertise(
        &mut self,
        topic: &str,
        type_name: &str,
        qos: r2r::QosProfile,
    ) -> Result<r2r::PublisherUntyped> {
        self.node.create_publisher_untyped(topic, type_name, qos).map_err(|cause| {
            let package = type_name.split('/').next().unwrap_or(type_name);
            let message = format!(
                "cannot publish {type_name} on {topic}; if {package} was not installed when \
                 det_post was built, build it again with it"
            );
            error(message).with_source(cause)
        })
    }

    /// Topics of a type that other nodes publish, in order.
    pub(super) fn published_topics(&self, type_name: &str) -> Result<Vec<String>> {
        let topics = self.node.get_topic_names_and_types();
        let topics = topics.map_err(|cause| error("cannot list the topics").with_source(cause))?;
        let own = (self.node.namespace(), self.node.name());
        let is_of_another = |publisher: &r2r::TopicEndpointInfo| match &own {
            (Ok(namespace), Ok(name)) => {
                publisher.node_namespace != *namespace || publisher.node_name != *name
            }
            _ => true,
        };
        let is_published = |topic: &String| {
            let publishers = self.node.get_publishers_info_by_topic(topic, false);
            publishers.is_ok_and(|publishers| publishers.iter().any(is_of_another))
        };
        let of_type =
            topics.into_iter().filter(|(_, types)| types.iter().any(|of| of == type_name));
        let mut found: Vec<String> = of_type.map(|(topic, _)| topic).filter(is_published).collect();
        found.sort_unstable();
        Ok(found)
    }

    pub(super) fn withdraw(&mut self, publisher: r2r::PublisherUntyped) {
        self.node.destroy_publisher_untyped(publisher);
    }

    pub(super) fn serve(&mut self, handler: Handler) -> Result<()> {
        if self.serves {
            return Err(error("services are served already"));
        }
        let responder = Responder::new(handler, self.watchers.clone());
        serve_every(&mut self.node, &self.tasks, &responder)
            .map_err(|cause| error("cannot serve the node's services").with_source(cause))?;
        self.responders.push(responder);
        self.serves = true;
        Ok(())
    }

    /// Serves a service under a name.
    #[allow(unreachable_code, reason = "r2r has the types of installed packages only")]
    pub(super) fn serve_named(
        &mut self,
        kind: ServiceKind,
        name: &str,
        handler: Handler,
    ) -> Result<()> {
        let responder = Responder::new(handler, self.watchers.clone());
        let served: r2r::Result<()> = match kind {
            #[cfg(std_srvs)]
            ServiceKind::SetSwitch => {
                super::named_services::serve_switch(&mut self.node, &self.tasks, &responder, name)
            }
            #[cfg(yolo_msgs)]
            ServiceKind::SetClasses => {
                super::named_services::serve_classes(&mut self.node, &self.tasks, &responder, name)
            }
            _ => {
                let package = kind.type_name().split('/').next().unwrap_or_default();
                return Err(error(format!(
                    "cannot serve {name}: {package} was not installed when det_post was built"
                )));
            }
        };
        served.map_err(|cause| error(format!("cannot serve {name}")).with_source(cause))?;
        self.responders.push(responder);
        Ok(())
    }

    /// Counts the publishers of each input and reports changes.
    fn look_up_publishers(&mut self) {
        let mut events = Vec::new();
        for Input { wanted, mismatch, .. } in &mut self.inputs {
            let topic = || wanted.full_topic.clone();
            let Ok(publishers) = self.node.get_publishers_info_by_topic(&topic(), false) else {
                continue;
            };
            let unfit: Vec<_> = publishers
                .iter()
                .filter_map(|other| unfit(wanted, &other.topic_type, &other.qos_profile))
                .collect();
            let num_publishers = publishers.len() - unfit.len();
            let found = unfit.into_iter().next();
            if found != *mismatch {
                events.push(match &found {
                    Some(Mismatch::Type(found)) => MiddlewareEvent::IncompatibleType {
                        topic: topic(),
                        found: found.clone(),
                        expected: wanted.kind.type_name().to_owned(),
                    },
                    Some(Mismatch::Qos(policy)) => MiddlewareEvent::IncompatibleQos {
                        topic: topic(),
                        policy: (*policy).into(),
                    },
                    None => MiddlewareEvent::Compatible { topic: topic() },
                });
                *mismatch = found;
            }
            let before = wanted.num_publishers.swap(num_publishers, Ordering::Relaxed);
            match num_publishers.cmp(&before) {
                Greater => events.push(MiddlewareEvent::PeerFound { topic: topic() }),
                Less => events.push(MiddlewareEvent::PeerGone { topic: topic() }),
                Equal => {}
            }
        }
        events.iter().for_each(|event| self.watchers.report(event));
    }
}

/// Serves every service that r2r has the types of.
fn serve_every(node: &mut r2r::Node, tasks: &LocalSet, responder: &Responder) -> r2r::Result<()> {
    serve_all(node, tasks, responder)?;
    #[cfg(iron_services)]
    super::iron_services::serve_all(node, tasks, responder)?;
    Ok(())
}

/// The quality of service as r2r's profile.
pub(super) fn profile(qos: Qos) -> r2r::QosProfile {
    let profile = r2r::QosProfile::default().keep_last(qos.depth);
    let profile = match qos.reliability {
        Reliability::BestEffort => profile.best_effort(),
        Reliability::Reliable => profile.reliable(),
    };
    match qos.durability {
        Durability::Volatile => profile.volatile(),
        Durability::TransientLocal => profile.transient_local(),
    }
}

/// How a publisher of `type_name` does not fit an input; `None` when it does.
fn unfit(wanted: &Wanted, type_name: &str, offered: &r2r::QosProfile) -> Option<Mismatch> {
    let asked = wanted.qos;
    if type_name != wanted.kind.type_name() {
        return Some(Mismatch::Type(type_name.to_owned()));
    }
    // As DDS has it, durability first.
    if asked.durability == Durability::TransientLocal
        && matches!(offered.durability, DurabilityPolicy::Volatile)
    {
        return Some(Mismatch::Qos("durability"));
    }
    let is_unreliable = asked.reliability == Reliability::Reliable
        && matches!(offered.reliability, ReliabilityPolicy::BestEffort);
    is_unreliable.then_some(Mismatch::Qos("reliability"))
}

/// Decodes serialised messages for their receiver, and reports how many are
/// missing by the stamps of those that come.
async fn deliver_all(
    mut stream: impl Stream<Item = Vec<u8>> + Unpin,
    kind: InputKind,
    mut receiver: Receiver,
    missing: impl Fn(u64),
) {
    let mut gaps = StampGaps::default();
    while let Some(cdr) = stream.next().await {
        deliver(kind, &cdr, &mut |received| {
            let stamp = received.as_ref().ok().and_then(Received::stamp);
            let num_missing = stamp.map_or(0, |stamp| gaps.note(stamp));
            if num_missing > 0 {
                missing(num_missing);
            }
            receiver(received);
        });
    }
}
