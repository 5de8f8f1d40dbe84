use proptest::prelude::*;

use super::*;
use crate::nms::greedy::Suppressors;
use crate::nms::scenes::{candidate, class_modes, greedy, indices, iou_as_mmcv, scene_2d, scenes};
use det_post_types::ClassMode;

fn params(iou_threshold: f32) -> NmsIou {
    NmsIou {
        iou_threshold,
        offset: 0,
        class_mode: ClassMode::Aware,
        score_threshold: None,
        max_num: usize::MAX,
    }
}

fn run(candidates: &[Candidate<Box2d>], params: &NmsIou) -> Vec<u32> {
    let input = format!("{candidates:?}");
    let mut keep = vec![Kept::default(); 2];
    nms_iou(candidates, params, &mut Workspace::default(), &mut keep).unwrap();
    assert_eq!(format!("{candidates:?}"), input, "the input changed");
    indices(candidates, &keep)
}

/// Squares of two pixels, `step` apart.
fn row(num: u32, step: f32) -> Vec<Candidate<Box2d>> {
    (0..num)
        .map(|i| {
            let x = i as f32 * step;
            candidate(Box2d::new(x, 0.0, x + 2.0, 2.0), 1.0 - i as f32 * 0.01, 0, i)
        })
        .collect()
}

#[test]
fn table() {
    struct Case {
        name: &'static str,
        candidates: Vec<Candidate<Box2d>>,
        iou_threshold: f32,
        kept: Vec<u32>,
    }
    let cases = [
        Case { name: "empty", candidates: vec![], iou_threshold: 0.5, kept: vec![] },
        Case { name: "one", candidates: row(1, 1.0), iou_threshold: 0.5, kept: vec![0] },
        Case {
            name: "all kept: touching edges do not overlap",
            candidates: row(67, 2.0),
            iou_threshold: 0.0,
            kept: (0..67).collect(),
        },
        Case {
            name: "greedy: a suppressed box does not suppress",
            candidates: row(5, 1.0),
            iou_threshold: 0.3,
            kept: vec![0, 2, 4],
        },
        Case {
            name: "equal to the threshold stays",
            candidates: row(2, 1.0),
            iou_threshold: 1.0 / 3.0,
            kept: vec![0, 1],
        },
        Case {
            name: "all but one are suppressed",
            candidates: row(9, 0.0),
            iou_threshold: 0.9,
            kept: vec![0],
        },
        Case {
            name: "a threshold of one keeps identical boxes",
            candidates: row(3, 0.0),
            iou_threshold: 1.0,
            kept: vec![0, 1, 2],
        },
        Case {
            name: "ties: class, then source",
            candidates: vec![
                candidate(Box2d::new(0.0, 0.0, 1.0, 2.0), 0.5, 1, 0),
                candidate(Box2d::new(5.0, 0.0, 6.0, 2.0), 0.5, 0, 9),
                candidate(Box2d::new(5.0, 0.0, 6.0, 2.0), 0.5, 0, 3),
            ],
            iou_threshold: 0.5,
            kept: vec![2, 0],
        },
        Case {
            name: "NaN scores and boxes that are not finite take no part",
            candidates: vec![
                candidate(Box2d::new(0.0, 0.0, 2.0, 2.0), f32::NAN, 0, 0),
                candidate(Box2d::new(0.0, 0.0, f32::INFINITY, 2.0), 0.9, 0, 1),
                candidate(Box2d::new(0.0, f32::NAN, 2.0, 2.0), 0.8, 0, 2),
                candidate(Box2d::new(0.0, 0.0, 2.0, 2.0), 0.1, 0, 3),
            ],
            iou_threshold: 0.5,
            kept: vec![3],
        },
        Case {
            name: "empty boxes stay and suppress nothing",
            candidates: vec![
                candidate(Box2d::new(1.0, 1.0, 1.0, 4.0), 0.9, 0, 0),
                candidate(Box2d::new(1.0, 1.0, 1.0, 4.0), 0.8, 0, 1),
                candidate(Box2d::new(5.0, 5.0, 3.0, 3.0), 0.7, 0, 2),
                candidate(Box2d::new(0.0, 0.0, 9.0, 9.0), 0.6, 0, 3),
            ],
            iou_threshold: 0.0,
            kept: vec![0, 1, 2, 3],
        },
    ];
    for Case { name, candidates, iou_threshold, kept } in cases {
        assert_eq!(run(&candidates, &params(iou_threshold)), kept, "{name}");
    }
}

#[test]
fn score_threshold_is_strict_and_max_num_cuts_the_worst() {
    let candidates: Vec<_> = (0..4)
        .map(|i| {
            let x = 10.0 * i as f32;
            candidate(
                Box2d::new(x, 0.0, x + 5.0, 3.0),
                [0.25, 0.5, 0.75, 1.0][i as usize],
                i % 2,
                i,
            )
        })
        .collect();
    let with = |score_threshold, max_num| NmsIou { score_threshold, max_num, ..params(0.5) };
    assert_eq!(run(&candidates, &with(Some(0.5), usize::MAX)), [3, 2]);
    assert_eq!(run(&candidates, &with(Some(0.49), usize::MAX)), [3, 2, 1]);
    for (max_num, num_kept) in [(0, 0), (3, 3), (4, 4), (5, 4)] {
        assert_eq!(run(&candidates, &with(None, max_num)).len(), num_kept, "{max_num}");
    }
    assert_eq!(run(&candidates, &with(None, 3)), [3, 2, 1]);
}

#[test]
fn offset_counts_whole_pixels() {
    // 3 x 2 pixels each, one column shared: 2 of 10. Without: touching only.
    let candidates = [
        candidate(Box2d::new(0.0, 0.0, 2.0, 1.0), 0.9, 0, 0),
        candidate(Box2d::new(2.0, 0.0, 4.0, 1.0), 0.8, 0, 1),
    ];
    assert_eq!(run(&candidates, &NmsIou { offset: 1, ..params(0.19) }), [0]);
    assert_eq!(run(&candidates, &NmsIou { offset: 1, ..params(0.2) }), [0, 1]);
    assert_eq!(run(&candidates, &params(0.0)), [0, 1]);
}

#[test]
fn wrong_arguments_are_refused() {
    let mut keep = vec![];
    for wrong in [
        params(-0.1),
        params(1.1),
        params(f32::NAN),
        NmsIou { offset: 2, ..params(0.5) },
        NmsIou { score_threshold: Some(f32::NAN), ..params(0.5) },
    ] {
        let error = nms_iou(&[], &wrong, &mut Workspace::default(), &mut keep).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn the_answer_is_the_greedy_one(
        (kind, num, seed) in scenes(),
        iou_threshold in prop_oneof![Just(0.0_f32), Just(0.5), 0.0_f32..1.0],
        offset in 0_u8..2,
        mode in 0_usize..3,
    ) {
        let candidates = scene_2d(kind, num, seed);
        let class_mode = class_modes()[mode].clone();
        let offset_f32 = f32::from(offset);
        let expected = greedy(
            &candidates,
            &class_mode,
            Suppressors::Kept,
            |c| c.bbox.is_finite(),
            |better, c| iou_as_mmcv(&better.bbox, &c.bbox, offset_f32) > iou_threshold,
        );
        let params = NmsIou { offset, class_mode, ..params(iou_threshold) };
        prop_assert_eq!(run(&candidates, &params), expected);
    }
}

#[test]
fn many_boxes_have_the_greedy_answer_too() {
    for (kind, num) in [(0, 1024), (0, 1025), (1, 1500), (2, 1500), (4, 1500), (6, 1500), (7, 1500)]
    {
        let candidates = scene_2d(kind, num, 11);
        let expected = greedy(
            &candidates,
            &ClassMode::Aware,
            Suppressors::Kept,
            |c| c.bbox.is_finite(),
            |better, c| iou_as_mmcv(&better.bbox, &c.bbox, 0.0) > 0.5,
        );
        assert_eq!(run(&candidates, &params(0.5)), expected, "kind {kind}");
    }
}
