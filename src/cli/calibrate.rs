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
use det_post_ops::view::map_statistics::{LevelStatistics, ScaleError, ScaleMethod};
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
    /// How the scale of a level is found: by percentile, entropy or cosine, or by whichever of them has the
    /// least relative error over the recording.
    #[arg(long, default_value = "auto")]
    method: Method,
    /// Of the method percentile: percentage of the values of a level that its integers reach; 100 is the
    /// largest value.
    #[arg(long, default_value_t = 99.99, value_parser = parse_percentile)]
    percentile: f64,
}

/// How scales are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Method {
    /// The least error of the others.
    Auto,
    /// Integers reach a share of the values.
    Percentile,
    /// The histogram of the integers diverges least.
    Entropy,
    /// Integers and values have the smallest angle.
    Cosine,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Percentile => "percentile",
            Self::Entropy => "entropy",
            Self::Cosine => "cosine",
        }
    }
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
    let text = parameters(&statistics, arguments)?;
    match &arguments.out {
        None => stdout::print(&text).map(drop)?,
        Some(path) => {
            write_file(path, &text)?;
            let table = text.lines().filter_map(|line| line.strip_prefix("# ")).skip(1);
            stdout::print(&(table.collect::<Vec<_>>().join("\n") + "\n")).map(drop)?;
        }
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

/// A scale of a level, and what it does.
struct Found {
    method: Method,
    scale: f32,
    error: ScaleError,
}

/// The scales of a level by all methods that are asked for; the first has the least relative error.
fn scales_of(level: &LevelStatistics, arguments: &CalibrateArguments) -> Vec<Found> {
    let methods = match arguments.method {
        Method::Auto => &[Method::Percentile, Method::Entropy, Method::Cosine][..],
        ref one => std::slice::from_ref(one),
    };
    let found = methods.iter().filter_map(|&method| {
        let scale = level.scale(match method {
            Method::Entropy => ScaleMethod::Entropy,
            Method::Cosine => ScaleMethod::Cosine,
            Method::Auto | Method::Percentile => {
                ScaleMethod::Percentile(arguments.percentile / 100.0)
            }
        })?;
        Some(Found { method, scale, error: level.error(scale) })
    });
    let mut found: Vec<Found> = found.collect();
    // Stable: of equal errors the method that is listed first.
    found.sort_by(|a, b| a.error.relative.total_cmp(&b.error.relative));
    found
}

/// The parameter file, with a table of all scales as comments.
///
/// # Errors
/// `Argument` when a channel had no frame, or a level holds only zeros.
fn parameters(statistics: &[(String, Shared)], arguments: &CalibrateArguments) -> Result<String> {
    let mut table =
        "# Scales of int8 feature maps, by `det_post calibrate`. The error is the root of the sum \
                     of squared differences as a share of the values'.\n"
            .to_owned();
    let mut body = String::new();
    for (name, shared) in statistics {
        let statistics = shared.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "# channel {name}: {} frames\n# {:>5} {:<12} {:>12} {:>10} {:>9} {:>9}",
            statistics.num_frames(),
            "level",
            "method",
            "scale",
            "error",
            "cosine",
            "clipped"
        );
        let mut scales = Vec::new();
        for (index, level) in statistics.levels().iter().enumerate() {
            let found = scales_of(level, arguments);
            let Some(best) = found.first() else {
                let message = format!("channel {name}: level {index} holds only zeros");
                return Err(Error::new(ErrorKind::Argument, "calibrate", message));
            };
            scales.push(best.scale);
            for (place, Found { method, scale, error }) in found.iter().enumerate() {
                let _ = writeln!(
                    table,
                    "# {index:>5} {:<12} {scale:>12.7} {:>8.4} % {:>9.6} {:>7.4} %{}",
                    method.name(),
                    100.0 * error.relative,
                    error.cosine,
                    100.0 * error.clipped,
                    if place == 0 { "  *" } else { "" }
                );
            }
            if level.num_not_finite() > 0 {
                let num = level.num_not_finite();
                let _ = writeln!(table, "# {index:>5} {num} values are not finite and not counted");
            }
        }
        if scales.is_empty() {
            let message = format!("channel {name}: no frame was complete");
            return Err(Error::new(ErrorKind::Argument, "calibrate", message));
        }
        let _ = writeln!(body, "    {name}:\n      decoder:\n        map_scales: {scales:?}");
    }
    Ok(table + "/**:\n  ros__parameters:\n" + &body)
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
