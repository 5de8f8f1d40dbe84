//! One run of a network for the frames of several channels.
//!
//! A [`Batch`] has a place for each of its members. A member enters the next run with its input
//! and leaves it with its outputs:
//!
//! ```text
//! vacant ──enter──► entered ──run──► done ──leave──► vacant
//! ```
//!
//! A run starts when every member has entered, or when a member has waited as long as it may
//! for the others; a member that enters later takes part in the next run. It starts after all
//! members have left the run before. Runs are on a thread of the batch, because ONNX Runtime
//! warms up, and TensorRT records CUDA graphs, per thread. A member that is dropped is not
//! waited for.
//!
//! [`HostNetwork`] is a network on the CPU, shared in this way or not; on a GPU
//! [`DeviceEngine`](super::device::DeviceEngine) is.

mod host;

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use host::{HostNetwork, HostWork, Outputs};

use det_post_types::{Dim, Error, ErrorKind, Result, TensorSpec};

const STAGE: &str = "batch";

/// A network and the memory of its runs.
pub trait Work: Send + 'static {
    /// Runs the network for the members that have entered.
    ///
    /// # Errors
    /// `Inference` or `Device`; every member that has entered gets it.
    fn run(&mut self) -> Result<()>;
}

/// A network that runs once for several members.
pub struct Batch<W: Work> {
    shared: Arc<Shared<W>>,
    runner: Option<JoinHandle<()>>,
}

struct Shared<W> {
    state: Mutex<State<W>>,
    changed: Condvar,
}

struct State<W> {
    work: W,
    places: Vec<Place>,
    /// A member has waited as long as it may.
    is_due: bool,
    /// The device of the network has failed.
    is_broken: bool,
    /// There are no more runs.
    is_over: bool,
}

#[derive(Debug)]
enum Place {
    /// Without a member.
    Absent,
    Vacant,
    Entered,
    /// Has run; with the reason if that failed.
    Done(Option<Failure>),
}

/// An error that several members get.
#[derive(Clone, Debug)]
struct Failure {
    kind: ErrorKind,
    stage: &'static str,
    message: String,
}

impl Failure {
    fn of(error: &Error) -> Self {
        let text = error.to_string();
        let message = text.strip_prefix(&format!("{}: ", error.stage())).unwrap_or(&text);
        Self { kind: error.kind(), stage: error.stage(), message: message.to_owned() }
    }

    fn into_error(self) -> Error {
        Error::new(self.kind, self.stage, self.message)
    }
}

impl<W: Work> Batch<W> {
    /// A batch of `num_places` whose network `make` loads, on the thread of its runs.
    ///
    /// # Errors
    /// Returns the errors of `make`; `Io` when there is no thread.
    pub fn start(
        num_places: usize,
        make: impl FnOnce() -> Result<W> + Send + 'static,
    ) -> Result<Arc<Self>> {
        let (sender, receiver) = sync_channel(1);
        let work = move || match make() {
            Ok(work) => {
                let places = (0..num_places).map(|_| Place::Absent).collect();
                let state = State { work, places, is_due: false, is_broken: false, is_over: false };
                let state = Mutex::new(state);
                let shared = Arc::new(Shared { state, changed: Condvar::new() });
                if sender.send(Ok(Arc::clone(&shared))).is_ok() {
                    shared.run_until_over();
                }
            }
            // Without a receiver nothing waits for the reason.
            Err(error) => drop(sender.send(Err(error))),
        };
        let spawned = std::thread::Builder::new().name("batch".to_owned()).spawn(work);
        let no_thread = |cause| Error::new(ErrorKind::Io, STAGE, "no thread").with_source(cause);
        let runner = spawned.map_err(no_thread)?;
        let shared = receiver.recv().map_err(|_| over())??;
        Ok(Arc::new(Self { shared, runner: Some(runner) }))
    }

    /// The member of a place.
    ///
    /// # Errors
    /// `Argument` when there is no such place, or it has a member.
    pub fn join(self: &Arc<Self>, place: usize) -> Result<Member<W>> {
        let mut state = self.shared.lock();
        match state.places.get_mut(place) {
            Some(free @ Place::Absent) => *free = Place::Vacant,
            _ => return Err(argument(format!("place {place} is not free"))),
        }
        Ok(Member { batch: Arc::clone(self), place })
    }

    /// Calls `work` with the network, between its runs.
    pub fn with<T>(&self, work: impl FnOnce(&mut W) -> T) -> T {
        work(&mut self.shared.lock().work)
    }

    fn is_broken(&self) -> bool {
        let state = self.shared.lock();
        state.is_broken || state.is_over
    }
}

impl<W: Work> Drop for Batch<W> {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        if let Some(runner) = self.runner.take() {
            // A panic of the thread has been reported.
            let _ = runner.join();
        }
    }
}

impl<W> Shared<W> {
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Work> Shared<W> {
    fn run_until_over(&self) {
        // Dropped after the lock, also when a run panics.
        let _end = EndOfRuns(self);
        let mut state = self.lock();
        while !state.is_over {
            if state.is_ready() {
                state.run();
                self.changed.notify_all();
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl<W: Work> State<W> {
    /// Whether the next run starts.
    fn is_ready(&self) -> bool {
        let has = |wanted: fn(&Place) -> bool| self.places.iter().any(wanted);
        has(|place| matches!(place, Place::Entered))
            && !has(|place| matches!(place, Place::Done(_)))
            && (self.is_due || !has(|place| matches!(place, Place::Vacant)))
    }

    fn run(&mut self) {
        let failure = self.work.run().err().map(|error| Failure::of(&error));
        self.is_due = false;
        self.is_broken |= failure.as_ref().is_some_and(|failure| failure.kind.is_of_device());
        for place in self.places.iter_mut().filter(|place| matches!(place, Place::Entered)) {
            *place = Place::Done(failure.clone());
        }
    }
}

/// Ends the waits of members when there are no more runs.
struct EndOfRuns<'a, W: Work>(&'a Shared<W>);

impl<W: Work> Drop for EndOfRuns<'_, W> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

/// A member of a batch.
pub struct Member<W: Work> {
    batch: Arc<Batch<W>>,
    place: usize,
}

impl<W: Work> Member<W> {
    /// Its place.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The batch.
    pub fn batch(&self) -> &Batch<W> {
        &self.batch
    }

    /// Enters the next run, for which `write` stores the input.
    ///
    /// # Errors
    /// Returns the errors of `write`; `Argument` until it has left its last run; `Device` when
    /// there are no more runs, or the device has failed in one, also in a run without this member.
    pub fn enter(&self, write: impl FnOnce(&mut W) -> Result<()>) -> Result<()> {
        let mut state = self.batch.shared.lock();
        if state.is_over {
            return Err(over());
        }
        if state.is_broken {
            let message = "the device has failed in a run of other members";
            return Err(Error::new(ErrorKind::Device, STAGE, message));
        }
        if !matches!(state.places[self.place], Place::Vacant) {
            return Err(argument("a frame enters before the one before has left".to_owned()));
        }
        write(&mut state.work)?;
        state.places[self.place] = Place::Entered;
        self.batch.shared.changed.notify_all();
        Ok(())
    }

    /// Waits for the run that it has entered, at most `limit` for other members, and calls
    /// `read` with the outputs. No run starts before that returns.
    ///
    /// # Errors
    /// Returns the errors of the run and of `read`; `Argument` if it has not entered; `Device` when
    /// there are no more runs.
    pub fn leave<T>(&self, limit: Duration, read: impl FnOnce(&mut W) -> Result<T>) -> Result<T> {
        let deadline = Instant::now() + limit;
        let shared = &self.batch.shared;
        let mut state = shared.lock();
        while matches!(state.places[self.place], Place::Entered) {
            if state.is_over {
                return Err(over());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // Once a run: members that wait would wake each other without end.
                if !state.is_due {
                    state.is_due = true;
                    shared.changed.notify_all();
                }
                state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                let waited = shared.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        let result = match &state.places[self.place] {
            Place::Done(None) => read(&mut state.work),
            Place::Done(Some(failure)) => Err(failure.clone().into_error()),
            _ => return Err(argument("no frame has entered".to_owned())),
        };
        state.places[self.place] = Place::Vacant;
        shared.changed.notify_all();
        result
    }
}

impl<W: Work> Drop for Member<W> {
    fn drop(&mut self) {
        self.batch.shared.lock().places[self.place] = Place::Absent;
        self.batch.shared.changed.notify_all();
    }
}

/// The batch of channels that share a network: it is started for the first that opens, and
/// again after a failure of its device.
pub struct BatchSlot<W: Work> {
    num_places: usize,
    current: Mutex<Weak<Batch<W>>>,
}

impl<W: Work> BatchSlot<W> {
    /// A slot for batches of this many places, without one yet.
    pub fn new(num_places: usize) -> Self {
        Self { num_places, current: Mutex::default() }
    }

    /// The number of places.
    pub fn num_places(&self) -> usize {
        self.num_places
    }

    /// The batch that is running and that `fits`, or else a new one, which `start` makes.
    pub(super) fn running(
        &self,
        fits: impl FnOnce(&mut W) -> bool,
        start: impl FnOnce() -> Result<Arc<Batch<W>>>,
    ) -> Result<Arc<Batch<W>>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(batch) = current.upgrade()
            && !batch.is_broken()
            && batch.with(fits)
        {
            return Ok(batch);
        }
        let batch = start()?;
        *current = Arc::downgrade(&batch);
        Ok(batch)
    }
}

/// Refuses an input or output whose first dimension is of another length than the batch.
pub(super) fn check_open(spec: &TensorSpec, num_places: usize) -> Result<()> {
    match spec.shape.as_deref() {
        Some([Dim::Fixed(num), ..]) if *num != num_places => {
            let message = format!(
                "a batch of {num_places} needs a network whose first dimension is dynamic or {num_places}; {spec} has \
                 {num}: export it with a dynamic batch, or leave out batch_with"
            );
            Err(Error::new(ErrorKind::Model, STAGE, message))
        }
        _ => Ok(()),
    }
}

/// A tensor of a batch as each member sees it: with a first dimension of 1.
pub(super) fn item_spec(spec: &TensorSpec) -> TensorSpec {
    let mut item = spec.clone();
    if let Some(first) = item.shape.as_mut().and_then(|shape| shape.first_mut()) {
        *first = Dim::Fixed(1);
    }
    item
}

fn over() -> Error {
    Error::new(ErrorKind::Device, STAGE, "the thread of the batch has ended")
}

fn argument(message: String) -> Error {
    Error::new(ErrorKind::Argument, STAGE, message)
}

#[cfg(test)]
mod tests;
