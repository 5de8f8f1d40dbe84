//! One op on your own slices: greedy suppression of overlapping boxes.
//!
//!     cargo run --release --example suppress

#![allow(clippy::print_stdout, reason = "the result of the example")]

use det_post::Result;
use det_post_ops::nms::Workspace;
use det_post_ops::nms::iou::nms_iou;
use det_post_types::{Box2d, Candidate, ClassMode, NmsIou};

/// Prints the boxes that remain.
///
/// # Errors
/// Returns the errors of the operation.
pub fn main() -> Result<()> {
    let candidates: Vec<_> = [
        (Box2d::new(10.0, 10.0, 60.0, 40.0), 0.90, 0),
        (Box2d::new(12.0, 11.0, 61.0, 42.0), 0.80, 0),
        (Box2d::new(12.0, 11.0, 61.0, 42.0), 0.70, 1),
        (Box2d::new(200.0, 20.0, 240.0, 90.0), 0.95, 0),
    ]
    .into_iter()
    .enumerate()
    .map(|(i, (bbox, score, class))| Candidate { bbox, score, class, source: i as u32 })
    .collect();
    let nms = NmsIou {
        iou_threshold: 0.5,
        offset: 0,
        class_mode: ClassMode::Aware,
        score_threshold: None,
        max_num: usize::MAX,
    };

    let mut keep = Vec::new();
    nms_iou(&candidates, &nms, &mut Workspace::with_capacity(candidates.len()), &mut keep)?;
    for kept in keep {
        println!("kept {:?}", candidates[kept.index as usize]);
    }
    Ok(())
}
