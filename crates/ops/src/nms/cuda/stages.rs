//! Several suppressions in a row, each of the survivors of the one before.

use super::{Capacity, NmsCounts, Suppression3d};
use crate::device::cuda::{DeviceBuffer, Stream};
use crate::nms::bev_fast::cuda::Ranked;
use crate::nms::survivors::cuda::Workspace as Survivors;
use crate::shared::DeviceCandidates;
use det_post_types::{Box3d, Error, ErrorKind, Kept, Nms3d, Result};

/// The CUDA side of [`suppress_stages_3d`](crate::nms::suppress_stages_3d).
pub struct Stages3d {
    first: Suppression3d,
    rest: Vec<LaterSuppression>,
}

/// A stage after the first.
enum LaterSuppression {
    /// One pass over the survivors where they are, in the order that they have.
    OnePass(Box<Ranked>),
    /// The survivors are copied and ranked again.
    Copied(Survivors, Suppression3d),
}

impl LaterSuppression {
    fn new(stream: &Stream, nms: &Nms3d, capacity: Capacity) -> Result<Self> {
        if let Nms3d::BevFast(params) = nms {
            return Ok(Self::OnePass(Box::new(Ranked::new(stream, params, capacity)?)));
        }
        let survivors = Survivors::new(stream, capacity.candidates)?;
        Ok(Self::Copied(survivors, Suppression3d::new(stream, nms, capacity)?))
    }

    fn set(&mut self, nms: &Nms3d) -> Result<()> {
        match (self, nms) {
            (Self::OnePass(ranked), Nms3d::BevFast(params)) => ranked.set(params),
            (Self::OnePass(_), _) => {
                let message = format!("{nms:?} is not for a workspace of nms_bev_fast");
                Err(Error::new(ErrorKind::Argument, "nms", message))
            }
            (Self::Copied(_, suppression), _) => suppression.set(nms),
        }
    }

    fn enqueue(&mut self, left: Survivors3d<'_>) -> Result<()> {
        match self {
            Self::OnePass(ranked) => ranked.enqueue(left.candidates, left.kept),
            Self::Copied(survivors, suppression) => {
                // One launch copies the survivors and writes their footprints.
                let footprints = suppression.0.footprints()?;
                let is_prepared = footprints.is_some();
                survivors.enqueue(left.candidates, left.places, left.kept, footprints)?;
                suppression.0.enqueue(survivors.survivors().0, is_prepared)
            }
        }
    }
}

/// What is left by the last stage, on the device.
#[derive(Clone, Copy)]
pub struct Survivors3d<'a> {
    /// The candidates that the last stage refers to.
    pub candidates: &'a DeviceCandidates<Box3d>,
    /// Their places, where [`Stages3d::enqueue`] was given places.
    pub places: Option<&'a DeviceBuffer<u32>>,
    /// The candidates that it keeps, best first, and their number.
    pub kept: (&'a DeviceBuffer<Kept>, &'a DeviceBuffer<NmsCounts>),
}

impl Stages3d {
    /// Loads the kernels, allocates the memory and writes the settings.
    ///
    /// # Errors
    /// Returns the errors of [`Suppression3d::new`].
    pub fn new(stream: &Stream, stages: &[Nms3d], capacity: Capacity) -> Result<Self> {
        let (first, rest) = stages.split_first().unwrap_or((&Nms3d::None, &[]));
        let first = Suppression3d::new(stream, first, capacity)?;
        let rest = rest.iter().map(|nms| LaterSuppression::new(stream, nms, capacity));
        Ok(Self { first, rest: rest.collect::<Result<_>>()? })
    }

    /// Writes settings of the same kinds to the device and waits; recorded graphs follow
    /// them.
    ///
    /// # Errors
    /// `Argument` as [`Suppression3d::new`], or for settings of other kinds.
    pub fn set(&mut self, stages: &[Nms3d]) -> Result<()> {
        let (first, rest) = stages.split_first().unwrap_or((&Nms3d::None, &[]));
        if rest.len() != self.rest.len() {
            let message = format!("{} stages for {}", rest.len() + 1, self.rest.len() + 1);
            return Err(Error::new(ErrorKind::Argument, "nms", message));
        }
        self.first.set(first)?;
        self.rest.iter_mut().zip(rest).try_for_each(|(stage, nms)| stage.set(nms))
    }

    /// Queues all stages. `places`: by candidate its index in other lists.
    ///
    /// # Errors
    /// Returns the errors of [`Suppression3d::enqueue`].
    pub fn enqueue<'a>(
        &'a mut self,
        candidates: &'a DeviceCandidates<Box3d>,
        places: Option<&'a DeviceBuffer<u32>>,
    ) -> Result<Survivors3d<'a>> {
        self.first.enqueue(candidates)?;
        let mut left = Survivors3d { candidates, places, kept: self.first.kept() };
        for stage in &mut self.rest {
            stage.enqueue(left)?;
            left = left.after(stage);
        }
        Ok(left)
    }

    /// What the last stage leaves of the candidates that were queued.
    pub fn survivors<'a>(
        &'a self,
        candidates: &'a DeviceCandidates<Box3d>,
        places: Option<&'a DeviceBuffer<u32>>,
    ) -> Survivors3d<'a> {
        let first = Survivors3d { candidates, places, kept: self.first.kept() };
        self.rest.iter().fold(first, Survivors3d::after)
    }
}

impl<'a> Survivors3d<'a> {
    /// What a further stage leaves.
    fn after(self, stage: &'a LaterSuppression) -> Self {
        match stage {
            LaterSuppression::OnePass(ranked) => Self { kept: ranked.kept(), ..self },
            LaterSuppression::Copied(survivors, suppression) => {
                let (candidates, places) = survivors.survivors();
                let places = self.places.map(|_| places);
                Self { candidates, places, kept: suppression.kept() }
            }
        }
    }
}
