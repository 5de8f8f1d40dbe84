//! No suppression: all eligible candidates in the total order.
//!
//! For networks whose outputs are final, such as end-to-end YOLO and DETR
//! heads. No boxes are compared. Order, ties, NaN and memory: see
//! [`nms`](crate::nms).

#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the argument names the kernels")]
pub(super) mod kernels;

use crate::nms::Workspace;
use det_post_types::{Candidate, ClassMode, Kept, Result};

/// Keeps all candidates with a score other than NaN and a finite box, best
/// first.
///
/// # Errors
/// `Argument` for more than `u32::MAX` candidates.
pub fn nms_none<B>(
    candidates: &[Candidate<B>],
    is_finite: impl Fn(&B) -> bool,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    let order = &mut workspace.order;
    order.rank("nms_none", candidates, &ClassMode::Agnostic, |c| is_finite(&c.bbox))?;
    keep.clear();
    keep.extend(order.ranked.iter().map(|r| Kept { index: r.index, score: r.score }));
    Ok(())
}

#[cfg(test)]
mod tests;
