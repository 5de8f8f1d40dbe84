//! Table cases of the images of depths.

use super::*;
use det_post_types::ElementType;

/// A camera at the origin that looks along x: u = 2 - y / x, v = 1 - z / x, in images of 4x2.
const AHEAD: [[f32; 4]; 3] = [[2.0, -1.0, 0.0, 0.0], [1.0, 0.0, -1.0, 0.0], [1.0, 0.0, 0.0, 0.0]];

fn params(views: Vec<DepthView>) -> DepthImageParams {
    let range = PointRange { min: [-10.0; 3], max: [10.0; 3] };
    DepthImageParams { size: Size::new(4, 2), range, views }
}

fn ahead() -> DepthView {
    DepthView { pixels_from_points: AHEAD, is_present: true }
}

fn images(points: &[[f32; 3]], params: &DepthImageParams) -> Vec<f32> {
    let mut all = Points::with_capacity(3, points.len());
    for point in points {
        all.push(point);
    }
    let mut out = Tensor::zeros(ElementType::F32, &params.shape()).unwrap();
    let Tensor::F32 { values, .. } = &mut out else { unreachable!() };
    values.fill(7.0);
    depth_image(&all, params, &mut out).unwrap();
    let Tensor::F32 { values, .. } = out else { unreachable!() };
    values
}

#[test]
fn the_nearest_point_of_a_pixel_is_kept() {
    let none = vec![0.0; 8];
    let at = |pixels: &[(usize, f32)]| {
        let mut image = none.clone();
        pixels.iter().for_each(|&(place, depth)| image[place] = depth);
        image
    };
    for (what, points, expected) in [
        ("no points", &[][..], none.clone()),
        ("the middle", &[[2.0, 0.0, 0.0]], at(&[(6, 2.0)])),
        ("the nearer first", &[[2.0, 0.0, 0.0], [5.0, 0.0, 0.0]], at(&[(6, 2.0)])),
        ("the nearer last", &[[5.0, 0.0, 0.0], [2.0, 0.0, 0.0]], at(&[(6, 2.0)])),
        ("equal", &[[2.0, 0.0, 0.0], [2.0, 0.0, 0.0]], at(&[(6, 2.0)])),
        ("the left edge is inside", &[[1.0, 2.0, 0.0]], at(&[(4, 1.0)])),
        ("the right edge is outside", &[[1.0, -2.0, 0.0]], none.clone()),
        ("the upper edge is inside", &[[1.0, 0.0, 1.0]], at(&[(2, 1.0)])),
        ("the lower edge is outside", &[[1.0, 0.0, -1.0]], none.clone()),
        ("behind", &[[-2.0, 0.0, 0.0]], none.clone()),
        ("on the plane of the camera", &[[0.0, 0.0, 0.0]], none.clone()),
        ("the least depth", &[[MIN_DEPTH_M, 0.0, 0.0]], none.clone()),
        ("above it", &[[MIN_DEPTH_M.next_up(), 0.0, 0.0]], at(&[(6, MIN_DEPTH_M.next_up())])),
        ("outside the range", &[[10.0, 0.0, 0.0]], none.clone()),
        ("on the low end of the range", &[[1.0, 0.0, 0.0], [9.0, -10.0, 0.0]], {
            at(&[(6, 1.0), (7, 9.0)])
        }),
        ("not a number", &[[f32::NAN, 0.0, 0.0], [1.0, f32::NAN, 0.0]], none.clone()),
    ] {
        assert_eq!(images(points, &params(vec![ahead()])), expected, "{what}");
    }
}

#[test]
fn a_missing_view_has_no_points() {
    let missing = DepthView { is_present: false, ..ahead() };
    let found = images(&[[2.0, 0.0, 0.0]], &params(vec![missing, ahead(), DepthView::MISSING]));
    assert_eq!(found.iter().position(|&depth| depth != 0.0), Some(8 + 6));
    assert_eq!(found.iter().filter(|&&depth| depth != 0.0).count(), 1);
}

#[test]
fn what_does_not_fit_is_refused() {
    let points = Points::with_capacity(3, 0);
    let mut out = Tensor::zeros(ElementType::F32, &[1, 1, 2, 4]).unwrap();
    for (params, part) in [
        (params(vec![]), "0 views"),
        (params(vec![ahead(); 17]), "17 views"),
        (params(vec![ahead(); 2]), "[2, 1, 2, 4] is required"),
        (DepthImageParams { size: Size::new(0, 2), ..params(vec![ahead()]) }, "0x2"),
    ] {
        let error = depth_image(&points, &params, &mut out).unwrap_err();
        assert!(error.message().contains(part), "{part}: {error}");
    }
    let mut half = Tensor::zeros(ElementType::F16, &[1, 1, 2, 4]).unwrap();
    assert!(depth_image(&points, &params(vec![ahead()]), &mut half).is_err());
}
