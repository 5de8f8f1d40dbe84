//! The decoder of `training/view_network.py`, exported, against what torch computes with
//! it: the network that is trained is the one that is served.

use std::path::Path;
use std::process::Command;

use det_post::config::{ChannelKind, Config, SurroundKind};
use det_post_infer::view_decoder::{CpuViewDecoder, load};
use det_post_types::{Motion, ViewDecoder};

use crate::common::require::{Need, skip};
use crate::common::view_cases::File;
use det_post_testing::{Bounds, assert_near};

/// The decoder of the shipped head.
fn facts() -> ViewDecoder {
    let parameters =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("config/demo_surround_3d.param.yaml");
    let config = Config::load(&[parameters], &[]).unwrap();
    let ChannelKind::Surround(surround) = &config.channels[0].kind else { panic!("{config:?}") };
    let SurroundKind::Views(views) = &surround.facts.kind else { panic!("{surround:?}") };
    assert_eq!(views.level_strides, [8, 16, 32]);
    views.decoder.clone()
}

#[test]
fn three_frames_of_the_trained_decoder_are_those_of_torch() {
    let Ok(python) = std::env::var("DET_POST_TORCH_PYTHON") else {
        return skip(Need::Torch, format_args!("DET_POST_TORCH_PYTHON names no Python"));
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (checkpoint, reference) = (path("model.pth"), path("reference.safetensors"));
    let weights = path("decoder.safetensors");
    for arguments in [
        ["tests/detectors/trained_decoder.py", &checkpoint, &reference],
        ["tools/export_view_decoder.py", &checkpoint, &weights],
        ["training/export_view.py", &checkpoint, &path("")],
    ] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(arguments[0]);
        let output = Command::new(&python).arg(script).args(&arguments[1..]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let expected = File::open(&reference);
    let network = load(Path::new(&weights), &facts()).unwrap();
    // The demo's decoder is the same in f16.
    load(Path::new(&path("surround_decoder.safetensors")), &facts()).unwrap();
    let mut decoder = CpuViewDecoder::new(&network);
    decoder.set_views(&expected.views(&expected)).unwrap();
    let rows = expected.rows::<3>("current_from_past");
    let row = |row: usize| [rows[row][0], rows[row][1], 0.0, rows[row][2]];
    let current_from_past = [row(0), row(1), [0.0, 0.0, 1.0, 0.0]];
    let motion = Motion { interval_s: 0.3, current_from_past };
    for frame in 0..3 {
        let maps = expected.maps(&format!("frame{frame}."), false);
        let decoded = decoder.run(&maps, (frame > 0).then_some(&motion)).unwrap();
        let check = |found: &[f32], what: &str| {
            let bounds = Bounds { max: 2e-3, p99: 1e-4 };
            let name = format!("frame{frame}.{what}");
            assert_near(found, &expected.f32s(&name), bounds, &name);
        };
        check(decoded.logits, "logits");
        check(decoded.boxes.as_flattened(), "boxes");
    }
}
