//! `det_post run`: the live node.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::ExitStatus;
use super::interrupt::Interrupt;
use super::ros_args::RosArguments;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::node::{Change, LiveNode};
use crate::ros::LifecycleState;
use crate::transport::door::{Door, DoorOptions};
use crate::types::DeviceChoice;

/// How long the frame in flight has to finish once the node is to stop.
const STOP_PATIENCE: Duration = Duration::from_millis(800);

/// How often it is looked whether the node is to stop.
const POLL: Duration = Duration::from_millis(20);

/// Arguments of `det_post run`.
#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    /// ROS 2 parameter files; later ones win.
    #[arg(short, long, value_name = "YAML", num_args = 1..)]
    config: Vec<PathBuf>,
    /// Overrides one parameter, as ROS does: -p camera.score_threshold:=0.4
    #[arg(short = 'p', long = "param", value_name = "KEY:=VALUE")]
    overrides: Vec<String>,
    /// Where all channels run: auto, cpu or cuda:N (overrides every parameter `device`).
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// The way into the ROS graph: ros2 needs ROS 2 installed, dds does not. [default: ros2 where
    /// the build has it, else dds]
    #[arg(long, value_name = "DOOR")]
    door: Option<DoorChoice>,
}

/// The ways into the ROS graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DoorChoice {
    /// Through the ROS 2 client library.
    Ros2,
    /// Straight over DDS.
    Dds,
}

/// Runs the node until it is told to stop or shut down.
pub(super) fn run(arguments: &RunArguments, ros: &RosArguments) -> Result<ExitStatus> {
    let node = ros.node()?;
    let files = [&arguments.config[..], &ros.params_files[..]].concat();
    let overrides = [&arguments.overrides[..], &ros.overrides[..]].concat();
    let mut config = Config::load_for(&node, &files, &overrides)?;
    if let Some(device) = arguments.device {
        config = config.with_device(device)?;
    }
    let starts_itself = config.autostart;

    let interrupt = Interrupt::listen()?;
    let door = open_door(arguments.door, DoorOptions { node, remaps: ros.remaps.clone() })?;
    tracing::info!("{} joins the graph through {}", config.node.full(), door.name());
    let live = Arc::new(LiveNode::open(config, door)?);
    let started = start(&live, starts_itself)?;
    loop {
        if interrupt.is_set() {
            break;
        }
        match started.recv_timeout(POLL) {
            Ok(result) => result?,
            Err(RecvTimeoutError::Timeout) => {}
            // The start is over: nothing more will come from it.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL),
        }
        if live.state() == LifecycleState::Finalized {
            return Ok(ExitStatus::Done);
        }
    }
    if let Err(error) = live.shut_down(STOP_PATIENCE) {
        tracing::warn!("stopping all the same: {error}");
    }
    Ok(ExitStatus::Done)
}

/// Configures and activates beside this thread, which goes on listening for
/// signals.
fn start(live: &Arc<LiveNode>, starts_itself: bool) -> Result<mpsc::Receiver<Result<()>>> {
    let (told, started) = mpsc::channel();
    if !starts_itself {
        tracing::info!("autostart is false: waiting for change_state");
        return Ok(started);
    }
    let live = Arc::clone(live);
    let run = move || {
        let result = live.change(Change::Configure).and_then(|()| live.change(Change::Activate));
        // Nobody listens only when the node stops already.
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
/// `Usage` when that door is not in this build, `Door` when it cannot join.
fn open_door(choice: Option<DoorChoice>, options: DoorOptions) -> Result<Box<dyn Door>> {
    let default = if cfg!(feature = "ros2") { DoorChoice::Ros2 } else { DoorChoice::Dds };
    match choice.unwrap_or(default) {
        DoorChoice::Ros2 => ros2_door(options),
        DoorChoice::Dds => dds_door(options),
    }
}

#[cfg(feature = "ros2")]
fn ros2_door(options: DoorOptions) -> Result<Box<dyn Door>> {
    Ok(Box::new(crate::transport::ros2::RosDoor::open(options)?))
}

#[cfg(not(feature = "ros2"))]
fn ros2_door(_: DoorOptions) -> Result<Box<dyn Door>> {
    Err(no_door("ros2"))
}

#[cfg(feature = "dds")]
fn dds_door(options: DoorOptions) -> Result<Box<dyn Door>> {
    use crate::transport::dds::{DdsDoor, DdsSettings};
    Ok(Box::new(DdsDoor::open(options, &DdsSettings::from_environment()?)?))
}

#[cfg(not(feature = "dds"))]
fn dds_door(_: DoorOptions) -> Result<Box<dyn Door>> {
    Err(no_door("dds"))
}

/// What to say of a door that was left out; its feature has its name.
#[cfg(not(all(feature = "ros2", feature = "dds")))]
fn no_door(name: &str) -> Error {
    let message = format!("this build has no door {name}; build it with --features {name}");
    Error::new(ErrorKind::Usage, "run", message)
}
