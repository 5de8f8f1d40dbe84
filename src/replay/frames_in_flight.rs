//! How many frames of a channel are in flight where the caller leaves it open: what pays.

use crate::detectors::{FRAMES_PER_INSTANCE, MAX_FRAMES_IN_FLIGHT};

/// Networks at once of a replay on a GPU: with more, no recording of 6060 frames took less time on an
/// H200 (docs/benchmarks.md).
const NETWORKS_OF_A_GPU: usize = 4;
/// The frames of a camera that repay the loading of another instance, on a GPU that has no other
/// camera. The more cameras share it, the less an instance adds.
const FRAMES_TO_REPAY: u64 = 1000;

/// A camera whose network has a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GpuCamera {
    pub(super) gpu: u32,
    /// Messages in the recording; `None` when that is unknown or not all are read.
    pub(super) num_frames: Option<u64>,
}

/// The number for a replay with these cameras: that of the GPU with the most of them, and of the
/// camera with the fewest frames.
pub(super) fn choose(cameras: &[GpuCamera]) -> usize {
    let of_gpu = |gpu: u32| cameras.iter().filter(|camera| camera.gpu == gpu).count();
    let num_cameras = cameras.iter().map(|camera| of_gpu(camera.gpu)).max().unwrap_or(0).max(1);
    let num_frames = cameras.iter().map(|camera| camera.num_frames.unwrap_or(0)).min();
    let num_repaid = num_frames.unwrap_or(0) / (FRAMES_TO_REPAY * num_cameras as u64);
    let num_repaid = usize::try_from(num_repaid).unwrap_or(usize::MAX).saturating_add(1);
    let num_instances = num_repaid.min(NETWORKS_OF_A_GPU / num_cameras).max(1);
    num_instances.saturating_mul(FRAMES_PER_INSTANCE).min(MAX_FRAMES_IN_FLIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cameras_of_long_recordings_have_more_frames_in_flight() {
        let cameras = |num: usize, gpus: u32, num_frames: Option<u64>| {
            let camera = |index| GpuCamera { gpu: index as u32 % gpus, num_frames };
            choose(&(0..num).map(camera).collect::<Vec<_>>())
        };
        assert_eq!(choose(&[]), 2);
        // (cameras, GPUs, frames of each, in flight)
        for (num, gpus, num_frames, expected) in [
            (1, 1, None, 2),
            (1, 1, Some(999), 2),
            (1, 1, Some(1000), 4),
            (1, 1, Some(2999), 6),
            (1, 1, Some(u64::MAX), 8),
            (2, 1, Some(1999), 2),
            (2, 1, Some(2000), 4),
            (2, 1, Some(u64::MAX), 4),
            (3, 1, Some(u64::MAX), 2),
            (5, 1, Some(u64::MAX), 2),
            (2, 2, Some(3000), 8),
            (4, 2, Some(6000), 4),
            (12, 2, Some(u64::MAX), 2),
        ] {
            assert_eq!(cameras(num, gpus, num_frames), expected, "{num} {gpus} {num_frames:?}");
        }
        let mut mixed = [GpuCamera { gpu: 0, num_frames: Some(u64::MAX) }; 4];
        mixed[3].gpu = 1;
        assert_eq!(choose(&mixed), 2);
        mixed[2].gpu = 1;
        assert_eq!(choose(&mixed), 4);
        mixed[0].num_frames = None;
        assert_eq!(choose(&mixed), 2);
    }
}
