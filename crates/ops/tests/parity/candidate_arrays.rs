//! Candidates from arrays and survivors as arrays: the same values in the same places.

use det_post_ops::arrays::candidates::cuda::{
    DeviceArrays, DeviceClasses, SurvivorColumns, SurvivorIds, Workspace,
};
use det_post_ops::arrays::candidates::{Classes, candidate_arrays};
use det_post_ops::device::cuda::{BUFFER_ALIGNMENT, CudaDevice, DeviceBuffer, In, Out, Plain};
use det_post_ops::shared::DeviceCandidates;
use det_post_types::{Box2d, Box3d, Candidate, Kept, RotatedBox2d};

use det_post_testing::random::Random;

use crate::dense_pair::uploaded;

/// Compares both devices for boxes of `K` numbers.
fn check<B, const K: usize>(device: &CudaDevice, num: usize, bbox: impl Fn([f32; K]) -> B)
where
    B: Copy + std::fmt::Debug + PartialEq + det_post_ops::arrays::candidates::cuda::Columns,
    Candidate<B>: Plain,
{
    let mut random = Random::new(num as u64 + 7);
    let boxes: Vec<[f32; K]> =
        (0..num).map(|_| std::array::from_fn(|_| random.range(-50.0, 50.0))).collect();
    let scores: Vec<f32> = (0..num).map(|_| random.range(0.0, 1.0)).collect();
    let short: Vec<i32> = (0..num).map(|_| random.below(1 << 20) as i32).collect();
    let long: Vec<i64> = short.iter().map(|&class| i64::from(class) * 4000).collect();
    let stream = device.stream().unwrap();
    let flat: Vec<f32> = boxes.iter().flatten().copied().collect();
    let on_device = (
        uploaded(&stream, &flat),
        uploaded(&stream, &scores),
        uploaded(&stream, &short.iter().map(|class| class.cast_unsigned()).collect::<Vec<_>>()),
        uploaded(&stream, &long.iter().map(|class| class.cast_unsigned()).collect::<Vec<_>>()),
    );
    let mut workspace = Workspace::<B>::new(&stream).unwrap();
    let mut candidates = DeviceCandidates::with_capacity(&stream, num + 3).unwrap();
    for classes in [Classes::None, Classes::I32(&short), Classes::I64(&long)] {
        let mut expected = Vec::new();
        candidate_arrays(&boxes, &scores, classes, &bbox, &mut expected).unwrap();
        let arrays = DeviceArrays {
            boxes: on_device.0.input(&stream).unwrap(),
            num_columns: K,
            scores: on_device.1.input(&stream).unwrap(),
            classes: match classes {
                Classes::None => DeviceClasses::None,
                Classes::I32(_) => DeviceClasses::I32(on_device.2.input(&stream).unwrap()),
                Classes::I64(_) => DeviceClasses::I64(on_device.3.input(&stream).unwrap()),
            },
        };
        workspace.enqueue(&arrays, &mut candidates).unwrap();
        assert_eq!(candidates.num.read().unwrap(), [num as u32]);
        workspace.check_classes().unwrap();
        assert_eq!(&candidates.items.read().unwrap()[..num], &expected[..], "{K} {num}");
    }
}

#[test]
fn candidates_of_arrays_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    for num in [0, 1, 255, 256, 257, 5000] {
        check(&device, num, |[x1, y1, x2, y2]| Box2d { x1, y1, x2, y2 });
        let rotated = |[cx, cy, width, height, angle_rad]: [f32; 5]| RotatedBox2d {
            cx,
            cy,
            width,
            height,
            angle_rad,
        };
        check(&device, num, rotated);
        let in_space = |[x, y, z, length_m, width_m, height_m, yaw_rad]: [f32; 7]| Box3d {
            center: [x, y, z],
            length_m,
            width_m,
            height_m,
            yaw_rad,
        };
        check(&device, num, in_space);
        check(&device, num, |[x, y]: [f32; 2]| Box3d { center: [x, y, 0.0], ..Box3d::default() });
    }
}

#[test]
fn classes_out_of_range_and_wrong_lengths_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let boxes = uploaded(&stream, &[1.0_f32; 8]);
    let scores = uploaded(&stream, &[0.5_f32; 2]);
    let mut workspace = Workspace::<Box2d>::new(&stream).unwrap();
    let mut candidates = DeviceCandidates::with_capacity(&stream, 2).unwrap();
    let cases = [([0, 1], true), ([0, (-1_i64).cast_unsigned()], false), ([1 << 32, 0], false)];
    for (classes, is_possible) in cases.into_iter().chain([([7, 7], true)]) {
        let classes = uploaded(&stream, &classes);
        let arrays = DeviceArrays {
            boxes: boxes.input(&stream).unwrap(),
            num_columns: 4,
            scores: scores.input(&stream).unwrap(),
            classes: DeviceClasses::I64(classes.input(&stream).unwrap()),
        };
        workspace.enqueue(&arrays, &mut candidates).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(workspace.check_classes().is_ok(), is_possible);
        let wrong = DeviceArrays { num_columns: 5, ..arrays };
        assert!(workspace.enqueue(&wrong, &mut candidates).is_err());
    }
}

#[test]
fn survivors_of_a_list_are_copied() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let kept: Vec<Kept> =
        (0..700).map(|index| Kept { index: 3 * index, score: 1.0 / index as f32 }).collect();
    let on_device = uploaded(&stream, &kept);
    let mut workspace = Workspace::<Box2d>::new(&stream).unwrap();
    for (num, num_scores) in [(0, 0), (1, 1), (256, 0), (700, 700)] {
        let mut indices = DeviceBuffer::zeros(&stream, num).unwrap();
        let mut scores = DeviceBuffer::zeros(&stream, num_scores).unwrap();
        let outputs = (indices.output(&stream).unwrap(), scores.output(&stream).unwrap());
        workspace.enqueue_survivors(&on_device, outputs.0, outputs.1).unwrap();
        let expected: Vec<u64> = kept[..num].iter().map(|kept| kept.index.into()).collect();
        assert_eq!(indices.read().unwrap(), expected);
        let expected: Vec<f32> = kept[..num_scores].iter().map(|kept| kept.score).collect();
        assert_eq!(scores.read().unwrap(), expected);
    }
    let mut long = DeviceBuffer::zeros(&stream, 701).unwrap();
    let long = long.output(&stream).unwrap();
    assert!(workspace.enqueue_survivors(&on_device, long, Out::empty()).is_err());
}

#[test]
fn columns_of_survivors_are_those_of_the_candidates() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = Random::new(31);
    let candidates: Vec<Candidate<RotatedBox2d>> = (0..600_u32)
        .map(|source| Candidate {
            bbox: RotatedBox2d { cx: random.range(0.0, 9.0), ..RotatedBox2d::default() },
            score: random.range(0.0, 1.0),
            class: source % 7,
            source: 1_000_000 + source,
        })
        .collect();
    let mut on_device = DeviceCandidates::with_capacity(&stream, 600).unwrap();
    on_device.write(&candidates).unwrap();
    let kept: Vec<Kept> =
        (0..300).map(|place| Kept { index: (place * 7) % 600, score: 0.0 }).collect();
    let kept_on_device = uploaded(&stream, &kept);
    let workspace = Workspace::<RotatedBox2d>::new(&stream).unwrap();
    let mut boxes = DeviceBuffer::zeros(&stream, 5 * 300).unwrap();
    let mut scores = DeviceBuffer::zeros(&stream, 300).unwrap();
    let [mut classes, mut sources] = [(); 2].map(|()| DeviceBuffer::zeros(&stream, 300).unwrap());
    let [mut classes32, mut sources32] =
        [(); 2].map(|()| DeviceBuffer::zeros(&stream, 300).unwrap());
    let ids = SurvivorIds::I64 {
        classes: classes.output(&stream).unwrap(),
        sources: sources.output(&stream).unwrap(),
    };
    let columns = SurvivorColumns {
        boxes: boxes.output(&stream).unwrap(),
        scores: scores.output(&stream).unwrap(),
        ids,
    };
    workspace.enqueue_columns(&on_device, &kept_on_device, columns).unwrap();
    let ids = SurvivorIds::U32 {
        classes: classes32.output(&stream).unwrap(),
        sources: sources32.output(&stream).unwrap(),
    };
    let columns = SurvivorColumns { ids, ..columns };
    workspace.enqueue_columns(&on_device, &kept_on_device, columns).unwrap();
    let ids = SurvivorIds::U32 { classes: Out::empty(), sources: Out::empty() };
    let without = SurvivorColumns { ids, ..columns };
    assert!(workspace.enqueue_columns(&on_device, &kept_on_device, without).is_err());
    let short = SurvivorColumns { boxes: Out::empty(), ..columns };
    assert!(workspace.enqueue_columns(&on_device, &kept_on_device, short).is_err());
    let found32 = (classes32.read().unwrap(), sources32.read().unwrap());
    let found = (boxes.read().unwrap(), scores.read().unwrap());
    let (found_classes, found_sources) = (classes.read().unwrap(), sources.read().unwrap());
    for (row, kept) in kept.iter().enumerate() {
        let expected = candidates[kept.index as usize];
        assert_eq!(found.0[5 * row..][..5], [expected.bbox.cx, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(found.1[row], expected.score);
        assert_eq!((found32.0[row], found32.1[row]), (expected.class, expected.source));
        assert_eq!(found_classes[row], u64::from(expected.class));
        assert_eq!(found_sources[row], u64::from(expected.source));
    }
}

#[test]
#[expect(unsafe_code, reason = "memory that another stream owns")]
fn borrowed_memory_is_used_in_place_and_checked() {
    let Some(device) = det_post_testing::gpu() else { return };
    let [theirs, ours] = [(); 2].map(|()| device.stream().unwrap());
    let mut memory = uploaded(&theirs, &(0..64).collect::<Vec<u32>>());
    theirs.synchronize().unwrap();
    let address = memory.address();
    assert!(device.bytes_from(address).unwrap() >= 256);
    // SAFETY: `memory` lives to the end, and its stream is ordered with the other.
    unsafe {
        ours.follow(theirs.handle() as u64).unwrap();
        let mut buffer = DeviceBuffer::<u32>::borrow(&ours, address, 64).unwrap();
        assert_eq!(buffer.read().unwrap(), (0..64).collect::<Vec<u32>>());
        buffer.enqueue_clear().unwrap();
        ours.precede(theirs.handle() as u64).unwrap();
        assert_eq!(memory.read().unwrap(), [0; 64]);
        memory.write(&[5; 3]).unwrap();
        assert_eq!(buffer.read().unwrap()[..4], [5, 5, 5, 0]);
        let refused = |address, len| DeviceBuffer::<u32>::borrow(&ours, address, len).is_err();
        assert!(refused(address + BUFFER_ALIGNMENT as u64 / 2, 1));
        assert!(refused(address, usize::MAX));
        assert!(refused(address, device.bytes_from(address).unwrap() / 4 + 1));
        assert!(refused(16, 1), "not memory of the GPU");
        assert!(In::<f32>::borrow(&device, address + 4, 3).is_ok());
        assert!(Out::<f32>::borrow(&device, address + 2, 3).is_err());
    }
    assert_eq!(ours.num_allocations(), 0);
}
