//! Mapped files whose pages are registered with the driver ahead of a reader, so that their
//! payloads are uploaded in place, without a copy on the host.
//!
//! A thread registers windows of the files ahead of the reader, and releases those behind it if
//! the files exceed the limit: a release waits for the GPU. Pages that are not in memory are read
//! from the disk by that thread. Where the driver refuses, and until a window is registered,
//! payloads are copied as before: results do not depend on it. An upload holds the windows that
//! it reads until it is complete ([`UploadScope`](super::UploadScope)).

mod plan;
mod table;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED as READ_ONLY_REGISTRATION;

use super::{CudaDevice, failed};
use crate::device::mapped_file::{FileBytes, UploadTotals};
use det_post_types::Result;
use plan::{Plan, Step};
pub(super) use table::{HeldWindows, Place, find};
use table::{Window, WindowedFile};

/// How often the thread looks whether the last upload from a window is complete.
const RELEASE_PERIOD: Duration = Duration::from_millis(1);

/// Files with registered windows, and their readers.
pub struct RegisteredFiles {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    files: Vec<Arc<WindowedFile>>,
    /// Of each reader the window that it reads, numbered through all files. It never goes back.
    positions: Vec<AtomicUsize>,
    num_windows: usize,
    /// Whether a payload of the files was read.
    is_begun: AtomicBool,
    /// Bytes of payloads that are in none of the files.
    num_elsewhere: AtomicU64,
    is_ended: AtomicBool,
    num_registered: AtomicU64,
    /// Why nothing more is registered.
    refused: Mutex<Option<String>>,
}

impl RegisteredFiles {
    /// Starts to register windows of files for a number of readers, of at most `limit` bytes at
    /// a time; 0 registers none. `device` is one of the GPUs that will read them.
    pub fn start(
        device: &CudaDevice,
        files: Vec<FileBytes>,
        limit: usize,
        num_readers: usize,
    ) -> Self {
        let window_len = Plan::window_len(limit);
        let add = |bytes| WindowedFile::add(bytes, window_len);
        let files: Vec<Arc<WindowedFile>> = files.into_iter().map(add).collect();
        let num_windows = files.iter().map(|file| file.num_windows()).sum();
        let shared = Arc::new(Shared {
            files,
            positions: (0..num_readers).map(|_| AtomicUsize::new(0)).collect(),
            num_windows,
            is_begun: AtomicBool::new(false),
            num_elsewhere: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
            num_registered: AtomicU64::new(0),
            refused: Mutex::default(),
        });
        let mut started = Self { shared, thread: None };
        if limit == 0 {
            started.shared.refuse("mapped_upload_mib is 0".to_owned());
            return started;
        }
        let (device, shared) = (device.clone(), Arc::clone(&started.shared));
        let work = move || shared.follow(&device, Plan::new(limit, num_windows));
        match thread::Builder::new().name("register".to_owned()).spawn(work) {
            Ok(thread) => started.thread = Some(thread),
            Err(error) => started.shared.refuse(format!("its thread does not start: {error}")),
        }
        started
    }

    /// Notes the payload that a reader reads next. The first one in a file starts the
    /// registration; windows are released behind the last reader.
    pub fn advance(&self, reader: usize, payload: &[u8]) {
        let mut before = 0;
        for file in &self.shared.files {
            if let Some(window) = file.window_of(payload) {
                let has_moved = self.move_to(reader, before + window);
                if !self.shared.is_begun.swap(true, Ordering::Relaxed) || has_moved {
                    self.wake();
                }
                return;
            }
            before += file.num_windows();
        }
        self.shared.num_elsewhere.fetch_add(payload.len() as u64, Ordering::Relaxed);
    }

    /// Notes that a reader has read everything.
    pub fn end(&self, reader: usize) {
        self.move_to(reader, self.shared.num_windows);
        self.wake();
    }

    /// Moves a reader to a window, unless it is there or behind it.
    fn move_to(&self, reader: usize, window: usize) -> bool {
        let position = self.shared.positions.get(reader);
        position.is_some_and(|position| position.fetch_max(window, Ordering::Relaxed) < window)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// How the payloads in these files were uploaded so far.
    pub fn totals(&self) -> UploadTotals {
        let totals = self.shared.files.iter().map(|file| file.totals());
        let [in_place_bytes, copied_bytes] =
            totals.fold([0, 0], |[a, b], [in_place, copied]| [a + in_place, b + copied]);
        let elsewhere = self.shared.num_elsewhere.load(Ordering::Relaxed);
        let refused = self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let not_mapped = "messages of compressed chunks and of sqlite3 are not mapped";
        UploadTotals {
            in_place_bytes,
            copied_bytes: copied_bytes + elsewhere,
            registered_bytes: self.shared.num_registered.load(Ordering::Relaxed),
            refused: refused.or_else(|| (elsewhere > 0).then(|| not_mapped.to_owned())),
        }
    }
}

impl Drop for RegisteredFiles {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does not panic; if it did, its windows are released with the files below.
            let _ = thread.join();
        }
        self.shared.files.iter().for_each(WindowedFile::remove);
    }
}

impl Shared {
    /// Registers and releases windows until the end.
    fn follow(&self, device: &CudaDevice, mut plan: Plan) {
        if let Err(error) = check_supported(device) {
            return self.refuse(error.to_string());
        }
        while !self.is_begun.load(Ordering::Relaxed) && !self.is_ended.load(Ordering::Relaxed) {
            thread::park();
        }
        while !self.is_ended.load(Ordering::Relaxed) {
            match plan.step(self.position()) {
                Step::Register(number) => match self.register(device, number) {
                    Ok(()) => plan.registered(number),
                    Err(error) => {
                        self.refuse(error.to_string());
                        break;
                    }
                },
                Step::Release(number) => plan.released(number, self.release(number)),
                Step::Wait => thread::park(),
                Step::End => break,
            }
        }
        if plan.is_wasteful() {
            self.refuse("most of the recording is not read by a GPU".to_owned());
        }
        // After an error the registered windows remain of use until the end.
        while !self.is_ended.load(Ordering::Relaxed) {
            thread::park();
        }
        // Uploads that are not complete release theirs.
        for file in &self.files {
            (0..file.num_windows()).for_each(|window| drop(file.take(window)));
        }
    }

    /// The window of the last reader.
    fn position(&self) -> usize {
        let positions = self.positions.iter().map(|position| position.load(Ordering::Relaxed));
        positions.min().unwrap_or_default()
    }

    fn register(&self, device: &CudaDevice, number: usize) -> Result<()> {
        let Some((file, window)) = self.find(number) else { return Ok(()) };
        let num_bytes = file.register(device, window)?;
        self.num_registered.fetch_add(num_bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Releases a window once no upload reads it. Returns the bytes of it that were uploaded. At
    /// the end the last upload releases it.
    fn release(&self, number: usize) -> u64 {
        let Some((file, window)) = self.find(number) else { return 0 };
        let Some(taken) = file.take(window) else { return 0 };
        let mut taken: Arc<Window> = taken;
        loop {
            match Arc::try_unwrap(taken) {
                Ok(window) => return window.num_used(),
                Err(_) if self.is_ended.load(Ordering::Relaxed) => return 0,
                Err(shared) => taken = shared,
            }
            thread::sleep(RELEASE_PERIOD);
        }
    }

    /// The file of a window, and its number there.
    fn find(&self, number: usize) -> Option<(&WindowedFile, usize)> {
        let mut window = number;
        for file in &self.files {
            match window.checked_sub(file.num_windows()) {
                Some(rest) => window = rest,
                None => return Some((file, window)),
            }
        }
        None
    }

    fn refuse(&self, reason: String) {
        tracing::info!("payloads are not uploaded from the mapped recording in place: {reason}");
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

/// Refuses a GPU that cannot register memory that is mapped only for reading.
fn check_supported(device: &CudaDevice) -> Result<()> {
    let supported = device.context().attribute(READ_ONLY_REGISTRATION);
    match supported.map_err(|e| failed("query the registration of memory", e))? {
        0 => Err(super::error("this GPU registers no memory that is mapped read-only")),
        _ => Ok(()),
    }
}
