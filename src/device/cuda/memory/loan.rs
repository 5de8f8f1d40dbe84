//! Memory of others that uploads read while they run.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::device::cuda::{Event, Stream};
use crate::error::Result;

/// Lets uploads read page-locked memory where it lies, for as long as a closure
/// runs.
#[derive(Debug)]
pub struct Lender {
    // Behind the last upload that reads lent memory.
    read: Event,
    stream: Stream,
}

impl Lender {
    /// For uploads on a stream.
    ///
    /// # Errors
    /// `Device` with what the driver says.
    pub fn new(stream: &Stream) -> Result<Self> {
        Ok(Self { read: Event::new(stream)?, stream: stream.clone() })
    }

    /// Runs `work`, in which uploads may be queued that read what outlives this
    /// call. When it returns, or panics, they are over: if `work` waited for the
    /// stream behind them, nobody waits again.
    pub fn lend<'env, R>(&self, work: impl FnOnce(&Loans<'_, 'env>) -> R) -> R {
        let loans = Loans { lender: self, is_reading: Cell::new(false), env: PhantomData };
        work(&loans)
    }
}

/// What is lent to uploads until [`Lender::lend`] returns. Whatever is borrowed
/// for `'env` outlives that: it can be neither shortened nor lengthened.
#[derive(Debug)]
pub struct Loans<'lender, 'env> {
    lender: &'lender Lender,
    is_reading: Cell<bool>,
    env: PhantomData<&'env mut &'env ()>,
}

impl Loans<'_, '_> {
    pub(super) fn stream(&self) -> &Stream {
        &self.lender.stream
    }

    /// Notes that all uploads queued so far may read lent memory.
    pub(super) fn note(&self) -> Result<()> {
        self.is_reading.set(true);
        let Lender { read, stream } = self.lender;
        let marked = read.record(stream);
        if marked.is_err() {
            // What can neither be marked nor waited for is a context that is
            // lost, in which nothing runs any more.
            let _ = stream.synchronize();
        }
        marked
    }
}

impl Drop for Loans<'_, '_> {
    fn drop(&mut self) {
        let Lender { read, stream } = self.lender;
        if self.is_reading.get() && read.wait().is_err() {
            // As above: an error is the context's.
            let _ = stream.synchronize();
        }
    }
}
