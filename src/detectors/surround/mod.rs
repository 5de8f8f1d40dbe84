//! x
pub mod motion;
pub mod streampetr;
use super::Detector;
use crate::config::SurroundConfig;
use crate::device::Device;
use crate::error::Result;
pub fn open(config: &SurroundConfig, n: usize, device: &Device) -> Result<Box<dyn Detector>> { let _ = (config, n, device); todo!() }
