//! One workspace for whatever suppression a channel's settings name: the
//! device side of [`suppress_2d`](crate::ops::nms::suppress_2d) and
//! [`suppress_3d`](crate::ops::nms::suppress_3d), with the same arms.
//!
//! Launches can be recorded in a graph; new settings of the same kind need no
//! new recording.

use super::{Capacity, DeviceWorkspace};
use crate::device::cuda::abi::nms::NmsCounts;
use crate::device::cuda::abi::nms::nms_circle::NmsCircleSteps;
use crate::device::cuda::abi::nms::nms_iou::NmsIouSteps;
use crate::device::cuda::{DeviceBuffer, DeviceCandidates, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::nms_circle::cuda::set_nms_circle;
use crate::ops::nms_iou::cuda::set_nms_iou;
use crate::types::{
    Box2d, Box3d, CircleThreshold, ClassMode, Kept, Nms2d, Nms3d, NmsCircle, NmsIou,
};

/// The suppression of a camera channel on one stream.
pub enum Suppression2d {
    /// Greedy by IoU, or none: no IoU is above 1.
    Iou(DeviceWorkspace<NmsIouSteps>),
}

/// The suppression of a lidar channel on one stream.
pub enum Suppression3d {
    /// By distance of centres, or none: no distance is below a negative one.
    Circle(DeviceWorkspace<NmsCircleSteps>),
}

/// The same expression for the workspace of every arm.
macro_rules! each {
    ($value:expr, $type:ident: $($arm:ident)|+, $workspace:ident => $body:expr) => {
        match $value {
            $($type::$arm($workspace) => $body,)+
        }
    };
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
            Nms2d::None | Nms2d::Iou(_) => {
                Self::Iou(DeviceWorkspace::new("nms_iou", stream, capacity)?)
            }
            Nms2d::Fast(_) | Nms2d::Soft(_) => return Err(missing(nms)),
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
            (Self::Iou(workspace), Nms2d::None) => set_nms_iou(workspace, &no_iou()),
            (Self::Iou(workspace), Nms2d::Iou(params)) => set_nms_iou(workspace, params),
            (Self::Iou(_), _) => Err(of_another_kind(nms)),
        }
    }

    /// Queues the suppression of `candidates`; [`Suppression2d::read_kept`]
    /// waits for the survivors.
    ///
    /// # Errors
    /// `Argument` when the candidates' capacity is above the workspace's;
    /// `Device` when a buffer is another stream's or a launch fails.
    pub fn enqueue(&mut self, candidates: &DeviceCandidates<Box2d>) -> Result<()> {
        let DeviceCandidates { items, num } = candidates;
        each!(self, Self: Iou, workspace => workspace.enqueue(items, num))
    }

    /// Waits for the queued suppression and reads the survivors, best first.
    ///
    /// # Errors
    /// `Device` when queued work failed.
    pub fn read_kept(&mut self, keep: &mut Vec<Kept>) -> Result<()> {
        each!(self, Self: Iou, workspace => workspace.read_kept(keep))
    }

    /// The survivors on the device, best first, for the ops that follow.
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        each!(self, Self: Iou, workspace => workspace.kept())
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
            Nms3d::None | Nms3d::Circle(_) => {
                Self::Circle(DeviceWorkspace::new("nms_circle", stream, capacity)?)
            }
            Nms3d::Bev(_) | Nms3d::Iou3d(_) => return Err(missing(nms)),
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
            (Self::Circle(workspace), Nms3d::None) => set_nms_circle(workspace, &no_circle()),
            (Self::Circle(workspace), Nms3d::Circle(params)) => set_nms_circle(workspace, params),
            (Self::Circle(_), _) => Err(of_another_kind(nms)),
        }
    }

    /// Queues the suppression of `candidates`; [`Suppression3d::read_kept`]
    /// waits for the survivors.
    ///
    /// # Errors
    /// `Argument` when the candidates' capacity is above the workspace's;
    /// `Device` when a buffer is another stream's or a launch fails.
    pub fn enqueue(&mut self, candidates: &DeviceCandidates<Box3d>) -> Result<()> {
        let DeviceCandidates { items, num } = candidates;
        each!(self, Self: Circle, workspace => workspace.enqueue(items, num))
    }

    /// Waits for the queued suppression and reads the survivors, best first.
    ///
    /// # Errors
    /// `Argument` when a class that took part has no threshold; `Device` when
    /// queued work failed.
    pub fn read_kept(&mut self, keep: &mut Vec<Kept>) -> Result<()> {
        each!(self, Self: Circle, workspace => workspace.read_kept(keep))
    }

    /// The survivors on the device, best first, for the ops that follow. Their
    /// counts say when a class that took part has no threshold.
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        each!(self, Self: Circle, workspace => workspace.kept())
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

fn missing(nms: &impl std::fmt::Debug) -> Error {
    Error::new(ErrorKind::Argument, "nms", format!("{nms:?} has no CUDA side"))
}

fn of_another_kind(nms: &impl std::fmt::Debug) -> Error {
    let message = format!("{nms:?} is of another kind than the workspace was made for");
    Error::new(ErrorKind::Argument, "nms", message)
}
