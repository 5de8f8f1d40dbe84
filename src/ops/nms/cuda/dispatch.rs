//! One workspace for whatever suppression a channel's settings name: the
//! device side of [`suppress_2d`](crate::ops::nms::suppress_2d) and
//! [`suppress_3d`](crate::ops::nms::suppress_3d), with the same arms.
//!
//! Launches can be recorded in a graph; new settings of the same kind need no
//! new recording.

use super::Capacity;
use crate::device::cuda::abi::nms::NmsCounts;
use crate::device::cuda::{DeviceBuffer, DeviceCandidates, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::nms_bev::cuda as bev;
use crate::ops::nms_circle::cuda as circle;
use crate::ops::nms_fast::cuda as fast;
use crate::ops::nms_iou::cuda as iou;
use crate::ops::nms_iou_3d::cuda as iou_3d;
use crate::ops::nms_soft::cuda as soft;
use crate::types::{
    Box2d, Box3d, CircleThreshold, ClassMode, Kept, Nms2d, Nms3d, NmsCircle, NmsIou,
};

/// The suppression of a camera channel on one stream.
pub enum Suppression2d {
    /// Greedy by IoU, or none: no IoU is above 1.
    Iou(iou::Workspace),
    /// One pass by IoU.
    Fast(fast::Workspace),
    /// Lowered scores.
    Soft(soft::Workspace),
}

/// The suppression of a lidar channel on one stream.
pub enum Suppression3d {
    /// By distance of centres, or none: no distance is below a negative one.
    Circle(circle::Workspace),
    /// By overlap of footprints.
    Bev(bev::Workspace),
    /// By overlap of volumes.
    Iou3d(iou_3d::Workspace),
}

impl Suppression2d {
    /// Takes kernels and memory, and writes the settings.
    ///
    /// # Errors
    /// `Argument` as on the CPU, or for more groups than there is room for;
    /// `Device` when this build has no such kernels or there is not enough
    /// memory.
    pub fn new(stream: &Stream, nms: &Nms2d, capacity: Capacity) -> Result<Self> {
        let mut suppression = match nms {
            Nms2d::None | Nms2d::Iou(_) => Self::Iou(iou::workspace(stream, capacity)?),
            Nms2d::Fast(_) => Self::Fast(fast::workspace(stream, capacity)?),
            Nms2d::Soft(_) => Self::Soft(soft::workspace(stream, capacity)?),
        };
        suppression.set(nms)?;
        Ok(suppression)
    }

    /// Writes settings of the same kind to the device and waits; recorded
    /// graphs follow them.
    ///
    /// # Errors
    /// `Argument` as [`Suppression2d::new`], or for settings of another kind.
    pub fn set(&mut self, nms: &Nms2d) -> Result<()> {
        match (self, nms) {
            (Self::Iou(workspace), Nms2d::None) => iou::set_nms_iou(workspace, &no_iou()),
            (Self::Iou(workspace), Nms2d::Iou(params)) => iou::set_nms_iou(workspace, params),
            (Self::Fast(workspace), Nms2d::Fast(params)) => fast::set_nms_fast(workspace, params),
            (Self::Soft(workspace), Nms2d::Soft(params)) => soft::set_nms_soft(workspace, params),
            _ => Err(of_another_kind(nms)),
        }
    }

    /// Queues the suppression of `candidates`; [`Suppression2d::read_kept`]
    /// waits for the survivors.
    ///
    /// # Errors
    /// `Argument` when the candidates' capacity is above the workspace's;
    /// `Device` when a buffer is another stream's or a launch fails.
    pub fn enqueue(&mut self, candidates: &DeviceCandidates<Box2d>) -> Result<()> {
        match self {
            Self::Iou(workspace) => iou::enqueue_nms_iou(candidates, workspace),
            Self::Fast(workspace) => fast::enqueue_nms_fast(candidates, workspace),
            Self::Soft(workspace) => soft::enqueue_nms_soft(candidates, workspace),
        }
    }

    /// Waits for the queued suppression and reads the survivors, best first.
    ///
    /// # Errors
    /// `Device` when queued work failed.
    pub fn read_kept(&mut self, keep: &mut Vec<Kept>) -> Result<()> {
        match self {
            Self::Iou(workspace) => workspace.read_kept(keep),
            Self::Fast(workspace) => workspace.read_kept(keep),
            Self::Soft(workspace) => workspace.read_kept(keep),
        }
    }

    /// The survivors on the device, best first, for the ops that follow.
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        match self {
            Self::Iou(workspace) => workspace.kept(),
            Self::Fast(workspace) => workspace.kept(),
            Self::Soft(workspace) => workspace.kept(),
        }
    }
}

impl Suppression3d {
    /// Takes kernels and memory, and writes the settings.
    ///
    /// # Errors
    /// `Argument` as on the CPU, or for more thresholds or groups than there is
    /// room for; `Device` when this build has no such kernels or there is not
    /// enough memory.
    pub fn new(stream: &Stream, nms: &Nms3d, capacity: Capacity) -> Result<Self> {
        let mut suppression = match nms {
            Nms3d::None | Nms3d::Circle(_) => Self::Circle(circle::workspace(stream, capacity)?),
            Nms3d::Bev(_) => Self::Bev(bev::workspace(stream, capacity)?),
            Nms3d::Iou3d(_) => Self::Iou3d(iou_3d::workspace(stream, capacity)?),
        };
        suppression.set(nms)?;
        Ok(suppression)
    }

    /// Writes settings of the same kind to the device and waits; recorded
    /// graphs follow them.
    ///
    /// # Errors
    /// `Argument` as [`Suppression3d::new`], or for settings of another kind.
    pub fn set(&mut self, nms: &Nms3d) -> Result<()> {
        match (self, nms) {
            (Self::Circle(workspace), Nms3d::None) => {
                circle::set_nms_circle(workspace, &no_circle())
            }
            (Self::Circle(workspace), Nms3d::Circle(params)) => {
                circle::set_nms_circle(workspace, params)
            }
            (Self::Bev(workspace), Nms3d::Bev(params)) => bev::set_nms_bev(workspace, params),
            (Self::Iou3d(workspace), Nms3d::Iou3d(params)) => {
                iou_3d::set_nms_iou_3d(workspace, params)
            }
            _ => Err(of_another_kind(nms)),
        }
    }

    /// Queues the suppression of `candidates`; [`Suppression3d::read_kept`]
    /// waits for the survivors.
    ///
    /// # Errors
    /// `Argument` when the candidates' capacity is above the workspace's;
    /// `Device` when a buffer is another stream's or a launch fails.
    pub fn enqueue(&mut self, candidates: &DeviceCandidates<Box3d>) -> Result<()> {
        match self {
            Self::Circle(workspace) => circle::enqueue_nms_circle(candidates, workspace),
            Self::Bev(workspace) => bev::enqueue_nms_bev(candidates, workspace),
            Self::Iou3d(workspace) => iou_3d::enqueue_nms_iou_3d(candidates, workspace),
        }
    }

    /// Waits for the queued suppression and reads the survivors, best first.
    ///
    /// # Errors
    /// `Argument` when a class that took part has no threshold; `Device` when
    /// queued work failed.
    pub fn read_kept(&mut self, keep: &mut Vec<Kept>) -> Result<()> {
        match self {
            Self::Circle(workspace) => workspace.read_kept(keep),
            Self::Bev(workspace) => workspace.read_kept(keep),
            Self::Iou3d(workspace) => workspace.read_kept(keep),
        }
    }

    /// The survivors on the device, best first, for the ops that follow. Their
    /// counts say when a class that took part has no threshold.
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        match self {
            Self::Circle(workspace) => workspace.kept(),
            Self::Bev(workspace) => workspace.kept(),
            Self::Iou3d(workspace) => workspace.kept(),
        }
    }
}

/// Keeps all: an IoU is at most 1.
fn no_iou() -> NmsIou {
    NmsIou {
        iou_threshold: 1.0,
        offset: 0,
        class_mode: ClassMode::Agnostic,
        score_threshold: None,
        max_num: usize::MAX,
    }
}

/// Keeps all: a radius below 0 suppresses nothing.
fn no_circle() -> NmsCircle {
    NmsCircle {
        thresholds: vec![-1.0],
        reading: CircleThreshold::Radius,
        class_mode: ClassMode::Agnostic,
    }
}

fn of_another_kind(nms: &impl std::fmt::Debug) -> Error {
    let message = format!("{nms:?} is of another kind than the workspace was made for");
    Error::new(ErrorKind::Argument, "nms", message)
}
