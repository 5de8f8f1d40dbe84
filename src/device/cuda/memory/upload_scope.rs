//! Uploads that read borrowed page-locked memory in place.

use std::cell::{Cell, OnceCell};
use std::marker::PhantomData;

use crate::device::cuda::registered::HeldWindows;
use crate::device::cuda::{Event, Stream};
use crate::error::Result;

/// Lets uploads read borrowed page-locked memory in place, without a copy on the
/// host, while a closure runs.
#[derive(Debug)]
pub struct InPlaceUploads {
    // Recorded behind the last upload that reads borrowed memory.
    read: Event,
    stream: Stream,
}

impl InPlaceUploads {
    /// For uploads on a stream.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn new(stream: &Stream) -> Result<Self> {
        Ok(Self { read: Event::new(stream)?, stream: stream.clone() })
    }

    /// Runs `work`, which may queue uploads of memory that outlives this call. When
    /// this returns or unwinds, the uploads are complete: if `work` has waited for
    /// the stream after them, there is no second wait.
    pub fn scope<'env, R>(&self, work: impl FnOnce(&UploadScope<'_, 'env>) -> R) -> R {
        let scope = UploadScope {
            uploads: self,
            is_reading: Cell::new(false),
            windows: OnceCell::new(),
            env: PhantomData,
        };
        work(&scope)
    }
}

/// The scope of uploads that read borrowed memory, until [`InPlaceUploads::scope`]
/// returns. A borrow for `'env` outlives the scope; the lifetime is invariant, so
/// that it can be neither shortened nor extended.
pub struct UploadScope<'uploads, 'env> {
    uploads: &'uploads InPlaceUploads,
    is_reading: Cell<bool>,
    /// Released after the wait at the end.
    windows: OnceCell<HeldWindows>,
    env: PhantomData<&'env mut &'env ()>,
}

impl UploadScope<'_, '_> {
    pub(in crate::device::cuda) fn stream(&self) -> &Stream {
        &self.uploads.stream
    }

    /// Keeps windows of a mapped file registered until the uploads are complete; of one
    /// payload per scope. Returns a reference to them, or `None` for a second payload.
    pub(super) fn hold(&self, windows: HeldWindows) -> Option<&HeldWindows> {
        self.windows.set(windows).ok()?;
        self.windows.get()
    }

    /// Marks that the uploads queued so far may read borrowed memory.
    pub(in crate::device::cuda) fn mark_read(&self) -> Result<()> {
        self.is_reading.set(true);
        let InPlaceUploads { read, stream } = self.uploads;
        let marked = read.record(stream);
        if marked.is_err() {
            // If neither the event nor the wait succeeds, the context is lost and
            // no work runs in it.
            let _ = stream.synchronize();
        }
        marked
    }
}

impl Drop for UploadScope<'_, '_> {
    fn drop(&mut self) {
        let InPlaceUploads { read, stream } = self.uploads;
        if self.is_reading.get() && read.wait().is_err() {
            // See `mark_read`.
            let _ = stream.synchronize();
        }
    }
}
