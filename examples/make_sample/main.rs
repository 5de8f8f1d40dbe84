//! Writes a small drive, networks that detect its objects, and their parameters to the
//! folder `sample`, or another: `cargo run --release --example make_sample -- FOLDER`. Nothing
//! is downloaded; the same bytes come out every time.

mod camera_net;
mod drive;
mod lidar_nets;
#[path = "../../crates/testing/src/onnx.rs"]
mod onnx;
mod parameters;
mod recording;

use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "sample".into());
    let folder = Path::new(&folder);
    let (models, heads) = (folder.join("models"), folder.join("heads"));
    fs::create_dir_all(&models)?;
    fs::create_dir_all(&heads)?;
    camera_net::graph().save(&models.join("blobs_yolov8.onnx"))?;
    lidar_nets::encoder().save(&models.join("pillar_encoder.onnx"))?;
    lidar_nets::head().save(&models.join("pillar_head.onnx"))?;
    fs::write(heads.join("blobs_yolov8.yaml"), parameters::camera_head())?;
    fs::write(heads.join("pillars.yaml"), parameters::lidar_head())?;
    fs::write(folder.join("sample.param.yaml"), parameters::deployment(folder))?;
    recording::write(&folder.join("drive"))?;
    Ok(())
}
