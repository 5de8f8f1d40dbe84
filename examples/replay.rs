//! A whole recording through the channels of a configuration, frame by frame.
//!
//!     cargo run --release --example replay

#![allow(clippy::print_stdout, reason = "the result of the example")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use det_post::{Config, Replay, ReplayOptions};
use det_post_sim::{Drive, ImageFormat, Options};

/// Simulates a short drive, detects objects on it and counts them.
///
/// # Errors
/// Returns the errors of the library.
pub fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("det_post_replay_{}", std::process::id()));
    let bag = folder.join("drive");
    let drive = Drive::new(9000, &Options::default())?;
    det_post_sim::record(
        &drive,
        0.5,
        ImageFormat::Raw,
        &bag,
        &AtomicBool::new(false),
        &mut |_, _| {},
    )?;

    let config = Config::load(&[PathBuf::from("config/demo.param.yaml")], &[])?;
    let replay = Replay::open(&bag, &config, ReplayOptions::default())?;
    let report = replay.run(|frame| {
        let name = &frame.config.name;
        match &frame.result {
            Ok(found) => {
                println!("{name} {}: {} detections", found.header.stamp, found.detections.len());
            }
            Err(error) => println!("{name}: frame dropped: {error}"),
        }
        Ok(())
    })?;
    std::fs::remove_dir_all(&folder)?;
    println!("{}", report.to_table());
    Ok(())
}
