//! Operations on arrays in memory of GPUs.
//!
//! An operation works on a stream of its own: after the work that the arrays' library has queued
//! on its current stream, and until the call returns, so that its results are ready for any stream
//! and its inputs may be freed. Kernels and memory are kept for the calls that follow.

use std::sync::{Mutex, PoisonError};

use det_post::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceCandidates, DeviceTensor, DeviceValues, ImageLayout, Out,
    Plain, Stream, TAIL_BYTES,
};
use det_post::ops::candidate_arrays::cuda::{Columns, DeviceArrays, DeviceClasses, Workspace};
use det_post::ops::letterbox::LetterboxParams;
use det_post::ops::letterbox::cuda::{Kernels, enqueue_letterbox_of};
use det_post::ops::nms::cuda::{Capacity, Suppressible, Suppression};
use det_post::types::{Candidate, ElementType, Encoding, Kept, Letterbox};
use pyo3::prelude::*;

use crate::array::{GpuInput, GpuScope};
use crate::error::raised;
use crate::image;
use crate::library::empty_like;

type Array<'py> = Bound<'py, PyAny>;

/// Sessions that wait for the next call of an operation, the newest last.
pub struct Sessions<S>(Mutex<Vec<S>>);

impl<S> Sessions<S> {
    /// The most sessions that are kept: of other sizes, settings, GPUs or threads.
    const CAPACITY: usize = 8;

    /// No sessions.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A session that fits.
    fn take(&self, fits: impl Fn(&S) -> bool) -> Option<S> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = sessions.iter().rposition(fits)?;
        Some(sessions.remove(position))
    }

    /// Keeps a session after a call without an error.
    fn put(&self, session: S) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = (sessions.len() >= Self::CAPACITY).then(|| sessions.remove(0));
        sessions.push(session);
        drop(sessions);
        // Waits for its stream, without the lock.
        drop(oldest);
    }
}

/// The capacity of a session for so many values: few sizes serve all calls.
fn rounded_up(num: usize) -> usize {
    num.max(1024).checked_next_power_of_two().unwrap_or(num)
}

/// Whether a stream is of this GPU.
fn is_of(stream: &Stream, gpu: u32) -> bool {
    stream.device().ordinal() == gpu as usize
}

/// Kernels and memory of a kind of suppression.
pub struct SuppressionSession<B: Suppressible> {
    stream: Stream,
    nms: B::Nms,
    arrays: Workspace<B>,
    candidates: DeviceCandidates<B>,
    suppression: Suppression<B>,
    kept: Vec<Kept>,
}

impl<B> SuppressionSession<B>
where
    B: Columns + Copy + Suppressible,
    B::Nms: Clone,
    Candidate<B>: Plain,
{
    /// The most classes with thresholds of their own.
    const NUM_CLASSES: usize = 256;

    fn new(gpu: u32, nms: &B::Nms, num: usize) -> det_post::Result<Self> {
        let stream = CudaDevice::open(gpu)?.stream()?;
        let capacity = Capacity { candidates: rounded_up(num), classes: Self::NUM_CLASSES };
        Ok(Self {
            nms: nms.clone(),
            arrays: Workspace::new(&stream)?,
            candidates: DeviceCandidates::with_capacity(&stream, capacity.candidates)?,
            suppression: Suppression::new(&stream, nms, capacity)?,
            kept: Vec::new(),
            stream,
        })
    }

    /// Runs the suppression and waits. The number of survivors.
    fn run(&mut self, arrays: &DeviceArrays<'_>) -> det_post::Result<usize> {
        self.arrays.enqueue(arrays, &mut self.candidates)?;
        self.suppression.enqueue(&self.candidates)?;
        self.suppression.read_kept(&mut self.kept)?;
        self.arrays.check_classes()?;
        Ok(self.kept.len())
    }
}

/// The survivors of boxes `[N, columns]`, best first: positions and, if wanted, scores.
pub fn suppressed<'py, B>(
    sessions: &Sessions<SuppressionSession<B>>,
    gpu: u32,
    [boxes, scores]: [&Array<'py>; 2],
    classes: Option<&Array<'py>>,
    (columns, nms): (usize, &B::Nms),
    has_scores: bool,
) -> PyResult<(Array<'py>, Option<Array<'py>>)>
where
    B: Columns + Copy + Send + Sync + Suppressible,
    B::Nms: Clone + PartialEq + Send + Sync,
    Candidate<B>: Plain,
{
    let py = boxes.py();
    let num = boxes.len()?;
    let fits = |session: &SuppressionSession<B>| {
        let capacity = session.candidates.capacity();
        is_of(&session.stream, gpu) && session.nms == *nms && capacity == rounded_up(num)
    };
    let mut session = match sessions.take(fits) {
        Some(session) => session,
        None => py.detach(|| SuppressionSession::new(gpu, nms, num)).map_err(|e| raised(&e))?,
    };
    let stream = session.stream.clone();
    let inputs =
        [GpuInput::new("boxes", boxes, &stream)?, GpuInput::new("scores", scores, &stream)?];
    let classes = classes.map(|classes| GpuInput::new("classes", classes, &stream)).transpose()?;
    if !matches!(*inputs[0].shape(), [_, found] if found == columns) {
        return Err(inputs[0].refuse(&format!("[N, {columns}] is needed")));
    }
    let num_kept = GpuScope::run(&stream, |scope| {
        let arrays = DeviceArrays {
            boxes: inputs[0].slice::<f32, f32>(scope)?,
            num_columns: columns,
            scores: inputs[1].slice::<f32, f32>(scope)?,
            classes: match &classes {
                None => DeviceClasses::None,
                Some(classes) if classes.is::<i32>() => {
                    DeviceClasses::I32(classes.slice::<i32, u32>(scope)?)
                }
                Some(classes) => DeviceClasses::I64(classes.slice::<i64, u64>(scope)?),
            },
        };
        py.detach(|| session.run(&arrays)).map_err(|error| raised(&error))
    })?;
    let indices = empty_like(boxes, &[num_kept], "int64")?;
    let lowered = has_scores.then(|| empty_like(boxes, &[num_kept], "float32")).transpose()?;
    let mut indices_out = GpuInput::new("indices", &indices, &stream)?;
    let lowered_out = lowered.as_ref().map(|array| GpuInput::new("scores", array, &stream));
    let mut lowered_out = lowered_out.transpose()?;
    GpuScope::run(&stream, |scope| {
        let indices = indices_out.output::<i64, u64>(scope)?;
        let scores = match &mut lowered_out {
            Some(scores) => scores.output::<f32, f32>(scope)?,
            None => Out::empty(),
        };
        let (kept, _) = session.suppression.kept();
        session.arrays.enqueue_survivors(kept, indices, scores).map_err(|error| raised(&error))?;
        py.detach(|| stream.synchronize()).map_err(|error| raised(&error))
    })?;
    sessions.put(session);
    Ok((indices, lowered))
}

/// Kernels of the letterbox, and memory for images that are not read in place.
struct LetterboxSession {
    stream: Stream,
    kernels: Kernels,
    copy: Option<DeviceBuffer<u8>>,
}

static LETTERBOX: Sessions<LetterboxSession> = Sessions::new();

impl LetterboxSession {
    fn new(gpu: u32) -> det_post::Result<Self> {
        let stream = CudaDevice::open(gpu)?.stream()?;
        Ok(Self { kernels: Kernels::load(stream.device())?, stream, copy: None })
    }

    /// Memory for so many bytes.
    fn copy(&mut self, num_bytes: usize) -> det_post::Result<&mut DeviceBuffer<u8>> {
        let buffer = match self.copy.take() {
            Some(buffer) if buffer.len() >= num_bytes => buffer,
            // The sizes double: smaller buffers, which the stream keeps, are as much together.
            _ => DeviceBuffer::zeros(&self.stream, rounded_up(num_bytes))?,
        };
        Ok(self.copy.insert(buffer))
    }
}

/// The letterbox of an image on a GPU: the input of a network, and the placement.
pub fn letterbox<'py>(
    gpu: u32,
    image: &Array<'py>,
    encoding: Encoding,
    params: &LetterboxParams,
    (element, shape): (ElementType, [usize; 4]),
) -> PyResult<(Array<'py>, Letterbox)> {
    let py = image.py();
    let mut session = match LETTERBOX.take(|session| is_of(&session.stream, gpu)) {
        Some(session) => session,
        None => py.detach(|| LetterboxSession::new(gpu)).map_err(|error| raised(&error))?,
    };
    let stream = session.stream.clone();
    let input = GpuInput::new("image", image, &stream)?;
    let has_type = if encoding == Encoding::Mono16 { input.is::<u16>() } else { input.is::<u8>() };
    let (size, step) = image::size_and_step(input.shape(), has_type, encoding)
        .map_err(|expected| input.refuse(&expected))?;
    let layout = ImageLayout { size, step, encoding, big_endian: false };
    let num_bytes = step * encoding.num_rows(size.height);
    let name = if element == ElementType::F16 { "float16" } else { "float32" };
    let out = empty_like(image, &shape, name)?;
    let mut out_input = GpuInput::new("out", &out, &stream)?;
    let placed = GpuScope::run(&stream, |scope| {
        // At the end of an allocation there is no tail to read.
        let in_place = input.bytes(num_bytes + TAIL_BYTES, scope);
        let source = in_place.or_else(|_| input.bytes(num_bytes, scope))?;
        let values = match element {
            ElementType::F16 => DeviceValues::F16(out_input.buffer(scope)?),
            _ => DeviceValues::F32(out_input.buffer(scope)?),
        };
        py.detach(|| {
            let mut tensor = DeviceTensor::of(&shape, values)?;
            if source.len() == num_bytes {
                session.copy(num_bytes + TAIL_BYTES)?.enqueue_copy(&source)?;
            }
            let LetterboxSession { kernels, copy, .. } = &session;
            let bytes = copy.as_ref().filter(|_| source.len() == num_bytes).unwrap_or(&source);
            let image = (layout, bytes);
            let placed = enqueue_letterbox_of(&stream, kernels, image, params, &mut tensor);
            stream.synchronize()?;
            placed
        })
        .map_err(|error| raised(&error))
    })?;
    LETTERBOX.put(session);
    Ok((out, placed))
}
