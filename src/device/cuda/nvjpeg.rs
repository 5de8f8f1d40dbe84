//! The JPEG engines of a GPU, through nvJPEG, a library of the CUDA toolkit that is loaded
//! at run time.
//!
//! Server GPUs (A100, H100 and later) have engines that decode baseline JPEG beside the
//! kernels. Of nvJPEG nothing else is used: its decoders without an engine do the entropy
//! decoding on the host, no faster than the CPU decoder of this program, and round otherwise.

use std::ffi::{OsStr, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use libloading::Library;

use super::{DeviceImage, Event, ImageLayout, Stream, UploadScope, error, recording};
use crate::error::{Error, ErrorKind, Result};
use crate::types::Encoding;

/// `NVJPEG_BACKEND_HARDWARE`
const BACKEND_HARDWARE: c_int = 3;
/// `NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION`: chroma as libjpeg-turbo interpolates it.
const INTERPOLATED_CHROMA: c_uint = 1 << 5;
/// `NVJPEG_MAX_COMPONENT`
const MAX_COMPONENTS: usize = 4;
/// `MAJOR_VERSION` of `libraryPropertyType`
const MAJOR_VERSION: c_int = 0;
/// The oldest version that interpolates chroma.
const MIN_VERSION: c_int = 12;

/// The names of the library, newest first.
const NAMES: [&str; 3] = ["libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so"];

type Status = c_int;
const SUCCESS: Status = 0;

/// `nvjpegImage_t`: device memory of each channel, and bytes from row to row.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Planes {
    addresses: [u64; MAX_COMPONENTS],
    pitches: [usize; MAX_COMPONENTS],
}

/// The functions of nvJPEG that are used, as `nvjpeg.h` of CUDA 12 and 13 declares them.
struct Functions {
    get_property: unsafe extern "C" fn(c_int, *mut c_int) -> Status,
    create:
        unsafe extern "C" fn(c_int, *mut c_void, *mut c_void, c_uint, *mut *mut c_void) -> Status,
    destroy: unsafe extern "C" fn(*mut c_void) -> Status,
    num_engines: unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut c_uint) -> Status,
    create_state: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> Status,
    destroy_state: unsafe extern "C" fn(*mut c_void) -> Status,
    image_info: unsafe extern "C" fn(
        *mut c_void,
        *const u8,
        usize,
        *mut c_int,
        *mut c_int,
        *mut c_int,
        *mut c_int,
    ) -> Status,
    begin_batch: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, c_int, c_int) -> Status,
    decode_batch: unsafe extern "C" fn(
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
    fn load(path: Option<&OsStr>) -> Result<Self> {
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

fn open(path: &OsStr) -> Result<Library> {
    // SAFETY: loads a library that the user or the system names, whose initialisers are
    // trusted as far as those of the driver.
    unsafe { Library::new(path) }.map_err(|cause| {
        error(format!("cannot load nvJPEG ({})", path.display())).with_source(cause)
    })
}

/// The pixels that the engines write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// `NVJPEG_OUTPUT_Y`
    Grey = 2,
    /// `NVJPEG_OUTPUT_RGBI`
    Rgb = 5,
}

/// A batch in the making, with memory that is reused.
struct Batch {
    output: Output,
    /// nvJPEG's memory for batches of this output.
    state: *mut c_void,
    /// The size for which `state` was last prepared; 0 after a failure.
    num_prepared: usize,
    files: Vec<*const u8>,
    lengths: Vec<usize>,
    planes: Vec<Planes>,
}

/// The JPEG engines of the GPU of a stream.
pub struct JpegEngines {
    functions: Functions,
    handle: *mut c_void,
    batches: [Batch; 2],
    /// Recorded behind the last batch.
    decoded: Event,
    stream: Stream,
}

// SAFETY: handle and states belong to no thread: nvJPEG's functions may be called on any
// thread with the context current, one at a time for a state. `JpegEngines` is not `Sync`,
// owns them, and makes the context current first. The pointers of a batch are used within
// one call.
unsafe impl Send for JpegEngines {}

impl JpegEngines {
    /// Loads nvJPEG from `library`, else from where the system's loader finds it, for work
    /// on `stream`.
    ///
    /// # Errors
    /// `Device` with the reason: no library, a version before 12, a GPU without engines.
    pub fn open(stream: &Stream, library: Option<&OsStr>) -> Result<Self> {
        let functions = Functions::load(library)?;
        let mut version = 0;
        // SAFETY: writes a number into a live local.
        let status = unsafe { (functions.get_property)(MAJOR_VERSION, &raw mut version) };
        check(status, "query its version")?;
        if version < MIN_VERSION {
            return Err(error(format!("nvJPEG {version}; needed is {MIN_VERSION}")));
        }
        // It allocates memory.
        let _alone = recording();
        stream.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: without allocators of the caller it uses its own; the handle is written
        // into a live local.
        let status = unsafe {
            let none = ptr::null_mut();
            (functions.create)(BACKEND_HARDWARE, none, none, INTERPOLATED_CHROMA, &raw mut handle)
        };
        check(status, "use the JPEG engines of this GPU")?;
        let batch = |output| Batch {
            output,
            state: ptr::null_mut(),
            num_prepared: 0,
            files: Vec::new(),
            lengths: Vec::new(),
            planes: Vec::new(),
        };
        let batches = [Output::Grey, Output::Rgb].map(batch);
        let decoded = Event::new(stream)?;
        let mut engines = Self { functions, handle, batches, decoded, stream: stream.clone() };
        engines.prepare()?;
        Ok(engines)
    }

    /// Checks that there are engines, and creates the states.
    fn prepare(&mut self) -> Result<()> {
        let Self { functions, handle, batches, .. } = self;
        let (mut num_engines, mut num_cores) = (0, 0);
        // SAFETY: the handle is alive; the numbers are written into live locals.
        let status =
            unsafe { (functions.num_engines)(*handle, &raw mut num_engines, &raw mut num_cores) };
        check(status, "query the JPEG engines of this GPU")?;
        if num_engines == 0 {
            return Err(error("this GPU has no JPEG engine"));
        }
        for batch in batches {
            // SAFETY: the handle is alive; the state is written into a field that is.
            let status = unsafe { (functions.create_state)(*handle, &raw mut batch.state) };
            check(status, "prepare decoding")?;
        }
        Ok(())
    }

    /// Queues the decoding of JPEG files, each into an image with a layout: `mono8` or `rgb8`
    /// without padding, big enough for the picture. Files of one encoding are decoded at
    /// once. Waits for the batch before.
    ///
    /// # Errors
    /// `Codec` when nvJPEG refuses a file or finds another size in it: then no image is
    /// valid. `Argument` when an image is too small for its layout or the layout is another;
    /// `Device` when the device fails.
    pub fn enqueue<'env, 'image>(
        &mut self,
        pictures: impl Iterator<Item = (&'env [u8], ImageLayout, &'image mut DeviceImage)>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<()> {
        self.stream.check_owns(scope.stream())?;
        self.stream.bind()?;
        for Batch { files, lengths, planes, .. } in &mut self.batches {
            files.clear();
            lengths.clear();
            planes.clear();
        }
        for (file, layout, image) in pictures {
            self.add(file, layout, image)?;
        }
        self.decoded.wait()?;
        let queued = self.decode();
        // Also after an error: a part may have been queued.
        let marked = scope.mark_read().and_then(|()| self.decoded.record(&self.stream));
        queued.and(marked)
    }

    fn add(&mut self, file: &[u8], layout: ImageLayout, image: &mut DeviceImage) -> Result<()> {
        let output = match layout.encoding {
            Encoding::Mono8 => Output::Grey,
            Encoding::Rgb8 => Output::Rgb,
            other => return Err(error(format!("JPEG pictures of {other:?}"))),
        };
        self.check_size(file, layout)?;
        let address = image.decoded_into(layout, &self.stream)?;
        let [grey, rgb] = &mut self.batches;
        let batch = if output == Output::Grey { grey } else { rgb };
        batch.files.push(file.as_ptr());
        batch.lengths.push(file.len());
        batch
            .planes
            .push(Planes { addresses: [address, 0, 0, 0], pitches: [layout.step, 0, 0, 0] });
        Ok(())
    }

    /// Checks that nvJPEG finds the size and the number of components of a layout in a file:
    /// it writes as many rows and columns as it finds.
    fn check_size(&self, file: &[u8], layout: ImageLayout) -> Result<()> {
        let (mut num_components, mut sampling) = (0, 0);
        let (mut widths, mut heights) = ([0; MAX_COMPONENTS], [0; MAX_COMPONENTS]);
        // SAFETY: the file is borrowed for the call; all results are live locals of the
        // sizes that the declaration asks for.
        let status = unsafe {
            (self.functions.image_info)(
                self.handle,
                file.as_ptr(),
                file.len(),
                &raw mut num_components,
                &raw mut sampling,
                widths.as_mut_ptr(),
                heights.as_mut_ptr(),
            )
        };
        check_file(status)?;
        let expected = if layout.encoding == Encoding::Mono8 { 1 } else { 3 };
        let [width, height] = [layout.size.width, layout.size.height].map(i64::from);
        let found = (num_components, i64::from(widths[0]), i64::from(heights[0]));
        if found != (expected, width, height) {
            return Err(refused(format!(
                "it finds {found:?}, not {:?}",
                (expected, width, height)
            )));
        }
        Ok(())
    }

    /// Queues the batches that have pictures.
    fn decode(&mut self) -> Result<()> {
        let Self { functions, handle, batches, stream, .. } = self;
        for batch in batches.iter_mut().filter(|batch| !batch.files.is_empty()) {
            let num = batch.files.len();
            if std::mem::take(&mut batch.num_prepared) != num {
                let size = c_int::try_from(num).map_err(|_| error("too many pictures"))?;
                // SAFETY: handle and state are alive, and the work of the state before is
                // complete (`decoded`).
                let status = unsafe {
                    (functions.begin_batch)(*handle, batch.state, size, 1, batch.output as c_int)
                };
                check(status, "prepare a batch")?;
            }
            // SAFETY: the batch was prepared for this number of files, and the lists have
            // that length. Each file is borrowed for longer than the scope of uploads, which
            // at its end waits for the work queued here. Each plane is an image in device
            // memory of this stream that holds the rows that nvJPEG writes: it found the
            // size of the layout in the file (`check_size`), and the image has room for the
            // layout (`DeviceImage::decoded_into`); its memory outlives the stream's work.
            // The work of the state before is complete.
            let status = unsafe {
                (functions.decode_batch)(
                    *handle,
                    batch.state,
                    batch.files.as_ptr(),
                    batch.lengths.as_ptr(),
                    batch.planes.as_mut_ptr(),
                    stream.handle().cast(),
                )
            };
            check_file(status)?;
            batch.num_prepared = num;
        }
        Ok(())
    }
}

impl Drop for JpegEngines {
    fn drop(&mut self) {
        // The states' memory is in use until the work is complete. Errors cannot be
        // reported here: a lost context has no memory to free.
        if self.stream.bind().is_err() || self.stream.synchronize().is_err() {
            return;
        }
        for batch in &self.batches {
            if !batch.state.is_null() {
                // SAFETY: created in `prepare`, owned here alone, its work is complete.
                unsafe { (self.functions.destroy_state)(batch.state) };
            }
        }
        // SAFETY: created in `open`, owned here alone; its states are gone.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}

/// Checks the result of a call that depends on the device alone.
fn check(status: Status, what: &str) -> Result<()> {
    match status {
        SUCCESS => Ok(()),
        _ => Err(error(format!("nvJPEG cannot {what}: {}", reason(status)))),
    }
}

/// Checks the result of a call that depends on a file.
fn check_file(status: Status) -> Result<()> {
    match status {
        SUCCESS => Ok(()),
        _ => Err(refused(reason(status))),
    }
}

fn refused(reason: impl std::fmt::Display) -> Error {
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
