//! `det_post bench`: times of operations and frames on this machine.

use std::path::PathBuf;

use super::ExitStatus;
use super::stdout::{self, Stdout};
use crate::bench;
use det_post_ops::device::Device;
use det_post_ros::output_folder::{check_file, write_file};
use det_post_types::{DeviceChoice, Result};

/// Arguments of `det_post bench`.
#[derive(Debug, clap::Args)]
pub(super) struct BenchArguments {
    /// What to measure: auto, cpu or cuda:N.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Writes the figures to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs only benchmarks with this in their name.
    #[arg(value_name = "PART")]
    part: Option<String>,
}

/// Measures and prints, one line per case.
///
/// # Errors
/// `Device` when the device is not usable, `Usage` when no case has the name,
/// `Io` when the figures cannot be written.
pub(super) fn bench(arguments: &BenchArguments) -> Result<ExitStatus> {
    if let Some(path) = &arguments.json {
        check_file(path)?;
    }
    let device = Device::open(arguments.device)?;
    // Figures that are written to a file need no reader of the table.
    let is_recorded = arguments.json.is_some();
    let mut print = |text: &str| Ok(stdout::print(text)? == Stdout::Open || is_recorded);
    let figures = bench::run(&device, arguments.part.as_deref(), &mut print)?;
    if let Some(path) = &arguments.json {
        write_file(path, &figures)?;
    }
    Ok(ExitStatus::Done)
}
