//! The JPEG engines of a GPU, through nvJPEG, a library of the CUDA toolkit that is loaded
//! at run time.
//!
//! Server GPUs (A100, H100 and later) have engines that decode baseline JPEG beside the
//! kernels. Of nvJPEG nothing else is used: its decoders without an engine do the entropy
//! decoding on the host, no faster than the CPU decoder of this program, and round otherwise;
//! its conversion of colours rounds otherwise, too, so that planes are decoded here.

mod library;

use std::ffi::{OsStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use library::{Handle, MAX_COMPONENTS, Planes, check, check_file, refused};

use crate::device::cuda::{
    DeviceBuffer, Event, PinnedBuffer, Stream, UploadScope, error, lock_capture,
};
use det_post_types::{Error, ErrorKind, Result, Size};

/// The planes of an image, one after the other without padding: luma, then Cb and Cr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JpegPlanes {
    /// Columns and rows of the image and of its luma.
    pub size: Size,
    /// Columns and rows of Cb and Cr; `None` for a grey image.
    pub chroma: Option<Size>,
}

impl JpegPlanes {
    /// Bytes of all planes.
    pub fn num_bytes(&self) -> usize {
        let [of_luma, of_chroma] = [Some(self.size), self.chroma].map(num_samples);
        of_luma + 2 * of_chroma
    }
}

fn num_samples(size: Option<Size>) -> usize {
    size.map_or(0, |size| size.width as usize * size.height as usize)
}

/// The planes that the engines write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// `NVJPEG_OUTPUT_YUV`
    Yuv = 1,
    /// `NVJPEG_OUTPUT_Y`
    Grey = 2,
}

/// The files of one output, in memory that is reused.
struct Files {
    output: Output,
    /// nvJPEG's memory for batches of this output; null before the first one.
    state: *mut c_void,
    /// The size for which `state` was last prepared; 0 after a failure.
    num_prepared: usize,
    starts: Vec<*const u8>,
    lengths: Vec<usize>,
    planes: Vec<Planes>,
}

impl Files {
    /// Creates the state, unless there is one.
    fn create_state(&mut self, handle: &Handle) -> Result<()> {
        if self.state.is_null() {
            // It allocates memory.
            let _lock = lock_capture();
            // SAFETY: the handle is alive; the state is written into a field that is.
            let status =
                unsafe { (handle.functions.create_state)(handle.raw, &raw mut self.state) };
            check(status, "prepare decoding")?;
        }
        Ok(())
    }
}

/// What a batch uses until it is decoded.
struct Turn {
    /// Grey, colour.
    batches: [Files; 2],
    /// Copies of the files of a batch that outlives its scope.
    copies: Option<PinnedBuffer<u8>>,
    /// Recorded behind the last batch.
    decoded: Event,
}

impl Turn {
    fn new(stream: &Stream) -> Result<Self> {
        let batch = |output| Files {
            output,
            state: ptr::null_mut(),
            num_prepared: 0,
            starts: Vec::new(),
            lengths: Vec::new(),
            planes: Vec::new(),
        };
        let batches = [Output::Grey, Output::Yuv].map(batch);
        Ok(Self { batches, copies: None, decoded: Event::new(stream)? })
    }

    /// Copies the files of all batches to page-locked memory, after the batch before in this
    /// turn has read it.
    fn copy_files(&mut self, stream: &Stream) -> Result<()> {
        let Self { batches, copies, .. } = self;
        let num_bytes = batches.iter().flat_map(|batch| &batch.lengths).sum::<usize>();
        let memory = match copies {
            Some(memory) if memory.capacity() >= num_bytes => memory,
            _ => {
                let capacity = num_bytes.checked_next_power_of_two().unwrap_or(num_bytes);
                copies.insert(PinnedBuffer::zeros(stream, capacity)?)
            }
        };
        let mut rest = memory.values_mut(num_bytes)?;
        for Files { starts, lengths, .. } in batches {
            for (start, len) in starts.iter_mut().zip(lengths) {
                let (to, after) = std::mem::take(&mut rest).split_at_mut(*len);
                // SAFETY: a file of the batch, which is borrowed for longer than this call.
                to.copy_from_slice(unsafe { std::slice::from_raw_parts(*start, *len) });
                (*start, rest) = (to.as_ptr(), after);
            }
        }
        Ok(())
    }
}

/// The JPEG engines of the GPU of a stream.
pub struct JpegEngines {
    handle: Arc<Handle>,
    /// Batches that outlive their scopes take turns: the host prepares one while the engines
    /// decode the one before.
    turns: [Turn; 2],
    /// The turn of the batch that is begun next.
    turn: usize,
    stream: Stream,
}

// SAFETY: states belong to no thread: nvJPEG's functions may be called on any thread with the
// context current, one at a time for a state. `JpegEngines` is not `Sync`, owns them, and
// makes the context current first. The pointers of a batch are used within
// one call.
unsafe impl Send for JpegEngines {}

impl JpegEngines {
    /// Loads nvJPEG from `library`, else from where the system's loader finds it, for work
    /// on `stream`.
    ///
    /// # Errors
    /// `Device` with the reason: no library, a version before 12, a GPU without engines.
    pub fn open(stream: &Stream, library: Option<&OsStr>) -> Result<Self> {
        let handle = Handle::shared(stream, library)?;
        stream.bind()?;
        let turns = [Turn::new(stream)?, Turn::new(stream)?];
        let mut engines = Self { handle, turns, turn: 0, stream: stream.clone() };
        let [_grey, colour] = &mut engines.turns[0].batches;
        colour.create_state(&engines.handle)?;
        Ok(engines)
    }

    /// An empty batch of files that are borrowed until the end of `scope`, or copied if it does
    /// not wait for them. Waits for the batch before, or, if they are copied, for the one before
    /// that.
    ///
    /// # Errors
    /// `Device` when the scope is of another stream or earlier work failed.
    pub fn batch<'a, 'env>(
        &'a mut self,
        scope: &'a UploadScope<'a, 'env>,
    ) -> Result<JpegBatch<'a, 'env>> {
        self.stream.check_owns(scope.stream())?;
        self.stream.bind()?;
        let Turn { batches, decoded, .. } = &mut self.turns[self.turn];
        decoded.wait()?;
        for Files { starts, lengths, planes, .. } in batches {
            starts.clear();
            lengths.clear();
            planes.clear();
        }
        Ok(JpegBatch { engines: self, scope })
    }

    /// Checks that nvJPEG finds these planes in a file: it writes as many rows and columns as
    /// it finds.
    fn check_planes(&self, file: &[u8], planes: &JpegPlanes) -> Result<()> {
        let (mut num_components, mut sampling) = (0, 0);
        let (mut widths, mut heights) = ([0; MAX_COMPONENTS], [0; MAX_COMPONENTS]);
        // SAFETY: the file is borrowed for the call; all results are live locals of the
        // sizes that the declaration asks for.
        let status = unsafe {
            (self.handle.functions.image_info)(
                self.handle.raw,
                file.as_ptr(),
                file.len(),
                &raw mut num_components,
                &raw mut sampling,
                widths.as_mut_ptr(),
                heights.as_mut_ptr(),
            )
        };
        check_file(status)?;
        let expected = [Some(planes.size), planes.chroma, planes.chroma];
        let num_expected = expected.iter().flatten().count();
        let fits = (0..num_expected).all(|plane| {
            let found = [widths[plane], heights[plane]].map(i64::from);
            expected[plane].map(|size| [size.width, size.height].map(i64::from)) == Some(found)
        });
        if usize::try_from(num_components) != Ok(num_expected) || !fits {
            return Err(refused(format!(
                "it finds {num_components} planes of {widths:?} x {heights:?}, not {planes:?}"
            )));
        }
        Ok(())
    }

    /// Queues the batches that have files.
    fn decode(&mut self) -> Result<()> {
        let Self { handle, turns, turn, stream } = self;
        let Turn { batches, .. } = &mut turns[*turn];
        let Handle { functions, raw, .. } = &**handle;
        for batch in batches.iter_mut().filter(|batch| !batch.starts.is_empty()) {
            let num = batch.starts.len();
            batch.create_state(handle)?;
            if std::mem::take(&mut batch.num_prepared) != num {
                let size = c_int::try_from(num).map_err(|_| error("too many images"))?;
                // SAFETY: handle and state are alive, and the work of the state before is
                // complete (`batch`).
                let status = unsafe {
                    (functions.begin_batch)(*raw, batch.state, size, 1, batch.output as c_int)
                };
                check(status, "prepare a batch")?;
            }
            // SAFETY: the batch was prepared for this number of files, and the lists have
            // that length. Each file is borrowed for longer than the scope of uploads, which
            // at its end waits for the work queued here, or is a copy, which is not written
            // before that work is complete (`batch`). The planes are in device memory of
            // this stream and hold the rows that nvJPEG writes: it found their sizes in the
            // file, and the buffer has room for them (`JpegBatch::add`); the memory outlives
            // the stream's work. The work of the state before is complete.
            let status = unsafe {
                (functions.decode_batch)(
                    *raw,
                    batch.state,
                    batch.starts.as_ptr(),
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

/// Files that are decoded at once.
pub struct JpegBatch<'a, 'env> {
    engines: &'a mut JpegEngines,
    scope: &'a UploadScope<'a, 'env>,
}

impl<'env> JpegBatch<'_, 'env> {
    /// Adds a file, whose planes are written to the start of `target`.
    ///
    /// # Errors
    /// `Codec` when nvJPEG refuses the file or finds other planes in it. `Argument` when
    /// `target` is too small; `Device` when it belongs to another stream.
    pub fn add(
        &mut self,
        file: &'env [u8],
        planes: &JpegPlanes,
        target: &mut DeviceBuffer<u8>,
    ) -> Result<()> {
        let engines = &mut *self.engines;
        engines.stream.check_owns(target.stream())?;
        let needed = planes.num_bytes();
        if target.len() < needed {
            let found = target.len();
            let message = format!("memory of {found} bytes for planes of {needed}");
            return Err(Error::new(ErrorKind::Argument, "device", message));
        }
        engines.check_planes(file, planes)?;
        let [of_luma, of_chroma] = [Some(planes.size), planes.chroma].map(num_samples);
        let luma = target.address();
        let [cb, cr] = [of_luma, of_luma + of_chroma].map(|offset| luma + offset as u64);
        let [grey, colour] = &mut engines.turns[engines.turn].batches;
        let (files, addresses, chroma_step) = match planes.chroma {
            None => (grey, [luma, 0, 0, 0], 0),
            Some(chroma) => (colour, [luma, cb, cr, 0], chroma.width as usize),
        };
        files.starts.push(file.as_ptr());
        files.lengths.push(file.len());
        let pitches = [planes.size.width as usize, chroma_step, chroma_step, 0];
        files.planes.push(Planes { addresses, pitches });
        Ok(())
    }

    /// Queues the decoding.
    ///
    /// # Errors
    /// `Codec` when nvJPEG refuses a file: then the planes of none are valid. `Device` when
    /// the device fails.
    pub fn enqueue(self) -> Result<()> {
        let Self { engines, scope } = self;
        let is_copied = scope.is_pipelined();
        if is_copied {
            engines.turns[engines.turn].copy_files(&engines.stream)?;
        }
        let queued = engines.decode();
        // Also after an error: a part may have been queued.
        let marked = if is_copied { Ok(()) } else { scope.mark_read() };
        let Turn { decoded, .. } = &engines.turns[engines.turn];
        let decoded = decoded.record(&engines.stream);
        if is_copied {
            engines.turn = 1 - engines.turn;
        }
        queued.and(marked.and(decoded))
    }
}

impl Drop for JpegEngines {
    fn drop(&mut self) {
        // The states' memory is in use until the work is complete. Errors cannot be
        // reported here: a lost context has no memory to free.
        if self.stream.bind().is_err() || self.stream.synchronize().is_err() {
            return;
        }
        // It frees memory.
        let _lock = lock_capture();
        for batch in self.turns.iter().flat_map(|turn| &turn.batches) {
            if !batch.state.is_null() {
                // SAFETY: created in `create_state`, owned only here, its work is complete.
                unsafe { (self.handle.functions.destroy_state)(batch.state) };
            }
        }
    }
}
