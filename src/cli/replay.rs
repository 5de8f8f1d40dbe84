//! `det_post replay`: a recorded drive in, detections out.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::interrupt::Interrupt;
use super::observe::ObserveArguments;
use super::one_model::{self, OneModel};
use super::progress::Progress;
use super::ros_args::RosArguments;
use super::tally::{self, Tally};
use super::{ExitStatus, LikeArguments, stdout};
use crate::config::Config;
use crate::detectors::MAX_FRAMES_IN_FLIGHT;
use crate::replay::{
    LogTime, RESULTS, Rate, Replay, ReplayFiles, ReplayFrame, ReplayOptions, Report, Slice,
};
use det_post_ops::device::Device;
use det_post_ros::output_folder::{OutputFolder, Replaces};
use det_post_types::{DeviceChoice, Error, ErrorKind, Result};

/// Arguments of `det_post replay`.
#[derive(Debug, clap::Args)]
pub(super) struct ReplayArguments {
    /// A rosbag2 directory, an .mcap file or a .db3 file.
    bag: PathBuf,
    /// ROS 2 parameter files; later ones win.
    #[arg(short, long, value_name = "YAML")]
    config: Vec<PathBuf>,
    /// Overrides one parameter, as ROS does: -p camera.score_threshold:=0.4
    #[arg(short = 'p', long = "param", value_name = "KEY:=VALUE")]
    overrides: Vec<String>,
    #[command(flatten)]
    model: OneModel,
    #[command(flatten)]
    like: LikeArguments,
    /// Folder for detections.jsonl, detections/ (a recording), report.json and images/.
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where all channels run: auto, cpu, cuda:N or, placed on all GPUs, cuda:* (overrides every
    /// parameter `device`).
    #[arg(long)]
    device: Option<Devices>,
    /// Speed: `max` processes every message; with a factor (1.0 is real time) a channel that falls
    /// behind skips messages, as in a live node.
    #[arg(long, default_value = "max", value_parser = parse_rate)]
    rate: Rate,
    /// Frames of a channel in progress at once. With 2, a frame is uploaded to the GPU while the
    /// network runs on the frame before. With more, the network of a camera is loaded once for
    /// every two frames, and these instances run at once. The results are the same. The default is
    /// 2, or more for a long recording with few cameras on a GPU.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=MAX_FRAMES_IN_FLIGHT as i64))]
    frames_in_flight: Option<u8>,
    /// Replays from this log time on: seconds since the epoch, or +S after the recording's start.
    #[arg(long, value_name = "T")]
    from: Option<LogTime>,
    /// Replays up to this log time, exclusive.
    #[arg(long, value_name = "T")]
    to: Option<LogTime>,
    /// Seconds before --from whose frames are processed and not written. The default is what past
    /// sweeps and the memory of networks need: joined slices then equal a replay of the whole.
    #[arg(long, value_name = "S", requires = "from", value_parser = parse_warm_up)]
    warm_up: Option<Duration>,
    /// Ends after the first N frames of every channel, dropped ones included.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    frames: Option<u64>,
    /// Draws the first N frames of every channel, or all, into images/ (needs --out).
    #[arg(long, value_name = "N", default_value = "0", requires = "out", value_parser = parse_images)]
    images: u64,
    #[command(flatten)]
    pub(super) observe: ObserveArguments,
}

/// One device, or all GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Devices {
    One(DeviceChoice),
    AllGpus,
}

impl Devices {
    /// The device of each channel, `Auto` to be placed later, and the GPUs that were opened for it.
    ///
    /// # Errors
    /// `Device` for all GPUs where none is usable.
    fn choice(self) -> Result<(DeviceChoice, Vec<Device>)> {
        match self {
            Self::One(device) => Ok((device, Vec::new())),
            Self::AllGpus => {
                let mut gpus = Device::usable_gpus();
                // Without several, the only one.
                if gpus.is_empty() {
                    gpus.push(Device::open(DeviceChoice::Cuda(0))?);
                }
                Ok((DeviceChoice::Auto, gpus))
            }
        }
    }
}

impl FromStr for Devices {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "cuda:*" { Ok(Self::AllGpus) } else { text.parse().map(Self::One) }
    }
}

fn parse_rate(text: &str) -> std::result::Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    match text.parse() {
        Ok(factor) if factor > 0.0 && f64::is_finite(factor) => Ok(Rate::Factor(factor)),
        _ => Err("a rate is `max` or a number above 0".into()),
    }
}

/// A number of frames; `all` is the largest.
fn parse_images(text: &str) -> std::result::Result<u64, String> {
    if text == "all" {
        return Ok(u64::MAX);
    }
    text.parse().map_err(|_| "allowed: a number of frames, 0 or above, or `all`".into())
}

fn parse_warm_up(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "a warm-up is a number of seconds, 0 or above".into())
}

/// Replays as the command line says and prints the report.
pub(super) fn replay(arguments: &ReplayArguments, ros: &RosArguments) -> Result<ExitStatus> {
    let interrupt = Interrupt::listen()?;
    if let Some(out) = arguments.out.as_ref().filter(|out| out.exists() && !out.is_dir()) {
        let message = format!("cannot make {}: it is a file; allowed: a folder", out.display());
        return Err(Error::new(ErrorKind::Io, "outputs", message));
    }
    if arguments.out.as_ref().is_some_and(|out| is_same_folder(out, &arguments.bag)) {
        let message = format!(
            "--out {} is the folder of the recording; allowed: another folder",
            arguments.bag.display()
        );
        return Err(Error::new(ErrorKind::Usage, "outputs", message));
    }
    if let Some(out) = &arguments.out {
        OutputFolder::check(out, Replaces::These(RESULTS))?;
    }
    let mut config = configuration(arguments, ros)?;
    let mut gpus = Vec::new();
    if let Some(devices) = arguments.device {
        let choice;
        (choice, gpus) = devices.choice()?;
        config = config.with_device(choice)?;
    }
    let ReplayArguments { rate, from, to, warm_up, .. } = *arguments;
    let slice = Slice { from, to, warm_up };
    let options = ReplayOptions {
        rate,
        stop: interrupt.flag(),
        frames_in_flight: arguments.frames_in_flight.map(usize::from),
        slice,
        max_frames: arguments.frames,
        ..ReplayOptions::default()
    };
    let replay = Replay::open(&arguments.bag, &config, options)?;
    let span = replay.span();
    drop(gpus);
    let create = |out: &PathBuf| ReplayFiles::create(out, &replay, arguments.images);
    let mut files = arguments.out.as_ref().map(create).transpose()?;
    let mut observer = arguments.observe.of_replay(&replay)?;
    let (report, tally) = run_with(replay, |frame| {
        observer.see(frame)?;
        files.as_mut().map_or(Ok(()), |files| files.write(frame))
    })?;
    let mut wrote = tally::WROTE_NOTHING.to_owned();
    if let Some((files, out)) = files.zip(arguments.out.as_ref()) {
        wrote = tally::wrote(out, files.num_images());
        files.finish(&report)?;
    }
    observer.finish()?;
    let has_messages = report.read.num_messages > 0;
    if !has_messages {
        tracing::warn!("the recording, or the part of it, has no message of the channels' topics");
    }
    if let Some((first, last)) = span.filter(|span| !has_messages && slice.misses(*span))
        && !report.is_interrupted()
    {
        let seconds = (last.nanos() - first.nanos()) as f64 * 1e-9;
        let message = format!(
            "--from, --to: no time of the recording is in this part; it goes from {first} to {last}, {seconds:.3} s; \
             `--from +5` counts from its start"
        );
        return Err(Error::new(ErrorKind::Usage, "arguments", message));
    }
    let found = tally.to_text(rate == Rate::Max);
    if report.is_interrupted() {
        stdout::print(&format!("{}{found}", report.to_table()))?;
        return Ok(ExitStatus::Interrupted);
    }
    stdout::print(&format!("{}{found}{wrote}", report.to_table()))?;
    if let Some(hint) = tally::faster(&report) {
        tracing::info!("{hint}");
    }
    let is_without_output = report.is_without_output();
    if is_without_output {
        tracing::error!("no frame could be used; the report has the reasons");
    }
    Ok(match (report.is_damaged(), is_without_output) {
        (true, _) => ExitStatus::Damaged,
        (false, true) => ExitStatus::Failed,
        (false, false) => ExitStatus::Done,
    })
}

/// The configuration of files and overrides, or of one network.
///
/// # Errors
/// `Config` for those; `Usage`, naming the recording's topics, where there are none.
fn configuration(arguments: &ReplayArguments, ros: &RosArguments) -> Result<Config> {
    let ReplayArguments { bag, config, overrides, model, like, .. } = arguments;
    let has_none = config.is_empty() && overrides.is_empty() && ros.is_empty();
    if has_none && !model.is_given() {
        return Err(one_model::advice(bag)?);
    }
    let all = [model.overrides(bag)?, overrides.clone()].concat();
    let loaded = like.load(config, &all, ros).map_err(|error| model.with_name(error, overrides))?;
    Ok(loaded.with_topics(&ros.remaps))
}

fn is_same_folder(a: &Path, b: &Path) -> bool {
    let canonical = |path: &Path| path.canonicalize().ok().filter(|path| path.is_dir());
    canonical(a).is_some_and(|a| Some(a) == canonical(b))
}

/// Runs a replay and shows its progress; also counts what is found.
///
/// # Errors
/// Returns the errors of [`Replay::run`] and `on_frame`.
pub(super) fn run_with(
    replay: Replay,
    mut on_frame: impl FnMut(&ReplayFrame<'_>) -> Result<()> + Send,
) -> Result<(Report, Tally)> {
    let progress = Progress::new(replay.num_messages(), "messages");
    let mut tally = Tally::start();
    let report = replay.run(|frame| {
        progress.set(frame.num_messages_read);
        tally.see(frame);
        on_frame(frame)
    })?;
    tally.stop();
    Ok((report, tally))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_one_or_all_gpus() {
        assert_eq!("cuda:*".parse::<Devices>().unwrap(), Devices::AllGpus);
        assert_eq!("cuda:1".parse::<Devices>().unwrap(), Devices::One(DeviceChoice::Cuda(1)));
        assert!("cuda:**".parse::<Devices>().is_err());
        let is_there = Device::open(DeviceChoice::Cuda(0)).is_ok();
        assert_eq!(Devices::AllGpus.choice().is_ok(), is_there);
    }

    #[test]
    fn images_are_a_number_or_all() {
        assert_eq!(parse_images("3"), Ok(3));
        assert_eq!(parse_images("all"), Ok(u64::MAX));
        for wrong in ["-1", "ALL", "1.5", ""] {
            assert!(parse_images(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_max_or_above_zero() {
        assert_eq!(parse_rate("max"), Ok(Rate::Max));
        assert_eq!(parse_rate("0.5"), Ok(Rate::Factor(0.5)));
        for wrong in ["0", "-1", "nan", "inf", "fast", ""] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
