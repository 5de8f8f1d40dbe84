//! Scenes and the reference implementation for the tests of all suppression ops.

use proptest::prelude::*;

use super::greedy::Suppressors;
use det_post_types::{
    Box2d, Box3d, Candidate, ClassMode, Kept, Object3d, RotatedBox2d, total_order,
};

/// The number of kinds of scenes.
pub(crate) const NUM_KINDS: usize = 9;

struct Random(u64);

impl Random {
    fn in_range(&mut self, low: f32, high: f32) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        low + (high - low) * ((self.0 >> 40) as f32 / (1 << 24) as f32)
    }

    fn one_of(&mut self, values: &[f32]) -> f32 {
        values[self.in_range(0.0, values.len() as f32) as usize % values.len()]
    }
}

/// `num` rotated boxes; sources are a permutation that is not the positions.
pub(crate) fn scene(kind: usize, num: usize, seed: u64) -> Vec<Candidate<RotatedBox2d>> {
    let mut random = Random(seed ^ 0x5dee_ce66_d1ce_4e5b);
    let r = &mut random;
    (0..num as u32)
        .map(|position| {
            let [cx, cy, width, height] = match kind % NUM_KINDS {
                // Anywhere.
                0 => [
                    r.in_range(0.0, 100.0),
                    r.in_range(0.0, 100.0),
                    r.in_range(1.0, 20.0),
                    r.in_range(1.0, 20.0),
                ],
                // Around three objects.
                1 => {
                    let at = (position % 3) as f32;
                    [
                        30.0 * at + r.in_range(-2.0, 2.0),
                        11.0 * at + r.in_range(-2.0, 2.0),
                        r.in_range(9.0, 14.0),
                        r.in_range(4.0, 7.0),
                    ]
                }
                // On a lattice: touching, equal and exactly half-overlapping.
                2 => [
                    r.in_range(0.0, 6.0).floor(),
                    r.in_range(0.0, 6.0).floor(),
                    r.one_of(&[1.0, 2.0, 4.0]),
                    r.one_of(&[1.0, 2.0, 4.0]),
                ],
                // All the same.
                3 => [7.0, -3.0, 5.0, 2.0],
                // From tiny to huge.
                4 => [
                    r.in_range(-1000.0, 1000.0),
                    r.in_range(-1000.0, 1000.0),
                    r.in_range(-7.0, 8.0).exp(),
                    r.in_range(-7.0, 8.0).exp(),
                ],
                // Each over each.
                5 => [
                    r.in_range(-9.0, 9.0),
                    r.in_range(-9.0, 9.0),
                    r.in_range(30.0, 70.0),
                    r.in_range(30.0, 70.0),
                ],
                // Broken and extreme.
                6 => {
                    let wild =
                        [0.0, -2.0, 3.0, f32::NAN, f32::INFINITY, 1e30, 1e-30, f32::MAX, 4.0];
                    [r.one_of(&wild), r.one_of(&wild), r.one_of(&wild), r.one_of(&wild)]
                }
                // Far from the origin, where coordinates are coarse.
                7 => [
                    1e7 + r.in_range(0.0, 60.0),
                    -2e7 + r.in_range(0.0, 60.0),
                    r.in_range(1.0, 20.0),
                    r.in_range(1.0, 20.0),
                ],
                // Long and thin.
                _ => [
                    r.in_range(0.0, 30.0),
                    r.in_range(0.0, 30.0),
                    r.in_range(10.0, 40.0),
                    r.in_range(0.05, 0.5),
                ],
            };
            let has_ties = kind.is_multiple_of(2);
            let score = match r.in_range(0.0, 1.0) {
                score if has_ties => (score * 5.0).floor() / 5.0,
                score => score,
            };
            Candidate {
                bbox: RotatedBox2d { cx, cy, width, height, angle_rad: r.in_range(-7.0, 7.0) },
                score: if kind % NUM_KINDS == 6 && position % 5 == 4 { f32::NAN } else { score },
                class: r.in_range(0.0, 3.0) as u32,
                source: position.wrapping_mul(0x9e37_79b1),
            }
        })
        .collect()
}

/// The scene with axis-aligned boxes.
pub(crate) fn scene_2d(kind: usize, num: usize, seed: u64) -> Vec<Candidate<Box2d>> {
    let flat = |b: RotatedBox2d| Box2d::from_center(b.cx, b.cy, b.width, b.height);
    scene(kind, num, seed).into_iter().map(|c| with_box(&c, flat(c.bbox))).collect()
}

/// The scene as objects at different heights.
pub(crate) fn scene_3d(kind: usize, num: usize, seed: u64) -> Vec<Candidate<Object3d>> {
    let object = |b: RotatedBox2d, class: u32| Object3d {
        bbox: Box3d {
            center: [b.cx, b.cy, b.angle_rad * 0.2],
            length_m: b.width,
            width_m: b.height,
            height_m: 1.0 + class as f32,
            yaw_rad: b.angle_rad,
        },
        ..Object3d::default()
    };
    scene(kind, num, seed).into_iter().map(|c| with_box(&c, object(c.bbox, c.class))).collect()
}

fn with_box<A, B>(candidate: &Candidate<A>, bbox: B) -> Candidate<B> {
    let Candidate { score, class, source, .. } = *candidate;
    Candidate { bbox, score, class, source }
}

/// One candidate.
pub(crate) fn candidate<B>(bbox: B, score: f32, class: u32, source: u32) -> Candidate<B> {
    Candidate { bbox, score, class, source }
}

/// A class mode of every kind.
pub(crate) fn class_modes() -> [ClassMode; 3] {
    [ClassMode::Aware, ClassMode::Agnostic, ClassMode::Groups(vec![4, 9, 4])]
}

/// Textbook suppression: every pair, in the total order.
pub(crate) fn greedy<B>(
    candidates: &[Candidate<B>],
    class_mode: &ClassMode,
    suppressors: Suppressors,
    is_eligible: impl Fn(&Candidate<B>) -> bool,
    suppresses: impl Fn(&Candidate<B>, &Candidate<B>) -> bool,
) -> Vec<u32> {
    let mut order: Vec<u32> = (0..candidates.len() as u32)
        .filter(|&i| !candidates[i as usize].score.is_nan() && is_eligible(&candidates[i as usize]))
        .collect();
    order.sort_by(|&a, &b| total_order(&candidates[a as usize], &candidates[b as usize]));
    let mut kept: Vec<u32> = Vec::new();
    for (rank, &index) in order.iter().enumerate() {
        let better = if suppressors == Suppressors::All { &order[..rank] } else { &kept[..] };
        let is_suppressed = better.iter().any(|&better| {
            let (better, candidate) = (&candidates[better as usize], &candidates[index as usize]);
            class_mode.group(better.class) == class_mode.group(candidate.class)
                && suppresses(better, candidate)
        });
        if !is_suppressed {
            kept.push(index);
        }
    }
    kept
}

/// The positions kept; scores must be those of the candidates.
pub(crate) fn indices<B>(candidates: &[Candidate<B>], keep: &[Kept]) -> Vec<u32> {
    for kept in keep {
        assert_eq!(kept.score.to_bits(), candidates[kept.index as usize].score.to_bits());
    }
    keep.iter().map(|kept| kept.index).collect()
}

/// A strategy of scenes: kind, number of boxes, seed.
pub(crate) fn scenes() -> impl Strategy<Value = (usize, usize, u64)> {
    (0..NUM_KINDS, prop_oneof![0..20_usize, 20..200_usize], any::<u64>())
}

/// IoU as in mmcv, with this crate's convention for empty boxes.
pub(crate) fn iou_as_mmcv(a: &Box2d, b: &Box2d, offset: f32) -> f32 {
    let area = |r: &Box2d| {
        let (width, height) = (r.x2 - r.x1 + offset, r.y2 - r.y1 + offset);
        if width > 0.0 && height > 0.0 { width * height } else { 0.0 }
    };
    let width = f32::max(0.0, f32::min(a.x2, b.x2) - f32::max(a.x1, b.x1) + offset);
    let height = f32::max(0.0, f32::min(a.y2, b.y2) - f32::max(a.y1, b.y1) + offset);
    let inter = width * height;
    let union = area(a) + area(b) - inter;
    if union > 1e-30 { inter / union } else { 0.0 }
}
