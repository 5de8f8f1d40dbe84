//! The files of this process that have registered windows, by address.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cudarc::driver::sys;

use crate::device::cuda::{CudaDevice, failed};
use crate::device::mapped_file::FileBytes;
use det_post_types::Result;

/// The most windows that a payload may span; a longer one is copied.
const MAX_SPAN: usize = 4;

/// The files, in no order: a replay has few.
static FILES: RwLock<Vec<Arc<WindowedFile>>> = RwLock::new(Vec::new());

/// A part of a file whose pages are locked and known to the driver, so that every GPU of this
/// process can read it.
pub(super) struct Window {
    address: usize,
    len: usize,
    num_used: AtomicU64,
    device: CudaDevice,
    /// Keeps the bytes.
    _bytes: FileBytes,
}

impl Window {
    /// Registers a range of a file.
    ///
    /// # Errors
    /// `Device` when the driver refuses: it cannot lock pages of this file system, or this
    /// process may not lock so many.
    fn register(device: &CudaDevice, bytes: &FileBytes, range: Range<usize>) -> Result<Self> {
        let part = &(**bytes).as_ref()[range];
        device.bind()?;
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_READ_ONLY;
        let (address, len) = (part.as_ptr() as usize, part.len());
        // SAFETY: the range is mapped as long as `bytes`, which the window keeps, and is
        // registered only for reading. It was not registered before: windows of a file do
        // not overlap, and each is registered by the one thread of its file.
        unsafe { sys::cuMemHostRegister_v2(address as *mut c_void, len, flags).result() }
            .map_err(|e| failed(&format!("register {len} bytes of a mapped file"), e))?;
        let num_used = AtomicU64::new(0);
        Ok(Self { address, len, num_used, device: device.clone(), _bytes: Arc::clone(bytes) })
    }

    /// Bytes of it that were uploaded in place.
    pub(super) fn num_used(&self) -> u64 {
        self.num_used.load(Ordering::Relaxed)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // A lost context has nothing registered.
        if self.device.bind().is_ok() {
            // SAFETY: registered by `register` and owned only here: uploads that read it hold
            // a share of it until they are complete.
            let _ = unsafe { sys::cuMemHostUnregister(self.address as *mut c_void).result() };
        }
    }
}

/// A file and its windows.
pub(super) struct WindowedFile {
    bytes: FileBytes,
    window_len: usize,
    windows: RwLock<Vec<Option<Arc<Window>>>>,
    num_in_place: AtomicU64,
    num_copied: AtomicU64,
}

impl WindowedFile {
    /// Adds a file without registered windows to the table.
    pub(super) fn add(bytes: FileBytes, window_len: usize) -> Arc<Self> {
        let num_windows = (*bytes).as_ref().len().div_ceil(window_len);
        let file = Arc::new(Self {
            bytes,
            window_len,
            windows: RwLock::new(vec![None; num_windows]),
            num_in_place: AtomicU64::new(0),
            num_copied: AtomicU64::new(0),
        });
        write(&FILES).push(Arc::clone(&file));
        file
    }

    /// Removes it from the table.
    pub(super) fn remove(self: &Arc<Self>) {
        write(&FILES).retain(|file| !Arc::ptr_eq(file, self));
    }

    pub(super) fn num_windows(&self) -> usize {
        read(&self.windows).len()
    }

    /// The window in which a payload begins; `None` when it is not in this file.
    pub(super) fn window_of(&self, payload: &[u8]) -> Option<usize> {
        Some(self.offset_of(payload)? / self.window_len)
    }

    /// Bytes that were uploaded in place, and that were copied first.
    pub(super) fn totals(&self) -> [u64; 2] {
        [&self.num_in_place, &self.num_copied].map(|num| num.load(Ordering::Relaxed))
    }

    /// Registers a window; returns its size.
    ///
    /// # Errors
    /// As [`Window::register`].
    pub(super) fn register(&self, device: &CudaDevice, window: usize) -> Result<usize> {
        let start = window * self.window_len;
        let end = (start + self.window_len).min((*self.bytes).as_ref().len());
        let registered = Arc::new(Window::register(device, &self.bytes, start..end)?);
        if let Some(place) = write(&self.windows).get_mut(window) {
            *place = Some(registered);
        }
        Ok(end - start)
    }

    /// Takes a window from the table: no further upload reads it.
    pub(super) fn take(&self, window: usize) -> Option<Arc<Window>> {
        write(&self.windows).get_mut(window)?.take()
    }

    fn offset_of(&self, payload: &[u8]) -> Option<usize> {
        let all = (*self.bytes).as_ref().as_ptr_range();
        let part = payload.as_ptr_range();
        let is_inside = all.start <= part.start && part.end <= all.end;
        (is_inside && !payload.is_empty()).then(|| part.start as usize - all.start as usize)
    }

    /// The windows of a payload at `offset`, if all are registered.
    fn hold(&self, offset: usize, len: usize) -> Option<HeldWindows> {
        let (first, last) = (offset / self.window_len, (offset + len - 1) / self.window_len);
        let windows = read(&self.windows);
        let mut held = HeldWindows::default();
        for (place, index) in (first..=last).enumerate() {
            *held.0.get_mut(place)? = Some(Arc::clone(windows.get(index)?.as_ref()?));
        }
        Some(held)
    }
}

/// Where a payload is.
pub(in crate::device::cuda) enum Place {
    /// In windows that stay registered as long as they are held.
    Registered(HeldWindows),
    /// In a file with windows, but not all of it in registered ones.
    Unregistered,
    /// In no such file.
    Elsewhere,
}

/// Shares of the windows of one payload, in the order of their addresses.
#[derive(Default)]
pub(in crate::device::cuda) struct HeldWindows([Option<Arc<Window>>; MAX_SPAN]);

impl HeldWindows {
    /// The parts of the payload that are in one window each, in order, with their offsets:
    /// a copy of the driver must not span two of them.
    pub(in crate::device::cuda) fn parts<'a>(
        &'a self,
        payload: &'a [u8],
    ) -> impl Iterator<Item = (usize, &'a [u8])> {
        let start = payload.as_ptr() as usize;
        self.0.iter().flatten().filter_map(move |window| {
            let from = window.address.saturating_sub(start);
            let to = (window.address + window.len - start).min(payload.len());
            Some((from, payload.get(from..to)?))
        })
    }
}

/// Looks a payload up, and counts its bytes by how they are uploaded.
pub(in crate::device::cuda) fn find(payload: &[u8]) -> Place {
    let files = read(&FILES);
    let found = files.iter().find_map(|file| Some((file, file.offset_of(payload)?)));
    let Some((file, offset)) = found else { return Place::Elsewhere };
    let held = file.hold(offset, payload.len());
    let num = if held.is_some() { &file.num_in_place } else { &file.num_copied };
    num.fetch_add(payload.len() as u64, Ordering::Relaxed);
    let Some(held) = held else { return Place::Unregistered };
    for (window, (_, part)) in held.0.iter().flatten().zip(held.parts(payload)) {
        window.num_used.fetch_add(part.len() as u64, Ordering::Relaxed);
    }
    Place::Registered(held)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
