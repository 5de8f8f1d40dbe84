//! The CUDA side of [`suppress_2d`](super::suppress_2d),
//! [`suppress_rotated`](super::suppress_rotated) and
//! [`suppress_3d`](super::suppress_3d): the same survivors in the same order, bit
//! for bit. `kernels/README.md` states the algorithms.
//!
//! The number of candidates is read on the device; more than the capacity are not
//! read. Parameters are in device memory: recorded graphs follow new ones of the same
//! kind. Candidates in space carry only the box; velocity and variance are gathered
//! by position.

#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;
pub(crate) mod parameters;
pub(crate) mod scratch;
mod stages;
pub(crate) mod workspace;

pub use kernels::NmsCounts;
pub use stages::{Stages3d, Survivors3d};
pub use workspace::Capacity;

use std::fmt::Debug;
use std::marker::PhantomData;

use self::kernels::Family;
use self::parameters::Parameters;
use self::workspace::{Op, Workspace};
use crate::device::cuda::{DeviceBuffer, Plain, Stream};
use crate::nms::none::kernels::KeepAll;
use crate::shared::DeviceCandidates;
use det_post_types::{Box2d, Box3d, Candidate, Error, ErrorKind, Kept, Result, RotatedBox2d};

/// The suppression of candidates with axis-aligned boxes.
pub type Suppression2d = Suppression<Box2d>;
/// The suppression of candidates with rotated boxes in a plane.
pub type SuppressionRotated = Suppression<RotatedBox2d>;
/// The suppression of candidates with boxes in space.
pub type Suppression3d = Suppression<Box3d>;

/// A kind of suppression of boxes `B`, as settings name it.
pub struct Kind<'a, B> {
    op: &'static str,
    parameters: Parameters<'a>,
    load: Load<B>,
}

/// Loads the kernels and allocates the memory of a kind.
type Load<B> = fn(&Stream, Capacity) -> Result<Box<dyn Op<B>>>;

impl<'a, B> Kind<'a, B> {
    /// The kind of `params`.
    ///
    /// # Errors
    /// `Argument` as on the CPU, or for an empty list of thresholds.
    pub(super) fn of<P: Family<Bbox = B>>(params: &'a P) -> Result<Self>
    where
        Candidate<B>: Plain,
    {
        let load = |stream: &_, capacity| Ok(Box::new(Workspace::<P>::new(stream, capacity)?) as _);
        Ok(Self { op: P::OP, parameters: params.parameters()?, load })
    }

    /// Nothing is suppressed.
    ///
    /// # Errors
    /// None.
    pub(super) fn none() -> Result<Self>
    where
        KeepAll<B>: Family<Bbox = B>,
        Candidate<B>: Plain,
    {
        Self::of(&KeepAll(PhantomData))
    }
}

/// Boxes whose candidates can be suppressed on the device.
pub trait Suppressible: Sized {
    /// The settings, which name the kind.
    type Nms: Debug;

    /// The kind that settings name.
    ///
    /// # Errors
    /// `Argument` for wrong settings, or a kind for other boxes.
    fn kind(nms: &Self::Nms) -> Result<Kind<'_, Self>>;
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
        let kind = B::kind(nms)?;
        let mut op = (kind.load)(stream, capacity)?;
        op.set(&kind.parameters)?;
        Ok(Self(op))
    }

    /// Writes settings of the same kind to the device and waits; recorded graphs
    /// follow them.
    ///
    /// # Errors
    /// `Argument` as [`Suppression::new`], or for settings of another kind.
    pub fn set(&mut self, nms: &B::Nms) -> Result<()> {
        let Kind { op, parameters, .. } = B::kind(nms)?;
        if op != self.0.name() {
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
        self.0.enqueue(candidates, false)
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
