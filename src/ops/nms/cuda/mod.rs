//! The CUDA side of [`suppress_2d`](super::suppress_2d),
//! [`suppress_rotated`](super::suppress_rotated) and
//! [`suppress_3d`](super::suppress_3d): the same survivors in the same order, bit
//! for bit. `kernels/README.md` states the algorithms.
//!
//! The number of candidates is read on the device; more than the capacity are not
//! read. Parameters are in device memory: recorded graphs follow new ones of the same
//! kind. Candidates in space carry the box alone; velocity and variance are gathered
//! by position.

#[expect(unsafe_code, reason = "kernels are promised to fit their parameters; each block says why")]
pub(in crate::ops) mod kernels;
pub(in crate::ops) mod parameters;
mod workspace;

pub use kernels::NmsCounts;
pub use workspace::Capacity;

use std::fmt::Debug;

use self::kernels::{Family, KeepAll, NmsSettings};
use self::parameters::Parameters;
use self::workspace::{Op, Workspace};
use super::unsupported;
use crate::device::cuda::{DeviceBuffer, DeviceCandidates, Plain, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::{nms_bev, nms_circle, nms_fast, nms_iou, nms_iou_3d, nms_rotated, nms_soft};
use crate::types::{
    Box2d, Box3d, Candidate, ClassMode, Kept, Nms2d, Nms3d, NmsBev, NmsCircle, NmsFast, NmsIou,
    NmsIou3d, NmsRotated, NmsSoft, RotatedBox2d,
};

/// The suppression of candidates with axis-aligned boxes.
pub type Suppression2d = Suppression<Box2d>;
/// The suppression of candidates with rotated boxes in a plane.
pub type SuppressionRotated = Suppression<RotatedBox2d>;
/// The suppression of candidates with boxes in space.
pub type Suppression3d = Suppression<Box3d>;

/// Boxes whose candidates can be suppressed on the device.
pub trait Suppressible: Sized {
    /// The settings, which name the kind.
    type Nms: Debug;

    /// Kernels and memory of the kind.
    #[doc(hidden)]
    fn op(stream: &Stream, nms: &Self::Nms, capacity: Capacity) -> Result<Box<dyn Op<Self>>>;

    /// The name of the op and its parameters.
    #[doc(hidden)]
    fn parameters(nms: &Self::Nms) -> Result<(&'static str, Parameters<'_>)>;
}

/// Kernels and memory of the suppression that settings name, on one stream.
pub struct Suppression<B>(Box<dyn Op<B>>);

impl<B: Suppressible> Suppression<B> {
    /// Loads the kernels, allocates the memory and writes the settings.
    ///
    /// # Errors
    /// `Argument` as on the CPU, for an empty list of thresholds, or for more
    /// thresholds, groups or pairs than fit; `Device` when this build has no such
    /// kernels or there is not enough memory.
    pub fn new(stream: &Stream, nms: &B::Nms, capacity: Capacity) -> Result<Self> {
        let mut suppression = Self(B::op(stream, nms, capacity)?);
        suppression.set(nms)?;
        Ok(suppression)
    }

    /// Writes settings of the same kind to the device and waits; recorded graphs
    /// follow them.
    ///
    /// # Errors
    /// `Argument` as [`Suppression::new`], or for settings of another kind.
    pub fn set(&mut self, nms: &B::Nms) -> Result<()> {
        let (name, parameters) = B::parameters(nms)?;
        if name != self.0.name() {
            let message = format!("{nms:?} is not for a workspace of {}", self.0.name());
            return Err(Error::new(ErrorKind::Argument, "nms", message));
        }
        self.0.set(&parameters)
    }

    /// Queues the suppression of `candidates`; [`Suppression::read_kept`] waits for
    /// the survivors.
    ///
    /// # Errors
    /// `Argument` when the candidates' capacity is above the workspace's; `Device`
    /// when a buffer is another stream's or a launch fails.
    pub fn enqueue(&mut self, candidates: &DeviceCandidates<B>) -> Result<()> {
        self.0.enqueue(candidates)
    }

    /// Waits for the queued suppression and reads the survivors, best first.
    ///
    /// # Errors
    /// `Argument` when the class of an eligible candidate has no threshold;
    /// `Device` when queued work failed.
    pub fn read_kept(&mut self, keep: &mut Vec<Kept>) -> Result<()> {
        self.0.read_kept(keep)
    }

    /// The survivors on the device, best first, and their number, for the ops that
    /// follow. The counts also report a class without a threshold.
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        self.0.kept()
    }
}

/// Kernels and memory of the family of `P`.
fn op<P: Family>(stream: &Stream, capacity: Capacity) -> Result<Box<dyn Op<P::Bbox>>>
where
    Candidate<P::Bbox>: Plain,
{
    Ok(Box::new(Workspace::<P>::new(stream, capacity)?))
}

fn keep_all() -> Parameters<'static> {
    Parameters::new(&ClassMode::Agnostic, NmsSettings::default())
}

impl Suppressible for Box2d {
    type Nms = Nms2d;

    fn op(stream: &Stream, nms: &Nms2d, capacity: Capacity) -> Result<Box<dyn Op<Self>>> {
        match nms {
            Nms2d::None => op::<KeepAll<Self>>(stream, capacity),
            Nms2d::Iou(_) => op::<NmsIou>(stream, capacity),
            Nms2d::Fast(_) => op::<NmsFast>(stream, capacity),
            Nms2d::Soft(_) => op::<NmsSoft>(stream, capacity),
            Nms2d::Rotated(_) => Err(unsupported(nms, "axis-aligned")),
        }
    }

    fn parameters(nms: &Nms2d) -> Result<(&'static str, Parameters<'_>)> {
        Ok(match nms {
            Nms2d::None => (KeepAll::<Self>::OP, keep_all()),
            Nms2d::Iou(params) => (NmsIou::OP, nms_iou::cuda::parameters(params)?),
            Nms2d::Fast(params) => (NmsFast::OP, nms_fast::cuda::parameters(params)?),
            Nms2d::Soft(params) => (NmsSoft::OP, nms_soft::cuda::parameters(params)?),
            Nms2d::Rotated(_) => return Err(unsupported(nms, "axis-aligned")),
        })
    }
}

impl Suppressible for RotatedBox2d {
    type Nms = Nms2d;

    fn op(stream: &Stream, nms: &Nms2d, capacity: Capacity) -> Result<Box<dyn Op<Self>>> {
        match nms {
            Nms2d::None => op::<KeepAll<Self>>(stream, capacity),
            Nms2d::Rotated(_) => op::<NmsRotated>(stream, capacity),
            Nms2d::Iou(_) | Nms2d::Fast(_) | Nms2d::Soft(_) => Err(unsupported(nms, "rotated")),
        }
    }

    fn parameters(nms: &Nms2d) -> Result<(&'static str, Parameters<'_>)> {
        match nms {
            Nms2d::None => Ok((KeepAll::<Self>::OP, keep_all())),
            Nms2d::Rotated(params) => Ok((NmsRotated::OP, nms_rotated::cuda::parameters(params)?)),
            Nms2d::Iou(_) | Nms2d::Fast(_) | Nms2d::Soft(_) => Err(unsupported(nms, "rotated")),
        }
    }
}

impl Suppressible for Box3d {
    type Nms = Nms3d;

    fn op(stream: &Stream, nms: &Nms3d, capacity: Capacity) -> Result<Box<dyn Op<Self>>> {
        match nms {
            Nms3d::None => op::<KeepAll<Self>>(stream, capacity),
            Nms3d::Circle(_) => op::<NmsCircle>(stream, capacity),
            Nms3d::Bev(_) => op::<NmsBev>(stream, capacity),
            Nms3d::Iou3d(_) => op::<NmsIou3d>(stream, capacity),
        }
    }

    fn parameters(nms: &Nms3d) -> Result<(&'static str, Parameters<'_>)> {
        Ok(match nms {
            Nms3d::None => (KeepAll::<Self>::OP, keep_all()),
            Nms3d::Circle(params) => (NmsCircle::OP, nms_circle::cuda::parameters(params)?),
            Nms3d::Bev(params) => (NmsBev::OP, nms_bev::cuda::parameters(params)?),
            Nms3d::Iou3d(params) => (NmsIou3d::OP, nms_iou_3d::cuda::parameters(params)?),
        })
    }
}
