use nalgebra::Rotation3;
use proptest::prelude::*;

use super::*;

const PLUMB_BOB: [f64; 5] = [-0.31, 0.12, 0.0011, -0.0007, -0.021];
const RATIONAL: [f64; 8] = [1.2, -0.4, 0.0004, -0.0003, 0.03, 1.5, -0.2, 0.05];
const TILTED: [f64; 14] =
    [0.4, -0.2, 0.0004, -0.0003, 0.03, 0.7, -0.1, 0.05, 0.002, -0.001, 0.003, 0.0005, 0.01, -0.02];
const EQUIDISTANT: [f64; 4] = [0.03, -0.012, 0.004, -0.0009];

const MODELS: [(&str, &[f64]); 5] = [
    ("plumb_bob", &PLUMB_BOB),
    ("plumb_bob", &[-0.2, 0.05, 0.001, 0.002]),
    ("rational_polynomial", &RATIONAL),
    ("rational_polynomial", &TILTED),
    ("equidistant", &EQUIDISTANT),
];

fn calibration(model: &str, coefficients: &[f64]) -> CameraCalibration {
    CameraCalibration {
        frame_id: "camera".into(),
        size: Size::new(1600, 900),
        distortion_model: model.into(),
        distortion: coefficients.into(),
        intrinsics: [1266.0, 0.0, 800.5, 0.0, 1264.0, 449.25, 0.0, 0.0, 1.0],
        rectification: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        projection: [1100.0, 0.0, 790.0, 0.0, 0.0, 1105.0, 455.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        binning: [1, 1],
        region: [0; 4],
    }
}

fn rotation(about: [f64; 3]) -> [f64; 9] {
    let matrix = Rotation3::from_scaled_axis(Vector3::from(about)).into_inner();
    std::array::from_fn(|i| matrix[(i / 3, i % 3)])
}

/// Made with OpenCV 5.0.0: `initUndistortRectifyMap`, of `fisheye` for `equidistant`.
#[test]
fn pixels_are_those_of_opencv() {
    let none = [0.0; 3];
    let cases: [([f64; 3], [[f64; 2]; 5]); 5] = [
        (
            none,
            [
                [38.6515, 14.4399],
                [1573.4761, 17.7973],
                [810.8575, 442.3871],
                [1576.446, 873.8286],
                [108.3789, 608.8548],
            ],
        ),
        (
            none,
            [
                [-0.3506, -9.314],
                [1626.5573, -10.607],
                [810.8585, 442.3867],
                [1629.0272, 901.1121],
                [86.4076, 614.1644],
            ],
        ),
        (
            [0.01, -0.02, 0.03],
            [
                [45.2068, 45.7571],
                [1588.7782, 0.2325],
                [836.1532, 454.3377],
                [1617.8206, 863.7669],
                [133.2884, 641.1714],
            ],
        ),
        (
            none,
            [
                [65.586, 31.1715],
                [1566.4279, 25.2223],
                [810.8612, 442.3883],
                [1574.0903, 874.2094],
                [117.8182, 607.967],
            ],
        ),
        (
            [-0.01, 0.005, 0.0],
            [
                [24.6615, -2.4802],
                [1578.4138, 0.7952],
                [804.5284, 429.747],
                [1577.6172, 865.4012],
                [99.484, 597.7372],
            ],
        ),
    ];
    let pixels = [[0.0, 0.0], [1599.0, 0.0], [799.0, 449.0], [1599.0, 899.0], [120.0, 610.0]];
    for ((model, coefficients), (about, expected)) in MODELS.into_iter().zip(cases) {
        let rectification = rotation(about);
        let calibration = CameraCalibration { rectification, ..calibration(model, coefficients) };
        let camera = CameraModel::new(&calibration).unwrap();
        assert!(camera.is_distorted());
        for (pixel, expected) in pixels.into_iter().zip(expected) {
            let found = camera.raw_from_rectified(pixel).unwrap();
            let distance = (found[0] - expected[0]).hypot(found[1] - expected[1]);
            // OpenCV stores its map as f32.
            assert!(distance < 5e-4, "{model} {pixel:?}: {found:?}, OpenCV {expected:?}");
        }
    }
}

#[test]
fn zero_coefficients_are_a_pinhole_except_of_a_fisheye() {
    for (model, number) in [("", 0), ("none", 0), ("plumb_bob", 5), ("rational_polynomial", 14)] {
        let camera = CameraModel::new(&calibration(model, &vec![0.0; number])).unwrap();
        assert!(!camera.is_distorted());
        assert_eq!(camera.distort([0.5, -0.25]), Some([1266.0 * 0.5 + 800.5, 133.25]));
    }
    let fisheye = CameraModel::new(&calibration("equidistant", &[0.0; 4])).unwrap();
    assert!(fisheye.is_distorted());
    let [x, y] = fisheye.distort([1.0, 0.0]).unwrap();
    assert!((x - 800.5 - 1266.0 * std::f64::consts::FRAC_PI_4).abs() < 1e-9 && y == 449.25);
}

#[test]
fn rays_beyond_the_range_of_a_model_have_no_pixel() {
    // The distance r - 0.3 r³ from the centre stops growing at r = 1.054.
    let camera = CameraModel::new(&calibration("plumb_bob", &[-0.3, 0.0, 0.0, 0.0])).unwrap();
    assert!(camera.distort([1.04, 0.0]).is_some());
    assert_eq!(camera.distort([1.1, 0.0]), None);
    assert_eq!(camera.distort([-2.0, 2.0]), None);
    // No ray arrives farther out than 0.7027 focal lengths.
    let pixel = |x: f64| [camera.raw().pixel_of([x, 0.0])[0], camera.raw().center[1]];
    assert!(camera.undistort(pixel(0.70)).is_some());
    assert_eq!(camera.undistort(pixel(0.71)), None);
    assert_eq!(camera.distort([f64::NAN, 0.0]), None);
}

#[test]
fn region_and_binning_shift_and_scale_both_projections() {
    let whole = calibration("plumb_bob", &PLUMB_BOB);
    let region = [100, 50, 1200, 800];
    let part = CameraCalibration { region, binning: [2, 4], ..whole.clone() };
    let (whole, part) = (CameraModel::new(&whole).unwrap(), CameraModel::new(&part).unwrap());
    assert_eq!(part.image_size(), Size::new(600, 200));
    for ray in [[0.0, 0.0], [0.3, -0.2]] {
        let [x, y] = whole.distort(ray).unwrap();
        let [u, v] = part.distort(ray).unwrap();
        assert!((u - (x - 100.0) / 2.0).abs() < 1e-9 && (v - (y - 50.0) / 4.0).abs() < 1e-9);
        let [x, y] = whole.rectified().pinhole.pixel_of(ray);
        let [u, v] = part.rectified().pinhole.pixel_of(ray);
        assert!((u - (x - 100.0) / 2.0).abs() < 1e-9 && (v - (y - 50.0) / 4.0).abs() < 1e-9);
    }
}

#[test]
fn without_p_the_rectified_image_has_k() {
    let rectification = rotation([0.1, 0.0, 0.0]);
    let good = CameraCalibration {
        projection: [0.0; 12],
        rectification,
        ..calibration("plumb_bob", &PLUMB_BOB)
    };
    let camera = CameraModel::new(&good).unwrap();
    assert_eq!(camera.rectified().pinhole, camera.raw());
    assert_eq!(camera.rectified().rotation, Matrix3::identity());
}

#[test]
fn images_of_another_size_or_frame_are_refused() {
    let camera = CameraModel::new(&calibration("", &[])).unwrap();
    let size = Size::new(1600, 900);
    assert!(camera.check_image("camera", size).is_ok());
    for (frame, size, part) in [
        ("camera", Size::new(800, 450), "the image has 800x450 pixels, its calibration is for"),
        ("other", size, "the image is of frame \"other\", its calibration is of \"camera\""),
    ] {
        let error = camera.check_image(frame, size).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CalibrationMismatch);
        assert!(error.message().contains(part), "{error}");
    }
    let unnamed = CameraCalibration { frame_id: String::new(), ..calibration("", &[]) };
    assert!(CameraModel::new(&unnamed).unwrap().check_image("other", size).is_ok());
}

#[test]
fn unusable_calibrations_are_refused_by_name() {
    let good = calibration("plumb_bob", &PLUMB_BOB);
    let with_k = |index: usize, value: f64| {
        let mut bad = good.clone();
        bad.intrinsics[index] = value;
        bad
    };
    let with_p = |index: usize, value: f64| {
        let mut bad = good.clone();
        bad.projection[index] = value;
        bad
    };
    let with_r = |index: usize, value: f64| {
        let mut bad = good.clone();
        bad.rectification[index] = value;
        bad
    };
    let with_size =
        |width, height| CameraCalibration { size: Size::new(width, height), ..good.clone() };
    let with_region = |region| CameraCalibration { region, ..good.clone() };
    let uncalibrated = ErrorKind::Uncalibrated;
    for (name, bad) in [
        ("K", CameraCalibration { intrinsics: [0.0; 9], ..good.clone() }),
        ("K", with_k(0, f64::NAN)),
        ("K", with_k(0, -1266.0)),
        ("K", with_k(4, 1e12)),
        ("K", with_k(4, 1e-300)),
        ("K", with_k(2, f64::INFINITY)),
        ("K", with_k(1, 3.0)),
        ("K", with_k(8, 0.0)),
        ("of P", with_p(0, 0.0)),
        ("of P", with_p(6, f64::NAN)),
        ("R is", with_r(0, -1.0)),
        ("R is", with_r(4, f64::NAN)),
        ("R is", with_r(1, 0.1)),
        ("0x900 pixels", with_size(0, 900)),
        ("1600x70000 pixels", with_size(1600, 70_000)),
        ("at (1, 0)", with_region([1, 0, 1600, 900])),
        ("at (4294967295, 0)", with_region([u32::MAX, 0, 2, 2])),
        ("binning 1x901", CameraCalibration { binning: [1, 901], ..good.clone() }),
        ("binning 0x1", CameraCalibration { binning: [0, 1], ..good.clone() }),
    ] {
        let error = CameraModel::new(&bad).unwrap_err();
        assert_eq!(error.kind(), uncalibrated, "{error}");
        assert!(error.message().contains(name), "{name}: {error}");
    }
    for (model, coefficients) in [
        ("fov", &[0.9][..]),
        ("double_sphere", &[0.0, 0.0]),
        ("", &[0.1, 0.0, 0.0, 0.0]),
        ("plumb_bob", &[0.1; 6]),
        ("equidistant", &[0.1; 5]),
        ("plumb_bob", &[f64::NAN, 0.0, 0.0, 0.0]),
        ("rational_polynomial", &[f64::INFINITY; 8]),
        ("plumb_bob", &[1e300; 4]),
    ] {
        let error = CameraModel::new(&calibration(model, coefficients)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedDistortion, "{error}");
        assert!(error.message().contains(&format!("{model:?}")), "{error}");
    }
}

proptest! {
    #[test]
    fn undistort_inverts_distort(x in -0.62_f64..0.62, y in -0.35_f64..0.35) {
        for (model, coefficients) in MODELS {
            let camera = CameraModel::new(&calibration(model, coefficients)).unwrap();
            let back = camera.undistort(camera.distort([x, y]).unwrap()).unwrap();
            prop_assert!((back[0] - x).hypot(back[1] - y) < 1e-10, "{} {:?}", model, back);
        }
    }

    /// Any coefficients: answers are finite, and what has a ray has it back.
    #[test]
    fn no_coefficients_give_values_that_are_not_finite(
        coefficients in prop::collection::vec(-2.0_f64..2.0, 14),
        x in -3.0_f64..3.0,
        y in -3.0_f64..3.0,
    ) {
        for (model, number) in [("plumb_bob", 5), ("rational_polynomial", 14), ("equidistant", 4)] {
            let camera = CameraModel::new(&calibration(model, &coefficients[..number])).unwrap();
            if let Some(pixel) = camera.distort([x, y]) {
                prop_assert!(pixel.iter().all(|v| v.is_finite()));
            }
            let pixel = camera.raw().pixel_of([x, y]);
            if let Some(ray) = camera.undistort(pixel) {
                let again = camera.distort(ray).unwrap();
                prop_assert!((again[0] - pixel[0]).hypot(again[1] - pixel[1]) < 1e-4);
            }
        }
    }
}
