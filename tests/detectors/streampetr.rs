//! StreamPETR's three files through the engines, against the reference of the published
//! head.

use std::path::Path;
use std::time::Duration;

use det_post::detectors::surround::streampetr::{CameraMatrices, StatedImages, StreamPetr};
use det_post::detectors::surround::{EgoMotion, Step};
use det_post_infer::Engine;
use det_post_types::{EngineKind, EngineOptions, FrameReport, Stamp, TensorValues, TensorView};
use nalgebra::{Isometry3, Matrix3, Matrix4, Rotation3, Translation3, UnitQuaternion};

use crate::common::require::{Need, skip};
use crate::common::safetensors::{Named, read};
use crate::common::shared_data::shared_data;
use crate::common::streampetr::{FILES, Form, REFERENCE, Sizes, Weights, reference_weights, save};

struct Case {
    weights: Weights,
    inputs: Named,
    expected: Named,
}

fn case() -> Option<Case> {
    let folder = shared_data()?.join("surround/petr_c64");
    let [inputs, expected] =
        ["inputs", "expected"].map(|name| read(&folder.join(format!("{name}.safetensors"))));
    let weights = reference_weights(&folder);
    Some(Case { weights, inputs, expected })
}

/// The engines of this machine.
fn engines() -> Vec<EngineOptions> {
    let options = |kind| EngineOptions { kind, threads: Some(1), ..EngineOptions::default() };
    let mut engines = vec![options(EngineKind::Rten)];
    if std::env::var_os(det_post_infer::LIBRARY_VARIABLE).is_some() {
        engines.push(options(EngineKind::OnnxRuntime));
    } else {
        skip(Need::Ort, "StreamPETR only in rten");
    }
    engines
}

fn open(folder: &Path, options: &EngineOptions, classes: usize) -> det_post::Result<StreamPetr> {
    let load = |file: &str| det_post_infer::load(&folder.join(file), options).unwrap();
    let mut backbone: Box<dyn Engine> = load(FILES[0]);
    StreamPetr::new(
        backbone.as_mut(),
        load(FILES[1]),
        load(FILES[2]),
        classes,
        StatedImages::default(),
    )
}

/// The matrices of the reference rig: intrinsics with the focal lengths, and `img2base`.
fn matrices(inputs: &Named) -> [Vec<f32>; 2] {
    let focal = &inputs["focal"].1;
    let intrinsics = focal.chunks_exact(2).flat_map(|focal| {
        let mut matrix = Matrix4::<f32>::identity();
        (matrix[(0, 0)], matrix[(1, 1)]) = (focal[0], focal[1]);
        matrix.transpose().iter().copied().collect::<Vec<f32>>()
    });
    [intrinsics.collect(), inputs["img2base"].1.clone()]
}

/// The pose of the vehicle at a frame.
fn pose(inputs: &Named, frame: usize) -> Isometry3<f64> {
    let m = &inputs[&format!("frame{frame}.ego_pose")].1;
    let rotation = Matrix3::from_fn(|row, column| f64::from(m[4 * row + column]));
    let rotation = UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix(&rotation));
    let [x, y, z] = [3, 7, 11].map(|i| f64::from(m[i]));
    Isometry3::from_parts(Translation3::new(x, y, z), rotation)
}

/// Tokens [camera, row, column, channel] as the feature maps of a backbone.
fn features(sizes: &Sizes, tokens: &[f32]) -> Vec<f32> {
    let (cells, c) = (sizes.grid[0] * sizes.grid[1], sizes.channels);
    let at = |i: usize| {
        let (camera, channel, cell) = (i / (c * cells), i / cells % c, i % cells);
        tokens[(camera * cells + cell) * c + channel]
    };
    (0..tokens.len()).map(at).collect()
}

fn max_difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn values<'a>(tensor: &TensorView<'a>) -> &'a [f32] {
    match tensor.values() {
        TensorValues::F32(values) => values,
        other => panic!("{}", other.element()),
    }
}

/// The last `num` queries of an output, query by query.
fn last_queries(tensor: &TensorView<'_>, num: usize, form: Form) -> Vec<f32> {
    let (values, shape) = (values(tensor), tensor.shape());
    match form {
        Form::LastLayer => values.to_vec(),
        Form::AllLayers | Form::WithTimes => {
            let &[_, channels, all] = shape else { panic!("{shape:?}") };
            let at = |i: usize| values[i % channels * all + all - num + i / channels];
            (0..num * channels).map(at).collect()
        }
    }
}

#[test]
fn four_frames_with_memory_are_those_of_the_reference() {
    let Some(Case { weights, inputs, expected }) = case() else { return };
    let sizes = REFERENCE;
    for options in engines() {
        for form in [Form::AllLayers, Form::LastLayer, Form::WithTimes] {
            // rten has no 64-bit floats.
            if form == Form::WithTimes && options.kind == EngineKind::Rten {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            save(folder.path(), &sizes, &weights, form);
            let mut network = open(folder.path(), &options, sizes.classes).unwrap();
            assert_eq!(network.signature().lengths.channels_last, form == Form::LastLayer);
            run_reference(&mut network, (&inputs, &expected), form);
        }
    }
}

fn run_reference(network: &mut StreamPetr, (inputs, expected): (&Named, &Named), form: Form) {
    let sizes = REFERENCE;
    let [intrinsics, target_from_image] = matrices(inputs);
    let matrices =
        CameraMatrices { intrinsics: &intrinsics, target_from_image: &target_from_image };
    let shape = [1, sizes.cameras, sizes.channels, sizes.grid[0], sizes.grid[1]];
    let num_queries = sizes.queries + sizes.propagated;
    let mut motion = EgoMotion::default();
    for frame in 0..4 {
        let tokens = &inputs[&format!("frame{frame}.tokens")].1;
        let features = features(&sizes, tokens);
        let features = TensorView::new(&shape, TensorValues::F32(&features)).unwrap();
        if frame == 0 {
            network.embed(&matrices, &features).unwrap();
        }
        // Far from the origin of time and space, which the network must not notice.
        let seconds = f64::from(inputs["stamps"].1[frame]);
        let stamp = Stamp::from_nanos(1_700_000_000_000_000_000 + (seconds * 1e9).round() as i64);
        let pose = Isometry3::translation(4e5, -5e6, 30.0) * pose(inputs, frame);
        let max_gap = Duration::from_secs(5);
        let step = motion.step(stamp, &pose, max_gap, &mut FrameReport::new());
        assert_eq!(step == Step::First, frame == 0);
        let outputs = network.run(&features, stamp, &step).unwrap();
        motion.commit(stamp, pose);
        let [logits, boxes] =
            [outputs.logits, outputs.boxes].map(|tensor| last_queries(&tensor, num_queries, form));
        let of = |name: &str| &expected[&format!("frame{frame}.{name}")].1;
        let logits_off = max_difference(&logits, of("logits"));
        let boxes_off = max_difference(&boxes, of("reg"));
        println!("{form:?} frame {frame}: logits {logits_off:e}, boxes {boxes_off:e}");
        assert!(logits_off <= 5e-5 && boxes_off <= 3e-4);
        // The queries that enter the memory: the best by their greatest logit.
        let best = |query: &usize| {
            logits[query * sizes.classes..][..sizes.classes]
                .iter()
                .copied()
                .fold(f32::MIN, f32::max)
        };
        let mut rows: Vec<usize> = (0..num_queries).collect();
        rows.sort_by(|a, b| best(b).total_cmp(&best(a)).then(a.cmp(b)));
        let topk: Vec<usize> = of("topk").iter().map(|&row| row as usize).collect();
        assert_eq!(rows[..sizes.propagated], topk, "frame {frame}");
    }
}

/// The lengths of a network of random weights, for what does not need the reference.
const SMALL: Sizes = Sizes {
    cameras: 2,
    grid: [2, 3],
    stride: 8,
    channels: 16,
    heads: 2,
    ffn: 32,
    depths: 32,
    layers: 2,
    queries: 6,
    memory: 8,
    propagated: 3,
    classes: 3,
};

/// A rig of two cameras, ahead and back.
fn small_matrices() -> [Vec<f32>; 2] {
    let (mut intrinsics, mut inverse) = (Vec::new(), Vec::new());
    for sign in [1.0, -1.0] {
        #[rustfmt::skip]
        let k = Matrix4::new(
            20.0, 0.0, 12.0, 0.0,
            0.0, 20.0, 8.0, 0.0,
            0.0, 0.0, 1.0, 0.0,
            0.0, 0.0, 0.0, 1.0_f64,
        );
        #[rustfmt::skip]
        let camera_from_base = Matrix4::new(
            0.0, -sign, 0.0, 0.0,
            0.0, 0.0, -1.0, 1.5,
            sign, 0.0, 0.0, -1.0,
            0.0, 0.0, 0.0, 1.0,
        );
        let rows = |m: Matrix4<f64>| m.transpose().iter().map(|&v| v as f32).collect::<Vec<f32>>();
        intrinsics.extend(rows(k));
        inverse.extend(rows((k * camera_from_base).try_inverse().unwrap()));
    }
    [intrinsics, inverse]
}

/// Boxes and logits of a sequence of frames, given as seconds and metres ahead.
fn run_small(folder: &Path, options: &EngineOptions, frames: &[(f64, f64)]) -> Vec<Vec<f32>> {
    let mut network = open(folder, options, SMALL.classes).unwrap();
    let [intrinsics, target_from_image] = small_matrices();
    let matrices =
        CameraMatrices { intrinsics: &intrinsics, target_from_image: &target_from_image };
    let num = SMALL.tokens() * SMALL.channels;
    let shape = [1, SMALL.cameras, SMALL.channels, SMALL.grid[0], SMALL.grid[1]];
    let mut motion = EgoMotion::default();
    let frame = |&(seconds, ahead): &(f64, f64)| {
        let features: Vec<f32> = (0..num).map(|i| ((i * 7919) % 101) as f32 / 50.0 - 1.0).collect();
        let features = TensorView::new(&shape, TensorValues::F32(&features)).unwrap();
        if !network.is_embedded() {
            assert!(network.run(&features, Stamp::default(), &Step::First).is_err());
            network.embed(&matrices, &features).unwrap();
        }
        let stamp = Stamp::from_nanos((seconds * 1e9) as i64);
        let pose = Isometry3::translation(ahead, 0.0, 0.0);
        let max_gap = Duration::from_millis(500);
        let step = motion.step(stamp, &pose, max_gap, &mut FrameReport::new());
        let outputs = network.run(&features, stamp, &step).unwrap();
        motion.commit(stamp, pose);
        [values(&outputs.logits), values(&outputs.boxes)].concat()
    };
    frames.iter().map(frame).collect()
}

#[test]
fn the_memory_moves_with_the_vehicle_and_ends_at_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), &SMALL, &Weights::random(&SMALL, 7), Form::AllLayers);
    let options = EngineOptions { kind: EngineKind::Rten, ..EngineOptions::default() };
    let run = |frames: &[(f64, f64)]| run_small(folder.path(), &options, frames);
    let still = run(&[(1.0, 0.0), (1.1, 0.0), (1.2, 0.0)]);
    assert!(still.iter().flatten().all(|value| value.is_finite()));
    assert_ne!(still[0], still[1], "the memory has no effect");
    let moving = run(&[(1.0, 0.0), (1.1, 1.0), (1.2, 2.0)]);
    assert_eq!(still[0], moving[0]);
    assert_ne!(still[1], moving[1], "motion has no effect");
    let slower = run(&[(1.0, 0.0), (1.3, 1.0)]);
    assert_ne!(moving[1], slower[1], "time has no effect");
    // After a gap and after a jump back the memory is that of a first frame.
    let gap = run(&[(1.0, 0.0), (1.1, 1.0), (1.7, 9.0), (0.2, 3.0)]);
    assert_eq!((&gap[2], &gap[3]), (&still[0], &still[0]));
    // Where and when a drive starts has no effect.
    let elsewhere = run(&[(1e6, 5e3), (1e6 + 0.1, 5001.0), (1e6 + 0.2, 5002.0)]);
    for (a, b) in moving.iter().zip(&elsewhere) {
        assert!(max_difference(a, b) < 1e-4);
    }
}

#[test]
fn files_that_do_not_fit_are_refused_by_name() {
    let weights = Weights::random(&SMALL, 7);
    let other = |change: fn(&mut Sizes)| {
        let mut sizes = SMALL;
        change(&mut sizes);
        sizes
    };
    let options = EngineOptions { kind: EngineKind::Rten, ..EngineOptions::default() };
    let refusal = |file: usize, sizes: &Sizes, classes: usize| {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &SMALL, &weights, Form::AllLayers);
        let donor = tempfile::tempdir().unwrap();
        save(donor.path(), sizes, &Weights::random(sizes, 7), Form::AllLayers);
        std::fs::copy(donor.path().join(FILES[file]), folder.path().join(FILES[file])).unwrap();
        let refused = open(folder.path(), &options, classes).err();
        refused.map(|error| error.message().to_owned()).unwrap_or_default()
    };
    assert_eq!(refusal(0, &SMALL, 3), "");
    let more_cameras = other(|sizes| sizes.cameras = 3);
    let wider = other(|sizes| sizes.channels = 32);
    for (file, sizes, classes, part) in [
        (1, &more_cameras, 3, "intrinsics f32 [1, 3, 4, 4]"),
        (2, &more_cameras, 3, "x f32 [1, 3, 16, 2, 3]"),
        (2, &wider, 3, "pos_embed f32 [1, 12, 16]"),
        (0, &SMALL, 4, "all_cls_scores f32 [1, 3, 18] does not have 4 channels"),
    ] {
        let message = refusal(file, sizes, classes);
        assert!(message.contains(part), "{part}: {message}");
    }
}
