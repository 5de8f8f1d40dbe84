//! What the kernels of every kind of suppression read.

use crate::device::cuda::{Plain, mirrors};

/// The mirror of `NmsSettings`, in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(16))]
pub struct NmsSettings {
    /// IoU above which a box suppresses another; of the linear decay, that from
    /// which it lowers a score.
    pub iou_threshold: f32,
    /// Candidates at or below it are not eligible, if `has_score_threshold`: an argument of mmcv. The
    /// threshold of a channel is applied where boxes are decoded.
    pub score_threshold: f32,
    /// Added to widths and heights.
    pub offset: f32,
    /// Centres farther apart along an axis do not suppress each other.
    pub reach: f32,
    /// Squared distance of centres beyond which they do not either.
    pub squared_search_distance: f32,
    /// 0 or 1.
    pub has_score_threshold: u32,
    /// The most survivors.
    pub max_num: u32,
    /// 0 aware, 1 agnostic, 2 groups.
    pub class_mode: u32,
    /// Classes that have a group.
    pub num_groups: u32,
    /// Thresholds; one is for all classes.
    pub num_thresholds: u32,
    /// Pairs of classes that never suppress each other.
    pub num_forbidden: u32,
    /// Of a circle's threshold: 0 radius, 1 squared distance.
    pub reading: u32,
    /// Of the Gaussian decay; 0 for the linear one.
    pub sigma: f32,
    /// Boxes whose score decays below this are dropped, except the top box.
    pub min_score: f32,
    /// Pairs of classes that are compared at any distance.
    pub num_unlimited: u32,
    /// Fills the struct to 64 bytes.
    pub reserved: u32,
}

// SAFETY: 16 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for NmsSettings {}
mirrors!(NmsSettings, "nms/args.cuh", "NmsSettings");
