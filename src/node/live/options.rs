//! What a live node may have beside its configuration.

use std::sync::Arc;

use crate::runtime::{Factory, open_detector};

/// What a node may have beside its configuration.
pub struct LiveOptions {
    /// Builds the detector of a channel.
    pub factory: Factory,
    /// Takes the metrics of all channels as text for Prometheus, with the diagnostics and once
    /// more when the channels are unloaded.
    pub on_metrics: Option<OnMetrics>,
}

/// See [`LiveOptions::on_metrics`].
pub type OnMetrics = Box<dyn FnMut(&str) + Send>;

impl Default for LiveOptions {
    /// The detectors that the configuration names, and nothing else.
    fn default() -> Self {
        Self { factory: Arc::new(open_detector), on_metrics: None }
    }
}
