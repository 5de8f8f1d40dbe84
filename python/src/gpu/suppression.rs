//! Suppression.

use det_post_ops::arrays::candidates::cuda::{Columns, DeviceArrays, DeviceClasses, Workspace};
use det_post_ops::device::cuda::{CudaDevice, Out, Plain, Stream};
use det_post_ops::nms::cuda::{Capacity, Suppressible, Suppression};
use det_post_ops::shared::DeviceCandidates;
use det_post_types::{Candidate, Kept};
use pyo3::prelude::*;

use super::{Sessions, is_of, rounded_up};
use crate::array::{GpuInput, GpuScope};
use crate::error::raised;
use crate::library::empty_like;

type Array<'py> = Bound<'py, PyAny>;

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
        return Err(inputs[0].refuse(&format!("[N, {columns}] is required")));
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
