//! Suppression of boxes in images and in space, unsorted in. On a GPU the
//! survivors are in host memory after the wait.

use super::case::{Bar, Case, wall};
use super::inputs::{Spread, boxes, objects};
use super::measure::Bench;
use det_post_ops::device::Device;
use det_post_ops::nms::{Workspace, suppress_2d, suppress_stages_3d};
use det_post_types::{
    Box2d, Box3d, Candidate, CircleThreshold, ClassMode, Nms2d, Nms3d, NmsBev, NmsBevFast,
    NmsCircle, NmsFast, NmsIou, NmsIou3d, NmsSoft, Object3d, Result, SoftDecay,
};

/// Kind, number of boxes, bar; each uniform and in clusters.
const IN_IMAGES: [(Kind2d, usize, Option<Bar>); 9] = [
    (Kind2d::Iou, 1000, wall(Some(155.0), 15.0)),
    (Kind2d::Iou, 5000, wall(Some(737.0), 35.0)),
    (Kind2d::Iou, 20_000, wall(Some(5464.0), 120.0)),
    (Kind2d::Fast, 1000, None),
    (Kind2d::Fast, 5000, None),
    (Kind2d::SoftLinear, 300, None),
    (Kind2d::SoftLinear, 1000, None),
    (Kind2d::SoftGaussian, 300, None),
    (Kind2d::SoftGaussian, 1000, None),
];

/// Kind, number of objects, bar.
const IN_SPACE: [(Kind3d, usize, Option<Bar>); 11] = [
    (Kind3d::Circle, 500, wall(Some(158.0), 12.0)),
    (Kind3d::Circle, 1000, None),
    (Kind3d::Circle, 2000, wall(Some(551.0), 16.0)),
    (Kind3d::Circle, 10_000, wall(Some(6060.0), 40.0)),
    (Kind3d::Bev, 500, None),
    (Kind3d::Bev, 2000, None),
    (Kind3d::BevFast, 500, None),
    (Kind3d::BevFast, 1000, None),
    (Kind3d::BevFast, 2000, None),
    (Kind3d::Iou3d, 500, None),
    (Kind3d::Iou3d, 2000, None),
];

/// Numbers of objects for two suppressions in a row.
const IN_TWO_STAGES: [usize; 2] = [1000, 2000];

#[derive(Clone, Copy, Debug)]
enum Kind2d {
    Iou,
    Fast,
    SoftLinear,
    SoftGaussian,
}

impl Kind2d {
    fn name(self) -> &'static str {
        match self {
            Self::Iou => "nms_iou",
            Self::Fast => "nms_fast",
            Self::SoftLinear => "nms_soft linear",
            Self::SoftGaussian => "nms_soft gaussian",
        }
    }

    fn settings(self) -> Nms2d {
        let (iou_threshold, class_mode) = (0.5, ClassMode::Agnostic);
        let soft = |decay| {
            let class_mode = ClassMode::Agnostic;
            Nms2d::Soft(NmsSoft { decay, min_score: 0.05, offset: 0, class_mode })
        };
        match self {
            Self::Iou => Nms2d::Iou(NmsIou {
                iou_threshold,
                offset: 0,
                class_mode,
                score_threshold: None,
                max_num: usize::MAX,
            }),
            Self::Fast => Nms2d::Fast(NmsFast { iou_threshold, class_mode }),
            Self::SoftLinear => soft(SoftDecay::Linear { iou_threshold }),
            Self::SoftGaussian => soft(SoftDecay::Gaussian { sigma: 0.5 }),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind3d {
    Circle,
    Bev,
    BevFast,
    Iou3d,
}

impl Kind3d {
    fn name(self) -> &'static str {
        match self {
            Self::Circle => "nms_circle",
            Self::Bev => "nms_bev",
            Self::BevFast => "nms_bev_fast",
            Self::Iou3d => "nms_iou_3d",
        }
    }

    fn settings(self) -> Nms3d {
        let class_mode = ClassMode::Agnostic;
        match self {
            Self::Circle => Nms3d::Circle(NmsCircle {
                thresholds: vec![1.5],
                reading: CircleThreshold::Radius,
                class_mode,
            }),
            Self::Bev => Nms3d::Bev(NmsBev {
                iou_thresholds: vec![0.1],
                search_distance_m: 10.0,
                forbidden_pairs: Vec::new(),
                class_mode,
            }),
            Self::BevFast => Nms3d::BevFast(NmsBevFast {
                iou_thresholds: vec![0.1],
                search_distance_m: 10.0,
                unlimited_pairs: Vec::new(),
                forbidden_pairs: Vec::new(),
                class_mode,
            }),
            Self::Iou3d => Nms3d::Iou3d(NmsIou3d { iou_thresholds: vec![0.1], class_mode }),
        }
    }
}

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    for (kind, num, bar) in IN_IMAGES {
        for spread in [Spread::Uniform, Spread::Clusters] {
            let name = format!("{} {num} {}", kind.name(), spread.name());
            if bench.wants(&name) {
                let case = Case::new(name).with_bar(bar);
                in_images(bench, case, device, &kind.settings(), &boxes(num, spread))?;
            }
        }
    }
    for num in IN_TWO_STAGES {
        let name = format!("nms_circle + nms_bev_fast {num}");
        if bench.wants(&name) {
            let stages = [Kind3d::Circle, Kind3d::BevFast].map(Kind3d::settings);
            in_space(bench, Case::new(name), device, &stages, &objects(num))?;
        }
    }
    for (kind, num, bar) in IN_SPACE {
        let name = format!("{} {num}", kind.name());
        if bench.wants(&name) {
            let case = Case::new(name).with_bar(bar);
            in_space(bench, case, device, &[kind.settings()], &objects(num))?;
        }
    }
    Ok(())
}

fn in_images(
    bench: &mut Bench<'_>,
    case: Case,
    device: &Device,
    nms: &Nms2d,
    candidates: &[Candidate<Box2d>],
) -> Result<()> {
    match device {
        Device::Cpu => {
            let mut keep = Vec::with_capacity(candidates.len());
            let mut workspace = Workspace::with_capacity(candidates.len());
            bench.host(case, || suppress_2d(candidates, nms, &mut workspace, &mut keep))
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            use det_post_ops::nms::cuda::{Capacity, Suppression2d};
            use det_post_ops::shared::DeviceCandidates;

            let stream = &device.stream()?;
            let capacity = Capacity { candidates: candidates.len(), classes: 80 };
            let mut suppression = Suppression2d::new(stream, nms, capacity)?;
            let mut on_device = DeviceCandidates::with_capacity(stream, candidates.len())?;
            on_device.write(candidates)?;
            bench.recorded(case, stream, || suppression.enqueue(&on_device))
        }
    }
}

fn in_space(
    bench: &mut Bench<'_>,
    case: Case,
    device: &Device,
    stages: &[Nms3d],
    candidates: &[Candidate<Box3d>],
) -> Result<()> {
    match device {
        Device::Cpu => {
            let mut keep = Vec::with_capacity(candidates.len());
            let with_object = |c: &Candidate<Box3d>| {
                let bbox = Object3d { bbox: c.bbox, ..Object3d::default() };
                Candidate { bbox, score: c.score, class: c.class, source: c.source }
            };
            let candidates: Vec<_> = candidates.iter().map(with_object).collect();
            let mut workspace = Workspace::with_capacity(candidates.len());
            bench.host(case, || suppress_stages_3d(&candidates, stages, &mut workspace, &mut keep))
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            use det_post_ops::nms::cuda::{Capacity, Stages3d};
            use det_post_ops::shared::DeviceCandidates;

            let stream = &device.stream()?;
            let capacity = Capacity { candidates: candidates.len(), classes: 5 };
            let mut suppression = Stages3d::new(stream, stages, capacity)?;
            let mut on_device = DeviceCandidates::with_capacity(stream, candidates.len())?;
            on_device.write(candidates)?;
            bench.recorded(case, stream, || suppression.enqueue(&on_device, None).map(drop))
        }
    }
}
