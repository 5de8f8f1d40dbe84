//! Images of depths: equal pixels, whatever the order of the points.

use det_post_ops::cloud::DevicePoints;
use det_post_ops::device::cuda::{CudaDevice, DeviceTensor};
use det_post_ops::view::depth_image::{DepthImageParams, DepthView, cuda::Workspace, depth_image};
use det_post_types::{ElementType, PointRange, Points, Size, Tensor};

use det_post_testing::clouds::{scan, uniform};
use det_post_testing::random::Random;

/// Cameras around the origin, of which some are missing.
fn params(num_views: usize, size: Size, missing: usize) -> DepthImageParams {
    let view = |index: usize| {
        let yaw = std::f32::consts::TAU * index as f32 / num_views as f32;
        let (sine, cosine) = yaw.sin_cos();
        let [width, height] = [size.width as f32, size.height as f32];
        let (depth, right) = ([cosine, sine, 0.0, 0.1], [sine, -cosine, 0.0, 0.02]);
        let row = |focal: f32, across: [f32; 4], center: f32| {
            std::array::from_fn(|at| focal * across[at] + center * depth[at])
        };
        DepthView {
            pixels_from_points: [
                row(0.6 * width, right, 0.5 * width),
                row(0.6 * width, [0.0, 0.0, -1.0, 1.5], 0.5 * height),
                depth,
            ],
            is_present: index != missing,
        }
    };
    let range = PointRange { min: [-40.0, -40.0, -5.0], max: [40.0, 40.0, 3.0] };
    DepthImageParams { size, range, views: (0..num_views).map(view).collect() }
}

fn check(device: &CudaDevice, frames: &[Points], params: &DepthImageParams) {
    let stream = device.stream().unwrap();
    let capacity = frames.iter().map(Points::len).max().unwrap() + 3;
    let num_channels = frames[0].num_channels();
    let mut points = DevicePoints::with_capacity(&stream, num_channels, capacity).unwrap();
    let mut workspace = Workspace::new(&stream).unwrap();
    let mut found = DeviceTensor::zeros(&stream, ElementType::F32, &params.shape()).unwrap();
    let mut expected = Tensor::zeros(ElementType::F32, &params.shape()).unwrap();
    for frame in frames {
        points.write(frame).unwrap();
        workspace.enqueue(&points, params, &mut found).unwrap();
        depth_image(frame, params, &mut expected).unwrap();
        let (Tensor::F32 { values: found, .. }, Tensor::F32 { values: expected, .. }) =
            (found.read().unwrap(), &expected)
        else {
            panic!()
        };
        let first = found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
        assert_eq!(first, None, "{} points, {params:?}", frame.len());
    }
}

#[test]
fn numbers_of_points_and_views_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(31);
    for (num_views, size) in [
        (1, Size::new(1, 1)),
        (6, Size::new(72, 48)),
        (16, Size::new(33, 17)),
        (5, Size::new(576, 384)),
    ] {
        for num in [0, 1, 255, 257, 60_000] {
            for num_channels in [3, 5] {
                let frames = [
                    scan(&mut random, num, num_channels),
                    uniform(&mut random, num, num_channels, 45.0),
                    uniform(&mut random, num, num_channels, 0.5),
                ];
                check(&device, &frames, &params(num_views, size, num_views / 2));
            }
        }
    }
}

#[test]
fn points_that_are_not_finite_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38, -1e38, 0.0, -0.0, 1e-39];
    let mut points = Points::with_capacity(3, 600);
    for x in bad {
        for y in bad {
            for z in bad {
                points.push(&[x, y, z]);
            }
        }
    }
    let everything = PointRange { min: [f32::NEG_INFINITY; 3], max: [f32::INFINITY; 3] };
    for range in [everything, params(1, Size::new(8, 8), 1).range] {
        check(
            &device,
            &[points.clone()],
            &DepthImageParams { range, ..params(4, Size::new(8, 8), 9) },
        );
    }
}
