//! `det_post bench`: what this machine gives.
//!
//! Inputs are made here, the same on every machine. A case is one call: its
//! name, what it measures and, where there is one, the bar it must reach. To
//! add one, add a row to the list of its op (or a file beside the others and a
//! line in [`cases`]).

mod decode;
mod floors;
mod frame;
mod given;
mod inputs;
mod letterbox;
mod lidar;
mod measure;
mod suppress;
mod table;

use std::path::PathBuf;

use super::ExitStatus;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::output_folder::write_file;
use crate::types::DeviceChoice;
use measure::Bench;

/// Arguments of `det_post bench`.
#[derive(Debug, clap::Args)]
pub(super) struct BenchArguments {
    /// What to measure: auto, cpu or cuda:N.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Writes the figures to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only the cases with this in their name.
    #[arg(value_name = "PART")]
    part: Option<String>,
}

/// Measures and prints, one line a case.
///
/// # Errors
/// `Device` when the device is not usable, `Usage` when no case has the name,
/// `Io` when the figures cannot be written.
pub(super) fn bench(arguments: &BenchArguments) -> Result<ExitStatus> {
    let device = Device::open(arguments.device)?;
    let mut bench = Bench::new(arguments.part.clone(), arguments.json.is_some());
    bench.print(&format!("{device}, det_post {}\n", env!("CARGO_PKG_VERSION")))?;
    cases(&mut bench, &device)?;
    if bench.has_ended() {
        return Ok(ExitStatus::Done);
    }
    if bench.rows().is_empty() {
        let part = arguments.part.as_deref().unwrap_or_default();
        let message = format!("no case has {part:?} in its name");
        return Err(Error::new(ErrorKind::Usage, "bench", message));
    }
    let bars = table::bars(bench.rows());
    bench.print(&bars)?;
    if let Some(path) = &arguments.json {
        write_file(path, &table::json(&device, bench.rows()))?;
    }
    Ok(ExitStatus::Done)
}

/// Every case, in the order of the table.
fn cases(bench: &mut Bench, device: &Device) -> Result<()> {
    floors::cases(bench, device)?;
    letterbox::cases(bench, device)?;
    decode::cases(bench, device)?;
    suppress::cases(bench, device)?;
    lidar::cases(bench, device)?;
    frame::cases(bench, device)
}
