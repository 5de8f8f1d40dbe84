//! `det_post calibrate`: scales of int8 feature maps from a recording.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::interrupt::Interrupt;
use super::progress::Progress;
use super::{ExitStatus, stdout};
use crate::config::{ChannelConfig, ChannelKind, Config, SurroundDecoder};
use crate::detectors::Detector;
use crate::detectors::surround::{self, MapStatistics};
use crate::replay::{Replay, ReplayOptions};
use det_post_ros::output_folder::{check_file, write_file};
use det_post_types::{Error, ErrorKind, Result, ViewPrecision};

/// Arguments of `det_post calibrate`.
#[derive(Debug, clap::Args)]
pub(super) struct CalibrateArguments {
    /// A recording, as for `det_post replay`.
    bag: PathBuf,
    /// ROS 2 parameter files; later ones win.
    #[arg(short, long, value_name = "YAML")]
    config: Vec<PathBuf>,
    /// Overrides one parameter, as ROS does: -p rig.head:=head.yaml
    #[arg(short = 'p', long = "param", value_name = "KEY:=VALUE")]
    overrides: Vec<String>,
    /// Writes the parameter file here instead of to stdout; replaces only a file of det_post.
    #[arg(short, long, value_name = "YAML")]
    out: Option<PathBuf>,
    /// Percentage of the values of a level that its integers reach; 100 is the largest value.
    #[arg(long, default_value_t = 99.99, value_parser = parse_percentile)]
    percentile: f64,
}

fn parse_percentile(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(percentile) if percentile > 50.0 && percentile <= 100.0 => Ok(percentile),
        _ => Err("a percentile is a number above 50 and at most 100".into()),
    }
}

/// The statistics of a channel, shared with its detector.
type Shared = Arc<Mutex<MapStatistics>>;

/// Measures the feature maps of all channels with heads of kind `detr3d` or `sparse4d`.
pub(super) fn calibrate(arguments: &CalibrateArguments) -> Result<ExitStatus> {
    let interrupt = Interrupt::listen()?;
    let mut config = Config::load(&arguments.config, &arguments.overrides)?;
    config.channels.retain_mut(has_maps);
    if config.channels.is_empty() {
        let message = "no channel has a head of kind detr3d or sparse4d";
        return Err(Error::new(ErrorKind::Config, "calibrate", message));
    }
    if let Some(path) = &arguments.out {
        check_file(path)?;
    }
    let statistics: Arc<Vec<(String, Shared)>> =
        Arc::new(config.channels.iter().map(|c| (c.name.clone(), Shared::default())).collect());
    let shared = Arc::clone(&statistics);
    let options = ReplayOptions {
        stop: interrupt.flag(),
        factory: Arc::new(move |channel, _| open(channel, &shared)),
        ..ReplayOptions::default()
    };
    let replay = Replay::open(&arguments.bag, &config, options)?;
    let progress = Progress::new(replay.num_messages(), "messages");
    let report = replay.run(|frame| {
        progress.set(frame.num_messages_read);
        Ok(())
    })?;
    if report.is_interrupted() {
        return Ok(ExitStatus::Interrupted);
    }
    let text = parameters(&statistics, arguments.percentile)?;
    match &arguments.out {
        None => stdout::print(&text).map(drop)?,
        Some(path) => write_file(path, &text)?,
    }
    Ok(if report.is_damaged() { ExitStatus::Damaged } else { ExitStatus::Done })
}

/// Whether a channel has feature maps to measure, which are then not those of other scales.
fn has_maps(channel: &mut ChannelConfig) -> bool {
    let ChannelKind::Surround(config) = &mut channel.kind else { return false };
    let SurroundDecoder::Views { precision, map_scales, .. } = &mut config.decoder else {
        return false;
    };
    (*precision, *map_scales) = (ViewPrecision::F32, None);
    true
}

/// A detector that measures.
fn open(channel: &ChannelConfig, statistics: &[(String, Shared)]) -> Result<Box<dyn Detector>> {
    let of_channel = statistics.iter().find(|(name, _)| *name == channel.name);
    let (ChannelKind::Surround(config), Some((_, shared))) = (&channel.kind, of_channel) else {
        let message = format!("channel {} has no feature maps", channel.name);
        return Err(Error::new(ErrorKind::Argument, "calibrate", message));
    };
    let mut detector = surround::CpuDetector::load(config, channel.inputs.len())?;
    detector.measure_maps(Arc::clone(shared))?;
    Ok(Box::new(detector))
}

/// The parameter file.
///
/// # Errors
/// `Argument` when a channel had no frame, or a level holds only zeros.
fn parameters(statistics: &[(String, Shared)], percentile: f64) -> Result<String> {
    let mut text = "# Scales of int8 feature maps, by `det_post calibrate`.\n/**:\n  \
                    ros__parameters:\n"
        .to_owned();
    for (name, shared) in statistics {
        let statistics = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let num_frames = statistics.num_frames();
        let mut scales = Vec::new();
        for (index, level) in statistics.levels().iter().enumerate() {
            let largest = level.max();
            let reached = level.quantile(percentile / 100.0);
            tracing::info!(
                "channel {name}, level {index}: {num_frames} frames, largest value {largest}, \
                 {percentile} % within {reached}, {} not finite",
                level.num_not_finite()
            );
            let scale = level.scale(percentile / 100.0).ok_or_else(|| {
                let message = format!("channel {name}: level {index} holds only zeros");
                Error::new(ErrorKind::Argument, "calibrate", message)
            })?;
            scales.push(scale);
        }
        if scales.is_empty() {
            let message = format!("channel {name}: no frame was complete");
            return Err(Error::new(ErrorKind::Argument, "calibrate", message));
        }
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "    # {num_frames} frames, {percentile} % of the values of each level.\n    \
             {name}:\n      decoder:\n        map_scales: {scales:?}"
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_above_the_median() {
        assert_eq!(parse_percentile("99.99"), Ok(99.99));
        assert_eq!(parse_percentile("100"), Ok(100.0));
        for wrong in ["50", "100.1", "nan", "-1", ""] {
            assert!(parse_percentile(wrong).is_err(), "{wrong}");
        }
    }
}
