//! The live node: channels in a ROS graph, with parameters, a life cycle and
//! diagnostics.
//!
//! Threads: those of the middleware deliver messages and call services, one per
//! channel works on frames, one publishes diagnostics, one the log. Nothing waits for
//! a channel but a change of state.

mod changes;
mod graph;
mod health;
mod options;
mod services;

use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::bond::BondKeeper;
use super::channel_state::lock;
use super::clock::NodeClock;
use super::endpoints::{self, CLOCK_QOS, OverridingMiddleware, PARAMETER_EVENTS_QOS};
use super::lifecycle::{Change, Lifecycle};
use super::live_channel::LiveChannel;
use super::logs::{Loggers, ROSOUT_QOS, ROSOUT_TOPIC, Rosout};
use super::parameters::ParameterServer;
use super::transforms::LiveTransforms;
use crate::config::Config;
use crate::runtime::Factory;
use det_post_ops::device::set_copy_threads;
use det_post_ros::messages::{DiagnosticArray, Log, ParameterEvent, TransitionEvent};
use det_post_ros::middleware::{InputKind, Middleware, Publisher, Qos, Received, Subscription};
use det_post_ros::{LifecycleState, LifecycleTransition, NodeName, Parameter};
use det_post_types::{Error, ErrorKind, Result};
use graph::Graph;
pub use options::{LiveOptions, OnMetrics};

pub use super::endpoints::{DIAGNOSTICS_TOPIC, PARAMETER_EVENTS_TOPIC, TRANSITION_EVENT_TOPIC};

/// How long a deactivation waits for the frame in flight.
const FRAME_TIMEOUT: Duration = Duration::from_secs(60);

/// A node in a ROS graph. Dropping it leaves the graph.
pub struct LiveNode {
    shared: Arc<Shared>,
    health: Option<JoinHandle<()>>,
    rosout: Option<Rosout>,
}

struct Shared {
    name: String,
    node: NodeName,
    middleware_name: &'static str,
    counts_losses: bool,
    parameters: ParameterServer,
    loggers: Loggers,
    factory: Factory,
    on_metrics: Mutex<Option<OnMetrics>>,
    lifecycle: Lifecycle,
    clock: Arc<NodeClock>,
    transforms: Arc<LiveTransforms>,
    channels: Mutex<Vec<LiveChannel>>,
    /// Subscriptions of the node: transforms while it is active.
    transform_inputs: Mutex<Vec<Box<dyn Subscription>>>,
    clock_input: Mutex<Option<Box<dyn Subscription>>>,
    /// While the node is active.
    bond: Mutex<Option<BondKeeper>>,
    transition_events: Mutex<Box<dyn Publisher>>,
    parameter_events: Mutex<Box<dyn Publisher>>,
    graph: Mutex<Graph>,
    ends: Mutex<bool>,
    ended: Condvar,
    /// Last, so that the endpoints are gone when it leaves the graph.
    middleware: Mutex<Box<dyn Middleware>>,
}

impl LiveNode {
    /// Joins the graph with parameters and services. No network is loaded.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses, `Io` when there is no thread.
    pub fn open(config: Config, middleware: Box<dyn Middleware>) -> Result<Self> {
        Self::with_options(config, middleware, LiveOptions::default())
    }

    /// As [`LiveNode::open`], with another factory of detectors.
    ///
    /// # Errors
    /// As [`LiveNode::open`].
    pub fn with_factory(
        config: Config,
        middleware: Box<dyn Middleware>,
        factory: Factory,
    ) -> Result<Self> {
        Self::with_options(config, middleware, LiveOptions { factory, ..LiveOptions::default() })
    }

    /// As [`LiveNode::open`], with options.
    ///
    /// # Errors
    /// As [`LiveNode::open`].
    pub fn with_options(
        config: Config,
        middleware: Box<dyn Middleware>,
        options: LiveOptions,
    ) -> Result<Self> {
        let LiveOptions { factory, on_metrics } = options;
        endpoints::check_names(&config, |topic| middleware.resolve(topic))?;
        let endpoints = endpoints::endpoints(&config, |topic| middleware.resolve(topic));
        endpoints::warn_of_unused(&config.qos_overrides, &endpoints);
        let inputs: Vec<String> = endpoints::inputs(&endpoints).map(str::to_owned).collect();
        let overrides = config.qos_overrides.clone();
        let mut middleware: Box<dyn Middleware> =
            Box::new(OverridingMiddleware { middleware, overrides });
        let period = config.diagnostics_period;
        set_copy_threads(config.uploads.copy_threads);
        let log = middleware.advertise(ROSOUT_TOPIC, Log::TYPE, ROSOUT_QOS)?;
        let rosout = Some(Rosout::start(&config.node, log)?);
        let diagnostics =
            middleware.advertise(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, Qos::DEFAULT)?;
        let transition_events =
            middleware.advertise(TRANSITION_EVENT_TOPIC, TransitionEvent::TYPE, Qos::DEFAULT)?;
        let parameter_events = middleware.advertise(
            PARAMETER_EVENTS_TOPIC,
            ParameterEvent::TYPE,
            PARAMETER_EVENTS_QOS,
        )?;
        let (node, is_simulated) = (config.node.clone(), config.use_sim_time);
        let parameters = ParameterServer::new(config, endpoints::parameters(&endpoints));
        let shared = Arc::new(Shared {
            name: node.full(),
            loggers: Loggers::new(&node),
            node,
            middleware_name: middleware.name(),
            counts_losses: middleware.counts_losses(),
            middleware: Mutex::new(middleware),
            clock: Arc::new(NodeClock::new(is_simulated)),
            parameters,
            factory,
            on_metrics: Mutex::new(on_metrics),
            lifecycle: Lifecycle::new(),
            transforms: Arc::new(LiveTransforms::default()),
            channels: Mutex::new(Vec::new()),
            transform_inputs: Mutex::new(Vec::new()),
            clock_input: Mutex::new(None),
            bond: Mutex::new(None),
            transition_events: Mutex::new(transition_events),
            parameter_events: Mutex::new(parameter_events),
            graph: Mutex::new(Graph::new(inputs)),
            ends: Mutex::new(false),
            ended: Condvar::new(),
        });
        shared.attach()?;
        shared.publish_parameter_event(&shared.parameters.declared(), &[]);
        let of_thread = Arc::clone(&shared);
        let health = std::thread::Builder::new()
            .name("diagnostics".into())
            .spawn(move || of_thread.publish_diagnostics(diagnostics, period))
            .map_err(|e| Error::new(ErrorKind::Io, "node", "no thread").with_source(e))?;
        Ok(Self { shared, health: Some(health), rosout })
    }

    /// Changes the state and waits for the result.
    ///
    /// # Errors
    /// `Argument` when the current state does not allow the change; else the reason
    /// why it failed.
    pub fn change(&self, change: Change) -> Result<()> {
        self.shared.change(change, FRAME_TIMEOUT)
    }

    /// The current state.
    pub fn state(&self) -> LifecycleState {
        self.shared.lifecycle.state()
    }

    /// Shuts down. Waits up to `timeout` for the frame in flight.
    ///
    /// # Errors
    /// `Argument` when the frame did not finish, or another change is in progress.
    pub fn shut_down(&self, timeout: Duration) -> Result<()> {
        match self.state() {
            LifecycleState::Finalized => Ok(()),
            _ => self.shared.change(Change::Shutdown, timeout),
        }
    }
}

impl Drop for LiveNode {
    fn drop(&mut self) {
        // A shutdown that is refused or fails has no consequence here.
        let _ = self.shut_down(Duration::from_secs(1));
        *lock(&self.shared.ends) = true;
        self.shared.ended.notify_all();
        if let Some(health) = self.health.take() {
            // A panic of the thread has no consequence here.
            let _ = health.join();
        }
        // The last entries are published before the graph is left.
        self.rosout = None;
        // A request in progress holds the node; the middleware must not be dropped on
        // one of its own threads.
        let deadline = Instant::now() + Duration::from_secs(1);
        while Arc::strong_count(&self.shared) > 1 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Shared {
    /// Connects services, events and time to this node. The middleware holds weak
    /// references.
    fn attach(self: &Arc<Self>) -> Result<()> {
        let mut middleware = lock(&self.middleware);
        let node: Weak<Self> = Arc::downgrade(self);
        let events = Weak::clone(&node);
        middleware.watch(Box::new(move |event| {
            if let Some(node) = events.upgrade() {
                lock(&node.graph).note(event, node.middleware_name);
            }
        }));
        if self.clock.is_simulated() {
            let clock = Arc::clone(&self.clock);
            let receiver = Box::new(move |received: Result<Received<'_>>| {
                let Ok(Received::Clock(now)) = received else { return };
                match clock.set(now) {
                    None => {}
                    Some(1) => tracing::warn!("/clock goes back to {now}"),
                    Some(times) => tracing::debug!("/clock goes back to {now}, time {times}"),
                }
            });
            let input = middleware.subscribe("/clock", InputKind::Clock, CLOCK_QOS, receiver)?;
            *lock(&self.clock_input) = Some(input);
        }
        self.serve_named(middleware.as_mut())?;
        middleware.serve(Box::new(move |request| match node.upgrade() {
            Some(node) => node.answer(&request),
            None => services::refusal(&request),
        }))
    }

    fn publish_transition_event(&self, transition: LifecycleTransition) {
        let (start, goal) = (transition.start, transition.goal);
        // The ends of changes are news; what leads there is a detail.
        match goal {
            LifecycleState::Active | LifecycleState::Unconfigured | LifecycleState::Finalized => {
                tracing::info!("{} -> {}", start.label(), goal.label());
            }
            LifecycleState::Inactive if start == LifecycleState::Deactivating => {
                tracing::info!("{} -> {}", start.label(), goal.label());
            }
            _ => tracing::debug!("{} -> {}", start.label(), goal.label()),
        }
        let stamp = self.clock.now().unwrap_or_default();
        let mut bytes = Vec::new();
        let published = TransitionEvent { stamp, transition }
            .encode(&mut bytes)
            .and_then(|()| lock(&self.transition_events).publish(&bytes));
        if let Err(error) = published {
            tracing::warn!("transition event: {error}");
        }
    }

    fn publish_parameter_event(
        &self,
        new_parameters: &[Parameter],
        changed_parameters: &[Parameter],
    ) {
        let stamp = self.clock.now().unwrap_or_default();
        let mut bytes = Vec::new();
        let published =
            ParameterEvent { stamp, node: &self.name, new_parameters, changed_parameters }
                .encode(&mut bytes)
                .and_then(|()| lock(&self.parameter_events).publish(&bytes));
        if let Err(error) = published {
            tracing::warn!("parameter event: {error}");
        }
    }
}
