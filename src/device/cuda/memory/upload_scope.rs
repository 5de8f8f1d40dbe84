//! Uploads that read borrowed page-locked memory in place.

use std::cell::{Cell, OnceCell, RefCell};
use std::marker::PhantomData;

use crate::device::cuda::registered::HeldWindows;
use crate::device::cuda::{Event, Stream};
use crate::error::Result;

/// Lets uploads read borrowed page-locked memory in place, without a copy on the
/// host, while a closure runs; and mapped files, until the uploads are complete.
pub struct InPlaceUploads {
    // Recorded behind the last upload that reads memory in place.
    read: Event,
    stream: Stream,
    /// Windows of a mapped file that an upload may still read after its scope.
    held: RefCell<Option<HeldWindows>>,
}

impl InPlaceUploads {
    /// For uploads on a stream.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn new(stream: &Stream) -> Result<Self> {
        Ok(Self { read: Event::new(stream)?, stream: stream.clone(), held: RefCell::default() })
    }

    /// Runs `work`, which may queue uploads of memory that outlives this call. When
    /// this returns or unwinds, the uploads of borrowed memory are complete: if `work` has
    /// waited for the stream after them, there is no second wait. Those of a mapped file hold
    /// it until [`InPlaceUploads::finish`], which is called before the next scope or at its
    /// start.
    pub fn scope<'env, R>(&self, work: impl FnOnce(&UploadScope<'_, 'env>) -> R) -> R {
        self.finish();
        let scope = UploadScope {
            uploads: self,
            is_reading: Cell::new(false),
            windows: OnceCell::new(),
            env: PhantomData,
        };
        work(&scope)
    }

    /// Waits for the uploads of the scope before and releases the mapped file.
    pub fn finish(&self) {
        let held = self.held.take();
        if held.is_some() {
            self.wait();
        }
    }

    /// Waits until no upload reads memory in place.
    fn wait(&self) {
        if self.read.wait().is_err() {
            // If neither the event nor the wait succeeds, the context is lost and
            // no work runs in it.
            let _ = self.stream.synchronize();
        }
    }
}

impl Drop for InPlaceUploads {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The scope of uploads that read borrowed memory, until [`InPlaceUploads::scope`]
/// returns. A borrow for `'env` outlives the scope; the lifetime is invariant, so
/// that it can be neither shortened nor extended.
pub struct UploadScope<'uploads, 'env> {
    uploads: &'uploads InPlaceUploads,
    is_reading: Cell<bool>,
    /// Of a mapped file that an upload reads.
    windows: OnceCell<HeldWindows>,
    env: PhantomData<&'env mut &'env ()>,
}

impl UploadScope<'_, '_> {
    pub(in crate::device::cuda) fn stream(&self) -> &Stream {
        &self.uploads.stream
    }

    /// Keeps windows of a mapped file, and the file, until the uploads are complete; of one
    /// payload per scope. Returns a reference to them, or `None` for a second payload.
    pub(super) fn hold(&self, windows: HeldWindows) -> Option<&HeldWindows> {
        self.windows.set(windows).ok()?;
        self.windows.get()
    }

    /// Marks that the uploads queued so far may read borrowed memory.
    pub(in crate::device::cuda) fn mark_read(&self) -> Result<()> {
        self.is_reading.set(true);
        self.mark_held()
    }

    /// Marks that the uploads queued so far may read windows that are held.
    pub(super) fn mark_held(&self) -> Result<()> {
        let InPlaceUploads { read, stream, .. } = self.uploads;
        let marked = read.record(stream);
        if marked.is_err() {
            // See `InPlaceUploads::wait`.
            let _ = stream.synchronize();
        }
        marked
    }
}

impl Drop for UploadScope<'_, '_> {
    fn drop(&mut self) {
        if self.is_reading.get() {
            self.uploads.wait();
        } else if let Some(windows) = self.windows.take()
            && !self.uploads.read.is_complete()
        {
            *self.uploads.held.borrow_mut() = Some(windows);
        }
    }
}
