//! The library nvJPEG: its handle of a GPU, its functions and the meaning of their results.

use std::ffi::{OsStr, OsString, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use libloading::Library;

use crate::device::cuda::{CudaDevice, Stream, error, lock_capture};
use det_post_types::{Error, ErrorKind, Result};

/// `NVJPEG_BACKEND_HARDWARE`
const BACKEND_HARDWARE: c_int = 3;
/// `NVJPEG_FLAGS_DEFAULT`
const NO_FLAGS: c_uint = 0;
/// `NVJPEG_MAX_COMPONENT`
pub(super) const MAX_COMPONENTS: usize = 4;
/// `MAJOR_VERSION` of `libraryPropertyType`
const MAJOR_VERSION: c_int = 0;
/// The oldest supported version.
const MIN_VERSION: c_int = 12;

/// The names of the library, newest first.
const NAMES: [&str; 3] = ["libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so"];

pub(super) type Status = c_int;
const SUCCESS: Status = 0;

/// `nvjpegImage_t`: device memory of each channel, and bytes from row to row.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Planes {
    pub(super) addresses: [u64; MAX_COMPONENTS],
    pub(super) pitches: [usize; MAX_COMPONENTS],
}

/// The functions of nvJPEG that are used, as `nvjpeg.h` of CUDA 12 and 13 declares them.
pub(super) struct Functions {
    pub(super) get_property: unsafe extern "C" fn(c_int, *mut c_int) -> Status,
    pub(super) create:
        unsafe extern "C" fn(c_int, *mut c_void, *mut c_void, c_uint, *mut *mut c_void) -> Status,
    pub(super) destroy: unsafe extern "C" fn(*mut c_void) -> Status,
    pub(super) num_engines: unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut c_uint) -> Status,
    pub(super) create_state: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> Status,
    pub(super) destroy_state: unsafe extern "C" fn(*mut c_void) -> Status,
    pub(super) image_info: unsafe extern "C" fn(
        *mut c_void,
        *const u8,
        usize,
        *mut c_int,
        *mut c_int,
        *mut c_int,
        *mut c_int,
    ) -> Status,
    pub(super) begin_batch:
        unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, c_int, c_int) -> Status,
    pub(super) decode_batch: unsafe extern "C" fn(
        *mut c_void,
        *mut c_void,
        *const *const u8,
        *const usize,
        *mut Planes,
        *mut c_void,
    ) -> Status,
    // Never unloaded: the CUDA runtime inside registers functions that run when the process
    // ends.
    _library: ManuallyDrop<Library>,
}

impl Functions {
    /// Loads the library of this path, else the one that the system's loader finds.
    pub(super) fn load(path: Option<&OsStr>) -> Result<Self> {
        let library = match path {
            Some(path) => open(path)?,
            None => {
                let mut found = NAMES.iter().map(|name| open(OsStr::new(name)));
                let first = found.next().unwrap_or_else(|| Err(error("no name of nvJPEG")));
                first.or_else(|cause| found.find_map(Result::ok).ok_or(cause))?
            }
        };
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type is that of the declaration in `nvjpeg.h`, and the
                // library stays loaded.
                *unsafe { library.get($name) }.map_err(|cause| {
                    error("the library is not nvJPEG 12 or newer").with_source(cause)
                })?
            };
        }
        Ok(Self {
            get_property: symbol!(c"nvjpegGetProperty"),
            create: symbol!(c"nvjpegCreateEx"),
            destroy: symbol!(c"nvjpegDestroy"),
            num_engines: symbol!(c"nvjpegGetHardwareDecoderInfo"),
            create_state: symbol!(c"nvjpegJpegStateCreate"),
            destroy_state: symbol!(c"nvjpegJpegStateDestroy"),
            image_info: symbol!(c"nvjpegGetImageInfo"),
            begin_batch: symbol!(c"nvjpegDecodeBatchedInitialize"),
            decode_batch: symbol!(c"nvjpegDecodeBatched"),
            _library: ManuallyDrop::new(library),
        })
    }
}

/// nvJPEG on the JPEG engines of a GPU. Opening it takes 0.3 s, so that all decoders on a GPU
/// share one.
pub(super) struct Handle {
    pub(super) functions: Functions,
    pub(super) raw: *mut c_void,
    device: CudaDevice,
}

// SAFETY: a handle belongs to no thread, and nvJPEG allows that several threads use one at once
// (its documentation, "Thread Safety"). The pointer is not changed.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// A handle that is in use, by its GPU and the path of its library.
type Opened = (usize, Option<OsString>, Weak<Handle>);

/// The handles of this process.
static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

impl Handle {
    /// The handle of a stream's GPU: one that is in use, or a new one.
    ///
    /// # Errors
    /// `Device` with the reason: no library, a version before 12, a GPU without engines.
    pub(super) fn shared(stream: &Stream, library: Option<&OsStr>) -> Result<Arc<Self>> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|(.., handle)| handle.strong_count() > 0);
        let ordinal = stream.device().ordinal();
        let of_gpu =
            opened.iter().find(|(of, path, _)| (*of, path.as_deref()) == (ordinal, library));
        if let Some(handle) = of_gpu.and_then(|(.., handle)| handle.upgrade()) {
            return Ok(handle);
        }
        let handle = Arc::new(Self::open(stream, library)?);
        opened.push((ordinal, library.map(OsStr::to_owned), Arc::downgrade(&handle)));
        Ok(handle)
    }

    fn open(stream: &Stream, library: Option<&OsStr>) -> Result<Self> {
        let functions = Functions::load(library)?;
        let mut version = 0;
        // SAFETY: writes a number into a live local.
        let status = unsafe { (functions.get_property)(MAJOR_VERSION, &raw mut version) };
        check(status, "query its version")?;
        if version < MIN_VERSION {
            return Err(error(format!(
                "nvJPEG is version {version}; {MIN_VERSION} or newer is required"
            )));
        }
        // It allocates memory.
        let _lock = lock_capture();
        stream.bind()?;
        let mut raw = ptr::null_mut();
        // SAFETY: without allocators of the caller it uses its own; the handle is written
        // into a live local.
        let status = unsafe {
            let none = ptr::null_mut();
            (functions.create)(BACKEND_HARDWARE, none, none, NO_FLAGS, &raw mut raw)
        };
        check(status, "use the JPEG engines of this GPU")?;
        let opened = Self { functions, raw, device: stream.device().clone() };
        let (mut num_engines, mut num_cores) = (0, 0);
        // SAFETY: the handle is alive; the numbers are written into live locals.
        let status = unsafe {
            (opened.functions.num_engines)(raw, &raw mut num_engines, &raw mut num_cores)
        };
        check(status, "query the JPEG engines of this GPU")?;
        match num_engines {
            0 => Err(error("this GPU has no JPEG engine")),
            _ => Ok(opened),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A lost context has nothing to free.
        if self.device.bind().is_ok() {
            let _lock = lock_capture();
            // SAFETY: created in `open` and owned only here; its states, which share it, are
            // gone.
            unsafe { (self.functions.destroy)(self.raw) };
        }
    }
}

fn open(path: &OsStr) -> Result<Library> {
    // SAFETY: loads a library that the user or the system names, whose initialisers are
    // trusted as far as those of the driver.
    unsafe { Library::new(path) }.map_err(|cause| {
        error(format!("cannot load nvJPEG ({})", path.display())).with_source(cause)
    })
}

/// Checks the result of a call that depends only on the device.
pub(super) fn check(status: Status, what: &str) -> Result<()> {
    match status {
        SUCCESS => Ok(()),
        _ => Err(error(format!("nvJPEG cannot {what}: {}", reason(status)))),
    }
}

/// Checks the result of a call that depends on a file.
pub(super) fn check_file(status: Status) -> Result<()> {
    match status {
        SUCCESS => Ok(()),
        _ => Err(refused(reason(status))),
    }
}

pub(super) fn refused(reason: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Codec, "device", format!("nvJPEG refuses a file: {reason}"))
}

/// The names of `nvjpegStatus_t`.
fn reason(status: Status) -> String {
    let name = match status {
        1 => "not initialized",
        2 => "invalid parameter",
        3 => "bad JPEG",
        4 => "JPEG not supported",
        5 => "allocator failure",
        6 => "execution failed",
        7 => "architecture mismatch",
        8 => "internal error",
        9 => "implementation not supported",
        10 => "incomplete bitstream",
        _ => return format!("status {status}"),
    };
    name.to_owned()
}
