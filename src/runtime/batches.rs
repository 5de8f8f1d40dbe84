//! Channels whose network runs once for the frames of all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Factory;
use crate::config::{ChannelConfig, ChannelKind};
use crate::detectors::{self, BatchPlace, SharedNetwork};

/// The function that builds the detectors of these channels: those of cameras with
/// `batch_with`, and of the cameras they name, share their network and its device; `factory`
/// builds the others. A batch has those of its channels that are among `channels`; one channel
/// is none.
pub fn share_networks(channels: &mut [ChannelConfig], factory: &Factory) -> Factory {
    let mut batches: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, channel) in channels.iter().enumerate() {
        if let Some(first) = first_of(channel) {
            batches.entry(first.to_owned()).or_default().push(index);
        }
    }
    let mut places = BTreeMap::new();
    for members in batches.values().filter(|members| members.len() > 1) {
        let network = Arc::new(SharedNetwork::new(members.len()));
        let device = channels[members[0]].device;
        for (place, &member) in members.iter().enumerate() {
            channels[member].device = device;
            let place = BatchPlace { network: Arc::clone(&network), place };
            places.insert(channels[member].name.clone(), place);
        }
        let names: Vec<_> = members.iter().map(|&member| channels[member].name.as_str()).collect();
        tracing::info!("channels {} share the runs of their network", names.join(", "));
    }
    let factory = Arc::clone(factory);
    Arc::new(move |config, device| match places.get(&config.name) {
        Some(place) => detectors::open_in_batch(config, device, place),
        None => factory(config, device),
    })
}

/// The name of the batch that a channel may be in: that of its first camera.
fn first_of(channel: &ChannelConfig) -> Option<&str> {
    match &channel.kind {
        ChannelKind::Camera(camera) => Some(camera.batch_with.as_deref().unwrap_or(&channel.name)),
        ChannelKind::Lidar(_) | ChannelKind::Surround(_) => None,
    }
}
