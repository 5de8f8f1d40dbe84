//! The settings of the suppression operations.
//!
//! An IoU suppresses if it is strictly above its threshold, a distance if it is
//! strictly below.

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
    /// The group of a class: candidates of different groups do not suppress each
    /// other.
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
    /// A box is suppressed if its IoU with a better kept box is above this.
    pub iou_threshold: f32,
    /// Added to each box's width and height: 0, or 1 for boxes whose corners
    /// are whole pixels, as mmcv's `offset`.
    pub offset: u8,
    /// Which boxes suppress each other.
    pub class_mode: ClassMode,
    /// Boxes are eligible if their score is strictly above this, as in mmcv;
    /// `None`: all.
    pub score_threshold: Option<f32>,
    /// The maximum number of kept boxes, best first, over all classes.
    pub max_num: usize,
}

/// One-pass suppression by IoU (`ops::nms_fast`): a box is suppressed if any
/// better box overlaps it, even a suppressed one. Not equal to greedy NMS.
#[derive(Clone, Debug, PartialEq)]
pub struct NmsFast {
    /// A box is suppressed if its IoU with any better box is above this.
    pub iou_threshold: f32,
    /// Which boxes suppress each other.
    pub class_mode: ClassMode,
}

/// How soft suppression lowers a score, given the IoU with a better box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SoftDecay {
    /// `score * (1 - iou)` if the IoU is at least the threshold, as in mmcv.
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

/// Soft suppression, which lowers scores (`ops::nms_soft`).
#[derive(Clone, Debug, PartialEq)]
pub struct NmsSoft {
    /// The decay of scores.
    pub decay: SoftDecay,
    /// Boxes whose score decays below this are dropped, except the top box, as in
    /// mmcv.
    pub min_score: f32,
    /// As [`NmsIou::offset`].
    pub offset: u8,
    /// Which boxes suppress each other.
    pub class_mode: ClassMode,
}

/// Greedy suppression by IoU of rotated boxes in a plane (`ops::nms_rotated`).
#[derive(Clone, Debug, PartialEq)]
pub struct NmsRotated {
    /// A box is suppressed if its IoU with a better kept box is above this.
    pub iou_threshold: f32,
    /// Which boxes suppress each other.
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
    /// Threshold per class, that of the kept box; a list of one is for all
    /// classes. Zero or less suppresses nothing in the `Radius` reading.
    pub thresholds: Vec<f32>,
    /// What the thresholds mean.
    pub reading: CircleThreshold,
    /// Which boxes suppress each other.
    pub class_mode: ClassMode,
}

/// Greedy suppression by IoU of footprints in the bird's-eye view
/// (`ops::nms_bev`).
#[derive(Clone, Debug, PartialEq)]
pub struct NmsBev {
    /// IoU threshold per class, that of the kept box; a list of one is for all
    /// classes.
    pub iou_thresholds: Vec<f32>,
    /// Boxes whose centres are farther apart than this do not suppress each
    /// other; infinite: no limit.
    pub search_distance_m: f32,
    /// Pairs of classes that never suppress each other, in either order.
    pub forbidden_pairs: Vec<[u32; 2]>,
    /// Which boxes suppress each other.
    pub class_mode: ClassMode,
}

/// One-pass suppression by IoU of footprints in the bird's-eye view
/// (`ops::nms_bev_fast`): a box is suppressed if any better box overlaps it, even a
/// suppressed one. Not equal to greedy NMS.
#[derive(Clone, Debug, PartialEq)]
pub struct NmsBevFast {
    /// As [`NmsBev::iou_thresholds`], those of the better box.
    pub iou_thresholds: Vec<f32>,
    /// As [`NmsBev::search_distance_m`].
    pub search_distance_m: f32,
    /// Pairs of classes that are compared at any distance, in either order.
    pub unlimited_pairs: Vec<[u32; 2]>,
    /// As [`NmsBev::forbidden_pairs`].
    pub forbidden_pairs: Vec<[u32; 2]>,
    /// Which boxes suppress each other.
    pub class_mode: ClassMode,
}

/// Greedy suppression by IoU of volumes (`ops::nms_iou_3d`): of footprints with
/// yaw, times vertical intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct NmsIou3d {
    /// IoU threshold per class, that of the kept box; a list of one is for all
    /// classes.
    pub iou_thresholds: Vec<f32>,
    /// Which boxes suppress each other.
    pub class_mode: ClassMode,
}

/// The suppression of boxes in an image, axis-aligned or rotated.
#[derive(Clone, Debug, PartialEq)]
pub enum Nms2d {
    /// Nothing is suppressed, as the network's outputs are final. For boxes of
    /// either kind.
    None,
    /// Greedy by IoU of axis-aligned boxes.
    Iou(NmsIou),
    /// One pass by IoU of axis-aligned boxes.
    Fast(NmsFast),
    /// Lowered scores of axis-aligned boxes.
    Soft(NmsSoft),
    /// Greedy by IoU of rotated boxes.
    Rotated(NmsRotated),
}

/// The suppression of boxes in space.
#[derive(Clone, Debug, PartialEq)]
pub enum Nms3d {
    /// Nothing is suppressed.
    None,
    /// By distance of centres.
    Circle(NmsCircle),
    /// By overlap of footprints.
    Bev(NmsBev),
    /// One pass by overlap of footprints.
    BevFast(NmsBevFast),
    /// By overlap of volumes.
    Iou3d(NmsIou3d),
}

impl Nms2d {
    /// Every kind by the name of its operation, with usual settings: for benchmarks and tests.
    pub fn examples(class_mode: &ClassMode) -> Vec<(&'static str, Self)> {
        let class_mode = || class_mode.clone();
        let iou_threshold = 0.5;
        let iou = NmsIou {
            iou_threshold,
            offset: 0,
            class_mode: class_mode(),
            score_threshold: None,
            max_num: usize::MAX,
        };
        let soft = |decay| NmsSoft { decay, min_score: 0.05, offset: 0, class_mode: class_mode() };
        vec![
            ("nms_none", Self::None),
            ("nms_iou", Self::Iou(iou)),
            ("nms_fast", Self::Fast(NmsFast { iou_threshold, class_mode: class_mode() })),
            ("nms_soft linear", Self::Soft(soft(SoftDecay::Linear { iou_threshold }))),
            ("nms_soft gaussian", Self::Soft(soft(SoftDecay::Gaussian { sigma: 0.5 }))),
            ("nms_rotated", Self::Rotated(NmsRotated { iou_threshold, class_mode: class_mode() })),
        ]
    }
}

impl Nms3d {
    /// Every kind by the name of its operation, with usual settings: for benchmarks and tests.
    pub fn examples(class_mode: &ClassMode) -> Vec<(&'static str, Self)> {
        let class_mode = || class_mode.clone();
        let (iou_thresholds, search_distance_m) = (|| vec![0.1], 10.0);
        let circle = NmsCircle {
            thresholds: vec![1.5],
            reading: CircleThreshold::Radius,
            class_mode: class_mode(),
        };
        let bev = NmsBev {
            iou_thresholds: iou_thresholds(),
            search_distance_m,
            forbidden_pairs: Vec::new(),
            class_mode: class_mode(),
        };
        let bev_fast = NmsBevFast {
            iou_thresholds: iou_thresholds(),
            search_distance_m,
            unlimited_pairs: Vec::new(),
            forbidden_pairs: Vec::new(),
            class_mode: class_mode(),
        };
        let iou_3d = NmsIou3d { iou_thresholds: iou_thresholds(), class_mode: class_mode() };
        vec![
            ("nms_none", Self::None),
            ("nms_circle", Self::Circle(circle)),
            ("nms_bev", Self::Bev(bev)),
            ("nms_bev_fast", Self::BevFast(bev_fast)),
            ("nms_iou_3d", Self::Iou3d(iou_3d)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new kind does not compile here until it is counted.
    #[test]
    fn examples_have_every_kind() {
        let flat = |nms: &Nms2d| match nms {
            Nms2d::None => 0,
            Nms2d::Iou(_) => 1,
            Nms2d::Fast(_) => 2,
            Nms2d::Soft(_) => 3,
            Nms2d::Rotated(_) => 4,
        };
        let solid = |nms: &Nms3d| match nms {
            Nms3d::None => 0,
            Nms3d::Circle(_) => 1,
            Nms3d::Bev(_) => 2,
            Nms3d::BevFast(_) => 3,
            Nms3d::Iou3d(_) => 4,
        };
        let mode = ClassMode::Aware;
        let mut found = Vec::from_iter(Nms2d::examples(&mode).iter().map(|(_, nms)| flat(nms)));
        found.dedup();
        assert_eq!(found, [0, 1, 2, 3, 4]);
        let found = Vec::from_iter(Nms3d::examples(&mode).iter().map(|(_, nms)| solid(nms)));
        assert_eq!(found, [0, 1, 2, 3, 4]);
    }

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
