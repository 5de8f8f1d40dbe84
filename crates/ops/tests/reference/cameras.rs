//! Camera models against OpenCV, matrices against reference rigs.

use std::process::Command;

use det_post_types::{
    CameraCalibration, CameraModel, CameraView, PixelConvention, Placement, Size, Undistort,
    rounded_rows,
};
use nalgebra::{Isometry3, Matrix3, Matrix4, Rotation3, Vector3};
use serde_json::{Value, json};

use det_post_testing::require::{Need, skip};
use det_post_testing::shared_data::shared_data;

/// The furthest that a position may be from OpenCV's.
const MAX_PIXELS_APART: f64 = 0.01;

const SIZE: Size = Size::new(1600, 900);

const LENSES: [(&str, &[f64]); 8] = [
    ("plumb_bob", &[-0.31, 0.12, 0.0011, -0.0007, -0.021]),
    ("plumb_bob", &[0.12, -0.25, 0.0003, 0.0008, 0.1]),
    ("plumb_bob", &[-0.2, 0.05, 0.001, 0.002]),
    ("rational_polynomial", &[1.2, -0.4, 0.0004, -0.0003, 0.03, 1.5, -0.2, 0.05]),
    ("rational_polynomial", &[8.1, 4.2, 0.0001, -0.0002, 0.2, 8.5, 7.0, 1.3]),
    (
        "rational_polynomial",
        &[0.4, -0.2, 4e-4, -3e-4, 0.03, 0.7, -0.1, 0.05, 2e-3, -1e-3, 3e-3, 5e-4, 0.01, -0.02],
    ),
    ("equidistant", &[0.03, -0.012, 0.004, -0.0009]),
    ("equidistant", &[0.0, 0.0, 0.0, 0.0]),
];

fn row_by_row(matrix: &Matrix3<f64>) -> [f64; 9] {
    std::array::from_fn(|i| matrix[(i / 3, i % 3)])
}

fn calibrations() -> impl Iterator<Item = CameraCalibration> {
    let rotations = [[0.0; 3], [0.01, -0.02, 0.03], [-0.05, 0.1, 0.0]];
    LENSES.into_iter().flat_map(move |(model, distortion)| {
        rotations.map(|about| CameraCalibration {
            size: SIZE,
            distortion_model: model.into(),
            distortion: distortion.into(),
            intrinsics: [1266.0, 0.0, 800.5, 0.0, 1264.0, 449.25, 0.0, 0.0, 1.0],
            rectification: row_by_row(Rotation3::from_scaled_axis(Vector3::from(about)).matrix()),
            projection: [900.0, 0.0, 790.0, -300.0, 0.0, 905.0, 455.0, 0.0, 0.0, 0.0, 1.0, 0.0],
            binning: [1, 1],
            ..CameraCalibration::default()
        })
    })
}

#[test]
fn undistortion_reads_where_opencv_reads() {
    let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
        return skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
    };
    let pixels: Vec<[u32; 2]> = (0..SIZE.height)
        .step_by(29)
        .flat_map(|y| (0..SIZE.width).step_by(31).map(move |x| [x, y]))
        .collect();
    let case = |calibration: &CameraCalibration| {
        json!({
            "model": calibration.distortion_model,
            "size": [SIZE.width, SIZE.height],
            "k": calibration.intrinsics,
            "d": calibration.distortion,
            "r": calibration.rectification,
            "p": calibration.projection,
            "pixels": pixels,
        })
    };
    let cases: Vec<Value> = calibrations().map(|calibration| case(&calibration)).collect();
    let folder = tempfile::tempdir().unwrap();
    let [cases_path, out] = ["cases.json", "out.json"].map(|name| folder.path().join(name));
    std::fs::write(&cases_path, serde_json::to_string(&cases).unwrap()).unwrap();
    let status = Command::new(python)
        .current_dir(det_post_testing::workspace())
        .arg("tests/peers/undistortion.py")
        .args([&cases_path, &out])
        .status();
    assert!(status.unwrap().success());
    let positions: Vec<Vec<[f64; 2]>> =
        serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(positions.len(), cases.len());
    let mut furthest = 0.0_f64;
    for (calibration, positions) in calibrations().zip(positions) {
        let camera = CameraModel::new(&calibration).unwrap();
        let mut num_compared = 0;
        for (&[x, y], expected) in pixels.iter().zip(&positions) {
            let found = camera.raw_from_rectified([f64::from(x), f64::from(y)]);
            let Some(found) = found else { continue };
            let apart = (found[0] - expected[0]).hypot(found[1] - expected[1]);
            let model = &calibration.distortion_model;
            assert!(apart <= MAX_PIXELS_APART, "{model} {x} {y}: {found:?}, {expected:?}");
            furthest = furthest.max(apart);
            num_compared += 1;
        }
        // Only where a lens folds the image over is there no position.
        assert!(10 * num_compared > 8 * pixels.len(), "{calibration:?}: {num_compared}");
    }
    println!("positions are within {furthest:.5} px of OpenCV's");
}

/// A tensor of f32 in a safetensors file.
fn floats(path: &std::path::Path, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header: Value = serde_json::from_slice(header).unwrap();
    assert_eq!(header[name]["dtype"], "F32", "{name}");
    let at = |i: usize| header[name]["data_offsets"][i].as_u64().unwrap() as usize;
    let values = data[at(0)..at(1)].chunks_exact(4);
    values.map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect()
}

/// The reference rigs are six cameras of 1600x900, resized to the width of a network and cut at
/// the top. From the matrices of one network follow K and the pose of each camera; these give
/// the matrices of the same network again, to the precision of their f32 values, and K looks
/// like a camera's.
#[test]
fn matrices_are_those_of_the_reference_rigs() {
    let Some(data) = shared_data() else { return };
    let network = Size::new(368, 144);
    let path = data.join("surround/detr3d_c64/inputs.safetensors");
    let (intrinsics, matrices) = (floats(&path, "intrinsics"), floats(&path, "matrices"));
    assert_eq!((intrinsics.len(), matrices.len()), (6 * 9, 6 * 16));
    let scale = 0.23;
    for (k, m) in intrinsics.chunks_exact(9).zip(matrices.chunks_exact(16)) {
        let network_k = Matrix3::from_row_slice(k).cast::<f64>();
        let m = Matrix4::from_row_slice(m).cast::<f64>();
        // 1600x900 becomes 368x207, of which the lowest 144 rows are seen.
        let center = [network_k[(0, 2)] / scale, (network_k[(1, 2)] + 63.0) / scale];
        let (fx, fy) = (network_k[(0, 0)] / scale, network_k[(1, 1)] / scale);
        assert!((800.0..1300.0).contains(&fx) && (fy / fx - 1.001).abs() < 1e-4, "{fx} {fy}");
        assert!((center[0] - 800.0).abs() < 5.0 && (center[1] - 450.0).abs() < 5.0, "{center:?}");
        let camera = CameraModel::new(&CameraCalibration {
            size: SIZE,
            distortion_model: "plumb_bob".into(),
            distortion: vec![0.0; 5],
            intrinsics: [fx, 0.0, center[0], 0.0, fy, center[1], 0.0, 0.0, 1.0],
            binning: [1, 1],
            ..CameraCalibration::default()
        })
        .unwrap();
        let pose = network_k.to_homogeneous().try_inverse().unwrap() * m;
        let rotation = Rotation3::from_matrix(&pose.fixed_view::<3, 3>(0, 0).into_owned());
        let translation = pose.fixed_view::<3, 1>(0, 3).into_owned();
        let camera_from_base = Isometry3::from_parts(translation.into(), rotation.into());
        let (placement, convention) = (Placement::CropTop, PixelConvention::Trainer);
        let view = CameraView::new(&camera, Undistort::Auto, network, placement, convention);
        let found =
            rounded_rows(&view.image_from_base(&camera_from_base, &Isometry3::identity()), None);
        for (i, found) in found.into_iter().enumerate() {
            let expected = m[(i / 4, i % 4)];
            assert!((f64::from(found) - expected).abs() < 2e-3, "{i}: {found}, {expected}");
        }
        let found = view.intrinsics();
        assert!((found - network_k).abs().max() < 1e-9, "{found} {network_k}");
    }
}
