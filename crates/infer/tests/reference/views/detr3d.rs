//! DETR3D block by block and run through.

use std::sync::Arc;

use det_post_infer::view_decoder::detr3d::{CpuDecoder, Network, Start};
use det_post_ops::view::sample::{FeatureMaps, Projection};
use det_post_types::{AttentionResidual, Detr3d};

use super::{EXACT, SAMPLED, assert_selected, decoded_boxes};
use det_post_testing::view_cases::{Case, File, converted, detr3d, poison};
use det_post_testing::{Bounds, assert_near};

struct Decoder {
    case: Case,
    inputs: File,
    expected: File,
    maps: FeatureMaps,
    decoder: CpuDecoder,
}

impl Decoder {
    #[track_caller]
    fn open(name: &str, residual: AttentionResidual) -> Option<Self> {
        let case = Case::open(name)?;
        let (inputs, expected) = (case.file("inputs"), case.file("expected"));
        let start = Start {
            contents: inputs.f32s("query"),
            positions: inputs.f32s("query_pos"),
            references: inputs.rows("reference_points"),
        };
        let facts = Detr3d { attention_residual: residual, ..detr3d(name, &inputs) };
        let weights = case.file("weights");
        let network = Network::with_start(&weights.tensors(), facts, start).unwrap();
        let mut decoder = CpuDecoder::new(Arc::new(network));
        decoder.set_views(&inputs.views(&inputs)).unwrap();
        let maps = inputs.maps("", true);
        Some(Self { case, inputs, expected, maps, decoder })
    }

    fn num_blocks(&self) -> usize {
        self.decoder.network().blocks().len()
    }

    /// The stored queries and references before a block.
    fn set_state_before(&mut self, block: usize) {
        let (queries, references) = match block.checked_sub(1) {
            None => (self.inputs.f32s("query"), self.inputs.rows("reference_points")),
            Some(before) => (
                self.expected.f32s(&format!("layer{before}.ffn_norm")),
                self.expected.rows(&format!("layer{before}.ref")),
            ),
        };
        self.decoder.queries_mut().copy_from_slice(&queries);
        self.decoder.references_mut().copy_from_slice(&references);
    }

    fn check(&mut self, block: usize, step: &str, bounds: Bounds) {
        let name = format!("layer{block}.{step}");
        let found = match step {
            "gathered" => self.decoder.gathered().to_vec(),
            "reg" => self.decoder.deltas().as_flattened().to_vec(),
            "ref" => self.decoder.references_mut().as_flattened().to_vec(),
            _ => self.decoder.queries_mut().to_vec(),
        };
        assert_near(&found, &self.expected.f32s(&name), bounds, &name);
    }

    fn set_queries(&mut self, block: usize, step: &str) {
        let stored = self.expected.f32s(&format!("layer{block}.{step}"));
        self.decoder.queries_mut().copy_from_slice(&stored);
    }

    /// Runs a frame and compares logits and boxes.
    fn check_frame(&mut self, prefix: &str, [logits, boxes]: [Bounds; 2]) {
        let decoded = self.decoder.run(&self.maps).unwrap();
        let expected = |name: &str| self.expected.f32s(&format!("{prefix}{name}"));
        assert_near(decoded.logits, &expected("logits"), logits, &format!("{prefix}logits"));
        let found = decoded_boxes::<10>(decoded.boxes);
        // The reference has no velocity along z.
        let found: Vec<f32> = found.chunks_exact(10).flat_map(|b| b[..9].to_vec()).collect();
        assert_near(&found, &expected("boxes"), boxes, &format!("{prefix}boxes"));
    }
}

fn bounds(max: f32, p99: f32) -> Bounds {
    Bounds { max, p99 }
}

#[test]
fn steps_from_the_results_of_the_step_before() {
    let Some(mut golden) = Decoder::open("detr3d_c64", AttentionResidual::Query) else { return };
    for block in 0..golden.num_blocks() {
        golden.set_state_before(block);
        golden.decoder.attend(block).unwrap();
        golden.check(block, "mha_norm", EXACT);
        golden.set_queries(block, "mha_norm");
        golden.decoder.sample_views(block, &golden.maps).unwrap();
        golden.check(block, "gathered", SAMPLED);
        golden.check(block, "svca_norm", SAMPLED);
        golden.set_queries(block, "svca_norm");
        golden.decoder.feed_forward(block).unwrap();
        golden.check(block, "ffn_norm", EXACT);
        golden.set_queries(block, "ffn_norm");
        golden.decoder.refine(block).unwrap();
        golden.check(block, "reg", EXACT);
        golden.check(block, "ref", EXACT);
    }
}

#[test]
fn blocks_from_the_results_of_the_block_before() {
    for name in ["detr3d_c64", "detr3d_c256"] {
        let Some(mut golden) = Decoder::open(name, AttentionResidual::Query) else { return };
        for block in 0..golden.num_blocks() {
            golden.set_state_before(block);
            golden.decoder.attend(block).unwrap();
            golden.check(block, "mha_norm", EXACT);
            golden.decoder.sample_views(block, &golden.maps).unwrap();
            golden.check(block, "svca_norm", SAMPLED);
            golden.decoder.feed_forward(block).unwrap();
            golden.check(block, "ffn_norm", SAMPLED);
            golden.decoder.refine(block).unwrap();
            golden.check(block, "ref", SAMPLED);
        }
    }
}

#[test]
fn the_views_that_see_a_reference_are_equal() {
    for name in ["detr3d_c64", "detr3d_c256"] {
        let Some(mut golden) = Decoder::open(name, AttentionResidual::Query) else { return };
        let facts = golden.decoder.network().facts().clone();
        let views = golden.inputs.views(&golden.inputs);
        let projections: Vec<Projection> =
            views.iter().map(|view| view.projection().unwrap()).collect();
        for block in 0..golden.num_blocks() {
            golden.set_state_before(block);
            let references = golden.decoder.references_mut().to_vec();
            let mut points = references.clone();
            det_post_ops::view::refine::reference_points(&references, &facts.range, &mut points)
                .unwrap();
            let seen: Vec<bool> = projections
                .iter()
                .flat_map(|view| points.iter().map(|&p| view.project(p, facts.min_depth_m).is_seen))
                .collect();
            assert_eq!(
                seen,
                golden.expected.masks(&format!("layer{block}.seen")),
                "{name} {block}"
            );
        }
    }
}

/// Five times the errors of f32 in the reference itself.
#[test]
fn frames_run_through() {
    let Some(mut golden) = Decoder::open("detr3d_c64", AttentionResidual::Query) else { return };
    golden.check_frame("", [bounds(7.5e-3, 1.25e-3), bounds(3e-3, 6.5e-4)]);
    assert_selected(&golden.case.json("selected.json"), &golden.expected.f32s("logits"), 10);
    // The second frame does not depend on the first.
    let first = golden.decoder.run(&golden.maps).unwrap().logits.to_vec();
    assert_eq!(golden.decoder.run(&golden.maps).unwrap().logits, first);

    let Some(mut golden) = Decoder::open("detr3d_c256", AttentionResidual::Query) else { return };
    golden.check_frame("", [bounds(3.5e-4, 2e-5), bounds(2.7e-4, 4e-5)]);
    assert_selected(&golden.case.json("selected.json"), &golden.expected.f32s("logits"), 10);
}

#[test]
fn the_residual_of_the_attention_may_include_the_position() {
    for (name, limits) in [
        ("detr3d_c64", [bounds(7.5e-3, 1.25e-3), bounds(3e-3, 6.5e-4)]),
        ("detr3d_c256", [bounds(3.5e-4, 2e-5), bounds(2.7e-4, 4e-5)]),
    ] {
        let residual = AttentionResidual::QueryWithPosition;
        let Some(mut golden) = Decoder::open(name, residual) else { return };
        golden.check_frame("residual_with_position.", limits);
    }
}

#[test]
fn cameras_that_see_nothing_are_not_read() {
    for name in ["detr3d_c64", "detr3d_c256"] {
        let Some(mut golden) = Decoder::open(name, AttentionResidual::Query) else { return };
        let masked = golden.case.file("all_masked");
        golden.decoder.set_views(&golden.inputs.views(&masked)).unwrap();
        poison(&mut golden.maps, |_| true);
        golden.expected = masked;
        golden.check_frame("", [bounds(1e-4, 5e-5), bounds(1e-4, 5e-5)]);
    }
}

#[test]
fn a_missing_view_changes_no_byte() {
    let Some(mut golden) = Decoder::open("detr3d_c64", AttentionResidual::Query) else { return };
    let all = golden.decoder.run(&golden.maps).unwrap().logits.to_vec();
    let mut views = golden.inputs.views(&golden.inputs);
    views[2].is_present = false;
    golden.decoder.set_views(&views).unwrap();
    let without = golden.decoder.run(&golden.maps).unwrap().logits.to_vec();
    assert_ne!(without, all);
    poison(&mut golden.maps, |view| view == 2);
    let poisoned = golden.decoder.run(&golden.maps).unwrap().logits.to_vec();
    assert_eq!(poisoned, without);
}

/// Maps of halves are exact here; integers of 127 steps lose what their step says.
#[test]
fn maps_of_halves_and_of_integers() {
    let Some(mut golden) = Decoder::open("detr3d_c256", AttentionResidual::Query) else { return };
    let singles = golden.decoder.run(&golden.maps).unwrap().logits.to_vec();
    let halves = converted(&golden.maps, false);
    assert_eq!(golden.decoder.run(&halves).unwrap().logits, singles);
    let integers = converted(&golden.maps, true);
    let found = golden.decoder.run(&integers).unwrap().logits.to_vec();
    assert_ne!(found, singles);
    assert_near(&found, &singles, bounds(0.06, 0.04), "integers");
}
