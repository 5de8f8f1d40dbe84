//! Uploads, and kernels, that read borrowed page-locked memory in place.

use std::cell::{Cell, OnceCell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::host_address::{Borrowed, device_address, pointer};
use super::page_locked::is_page_locked;
use crate::device::cuda::registered::{HeldWindows, Place, find};
use crate::device::cuda::{Event, Stream};
use det_post_types::{Result, Usage};

/// Lets uploads, or kernels in place of uploads, read borrowed page-locked memory, without a
/// copy on the host, while a closure runs; and uploads mapped files, until they are complete.
pub struct InPlaceUploads {
    // Recorded behind the last upload that reads memory in place.
    read: Event,
    stream: Stream,
    /// Windows of a mapped file that an upload may still read after its scope.
    held: RefCell<Option<HeldWindows>>,
    /// Whether kernels read payloads where they are, in place of an upload.
    zero_copy: bool,
    /// Whether several frames are in flight.
    is_pipelined: bool,
    /// The scopes that have ended.
    num_ended: Arc<AtomicU64>,
}

impl InPlaceUploads {
    /// For uploads on a stream.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn new(stream: &Stream) -> Result<Self> {
        let (read, stream, held) = (Event::new(stream)?, stream.clone(), RefCell::default());
        let (zero_copy, is_pipelined) = (false, false);
        Ok(Self { read, stream, held, zero_copy, is_pipelined, num_ended: Arc::default() })
    }

    /// As [`Self::new`]; kernels on the stream read payloads where they are if `zero_copy` says so.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn with_zero_copy(stream: &Stream, zero_copy: Usage) -> Result<Self> {
        let zero_copy = match zero_copy {
            Usage::Auto => stream.device().is_integrated()?,
            Usage::Always => true,
            Usage::Never => false,
        };
        let mut uploads = Self::new(stream)?;
        uploads.zero_copy = zero_copy;
        Ok(uploads)
    }

    /// For several frames in flight: JPEG files for the engines are copied, so that a scope ends without a
    /// wait for them.
    #[must_use]
    pub fn pipelined(mut self) -> Self {
        self.is_pipelined = true;
        self
    }

    /// Whether kernels read payloads where they are.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
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
            is_borrowed: Cell::new(false),
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
    /// Whether kernels may read borrowed memory.
    is_borrowed: Cell<bool>,
    /// Of a mapped file that an upload reads.
    windows: OnceCell<HeldWindows>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env> UploadScope<'_, 'env> {
    pub(crate) fn stream(&self) -> &Stream {
        &self.uploads.stream
    }

    /// Keeps windows of a mapped file, and the file, until the uploads are complete; of one
    /// payload per scope. Returns a reference to them, or `None` for a second payload.
    pub(super) fn hold(&self, windows: HeldWindows) -> Option<&HeldWindows> {
        self.windows.set(windows).ok()?;
        self.windows.get()
    }

    /// Whether JPEG files for the engines are copied in place of a wait at the end.
    pub fn is_pipelined(&self) -> bool {
        self.uploads.is_pipelined
    }

    /// Whether kernels read payloads where they are.
    pub(super) fn reads_in_place(&self) -> bool {
        self.uploads.zero_copy
    }

    /// The memory of a payload for kernels to read while the scope lasts, and `tail` bytes after it;
    /// `None` where they cannot.
    pub(super) fn borrow(&self, payload: &'env [u8], tail: usize) -> Option<Borrowed> {
        let len = payload.len() + tail;
        // Counts the payload, also where it is copied.
        let place = find(payload);
        let address = device_address(payload.as_ptr() as usize, len)?;
        match place {
            Place::Registered(windows) => {
                let windows = self.hold(windows)?;
                let is_in_order = |(start, part): (usize, &[u8])| {
                    pointer(part.as_ptr() as usize) == Some(address + start as u64)
                };
                windows.parts(payload).all(is_in_order).then_some(())?;
            }
            Place::Elsewhere if is_page_locked(payload) => {}
            Place::Elsewhere | Place::Unregistered => return None,
        }
        self.is_borrowed.set(true);
        let scopes = Arc::clone(&self.uploads.num_ended);
        let scope = scopes.load(Ordering::Relaxed);
        Some(Borrowed { address, len: len as u64, scope, scopes })
    }

    /// Marks that the uploads queued so far may read borrowed memory.
    pub(crate) fn mark_read(&self) -> Result<()> {
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
        let InPlaceUploads { stream, num_ended, .. } = self.uploads;
        // What was queued with a borrowed address may read it; nothing is queued with it later.
        num_ended.fetch_add(1, Ordering::Relaxed);
        if self.is_borrowed.get() {
            // See `InPlaceUploads::wait`.
            let _ = stream.synchronize();
        }
        if self.is_reading.get() {
            self.uploads.wait();
        } else if let Some(windows) = self.windows.take()
            && !self.uploads.read.is_complete()
        {
            *self.uploads.held.borrow_mut() = Some(windows);
        }
    }
}
