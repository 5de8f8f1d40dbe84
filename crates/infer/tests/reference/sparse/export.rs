//! `tools/export_sparse.py`: random checkpoints of every family, exported and
//! run, against what torch computes densely in f64.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use det_post_infer::sparse::{CpuEncoder, Dialect, GridAxes, Plan, load};
use det_post_infer::{Engine, RtenEngine};
use det_post_ops::decode::sites::{SiteTask, decode_sites};
use det_post_ops::sparse::conv::Precision;
use det_post_types::{
    Box3d, Candidate, Candidates, ElementType, Object3d, ScoreThresholds, SiteDecode, SizeOrder,
    Tensor, TensorValues, TensorView, YawConvention,
};
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

/// The Python with torch and spconv, for a further comparison.
fn spconv_python() -> Option<String> {
    std::env::var("DET_POST_SPCONV_PYTHON").ok()
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

/// What `voxelnext.py` writes beside a checkpoint.
#[derive(Deserialize)]
struct OnSites {
    grid: [u32; 3],
    coordinates: Vec<[i32; 3]>,
    features: Vec<f32>,
    /// Rows and columns.
    sites: Vec<[u32; 2]>,
    outputs: BTreeMap<String, Vec<f32>>,
    /// x y z l w h yaw vx vy score class.
    boxes: Vec<[f32; 11]>,
}

/// As `voxelnext.py` has them.
fn site_decode() -> SiteDecode {
    SiteDecode {
        origin_m: [-2.0, -3.0],
        cell_size_m: [0.8, 0.96],
        tasks: vec![vec![0], vec![1, 2]],
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(0.4, 3),
        yaw_norm_thresholds: Vec::new(),
        iou_weights: vec![0.68, 0.71, 0.65],
        center_range: None,
        has_velocity: true,
    }
}

/// The boxes of a network in the form of the reference, best first.
fn boxes(network: &CpuEncoder) -> Vec<[f32; 11]> {
    let outputs = &network.plan().network().site_outputs;
    let output = |name: String| {
        let position = outputs.iter().position(|output| output.name == name).unwrap();
        network.site_output(position).unwrap()
    };
    let tasks = [0, 1].map(|task| SiteTask {
        heatmap: output(format!("hm_{task}")),
        offset: output(format!("center_{task}")),
        height: output(format!("center_z_{task}")),
        size: output(format!("dim_{task}")),
        rotation: output(format!("rot_{task}")),
        velocity: Some(output(format!("vel_{task}"))),
        iou: Some(output(format!("iou_{task}"))),
    });
    let mut candidates = Candidates::with_capacity(10_000);
    decode_sites(&tasks, network.last_sites(), &site_decode(), &mut candidates).unwrap();
    candidates.finish(10_000);
    let row = |of: &Candidate<Object3d>| {
        let Box3d { center: [x, y, z], length_m, width_m, height_m, yaw_rad } = of.bbox.bbox;
        let [vx, vy] = of.bbox.velocity_mps.unwrap();
        [x, y, z, length_m, width_m, height_m, yaw_rad, vx, vy, of.score, of.class as f32]
    };
    candidates.as_slice().iter().map(row).collect()
}

#[test]
fn voxelnext_is_exported_and_decoded_as_torch_computes_it() {
    let Some(python) = python() else { return };
    for layout in ["spconv2", "spconv1", "spconv2-native"] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (checkpoint, file, reference) =
            (path("model.pth"), path("voxelnext.onnx"), path("reference.json"));
        let script = "crates/infer/tests/reference/sparse/voxelnext.py";
        run(&python, script, &[layout, &checkpoint, &reference]).unwrap();
        let expected: OnSites =
            serde_json::from_str(&std::fs::read_to_string(&reference).unwrap()).unwrap();
        let grid = expected.grid.map(|cells| cells.to_string());
        let [z, y, x] = grid.each_ref().map(String::as_str);
        let arguments = [&checkpoint, &file, "--grid", z, y, x, "--point-channels", "x y z i t"];
        run(&python, "tools/export_sparse.py", &arguments).unwrap();

        let network = load(Path::new(&file)).unwrap().network;
        assert_eq!(network.site_outputs.len(), expected.outputs.len());
        let capacities = network.default_capacities(usize::MAX);
        let plan = Plan::new(network, &capacities).unwrap();
        let mut encoder = CpuEncoder::new(plan, Precision::F32, 1).unwrap();
        let cells: Vec<_> = expected.coordinates.iter().map(|&[z, y, x]| [0, z, y, x]).collect();
        encoder.run_on_sites(&cells, &expected.features).unwrap();
        let columns = encoder.last_sites().grid().shape()[2];
        let sites: Vec<u32> = expected.sites.iter().map(|[y, x]| y * columns + x).collect();
        assert_eq!(encoder.last_sites().indices(), sites, "{layout}");
        let outputs = encoder.plan().network().site_outputs.clone();
        for (position, output) in outputs.iter().enumerate() {
            let found = encoder.site_output(position).unwrap();
            let context = format!("{layout} {}", output.name);
            assert_close(found, &expected.outputs[&output.name], &context);
        }
        if let Some(spconv) = spconv_python().filter(|_| layout == "spconv2") {
            let result = path("spconv.json");
            let script = "crates/infer/tests/reference/sparse/voxelnext_spconv.py";
            run(&spconv, script, &[&checkpoint, &reference, &result]).unwrap();
            let of_spconv: OnSites =
                serde_json::from_str(&std::fs::read_to_string(&result).unwrap()).unwrap();
            assert_eq!(of_spconv.sites, expected.sites, "sites of spconv");
            for (position, output) in outputs.iter().enumerate() {
                let found = encoder.site_output(position).unwrap();
                let context = format!("spconv {}", output.name);
                assert_close(found, &of_spconv.outputs[&output.name], &context);
            }
        }
        let mut expected = expected.boxes;
        let mut found = boxes(&encoder);
        // An overlap of 0 makes a score of 0: there are ties, which the two sides order by their own sources.
        let order = |a: &[f32; 11], b: &[f32; 11]| {
            let keys = |of: &[f32; 11]| [-of[9], of[10], of[0], of[1]];
            keys(a).partial_cmp(&keys(b)).unwrap()
        };
        expected.sort_by(order);
        found.sort_by(order);
        assert!(found.len() > 20, "{} boxes", found.len());
        assert_eq!(found.len(), expected.len(), "{layout}");
        assert_close(found.as_flattened(), expected.as_flattened(), layout);
    }
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

/// A network without one of its layers, or with a number for a list, would be another network.
#[test]
fn tensors_that_lack_or_do_not_fit_are_refused() {
    const DAMAGE: &str = "
import sys, torch
source, *damages = sys.argv[1:]
for damage in damages:
    path, name, change = damage.split('|')
    checkpoint = torch.load(source, weights_only=True)
    tensors = checkpoint['model_state']
    tensor = tensors.pop(name)
    if change != 'gone':
        tensors[name] = {'cut': tensor[..., :-1].clone(), 'one': tensor.sum(), 'nan': tensor * float('nan')}[change]
    torch.save(checkpoint, path)
";
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (checkpoint, file) = (path("model.pth"), path("voxelnext.onnx"));
    let script = "crates/infer/tests/reference/sparse/voxelnext.py";
    run(&python, script, &["spconv2", &checkpoint, &path("reference.json")]).unwrap();
    std::fs::write(path("damage.py"), DAMAGE).unwrap();
    let cases = [
        (
            "backbone_3d.conv2.1.bn2.running_mean",
            "cut",
            "conv2.1.bn2.running_mean is (7,); (8,) is expected",
        ),
        (
            "backbone_3d.conv1.0.bn2.running_mean",
            "one",
            "conv1.0.bn2.running_mean is (); (6,) is expected",
        ),
        (
            "backbone_3d.conv4.1.bn1.running_var",
            "nan",
            "conv4.1.bn1.running_var has values that are not finite",
        ),
        ("backbone_3d.conv1.0.bn2.weight", "gone", "conv1.0.bn2.weight is not in the checkpoint"),
        (
            "backbone_3d.conv1.0.conv2.weight",
            "gone",
            "conv1.0.conv2.bias belongs to no convolution that is read",
        ),
        ("dense_head.heads_list.1.hm.1.weight", "gone", "belongs to no convolution that is read"),
        (
            "backbone_3d.conv6.2.conv1.weight",
            "cut",
            "conv6.2.conv1 takes 11 channels where 12 come",
        ),
    ];
    let damages: Vec<String> = cases
        .iter()
        .enumerate()
        .map(|(at, (name, change, _))| format!("{}|{name}|{change}", path(&format!("{at}.pth"))))
        .collect();
    let arguments = std::iter::once(checkpoint.as_str()).chain(damages.iter().map(String::as_str));
    run(&python, &path("damage.py"), &arguments.collect::<Vec<_>>()).unwrap();
    for (at, (name, _, expected)) in cases.iter().enumerate() {
        let damaged = path(&format!("{at}.pth"));
        let arguments = [&damaged, &file, "--grid", "41", "96", "128"];
        let error = run(&python, "tools/export_sparse.py", &arguments).expect_err(name);
        assert!(error.contains(expected) && !error.contains("Traceback"), "{name}: {error}");
        assert!(!Path::new(&file).exists(), "{name}");
    }
}
