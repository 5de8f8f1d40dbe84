//! Outputs of YOLO-family networks.

use det_post::device::cuda::{
    CudaDevice, DeviceCandidates, DeviceCounters, DeviceTensor, Plain, Stream,
};
use det_post::ops::candidate_arrays::cuda::{
    Columns, SurvivorColumns, Workspace as ArraysWorkspace,
};
use det_post::ops::decode_yolo::cuda::{Decoded, Selection, Workspace as DecodeWorkspace};
use det_post::ops::nms::cuda::{Capacity, Suppressible, Suppression};
use det_post::types::{Candidate, Kept, Nms2d, Size, YoloLayout};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Sessions, is_of};
use crate::array::{GpuInput, GpuScope};
use crate::error::raised;
use crate::library::empty_like;

type Array<'py> = Bound<'py, PyAny>;

/// How outputs become boxes.
#[derive(Clone, Debug, PartialEq)]
pub struct YoloHead {
    pub layout: YoloLayout,
    pub network: Size,
    pub num_classes: usize,
    pub score_threshold: f32,
    /// The most boxes, best first.
    pub capacity: usize,
}

/// Kernels and memory for outputs of a head and their shapes.
pub struct YoloSession<B: Suppressible> {
    stream: Stream,
    head: YoloHead,
    shapes: Vec<Vec<usize>>,
    decode: DecodeWorkspace<B>,
    candidates: DeviceCandidates<B>,
    counters: DeviceCounters,
    /// Sorts.
    suppression: Suppression<B>,
    arrays: ArraysWorkspace<B>,
    kept: Vec<Kept>,
}

impl<B> YoloSession<B>
where
    B: Columns + Copy + Decoded + Suppressible<Nms = Nms2d>,
    Candidate<B>: Plain,
{
    fn new(gpu: u32, head: &YoloHead, shapes: &[Vec<usize>]) -> det_post::Result<Self> {
        let stream = CudaDevice::open(gpu)?.stream()?;
        let YoloHead { layout, network, num_classes, score_threshold, capacity } = head;
        let slices: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let mut decode = DecodeWorkspace::new(&stream, layout, *network, *num_classes, &slices)?;
        let capacity = (*capacity).max(1);
        decode.set(&Selection {
            score_threshold: *score_threshold,
            class_filter: &[],
            candidate_capacity: capacity,
            pre_nms_top_k: capacity,
        })?;
        let room = Capacity { candidates: capacity, classes: 1 };
        Ok(Self {
            decode,
            candidates: DeviceCandidates::with_capacity(&stream, capacity)?,
            counters: DeviceCounters::new(&stream)?,
            suppression: Suppression::new(&stream, &Nms2d::None, room)?,
            arrays: ArraysWorkspace::new(&stream)?,
            kept: Vec::new(),
            head: head.clone(),
            shapes: shapes.to_vec(),
            stream,
        })
    }

    /// Decodes, sorts and waits. The number of boxes.
    fn run(&mut self, outputs: &[DeviceTensor]) -> det_post::Result<usize> {
        let outputs: Vec<&DeviceTensor> = outputs.iter().collect();
        self.decode.enqueue(&outputs, &mut self.candidates, &mut self.counters)?;
        self.suppression.enqueue(&self.candidates)?;
        self.suppression.read_kept(&mut self.kept)?;
        Ok(self.kept.len())
    }
}

/// The boxes of the outputs of a network, best first: a dict of columns.
pub fn decoded<'py, B>(
    sessions: &Sessions<YoloSession<B>>,
    gpu: u32,
    outputs: &[Array<'py>],
    shapes: &[Vec<usize>],
    head: &YoloHead,
) -> PyResult<Bound<'py, PyDict>>
where
    B: Columns + Copy + Decoded + Send + Sync + Suppressible<Nms = Nms2d>,
    Candidate<B>: Plain,
{
    let like = &outputs[0];
    let py = like.py();
    let fits = |session: &YoloSession<B>| {
        is_of(&session.stream, gpu) && session.head == *head && session.shapes == shapes
    };
    let mut session = match sessions.take(fits) {
        Some(session) => session,
        None => py.detach(|| YoloSession::new(gpu, head, shapes)).map_err(|e| raised(&e))?,
    };
    let stream = session.stream.clone();
    let inputs = outputs.iter().map(|array| GpuInput::new("outputs", array, &stream));
    let inputs = inputs.collect::<PyResult<Vec<_>>>()?;
    let num = GpuScope::run(&stream, |scope| {
        let tensors = inputs.iter().map(|input| input.tensor(scope));
        let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
        py.detach(|| session.run(&tensors)).map_err(|error| raised(&error))
    })?;
    let columns = [
        ("boxes", &[num, B::NUM_NUMBERS][..], "float32"),
        ("scores", &[num], "float32"),
        ("classes", &[num], "int64"),
        ("rows", &[num], "int64"),
    ];
    let found = PyDict::new(py);
    let mut results = Vec::with_capacity(columns.len());
    for (name, shape, dtype) in columns {
        let array = empty_like(like, shape, dtype)?;
        results.push(GpuInput::new(name, &array, &stream)?);
        found.set_item(name, array)?;
    }
    let [boxes, scores, classes, rows] = &mut results[..] else { return Ok(found) };
    GpuScope::run(&stream, |scope| {
        let columns = SurvivorColumns {
            boxes: boxes.output::<f32, f32>(scope)?,
            scores: scores.output::<f32, f32>(scope)?,
            classes: classes.output::<i64, u64>(scope)?,
            sources: rows.output::<i64, u64>(scope)?,
        };
        let (kept, _) = session.suppression.kept();
        let queued = session.arrays.enqueue_columns(&session.candidates, kept, columns);
        queued.map_err(|error| raised(&error))?;
        py.detach(|| stream.synchronize()).map_err(|error| raised(&error))
    })?;
    sessions.put(session);
    Ok(found)
}
