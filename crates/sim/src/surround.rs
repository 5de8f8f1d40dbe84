//! Truth around the vehicle, for all of its cameras together.

use std::collections::BTreeMap;

use super::drive::Drive;
use super::lidar::lidar_view;
use super::rig::LidarMount;
use det_post_types::{Evidence, Truth2d, Truth3d};

/// How much of each object the images of one time show.
#[derive(Clone, Debug, Default)]
pub struct SeenByCameras {
    /// The largest visibility and the most pixels of an image, by track id.
    best: BTreeMap<u32, (f32, u32)>,
}

impl SeenByCameras {
    /// Removes all images.
    pub fn clear(&mut self) {
        self.best.clear();
    }

    /// Adds the truth of an image.
    pub fn add(&mut self, truth: &[Truth2d<'_>]) {
        for object in truth {
            let (visibility, num_pixels) = self.best.entry(object.track_id).or_default();
            *visibility = visibility.max(object.visibility);
            *num_pixels = (*num_pixels).max(object.num_pixels);
        }
    }
}

impl Drive {
    /// All objects within [`TRUTH_RANGE_M`](super::TRUTH_RANGE_M) of the vehicle at the time
    /// of the images with an index, in `base_link`, ordered by track id. Visibility and
    /// pixels are the largest over the images in `seen`; 0 for objects that none of them
    /// shows.
    pub fn surround_truth(&self, index: u64, seen: &SeenByCameras) -> Vec<Truth3d<'static>> {
        let time_s = self.rig.image_time_s(index);
        let base = LidarMount { position_m: [0.0; 3], yaw_rad: 0.0 };
        let view = lidar_view(self, &base, time_s);
        let actors = self.traffic.actors.iter().enumerate();
        let object = |(actor, of_actor): (usize, &super::traffic::Actor)| {
            let state = self.traffic.actor(&self.route, of_actor, time_s);
            let object = self.object_3d(actor, &state, &view)?;
            let (visibility, num_pixels) =
                seen.best.get(&object.track_id).copied().unwrap_or_default();
            Some(Truth3d { evidence: Evidence::Pixels(num_pixels), visibility, ..object })
        };
        actors.filter_map(object).collect()
    }
}
