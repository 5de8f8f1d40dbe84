//! What is suppressed by what: the settings of every suppression op.
//!
//! One struct per op, so that a settings file, the op and its CUDA twin share
//! one definition. Thresholds: IoU suppresses when it is strictly greater,
//! a distance when it is strictly smaller.

/// Which candidates can suppress which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassMode {
    /// Only candidates of the same class.
    Aware,
    /// Every candidate, whatever its class.
    Agnostic,
    /// Only candidates whose classes have the same group: `groups[class]`.
    /// Classes beyond the list are groups of their own.
    Groups(Vec<u32>),
}

impl ClassMode {
    /// The group of a class: two candidates can meet when theirs are equal.
    #[inline]
    pub fn group(&self, class: u32) -> u64 {
        match self {
            Self::Aware => u64::from(class),
            Self::Agnostic => 0,
            Self::Groups(groups) => match groups.get(class as usize) {
                Some(&group) => u64::from(group),
                None => (1 << 32) | u64::from(class),
            },
        }
    }
}

/// Greedy suppression by IoU of axis-aligned boxes (`ops::nms_iou`).
#[derive(Clone, Debug, PartialEq)]
pub struct NmsIou {
    /// A box goes when its IoU with a kept better one is above this.
    pub iou_threshold: f32,
    /// Added to each box's width and height: 0, or 1 for boxes whose corners
    /// are whole pixels, as mmcv's `offset`.
    pub offset: u8,
    /// Which boxes meet.
    pub class_mode: ClassMode,
    /// Boxes take part when their score is strictly above this, as mmcv has
    /// it; `None` takes all.
    pub score_threshold: Option<f32>,
    /// The most boxes kept, best first, over all classes.
    pub max_num: usize,
}

/// One-pass suppression by IoU (`ops::nms_fast`): a box goes when any better
/// box overlaps it, also one that itself goes. Not equal to greedy NMS.
#[derive(Clone, Debug, PartialEq)]
pub struct NmsFast {
    /// A box goes when its IoU with any better one is above this.
    pub iou_threshold: f32,
    /// Which boxes meet.
    pub class_mode: ClassMode,
}

/// How soft suppression lowers a score, given the IoU with a better box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SoftDecay {
    /// `score * (1 - iou)` when the IoU is at least the threshold, as mmcv
    /// compares here.
    Linear {
        /// No decay below this IoU.
        iou_threshold: f32,
    },
    /// `score * exp(-iou^2 / sigma)`.
    Gaussian {
        /// Width of the decay, above zero.
        sigma: f32,
    },
}

/// Suppression by lowering scores (`ops::nms_soft`).
#[derive(Clone, Debug, PartialEq)]
pub struct NmsSoft {
    /// How scores fall.
    pub decay: SoftDecay,
    /// Boxes whose score is below this go; the first one taken stays, as in
    /// mmcv.
    pub min_score: f32,
    /// As [`NmsIou::offset`].
    pub offset: u8,
    /// Which boxes meet.
    pub class_mode: ClassMode,
}

/// Greedy suppression by IoU of rotated boxes in a plane (`ops::nms_rotated`).
#[derive(Clone, Debug, PartialEq)]
pub struct NmsRotated {
    /// A box goes when its IoU with a kept better one is above this.
    pub iou_threshold: f32,
    /// Which boxes meet.
    pub class_mode: ClassMode,
}

/// The two published readings of a circle threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircleThreshold {
    /// A radius in metres: suppressed when `distance^2 < radius^2` (Autoware).
    Radius,
    /// A squared distance: suppressed when `distance^2 <= threshold`
    /// (mmdet3d, CenterPoint).
    SquaredDistance,
}

/// Greedy suppression by distance of centres in the bird's-eye view
/// (`ops::nms_circle`).
#[derive(Clone, Debug, PartialEq)]
pub struct NmsCircle {
    /// Threshold per class; the class of the kept, better box decides. A list
    /// of one holds for all classes. Zero or less suppresses nothing in the
    /// `Radius` reading.
    pub thresholds: Vec<f32>,
    /// What the thresholds mean.
    pub reading: CircleThreshold,
    /// Which boxes meet.
    pub class_mode: ClassMode,
}

/// Greedy suppression by IoU of footprints in the bird's-eye view
/// (`ops::nms_bev`).
#[derive(Clone, Debug, PartialEq)]
pub struct NmsBev {
    /// IoU threshold per class; the class of the kept, better box decides. A
    /// list of one holds for all classes.
    pub iou_thresholds: Vec<f32>,
    /// Boxes whose centres are farther apart than this never meet; infinite
    /// for no limit.
    pub search_distance_m: f32,
    /// Pairs of classes that never suppress each other, in either order.
    pub forbidden_pairs: Vec<[u32; 2]>,
    /// Which boxes meet.
    pub class_mode: ClassMode,
}

/// Greedy suppression by IoU of volumes (`ops::nms_iou_3d`): yaw counts, the
/// vertical extents intersect as intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct NmsIou3d {
    /// IoU threshold per class; the class of the kept, better box decides. A
    /// list of one holds for all classes.
    pub iou_thresholds: Vec<f32>,
    /// Which boxes meet.
    pub class_mode: ClassMode,
}

/// The suppression of a camera channel.
#[derive(Clone, Debug, PartialEq)]
pub enum Nms2d {
    /// Nothing is suppressed: the network's answers are final.
    None,
    /// Greedy by IoU.
    Iou(NmsIou),
    /// One pass by IoU.
    Fast(NmsFast),
    /// Lowered scores.
    Soft(NmsSoft),
}

/// The suppression of a lidar channel.
#[derive(Clone, Debug, PartialEq)]
pub enum Nms3d {
    /// Nothing is suppressed.
    None,
    /// By distance of centres.
    Circle(NmsCircle),
    /// By overlap of footprints.
    Bev(NmsBev),
    /// By overlap of volumes.
    Iou3d(NmsIou3d),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_beyond_the_list_stand_alone() {
        let groups = ClassMode::Groups(vec![0, 1, 1]);
        assert_eq!(groups.group(1), groups.group(2));
        assert_ne!(groups.group(0), groups.group(1));
        assert_ne!(groups.group(3), groups.group(4));
        assert_ne!(groups.group(3), groups.group(1));
    }

    #[test]
    fn aware_and_agnostic() {
        assert_ne!(ClassMode::Aware.group(0), ClassMode::Aware.group(1));
        assert_eq!(ClassMode::Agnostic.group(0), ClassMode::Agnostic.group(1));
    }
}
