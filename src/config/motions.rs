//! The topics of the vehicle's motion.

use super::{ChannelConfig, ChannelKind, MotionTopic};

/// The topics of the vehicle's motion of some channels, each once.
pub fn motions_of<'a>(
    channels: impl IntoIterator<Item = &'a ChannelConfig>,
) -> Vec<&'a MotionTopic> {
    let mut found: Vec<&MotionTopic> = Vec::new();
    for channel in channels {
        let ChannelKind::Lidar(lidar) = &channel.kind else { continue };
        if let Some(motion) = &lidar.densification.motion
            && !found.contains(&motion)
        {
            found.push(motion);
        }
    }
    found
}
