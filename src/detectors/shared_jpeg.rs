//! JPEG files of several cameras, which the engines of a GPU decode in one batch: six take a
//! third longer than a single one, and batches of one file follow each other on the engines.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::detectors::image_uploads::{MIN_IMAGE_BYTES, num_bytes, reserve};
use det_post_ops::device::cuda::{DeviceBuffer, Event, InPlaceUploads, Stream};
use det_post_ops::image::decompress::cuda::{JpegDecoder, layout};
use det_post_ops::image::decompress::nvjpeg::JpegPlanes;
use det_post_ops::image::{DeviceImage, ImageLayout};
use det_post_types::{CompressedView, Error, ErrorKind, JpegDevice, JpegOptions, Result};

/// The decoder of several cameras on a GPU. Each has a place, which keeps one file at a time:
///
/// ```text
/// empty ──keep──► waiting ──batch──► decoded, refused ──take──► empty
/// ```
///
/// A batch has all files that wait when one of them is taken.
pub(super) struct SharedJpeg {
    options: JpegOptions,
    stream: Stream,
    state: Mutex<State>,
}

/// The decoders of cameras that are open in this process.
static OPENED: Mutex<Vec<Weak<SharedJpeg>>> = Mutex::new(Vec::new());

struct State {
    decoder: JpegDecoder,
    uploads: InPlaceUploads,
    /// Recorded behind the last batch.
    decoded: Event,
    /// By place.
    files: Vec<File>,
    images: Vec<DeviceImage>,
    /// The device has failed.
    is_broken: bool,
}

struct File {
    data: Vec<u8>,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The place has no camera.
    Free,
    Empty,
    Waiting(JpegPlanes),
    Decoded,
    /// The engines refuse the file.
    Refused,
}

/// The image of a file.
pub(super) enum DecodeOutcome {
    /// The bytes of the file, and the layout and memory of its image for work of the camera's
    /// stream, until the next file is kept.
    Decoded { num_bytes: usize, layout: ImageLayout, image: DeviceBuffer<u8> },
    /// The file, for the CPU.
    Refused(Vec<u8>),
}

/// The place of a camera.
pub(super) struct JpegPlace {
    shared: Arc<SharedJpeg>,
    place: usize,
}

impl SharedJpeg {
    /// A place with the decoder of a stream's GPU and of these options, which is made for the first
    /// camera and after a failure of its device; `None` for a camera whose images are decoded on
    /// the CPU.
    ///
    /// # Errors
    /// Returns the errors of [`JpegDecoder::new`].
    pub(super) fn join(stream: &Stream, options: &JpegOptions) -> Result<Option<JpegPlace>> {
        if options.device == JpegDevice::Cpu {
            return Ok(None);
        }
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|shared| shared.strong_count() > 0);
        let gpu = stream.device().ordinal();
        let fits = |shared: &Arc<Self>| {
            (shared.stream.device().ordinal(), &shared.options) == (gpu, options)
                && !shared.lock().is_broken
        };
        let found = opened.iter().filter_map(Weak::upgrade).find(fits);
        let shared = match found {
            Some(shared) => shared,
            None => {
                let made = Arc::new(Self::new(stream.device().stream()?, options)?);
                opened.push(Arc::downgrade(&made));
                made
            }
        };
        let place = shared.lock().join(&shared.stream)?;
        Ok(Some(JpegPlace { shared, place }))
    }

    fn new(stream: Stream, options: &JpegOptions) -> Result<Self> {
        let state = State {
            decoder: JpegDecoder::new(&stream, options)?,
            uploads: InPlaceUploads::new(&stream)?.pipelined(),
            decoded: Event::new(&stream)?,
            files: Vec::new(),
            images: Vec::new(),
            is_broken: false,
        };
        Ok(Self { options: options.clone(), stream, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn join(&mut self, stream: &Stream) -> Result<usize> {
        let free = self.files.iter().position(|file| file.progress == Progress::Free);
        if let Some(place) = free {
            self.files[place].progress = Progress::Empty;
            return Ok(place);
        }
        self.images.push(DeviceImage::with_capacity(stream, MIN_IMAGE_BYTES)?);
        self.files.push(File { data: Vec::new(), progress: Progress::Empty });
        Ok(self.files.len() - 1)
    }

    /// Queues the files that wait as one batch; if the engines refuse one of them, each by itself.
    fn decode_waiting(&mut self, stream: &Stream) -> Result<()> {
        let queued = self.decode(|_| true).and_then(|is_decoded| {
            if is_decoded {
                return Ok(());
            }
            (0..self.files.len()).try_for_each(|place| self.decode(|of| of == place).map(drop))
        });
        // Also after an error: a part may have been queued.
        let marked = self.decoded.record(stream);
        self.is_broken |= queued.is_err() || marked.is_err();
        queued.and(marked)
    }

    /// Queues those files that wait in places of a batch. Returns whether the engines decode
    /// them; the only one of a batch is otherwise refused.
    fn decode(&mut self, is_of_batch: impl Fn(usize) -> bool) -> Result<bool> {
        let Self { decoder, uploads, files, images, .. } = self;
        let file_of = |place: usize| match files.get(place)? {
            File { data, progress: Progress::Waiting(planes) } if is_of_batch(place) => {
                Some((&data[..], *planes))
            }
            _ => None,
        };
        let num_files = (0..files.len()).filter_map(file_of).count();
        if num_files == 0 {
            return Ok(true);
        }
        let is_decoded = uploads.scope(|scope| decoder.enqueue(images, file_of, scope))?;
        let progress = match (is_decoded, num_files) {
            (true, _) => Progress::Decoded,
            (false, 1) => Progress::Refused,
            (false, _) => return Ok(false),
        };
        for (place, file) in files.iter_mut().enumerate() {
            if is_of_batch(place) && matches!(file.progress, Progress::Waiting(_)) {
                file.progress = progress;
            }
        }
        Ok(is_decoded)
    }
}

impl JpegPlace {
    /// Keeps a copy of a file, if it is for the engines, and replaces the one before, whose
    /// image is no longer in use. Returns whether it is kept.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub(super) fn keep(&self, file: &CompressedView<'_>) -> Result<bool> {
        let mut state = self.shared.lock();
        let State { decoder, files, images, .. } = &mut *state;
        let (kept, image) = (&mut files[self.place], &mut images[self.place]);
        kept.progress = Progress::Empty;
        let Some(planes) = decoder.planes(file) else { return Ok(false) };
        reserve(image, &self.shared.stream, num_bytes(layout(&planes)))?;
        kept.data.clear();
        kept.data.extend_from_slice(file.data);
        kept.progress = Progress::Waiting(planes);
        Ok(true)
    }

    /// Takes the image of the file that was kept for work on `stream`, which waits for it. If
    /// the file still waits, it is decoded with all others that do.
    ///
    /// # Errors
    /// `Device` when the device fails, also by a file of another camera; `Argument` when no
    /// file was kept.
    pub(super) fn take(&self, stream: &Stream) -> Result<DecodeOutcome> {
        let mut state = self.shared.lock();
        if matches!(state.files[self.place].progress, Progress::Waiting(_)) {
            state.decode_waiting(&self.shared.stream)?;
        }
        let State { files, images, decoded, .. } = &mut *state;
        let (file, image) = (&mut files[self.place], &images[self.place]);
        match std::mem::replace(&mut file.progress, Progress::Empty) {
            Progress::Decoded => {
                stream.wait_for(decoded)?;
                let (num_bytes, layout) = (file.data.len(), image.layout()?);
                Ok(DecodeOutcome::Decoded { num_bytes, layout, image: image.bytes().on(stream)? })
            }
            Progress::Refused => Ok(DecodeOutcome::Refused(std::mem::take(&mut file.data))),
            progress => {
                let message = format!("no JPEG file was kept: {progress:?}");
                Err(Error::new(ErrorKind::Argument, "detector", message))
            }
        }
    }
}

impl Drop for JpegPlace {
    fn drop(&mut self) {
        self.shared.lock().files[self.place].progress = Progress::Free;
    }
}
