//! Decoding of StreamPETR heads: the same boxes in the same order, the same counts.

use det_post_ops::arrays::candidates::cuda::{DecodedStreamPetr, SurvivorColumns, SurvivorIds};
use det_post_ops::decode::select::select;
use det_post_ops::decode::streampetr::{StreamPetrOutputs, decode_streampetr};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer};
use det_post_types::{
    Candidates, ElementType, FrameReport, PointRange, QueryDecode, ScoreThresholds, SizeOrder,
    StreamPetrDecode, YawConvention,
};

use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_testing::tensors::{tensor, upload};

/// Sizes of a head, and the share of numbers that are none or far too large.
#[derive(Clone, Copy, Debug)]
struct Shape {
    num_queries: usize,
    num_classes: usize,
    element: ElementType,
    broken: f32,
}

fn params(num_classes: usize) -> StreamPetrDecode {
    StreamPetrDecode {
        channels_last: true,
        query: QueryDecode {
            size_order: SizeOrder::WidthLengthHeight,
            yaw: YawConvention::CounterClockwise,
            score_thresholds: ScoreThresholds::uniform(0.4, num_classes),
            yaw_norm_thresholds: vec![],
            center_range: None,
        },
    }
}

fn check(
    device: &CudaDevice,
    random: &mut Random,
    shape: Shape,
    params: &StreamPetrDecode,
    capacity: usize,
) {
    let strange = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, 0.0, -0.0];
    let mut output = |num_channels| {
        let sides = match params.channels_last {
            true => [1, shape.num_queries, num_channels],
            false => [1, num_channels, shape.num_queries],
        };
        let values: Vec<f32> = (0..shape.num_queries * num_channels)
            .map(|_| match random.range(0.0, 1.0) < shape.broken {
                true => strange[random.below(strange.len())],
                // Ties of logits.
                false => (random.range(-2.0, 2.0) * 64.0).round() / 64.0,
            })
            .collect();
        tensor(shape.element, &sides, &values)
    };
    let (logits, boxes) = (output(shape.num_classes), output(10));
    let outputs = StreamPetrOutputs { logits: logits.view(), boxes: boxes.view() };
    let mut expected = Candidates::with_capacity(capacity);
    decode_streampetr(&outputs, params, &mut expected).unwrap();
    let mut expected_counts = FrameReport::new();
    select(&mut expected, usize::MAX).add_to(&mut expected_counts);
    let stream = device.stream().unwrap();
    let (logits, boxes) = (upload(&stream, &logits), upload(&stream, &boxes));
    let outputs = StreamPetrOutputs { logits: &logits, boxes: &boxes };
    let mut decode = DecodedStreamPetr::new(&stream, params, shape.num_queries, capacity).unwrap();
    let context = format!("{shape:?}, capacity {capacity}, {params:?}");
    for _ in 0..2 {
        let num = decode.run(&outputs).unwrap();
        assert_eq!(num, expected.as_slice().len(), "{context}");
        let mut counts = FrameReport::new();
        decode.ranked.take_counts().unwrap().add_to(&mut counts);
        assert_eq!(counts, expected_counts, "{context}");
        let floats = |len| DeviceBuffer::<f32>::zeros(&stream, len).unwrap();
        let [mut boxes, mut scores, mut velocities] = [7 * num, num, 2 * num].map(floats);
        let [mut classes, mut sources] =
            [(); 2].map(|()| DeviceBuffer::<u32>::zeros(&stream, num).unwrap());
        if num == 0 {
            continue;
        }
        let columns = SurvivorColumns {
            boxes: boxes.output(&stream).unwrap(),
            scores: scores.output(&stream).unwrap(),
            ids: SurvivorIds::U32 {
                classes: classes.output(&stream).unwrap(),
                sources: sources.output(&stream).unwrap(),
            },
        };
        decode.ranked.enqueue_columns(columns).unwrap();
        decode.enqueue_velocities(velocities.output(&stream).unwrap()).unwrap();
        let (boxes, scores) = (boxes.read().unwrap(), scores.read().unwrap());
        let (classes, sources) = (classes.read().unwrap(), sources.read().unwrap());
        let velocities = velocities.read().unwrap();
        let near = bound("decode/streampetr", "all", "score, size");
        let near_yaw = bound("decode/streampetr", "all", "yaw");
        for (row, b) in expected.as_slice().iter().enumerate() {
            let object = b.bbox;
            assert_eq!((classes[row], sources[row]), (b.class, b.source), "{context}");
            assert_eq!(velocities[2 * row..][..2], object.velocity_mps.unwrap(), "{context}");
            let bbox = object.bbox;
            let &[x, y, z, length, width, height, yaw] = boxes[7 * row..].first_chunk().unwrap();
            assert_eq!([x, y, z], bbox.center, "{context}");
            let pairs = [
                (scores[row], b.score),
                (length, bbox.length_m),
                (width, bbox.width_m),
                (height, bbox.height_m),
            ];
            assert!(pairs.iter().all(|&(a, b)| near.holds(a, b, 0.0)), "{context}: {pairs:?}");
            assert!(near_yaw.holds(yaw, bbox.yaw_rad, 0.0), "{context}: {yaw}");
        }
    }
}

#[test]
fn queries_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(150);
    for element in [ElementType::F32, ElementType::F16] {
        for (num_queries, num_classes, broken) in
            [(1, 1, 0.0), (255, 10, 0.0), (257, 3, 0.1), (5400, 10, 0.02), (300, 10, 1.0)]
        {
            let shape = Shape { num_queries, num_classes, element, broken };
            let mut params = params(num_classes);
            check(&device, &mut random, shape, &params, num_queries);
            check(&device, &mut random, shape, &params, 17);
            params.channels_last = false;
            params.query.size_order = SizeOrder::LengthWidthHeight;
            params.query.yaw = YawConvention::ClockwiseFromMinusY;
            params.query.yaw_norm_thresholds = vec![0.5; num_classes];
            params.query.center_range =
                Some(PointRange { min: [-1.5, -1.0, -2.0], max: [1.5, 1.75, 0.5] });
            params.query.score_thresholds = ScoreThresholds {
                distance_upper_limits_m: vec![0.5, 2.0],
                per_class: (0..num_classes).map(|class| vec![0.3, 0.2 * class as f32]).collect(),
            };
            check(&device, &mut random, shape, &params, num_queries);
        }
    }
}

#[test]
fn other_outputs_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let params = params(3);
    let mut decode = DecodedStreamPetr::new(&stream, &params, 4, 4).unwrap();
    let of = |element, shape: &[usize]| {
        upload(&stream, &tensor(element, shape, &vec![0.0; shape.iter().product()]))
    };
    let (f32, f16) = (ElementType::F32, ElementType::F16);
    for (logits, boxes) in [
        (of(f32, &[1, 5, 3]), of(f32, &[1, 5, 10])),
        (of(f32, &[1, 4, 2]), of(f32, &[1, 4, 10])),
        (of(f32, &[1, 4, 3]), of(f32, &[1, 4, 11])),
        (of(f32, &[1, 4, 3]), of(f16, &[1, 4, 10])),
    ] {
        let outputs = StreamPetrOutputs { logits: &logits, boxes: &boxes };
        assert!(decode.run(&outputs).is_err(), "{:?} {:?}", logits.shape(), boxes.shape());
    }
}
