//! Times of operations, copies and whole frames: the cases of `det_post bench`.
//!
//! Inputs are made here, the same on every machine. A case is one call: its
//! name, what it measures and, where there is one, the bar it must reach. To
//! add one, add a row to the list of its op (or a file beside the others and a
//! line in [`cases`]).

mod bev_pool;
mod case;
mod decode;
mod decompress;
mod fixed;
mod floors;
mod frame;
mod inputs;
mod letterbox;
mod lidar;
#[cfg(feature = "cuda")]
mod mapped;
mod mask;
mod measure;
mod network;
#[cfg(feature = "cuda")]
mod replay;
mod resample;
mod sparse;
mod suppress;
mod table;
#[cfg(all(feature = "cuda", feature = "video"))]
mod video;
mod views;

use det_post_ops::device::Device;
use det_post_types::{Error, ErrorKind, Result};
use measure::Bench;
pub(crate) use measure::Print;

/// Measures the cases with `part` in their name and prints a line after each, until the
/// table has no reader. Returns the figures as JSON.
///
/// # Errors
/// `Usage` when no case has the name, and those of the device and of `print`.
pub(crate) fn run<'a>(
    device: &Device,
    part: Option<&str>,
    print: &'a mut Print<'a>,
) -> Result<String> {
    let mut bench = Bench::new(part.map(str::to_owned), print);
    bench.print(&format!("{device}, det_post {}\n", env!("CARGO_PKG_VERSION")))?;
    cases(&mut bench, device)?;
    if !bench.has_ended() && bench.rows().is_empty() {
        let message = format!("no case has {:?} in its name", part.unwrap_or_default());
        return Err(Error::new(ErrorKind::Usage, "bench", message));
    }
    if !bench.has_ended() {
        bench.print(&table::bars(bench.rows()))?;
    }
    Ok(table::json(device, bench.rows()))
}

/// Every case, in the order of the table.
fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    floors::cases(bench, device)?;
    decompress::cases(bench, device)?;
    #[cfg(all(feature = "cuda", feature = "video"))]
    if let Device::Cuda(device) = device {
        video::cases(bench, device)?;
    }
    letterbox::cases(bench, device)?;
    resample::cases(bench, device)?;
    decode::cases(bench, device)?;
    mask::cases(bench, device)?;
    suppress::cases(bench, device)?;
    lidar::cases(bench, device)?;
    sparse::cases(bench, device)?;
    views::cases(bench, device)?;
    bev_pool::cases(bench, device)?;
    network::cases(bench, device)?;
    frame::cases(bench, device)?;
    #[cfg(feature = "cuda")]
    if let Device::Cuda(device) = device {
        replay::cases(bench, device)?;
    }
    Ok(())
}
