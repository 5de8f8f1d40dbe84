//! Two cameras and a LiDAR, and what a small BEVFusion computes of them between its networks, written out.

use std::path::Path;

use det_post::detectors::Detector;
use det_post::{FrameInput, FrameSet};
use det_post_infer::sparse::{self, CpuEncoder, Plan};
use det_post_ops::sparse::conv::Precision;
use det_post_testing::clouds::Cloud;
use det_post_testing::fused_onnx::{CHANNELS, DEPTHS, FEATURES, IMAGE};
use det_post_types::{
    CameraCalibration, Detection3d, Detections, ElementType, Encoding, FrameReport, Header,
    ImagePayload, ImageView, Result, Size, Stamp, Tensor, TensorValues, TensorView,
};
use nalgebra::{Isometry3, Rotation3, Translation3, UnitQuaternion, Vector3};

pub const MIN: [f32; 3] = [-2.0, -1.5, -1.0];
/// Of the received images.
pub const RECEIVED: Size = Size { width: 128, height: 72 };
pub const FOCAL: f64 = 60.0;
/// Points in a part of the cells.
pub fn points(num: usize) -> Vec<[f32; 3]> {
    let place = |at: usize, axis: usize| {
        let cell = (at / 3 * [7, 5, 11][axis]) % [8, 6, 8][axis];
        let within = ((at * 13 + axis * 5) % 10) as f32 / 20.0;
        MIN[axis] + 0.5 * cell as f32 + within
    };
    (0..num).map(|at| [0, 1, 2].map(|axis| place(at, axis))).collect()
}

/// Two cameras that look ahead and back, the second one with another mount where it was `moved`.
pub struct Rig {
    calibration: CameraCalibration,
    mounts: [Isometry3<f64>; 2],
    images: [Vec<u8>; 2],
    placing: Placing,
}

/// How received images become the network's, and what their map is.
#[derive(Clone, Copy)]
pub struct Placing {
    pub scale: f64,
    /// Columns and rows of the resized image that are cut at the left and at the top.
    pub cut: [f64; 2],
    /// Cells along x and y.
    pub map: [usize; 2],
}

impl Rig {
    /// Images are of RGB, row by row.
    pub fn new(moved: f64, images: [Vec<u8>; 2], placing: Placing) -> Self {
        let mount = |yaw: f64, x: f64| {
            let around = Rotation3::from_euler_angles(0.0, 0.0, yaw);
            let (half, down) = (std::f64::consts::FRAC_PI_2, 0.1);
            let optical = Rotation3::from_euler_angles(-half - down, 0.0, -half);
            let turn = UnitQuaternion::from_rotation_matrix(&(around * optical));
            Isometry3::from_parts(Translation3::new(x, 0.07, 0.6), turn)
        };
        let [w, h] = [RECEIVED.width, RECEIVED.height].map(f64::from);
        Self {
            calibration: CameraCalibration {
                size: RECEIVED,
                intrinsics: [FOCAL, 0.0, w / 2.0, 0.0, FOCAL, h / 2.0, 0.0, 0.0, 1.0],
                rectification: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
                binning: [1, 1],
                ..CameraCalibration::default()
            },
            mounts: [mount(0.03, -0.2), mount(std::f64::consts::PI + moved, 0.31 + moved)],
            images,
            placing,
        }
    }

    pub fn detect(
        &self,
        detector: &mut dyn Detector,
        points: &[[f32; 3]],
        present: [bool; 2],
    ) -> Vec<Detection3d> {
        self.submit(detector, points, present).unwrap()
    }

    /// The error of a frame with all cameras.
    pub fn refused(&self, detector: &mut dyn Detector, points: &[[f32; 3]]) -> String {
        self.submit(detector, points, [true; 2]).unwrap_err().to_string()
    }

    fn submit(
        &self,
        detector: &mut dyn Detector,
        points: &[[f32; 3]],
        present: [bool; 2],
    ) -> Result<Vec<Detection3d>> {
        let stamp = Stamp::from_nanos(1_000_000_000);
        let cloud = Cloud::plain(points.as_flattened(), &[]);
        let cloud = cloud.view();
        let header = Header { stamp, frame_id: "lidar" };
        let lidar = FrameInput::cloud(header, &cloud).with_pose(Isometry3::identity());
        let camera = |index: usize| {
            let header = Header { stamp, frame_id: ["a", "b"][index] };
            let step = RECEIVED.width as usize * 3;
            let pixels = &self.images[index];
            let image = ImageView::new(RECEIVED, step, Encoding::Rgb8, false, pixels).unwrap();
            let input = FrameInput::image(header, ImagePayload::Raw(image));
            let input = input.with_pose(self.mounts[index]);
            present[index].then_some(FrameInput { calibration: Some(&self.calibration), ..input })
        };
        let inputs = [Some(lidar), camera(0), camera(1)];
        let frame = FrameSet { stamp, inputs: &inputs, target_pose: None };
        match detector.detect(&frame, &mut FrameReport::new())? {
            Detections::Boxes3d(found) => Ok(found.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    /// Focal length and principal point of the network's image.
    fn intrinsics(&self) -> (f64, [f64; 2]) {
        let Placing { scale, cut, .. } = self.placing;
        let sides = [RECEIVED.width, RECEIVED.height].map(f64::from);
        (scale * FOCAL, [0, 1].map(|axis| scale * sides[axis] / 2.0 - cut[axis]))
    }

    /// From pixels of the network's image to rays in the frame of the points.
    fn ray(&self, camera: usize, u: f64, v: f64) -> Vector3<f64> {
        let (focal, [cx, cy]) = self.intrinsics();
        self.mounts[camera].rotation * Vector3::new((u - cx) / focal, (v - cy) / focal, 1.0)
    }

    /// Images of depths, `[2, 1, 32, 64]`.
    pub fn depth_images(&self, points: &[[f32; 3]], present: [bool; 2]) -> Vec<f32> {
        let (focal, [cx, cy]) = self.intrinsics();
        let [width, height] = IMAGE.map(|size| size as usize);
        let mut images = vec![0.0; 2 * height * width];
        for camera in (0..2).filter(|&camera| present[camera]) {
            for point in points {
                let at = self.mounts[camera].inverse_transform_vector(
                    &(Vector3::from(point.map(f64::from)) - self.mounts[camera].translation.vector),
                );
                let u = focal * at.x / at.z + cx;
                let v = focal * at.y / at.z + cy;
                if at.z <= 0.0 || u < 0.0 || v < 0.0 || u >= width as f64 || v >= height as f64 {
                    continue;
                }
                let pixel = &mut images[(camera * height + v as usize) * width + u as usize];
                let depth = at.z as f32;
                *pixel = if *pixel == 0.0 { depth } else { pixel.min(depth) };
            }
        }
        images
    }

    /// The map of the cameras, from depths `[2, D, h, w]` and features `[2, h, w, C]`.
    pub fn pooled(
        &self,
        depths: &[f32],
        features: &[f32],
        present: [bool; 2],
    ) -> (Vec<f32>, usize) {
        let ([_, rows, columns], [nx, ny]) = (FEATURES, self.placing.map);
        let cell = 4.0 / nx as f64;
        let mut map = vec![0.0; CHANNELS * nx * ny];
        let mut num_inside = 0;
        for camera in (0..2).filter(|&camera| present[camera]) {
            for (k, i, j) in (0..DEPTHS)
                .flat_map(|k| (0..rows).flat_map(move |i| (0..columns).map(move |j| (k, i, j))))
            {
                let u = 63.0 * j as f64 / (columns - 1) as f64;
                let v = 31.0 * i as f64 / (rows - 1) as f64;
                let depth = 0.25 + 0.375 * k as f64;
                let point = self.mounts[camera].translation.vector + depth * self.ray(camera, u, v);
                let [x, y] = [(point.x + 2.0) / cell, (point.y + 1.5) / cell].map(f64::trunc);
                if x < 0.0 || y < 0.0 || x >= nx as f64 || y >= ny as f64 {
                    continue;
                }
                num_inside += 1;
                let share = depths[((camera * DEPTHS + k) * rows + i) * columns + j];
                for channel in 0..CHANNELS {
                    let value = features[((camera * rows + i) * columns + j) * CHANNELS + channel];
                    map[(channel * nx + x as usize) * ny + y as usize] += share * value;
                }
            }
        }
        (map, num_inside)
    }
}

pub fn view<'a>(shape: &'a [usize], values: &'a [f32]) -> TensorView<'a> {
    TensorView::new(shape, TensorValues::F32(values)).unwrap()
}

pub fn floats(view: TensorView<'_>) -> Vec<f32> {
    let TensorValues::F32(values) = view.values() else { panic!("{view:?}") };
    values.to_vec()
}

/// The map of points, by the encoder of a file.
pub fn encoded(model: &Path, points: &[[f32; 3]]) -> Tensor {
    let file = sparse::load(model).unwrap();
    let mut voxels: Vec<([i32; 4], Vec<[f32; 3]>)> = Vec::new();
    for point in points {
        let [x, y, z] = [0, 1, 2].map(|axis| ((point[axis] - MIN[axis]) / 0.5).floor() as i32);
        let site = [0, x, y, z];
        match voxels.iter_mut().find(|(known, _)| *known == site) {
            Some((_, of)) => of.push(*point),
            None => voxels.push((site, vec![*point])),
        }
    }
    let mean = |points: &Vec<[f32; 3]>| {
        let kept = &points[..points.len().min(10)];
        [0, 1, 2].map(|axis| kept.iter().map(|p| p[axis]).sum::<f32>() / kept.len() as f32)
    };
    let means: Vec<[f32; 3]> = voxels.iter().map(|(_, points)| mean(points)).collect();
    let sites: Vec<[i32; 4]> = voxels.iter().map(|(site, _)| *site).collect();
    let capacities = file.network.default_capacities(400);
    let plan = Plan::new(file.network, &capacities).unwrap();
    let mut map = Tensor::zeros(ElementType::F32, &plan.network().map_shape()).unwrap();
    let mut encoder = CpuEncoder::new(plan, Precision::F32, 1).unwrap();
    encoder.run(&sites, means.as_flattened(), &mut map).unwrap();
    map
}
