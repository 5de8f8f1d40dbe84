//! The frames of a detector between submission and collection, and the memory of several.

use det_post_types::{Error, ErrorKind, Result};

/// The frame in flight of a detector that has one at a time, and what is kept of it.
#[derive(Debug)]
pub(crate) struct SingleFrame<T = ()>(Option<T>);

impl<T> SingleFrame<T> {
    /// Without a frame.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// The number of frames in flight.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.0.is_some())
    }

    /// Checks that a frame may be submitted.
    ///
    /// # Errors
    /// `Argument` while a frame is in flight.
    pub(crate) fn check_free(&self) -> Result<()> {
        if self.0.is_some() { Err(wrong(FULL)) } else { Ok(()) }
    }

    /// Notes that a frame is in flight.
    pub(crate) fn mark_submitted(&mut self, kept: T) {
        self.0 = Some(kept);
    }

    /// Ends the frame in flight.
    ///
    /// # Errors
    /// `Argument` when there is none.
    pub(crate) fn end(&mut self) -> Result<T> {
        self.0.take().ok_or_else(|| wrong(NONE))
    }
}

/// What a frame in flight does not share with another one, once for each frame, used in turn.
#[cfg(feature = "cuda")]
pub(super) struct Contexts<C> {
    all: Vec<C>,
    /// The context of the earliest frame in flight, and the number of these frames.
    earliest: usize,
    num_in_flight: usize,
    /// Whether there was not enough memory for frames in flight.
    is_refused: bool,
}

#[cfg(feature = "cuda")]
impl<C> Contexts<C> {
    /// For one frame after another.
    pub(super) fn of_single(context: C) -> Self {
        Self { all: vec![context], earliest: 0, num_in_flight: 0, is_refused: false }
    }

    /// Every context.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut C> {
        self.all.iter_mut()
    }

    /// How many frames there can be in flight.
    pub(super) fn max_in_flight(&self) -> usize {
        self.all.len()
    }

    /// How many frames are in flight.
    pub(super) fn num_in_flight(&self) -> usize {
        self.num_in_flight
    }

    /// Whether [`Contexts::allow`] would make contexts for so many frames: the first time that
    /// these are several.
    pub(super) fn can_grow_to(&self, num: usize) -> bool {
        num > 1 && self.all.len() == 1 && self.num_in_flight == 0 && !self.is_refused
    }

    /// Allows up to `num` frames in flight, for which `make` makes the context of each; a failure
    /// is logged. Returns how many there can be.
    pub(super) fn allow(&mut self, num: usize, make: impl FnMut(usize) -> Result<C>) -> usize {
        if self.can_grow_to(num) {
            match (0..num).map(make).collect::<Result<Vec<_>>>() {
                Ok(contexts) => (self.all, self.earliest) = (contexts, 0),
                Err(reason) => {
                    tracing::warn!("one frame in flight at a time: {reason}");
                    self.is_refused = true;
                }
            }
        }
        self.all.len()
    }

    /// The context of the next frame, and its number. [`Contexts::mark_submitted`] follows, unless
    /// the frame is dropped.
    ///
    /// # Errors
    /// `Argument` when as many frames as allowed are in flight.
    pub(super) fn next(&mut self) -> Result<(usize, &mut C)> {
        if self.num_in_flight >= self.all.len() {
            return Err(wrong(FULL));
        }
        let place = (self.earliest + self.num_in_flight) % self.all.len();
        Ok((place, &mut self.all[place]))
    }

    /// Notes that the frame of [`Contexts::next`] is in flight.
    pub(super) fn mark_submitted(&mut self) {
        self.num_in_flight += 1;
    }

    /// The context of the latest frame in flight, and its number.
    pub(super) fn latest(&mut self) -> Option<(usize, &mut C)> {
        let place = (self.earliest + self.num_in_flight.checked_sub(1)?) % self.all.len();
        self.all.get_mut(place).map(|context| (place, context))
    }

    /// The context of the earliest frame in flight, which ends, and its number.
    ///
    /// # Errors
    /// `Argument` when no frame is in flight.
    pub(super) fn end_earliest(&mut self) -> Result<(usize, &mut C)> {
        if self.num_in_flight == 0 {
            return Err(wrong(NONE));
        }
        let place = self.earliest;
        self.earliest = (place + 1) % self.all.len();
        self.num_in_flight -= 1;
        Ok((place, &mut self.all[place]))
    }
}

const FULL: &str = "as many frames as allowed are in flight: collect the earliest first";
const NONE: &str = "no frame is in flight: submit one first";

/// The error of a call that does not fit the number of frames in flight.
fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Argument, "detector", what)
}
