//! Overlaps of boxes and points in boxes as arrays: equal on both devices.

use det_post_ops::arrays::overlaps::cuda::Workspace;
use det_post_ops::arrays::overlaps::{
    BoxKind, Measure, Pairing, first_boxes_of_points, num_overlaps, overlaps, points_in_boxes,
};
use det_post_testing::random::Random;

use crate::dense_pair::uploaded;

/// Rows of boxes near each other: corners, or a centre, sizes and an angle; of some a size is 0.
fn boxes(random: &mut Random, kind: BoxKind, num: usize) -> Vec<f32> {
    let mut all = Vec::new();
    for index in 0..num {
        let empty = if index % 7 == 3 { 0.0 } else { 1.0 };
        let [x, y, z] = [0; 3].map(|_| random.range(-8.0, 8.0));
        let [w, h, d] = [0; 3].map(|_| empty * random.range(0.1, 9.0));
        let angle = random.range(-4.0, 4.0);
        match kind {
            BoxKind::Aligned { .. } => all.extend([x, y, x + w, y + h]),
            BoxKind::Rotated => all.extend([x, y, w, h, angle]),
            BoxKind::InSpace => all.extend([x, y, z, w, h, d, angle]),
        }
    }
    all
}

fn assert_same(found: &[f32], expected: &[f32], context: &str) {
    assert_eq!(found.len(), expected.len(), "{context}");
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        let is_same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        assert!(is_same, "{context}: {a} on the GPU, {b} on the CPU at {at}");
    }
}

#[test]
fn overlaps_of_every_kind_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let workspace = Workspace::new(&stream).unwrap();
    let kinds = [
        BoxKind::Aligned { offset: 0.0 },
        BoxKind::Aligned { offset: 1.0 },
        BoxKind::Rotated,
        BoxKind::InSpace,
    ];
    for (kind, [num_first, num_second]) in kinds
        .into_iter()
        .flat_map(|kind| [[0, 3], [1, 1], [40, 300], [257, 257]].map(|num| (kind, num)))
    {
        let mut random = Random::new(num_second as u64 + 11);
        let mut first = boxes(&mut random, kind, num_first);
        let second = boxes(&mut random, kind, num_second);
        if let Some(value) = first.get_mut(2) {
            *value = f32::NAN;
        }
        for measure in [Measure::Intersection, Measure::Iou, Measure::Iof] {
            for pairing in [Pairing::All, Pairing::Rows] {
                let Ok(num) = num_overlaps(kind, pairing, [first.len(), second.len()]) else {
                    assert!(num_first != num_second);
                    continue;
                };
                let mut expected = vec![0.0; num];
                overlaps([&first, &second], kind, measure, pairing, &mut expected).unwrap();
                let [a, b] = [&first, &second].map(|values| uploaded(&stream, values));
                let mut out = uploaded(&stream, &vec![-7.0_f32; num]);
                let inputs = [a.input(&stream).unwrap(), b.input(&stream).unwrap()];
                workspace
                    .enqueue(inputs, kind, measure, pairing, out.output(&stream).unwrap())
                    .unwrap();
                let context = format!("{kind:?} {measure:?} {pairing:?} {num_first} {num_second}");
                assert_same(&out.read().unwrap(), &expected, &context);
            }
        }
    }
}

#[test]
fn points_are_in_the_same_boxes() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let workspace = Workspace::new(&stream).unwrap();
    for [num_points, num_boxes] in [[0, 2], [1, 0], [1, 1], [1000, 33]] {
        let mut random = Random::new(num_points as u64 + 5);
        let points: Vec<f32> = (0..3 * num_points).map(|_| random.range(-9.0, 9.0)).collect();
        let boxes = boxes(&mut random, BoxKind::InSpace, num_boxes);
        let [mut all, mut first] = [vec![0; num_points * num_boxes], vec![0; num_points]];
        points_in_boxes(&points, &boxes, &mut all).unwrap();
        first_boxes_of_points(&points, &boxes, &mut first).unwrap();
        let [a, b] = [&points, &boxes].map(|values| uploaded(&stream, values));
        let mut found = [&all, &first].map(|values| uploaded(&stream, &vec![-7; values.len()]));
        let inputs = [a.input(&stream).unwrap(), b.input(&stream).unwrap()];
        workspace.enqueue_points(inputs, found[0].output(&stream).unwrap()).unwrap();
        workspace.enqueue_first(inputs, found[1].output(&stream).unwrap()).unwrap();
        let [found_all, found_first] = found.map(|buffer| buffer.read().unwrap());
        assert_eq!((found_all, found_first), (all, first), "{num_points} {num_boxes}");
    }
}
