//! A Sparse4D decoder over frames with its memory.

#![allow(clippy::print_stdout, reason = "tests print what they measure")]

use std::sync::Arc;

use det_post_infer::view_decoder::sparse4d::{Activation, CpuDecoder, CudaDecoder, Network};
use det_post_infer::view_decoder::{View, ViewNetwork, parse};
use det_post_ops::device::cuda::{Graph, Stream};
use det_post_ops::view::sample::cuda::DeviceFeatureMaps;
use det_post_ops::view::sample::{FeatureMaps, Texels};
use det_post_types::{CachedYaw, Motion, QueryBox, Sparse4d, ViewDecoder};
use half::f16;

use det_post_testing::bounds::bound;
use det_post_testing::share;
use det_post_testing::view_cases::{Case, File, converted, motion, sparse4d_c64};
use det_post_testing::view_networks::{
    As, StateDict, maps, sparse4d, sparse4d_facts, sparse4d_of, spread_anchors, turn, two_views,
};

pub fn facts() -> Sparse4d {
    Sparse4d {
        num_channels: 64,
        num_heads: 8,
        num_groups: 8,
        num_anchors: 150,
        num_cached: 60,
        ..sparse4d_facts()
    }
}

fn network(facts: &Sparse4d) -> Arc<Network> {
    network_of(facts, sparse4d(facts))
}

/// A network with 13 key points, its feed-forward layers of a width.
pub fn network_of_width(facts: &Sparse4d, width: usize) -> Arc<Network> {
    network_of(facts, sparse4d_of(facts, 6, width))
}

fn network_of(facts: &Sparse4d, mut dict: StateDict) -> Arc<Network> {
    spread_anchors(&mut dict);
    match parse(&dict.to_safetensors(), &ViewDecoder::Sparse4d(facts.clone())).unwrap() {
        ViewNetwork::Sparse4d(network) => network,
        ViewNetwork::Detr3d(_) => unreachable!("the facts are those of Sparse4D"),
    }
}

pub fn step(frame: usize) -> Option<Motion> {
    (frame > 0).then(turn)
}

fn decoder<T: Activation>(
    stream: &Stream,
    network: &Arc<Network>,
    views: &[View],
) -> CudaDecoder<T> {
    let mut decoder = CudaDecoder::new(stream, network.clone()).unwrap();
    decoder.set_views(views).unwrap();
    decoder
}

fn run<T: Activation>(
    decoder: &mut CudaDecoder<T>,
    maps: &DeviceFeatureMaps,
    motion: Option<&Motion>,
) -> (Vec<QueryBox>, Vec<f32>, Vec<f32>) {
    let uses_memory = decoder.begin(motion).unwrap();
    decoder.enqueue(maps, uses_memory).unwrap();
    decoder.read().unwrap()
}

/// Places the memory of the CPU in that of the device.
pub fn hand_over<T: Activation>(reference: &CpuDecoder, decoder: &mut CudaDecoder<T>) {
    let memory = reference.memory();
    decoder.set_memory(memory.features(), memory.anchors(), memory.confidence()).unwrap();
}

/// Results of one network on both devices, in rows of an anchor each.
struct Compared<'a> {
    /// The part of the table of bounds.
    part: &'a str,
    context: String,
}

impl Compared<'_> {
    /// Compares rows of a length. In f16 a few may be farther apart: where a key point crosses
    /// the border of an image or is close to a camera, rounding decides what is sampled.
    fn near<const LEN: usize>(&self, found: &[f32], expected: &[f32], number: &str) {
        assert_eq!(found.len(), expected.len());
        let Self { part, context } = self;
        let largest = expected.iter().fold(1e-30_f32, |most, value| most.max(value.abs()));
        let rows = found.as_chunks::<LEN>().0.iter().zip(expected.as_chunks::<LEN>().0);
        let apart = |(a, b): (&[f32; LEN], &[f32; LEN])| {
            let most = a.iter().zip(b).map(|(a, b)| (a - b).abs());
            let most = most.map(|x| if x.is_nan() { f32::INFINITY } else { x });
            most.fold(0.0, f32::max)
        };
        let mut shares: Vec<f64> = rows.map(|row| f64::from(apart(row) / largest)).collect();
        shares.sort_by(f64::total_cmp);
        let may_be_farther = match part.ends_with("f16") {
            true => bound("network", part, "share of anchors beyond").in_unit(),
            false => 0.0,
        };
        let num_farther = (may_be_farther * shares.len() as f64) as usize;
        let bound = bound("network", part, number).in_unit();
        let (of_all, most) = (shares[shares.len() - 1], shares[shares.len() - 1 - num_farther]);
        println!("{context}, {part}, {number}: {most:.1e}, of all {of_all:.1e}");
        assert!(of_all.is_finite(), "{context}, {part}: NaN");
        assert!(
            most <= bound,
            "{context}, {part}, {number}: {most:e}, of all {of_all:e}; {bound:e} allowed"
        );
    }
}

/// Frames of one network on both devices, each from the memory of the CPU; in f32 also through
/// all frames, with the same rows in the memory. In f16 only the first frame: rows that join
/// the memory by their logits change places.
fn compare<T: Activation>(facts: &Sparse4d, texels: As, part: &str, name: &str) {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let network = network(facts);
    let maps = maps(facts.num_channels, texels);
    let on_device = DeviceFeatureMaps::from_host(&stream, &maps).unwrap();
    let mut reference = CpuDecoder::new(network.clone());
    reference.set_views(&two_views()).unwrap();
    let mut single = decoder::<T>(&stream, &network, &two_views());
    let mut through = decoder::<T>(&stream, &network, &two_views());
    let num_frames = if size_of::<T>() == 4 { 3 } else { 1 };
    for frame in 0..num_frames {
        let motion = step(frame);
        let context = format!("{name}, maps of {texels:?}, frame {frame}");
        let compared = Compared { part, context };
        if frame > 0 {
            hand_over(&reference, &mut single);
        }
        let expected = reference.run(&maps, motion.as_ref()).unwrap();
        let (boxes, logits, quality) = run(&mut single, &on_device, motion.as_ref());
        let (of_logits, of_boxes) = ("logits, share of the largest", "boxes, share of the largest");
        compared.near::<3>(&logits, expected.logits, of_logits);
        compared.near::<11>(boxes.as_flattened(), expected.boxes.as_flattened(), of_boxes);
        if let Some(expected) = expected.quality {
            compared.near::<2>(&quality, expected.as_flattened(), of_logits);
        }
        run(&mut through, &on_device, motion.as_ref());
        if size_of::<T>() == 4 {
            let (rows, confidence) = through.read_memory().unwrap();
            assert_eq!(rows, reference.memory().rows(), "{}", compared.context);
            let number = "confidence, share of the largest";
            compared.near::<1>(&confidence, reference.memory().confidence(), number);
        }
    }
}

#[test]
fn decoders_agree_over_frames() {
    let without_quality = Sparse4d { has_quality: false, num_groups: 4, ..facts() };
    let two_single = Sparse4d { num_blocks: 4, num_single_frame_blocks: 2, ..facts() };
    let swapped = Sparse4d { cached_yaw: CachedYaw::CosSin, num_anchors: 77, ..facts() };
    for (name, facts) in [
        ("three blocks", facts()),
        ("four groups without quality", without_quality),
        ("four blocks", two_single),
        ("77 anchors, swapped yaw", swapped),
    ] {
        compare::<f32>(&facts, As::F32, "Sparse4D, f32", name);
        compare::<f32>(&facts, As::F16, "Sparse4D, f32", name);
        compare::<f16>(&facts, As::F16, "Sparse4D, f16", name);
        compare::<f16>(&facts, As::I8, "Sparse4D, f16", name);
    }
}

/// Recorded frames are equal, bit for bit, and equal to frames that are not recorded.
#[test]
fn recorded_sequences_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let network = network(&facts());
    let maps = DeviceFeatureMaps::from_host(&stream, &maps(64, As::F16)).unwrap();
    let mut decoder = decoder::<f16>(&stream, &network, &two_views());
    let expected = [0, 1, 2].map(|frame| run(&mut decoder, &maps, step(frame).as_ref()));
    assert!(expected[0] != expected[1], "the memory is used");
    let graphs = [false, true].map(|uses_memory| {
        Graph::capture(&stream, || decoder.enqueue(&maps, uses_memory)).unwrap()
    });
    let num_allocations = stream.num_allocations();
    for sequence in 0..34 {
        for (frame, expected) in expected.iter().enumerate() {
            let motion = step(frame);
            // A sequence begins without a motion, or after the memory is forgotten.
            let motion = if frame == 0 && sequence % 2 == 1 {
                decoder.forget();
                step(1)
            } else {
                motion
            };
            let waits = stream.num_waits();
            decoder.set_views(&two_views()).unwrap();
            let uses_memory = decoder.begin(motion.as_ref()).unwrap();
            assert_eq!(uses_memory, frame > 0);
            graphs[usize::from(uses_memory)].enqueue().unwrap();
            assert_eq!(stream.num_waits(), waits, "the host waits for nothing");
            assert!(decoder.read().unwrap() == *expected, "sequence {sequence}, frame {frame}");
        }
    }
    assert_eq!(stream.num_allocations(), num_allocations);
}

#[test]
fn views_that_see_nothing_are_not_read() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let network = network(&Sparse4d { num_anchors: 40, num_cached: 16, ..facts() });
    let mut poisoned = maps(64, As::F16);
    for level in 0..2 {
        let Texels::F16(values) = poisoned.level_mut(level).unwrap().texels_mut() else {
            unreachable!("the maps are of f16")
        };
        let num = values.len();
        values[num / 2..].fill(f16::NAN);
    }
    let clean = DeviceFeatureMaps::from_host(&stream, &maps(64, As::F16)).unwrap();
    let poisoned = DeviceFeatureMaps::from_host(&stream, &poisoned).unwrap();
    let mut views = two_views();
    views[1].is_present = false;
    let of_maps = |maps: &DeviceFeatureMaps| {
        let mut decoder = decoder::<f16>(&stream, &network, &views);
        [0, 1].map(|frame| run(&mut decoder, maps, step(frame).as_ref()))
    };
    let (clean, poisoned) = (of_maps(&clean), of_maps(&poisoned));
    assert!(clean == poisoned);
    assert!(clean[1].1.iter().all(|value| value.is_finite()));
}

/// A frame of NaN does not reach those after it, once the memory is forgotten.
#[test]
fn nan_does_not_stay() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let network = network(&facts());
    let mut nan = maps(64, As::F16);
    for level in 0..2 {
        let Texels::F16(values) = nan.level_mut(level).unwrap().texels_mut() else {
            unreachable!("the maps are of f16")
        };
        values.fill(f16::NAN);
    }
    let clean = DeviceFeatureMaps::from_host(&stream, &maps(64, As::F16)).unwrap();
    let nan = DeviceFeatureMaps::from_host(&stream, &nan).unwrap();
    let mut decoder = decoder::<f16>(&stream, &network, &two_views());
    let expected = [0, 1].map(|frame| run(&mut decoder, &clean, step(frame).as_ref()));
    for frame in [0, 1] {
        let (_, logits, _) = run(&mut decoder, &nan, step(frame).as_ref());
        assert!(logits.iter().any(|logit| logit.is_nan()));
    }
    decoder.forget();
    let found = [0, 1].map(|frame| run(&mut decoder, &clean, step(frame).as_ref()));
    assert!(found == expected);
}

#[test]
fn what_does_not_fit_a_decoder_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let refused = |facts: Sparse4d, expected: &str| {
        let error = CudaDecoder::<f16>::new(&stream, network(&facts)).map(drop);
        let error = error.err().map_or_else(String::new, |error| error.to_string());
        assert!(error.contains(expected), "{expected}: {error}");
    };
    refused(Sparse4d { num_channels: 40, num_heads: 5, num_groups: 5, ..facts() }, "40 channels");
    refused(Sparse4d { num_heads: 1, ..facts() }, "found 128");
    let mut decoder = decoder::<f32>(&stream, &network(&facts()), &two_views());
    let of_bytes = DeviceFeatureMaps::from_host(&stream, &maps(64, As::I8)).unwrap();
    let error = decoder.enqueue(&of_bytes, false).unwrap_err();
    assert!(error.message().contains("found I8"), "{error}");
    let narrow = DeviceFeatureMaps::from_host(&stream, &maps(16, As::F32)).unwrap();
    assert!(decoder.enqueue(&narrow, false).is_err());
    assert!(decoder.set_views(&two_views()[..1]).is_err());
    // Groups have a multiple of 8 channels.
    let narrow = network(&Sparse4d { num_groups: 16, ..facts() });
    let mut decoder = self::decoder::<f32>(&stream, &narrow, &two_views());
    let maps = DeviceFeatureMaps::from_host(&stream, &maps(64, As::F32)).unwrap();
    let error = decoder.enqueue(&maps, false).unwrap_err();
    assert!(error.message().contains("16 groups of 64 channels"), "{error}");
}

/// The reference over three frames, from the stored memory of the frame before.
struct Golden {
    inputs: File,
    expected: File,
    network: Arc<Network>,
}

impl Golden {
    fn open(cached_yaw: CachedYaw) -> Option<Self> {
        let case = Case::open("sparse4d_c64")?;
        let facts = Sparse4d { cached_yaw, ..sparse4d_c64() };
        let network = Network::read(&case.file("weights").tensors(), facts).unwrap();
        let (inputs, expected) = (case.file("inputs"), case.file("expected"));
        Some(Self { inputs, expected, network: Arc::new(network) })
    }

    fn maps(&self, frame: usize) -> FeatureMaps {
        self.inputs.maps(&format!("frame{frame}."), false)
    }

    /// Places what the frame before stored in the memory.
    fn set_memory<T: Activation>(&self, decoder: &mut CudaDecoder<T>, frame: usize) {
        let before = format!("frame{}", frame - 1);
        let rows = self.expected.indices(&format!("{before}.memory"));
        let features = self.expected.rows::<64>(&format!("{before}.layer2.feature"));
        let anchors = self.expected.rows::<11>(&format!("{before}.layer2.anchor"));
        let features: Vec<f32> = rows.iter().flat_map(|&row| features[row as usize]).collect();
        let anchors: Vec<QueryBox> = rows.iter().map(|&row| anchors[row as usize]).collect();
        let confidence = self.expected.f32s(&format!("{before}.confidence"));
        decoder.set_memory(&features, &anchors, &confidence).unwrap();
    }

    fn check(
        &self,
        prefix: &str,
        frame: usize,
        found: &(Vec<QueryBox>, Vec<f32>, Vec<f32>),
        most: [f32; 2],
    ) {
        let (boxes, logits, quality) = found;
        let expected = |what: &str| self.expected.f32s(&format!("{prefix}frame{frame}.{what}"));
        let boxes = boxes.iter().flat_map(|&[x, y, z, e0, e1, e2, sin, cos, vx, vy, _]| {
            [x, y, z, e0.exp(), e1.exp(), e2.exp(), sin.atan2(cos), vx, vy]
        });
        let boxes: Vec<f32> = boxes.collect();
        // The velocity along z comes last in each.
        let expected_boxes: Vec<f32> =
            expected("boxes").chunks(10).flat_map(|row| row[..9].to_vec()).collect();
        let apart = |found: &[f32], expected: &[f32]| {
            assert_eq!(found.len(), expected.len());
            let pairs = found.iter().zip(expected);
            pairs
                .map(|(a, b)| if a.is_nan() { f32::NAN } else { (a - b).abs() })
                .fold(0.0, f32::max)
        };
        let apart = [
            apart(logits, &expected("logits")).max(apart(quality, &expected("quality"))),
            apart(&boxes, &expected_boxes),
        ];
        println!("{prefix}frame {frame}: logits {:.1e}, boxes {:.1e}", apart[0], apart[1]);
        assert!(apart[0] <= most[0] && apart[1] <= most[1], "{prefix}frame {frame}: {apart:?}");
    }
}

/// Five times the errors of f32 in the reference itself: logits, boxes.
const EXACT: [[f32; 2]; 3] = [[5e-5, 2.5e-5], [1e-4, 4e-5], [4e-4, 2.4e-4]];
/// Of one frame in f16; five times the errors of f16 in the reference itself.
const HALF: [f32; 2] = [0.12, 0.03];

#[test]
fn the_reference_over_three_frames() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    for (cached_yaw, prefix) in [(CachedYaw::CosSin, ""), (CachedYaw::SinCos, "corrected_yaw.")] {
        let Some(golden) = Golden::open(cached_yaw) else { return };
        let views = golden.inputs.views(&golden.inputs);
        let mut exact = decoder::<f32>(&stream, &golden.network, &views);
        let mut half = decoder::<f16>(&stream, &golden.network, &views);
        for (frame, bounds) in EXACT.into_iter().enumerate() {
            let prefix = if frame == 0 { "" } else { prefix };
            let motion = motion(&golden.inputs, frame);
            let maps = golden.maps(frame);
            let singles = DeviceFeatureMaps::from_host(&stream, &maps).unwrap();
            let found = run(&mut exact, &singles, motion.as_ref());
            golden.check(prefix, frame, &found, bounds);
            if prefix.is_empty() {
                let rows = golden.expected.indices(&format!("frame{frame}.memory"));
                let (found, confidence) = exact.read_memory().unwrap();
                assert_eq!(found, rows, "frame {frame}");
                let expected = golden.expected.f32s(&format!("frame{frame}.confidence"));
                assert!(share(&confidence, &expected) <= 1e-4);
                // f16 frame by frame: rows that change places are no error of arithmetic.
                if frame > 0 {
                    golden.set_memory(&mut half, frame);
                }
                let halves = DeviceFeatureMaps::from_host(&stream, &converted(&maps, false));
                let found = run(&mut half, &halves.unwrap(), motion.as_ref());
                golden.check("", frame, &found, HALF);
            }
        }
    }
}
