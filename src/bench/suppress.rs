//! Suppression of boxes in images and in space, unsorted in. On a GPU the
//! survivors are in host memory after the wait.

use super::case::{Bar, Case, wall};
use super::inputs::{Spread, boxes, objects};
use super::measure::Bench;
use det_post_ops::device::Device;
use det_post_ops::nms::{Workspace, suppress_2d, suppress_stages_3d};
use det_post_types::{Box2d, Box3d, Candidate, ClassMode, Nms2d, Nms3d, Object3d, Result};

/// Numbers of boxes in images, uniform and in clusters; soft suppression, which is quadratic.
const IN_IMAGES: [usize; 2] = [1000, 5000];
const IN_IMAGES_SOFT: [usize; 2] = [300, 1000];

/// Numbers of objects in space.
const IN_SPACE: [usize; 3] = [500, 1000, 2000];

/// Cases with more boxes than others of their kind have.
const LARGE: [(&str, usize); 2] = [("nms_iou", 20_000), ("nms_circle", 10_000)];

/// Numbers of objects for two suppressions in a row.
const IN_TWO_STAGES: [usize; 2] = [1000, 2000];

/// Bars by case.
const BARS: [(&str, usize, Option<Bar>); 6] = [
    ("nms_iou", 1000, wall(Some(155.0), 15.0)),
    ("nms_iou", 5000, wall(Some(737.0), 35.0)),
    ("nms_iou", 20_000, wall(Some(5464.0), 120.0)),
    ("nms_circle", 500, wall(Some(158.0), 12.0)),
    ("nms_circle", 2000, wall(Some(551.0), 16.0)),
    ("nms_circle", 10_000, wall(Some(6060.0), 40.0)),
];

fn bar(kind: &str, num: usize) -> Option<Bar> {
    BARS.iter().find(|(of, with, _)| (*of, *with) == (kind, num)).and_then(|(_, _, bar)| *bar)
}

/// The numbers of boxes for a kind.
fn numbers<'a>(kind: &'a str, numbers: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let large = LARGE.iter().filter(move |(of, _)| *of == kind).map(|(_, num)| *num);
    numbers.iter().copied().chain(large)
}

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    let mode = ClassMode::Agnostic;
    for (kind, nms) in Nms2d::examples(&mode) {
        let sizes = match &nms {
            // Nothing to compare, and rotated boxes, whose kind has no peer.
            Nms2d::None | Nms2d::Rotated(_) => continue,
            Nms2d::Soft(_) => IN_IMAGES_SOFT,
            _ => IN_IMAGES,
        };
        for num in numbers(kind, &sizes) {
            for spread in [Spread::Uniform, Spread::Clusters] {
                let name = format!("{kind} {num} {}", spread.name());
                if bench.wants(&name) {
                    let case = Case::new(name).with_bar(bar(kind, num));
                    in_images(bench, case, device, &nms, &boxes(num, spread))?;
                }
            }
        }
    }
    let in_space_kinds = Nms3d::examples(&mode);
    for num in IN_TWO_STAGES {
        let kinds = ["nms_circle", "nms_bev_fast"];
        let name = format!("{} {num}", kinds.join(" + "));
        if bench.wants(&name) {
            let of = |kind| in_space_kinds.iter().find(|(name, _)| *name == kind);
            let stages: Vec<Nms3d> =
                kinds.into_iter().filter_map(of).map(|(_, nms)| nms.clone()).collect();
            in_space(bench, Case::new(name), device, &stages, &objects(num))?;
        }
    }
    for (kind, nms) in in_space_kinds.iter().filter(|(_, nms)| *nms != Nms3d::None) {
        for num in numbers(kind, &IN_SPACE) {
            let name = format!("{kind} {num}");
            if bench.wants(&name) {
                let case = Case::new(name).with_bar(bar(kind, num));
                in_space(bench, case, device, std::slice::from_ref(nms), &objects(num))?;
            }
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
