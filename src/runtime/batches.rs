//! Channels whose network runs once for the frames of all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Factory;
use crate::config::ChannelConfig;
use crate::detectors::{self, BatchPlace, SharedNetwork};

/// The function that builds the detectors of these channels: those of cameras with
/// `batch_with`, and of the cameras they name, share their network; `factory` builds the
/// others. A batch has those of its channels that are among `channels`; one channel is none.
pub fn share_networks(channels: &[ChannelConfig], factory: &Factory) -> Factory {
    let mut batches: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for channel in channels {
        batches.entry(channel.batch()).or_default().push(&channel.name);
    }
    let mut places = BTreeMap::new();
    for members in batches.values().filter(|members| members.len() > 1) {
        let network = Arc::new(SharedNetwork::new(members.len()));
        for (place, name) in members.iter().enumerate() {
            let place = BatchPlace { network: Arc::clone(&network), place };
            places.insert((*name).to_owned(), place);
        }
        tracing::info!("channels {} share the runs of their network", members.join(", "));
    }
    let factory = Arc::clone(factory);
    Arc::new(move |config, device| match places.get(&config.name) {
        Some(place) => detectors::open_in_batch(config, device, place),
        None => factory(config, device),
    })
}
