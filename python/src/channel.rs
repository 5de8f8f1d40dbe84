//! The channel of a configuration that an object runs.

use std::path::PathBuf;

use det_post::Config;
use det_post::config::{ChannelConfig, ChannelKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::raised;

/// A channel of a configuration, the only one where none is named; `library` is the ONNX Runtime
/// of a configuration that names none.
pub fn chosen(
    files: &[PathBuf],
    overrides: &[String],
    channel: Option<&str>,
    library: Option<PathBuf>,
) -> PyResult<ChannelConfig> {
    let config = Config::load(files, overrides).map_err(|error| raised(&error))?;
    let names = config.channels.iter().map(|channel| channel.name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    let found = match channel {
        Some(name) => config.channel(name),
        None if config.channels.len() == 1 => config.channels.first(),
        None => None,
    };
    let Some(found) = found else {
        let message = format!("channel is {channel:?}; the configuration has {names}");
        return Err(PyValueError::new_err(message));
    };
    if found.is_isolated {
        let message = format!("channel {} is isolated: det_post.replay runs it", found.name);
        return Err(PyValueError::new_err(message));
    }
    let mut found = found.clone();
    let engine = match &mut found.kind {
        ChannelKind::Camera(camera) => &mut camera.engine,
        ChannelKind::Lidar(lidar) => &mut lidar.engine,
        ChannelKind::Surround(surround) => &mut surround.engine,
    };
    engine.library = engine.library.take().or(library);
    Ok(found)
}
