//! Checked thresholds of suppression ops.

use super::greedy::Ranked;
use det_post_types::{Error, ErrorKind, Result};

/// Refuses an IoU threshold outside [0, 1].
pub(crate) fn check_iou_threshold(op: &'static str, threshold: f32) -> Result<()> {
    if (0.0..=1.0).contains(&threshold) {
        return Ok(());
    }
    let message = format!("iou_threshold is {threshold}, allowed is 0 to 1");
    Err(Error::new(ErrorKind::Argument, op, message))
}

/// Refuses an offset other than 0 and 1.
pub(crate) fn check_offset(op: &'static str, offset: u8) -> Result<()> {
    if offset <= 1 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Argument, op, format!("offset is {offset}, allowed are 0 and 1")))
}

/// A threshold per class, or one for all classes.
#[derive(Clone, Copy)]
pub(crate) struct ClassThresholds<'a>(&'a [f32]);

impl<'a> ClassThresholds<'a> {
    /// Refuses a list without a threshold for the class of an eligible
    /// candidate.
    pub(crate) fn new(op: &'static str, thresholds: &'a [f32], ranked: &[Ranked]) -> Result<Self> {
        let num = thresholds.len();
        let message = match ranked.iter().map(|r| r.class).max() {
            _ if num == 1 => return Ok(Self(thresholds)),
            Some(class) if class as usize >= num => {
                format!("{num} thresholds, class {class} needs {}", class as usize + 1)
            }
            None if num == 0 => "0 thresholds, at least 1 required".to_owned(),
            _ => return Ok(Self(thresholds)),
        };
        Err(Error::new(ErrorKind::Argument, op, message))
    }

    /// The threshold of a candidate's class.
    #[inline]
    pub(crate) fn of(self, candidate: &Ranked) -> f32 {
        self.0[if self.0.len() == 1 { 0 } else { candidate.class as usize }]
    }

    pub(crate) fn lowest(self) -> f32 {
        self.0.iter().copied().fold(f32::INFINITY, f32::min)
    }
}
