//! Queries: heads of view decoders.

use det_post_ops::decode::query::{Queries, Workspace, decode_query as decode_queries};
use det_post_ops::decode::streampetr::{StreamPetrOutputs, decode_streampetr as decode_stream};
use det_post_types::{PointRange, QueryBox, QueryDecode, StreamPetrDecode};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::{
    Array, Found, Scores, capacity_of, decoded, size_order_of, space_columns, thresholds, yaw_of,
};
use crate::array::{Input, gpu_of};
use crate::gpu;

/// How queries become boxes.
fn query_decode(
    [size_order, yaw]: [&str; 2],
    scores: Scores,
    distance_limits: Vec<f32>,
    yaw_norm_thresholds: Vec<f32>,
    center_range: Option<[f32; 6]>,
    num_classes: usize,
) -> PyResult<QueryDecode> {
    Ok(QueryDecode {
        size_order: size_order_of(size_order)?,
        yaw: yaw_of(yaw)?,
        score_thresholds: thresholds(scores, distance_limits, num_classes)?,
        yaw_norm_thresholds,
        center_range: center_range.map(PointRange::from_bounds),
    })
}

/// Decodes the queries of a view decoder (DETR3D, Sparse4D).
///
/// logits: float32 [Q, classes]; boxes: float32 [Q, 11], x, y, z, logarithms of three extents, sine
/// and cosine of the yaw, velocity; quality: float32 [Q, 2], logits of centreness and yawness.
/// Every pair of a query and a class that passes is a result; the best max_num are kept, 300 by
/// default. Other arguments and the result as decode_center, with velocities; rows are queries.
#[pyfunction]
#[pyo3(signature = (logits, boxes, quality=None, *, score_threshold=Scores::One(0.1), distance_limits=vec![], size_order="width_length_height", yaw="counter_clockwise", yaw_norm_thresholds=vec![], center_range=None, max_num=300))]
#[expect(clippy::too_many_arguments, reason = "options by name")]
pub fn decode_query<'py>(
    logits: &Array<'py>,
    boxes: &Array<'py>,
    quality: Option<&Array<'py>>,
    score_threshold: Scores,
    distance_limits: Vec<f32>,
    size_order: &str,
    yaw: &str,
    yaw_norm_thresholds: Vec<f32>,
    center_range: Option<[f32; 6]>,
    max_num: usize,
) -> Found<'py> {
    let params = |num_classes| {
        query_decode(
            [size_order, yaw],
            score_threshold,
            distance_limits,
            yaw_norm_thresholds,
            center_range,
            num_classes,
        )
    };
    if let Some(gpu) = gpu_of("logits", logits)? {
        let shape: Vec<usize> = logits.getattr("shape")?.extract()?;
        let [num_queries, num_classes] = shape[..] else {
            let message = format!("logits is {shape:?}; [Q, classes] is required");
            return Err(PyValueError::new_err(message));
        };
        let max_num = capacity_of(Some(max_num), num_queries.saturating_mul(num_classes))?;
        let (params, arrays) = (params(num_classes)?, [logits, boxes]);
        return gpu::decode_query(gpu, arrays, quality, &params, [num_queries, max_num]);
    }
    let logit_input = Input::new("logits", logits)?;
    let &[num_queries, num_classes] = logit_input.shape() else {
        return Err(logit_input.refuse(&"[Q, classes] is required"));
    };
    let max_num = capacity_of(Some(max_num), num_queries.saturating_mul(num_classes))?;
    let params = params(num_classes)?;
    let box_input = Input::new("boxes", boxes)?;
    let quality_input = quality.map(|quality| Input::new("quality", quality)).transpose()?;
    let rows: &[QueryBox] = box_input.rows()?;
    let queries = Queries {
        logits: logit_input.values()?,
        boxes: rows,
        quality: quality_input.as_ref().map(Input::rows).transpose()?,
    };
    let found = decoded(logits.py(), max_num, |candidates| {
        decode_queries(&queries, &params, &mut Workspace::new(max_num), candidates)
    })?;
    space_columns(&found, [true, false], logits)
}

/// Decodes the outputs of a StreamPETR head.
///
/// logits: [.., classes, K] or, with channels_last, [.., K, classes]; boxes: ten numbers of each
/// query likewise; float32 or float16. The best class of each query is its result. Other arguments
/// and the result as decode_center, with velocities; rows are queries.
#[pyfunction]
#[pyo3(signature = (logits, boxes, *, channels_last=true, score_threshold=Scores::One(0.1), distance_limits=vec![], size_order="width_length_height", yaw="counter_clockwise", yaw_norm_thresholds=vec![], center_range=None, max_num=None))]
#[expect(clippy::too_many_arguments, reason = "options by name")]
pub fn decode_streampetr<'py>(
    logits: &Array<'py>,
    boxes: &Array<'py>,
    channels_last: bool,
    score_threshold: Scores,
    distance_limits: Vec<f32>,
    size_order: &str,
    yaw: &str,
    yaw_norm_thresholds: Vec<f32>,
    center_range: Option<[f32; 6]>,
    max_num: Option<usize>,
) -> Found<'py> {
    let params = |shape: &[usize]| {
        let num_classes = match *shape {
            [.., channels, _] if !channels_last => channels,
            [.., _, channels] => channels,
            _ => {
                let message = format!("logits is {shape:?}; two dimensions are required");
                return Err(PyValueError::new_err(message));
            }
        };
        let query = query_decode(
            [size_order, yaw],
            score_threshold,
            distance_limits,
            yaw_norm_thresholds,
            center_range,
            num_classes,
        )?;
        Ok(StreamPetrDecode { channels_last, query })
    };
    if let Some(gpu) = gpu_of("logits", logits)? {
        let shape: Vec<usize> = logits.getattr("shape")?.extract()?;
        return gpu::decode_streampetr(gpu, [logits, boxes], &params(&shape)?, max_num);
    }
    let inputs = [Input::new("logits", logits)?, Input::new("boxes", boxes)?];
    let params = params(inputs[0].shape())?;
    let outputs = StreamPetrOutputs { logits: inputs[0].tensor()?, boxes: inputs[1].tensor()? };
    let capacity = capacity_of(max_num, outputs.boxes.values().len() / 10)?;
    let found =
        decoded(logits.py(), capacity, |candidates| decode_stream(&outputs, &params, candidates))?;
    space_columns(&found, [true, false], logits)
}
