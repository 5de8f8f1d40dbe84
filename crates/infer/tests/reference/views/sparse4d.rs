//! Sparse4D over three frames with memory.

use std::sync::Arc;

use det_post_infer::view_decoder::sparse4d::{CpuDecoder, Network};
use det_post_ops::view::sample::FeatureMaps;
use det_post_types::{CachedYaw, Motion, QueryBox, Sparse4d};

use super::{EXACT, assert_selected, decoded_boxes};
use det_post_testing::view_cases::{Case, File, converted, motion, poison, sparse4d_c64};
use det_post_testing::{Bounds, assert_near};

struct Decoder {
    case: Case,
    inputs: File,
    expected: File,
    decoder: CpuDecoder,
}

impl Decoder {
    #[track_caller]
    fn open(cached_yaw: CachedYaw) -> Option<Self> {
        let case = Case::open("sparse4d_c64")?;
        let (inputs, expected) = (case.file("inputs"), case.file("expected"));
        let facts = Sparse4d { cached_yaw, ..sparse4d_c64() };
        let network = Network::read(&case.file("weights").tensors(), facts).unwrap();
        let mut decoder = CpuDecoder::new(Arc::new(network));
        decoder.set_views(&inputs.views(&inputs)).unwrap();
        Some(Self { case, inputs, expected, decoder })
    }

    fn maps(&self, frame: usize) -> FeatureMaps {
        self.inputs.maps(&format!("frame{frame}."), false)
    }

    fn motion(&self, frame: usize) -> Option<Motion> {
        motion(&self.inputs, frame)
    }

    /// Compares the features with a stored step and replaces them by it.
    fn check_features(&mut self, name: &str, bounds: Bounds) {
        let stored = self.expected.f32s(name);
        assert_near(self.decoder.features_mut(), &stored, bounds, name);
        self.decoder.features_mut().copy_from_slice(&stored);
    }

    fn check_frame(&self, prefix: &str, frame: usize, [logits, boxes]: [Bounds; 2]) {
        let decoded = self.decoder.decoded();
        let name = |what: &str| format!("{prefix}frame{frame}.{what}");
        let expected = |what: &str| self.expected.f32s(&name(what));
        assert_near(decoded.logits, &expected("logits"), logits, &name("logits"));
        let quality = decoded.quality.unwrap().as_flattened();
        assert_near(quality, &expected("quality"), logits, &name("quality"));
        let found = decoded_boxes::<10>(decoded.boxes);
        assert_near(&found, &expected("boxes"), boxes, &name("boxes"));
    }
}

fn bounds(max: f32, p99: f32) -> Bounds {
    Bounds { max, p99 }
}

/// Five times the errors of f32 in the reference itself, frame by frame.
const FRAMES: [[Bounds; 2]; 3] = [
    [Bounds { max: 5e-5, p99: 3.5e-5 }, Bounds { max: 2.5e-5, p99: 1e-5 }],
    [Bounds { max: 1e-4, p99: 5e-5 }, Bounds { max: 4e-5, p99: 1.7e-5 }],
    [Bounds { max: 4e-4, p99: 3e-4 }, Bounds { max: 2.4e-4, p99: 4e-5 }],
];

#[test]
fn three_frames_run_through_with_the_same_memory() {
    let Some(mut golden) = Decoder::open(CachedYaw::CosSin) else { return };
    for (frame, limits) in FRAMES.into_iter().enumerate() {
        let motion = golden.motion(frame);
        golden.decoder.run(&golden.maps(frame), motion.as_ref()).unwrap();
        golden.check_frame("", frame, limits);
        let rows = golden.expected.indices(&format!("frame{frame}.memory"));
        assert_eq!(golden.decoder.memory().rows(), rows, "frame {frame}");
        let confidence = golden.expected.f32s(&format!("frame{frame}.confidence"));
        let found = golden.decoder.memory().confidence();
        assert_near(found, &confidence, bounds(1e-4, 1e-4), "confidence");
    }
    let selected = golden.case.json("selected.json");
    for (frame, selected) in selected.as_array().unwrap().iter().enumerate() {
        assert_selected(selected, &golden.expected.f32s(&format!("frame{frame}.logits")), 10);
    }
}

#[test]
fn three_frames_with_the_corrected_yaw() {
    let Some(mut golden) = Decoder::open(CachedYaw::SinCos) else { return };
    for (frame, limits) in FRAMES.into_iter().enumerate() {
        let motion = golden.motion(frame);
        golden.decoder.run(&golden.maps(frame), motion.as_ref()).unwrap();
        if frame > 0 {
            golden.check_frame("corrected_yaw.", frame, limits);
        }
    }
}

#[test]
fn steps_from_the_results_of_the_step_before() {
    let Some(mut golden) = Decoder::open(CachedYaw::CosSin) else { return };
    for frame in 0..3 {
        let maps = golden.maps(frame);
        let motion = golden.motion(frame);
        golden.decoder.begin(motion.as_ref()).unwrap();
        for block in 0..3 {
            let name = |step: &str| format!("frame{frame}.layer{block}.{step}");
            if block > 0 {
                golden.decoder.attend_memory(block).unwrap();
                golden.check_features(&name("temp_gnn"), EXACT);
                // `gnn` is stored before its normalization.
                golden.decoder.attend(block).unwrap();
                golden.check_features(&name("norm0"), EXACT);
            }
            golden.decoder.sample_views(block, &maps).unwrap();
            let sampled = bounds(5e-5, 3e-5);
            let stored = golden.expected.f32s(&name("gathered"));
            assert_near(golden.decoder.gathered(), &stored, sampled, &name("gathered"));
            let stored = golden.expected.f32s(&name("deformable"));
            assert_near(golden.decoder.sampled(), &stored, sampled, &name("deformable"));
            golden.decoder.feed_forward(block).unwrap();
            let norm = if block == 0 { "norm0" } else { "norm1" };
            golden.check_features(&name(norm), sampled);
            golden.decoder.classify(block).unwrap();
            let decoded = golden.decoder.decoded();
            assert_near(decoded.logits, &golden.expected.f32s(&name("logits")), EXACT, "logits");
            let quality = decoded.quality.unwrap().as_flattened();
            assert_near(quality, &golden.expected.f32s(&name("quality")), EXACT, "quality");
            golden.decoder.refine(block).unwrap();
            let anchors = golden.decoder.decoded().boxes.as_flattened();
            let stored = golden.expected.rows::<11>(&name("anchor"));
            let near = bounds(2e-5, 1e-5);
            if block == 0 && frame > 0 {
                golden.decoder.join_memory().unwrap();
                let kept = golden.expected.indices(&name("kept"));
                assert_eq!(golden.decoder.memory().rows(), kept, "frame {frame}");
            } else {
                assert_near(anchors, stored.as_flattened(), near, &name("anchor"));
                golden.decoder.set_anchors(&stored).unwrap();
            }
        }
        golden.decoder.store().unwrap();
        let rows = golden.expected.indices(&format!("frame{frame}.memory"));
        assert_eq!(golden.decoder.memory().rows(), rows, "frame {frame}");
    }
}

fn results(decoder: &CpuDecoder) -> (Vec<f32>, Vec<QueryBox>) {
    (decoder.decoded().logits.to_vec(), decoder.decoded().boxes.to_vec())
}

#[test]
fn memory_is_forgotten_and_frames_are_repeated_exactly() {
    let Some(mut golden) = Decoder::open(CachedYaw::SinCos) else { return };
    let (maps, motion) = (golden.maps(0), golden.motion(1));
    golden.decoder.run(&maps, None).unwrap();
    let single = results(&golden.decoder);
    golden.decoder.run(&maps, motion.as_ref()).unwrap();
    let with_memory = results(&golden.decoder);
    assert_ne!(with_memory, single);
    // Without a motion the memory is lost; with one but no memory it makes no difference.
    golden.decoder.run(&maps, None).unwrap();
    assert_eq!(results(&golden.decoder), single);
    golden.decoder.run(&maps, motion.as_ref()).unwrap();
    assert_eq!(results(&golden.decoder), with_memory);
    golden.decoder.forget();
    golden.decoder.run(&maps, motion.as_ref()).unwrap();
    assert_eq!(results(&golden.decoder), single);
    // A frame that fails loses the memory.
    let other = FeatureMaps::new(6, 64, maps.levels()[..3].to_vec()).unwrap();
    assert!(golden.decoder.run(&other, motion.as_ref()).is_err());
    golden.decoder.run(&maps, motion.as_ref()).unwrap();
    assert_eq!(results(&golden.decoder), single);
}

#[test]
fn a_missing_view_changes_no_byte() {
    let Some(mut golden) = Decoder::open(CachedYaw::SinCos) else { return };
    let mut views = golden.inputs.views(&golden.inputs);
    views[0].is_present = false;
    views[4].is_present = false;
    golden.decoder.set_views(&views).unwrap();
    let mut maps = golden.maps(0);
    golden.decoder.run(&maps, None).unwrap();
    let clean = results(&golden.decoder);
    poison(&mut maps, |view| !views[view].is_present);
    golden.decoder.run(&maps, None).unwrap();
    assert_eq!(results(&golden.decoder), clean);
}

#[test]
fn maps_of_integers_lose_their_step() {
    let Some(mut golden) = Decoder::open(CachedYaw::SinCos) else { return };
    let maps = golden.maps(0);
    golden.decoder.run(&maps, None).unwrap();
    let (singles, _) = results(&golden.decoder);
    golden.decoder.run(&converted(&maps, false), None).unwrap();
    assert_eq!(results(&golden.decoder).0, singles);
    golden.decoder.run(&converted(&maps, true), None).unwrap();
    assert_near(&results(&golden.decoder).0, &singles, bounds(0.1, 0.05), "integers");
}
