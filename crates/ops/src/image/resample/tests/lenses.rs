//! Images of cameras with a lens.

use nalgebra::{Isometry3, Vector4};

use super::*;
use det_post_types::{CameraCalibration, CameraModel, CameraView, PixelConvention, Undistort};

fn camera(size: Size, model: &str, distortion: &[f64]) -> CameraModel {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let (focal, cx, cy) = (0.8 * width, 0.5 * width + 1.3, 0.5 * height - 2.2);
    CameraModel::new(&CameraCalibration {
        size,
        distortion_model: model.into(),
        distortion: distortion.into(),
        intrinsics: [focal, 0.0, cx, 0.0, 1.01 * focal, cy, 0.0, 0.0, 1.0],
        binning: [1, 1],
        ..CameraCalibration::default()
    })
    .unwrap()
}

const LENSES: [(&str, &[f64]); 3] = [
    ("plumb_bob", &[-0.31, 0.12, 0.0011, -0.0007, -0.021]),
    ("rational_polynomial", &[1.2, -0.4, 0.0004, -0.0003, 0.03, 1.5, -0.2, 0.05]),
    ("equidistant", &[0.03, -0.012, 0.004, -0.0009]),
];

#[test]
fn undistorted_images_of_every_encoding_equal_the_filter_in_f64() {
    let size = Size::new(66, 44);
    let encodings = [
        Encoding::Rgb8,
        Encoding::Bgra8,
        Encoding::Mono8,
        Encoding::Mono16,
        Encoding::Uyvy,
        Encoding::Nv12,
        Encoding::BayerGrbg8,
    ];
    for (encoding, seed) in encodings.into_iter().zip(1..) {
        let (model, distortion) = LENSES[seed as usize % 3];
        let view = CameraView::new(
            &camera(size, model, distortion),
            Undistort::Auto,
            Size::new(31, 17),
            Placement::CropTop,
            PixelConvention::Exact,
        );
        assert!(view.is_undistorted());
        let step = encoding.row_bytes(size.width) + 3;
        let data = noise(step * encoding.num_rows(size.height), seed);
        let image = ImageView::new(size, step, encoding, true, &data).unwrap();
        for resize in [Resize::Bilinear, Resize::Antialias] {
            let map = SampleMap::of_view(&view, resize).unwrap();
            let reach = map.reach().map(|reach| f64::from(reach) / 65_536.0);
            let position = |x, y| view.raw_position(x, y);
            let expected = naive(&image, map.network(), reach, position);
            let found = run(&image, &map, &params(ChannelOrder::Rgb));
            assert_near(&found, &expected, 5e-3, &format!("{encoding:?} {model}"));
        }
    }
}

/// A soft disc around the projection of a point is found where the matrix of the view says.
#[test]
fn points_are_found_where_the_matrix_projects_them() {
    let (size, network) = (Size::new(320, 200), Size::new(128, 70));
    let camera_from_base = Isometry3::rotation(nalgebra::Vector3::new(0.02, -0.03, 0.01));
    let points = [[0.0, 0.0, 6.0], [-1.9, 0.5, 5.0], [2.1, -0.3, 5.5]];
    for (model, distortion) in LENSES.into_iter().chain([("plumb_bob", &[0.0; 5][..])]) {
        let camera = camera(size, model, distortion);
        let rectified = rectified_pixels(&camera);
        for convention in [PixelConvention::Exact, PixelConvention::Trainer] {
            let view =
                CameraView::new(&camera, Undistort::Auto, network, Placement::CropTop, convention);
            let matrix = view.image_from_base(&camera_from_base, &Isometry3::identity());
            for (resize, [x, y, z]) in [Resize::Bilinear, Resize::Antialias]
                .into_iter()
                .flat_map(|resize| points.map(|point| (resize, point)))
            {
                let map = SampleMap::of_view(&view, resize).unwrap();
                let seen = camera_from_base * nalgebra::Point3::new(x, y, z);
                let ray = [seen.x / seen.z, seen.y / seen.z];
                let disc = camera.rectified().pinhole.pixel_of(ray);
                let found = center_of_disc(&rectified, disc, &map);
                let projected = matrix * Vector4::new(x, y, z, 1.0);
                let expected = [projected.x / projected.z, projected.y / projected.z];
                // The stated offset of the trainers' matrices: here s is 0.4, exactly.
                let offset = match convention {
                    PixelConvention::Exact => 0.0,
                    PixelConvention::Trainer => 0.5 * (1.0 - 0.4),
                };
                for axis in 0..2 {
                    let apart = found[axis] - (expected[axis] - offset);
                    let what = format!("{model} {resize:?} {convention:?} {x} {y}");
                    assert!(apart.abs() < 0.02, "{what}: {found:?}, {expected:?}");
                }
            }
        }
    }
}

/// The pixel of the rectified image for every pixel of the image as received.
fn rectified_pixels(camera: &CameraModel) -> Vec<[f64; 2]> {
    let Size { width, height } = camera.image_size();
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| [f64::from(x), f64::from(y)]));
    let pinhole = camera.rectified().pinhole;
    pixels.map(|at| camera.undistort(at).map_or([1e9; 2], |ray| pinhole.pixel_of(ray))).collect()
}

/// The centre of brightness of a soft disc in the image that a map makes.
fn center_of_disc(rectified: &[[f64; 2]], disc: [f64; 2], map: &SampleMap) -> [f64; 2] {
    let brightness = |[u, v]: &[f64; 2]| {
        let squared = (u - disc[0]).powi(2) + (v - disc[1]).powi(2);
        (250.0 * (-squared / (2.0 * 36.0)).exp()).round() as u8
    };
    let data: Vec<u8> = rectified.iter().map(brightness).collect();
    let (size, step) = (map.source(), map.source().width as usize);
    let image = ImageView::new(size, step, Encoding::Mono8, false, &data).unwrap();
    let params = ResampleParams { pad_value: 0.0, ..params(ChannelOrder::Rgb) };
    let undistorted = run(&image, map, &params);
    let columns = map.network().width as usize;
    let mut sums = [0.0; 3];
    for (i, &value) in undistorted[..undistorted.len() / 3].iter().enumerate() {
        let value = f64::from(value);
        sums[0] += value * (i % columns) as f64;
        sums[1] += value * (i / columns) as f64;
        sums[2] += value;
    }
    [sums[0] / sums[2], sums[1] / sums[2]]
}

#[test]
fn what_a_camera_does_not_see_is_padded() {
    // A pincushion lens: the corners of the undistorted image lie outside the image.
    let size = Size::new(100, 60);
    let camera = camera(size, "plumb_bob", &[0.4, 0.0, 0.0, 0.0]);
    let (network, placement) = (Size::new(100, 60), Placement::Stretch);
    let convention = PixelConvention::Exact;
    let view = CameraView::new(&camera, Undistort::Auto, network, placement, convention);
    let map = SampleMap::of_view(&view, Resize::Bilinear).unwrap();
    let image = ImageView::new(size, 100, Encoding::Mono8, false, &[200; 6000]).unwrap();
    let out = run(&image, &map, &params(ChannelOrder::Rgb));
    assert_eq!((out[0], out[5999]), (7.0, 7.0));
    assert!((out[30 * 100 + 50] - 200.0).abs() < 1e-3);
    assert!(out.iter().all(|&v| v == 7.0 || (v - 200.0).abs() < 1e-3));
}
