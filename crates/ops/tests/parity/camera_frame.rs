//! What follows a camera's network, as one recorded graph: decoded,
//! suppressed, gathered, equal to the ops of the CPU one after another.

use det_post_ops::decode::gather::{self, gather_2d};
use det_post_ops::decode::select::select;
use det_post_ops::decode::yolo::cuda::Selection;
use det_post_ops::decode::yolo::decode_yolo;
use det_post_ops::device::cuda::{CudaDevice, Graph};
use det_post_ops::nms::Workspace;
use det_post_ops::nms::cuda::{Capacity, Suppression2d};
use det_post_ops::nms::iou::nms_iou;
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{
    Candidates, ClassMode, Count, Detection2d, FrameReport, Letterbox, Nms2d, NmsIou, Placement,
    Size, YoloLayout,
};

use det_post_testing::heads::{self, Filling, Head};
use det_post_testing::random::Random;

const SOURCE: Size = Size::new(1242, 375);
const MAX_DETECTIONS: usize = 100;

fn params() -> NmsIou {
    NmsIou {
        iou_threshold: 0.45,
        offset: 0,
        class_mode: ClassMode::Aware,
        score_threshold: None,
        max_num: usize::MAX,
    }
}

fn reference(
    head: &Head,
    capacity: usize,
    selection: &Selection<'_>,
) -> (Vec<Detection2d>, [usize; 5]) {
    let mut candidates = Candidates::with_capacity(capacity);
    let (outputs, threshold) = ([head.tensor.view()], selection.score_threshold);
    let (layout, classes) = (&head.layout, head.num_classes);
    decode_yolo(&outputs, layout, head.network, classes, threshold, &mut candidates).unwrap();
    candidates.finish(usize::MAX);
    if !selection.class_filter.is_empty() {
        candidates.retain(|c| selection.class_filter.contains(&c.class));
    }
    let cut = select(&mut candidates, selection.pre_nms_top_k);
    let (mut keep, mut out) = (Vec::new(), Vec::new());
    nms_iou(candidates.as_slice(), &params(), &mut Workspace::default(), &mut keep).unwrap();
    let letterbox = Letterbox::new(SOURCE, head.network, Placement::Center);
    let back = letterbox.source_from_network();
    let over = gather_2d(candidates.as_slice(), &keep, &back, SOURCE, MAX_DETECTIONS, &mut out);
    (
        out,
        [
            candidates.as_slice().len(),
            cut.num_over_capacity,
            cut.num_over_top_k,
            keep.len(),
            over.num_over_limit,
        ],
    )
}

/// One recording, replayed for every selection.
fn check(device: &CudaDevice, head: &Head, capacity: usize, selections: &[Selection<'_>]) {
    let stream = device.stream().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    let mut decode = head.workspace::<det_post_types::Box2d>(&stream);
    let mut candidates = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
    let room = Capacity { candidates: capacity, classes: 1 };
    let mut suppress = Suppression2d::new(&stream, &Nms2d::Iou(params()), room).unwrap();
    let mut gather = <gather::cuda::Workspace>::new(&stream, MAX_DETECTIONS).unwrap();
    let letterbox = Letterbox::new(SOURCE, head.network, Placement::Center);
    gather.set_placement(&letterbox.source_from_network(), SOURCE).unwrap();
    let tensor = head.upload(&stream);
    let graph = Graph::capture(&stream, || {
        decode.enqueue(&[&tensor], &mut candidates, &mut counters)?;
        suppress.enqueue(&candidates)?;
        gather.enqueue(&candidates, suppress.kept(), &mut counters)
    })
    .unwrap();
    let mut out = Vec::with_capacity(MAX_DETECTIONS);
    for selection in selections {
        decode.set(&Selection { candidate_capacity: capacity, ..*selection }).unwrap();
        let (expected, expected_counts) = reference(head, capacity, selection);
        for _ in 0..3 {
            graph.enqueue().unwrap();
            let gathered = gather.read(&mut out).unwrap();
            let mut report = FrameReport::new();
            counters.add_to(&mut report);
            let counts = [
                candidates.num.read().unwrap()[0].into(),
                report.count(Count::CandidatesOverCapacity),
                report.count(Count::CandidatesOverTopK),
                gathered.suppressed.num_kept.into(),
                report.count(Count::DetectionsOverLimit),
            ];
            let context = format!("{}, capacity {capacity}, {selection:?}", head.describe());
            assert_eq!(counts.map(|n: u64| n as usize), expected_counts, "{context}");
            assert!(out == expected, "{context}: {} and {}", out.len(), expected.len());
        }
    }
}

#[test]
fn the_frame_is_that_of_the_cpu() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(50);
    let filter: &[u32] = &[1, 2, 5];
    let selection = |score_threshold, class_filter, pre_nms_top_k| Selection {
        score_threshold,
        class_filter,
        candidate_capacity: usize::MAX,
        pre_nms_top_k,
    };
    let selections = [
        selection(0.25, &[][..], usize::MAX),
        selection(0.6, &[], usize::MAX),
        selection(2.0, &[], usize::MAX),
        selection(0.25, filter, 200),
        selection(0.25, &[], 50),
        selection(0.25, &[], usize::MAX),
    ];
    for layout in [YoloLayout::V5, YoloLayout::V8] {
        for half in [false, true] {
            for filling in [
                Filling { passing: 0.02, ..Filling::default() },
                Filling { passing: 0.3, num_scores: 3, broken: 0.01 },
                Filling::default(),
            ] {
                let mut head = heads::head(layout.clone(), 6000, 8);
                head.fill(&mut random, filling, half);
                for capacity in [1, 700, 2048, 4000] {
                    check(&device, &head, capacity, &selections);
                }
            }
        }
        let mut head = heads::head(layout, 6000, 8);
        head.raise_row(4321, 5, 0.9);
        check(&device, &head, 500, &selections);
    }
}
