use proptest::prelude::*;

use super::greedy::sort_key;
use super::grid::{Extent, Grid, Reach};
use super::scenes::{candidate, indices, scene, scene_2d, scene_3d};
use super::*;
use det_post_types::{ClassMode, NmsIou, NmsRotated, total_order};

fn plain_iou() -> NmsIou {
    NmsIou {
        iou_threshold: 0.5,
        offset: 0,
        class_mode: ClassMode::Aware,
        score_threshold: None,
        max_num: usize::MAX,
    }
}

#[test]
fn keys_sort_as_the_total_order_does() {
    let scores = [1.0, 0.5, 0.5, 0.0, -0.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, 1e-40];
    let mut candidates: Vec<Candidate<()>> = Vec::new();
    for (i, &score) in scores.iter().enumerate() {
        for class in [2, 0, u32::MAX] {
            candidates.push(candidate((), score, class, (i as u32) ^ 5));
        }
    }
    for a in &candidates {
        for b in &candidates {
            let keys = sort_key(a.score, a.class, a.source, 0)
                .cmp(&sort_key(b.score, b.class, b.source, 0));
            assert_eq!(keys, total_order(a, b));
        }
    }
}

#[test]
fn order_in_does_not_matter() {
    let candidates = scene_2d(1, 77, 3);
    let mut workspace = Workspace::default();
    let mut keep = Vec::new();
    let sources = |candidates: &[Candidate<Box2d>], keep: &[Kept]| -> Vec<u32> {
        keep.iter().map(|kept| candidates[kept.index as usize].source).collect()
    };
    nms_iou(&candidates, &plain_iou(), &mut workspace, &mut keep).unwrap();
    let expected = sources(&candidates, &keep);
    let mut sorted = candidates.clone();
    sorted.sort_by(total_order);
    let mut reversed = candidates.clone();
    reversed.reverse();
    for other in [sorted, reversed] {
        nms_iou(&other, &plain_iou(), &mut workspace, &mut keep).unwrap();
        assert_eq!(sources(&other, &keep), expected);
    }
}

#[test]
fn memory_is_allocated_once() {
    let num = 203;
    let boxes = scene_2d(0, num, 1);
    let objects = scene_3d(0, num, 2);
    let mut workspace = Workspace::with_capacity(num);
    let mut keep = Vec::with_capacity(num);
    let sizes = |workspace: &Workspace| {
        let order = &workspace.order;
        (
            [order.keys.capacity(), order.ranked.capacity(), order.extents.capacity()],
            [workspace.boxes.capacity(), workspace.rectangles.capacity()],
            [workspace.solids.capacity(), workspace.scores.capacity()],
            [workspace.lowered_by.capacity(), workspace.queue.capacity()],
            [workspace.lanes.capacity(), order.grid.capacities()[0], order.grid.capacities()[1]],
        )
    };
    let before = sizes(&workspace);
    let soft = det_post_types::NmsSoft {
        decay: det_post_types::SoftDecay::Gaussian { sigma: 0.5 },
        min_score: 0.01,
        offset: 1,
        class_mode: ClassMode::Agnostic,
    };
    let solid =
        det_post_types::NmsIou3d { iou_thresholds: vec![0.1], class_mode: ClassMode::Agnostic };
    suppress_2d(&boxes, &Nms2d::Iou(plain_iou()), &mut workspace, &mut keep).unwrap();
    suppress_2d(&boxes, &Nms2d::Soft(soft), &mut workspace, &mut keep).unwrap();
    suppress_3d(&objects, &Nms3d::Iou3d(solid), &mut workspace, &mut keep).unwrap();
    assert_eq!(sizes(&workspace), before);
    assert_eq!(keep.capacity(), num);
}

#[test]
fn kinds_for_other_boxes_are_refused() {
    let mut workspace = Workspace::default();
    let mut keep = Vec::new();
    let rotated = NmsRotated { iou_threshold: 0.3, class_mode: ClassMode::Agnostic };
    let error =
        suppress_2d(&scene_2d(1, 9, 4), &Nms2d::Rotated(rotated), &mut workspace, &mut keep)
            .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(error.to_string().contains("axis-aligned boxes"), "{error}");
    let error =
        suppress_rotated(&scene(1, 9, 4), &Nms2d::Iou(plain_iou()), &mut workspace, &mut keep)
            .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(error.to_string().contains("rotated boxes"), "{error}");
}

#[test]
fn rotated_boxes_take_the_rotated_kind_or_none() {
    let mut workspace = Workspace::default();
    let (mut keep, mut expected) = (Vec::new(), Vec::new());
    let candidates = scene(1, 90, 4);
    let params = NmsRotated { iou_threshold: 0.3, class_mode: ClassMode::Aware };
    let nms = Nms2d::Rotated(params.clone());
    suppress_rotated(&candidates, &nms, &mut workspace, &mut keep).unwrap();
    nms_rotated(&candidates, &params, &mut workspace, &mut expected).unwrap();
    assert_eq!(indices(&candidates, &keep), indices(&candidates, &expected));
    assert!(keep.len() < candidates.len());
    suppress_rotated(&candidates, &Nms2d::None, &mut workspace, &mut keep).unwrap();
    assert_eq!(keep.len(), candidates.len());
}

proptest! {
    #[test]
    fn the_grid_tests_every_neighbour(
        items in prop::collection::vec(any::<([i16; 2], [u8; 2], i8)>(), 1..60),
        iou_threshold in 0.0_f32..1.0,
    ) {
        let extents: Vec<Extent> = items
            .iter()
            .map(|&([x, y], [w, h], scale)| {
                let scale = f32::from(scale / 3).exp2();
                let [x, y] = [x, y].map(|value| f32::from(value >> 4) * scale);
                Extent::new([x, y], [f32::from(w) * scale, f32::from(h) * scale])
            })
            .collect();
        let mut grid = Grid::default();
        grid.clear(extents.len());
        (0..).zip(&extents).for_each(|(item, extent)| grid.insert(item, 7, extent));
        for reach in [Reach::aligned(iou_threshold), Reach::rotated(iou_threshold)] {
            for query in &extents {
                let mut is_tested = vec![false; extents.len()];
                let found = grid.any(7, query, reach, |item| {
                    is_tested[item as usize] = true;
                    false
                });
                prop_assert!(!found);
                for (&is_tested, extent) in is_tested.iter().zip(&extents) {
                    prop_assert!(is_tested || !query.is_near(extent, reach), "{query:?} misses {extent:?}");
                }
            }
        }
    }
}
