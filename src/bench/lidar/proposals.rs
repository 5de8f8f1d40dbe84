//! From the proposals of a network to detections, 500 of BEVFusion.

use super::TOP_K;
use crate::bench::case::Case;
use crate::bench::inputs::Random;
use crate::bench::measure::Bench;
use det_post_ops::decode::proposals::{ProposalOutputs, decode_proposals};
use det_post_ops::decode::select::select;
use det_post_ops::device::Device;
use det_post_ops::nms::{Workspace, suppress_stages_3d};
use det_post_types::{
    Candidates, CircleThreshold, ClassMode, Nms3d, NmsBevFast, NmsCircle, ProposalDecode,
    ProposalLayout, Result, ScoreThresholds, Tensor,
};

const NUM_PROPOSALS: usize = 500;
const NUM_CLASSES: usize = 5;
const ALL: &str = "decode_proposals + select + nms_circle + nms_bev_fast, 500 proposals";

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    if !bench.wants(ALL) {
        return Ok(());
    }
    match device {
        Device::Cpu => {
            let (outputs, params, stages) = (outputs(), params(), stages());
            let views = outputs.each_ref().map(Tensor::view);
            let views = ProposalOutputs {
                boxes: views[0],
                scores: views[1],
                directions_or_labels: views[2],
            };
            let mut candidates = Candidates::with_capacity(TOP_K);
            let (mut suppression, mut keep) = (Workspace::with_capacity(TOP_K), Vec::new());
            bench.host(Case::new(ALL), || {
                decode_proposals(&views, &params, &mut candidates)?;
                select(&mut candidates, TOP_K);
                suppress_stages_3d(candidates.as_slice(), &stages, &mut suppression, &mut keep)
            })
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => cuda::all(bench, &device.stream()?),
    }
}

/// Boxes, scores and labels; half of the scores pass.
fn outputs() -> [Tensor; 3] {
    let mut random = Random::new(11);
    let ranges = [
        (0.0, 180.0),
        (0.0, 180.0),
        (-2.0, 1.0),
        (0.5, 2.0),
        (0.3, 1.0),
        (0.3, 1.0),
        (-1.0, 1.0),
        (-1.0, 1.0),
        (-9.0, 9.0),
        (-9.0, 9.0),
    ];
    let mut column =
        |(low, high)| -> Vec<f32> { (0..NUM_PROPOSALS).map(|_| random.range(low, high)).collect() };
    let boxes: Vec<f32> = ranges.into_iter().flat_map(&mut column).collect();
    let scores = column((0.0, 0.7));
    let labels = (0..NUM_PROPOSALS).map(|proposal| (proposal % NUM_CLASSES) as f32).collect();
    let of = |shape: &[usize], values| Tensor::F32 { shape: shape.to_vec(), values };
    [of(&[10, NUM_PROPOSALS], boxes), of(&[NUM_PROPOSALS], scores), of(&[NUM_PROPOSALS], labels)]
}

fn params() -> ProposalDecode {
    ProposalDecode {
        layout: ProposalLayout::BevFusion,
        origin_m: [-122.4; 2],
        cell_size_m: [1.36; 2],
        score_thresholds: ScoreThresholds::uniform(0.35, NUM_CLASSES),
        yaw_norm_thresholds: Vec::new(),
    }
}

fn stages() -> [Nms3d; 2] {
    let class_mode = ClassMode::Agnostic;
    [
        Nms3d::Circle(NmsCircle {
            thresholds: vec![0.5],
            reading: CircleThreshold::Radius,
            class_mode: class_mode.clone(),
        }),
        Nms3d::BevFast(NmsBevFast {
            iou_thresholds: vec![0.1],
            search_distance_m: 10.0,
            unlimited_pairs: Vec::new(),
            forbidden_pairs: Vec::new(),
            class_mode,
        }),
    ]
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::{ALL, NUM_CLASSES, NUM_PROPOSALS, outputs, params, stages};
    use crate::bench::case::Case;
    use crate::bench::lidar::TOP_K;
    use crate::bench::measure::Bench;
    use det_post_ops::decode::proposals::ProposalOutputs;
    use det_post_ops::decode::proposals::cuda::Workspace as Decoder;
    use det_post_ops::decode::select::Limits;
    use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, Stream};
    use det_post_ops::nms::cuda::{Capacity, Stages3d};
    use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
    use det_post_types::Result;

    pub(super) fn all(bench: &mut Bench<'_>, stream: &Stream) -> Result<()> {
        let mut on_device = Vec::new();
        for tensor in outputs() {
            let mut uploaded = DeviceTensor::zeros(stream, tensor.element(), tensor.shape())?;
            uploaded.write(&tensor.view())?;
            on_device.push(uploaded);
        }
        let [boxes, scores, labels] = &on_device[..] else { return Ok(()) };
        let outputs = ProposalOutputs { boxes, scores, directions_or_labels: labels };
        let mut num_voxels = DeviceBuffer::zeros(stream, 1)?;
        num_voxels.write(&[1])?;
        let params = params();
        let mut decoder = Decoder::new(stream, &params, NUM_PROPOSALS, TOP_K)?;
        decoder.set(&params, Limits { candidate_capacity: TOP_K, pre_nms_top_k: TOP_K })?;
        let mut candidates = DeviceCandidates::with_capacity(stream, TOP_K)?;
        let capacity = Capacity { candidates: TOP_K, classes: NUM_CLASSES };
        let mut suppression = Stages3d::new(stream, &stages(), capacity)?;
        suppression.set(&stages())?;
        let mut counters = DeviceCounters::new(stream)?;
        bench.recorded(Case::new(ALL), stream, || {
            decoder.enqueue(&outputs, &num_voxels, &mut candidates, &mut counters)?;
            let (_, places) = decoder.motions();
            suppression.enqueue(&candidates, Some(places)).map(drop)
        })
    }
}
