//! `--metrics` and `--trace`: what a running command tells of its frames.

use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::live_file::LiveFile;
use super::trace::{self, ToTrace};
use crate::node::OnMetrics;
use crate::replay::{Replay, ReplayDetections, ReplayFrame};
use crate::runtime::account::Account;
use crate::runtime::metrics::{self, ChannelMetrics, to_prometheus};
use det_post_types::{Error, ErrorKind, Result};

/// The interval at which a replay writes metrics; the live node does with its diagnostics.
const INTERVAL: Duration = Duration::from_secs(1);

/// Where metrics and a trace are written.
#[derive(Debug, clap::Args)]
pub(super) struct ObserveArguments {
    /// Writes counters and durations of all channels in Prometheus' text format, updated while the
    /// command runs.
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Writes every frame and its stages as a trace for Perfetto (ui.perfetto.dev) or
    /// chrome://tracing.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// The file of the trace of this process.
pub(super) struct TraceFile(LiveFile);

impl ObserveArguments {
    /// Begins the trace, if one is asked for.
    ///
    /// # Errors
    /// `Usage` when the name is that of another file or of a link, or another command writes it; `Io` when it cannot
    /// be written.
    pub(super) fn trace(&self) -> Result<Option<TraceFile>> {
        let Some(path) = &self.trace else { return Ok(None) };
        let file = LiveFile::open(path, trace::MARK)?;
        let started = ToTrace::process().start(Box::new(BufWriter::new(file.writer()?)));
        started.map_err(|e| cannot_trace().with_source(e))?;
        Ok(Some(TraceFile(file)))
    }

    /// Whether a trace is asked for.
    pub(super) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    fn metrics(&self) -> Result<Option<LiveFile>> {
        self.metrics.as_deref().map(|path| LiveFile::open(path, metrics::MARK)).transpose()
    }

    /// What writes the metrics of a live node, if it is asked for. The first error is logged.
    ///
    /// # Errors
    /// `Usage` when the name is that of another file.
    pub(super) fn on_metrics(&self) -> Result<Option<OnMetrics>> {
        let Some(mut file) = self.metrics()? else { return Ok(None) };
        let mut has_failed = false;
        Ok(Some(Box::new(move |text| {
            if let Err(error) = file.replace(text)
                && !std::mem::replace(&mut has_failed, true)
            {
                tracing::error!("metrics: {error}");
            }
        })))
    }

    /// What observes a replay.
    ///
    /// # Errors
    /// Returns the errors of beginning the files.
    pub(super) fn of_replay(&self, replay: &Replay) -> Result<ReplayObserver> {
        let channels = replay.channels().map(|config| (config.name.clone(), Account::new()));
        Ok(ReplayObserver {
            channels: channels.collect(),
            metrics: self.metrics()?,
            due: Instant::now(),
            trace: self.trace()?,
        })
    }
}

impl TraceFile {
    /// Completes the file.
    ///
    /// # Errors
    /// `Io` when it could not be written.
    pub(super) fn finish(self) -> Result<()> {
        ToTrace::process().finish().map_err(|e| cannot_trace().with_source(e))?;
        self.0.publish()
    }
}

/// The metrics and the trace of a replay.
pub(super) struct ReplayObserver {
    /// Name and account of each channel.
    channels: Vec<(String, Account)>,
    metrics: Option<LiveFile>,
    /// When metrics are written next.
    due: Instant,
    trace: Option<TraceFile>,
}

impl ReplayObserver {
    /// Takes a frame.
    ///
    /// # Errors
    /// `Io` when the metrics cannot be written.
    pub(super) fn see(&mut self, frame: &ReplayFrame<'_>) -> Result<()> {
        if self.metrics.is_none() {
            return Ok(());
        }
        let (_, account) = &mut self.channels[frame.channel];
        // Frames that newer ones overtook are not passed on, but numbered.
        account.add_overtaken(frame.number.saturating_sub(account.frames_in()));
        match &frame.result {
            Ok(ReplayDetections { detections, report, degraded, .. }) => {
                account.add_served(report, detections.len());
                if let Some(error) = degraded {
                    account.add_degraded(error);
                }
            }
            Err(error) => {
                account.add_dropped(error, 1);
            }
        }
        let now = Instant::now();
        if now < self.due {
            return Ok(());
        }
        self.due = now + INTERVAL;
        self.write_metrics()
    }

    /// Completes the files.
    ///
    /// # Errors
    /// `Io` when one cannot be written.
    pub(super) fn finish(mut self) -> Result<()> {
        self.write_metrics()?;
        self.trace.take().map_or(Ok(()), TraceFile::finish)
    }

    fn write_metrics(&mut self) -> Result<()> {
        let Self { channels, metrics, .. } = self;
        let Some(file) = metrics else { return Ok(()) };
        let metrics = |(name, account)| ChannelMetrics { name, account, inputs: Vec::new() };
        let channels: Vec<_> =
            channels.iter().map(|(name, account)| metrics((name, account))).collect();
        file.replace(&to_prometheus(&channels))
    }
}

fn cannot_trace() -> Error {
    Error::new(ErrorKind::Io, "outputs", "cannot write the trace")
}
