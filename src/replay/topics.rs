//! The topics of a recording and the inputs of channels.

use crate::config::{ChannelConfig, ChannelKind, Config, InputConfig};
use det_post_ros::bag::{BagReader, TopicInfo};
use det_post_ros::middleware::InputKind;
use det_post_types::{EngineKind, Error, ErrorKind};

/// The enabled channels whose reference input the recording holds.
pub(super) fn channels_in(config: &Config, topics: &[TopicInfo]) -> Vec<ChannelConfig> {
    let mut chosen = Vec::new();
    for channel in &config.channels {
        if !channel.live.is_enabled {
            tracing::info!("channel {}: left out, since `enabled` is false", channel.name);
            continue;
        }
        let is_there = |input: &InputConfig| topics.iter().any(|topic| topic.name == input.topic);
        for input in channel.inputs.iter().filter(|input| !is_there(input)) {
            tracing::warn!("channel {}: the recording has no topic {}", channel.name, input.topic);
        }
        if channel.inputs.get(channel.sync.reference).is_some_and(is_there) {
            chosen.push(channel.clone());
        }
    }
    chosen
}

/// The only topic of the recording that a channel of one input can read.
fn only_topic<'a>(channel: &ChannelConfig, topics: &'a [TopicInfo]) -> Option<&'a str> {
    let is_fitting = |topic: &&TopicInfo| match &channel.kind {
        ChannelKind::Camera(camera) if camera.engine.kind != EngineKind::External => {
            InputKind::is_image(&topic.type_name)
        }
        ChannelKind::Lidar(_) => InputKind::is_cloud(&topic.type_name),
        ChannelKind::Camera(_) | ChannelKind::Surround(_) => false,
    };
    let mut fitting = topics.iter().filter(is_fitting);
    let topic = fitting.next()?;
    fitting.next().is_none().then_some(topic.name.as_str())
}

/// The error of a recording without an input of any enabled channel: its damage, where it has any
/// that can have taken the topics, else `Config`.
pub(super) fn no_input(config: &Config, mut reader: BagReader) -> Error {
    if !config.channels.iter().any(|channel| channel.live.is_enabled) {
        let message = "no channel is enabled; allowed: `NAME.enabled: true` of one or more";
        return Error::new(ErrorKind::Config, "replay", message);
    }
    let names: Vec<&str> = reader.topics().iter().map(|topic| topic.name.as_str()).collect();
    let inputs = config.channels.iter().flat_map(|channel| &channel.inputs);
    let inputs: Vec<&str> = inputs.map(|input| input.topic.as_str()).collect();
    let hints = config.channels.iter().filter_map(|channel| {
        let topic = only_topic(channel, reader.topics())?;
        Some(format!("; did you mean `-p {}.input:={topic}`?", channel.name))
    });
    let message = format!(
        "no channel has its input ({}) in the recording; its topics are {}{}",
        inputs.join(" "),
        if names.is_empty() { "none".to_owned() } else { names.join(" ") },
        hints.collect::<String>()
    );
    // Skips the chunks of an index. Files without one, as those that are cut, are read.
    reader.select(&[]);
    match reader.next_message() {
        Err(damage) => Error::new(damage.kind(), "replay", message).with_source(damage),
        Ok(_) => Error::new(ErrorKind::Config, "replay", message),
    }
}
