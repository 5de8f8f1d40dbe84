//! Cameras whose network runs once for the frames of all.

use super::camera::CameraConfig;
use super::channel::{ChannelConfig, ChannelKind};
use super::problems::Problems;
use det_post_types::EngineKind;

/// Refuses a `batch_with` that names no camera with the same network in the same place.
/// `is_channel` knows also the channels with problems, of which nothing else is known.
pub(super) fn check(
    channels: &[ChannelConfig],
    is_channel: impl Fn(&str) -> bool,
    problems: &mut Problems,
) {
    for channel in channels {
        let Some((camera, name)) = batched(channel) else { continue };
        let key = format!("{}.batch_with", channel.name);
        let refused = match channels.iter().find(|other| other.name == name) {
            None if is_channel(name) => None,
            None => Some("the name of another channel".to_owned()),
            Some(other) => refusal(channel, camera, other),
        };
        if let Some(allowed) = refused {
            problems.refuse(&key, format!("\"{name}\""), &allowed);
        }
    }
}

/// A camera in the batch of another one, and the name of that.
fn batched(channel: &ChannelConfig) -> Option<(&CameraConfig, &str)> {
    match &channel.kind {
        ChannelKind::Camera(camera) => Some((camera, camera.batch_with.as_deref()?)),
        ChannelKind::Lidar(_) | ChannelKind::Surround(_) => None,
    }
}

/// What is allowed, if a camera cannot be in the batch of another channel.
fn refusal(
    channel: &ChannelConfig,
    camera: &CameraConfig,
    other: &ChannelConfig,
) -> Option<String> {
    let name = &other.name;
    let ChannelKind::Camera(first) = &other.kind else {
        return Some(format!("a camera; {name} is none"));
    };
    if channel.name == *name {
        return Some("another channel".to_owned());
    }
    if let Some(leader) = &first.batch_with {
        return Some(format!("a channel without batch_with; {name} is in the batch of {leader}"));
    }
    if camera.engine.kind == EngineKind::External {
        return Some("a channel that runs its network; engine.kind is external".to_owned());
    }
    if channel.is_isolated || other.is_isolated {
        return Some("channels of one process: isolate is false for both".to_owned());
    }
    let same = [
        ("model_path", camera.model_path == first.model_path),
        ("head", camera.facts == first.facts),
        ("engine", camera.engine == first.engine),
        ("device", channel.device == other.device),
    ];
    let differs = same.iter().find(|(_, is_same)| !is_same).map(|(what, _)| *what)?;
    Some(format!("a channel with the same {differs}; channel {name} has another"))
}
