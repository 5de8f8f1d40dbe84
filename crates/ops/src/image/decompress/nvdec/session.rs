//! The library libnvcuvid: a parser and a decoder of one stream.
//!
//! All unsafe code of NVDEC is here. It rests on this floor: the functions are declared in the Video Codec SDK, version 8.1 or
//! newer, whose structs are laid out as `interface` says; the parser calls back only within `cuvidParseVideoData`, on the
//! calling thread; a session is used by one thread at a time, with the context of its GPU current, so that
//! no lock of the context is needed; a surface that is mapped stays readable until it is unmapped.

use std::ffi::{OsStr, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use libloading::Library;

use super::interface::{
    CHROMA_420, CODEC_H264, Capabilities, DecodeStatus, DecoderInfo, MapInfo, ONE_PICTURE, Packet,
    ParserInfo, PictureStart, VideoFormat,
};
use super::sequence::{Sequence, has_engines};
use crate::device::cuda::{DeviceBuffer, Rows, Stream, error, lock_capture};
use det_post_types::{Error, ErrorKind, FrameCrop, Result, Size};

/// The name of the library, which comes with the driver.
const NAME: &str = "libnvcuvid.so.1";

/// `CUresult`
type Status = c_int;
const SUCCESS: Status = 0;

/// The functions of libnvcuvid that are used, as `cuviddec.h` and `nvcuvid.h` declare them.
struct Functions {
    capabilities: unsafe extern "C" fn(*mut Capabilities) -> Status,
    create_decoder: unsafe extern "C" fn(*mut *mut c_void, *mut DecoderInfo) -> Status,
    destroy_decoder: unsafe extern "C" fn(*mut c_void) -> Status,
    decode: unsafe extern "C" fn(*mut c_void, *mut PictureStart) -> Status,
    status: unsafe extern "C" fn(*mut c_void, c_int, *mut DecodeStatus) -> Status,
    map: unsafe extern "C" fn(*mut c_void, c_int, *mut u64, *mut c_uint, *mut MapInfo) -> Status,
    unmap: unsafe extern "C" fn(*mut c_void, u64) -> Status,
    create_parser: unsafe extern "C" fn(*mut *mut c_void, *mut ParserInfo) -> Status,
    parse: unsafe extern "C" fn(*mut c_void, *mut Packet) -> Status,
    destroy_parser: unsafe extern "C" fn(*mut c_void) -> Status,
    // Never unloaded: it is a part of the driver, which is in use.
    _library: ManuallyDrop<Library>,
}

impl Functions {
    /// Loads the library of this path, else the one that the system's loader finds.
    fn load(path: Option<&OsStr>) -> Result<Self> {
        let path = path.unwrap_or(OsStr::new(NAME));
        // SAFETY: loads a library that the user or the system names, whose initialisers are trusted as much as
        // the driver.
        let library = unsafe { Library::new(path) }.map_err(|cause| {
            error(format!("cannot load NVDEC ({})", path.display())).with_source(cause)
        })?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type is that of the declaration in the headers, and the library stays loaded.
                *unsafe { library.get($name) }.map_err(|cause| {
                    error("the library is not libnvcuvid of a driver for CUDA 9.1 or newer")
                        .with_source(cause)
                })?
            };
        }
        Ok(Self {
            capabilities: symbol!(c"cuvidGetDecoderCaps"),
            create_decoder: symbol!(c"cuvidCreateDecoder"),
            destroy_decoder: symbol!(c"cuvidDestroyDecoder"),
            decode: symbol!(c"cuvidDecodePicture"),
            status: symbol!(c"cuvidGetDecodeStatus"),
            map: symbol!(c"cuvidMapVideoFrame64"),
            unmap: symbol!(c"cuvidUnmapVideoFrame64"),
            create_parser: symbol!(c"cuvidCreateVideoParser"),
            parse: symbol!(c"cuvidParseVideoData"),
            destroy_parser: symbol!(c"cuvidDestroyVideoParser"),
            _library: ManuallyDrop::new(library),
        })
    }
}

/// The parser and the decoder of a stream of H.264, on the engines of the GPU of a stream.
pub(super) struct Session {
    /// Null before the first picture and after a reset.
    parser: *mut c_void,
    /// From `Box::into_raw`; the callbacks of the parser have the pointer.
    state: *mut State,
    stream: Stream,
}

// SAFETY: parser and decoder belong to no thread: the functions may be called on any thread with the context current, one
// at a time. `Session` is not `Sync`, owns both and the state, and makes the context current first.
unsafe impl Send for Session {}

/// What the callbacks of the parser work on.
struct State {
    functions: Functions,
    engines: Capabilities,
    /// Null before the first sequence.
    decoder: *mut c_void,
    /// Of the decoder.
    made_for: Option<Sequence>,
    /// Of the pictures that are decoded.
    current: Option<Sequence>,
    /// The surface of the last picture, and the number of pictures of the packet.
    picture: c_int,
    num_pictures: usize,
    /// The first error of a callback.
    failure: Option<Error>,
}

impl Session {
    /// Loads the library from `library`, else from where the system's loader finds it.
    ///
    /// # Errors
    /// `Device` with the reason: no library, one that is too old, a GPU whose engines do not decode H.264.
    pub(super) fn open(stream: &Stream, library: Option<&OsStr>) -> Result<Self> {
        let functions = Functions::load(library)?;
        stream.bind()?;
        let mut engines =
            Capabilities { codec: CODEC_H264, chroma: CHROMA_420, ..Capabilities::default() };
        // SAFETY: fills a live local.
        let status = unsafe { (functions.capabilities)(&raw mut engines) };
        check(status, "query the engines of this GPU")?;
        if !has_engines(&engines) {
            return Err(error("the engines of this GPU (NVDEC) do not decode H.264 of 8 bits"));
        }
        let state = State {
            functions,
            engines,
            decoder: ptr::null_mut(),
            made_for: None,
            current: None,
            picture: 0,
            num_pictures: 0,
            failure: None,
        };
        let state = Box::into_raw(Box::new(state));
        Ok(Self { parser: ptr::null_mut(), state, stream: stream.clone() })
    }

    /// Queues the decoding of the NAL units of one picture. Returns its sequence and its surface.
    ///
    /// # Errors
    /// `VideoCodec` when the parser finds no picture, or several; `Encoding` for a sequence that the engines do not
    /// decode; `Device` when the device fails.
    pub(super) fn decode(&mut self, units: &[u8]) -> Result<(Sequence, c_int)> {
        self.stream.bind()?;
        self.create_parser()?;
        let state = self.state();
        (state.num_pictures, state.failure) = (0, None);
        let mut packet = Packet {
            flags: ONE_PICTURE,
            num_bytes: units.len() as _,
            bytes: units.as_ptr(),
            time: 0,
        };
        let parse = state.functions.parse;
        // SAFETY: the parser is alive. The packet and its bytes are live for the call, which reads them; the callbacks,
        // within the call, have the only access to the state.
        let status = unsafe { parse(self.parser, &raw mut packet) };
        if let Some(failure) = self.state().failure.take() {
            return Err(failure);
        }
        if let Err(failure) = check(status, "parse an image") {
            // A fault of the GPU, if there is one, is the reason.
            self.stream.device().check()?;
            return Err(damaged(failure.message()));
        }
        let state = self.state();
        match (state.num_pictures, state.current) {
            (1, Some(sequence)) => Ok((sequence, state.picture)),
            (num, _) => Err(damaged(format!("the packet has {num} images for NVDEC"))),
        }
    }

    /// Copies a picture that [`Self::decode`] has queued and that is there in its frame to the start of `target`, as NV12
    /// without padding, and waits.
    ///
    /// # Errors
    /// `VideoCodec` when the engines found it damaged, or the frame is another one; `Argument` when the target is too small; `Device` when the device
    /// fails.
    pub(super) fn read(
        &mut self,
        (sequence, picture): (Sequence, c_int),
        crop: &FrameCrop,
        target: &mut DeviceBuffer<u8>,
    ) -> Result<()> {
        sequence.check(crop)?;
        if !target.stream().is_same_queue(&self.stream) {
            return Err(error("memory of another stream for an image"));
        }
        self.stream.bind()?;
        let stream = self.stream.clone();
        let State { functions, decoder, .. } = self.state();
        let mut info =
            MapInfo { is_progressive: 1, stream: stream.handle() as usize, ..MapInfo::default() };
        let (mut address, mut step) = (0, 0);
        // SAFETY: the decoder is alive and has the surface; the results are live locals; the stream is alive.
        let status = unsafe {
            (functions.map)(*decoder, picture, &raw mut address, &raw mut step, &raw mut info)
        };
        check(status, "read an image")?;
        // SAFETY: the surface is of this sequence, mapped, and written by work of this stream; the picture is a part of it.
        let copied = unsafe { copy(address, step as usize, crop, target) };
        let waited = stream.synchronize();
        let mut found = DecodeStatus::default();
        // SAFETY: as above; the status is written into a live local.
        let status = unsafe { (functions.status)(*decoder, picture, &raw mut found) };
        // SAFETY: mapped above; the copy is complete, or the device has failed.
        let unmapped = unsafe { (functions.unmap)(*decoder, address) };
        copied.and(waited)?;
        check(unmapped, "release an image")?;
        match check(status, "query an image") {
            Ok(()) if found.is_error() => Err(damaged("the engines find errors in the image")),
            other => other,
        }
    }

    /// Forgets all pictures.
    pub(super) fn reset(&mut self) {
        let parser = std::mem::replace(&mut self.parser, ptr::null_mut());
        if !parser.is_null() && self.stream.bind().is_ok() {
            // SAFETY: made in `create_parser` and owned only here.
            unsafe { (self.state().functions.destroy_parser)(parser) };
        }
    }

    fn state(&mut self) -> &mut State {
        // SAFETY: from `Box::into_raw`, freed when `self` is dropped; the callbacks run within `decode` only, which holds
        // no reference meanwhile.
        unsafe { &mut *self.state }
    }

    /// Makes the parser, unless there is one.
    fn create_parser(&mut self) -> Result<()> {
        if !self.parser.is_null() {
            return Ok(());
        }
        let mut info = ParserInfo {
            codec: CODEC_H264,
            // The callback for the sequence states their number.
            num_decode_surfaces: 1,
            clock_rate: 0,
            error_threshold: 0,
            display_delay: 0,
            flags: 0,
            reserved: [0; 4],
            user: self.state.cast(),
            on_sequence: Some(on_sequence),
            on_picture: Some(on_picture),
            other_callbacks: [0; 3],
            reserved_end: [0; 5],
            sequence_header: 0,
        };
        let create = self.state().functions.create_parser;
        let mut parser = ptr::null_mut();
        // SAFETY: reads a live local, and writes the handle into another. The state outlives the parser.
        let status = unsafe { create(&raw mut parser, &raw mut info) };
        check(status, "parse H.264")?;
        self.parser = parser;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reset();
        // SAFETY: from `Box::into_raw`, and no parser has the pointer any more.
        let mut state = unsafe { Box::from_raw(self.state) };
        // A lost context has nothing to free.
        if self.stream.bind().is_ok() {
            // It frees memory.
            let _lock = lock_capture();
            state.destroy_decoder();
        }
    }
}

impl State {
    /// Makes a decoder for a sequence, unless there is one that serves it. Returns the number of surfaces.
    fn begin(&mut self, format: &VideoFormat) -> Result<c_int> {
        let sequence = Sequence::of(format, &self.engines)?;
        let made_for = match self.made_for {
            Some(made_for) if made_for.serves(&sequence) => made_for,
            _ => {
                // They allocate and free memory.
                let _lock = lock_capture();
                self.destroy_decoder();
                let mut info = sequence.decoder();
                // SAFETY: reads a live local, and writes the handle into a field that is.
                let status = unsafe {
                    (self.functions.create_decoder)(&raw mut self.decoder, &raw mut info)
                };
                let Size { width, height } = sequence.coded;
                check(status, &format!("make a decoder for images of {width}x{height}"))?;
                *self.made_for.insert(sequence)
            }
        };
        self.current = Some(sequence);
        Ok(made_for.num_surfaces.into())
    }

    fn destroy_decoder(&mut self) {
        self.made_for = None;
        let decoder = std::mem::replace(&mut self.decoder, ptr::null_mut());
        if !decoder.is_null() {
            // SAFETY: made in `begin` and owned only here; no surface is mapped.
            unsafe { (self.functions.destroy_decoder)(decoder) };
        }
    }
}

/// The parser has read a sequence.
extern "C" fn on_sequence(user: *mut c_void, format: *const VideoFormat) -> c_int {
    // SAFETY: the pointer is that of a session's state, which nothing else uses while its parser runs (`Session::decode`);
    // the format is the parser's for the call.
    let (state, format) = unsafe { (&mut *user.cast::<State>(), &*format) };
    match state.begin(format) {
        Ok(num_surfaces) => num_surfaces,
        Err(failure) => {
            state.failure.get_or_insert(failure);
            0
        }
    }
}

/// The parser has read a picture.
extern "C" fn on_picture(user: *mut c_void, picture: *mut PictureStart) -> c_int {
    // SAFETY: as in `on_sequence`.
    let (state, start) = unsafe { (&mut *user.cast::<State>(), *picture) };
    if state.decoder.is_null() || state.failure.is_some() {
        return 0;
    }
    (state.picture, state.num_pictures) = (start.index, state.num_pictures + 1);
    // SAFETY: the decoder is alive and made for the sequence; the parameters are the parser's for the call.
    let status = unsafe { (state.functions.decode)(state.decoder, picture) };
    match check(status, "decode an image") {
        Ok(()) => 1,
        Err(failure) => {
            state.failure.get_or_insert(failure);
            0
        }
    }
}

/// Queues copies of the luma and the chroma of a surface, whose chroma follows its luma.
///
/// # Safety
/// The surface at the address has the frame in NV12, of which the picture is a part, and stays until the work of the
/// target's stream is complete; work queued on that stream writes it.
unsafe fn copy(
    address: u64,
    step: usize,
    crop: &FrameCrop,
    target: &mut DeviceBuffer<u8>,
) -> Result<()> {
    let FrameCrop { coded, offset, size } = *crop;
    let [left, top] = offset.map(|offset| offset as usize);
    let [width, height] = [size.width as usize, size.height as usize];
    let chroma = step * coded.height as usize;
    let rows = |start: usize, top: usize, num: usize| Rows {
        address: address + (start + top * step + left) as u64,
        step,
        len: width,
        num,
    };
    // SAFETY: the part is within the surface (of the caller).
    unsafe {
        target.enqueue_rows(0, rows(0, top, height))?;
        target.enqueue_rows(width * height, rows(chroma, top / 2, height / 2))
    }
}

/// Checks the result of a call.
fn check(status: Status, what: &str) -> Result<()> {
    match status {
        SUCCESS => Ok(()),
        _ => Err(error(format!("NVDEC cannot {what}: {}", reason(status)))),
    }
}

fn damaged(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::VideoCodec, "device", message)
}

/// The names of `CUresult` that are expected.
fn reason(status: Status) -> String {
    let name = match status {
        1 => "invalid value",
        2 => "out of memory",
        3 => "not initialized",
        100 => "no device",
        201 => "invalid context",
        400 => "invalid handle",
        801 => "not supported",
        999 => "unknown error",
        _ => return format!("CUDA error {status}"),
    };
    name.to_owned()
}
