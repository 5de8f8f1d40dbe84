//! What a channel has on a GPU.

use super::ReplayChannel;
use crate::config::ChannelKind;
use crate::replay::frames_in_flight::GpuCamera;
use crate::replay::input::ReplayInput;
use det_post_ros::bag::TopicInfo;
use det_post_ros::middleware::InputKind;
use det_post_types::DeviceChoice;

impl ReplayChannel {
    /// The GPU that uploads payloads of the recording where they are: of a channel with one
    /// input whose messages are not compressed, in this process.
    pub(in crate::replay) fn uploads_in_place(&self) -> Option<DeviceChoice> {
        let [ReplayInput { topic, .. }] = &self.inputs[..] else { return None };
        if !matches!(topic.kind, InputKind::Image | InputKind::PointCloud2) {
            return None;
        }
        self.gpu().map(DeviceChoice::Cuda)
    }

    /// The camera of the channel, if a GPU runs its network, in this process.
    pub(in crate::replay) fn gpu_camera(&self, topics: &[TopicInfo]) -> Option<GpuCamera> {
        let [input] = &self.inputs[..] else { return None };
        if !matches!(self.config().kind, ChannelKind::Camera(_)) {
            return None;
        }
        let num_frames = input.topic.number.and_then(|topic| topics.get(topic)?.num_messages);
        Some(GpuCamera { gpu: self.gpu()?, num_frames })
    }

    /// The GPU of its detector, in this process.
    fn gpu(&self) -> Option<u32> {
        self.channel.detector_info()?.gpu()
    }
}
