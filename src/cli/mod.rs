//! The program's commands: arguments in, exit codes out.
//!
//! Exit codes are those of [`ExitStatus`]. Results go to stdout, logs and progress to stderr.

mod bench;
mod calibrate;
mod check;
mod completions;
mod console_format;
mod demo;
mod eval;
mod examples;
mod exit;
mod fingerprint;
mod heap;
mod inspect;
mod interrupt;
mod like;
mod live_file;
mod local_time;
mod man;
mod migrate;
mod observe;
mod one_model;
mod open_files;
mod outputs;
mod precision;
mod progress;
mod replay;
mod ros_args;
mod run;
mod simulate;
mod stdout;
mod tally;
mod telemetry;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use exit::ExitStatus;
use like::LikeArguments;
use ros_args::{RosArguments, not_utf8};
use telemetry::Sinks;

use crate::detectors;
use crate::runtime::isolated;
use det_post_ros::bag::MemoryBudget;
use det_post_types::{Error, ErrorKind, Result};

/// Where `--help` lists the options of all commands.
const GLOBAL: &str = "Global options";

/// Detection for ROS 2: images and point clouds in, detection arrays out.
#[derive(Debug, Parser)]
#[command(version, about, after_help = examples::help(""))]
struct Arguments {
    /// Memory limit for reading recordings, in MiB: decompressed chunks and lists of messages.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "MIB", default_value_t = 1024)]
    recording_memory_mib: usize,
    /// Logs warnings and errors only.
    #[arg(short, long, global = true, help_heading = GLOBAL, conflicts_with = "verbose")]
    quiet: bool,
    /// Logs debug messages, too. RUST_LOG selects levels by module: RUST_LOG=warn,det_post::replay=debug
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

/// The order is that in which someone new needs them.
#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the whole pipeline on a simulated drive: detects, evaluates, draws.
    #[command(after_help = examples::help("demo"))]
    Demo(demo::DemoArguments),
    /// Lists what a recording holds: topics, types, counts, rates, layouts, encodings.
    #[command(after_help = examples::help("inspect"))]
    Inspect {
        /// A rosbag2 directory, an .mcap file or a .db3 file.
        bag: PathBuf,
    },
    /// Checks parameter files and prints the effective configuration; of an ONNX file, its tensors and
    /// the heads that fit; of a head file, its facts; of a sparse encoder, its layers.
    #[command(after_help = examples::help("check"))]
    Check(check::CheckArguments),
    /// Runs a recording through a network or the configured channels, and writes the detections.
    #[command(after_help = examples::help("replay"))]
    Replay(replay::ReplayArguments),
    /// Compares detections with truth: AP, errors and calibration, per class and distance.
    #[command(after_help = examples::help("eval"))]
    Eval(eval::EvalArguments),
    /// Runs as a ROS 2 node that publishes detections on `/det_post/CHANNEL/detections`, markers and
    /// debug images below it, and `/diagnostics`; `det_post --ros-args …` without a command is the same.
    #[command(after_help = examples::help("run"))]
    Run(run::RunArguments),
    /// Simulates a drive with ground truth and writes it as a recording.
    #[command(after_help = examples::help("simulate"))]
    Simulate(simulate::SimulateArguments),
    /// Benchmarks operations, copies and whole frames on this machine.
    #[command(after_help = examples::help("bench"))]
    Bench(bench::BenchArguments),
    /// Converts parameter files of Autoware, Isaac ROS and yolo_ros: YAML on stdout, a report of
    /// each parameter on stderr.
    #[command(after_help = examples::help("migrate"))]
    Migrate(migrate::MigrateArguments),
    /// Finds the scales of int8 feature maps of surround channels over a recording, and writes
    /// them as a parameter file.
    #[command(after_help = examples::help("calibrate"))]
    Calibrate(calibrate::CalibrateArguments),
    /// Prints the completions of a shell.
    #[command(after_help = examples::help("completions"))]
    Completions(completions::CompletionsArguments),
    /// Writes a manual page per command.
    #[command(after_help = examples::help("man"))]
    Man(man::ManArguments),
    /// Serves the frames of one channel for the process that started this one.
    #[command(hide = true)]
    Isolated,
    /// Checks, writes and removes files of an output folder, for programs that run this one.
    #[command(hide = true)]
    Outputs(outputs::OutputsArguments),
}

/// Where the configuration comes from.
#[derive(Debug, clap::Args)]
struct ConfigArguments {
    /// ROS 2 parameter files; later ones win.
    #[arg(value_name = "YAML")]
    files: Vec<PathBuf>,
    /// Overrides one parameter, as ROS does: -p camera.score_threshold:=0.4
    #[arg(short = 'p', long = "param", value_name = "KEY:=VALUE")]
    overrides: Vec<String>,
    #[command(flatten)]
    like: LikeArguments,
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    #[cfg(feature = "cuda")]
    det_post_ops::device::cuda::request_connections();
    let split = RosArguments::split(std::env::args_os());
    let (arguments, ros) = match split {
        Ok(split) => split,
        Err(error) => return misuse(&error),
    };
    let arguments = match Arguments::try_parse_from(&arguments) {
        Ok(arguments) => arguments,
        // It names no argument.
        Err(error) if error.kind() == clap::error::ErrorKind::InvalidUtf8 => {
            return misuse(&not_utf8(arguments.iter().filter(|one| one.to_str().is_none())));
        }
        Err(error) => {
            // Help and version go to stdout with code 0, misuse to stderr with 2.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let (level, logger) = match &arguments.command {
        Command::Run(arguments) => run::log_settings(arguments, &ros),
        _ => (None, None),
    };
    let level = level.or(match (arguments.quiet, arguments.verbose) {
        (true, _) => Some("warn"),
        (false, true) => Some("debug"),
        (false, false) => None,
    });
    let is_read = matches!(&arguments.command, Command::Isolated);
    let (stderr, rosout) = (!ros.disables_stdout, !ros.disables_rosout);
    let is_traced = match &arguments.command {
        Command::Run(arguments) => arguments.observe.is_traced(),
        Command::Replay(arguments) => arguments.observe.is_traced(),
        _ => false,
    };
    telemetry::init(level, &Sinks { stderr, rosout, is_read, logger, is_traced });
    MemoryBudget::process().set_limit(arguments.recording_memory_mib.saturating_mul(1 << 20));
    let status = run(&arguments.command, &ros).unwrap_or_else(|error| {
        tracing::error!("{error}");
        ExitStatus::from(&error)
    });
    ExitCode::from(status.code())
}

/// Logs why the arguments are refused.
fn misuse(error: &Error) -> ExitCode {
    let sinks =
        Sinks { stderr: true, rosout: true, is_read: false, logger: None, is_traced: false };
    telemetry::init(None, &sinks);
    tracing::error!("{error}");
    ExitCode::from(ExitStatus::from(error).code())
}

fn run(command: &Command, ros: &RosArguments) -> Result<ExitStatus> {
    let takes_ros = matches!(
        command,
        Command::Run(_) | Command::Replay(_) | Command::Check(_) | Command::Migrate(_)
    );
    if !ros.is_empty() && !takes_ros {
        let message = "`run`, `replay`, `check` and `migrate` take --ros-args";
        return Err(Error::new(ErrorKind::Usage, "arguments", message));
    }
    if let Command::Run(_) | Command::Isolated = command {
        heap::keep_memory();
    }
    open_files::raise_limit();
    match command {
        Command::Run(arguments) => run::run(arguments, ros),
        Command::Demo(arguments) => demo::demo(arguments),
        Command::Replay(arguments) => replay::replay(arguments, ros),
        Command::Bench(arguments) => bench::bench(arguments),
        Command::Eval(arguments) => eval::eval(arguments),
        Command::Simulate(arguments) => simulate::simulate(arguments),
        Command::Inspect { bag } => inspect::inspect(bag),
        Command::Migrate(arguments) => migrate::migrate(arguments, ros),
        Command::Isolated => isolated::serve(detectors::open).map(|()| ExitStatus::Done),
        Command::Outputs(arguments) => outputs::outputs(arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(arguments),
        Command::Check(arguments) => check::check(arguments, ros),
        Command::Completions(arguments) => completions::completions(arguments),
        Command::Man(arguments) => man::man(arguments),
    }
}
