//! The work of the life cycle's changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::bond::BondKeeper;
use super::super::channel_state::lock;
use super::super::endpoints::{MOTION_QOS, TF_QOS, TF_STATIC_QOS};
use super::super::lifecycle::{self, Change};
use super::super::live_channel::LiveChannel;
use super::super::outputs::ChannelOutputs;
use super::{FRAME_TIMEOUT, Shared};
use crate::config::{MotionTopic, motions_of};
use crate::runtime::placement::place_on_gpus;
use det_post_ros::middleware::{InputKind, Middleware, Qos, Received, Subscription};
use det_post_types::Result;

impl Shared {
    pub(super) fn change(&self, change: Change, timeout: Duration) -> Result<()> {
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
        let _gpus = place_on_gpus(&mut placed);
        for channel in &placed {
            let open_outputs = |channel: &_| {
                ChannelOutputs::open(channel, &self.node, lock(&self.middleware).as_mut())
            };
            let factory = Arc::clone(&self.factory);
            channels.push(LiveChannel::open(channel, factory, open_outputs)?);
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
            Err(error) => {
                tracing::info!("the node has no bond with a lifecycle manager of Nav2: {error}")
            }
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
        for motion in motions_of(channels.iter().map(LiveChannel::config)) {
            let input = self.subscribe_motion(middleware, motion)?;
            lock(&self.transform_inputs).push(input);
        }
        for channel in channels {
            channel.start(middleware, &self.clock, &self.transforms)?;
            tracing::info!("{}", channel.route(self.middleware_name));
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

    fn subscribe_motion(
        &self,
        middleware: &mut dyn Middleware,
        motion: &MotionTopic,
    ) -> Result<Box<dyn Subscription>> {
        let (transforms, topic) = (Arc::clone(&self.transforms), motion.topic.clone());
        let receiver = Box::new(move |received: Result<Received<'_>>| match received {
            Ok(Received::Motion(motion)) => transforms.insert_motion(&topic, &motion),
            Ok(_) => {}
            Err(error) => transforms.refuse(&error),
        });
        let kind = InputKind::Motion(motion.message);
        middleware.subscribe(&motion.topic, kind, MOTION_QOS, receiver)
    }
}
