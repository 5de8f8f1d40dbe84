use proptest::prelude::*;

use super::*;
use crate::nms::scenes::{candidate, indices, scene, scenes};
use det_post_types::{Box2d, RotatedBox2d, total_order};

#[test]
fn all_eligible_candidates_are_kept_in_the_total_order() {
    let mut workspace = Workspace::default();
    let mut keep = vec![Kept::default(); 3];
    let candidates = [
        candidate(Box2d::new(0.0, 0.0, 1.0, 1.0), 0.2, 0, 0),
        candidate(Box2d::new(0.0, 0.0, 1.0, 1.0), 0.9, 0, 1),
        candidate(Box2d::new(0.0, 0.0, 1.0, 1.0), f32::NAN, 0, 2),
        candidate(Box2d::new(0.0, f32::NAN, 1.0, 1.0), 0.8, 0, 3),
    ];
    nms_none(&candidates, Box2d::is_finite, &mut workspace, &mut keep).unwrap();
    assert_eq!(indices(&candidates, &keep), [1, 0]);
    nms_none(&[], Box2d::is_finite, &mut workspace, &mut keep).unwrap();
    assert!(keep.is_empty());
}

proptest! {
    #[test]
    fn the_order_is_total((kind, num, seed) in scenes()) {
        let candidates = scene(kind, num, seed);
        let mut keep = Vec::new();
        nms_none(&candidates, RotatedBox2d::is_finite, &mut Workspace::default(), &mut keep).unwrap();
        let mut expected: Vec<u32> = (0..num as u32).collect();
        expected.retain(|&i| {
            let candidate = &candidates[i as usize];
            !candidate.score.is_nan() && candidate.bbox.is_finite()
        });
        expected.sort_by(|&a, &b| total_order(&candidates[a as usize], &candidates[b as usize]));
        prop_assert_eq!(indices(&candidates, &keep), expected);
    }
}
