//! Outputs of networks to boxes.

use det_post_ops::arrays::candidates::cuda::{
    Columns, DecodedAnchor, DecodedCenter, DecodedStreamPetr, DecodedYolo, NUM_VARIANCES, Ranked,
    SurvivorColumns, SurvivorIds,
};
use det_post_ops::decode::anchor::AnchorOutputs;
use det_post_ops::decode::center::CenterTask;
use det_post_ops::decode::query::cuda::{DeviceQueries, Workspace as DecodeQuery};
use det_post_ops::decode::streampetr::StreamPetrOutputs;
use det_post_ops::decode::yolo::cuda::Decoded;
use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, In, Plain, Stream};
use det_post_ops::nms::cuda::Suppressible;
use det_post_types::{
    AnchorDecode, Candidate, Candidates, CenterDecode, Nms2d, Object3d, QueryDecode, Size,
    StreamPetrDecode, YoloLayout,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Sessions, is_of};
use crate::array::{GpuInput, GpuScope};
use crate::decode::{capacity_of, space_columns_by};
use crate::error::raised;
use crate::library::empty_like;

type Array<'py> = Bound<'py, PyAny>;
type Found<'py> = PyResult<Bound<'py, PyDict>>;

/// How outputs of a YOLO-family network become boxes.
#[derive(Clone, Debug, PartialEq)]
pub struct YoloHead {
    pub layout: YoloLayout,
    pub network: Size,
    pub num_classes: usize,
    pub score_threshold: f32,
    /// The most boxes, best first.
    pub capacity: usize,
}

/// Kernels and memory of a decoder `D`, for a head `H` and outputs of these shapes.
pub struct DecodeSession<H, D> {
    stream: Stream,
    head: H,
    shapes: Vec<Vec<usize>>,
    decode: D,
}

/// Sessions of outputs of YOLO-family networks with boxes `B`.
pub type YoloSessions<B> = Sessions<DecodeSession<YoloHead, DecodedYolo<B>>>;

// The key is the head and the most boxes.
static CENTER: Sessions<DecodeSession<(CenterDecode, usize), DecodedCenter>> = Sessions::new();
static ANCHOR: Sessions<DecodeSession<(AnchorDecode, usize), DecodedAnchor>> = Sessions::new();
static STREAMPETR: Sessions<DecodeSession<(StreamPetrDecode, usize), DecodedStreamPetr>> =
    Sessions::new();
static QUERY: Sessions<DecodeSession<(QueryDecode, usize), DecodeQuery>> = Sessions::new();

impl<H: Clone + PartialEq + Sync, D: Send> DecodeSession<H, D> {
    /// A kept session that fits, otherwise a new one.
    fn take(
        py: Python<'_>,
        sessions: &Sessions<Self>,
        gpu: u32,
        (head, shapes): (&H, Vec<Vec<usize>>),
        decode: impl FnOnce(&Stream) -> det_post::Result<D> + Send,
    ) -> PyResult<Self>
    where
        H: Send,
    {
        let fits = |of: &Self| is_of(&of.stream, gpu) && of.head == *head && of.shapes == shapes;
        if let Some(session) = sessions.take(fits) {
            return Ok(session);
        }
        let made = py.detach(|| {
            let stream = CudaDevice::open(gpu)?.stream()?;
            let decode = decode(&stream)?;
            Ok(Self { stream, head: head.clone(), shapes, decode })
        });
        made.map_err(|error: det_post::Error| raised(&error))
    }
}

fn shape_of(array: &Array<'_>) -> PyResult<Vec<usize>> {
    array.getattr("shape")?.extract()
}

/// The boxes of the outputs of a YOLO-family network, best first: a dict of columns.
pub fn decode_yolo<'py, B>(
    sessions: &YoloSessions<B>,
    gpu: u32,
    outputs: &[Array<'py>],
    shapes: &[Vec<usize>],
    head: &YoloHead,
) -> Found<'py>
where
    B: Columns + Copy + Decoded + Send + Sync + Suppressible<Nms = Nms2d>,
    Candidate<B>: Plain,
{
    let like = &outputs[0];
    let py = like.py();
    let mut session = DecodeSession::take(py, sessions, gpu, (head, shapes.to_vec()), |stream| {
        let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let YoloHead { layout, network, num_classes, score_threshold, capacity } = head;
        let head = (layout, *network, *num_classes);
        DecodedYolo::new(stream, head, &shapes, *score_threshold, *capacity)
    })?;
    let stream = session.stream.clone();
    let inputs = outputs.iter().map(|array| GpuInput::new("outputs", array, &stream));
    let inputs = inputs.collect::<PyResult<Vec<_>>>()?;
    GpuScope::run(&stream, |scope| {
        let tensors = inputs.iter().map(|input| input.tensor(scope));
        let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
        let tensors: Vec<&DeviceTensor> = tensors.iter().collect();
        py.detach(|| session.decode.run(&tensors)).map_err(|error| raised(&error))
    })?;
    let found = ranked_columns(&session.decode.ranked, &stream, like)?;
    sessions.put(session);
    Ok(found)
}

/// The boxes of the maps of a CenterPoint head, as [`decode_yolo`].
pub fn decode_center<'py>(
    gpu: u32,
    tasks: &[CenterTask<Array<'py>>],
    params: &CenterDecode,
    max_num: Option<usize>,
) -> Found<'py> {
    let like = &tasks[0].heatmap;
    let py = like.py();
    let shapes = tasks.iter().map(|task| shape_of(&task.heatmap)).collect::<PyResult<Vec<_>>>()?;
    let num_cells = shapes.iter().map(|shape| shape.iter().skip(2).product::<usize>()).sum();
    let capacity = capacity_of(max_num, num_cells)?;
    let head = (params.clone(), capacity);
    let mut session = DecodeSession::take(py, &CENTER, gpu, (&head, shapes), |stream| {
        DecodedCenter::new(stream, params, num_cells, capacity)
    })?;
    let stream = session.stream.clone();
    let inputs = tasks
        .iter()
        .map(|task| task.try_map_named(|name, map| GpuInput::new(name, map, &stream)))
        .collect::<PyResult<Vec<_>>>()?;
    GpuScope::run(&stream, |scope| {
        let tensors = inputs.iter().map(|task| task.try_map_named(|_, map| map.tensor(scope)));
        let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            let tasks = tensors.iter().map(CenterTask::as_ref).collect::<Vec<_>>();
            session.decode.run(&tasks)
        })
        .map_err(|error| raised(&error))
    })?;
    let found = ranked_columns(&session.decode.ranked, &stream, like)?;
    if params.has_velocity || params.has_variance {
        let num = session.decode.ranked.num();
        let num_variances = if params.has_variance { NUM_VARIANCES } else { 0 };
        let velocities = empty_like(like, &[num, 2], "float32")?;
        let variances = empty_like(like, &[num, num_variances], "float32")?;
        let mut velocities_out = GpuInput::new("velocities", &velocities, &stream)?;
        let mut variances_out = GpuInput::new("variances", &variances, &stream)?;
        GpuScope::run(&stream, |scope| {
            let velocities = velocities_out.output::<f32, f32>(scope)?;
            let variances = variances_out.output::<f32, f32>(scope)?;
            let queued = session.decode.enqueue_motions(velocities, variances);
            queued.map_err(|error| raised(&error))?;
            py.detach(|| stream.synchronize()).map_err(|error| raised(&error))
        })?;
        if params.has_velocity {
            found.set_item("velocities", velocities)?;
        }
        if params.has_variance {
            found.set_item("variances", variances)?;
        }
    }
    CENTER.put(session);
    Ok(found)
}

/// The boxes of the maps of an anchor head, as [`decode_yolo`].
pub fn decode_anchor<'py>(
    gpu: u32,
    outputs: &AnchorOutputs<&Array<'py>>,
    params: &AnchorDecode,
    max_num: Option<usize>,
) -> Found<'py> {
    let like = outputs.classes;
    let py = like.py();
    let shape = shape_of(like)?;
    let num_cells = match (&shape[..], params.channels_last) {
        (&[_, height, width, _], true) | (&[_, _, height, width], false) => height * width,
        // The decoder refuses the shape.
        _ => 1,
    };
    let num_anchors = num_cells * params.anchors.len() * params.rotations_rad.len();
    let capacity = capacity_of(max_num, num_anchors)?;
    let head = (params.clone(), capacity);
    let mut session = DecodeSession::take(py, &ANCHOR, gpu, (&head, vec![shape]), |stream| {
        DecodedAnchor::new(stream, params, num_cells, capacity)
    })?;
    let stream = session.stream.clone();
    let input = |name, array| GpuInput::new(name, array, &stream);
    let inputs = (
        input("classes", outputs.classes)?,
        input("boxes", outputs.boxes)?,
        outputs.directions.map(|directions| input("directions", directions)).transpose()?,
    );
    GpuScope::run(&stream, |scope| {
        let directions = inputs.2.as_ref().map(|input| input.tensor(scope)).transpose()?;
        let (classes, boxes) = (inputs.0.tensor(scope)?, inputs.1.tensor(scope)?);
        let outputs =
            AnchorOutputs { classes: &classes, boxes: &boxes, directions: directions.as_ref() };
        py.detach(|| session.decode.run(&outputs)).map_err(|error| raised(&error))
    })?;
    let found = ranked_columns(&session.decode.ranked, &stream, like)?;
    ANCHOR.put(session);
    Ok(found)
}

/// The boxes of the outputs of a StreamPETR head, as [`decode_yolo`].
pub fn decode_streampetr<'py>(
    gpu: u32,
    [logits, boxes]: [&Array<'py>; 2],
    params: &StreamPetrDecode,
    max_num: Option<usize>,
) -> Found<'py> {
    let py = logits.py();
    let shape = shape_of(logits)?;
    let num_classes = params.query.score_thresholds.per_class.len().max(1);
    let num_queries = shape.iter().product::<usize>() / num_classes;
    let capacity = capacity_of(max_num, num_queries)?;
    let head = (params.clone(), capacity);
    let mut session = DecodeSession::take(py, &STREAMPETR, gpu, (&head, vec![shape]), |stream| {
        DecodedStreamPetr::new(stream, params, num_queries, capacity)
    })?;
    let stream = session.stream.clone();
    let inputs =
        [GpuInput::new("logits", logits, &stream)?, GpuInput::new("boxes", boxes, &stream)?];
    GpuScope::run(&stream, |scope| {
        let (logits, boxes) = (inputs[0].tensor(scope)?, inputs[1].tensor(scope)?);
        let outputs = StreamPetrOutputs { logits: &logits, boxes: &boxes };
        py.detach(|| session.decode.run(&outputs)).map_err(|error| raised(&error))
    })?;
    let found = ranked_columns(&session.decode.ranked, &stream, logits)?;
    let num = session.decode.ranked.num();
    let velocities = empty_like(logits, &[num, 2], "float32")?;
    let mut velocities_out = GpuInput::new("velocities", &velocities, &stream)?;
    GpuScope::run(&stream, |scope| {
        let queued = session.decode.enqueue_velocities(velocities_out.output::<f32, f32>(scope)?);
        queued.map_err(|error| raised(&error))?;
        py.detach(|| stream.synchronize()).map_err(|error| raised(&error))
    })?;
    found.set_item("velocities", velocities)?;
    STREAMPETR.put(session);
    Ok(found)
}

/// Candidates on the device, best first: a dict of columns.
fn ranked_columns<'py, B>(ranked: &Ranked<B>, stream: &Stream, like: &Array<'py>) -> Found<'py>
where
    B: Columns + Copy + Suppressible + Sync,
    Candidate<B>: Plain,
{
    let py = like.py();
    let num = ranked.num();
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
        results.push(GpuInput::new(name, &array, stream)?);
        found.set_item(name, array)?;
    }
    let [boxes, scores, classes, rows] = &mut results[..] else { return Ok(found) };
    GpuScope::run(stream, |scope| {
        let columns = SurvivorColumns {
            boxes: boxes.output::<f32, f32>(scope)?,
            scores: scores.output::<f32, f32>(scope)?,
            ids: SurvivorIds::I64 {
                classes: classes.output::<i64, u64>(scope)?,
                sources: rows.output::<i64, u64>(scope)?,
            },
        };
        ranked.enqueue_columns(columns).map_err(|error| raised(&error))?;
        py.detach(|| stream.synchronize()).map_err(|error| raised(&error))
    })?;
    Ok(found)
}

/// The boxes of the queries of a view decoder: pairs of a query and a class are ranked on the
/// GPU, the boxes of the few that are kept are computed on the CPU and copied.
pub fn decode_query<'py>(
    gpu: u32,
    [logits, boxes]: [&Array<'py>; 2],
    quality: Option<&Array<'py>>,
    params: &QueryDecode,
    [num_queries, max_num]: [usize; 2],
) -> Found<'py> {
    let py = logits.py();
    let num_classes = params.score_thresholds.per_class.len();
    let shape = vec![num_queries, num_classes];
    let head = (params.clone(), max_num);
    let mut session = DecodeSession::take(py, &QUERY, gpu, (&head, vec![shape]), |stream| {
        DecodeQuery::new(stream, [num_queries, num_classes], params, max_num)
    })?;
    let stream = session.stream.clone();
    let input = |name, array| GpuInput::new(name, array, &stream);
    let inputs = (input("logits", logits)?, input("boxes", boxes)?);
    let quality = quality.map(|quality| input("quality", quality)).transpose()?;
    if *inputs.1.shape() != [num_queries, 11] {
        return Err(inputs.1.refuse(&format!("[{num_queries}, 11] is required")));
    }
    if let Some(quality) = quality.as_ref().filter(|of| *of.shape() != [num_queries, 2]) {
        return Err(quality.refuse(&format!("[{num_queries}, 2] is required")));
    }
    let mut candidates: Candidates<Object3d> = Candidates::with_capacity(max_num);
    GpuScope::run(&stream, |scope| {
        let queries = DeviceQueries {
            logits: inputs.0.slice::<f32, f32>(scope)?,
            boxes: inputs.1.slice::<f32, f32>(scope)?,
            quality: match &quality {
                Some(quality) => quality.slice::<f32, f32>(scope)?,
                None => In::empty(),
            },
        };
        py.detach(|| {
            session.decode.enqueue(&queries)?;
            session.decode.read(quality.is_some(), &mut candidates)
        })
        .map_err(|error| raised(&error))
    })?;
    candidates.finish(usize::MAX);
    let found = space_columns_by(py, &candidates, [true, false], |column, shape| {
        column.on_gpu(shape, (logits, &stream))
    })?;
    QUERY.put(session);
    Ok(found)
}
