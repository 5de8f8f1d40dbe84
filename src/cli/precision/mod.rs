//! `det_post check --compare-precision`: whether networks may run in 16-bit floats, on a recording.

mod matching;
mod parts;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::interrupt::Interrupt;
use super::progress::Progress;
use super::{ExitStatus, stdout};
use crate::config::{ChannelConfig, ChannelKind, Config};
use crate::detectors;
use crate::replay::{Replay, ReplayOptions};
use det_post_infer::dense::Precision;
use det_post_types::{
    EngineKind, EngineOptions, Error, ErrorKind, LayerStudy, Provider, Result, StudiedNetwork,
};
use matching::{Found, Matches};
use report::{ChannelReport, Report};

/// What to compare.
#[derive(Debug, clap::Args)]
pub(super) struct PrecisionArguments {
    /// Runs the channels' networks over this recording with 32-bit and with 16-bit floats, in the layers of the
    /// engine cuda, and compares detections and the range of every layer. Exit code 0 where 16-bit floats hold, else 1.
    /// Without a GPU the CPU computes the same layers, slowly.
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["encoder", "network"])]
    compare_precision: Option<PathBuf>,
    /// Frames of every channel that are compared.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "compare_precision",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    frames: u64,
}

impl PrecisionArguments {
    /// The recording to compare on.
    pub(super) fn recording(&self) -> Option<&Path> {
        self.compare_precision.as_deref()
    }
}

/// What one channel gave in one precision.
#[derive(Default)]
struct Run {
    /// By frame; absent where the frame was dropped.
    frames: BTreeMap<u64, Vec<Found>>,
    networks: Vec<StudiedNetwork>,
}

/// Runs both precisions and prints what differs.
///
/// # Errors
/// `Config` for a channel whose network runs elsewhere; the errors of a replay; `Model` for a network that the engine cuda
/// does not cover and for a name of `engine.keep_f32` that it does not have.
pub(super) fn compare(
    arguments: &PrecisionArguments,
    recording: &Path,
    config: &Config,
    as_json: bool,
) -> Result<ExitStatus> {
    let interrupt = Interrupt::listen()?;
    let mut runs = Vec::new();
    for precision in [Precision::F32, Precision::F16] {
        match run(recording, config, precision, arguments.frames, &interrupt)? {
            Some(found) => runs.push(found),
            None => return Ok(ExitStatus::Interrupted),
        }
    }
    let mut report = Report::default();
    for channel in &config.channels {
        let [Some(wide), Some(half)] = [0, 1].map(|at: usize| runs[at].remove(&channel.name))
        else {
            continue;
        };
        report.channels.push(compared(channel, &wide, &half));
    }
    let text = if as_json { report.to_json()? } else { report.to_text() };
    stdout::print(&text)?;
    Ok(if report.holds() { ExitStatus::Done } else { ExitStatus::Failed })
}

/// Detections and layers of all channels; `None` when it was interrupted.
fn run(
    recording: &Path,
    config: &Config,
    precision: Precision,
    max_frames: u64,
    interrupt: &Interrupt,
) -> Result<Option<BTreeMap<String, Run>>> {
    let mut config = config.clone();
    let mut studies = BTreeMap::new();
    for channel in &mut config.channels {
        let study = LayerStudy::default();
        prepare(channel, precision, &study)?;
        studies.insert(channel.name.clone(), study);
    }
    let options = ReplayOptions {
        stop: interrupt.flag(),
        factory: Arc::new(detectors::open),
        max_frames: Some(max_frames),
        ..ReplayOptions::default()
    };
    let replay = Replay::open(recording, &config, options)?;
    let names: Vec<String> = replay.channels().map(|channel| channel.name.clone()).collect();
    let runs: Mutex<BTreeMap<String, Run>> = Mutex::default();
    let refused: Mutex<BTreeMap<String, Error>> = Mutex::default();
    let progress = Progress::new(replay.num_messages(), "messages");
    let report = replay.run(|frame| {
        progress.set(frame.num_messages_read);
        let name = frame.config.name.clone();
        match &frame.result {
            Ok(found) => {
                let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
                let frames = &mut runs.entry(name).or_default().frames;
                frames.insert(frame.number, matching::found(&found.detections));
            }
            Err(error) => {
                let again = || Error::new(error.kind(), error.stage(), error.message().to_owned());
                let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.entry(name).or_insert_with(again);
            }
        }
        Ok(())
    })?;
    if report.is_interrupted() {
        return Ok(None);
    }
    let mut runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let refused = refused.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((name, error)) = refused.into_iter().find(|(name, _)| !runs.contains_key(name)) {
        return Err(error.within(&name));
    }
    for name in names {
        let run = runs.entry(name.clone()).or_default();
        run.networks = studies.get(&name).map(LayerStudy::networks).unwrap_or_default();
    }
    Ok(Some(runs))
}

/// The channel with its networks in layers of the engine cuda, under study.
fn prepare(channel: &mut ChannelConfig, precision: Precision, study: &LayerStudy) -> Result<()> {
    let name = channel.name.clone();
    let engine: &mut EngineOptions = match &mut channel.kind {
        ChannelKind::Camera(camera) => &mut camera.engine,
        ChannelKind::Lidar(lidar) => &mut lidar.engine,
        ChannelKind::Surround(surround) => &mut surround.engine,
    };
    if engine.kind == EngineKind::External {
        let message = format!("channel {name}: its network runs elsewhere (engine.kind external)");
        return Err(Error::new(ErrorKind::Config, "compare-precision", message));
    }
    engine.kind = EngineKind::Cuda;
    (engine.library, engine.gpu.provider) = (None, Provider::Auto);
    (engine.gpu.tf32, engine.gpu.fp16) = (precision == Precision::F16, false);
    engine.study = Some(study.clone());
    channel.is_isolated = false;
    Ok(())
}

fn compared(channel: &ChannelConfig, wide: &Run, half: &Run) -> ChannelReport {
    let mut matches = Matches::new(channel.kind.lowest_score_threshold());
    let numbers = wide.frames.keys().chain(half.frames.keys());
    for number in numbers.copied().collect::<std::collections::BTreeSet<u64>>() {
        match (wide.frames.get(&number), half.frames.get(&number)) {
            (Some(wide), Some(half)) => matches.add(wide, half),
            _ => matches.num_dropped_once += 1,
        }
    }
    ChannelReport::new(&channel.name, &wide.networks, &half.networks, matches)
}
