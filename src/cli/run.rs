//! `det_post run`: the live node.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::interrupt::Interrupt;
use super::observe::{ObserveArguments, TraceFile};
use super::one_model::OneModel;
use super::ros_args::RosArguments;
use super::{ExitStatus, LikeArguments};
use crate::config::{Config, Like};
use crate::detectors;
use crate::node::{Change, LiveNode, LiveOptions};
use det_post_ops::device::Device;
use det_post_ros::LifecycleState;
use det_post_ros::middleware::{Middleware, MiddlewareOptions};
use det_post_types::{DeviceChoice, Error, ErrorKind, Result};

/// Time for the frame in progress to finish once the node is to stop.
const STOP_PATIENCE: Duration = Duration::from_millis(800);

/// Interval at which requests to stop are checked.
const POLL: Duration = Duration::from_millis(20);

/// Arguments of `det_post run`.
#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
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
    /// Where all channels run: auto, cpu or cuda:N (overrides every parameter `device`).
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// The middleware of the ROS graph: ros2 needs ROS 2 installed, dds does not. [default: ros2
    /// where the build has it, else dds]
    #[arg(long, value_name = "MIDDLEWARE")]
    middleware: Option<MiddlewareChoice>,
    #[command(flatten)]
    pub(super) observe: ObserveArguments,
}

/// The middlewares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum MiddlewareChoice {
    /// Through the ROS 2 client library.
    #[cfg_attr(feature = "ros2", default)]
    Ros2,
    /// Straight over DDS.
    #[cfg_attr(not(feature = "ros2"), default)]
    Dds,
}

/// The level of the node's log, `None` for the default, and the name of its logger; neither where the
/// node's name is refused later.
pub(super) fn log_settings(
    arguments: &RunArguments,
    ros: &RosArguments,
) -> (Option<&'static str>, Option<String>) {
    let node = arguments.like.or_by_program().node().and_then(|default| ros.remaps.node(&default));
    let Ok(node) = node else { return (None, None) };
    let logger = node.full().trim_start_matches('/').replace('/', ".");
    (ros.log_level(&node), Some(logger))
}

/// Runs the node until a signal or a shutdown transition.
pub(super) fn run(arguments: &RunArguments, ros: &RosArguments) -> Result<ExitStatus> {
    let like = arguments.like.or_by_program();
    let default = like.node()?;
    let node = ros.remaps.node(&default)?;
    let choice = arguments.middleware.unwrap_or_default();
    let has_security = choice == MiddlewareChoice::Ros2;
    for sentence in ros.without_effect(&default, &node, has_security) {
        tracing::warn!("--ros-args: {sentence}");
    }
    let of_model = arguments.model.live_overrides()?;
    let overrides = [&of_model[..], &arguments.overrides[..]].concat();
    let source = like.source(&arguments.config, &overrides, ros);
    let mut config = Config::read(&node, &source)
        .map_err(|error| arguments.model.with_name(error, &arguments.overrides))?;
    if let Some(device) = arguments.device {
        config = config.with_device(device)?;
    }
    let devices: Vec<_> = config.channels.iter().map(|channel| channel.device).collect();
    if config.like.as_ref().is_some_and(Like::is_build_only) {
        return status_of(build(&config), &devices);
    }
    let starts_itself = config.autostart;

    let interrupt = Interrupt::listen()?;
    let (trace, on_metrics) = (arguments.observe.trace()?, arguments.observe.on_metrics()?);
    let middleware =
        open_middleware(choice, MiddlewareOptions { node, remaps: ros.remaps.clone() })?;
    tracing::info!("{} joins the graph through {}", config.node.full(), middleware.name());
    let options = LiveOptions { on_metrics, ..LiveOptions::default() };
    let live = Arc::new(LiveNode::with_options(config, middleware, options)?);
    let served = serve(&live, starts_itself, &interrupt);
    // The last metrics are written when it is gone.
    drop(live);
    trace.map_or(Ok(()), TraceFile::finish)?;
    status_of(served, &devices)
}

/// The exit status of a start on these devices. What a restart would meet again, such as a network
/// that does not load or a GPU that the machine does not have, is [`ExitStatus::Usage`]:
/// supervisors do not start the node again.
fn status_of(started: Result<()>, devices: &[DeviceChoice]) -> Result<ExitStatus> {
    let Err(error) = started else { return Ok(ExitStatus::Done) };
    let meets_again = match error.kind() {
        ErrorKind::Device => devices.iter().any(|&device| Device::check_present(device).is_err()),
        _ => false,
    };
    if !meets_again {
        return Err(error);
    }
    tracing::error!("{error}");
    Ok(ExitStatus::Usage)
}

/// Starts the node and waits for a signal or for its end.
fn serve(live: &Arc<LiveNode>, starts_itself: bool, interrupt: &Interrupt) -> Result<()> {
    let started = start(live, starts_itself)?;
    loop {
        if interrupt.is_set() {
            break;
        }
        match started.recv_timeout(POLL) {
            Ok(result) => result?,
            Err(RecvTimeoutError::Timeout) => {}
            // The start is complete: no further result follows.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL),
        }
        if live.state() == LifecycleState::Finalized {
            return Ok(());
        }
    }
    if let Err(error) = live.shut_down(STOP_PATIENCE) {
        tracing::warn!("stopping all the same: {error}");
    }
    Ok(())
}

/// Loads the networks of all channels and runs each once, as `build_only` asks for.
fn build(config: &Config) -> Result<()> {
    for channel in &config.channels {
        detectors::open(channel, channel.device)?.warm_up()?;
        tracing::info!("{}: the networks are loaded and were run once", channel.name);
    }
    Ok(())
}

/// Configures and activates in a separate thread, while this one waits for signals.
fn start(live: &Arc<LiveNode>, starts_itself: bool) -> Result<mpsc::Receiver<Result<()>>> {
    let (told, started) = mpsc::channel();
    if !starts_itself {
        tracing::info!("autostart is false: waiting for change_state");
        return Ok(started);
    }
    let live = Arc::clone(live);
    let run = move || {
        let result = live.change(Change::Configure).and_then(|()| live.change(Change::Activate));
        // There is no receiver when the node stops already.
        let _ = told.send(result);
    };
    std::thread::Builder::new()
        .name("start".into())
        .spawn(run)
        .map_err(|e| Error::new(ErrorKind::Io, "run", "no thread").with_source(e))?;
    Ok(started)
}

/// Joins the graph.
///
/// # Errors
/// `Usage` when that middleware is not in this build, `Middleware` when it cannot join.
fn open_middleware(
    choice: MiddlewareChoice,
    options: MiddlewareOptions,
) -> Result<Box<dyn Middleware>> {
    match choice {
        MiddlewareChoice::Ros2 => ros2_middleware(options),
        MiddlewareChoice::Dds => dds_middleware(options),
    }
}

#[cfg(feature = "ros2")]
fn ros2_middleware(options: MiddlewareOptions) -> Result<Box<dyn Middleware>> {
    Ok(Box::new(det_post_ros::ros2::RosMiddleware::open(options)?))
}

#[cfg(not(feature = "ros2"))]
fn ros2_middleware(_: MiddlewareOptions) -> Result<Box<dyn Middleware>> {
    Err(no_middleware("ros2"))
}

#[cfg(feature = "dds")]
fn dds_middleware(options: MiddlewareOptions) -> Result<Box<dyn Middleware>> {
    use det_post_ros::dds::{DdsMiddleware, DdsSettings};
    Ok(Box::new(DdsMiddleware::open(options, &DdsSettings::from_environment()?)?))
}

#[cfg(not(feature = "dds"))]
fn dds_middleware(_: MiddlewareOptions) -> Result<Box<dyn Middleware>> {
    Err(no_middleware("dds"))
}

/// The error of a middleware that this build lacks; its feature has its name.
#[cfg(not(all(feature = "ros2", feature = "dds")))]
fn no_middleware(name: &str) -> Error {
    let message = format!("this build has no middleware {name}; build it with --features {name}");
    Error::new(ErrorKind::Usage, "run", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_restart_would_meet_again_is_code_2() {
        let missing = DeviceChoice::Cuda(999);
        for (kind, device, expected) in [
            (ErrorKind::Model, DeviceChoice::Cpu, ExitStatus::Usage),
            (ErrorKind::Config, DeviceChoice::Cpu, ExitStatus::Usage),
            (ErrorKind::Device, missing, ExitStatus::Usage),
            // Of a device that is there: its memory may be free later.
            (ErrorKind::Device, DeviceChoice::Cpu, ExitStatus::Failed),
            (ErrorKind::DeviceLost, missing, ExitStatus::Failed),
            (ErrorKind::Middleware, missing, ExitStatus::Failed),
            (ErrorKind::Memory, DeviceChoice::Cpu, ExitStatus::Failed),
        ] {
            let error = Error::new(kind, "test", "no");
            let status = status_of(Err(error), &[DeviceChoice::Auto, device]);
            let status = status.unwrap_or_else(|error| ExitStatus::from(&error));
            assert_eq!(status, expected, "{kind:?} {device}");
        }
        assert_eq!(status_of(Ok(()), &[missing]).unwrap(), ExitStatus::Done);
    }
}
