//! Files of weights and random networks, without reference data.

use det_post_infer::view_decoder::{CpuViewDecoder, ViewNetwork, load, parse};
use det_post_ops::view::sample::FeatureMaps;
use det_post_types::ErrorKind;
use det_post_types::{CachedYaw, Motion, QueryBox, ViewDecoder};
use proptest::prelude::*;

use det_post_testing::view_cases::poison;
use det_post_testing::view_networks::{
    StateDict, detr3d, detr3d_facts, sparse4d, sparse4d_facts, two_maps, two_views,
};

fn families() -> [(StateDict, ViewDecoder); 2] {
    [
        (detr3d(&detr3d_facts()), ViewDecoder::Detr3d(detr3d_facts())),
        (sparse4d(&sparse4d_facts()), ViewDecoder::Sparse4d(sparse4d_facts())),
    ]
}

#[track_caller]
fn refusal(dict: &StateDict, facts: &ViewDecoder) -> String {
    let error = parse(&dict.to_safetensors(), facts).unwrap_err();
    assert!([ErrorKind::Model, ErrorKind::Argument].contains(&error.kind()), "{error}");
    error.message().to_owned()
}

#[test]
fn every_tensor_is_needed_in_its_shape() {
    for (dict, facts) in families() {
        parse(&dict.to_safetensors(), &facts).unwrap();
        for index in 0..dict.tensors.len() {
            let name = dict.tensors[index].0.clone();
            let mut other = dict.clone();
            other.tensors.remove(index);
            let message = refusal(&other, &facts);
            assert!(message.contains(&format!("{name} is missing")), "{name}: {message}");

            // A part of them, for the time that it takes.
            if index % 5 != 0 {
                continue;
            }
            let mut other = dict.clone();
            let (_, shape, values) = &mut other.tensors[index];
            shape.push(2);
            *values = values.repeat(2);
            let message = refusal(&other, &facts);
            assert!(message.contains(&name), "{name}: {message}");

            let mut other = dict.clone();
            other.tensors[index].2[0] = f32::NAN;
            let message = refusal(&other, &facts);
            assert!(message.contains(&format!("1 values of tensor {name} are NaN")), "{message}");
        }
        let mut more = dict.clone();
        more.tensors.push(("further.weight".into(), vec![1], vec![0.0]));
        let message = refusal(&more, &facts);
        assert_eq!(message, "unexpected tensors: further.weight");
        more.tensors.extend((0..20).map(|i| (format!("g{i:02}"), vec![], vec![0.0])));
        assert!(refusal(&more, &facts).ends_with(", g06 and 13 more"));
    }
}

#[test]
fn facts_have_to_fit_each_other_and_the_file() {
    let dict = detr3d(&detr3d_facts());
    let with = |change: fn(&mut det_post_types::Detr3d)| {
        let mut facts = detr3d_facts();
        change(&mut facts);
        refusal(&dict, &ViewDecoder::Detr3d(facts))
    };
    for message in [
        with(|facts| facts.num_heads = 3),
        with(|facts| facts.num_blocks = 0),
        with(|facts| facts.min_depth_m = f32::NAN),
        with(|facts| facts.range.max[1] = -40.0),
    ] {
        assert!(message.starts_with("these facts contradict each other"), "{message}");
    }
    assert!(
        with(|facts| facts.num_queries = 13).contains("query_embedding.weight is F32 [12, 32]")
    );
    assert!(with(|facts| facts.num_levels = 3).contains("attention_weights.weight"));
    assert!(with(|facts| facts.num_blocks = 3).contains("layers.2"));
    assert!(with(|facts| facts.num_classes = 4).contains("cls_branches.1.6.weight"));

    let dict = sparse4d(&sparse4d_facts());
    let with = |change: fn(&mut det_post_types::Sparse4d)| {
        let mut facts = sparse4d_facts();
        change(&mut facts);
        refusal(&dict, &ViewDecoder::Sparse4d(facts))
    };
    for message in [
        with(|facts| facts.num_cached = facts.num_anchors),
        with(|facts| facts.num_single_frame_blocks = 3),
        with(|facts| facts.num_groups = 5),
        with(|facts| facts.confidence_decay = 1.5),
        with(|facts| facts.default_interval_s = 0.0),
    ] {
        assert!(message.starts_with("these facts contradict each other"), "{message}");
    }
    assert!(with(|facts| facts.num_groups = 4).contains("weights_fc.weight"));
    assert!(with(|facts| facts.has_quality = false).contains("quality_layers"));
    let message = with(|facts| facts.num_single_frame_blocks = 2);
    assert!(message.contains("layers."), "{message}");
}

#[test]
fn files_are_named_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let (dict, facts) = &families()[0];
    let path = folder.path().join("weights.safetensors");
    assert_eq!(load(&path, facts).unwrap_err().kind(), ErrorKind::Io);
    std::fs::write(&path, dict.to_safetensors()).unwrap();
    assert_eq!(load(&path, facts).unwrap().map_sizes(), [2, 2, 16]);
    std::fs::write(&path, &dict.to_safetensors()[..1000]).unwrap();
    let error = load(&path, facts).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.message().contains("weights.safetensors: safetensors: "), "{error}");
}

type Results = (Vec<f32>, Vec<QueryBox>, Option<Vec<[f32; 2]>>);

fn run(decoder: &mut CpuViewDecoder, maps: &FeatureMaps, motion: Option<&Motion>) -> Results {
    let decoded = decoder.run(maps, motion).unwrap();
    let all = [decoded.logits, decoded.boxes.as_flattened()].concat();
    assert!(all.iter().all(|x| x.is_finite()));
    (decoded.logits.to_vec(), decoded.boxes.to_vec(), decoded.quality.map(<[_]>::to_vec))
}

fn decoder(network: &ViewNetwork) -> CpuViewDecoder {
    let mut decoder = CpuViewDecoder::new(network);
    decoder.set_views(&two_views()).unwrap();
    decoder
}

fn motion() -> Motion {
    Motion {
        interval_s: 0.1,
        current_from_past: [[1.0, 0.0, 0.0, -0.4], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
    }
}

#[test]
fn both_families_decode_what_they_see() {
    for (dict, facts) in families() {
        let network = parse(&dict.to_safetensors(), &facts).unwrap();
        let mut decoder = decoder(&network);
        let seen = run(&mut decoder, &two_maps(1), None);
        assert_eq!(run(&mut decoder, &two_maps(1), None), seen);
        assert_ne!(run(&mut decoder, &two_maps(2), None), seen, "other maps, other boxes");
        let mut blind = CpuViewDecoder::new(&network);
        let unseen = run(&mut blind, &two_maps(1), None);
        assert_ne!(unseen, seen);
        assert_eq!(run(&mut blind, &two_maps(2), None), unseen);

        // A view that is missing is not read, in any frame.
        let mut views = two_views();
        views[1].is_present = false;
        decoder.set_views(&views).unwrap();
        let mut poisoned = two_maps(1);
        poison(&mut poisoned, |view| view == 1);
        for motion in [None, Some(motion()), Some(motion())] {
            let clean = run(&mut decoder.clone(), &two_maps(1), motion.as_ref());
            assert_eq!(run(&mut decoder, &poisoned, motion.as_ref()), clean);
        }
    }
}

#[test]
fn what_does_not_fit_a_decoder_is_refused_and_memory_forgotten() {
    for (dict, facts) in families() {
        let network = parse(&dict.to_safetensors(), &facts).unwrap();
        let mut decoder = decoder(&network);
        assert!(decoder.set_views(&two_views()[..1]).is_err());
        let mut views = two_views();
        views[0].pixels_from_base[2][3] = f64::NAN;
        assert!(decoder.set_views(&views).is_err());
        decoder.set_views(&two_views()).unwrap();
        let first = run(&mut decoder, &two_maps(1), None);
        let levels = two_maps(1).levels()[..1].to_vec();
        let short = FeatureMaps::new(2, 16, levels).unwrap();
        let error = decoder.run(&short, Some(&motion())).unwrap_err();
        assert_eq!(
            error.message(),
            "maps of 2 views, 1 levels and 16 channels; the network has 2, 2 and 16"
        );
        assert_eq!(run(&mut decoder, &two_maps(1), Some(&motion())), first);
    }
}

#[test]
fn the_order_of_the_cached_yaw_is_a_fact() {
    let dict = sparse4d(&sparse4d_facts()).to_safetensors();
    let second_frame = |cached_yaw| {
        let facts = det_post_types::Sparse4d { cached_yaw, ..sparse4d_facts() };
        let network = parse(&dict, &ViewDecoder::Sparse4d(facts)).unwrap();
        let mut decoder = decoder(&network);
        let first = run(&mut decoder, &two_maps(1), None);
        (first, run(&mut decoder, &two_maps(2), Some(&motion())))
    };
    let (swapped, kept) = (second_frame(CachedYaw::CosSin), second_frame(CachedYaw::SinCos));
    assert_eq!(swapped.0, kept.0);
    assert_ne!(swapped.1, kept.1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A damaged file is refused, or holds numbers of the right number.
    #[test]
    fn damaged_files_do_not_panic(
        edits in prop::collection::vec((0_usize..60_000, any::<u8>()), 1..8), cut in 0_usize..90_000,
    ) {
        for (dict, facts) in families() {
            let mut bytes = dict.to_safetensors();
            for &(at, value) in &edits {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            if cut < 30_000 {
                bytes.truncate(cut);
            }
            if let Ok(network) = parse(&bytes, &facts) {
                let mut decoder = CpuViewDecoder::new(&network);
                decoder.set_views(&two_views()).unwrap();
                decoder.run(&two_maps(1), None).unwrap();
            }
        }
    }
}
