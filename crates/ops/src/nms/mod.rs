//! Non-maximum suppression: the contract of all kinds, and their dispatch.
//!
//! | kind | candidates | suppresses by |
//! |---|---|---|
//! | [`nms_none`](crate::nms::none) | any | nothing |
//! | [`nms_iou`](crate::nms::iou) | axis-aligned boxes | IoU |
//! | [`nms_fast`](crate::nms::fast) | axis-aligned boxes | IoU, in one pass |
//! | [`nms_soft`](crate::nms::soft) | axis-aligned boxes | IoU, which lowers scores |
//! | [`nms_rotated`](crate::nms::rotated) | rotated boxes in a plane | IoU |
//! | [`nms_circle`](crate::nms::circle) | boxes in space | distance of centres |
//! | [`nms_bev`](crate::nms::bev) | boxes in space | IoU of footprints |
//! | [`nms_bev_fast`](crate::nms::bev_fast) | boxes in space | IoU of footprints, in one pass |
//! | [`nms_iou_3d`](crate::nms::iou_3d) | boxes in space | IoU of volumes |
//!
//! Common to all:
//!
//! - Candidates may come in any order and are not changed. They are compared in
//!   the total order ([`det_post_types::total_order`], then position); a slice
//!   in that order is not sorted again.
//! - A candidate is eligible unless its score is NaN, or a coordinate, size or
//!   angle is not finite. Others are neither kept nor suppress anything.
//! - `keep` is cleared, then receives the survivors, best first, by their
//!   positions in the slice of candidates.
//! - Greedy kinds give exactly the sequential result: a candidate is suppressed
//!   if a kept candidate that ranks above suppresses it; [`fast`], [`bev_fast`]
//!   and [`soft`] state theirs. Of many candidates a spatial hash grid finds
//!   neighbours, which changes the time and not the result.
//! - Every candidate is processed. [`Workspace`] and `keep` allocate only for
//!   more candidates than ever before; on the device the capacity is fixed.

pub mod bev;
pub mod bev_fast;
pub mod circle;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod fast;
pub mod geometry;
pub(crate) mod greedy;
pub(crate) mod grid;
pub mod iou;
pub mod iou_3d;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the argument names the values of the struct")]
pub(crate) mod kernels;
pub(crate) mod lanes;
pub mod none;
pub mod rotated;
#[cfg(test)]
pub(crate) mod scenes;
pub mod soft;
pub mod survivors;
#[cfg(test)]
mod tests;
pub(crate) mod thresholds;
pub(crate) mod workspace;

pub use workspace::Workspace;

#[cfg(feature = "cuda")]
use self::cuda::{Kind, Suppressible};
use crate::nms::bev::nms_bev;
use crate::nms::bev_fast::nms_bev_fast;
use crate::nms::circle::nms_circle;
use crate::nms::fast::nms_fast;
use crate::nms::iou::nms_iou;
use crate::nms::iou_3d::nms_iou_3d;
use crate::nms::none::nms_none;
use crate::nms::rotated::nms_rotated;
use crate::nms::soft::nms_soft;
use crate::nms::survivors::survivors;
#[cfg(feature = "cuda")]
use det_post_types::Box3d;
use det_post_types::{
    Box2d, Candidate, Error, ErrorKind, Kept, Nms2d, Nms3d, Object3d, Result, RotatedBox2d,
};

/// Suppresses candidates with axis-aligned boxes.
///
/// # Errors
/// Returns the errors of the op; `Argument` for [`Nms2d::Rotated`], which needs rotated
/// boxes.
pub fn suppress_2d(
    candidates: &[Candidate<Box2d>],
    nms: &Nms2d,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    match nms {
        Nms2d::None => nms_none(candidates, Box2d::is_finite, workspace, keep),
        Nms2d::Iou(params) => nms_iou(candidates, params, workspace, keep),
        Nms2d::Fast(params) => nms_fast(candidates, params, workspace, keep),
        Nms2d::Soft(params) => nms_soft(candidates, params, workspace, keep),
        Nms2d::Rotated(_) => Err(unsupported(nms, "axis-aligned")),
    }
}

/// Suppresses candidates with rotated boxes in a plane.
///
/// # Errors
/// Returns the errors of the op; `Argument` for a kind other than [`Nms2d::None`] and
/// [`Nms2d::Rotated`].
pub fn suppress_rotated(
    candidates: &[Candidate<RotatedBox2d>],
    nms: &Nms2d,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    match nms {
        Nms2d::None => nms_none(candidates, RotatedBox2d::is_finite, workspace, keep),
        Nms2d::Rotated(params) => nms_rotated(candidates, params, workspace, keep),
        Nms2d::Iou(_) | Nms2d::Fast(_) | Nms2d::Soft(_) => Err(unsupported(nms, "rotated")),
    }
}

/// Suppresses candidates with boxes in space.
///
/// # Errors
/// Returns the errors of the op.
pub fn suppress_3d(
    candidates: &[Candidate<Object3d>],
    nms: &Nms3d,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    match nms {
        Nms3d::None => nms_none(candidates, |o| o.bbox.is_finite(), workspace, keep),
        Nms3d::Circle(params) => nms_circle(candidates, params, workspace, keep),
        Nms3d::Bev(params) => nms_bev(candidates, params, workspace, keep),
        Nms3d::BevFast(params) => nms_bev_fast(candidates, params, workspace, keep),
        Nms3d::Iou3d(params) => nms_iou_3d(candidates, params, workspace, keep),
    }
}

/// Suppresses candidates with boxes in space by several kinds in a row: each takes the
/// survivors of the one before. Without a kind all eligible candidates are kept.
///
/// # Errors
/// Returns the errors of the ops.
pub fn suppress_stages_3d(
    candidates: &[Candidate<Object3d>],
    stages: &[Nms3d],
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    let Some((first, rest)) = stages.split_first() else {
        return suppress_3d(candidates, &Nms3d::None, workspace, keep);
    };
    suppress_3d(candidates, first, workspace, keep)?;
    let mut remaining = std::mem::take(&mut workspace.survivors);
    let mut positions = std::mem::take(&mut workspace.positions);
    for stage in rest {
        survivors(candidates, keep, &mut remaining);
        positions.clear();
        positions.extend(keep.iter().map(|kept| kept.index));
        suppress_3d(&remaining, stage, workspace, keep)?;
        keep.iter_mut().for_each(|kept| kept.index = positions[kept.index as usize]);
    }
    (workspace.survivors, workspace.positions) = (remaining, positions);
    Ok(())
}

#[cfg(feature = "cuda")]
impl Suppressible for Box2d {
    type Nms = Nms2d;

    fn kind(nms: &Nms2d) -> Result<Kind<'_, Self>> {
        match nms {
            Nms2d::None => Kind::none(),
            Nms2d::Iou(params) => Kind::of(params),
            Nms2d::Fast(params) => Kind::of(params),
            Nms2d::Soft(params) => Kind::of(params),
            Nms2d::Rotated(_) => Err(unsupported(nms, "axis-aligned")),
        }
    }
}

#[cfg(feature = "cuda")]
impl Suppressible for RotatedBox2d {
    type Nms = Nms2d;

    fn kind(nms: &Nms2d) -> Result<Kind<'_, Self>> {
        match nms {
            Nms2d::None => Kind::none(),
            Nms2d::Rotated(params) => Kind::of(params),
            Nms2d::Iou(_) | Nms2d::Fast(_) | Nms2d::Soft(_) => Err(unsupported(nms, "rotated")),
        }
    }
}

#[cfg(feature = "cuda")]
impl Suppressible for Box3d {
    type Nms = Nms3d;

    fn kind(nms: &Nms3d) -> Result<Kind<'_, Self>> {
        match nms {
            Nms3d::None => Kind::none(),
            Nms3d::Circle(params) => Kind::of(params),
            Nms3d::Bev(params) => Kind::of(params),
            Nms3d::BevFast(params) => Kind::of(params),
            Nms3d::Iou3d(params) => Kind::of(params),
        }
    }
}

/// The error of a kind that does not support the boxes of the candidates.
fn unsupported(nms: &Nms2d, boxes: &str) -> Error {
    let message = format!("{nms:?} cannot suppress {boxes} boxes");
    Error::new(ErrorKind::Argument, "nms", message)
}
