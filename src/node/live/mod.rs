//! The live node: channels in a ROS graph, with parameters, a life cycle and
//! diagnostics.
//!
//! Threads: those of the middleware deliver messages and call services, one per
//! channel works on frames, one publishes diagnostics, one the log. Nothing waits for
//! a channel but a change of state.

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
use super::endpoints::{
    self, CLOCK_QOS, OverridingMiddleware, PARAMETER_EVENTS_QOS, TF_QOS, TF_STATIC_QOS,
};
use super::lifecycle::{self, Change, Lifecycle};
use super::live_channel::LiveChannel;
use super::logs::{Loggers, ROSOUT_QOS, ROSOUT_TOPIC, Rosout};
use super::outputs::ChannelOutputs;
use super::parameters::ParameterServer;
use super::transforms::LiveTransforms;
use crate::config::Config;
use crate::device::set_copy_threads;
use crate::error::{Error, ErrorKind, Result};
use crate::ros::{LifecycleState, LifecycleTransition, NodeName, Parameter};
use crate::runtime::Factory;
use crate::runtime::batches::share_networks;
use crate::runtime::placement::place_on_gpus;
use crate::runtime::trace::Trace;
use crate::transport::messages::{DiagnosticArray, Log, ParameterEvent, TransitionEvent};
use crate::transport::middleware::{InputKind, Middleware, Publisher, Qos, Received, Subscription};
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
    trace: Option<Arc<Trace>>,
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
        let LiveOptions { factory, on_metrics, trace } = options;
        let endpoints = endpoints::endpoints(&config, |topic| middleware.resolve(topic));
        endpoints::warn_of_unused(&config.qos_overrides, &endpoints);
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
            trace,
            on_metrics: Mutex::new(on_metrics),
            lifecycle: Lifecycle::new(),
            transforms: Arc::new(LiveTransforms::default()),
            channels: Mutex::new(Vec::new()),
            transform_inputs: Mutex::new(Vec::new()),
            clock_input: Mutex::new(None),
            bond: Mutex::new(None),
            transition_events: Mutex::new(transition_events),
            parameter_events: Mutex::new(parameter_events),
            graph: Mutex::new(Graph::default()),
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
        self.serve_switches(middleware.as_mut())?;
        middleware.serve(Box::new(move |request| match node.upgrade() {
            Some(node) => node.answer(&request),
            None => services::refusal(&request),
        }))
    }

    fn change(&self, change: Change, timeout: Duration) -> Result<()> {
        let mut incomplete = None;
        let work = || match change {
            Change::Configure => self.configure(),
            Change::Activate => self.activate(),
            Change::Deactivate => {
                // All channels are unsubscribed: the node is inactive.
                incomplete = self.deactivate(timeout).err();
                Ok(())
            }
            Change::Cleanup => {
                self.unload();
                Ok(())
            }
            Change::Shutdown => {
                let stopped = self.deactivate(timeout);
                self.unload();
                stopped
            }
        };
        let result =
            self.lifecycle.change(change, work, |step| self.publish_transition_event(step));
        match &result {
            Ok(()) => {
                if let Some(error) = &incomplete {
                    tracing::error!("inactive, but {error}");
                }
                lock(&self.graph).failure = incomplete.map(|error| error.to_string());
            }
            // A refused change has no effect.
            Err(error) if error.stage() == lifecycle::STAGE => {}
            Err(error) => lock(&self.graph).failure = Some(error.to_string()),
        }
        result
    }

    /// Loads all channels. After a failure none is loaded.
    fn configure(&self) -> Result<()> {
        let config = self.parameters.config();
        let mut channels = Vec::with_capacity(config.channels.len());
        let mut placed = config.channels.clone();
        place_on_gpus(&mut placed);
        let factory = share_networks(&placed, &self.factory);
        for channel in &placed {
            let open_outputs = |channel: &_| {
                ChannelOutputs::open(channel, &self.node, lock(&self.middleware).as_mut())
            };
            let (factory, trace) = (Arc::clone(&factory), self.trace.clone());
            channels.push(LiveChannel::open(channel, factory, trace, open_outputs)?);
            if let Some(path) = channel.kind.transforms_path() {
                self.transforms.insert_file(path)?;
            }
        }
        *lock(&self.channels) = channels;
        // Parameters that were set while the networks were loading.
        self.parameters.visit(|config| self.reconfigure(config));
        Ok(())
    }

    fn activate(&self) -> Result<()> {
        let mut middleware = lock(&self.middleware);
        let mut channels = lock(&self.channels);
        if let Err(error) = self.start_all(middleware.as_mut(), &mut channels) {
            self.stop_all(&mut channels, Instant::now() + FRAME_TIMEOUT)?;
            return Err(error);
        }
        match BondKeeper::start(&self.node, middleware.as_mut()) {
            Ok(bond) => *lock(&self.bond) = Some(bond),
            Err(error) => tracing::info!("no bond with a lifecycle manager of Nav2: {error}"),
        }
        Ok(())
    }

    fn start_all(
        &self,
        middleware: &mut dyn Middleware,
        channels: &mut [LiveChannel],
    ) -> Result<()> {
        if channels.iter().any(LiveChannel::wants_transforms) {
            let mut inputs = lock(&self.transform_inputs);
            inputs.push(self.subscribe_transforms(middleware, "/tf", TF_QOS, false)?);
            inputs.push(self.subscribe_transforms(
                middleware,
                "/tf_static",
                TF_STATIC_QOS,
                true,
            )?);
        }
        for channel in channels {
            channel.start(middleware, &self.clock, &self.transforms)?;
            for topic in channel.topics() {
                tracing::info!("subscribed to {topic} through {}", self.middleware_name);
            }
        }
        Ok(())
    }

    fn deactivate(&self, timeout: Duration) -> Result<()> {
        let stopped = self.stop_all(&mut lock(&self.channels), Instant::now() + timeout);
        *lock(&self.bond) = None;
        stopped
    }

    /// Stops all channels in parallel and returns the first error.
    fn stop_all(&self, channels: &mut [LiveChannel], deadline: Instant) -> Result<()> {
        lock(&self.transform_inputs).clear();
        channels.iter_mut().for_each(LiveChannel::begin_stop);
        let results: Vec<_> =
            channels.iter_mut().map(|channel| channel.finish_stop(deadline)).collect();
        results.into_iter().collect()
    }

    fn subscribe_transforms(
        &self,
        middleware: &mut dyn Middleware,
        topic: &str,
        qos: Qos,
        is_static: bool,
    ) -> Result<Box<dyn Subscription>> {
        let transforms = Arc::clone(&self.transforms);
        let receiver = Box::new(move |received: Result<Received<'_>>| match received {
            Ok(Received::Transform { transform, is_static }) => {
                transforms.insert(&transform, is_static);
            }
            Ok(_) => {}
            Err(error) => transforms.refuse(&error),
        });
        middleware.subscribe(topic, InputKind::Transforms { is_static }, qos, receiver)
    }

    fn reconfigure(&self, config: &Config) {
        let mut channels = lock(&self.channels);
        for (channel, config) in channels.iter_mut().zip(&config.channels) {
            channel.reconfigure(config);
        }
    }

    fn publish_transition_event(&self, transition: LifecycleTransition) {
        tracing::info!("{} -> {}", transition.start.label(), transition.goal.label());
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
