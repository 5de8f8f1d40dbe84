//! `tools/export_sparse.py`: random checkpoints of every family, exported and
//! run, against what torch computes densely in f64.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use det_post_infer::sparse::{CpuEncoder, Dialect, GridAxes, Plan, load};
use det_post_infer::{Engine, RtenEngine};
use det_post_ops::sparse::conv::Precision;
use det_post_types::{ElementType, Tensor, TensorValues, TensorView};
use serde::Deserialize;

use det_post_testing::assert_close;
use det_post_testing::require::{Need, skip};

/// What `checkpoint.py` writes beside a checkpoint.
#[derive(Deserialize)]
struct Reference {
    /// Cells of the voxels, z y x.
    coordinates: Vec<[i32; 3]>,
    features: Vec<f32>,
    map_shape: Vec<usize>,
    map: Vec<f32>,
    /// Of the 2D network, by name.
    outputs: BTreeMap<String, Vec<f32>>,
}

/// The Python with torch, or a skipped test.
#[track_caller]
fn python() -> Option<String> {
    let python = std::env::var("DET_POST_TORCH_PYTHON").ok();
    if python.is_none() {
        skip(Need::Torch, format_args!("DET_POST_TORCH_PYTHON names no Python"));
    }
    python
}

/// Runs a script of this repository; what it wrote to stderr where it fails.
fn run(python: &str, script: &str, arguments: &[&str]) -> Result<(), String> {
    let path = det_post_testing::workspace().join(script);
    let output = Command::new(python).arg(path).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(text) }
}

/// Makes a checkpoint of a grid z y x by a script, exports it and runs it.
fn check(python: &str, script: &str, family: Option<&str>, grid: [&str; 3], axes: GridAxes) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (checkpoint, encoder) = (path("model.pth"), path("encoder.scn.onnx"));
    let (reference, dense) = (path("reference.json"), path("dense.onnx"));
    let made = family.into_iter().chain([checkpoint.as_str(), &reference]).collect::<Vec<_>>();
    run(python, script, &made).unwrap();
    let family = family.unwrap_or(script);
    let names = ["--point-channels", "x y z intensity time_lag"];
    let files = [checkpoint.as_str(), &encoder, "--dense", &dense];
    let arguments = [&files[..], &["--grid"], &grid, &names].concat();
    run(python, "tools/export_sparse.py", &arguments).unwrap();

    let file = load(Path::new(&encoder)).unwrap();
    assert_eq!((file.dialect, file.network.axes), (Dialect::Scn, axes), "{family}");
    assert_eq!(file.point_channels.unwrap()[4], "time_lag");
    let expected: Reference =
        serde_json::from_str(&std::fs::read_to_string(&reference).unwrap()).unwrap();
    let order = axes.of_zyx();
    let coordinates: Vec<[i32; 4]> = expected
        .coordinates
        .iter()
        .map(|zyx| [0, zyx[order[0]], zyx[order[1]], zyx[order[2]]])
        .collect();
    let shape = file.network.map_shape();
    assert_eq!(shape[..], expected.map_shape, "{family}");
    let capacities = file.network.default_capacities(usize::MAX);
    let plan = Plan::new(file.network, &capacities).unwrap();
    let mut map = Tensor::zeros(ElementType::F32, &shape).unwrap();
    let mut encoder = CpuEncoder::new(plan, Precision::F32, 1).unwrap();
    encoder.run(&coordinates, &expected.features, &mut map).unwrap();
    let Tensor::F32 { values, .. } = &map else { panic!("{map:?}") };
    assert_close(values, &expected.map, family);

    let mut network = RtenEngine::load(Path::new(&dense), Some(1)).unwrap();
    network.run(&[TensorView::new(&shape, TensorValues::F32(&expected.map)).unwrap()]).unwrap();
    let names: Vec<String> = network.outputs().iter().map(|output| output.name.clone()).collect();
    assert_eq!(names.len(), expected.outputs.len(), "{family}: {names:?}");
    for (at, name) in names.iter().enumerate() {
        let output = network.output(at).unwrap();
        let TensorValues::F32(values) = output.values() else { panic!("{name}") };
        assert_close(values, &expected.outputs[name], &format!("{family} {name}"));
    }
}

#[test]
fn exported_checkpoints_compute_what_torch_computes() {
    let Some(python) = python() else { return };
    for (family, axes) in [
        ("openpcdet_res", GridAxes::Zyx),
        ("openpcdet_plain", GridAxes::Zyx),
        ("det3d", GridAxes::Zyx),
        ("mmdet3d_basicblock", GridAxes::Zyx),
        ("mmdet3d_conv_module", GridAxes::Zyx),
        ("bevfusion", GridAxes::Xyz),
    ] {
        check(
            &python,
            "crates/infer/tests/reference/sparse/checkpoint.py",
            Some(family),
            ["41", "16", "32"],
            axes,
        );
    }
}

#[test]
fn the_voxel_network_of_training_is_exported_as_torch_computes_it() {
    let Some(python) = python() else { return };
    check(
        &python,
        "crates/infer/tests/reference/sparse/voxel_network.py",
        None,
        ["41", "32", "32"],
        GridAxes::Zyx,
    );
}

#[test]
fn what_the_exporter_cannot_know_is_asked_for() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (checkpoint, encoder) = (path("model.pth"), path("encoder.scn.onnx"));
    let dense = path("dense.onnx");
    run(
        &python,
        "crates/infer/tests/reference/sparse/checkpoint.py",
        &["det3d", &checkpoint, &path("r.json")],
    )
    .unwrap();
    let export = |more: &[&str]| {
        let grid = ["--grid", "41", "16", "32"];
        let arguments = [&[checkpoint.as_str(), &encoder][..], &grid, more].concat();
        run(&python, "tools/export_sparse.py", &arguments)
    };
    for (more, expected) in [
        (&["--point-channels", "x y z"][..], "3 point channels are named, the encoder takes 5"),
        (&["--down-padding", "1,1,1"], "--down-padding: 3 times Z,Y,X are expected"),
        (&["--grid", "3", "16", "32"], "nothing is left of a grid"),
        (&["--dense", &dense, "--dense-strides", "1"], "--dense-strides: 2 numbers are expected"),
        (&["--dense", &dense, "--dense-strides", "1", "4"], "is not divided by strides of 4"),
        (&["--layout", "spconv2"], "--layout spconv2 does not fit"),
    ] {
        let error = export(more).expect_err(expected);
        assert!(error.contains(expected) && !error.contains("Traceback"), "{error}");
    }
    std::fs::write(&checkpoint, b"no pickle").unwrap();
    let error = export(&[]).unwrap_err();
    assert!(error.contains("cannot be loaded with weights_only"), "{error}");
}
