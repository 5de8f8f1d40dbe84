//! Parameters of suppression as the kernels take them.

use crate::nms::kernels::NmsSettings;
use det_post_types::{ClassMode, Error, ErrorKind, Result};

/// Parameters of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    /// The single numbers; the workspace fills in those that follow from the lists.
    pub settings: NmsSettings,
    /// Which candidates suppress each other.
    pub class_mode: &'a ClassMode,
    /// By class.
    pub thresholds: &'a [f32],
    /// Pairs of classes that never suppress each other.
    pub forbidden: &'a [[u32; 2]],
    /// Pairs of classes that are compared at any distance.
    pub unlimited: &'a [[u32; 2]],
}

impl<'a> Parameters<'a> {
    /// Parameters without lists and without a limit of survivors.
    pub(crate) fn new(class_mode: &'a ClassMode, settings: NmsSettings) -> Self {
        let settings = NmsSettings { max_num: u32::MAX, ..settings };
        Self { settings, class_mode, thresholds: &[], forbidden: &[], unlimited: &[] }
    }

    /// Compares only boxes whose centres are at most `distance_m` apart.
    pub(crate) fn with_search_distance(self, distance_m: f32) -> Self {
        let squared_search_distance = distance_m * distance_m;
        Self { settings: NmsSettings { squared_search_distance, ..self.settings }, ..self }
    }

    /// Adds thresholds by class.
    ///
    /// # Errors
    /// `Argument` for an empty list.
    pub(crate) fn with_thresholds(self, op: &'static str, thresholds: &'a [f32]) -> Result<Self> {
        if thresholds.is_empty() {
            let message = "0 thresholds, at least 1 required";
            return Err(Error::new(ErrorKind::Argument, op, message));
        }
        Ok(Self { thresholds, ..self })
    }
}
