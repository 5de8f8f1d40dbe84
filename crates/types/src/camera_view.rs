//! What a network sees of a camera, and the matrices that project space into it.

use nalgebra::{Isometry3, Matrix3, Matrix4};

use super::camera_model::{CameraModel, Pinhole, Rectified};
use super::image::Size;
use super::letterbox::{Letterbox, Placement};

/// Whether images are undistorted before a network sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undistort {
    /// Where the calibration has a distortion.
    Auto,
    /// Never: images are received rectified.
    Never,
}

/// How resizing moves pixels in a network's matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelConvention {
    /// `s u + offset`, with the one factor `s` that the placement asks for: the matrices that
    /// mmdetection3d and its descendants train with. They are off by `(1 - s) / 2` pixels, and
    /// by what rounding the resized size to whole pixels changes.
    Trainer,
    /// `s (u + 1/2) - 1/2 + offset` with the two factors of the resized size: the pixel
    /// where a point is found.
    Exact,
}

/// What a network sees of a camera: its image, undistorted where asked for, resized and
/// cropped or padded. Everything is f64.
///
/// The image before resizing is the rectified image (P and R; K without P), as received
/// where it is not undistorted.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraView {
    placed: Letterbox,
    /// Of the network's input image.
    pinhole: Pinhole,
    rectified: Rectified,
    /// The lens whose distortion is removed.
    undistorted: Option<CameraModel>,
}

impl CameraView {
    /// The view of a camera in a network's input of the size `network`.
    pub fn new(
        camera: &CameraModel,
        undistort: Undistort,
        network: Size,
        placement: Placement,
        convention: PixelConvention,
    ) -> Self {
        let placed = Letterbox::new(camera.image_size(), network, placement);
        let nominal = nominal_scale(&placed, placement);
        Self::placed_by(camera, undistort, placed, (nominal, convention))
    }

    /// The view of a camera whose image is resized by a factor ([`Letterbox::scaled`]).
    pub fn scaled(
        camera: &CameraModel,
        undistort: Undistort,
        network: Size,
        scale: f32,
        convention: PixelConvention,
    ) -> Self {
        let placed = Letterbox::scaled(camera.image_size(), network, scale);
        Self::placed_by(camera, undistort, placed, ([f64::from(scale); 2], convention))
    }

    fn placed_by(
        camera: &CameraModel,
        undistort: Undistort,
        placed: Letterbox,
        (nominal, convention): ([f64; 2], PixelConvention),
    ) -> Self {
        let rectified = *camera.rectified();
        let is_undistorted = undistort == Undistort::Auto && camera.is_distorted();
        Self {
            placed,
            pinhole: resized(rectified.pinhole, &placed, nominal, convention),
            rectified,
            undistorted: is_undistorted.then(|| camera.clone()),
        }
    }

    /// The placement of the image in the network's input.
    pub fn placed(&self) -> &Letterbox {
        &self.placed
    }

    /// Whether distortion is removed, by [`CameraView::raw_position`].
    pub fn is_undistorted(&self) -> bool {
        self.undistorted.is_some()
    }

    /// The intrinsic matrix of the network's input image: `A K`, with the resizing and cropping `A`.
    pub fn intrinsics(&self) -> Matrix3<f64> {
        self.pinhole.matrix()
    }

    /// `[A K R 0; 0 1]`: points `(x, y, z, 1)` of the camera's frame to `(u z, v z, z, 1)`, with
    /// the network's pixel `(u, v)` and the depth `z`.
    pub fn image_from_camera(&self) -> Matrix4<f64> {
        (self.pinhole.matrix() * self.rectified.rotation).to_homogeneous()
    }

    /// `image_from_camera · camera_from_base · base_at_image_from_base`: points of the base
    /// frame at the frame's time to the image that was taken at another time.
    ///
    /// `camera_from_base` is the pose of the base in the camera's frame,
    /// `base_at_image_from_base` the base's own motion between the two times (the identity
    /// where that is not compensated).
    pub fn image_from_base(
        &self,
        camera_from_base: &Isometry3<f64>,
        base_at_image_from_base: &Isometry3<f64>,
    ) -> Matrix4<f64> {
        self.image_from_camera() * (camera_from_base * base_at_image_from_base).to_homogeneous()
    }

    /// The pixel of the received image that a pixel of the network's input shows; `None`
    /// outside the content, and where the camera does not see the ray. It may be outside
    /// the image.
    pub fn raw_position(&self, x: u32, y: u32) -> Option<[f64; 2]> {
        let [columns, rows] = self.placed.visible();
        if !columns.contains(&x) || !rows.contains(&y) {
            return None;
        }
        let rectified = self.placed.source_position([x, y]);
        match &self.undistorted {
            Some(camera) => camera.raw_from_rectified(rectified),
            None => Some(rectified),
        }
    }
}

/// From one size to another.
fn ratio(from: Size, to: Size) -> [f64; 2] {
    [f64::from(to.width) / f64::from(from.width), f64::from(to.height) / f64::from(from.height)]
}

/// The factors of the matrices that trainers make.
fn nominal_scale(placed: &Letterbox, placement: Placement) -> [f64; 2] {
    let [x, y] = ratio(placed.source, placed.network);
    match placement {
        Placement::Stretch => [x, y],
        Placement::CropTop => [x.max(y); 2],
        Placement::Center | Placement::TopLeft | Placement::TopLeftRounded => [x.min(y); 2],
    }
}

/// The projection of an image after it was resized and cropped.
fn resized(
    pinhole: Pinhole,
    placed: &Letterbox,
    nominal: [f64; 2],
    convention: PixelConvention,
) -> Pinhole {
    let Letterbox { source, content, content_origin, .. } = placed;
    let scale = match convention {
        PixelConvention::Exact => ratio(*source, *content),
        PixelConvention::Trainer => nominal,
    };
    let center = |axis: usize| {
        let (at, origin) = (pinhole.center[axis], f64::from(content_origin[axis]));
        match convention {
            PixelConvention::Trainer => scale[axis] * at + origin,
            PixelConvention::Exact => scale[axis] * (at + 0.5) - 0.5 + origin,
        }
    };
    Pinhole {
        focal: std::array::from_fn(|axis| scale[axis] * pinhole.focal[axis]),
        center: std::array::from_fn(center),
    }
}

/// A matrix row by row, each value rounded once. With the size of an image, rows 0 and 1 are
/// divided by width and height before: pixels become fractions of the image.
pub fn rounded_rows(matrix: &Matrix4<f64>, divided_by: Option<Size>) -> [f32; 16] {
    let divisor = |row: usize| match (divided_by, row) {
        (Some(size), 0) => f64::from(size.width),
        (Some(size), 1) => f64::from(size.height),
        _ => 1.0,
    };
    std::array::from_fn(|i| (matrix[(i / 4, i % 4)] / divisor(i / 4)) as f32)
}

#[cfg(test)]
mod tests {
    use nalgebra::{Point3, Vector3, Vector4};

    use super::*;
    use crate::CameraCalibration;

    fn camera(distortion: &[f64]) -> CameraModel {
        CameraModel::new(&CameraCalibration {
            size: Size::new(1600, 900),
            distortion_model: "plumb_bob".into(),
            distortion: distortion.into(),
            intrinsics: [1266.4, 0.0, 816.3, 0.0, 1267.0, 491.5, 0.0, 0.0, 1.0],
            binning: [1, 1],
            ..CameraCalibration::default()
        })
        .unwrap()
    }

    fn view(placement: Placement, convention: PixelConvention) -> CameraView {
        let network = Size::new(704, 256);
        CameraView::new(&camera(&[]), Undistort::Auto, network, placement, convention)
    }

    #[test]
    fn trainers_scale_k_and_shift_it() {
        // mmdetection3d: resize 0.44, resized 704x396, crop (0, 140, 704, 396).
        let k = view(Placement::CropTop, PixelConvention::Trainer).intrinsics();
        let expected =
            [[1266.4 * 0.44, 0.0, 816.3 * 0.44], [0.0, 1267.0 * 0.44, 491.5 * 0.44 - 140.0]];
        for (row, expected) in expected.iter().enumerate() {
            for (column, expected) in expected.iter().enumerate() {
                assert!((k[(row, column)] - expected).abs() < 1e-9, "{k}");
            }
        }
    }

    #[test]
    fn a_factor_enlarges_beyond_the_input() {
        // CUDA-BEVFusion: resize 0.48, resized 768x432, cut by 32 on both sides and 176 at the top.
        let (network, auto) = (Size::new(704, 256), Undistort::Auto);
        let trainer = PixelConvention::Trainer;
        let view = CameraView::scaled(&camera(&[]), auto, network, 0.48, trainer);
        let placed = view.placed();
        assert_eq!((placed.content, placed.content_origin), (Size::new(768, 432), [-32, -176]));
        let k = view.intrinsics();
        let expected =
            [[1266.4 * 0.48, 0.0, 816.3 * 0.48 - 32.0], [0.0, 1267.0 * 0.48, 491.5 * 0.48 - 176.0]];
        for (row, expected) in expected.iter().enumerate() {
            for (column, expected) in expected.iter().enumerate() {
                assert!((k[(row, column)] - expected).abs() < 1e-4, "{k}");
            }
        }
        let found = view.raw_position(0, 0).unwrap();
        let expected = [(32.0 + 0.5) / 0.48 - 0.5, (176.0 + 0.5) / 0.48 - 0.5];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
        // An image that is too small leaves rows and columns without content.
        let small = Letterbox::scaled(Size::new(640, 480), network, 0.48);
        assert_eq!((small.content, small.content_origin), (Size::new(307, 230), [0, 0]));
    }

    /// The stated difference of the conventions, at every placement.
    #[test]
    fn the_exact_convention_is_half_a_pixel_of_the_scale_away() {
        for placement in
            [Placement::CropTop, Placement::Center, Placement::TopLeft, Placement::Stretch]
        {
            let [trainer, exact] = [PixelConvention::Trainer, PixelConvention::Exact]
                .map(|convention| view(placement, convention));
            let Letterbox { source, content, .. } = *trainer.placed();
            let nominal = trainer.intrinsics()[(0, 0)] / 1266.4;
            for (x, y) in [(0.0, 0.0), (1599.0, 899.0), (816.3, 491.5)] {
                let ray = trainer.rectified.pinhole.ray_of([x, y]);
                let [found, wanted] = [&trainer, &exact].map(|view| view.pinhole.pixel_of(ray));
                let rounded = [
                    f64::from(content.width) / f64::from(source.width),
                    f64::from(content.height) / f64::from(source.height),
                ];
                let nominal = [nominal, trainer.intrinsics()[(1, 1)] / 1267.0];
                for (axis, at) in [x, y].into_iter().enumerate() {
                    let stated = 0.5 * (1.0 - rounded[axis]) + (nominal[axis] - rounded[axis]) * at;
                    assert!((found[axis] - wanted[axis] - stated).abs() < 1e-9, "{placement:?}");
                }
                // The exact one is the inverse of the positions that are read.
                let [u, v] = wanted;
                let (left, top) = (u.floor().max(0.0) as u32, v.floor().max(0.0) as u32);
                let at = exact.placed().source_position([left, top]);
                let scale = [(1, 0), (0, 1)].map(|(i, j)| {
                    let next = exact.placed().source_position([left + i, top + j]);
                    next.iter().zip(at).map(|(next, at)| next - at).sum::<f64>()
                });
                let back = [
                    at[0] + (u - f64::from(left)) * scale[0],
                    at[1] + (v - f64::from(top)) * scale[1],
                ];
                assert!((back[0] - x).abs() < 1e-9 && (back[1] - y).abs() < 1e-9, "{back:?}");
            }
        }
    }

    #[test]
    fn points_arrive_where_the_steps_bring_them_one_by_one() {
        let view = view(Placement::CropTop, PixelConvention::Trainer);
        // A camera that looks along the base's x axis, 1.5 m up and 1.7 m ahead.
        let base_from_camera = Isometry3::from_parts(
            nalgebra::Translation3::new(1.7, 0.0, 1.5),
            nalgebra::UnitQuaternion::from_euler_angles(
                -std::f64::consts::FRAC_PI_2,
                0.0,
                -std::f64::consts::FRAC_PI_2,
            ),
        );
        // 0.75 m driven ahead since the frame's time: points come nearer.
        let motion = Isometry3::new(Vector3::new(-0.75, 0.0, 0.0), Vector3::new(0.0, 0.0, 0.01));
        let camera_from_base = base_from_camera.inverse();
        let matrix = view.image_from_base(&camera_from_base, &motion);
        let point = Point3::new(20.0, -3.0, 0.5);
        let projected = matrix * Vector4::new(point.x, point.y, point.z, 1.0);
        let in_camera = camera_from_base * (motion * point);
        let pixel = view.pinhole.pixel_of([in_camera.x / in_camera.z, in_camera.y / in_camera.z]);
        assert!((projected.z - in_camera.z).abs() < 1e-12 && projected.z < 18.0);
        assert!((projected.x / projected.z - pixel[0]).abs() < 1e-9);
        assert!((projected.y / projected.z - pixel[1]).abs() < 1e-9);
        assert_eq!(projected.w, 1.0);
        let rows = rounded_rows(&matrix, Some(Size::new(704, 256)));
        assert_eq!(rows[0], (matrix[(0, 0)] / 704.0) as f32);
        assert_eq!(rows[7], (matrix[(1, 3)] / 256.0) as f32);
        assert_eq!(rows[8..12], rounded_rows(&matrix, None)[8..12]);
    }

    #[test]
    fn the_rectification_is_part_of_the_matrix() {
        let about_z = [0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        let rotated = CameraModel::new(&CameraCalibration {
            size: Size::new(100, 100),
            intrinsics: [50.0, 0.0, 49.5, 0.0, 50.0, 49.5, 0.0, 0.0, 1.0],
            rectification: about_z,
            projection: [40.0, 0.0, 49.5, -7.0, 0.0, 40.0, 49.5, 0.0, 0.0, 0.0, 1.0, 0.0],
            binning: [1, 1],
            ..CameraCalibration::default()
        })
        .unwrap();
        let view = CameraView::new(
            &rotated,
            Undistort::Never,
            Size::new(100, 100),
            Placement::CropTop,
            PixelConvention::Trainer,
        );
        let found = view.image_from_camera() * Vector4::new(0.5, 0.0, 1.0, 1.0);
        assert!((found - Vector4::new(49.5, 49.5 + 20.0, 1.0, 1.0)).norm() < 1e-12, "{found}");
    }

    #[test]
    fn undistortion_is_chosen_by_the_calibration_unless_it_is_switched_off() {
        let network = Size::new(704, 256);
        let distorted = camera(&[-0.3, 0.1, 0.0, 0.0, 0.0]);
        let view = |camera, undistort| {
            let (placement, convention) = (Placement::CropTop, PixelConvention::Exact);
            CameraView::new(camera, undistort, network, placement, convention)
        };
        let (auto, never) = (view(&distorted, Undistort::Auto), view(&distorted, Undistort::Never));
        assert!(auto.is_undistorted() && !never.is_undistorted());
        assert!(!view(&camera(&[0.0; 5]), Undistort::Auto).is_undistorted());
        assert_eq!(auto.intrinsics(), never.intrinsics());
        let corner = never.raw_position(0, 255).unwrap();
        assert_eq!(corner, never.placed().source_position([0, 255]));
        // A barrel lens shows the corner nearer to the centre.
        let nearer = auto.raw_position(0, 255).unwrap();
        assert!(nearer[0] > corner[0] + 10.0 && nearer[1] < corner[1] - 5.0, "{nearer:?}");
        assert_eq!(auto.raw_position(704, 0), None);
    }
}
