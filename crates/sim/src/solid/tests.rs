//! Intersection of rays and solids, against the definitions of the shapes.

use nalgebra::{Matrix3, Vector3};
use proptest::prelude::*;

use super::*;

/// Whether a point of the cube is in a shape, by its definition.
fn is_inside(shape: Shape, p: &Vector3<f64>) -> bool {
    let lift = 0.5 * (p.z + 1.0);
    let between = |low: f64, x: f64, high: f64| low <= x && x <= high;
    between(-1.0, p.z, 1.0)
        && match shape {
            Shape::Box { front, back, side } => {
                let [front, back, side] = [front, back, side].map(|taper| f64::from(taper) * lift);
                between(back - 1.0, p.x, 1.0 - front) && between(side - 1.0, p.y, 1.0 - side)
            }
            Shape::Cylinder => p.x * p.x + p.y * p.y <= 1.0,
            Shape::Ellipsoid => p.norm_squared() <= 1.0,
        }
}

fn shapes() -> impl Strategy<Value = Shape> {
    prop_oneof![
        (0.0_f32..0.95, 0.0_f32..0.95, 0.0_f32..0.95).prop_map(|(front, back, side)| Shape::Box {
            front,
            back,
            side
        }),
        Just(Shape::CUBE),
        Just(Shape::Cylinder),
        Just(Shape::Ellipsoid),
    ]
}

proptest! {
    #[test]
    fn rays_hit_solids_where_they_enter(
        shape in shapes(),
        start in proptest::array::uniform3(-4.0_f64..4.0),
        aim in proptest::array::uniform3(-1.2_f64..1.2),
    ) {
        let (start, aim) = (Vector3::from(start), Vector3::from(aim));
        prop_assume!(start.amax() > 1.5);
        let direction = (aim - start).normalize();
        let rays = Rays {
            origin: start.map(|x| x as f32),
            a: direction.map(|x| x as f32),
            b: Vector3::zeros(),
        };
        let met = f64::from(intersect(shape, &rays, &[1.0; LANES], &[0.0; LANES])[3]);
        // Walk the ray in steps of 2 mm.
        let walked = (0..8000).map(|i| i as f64 * 0.002).find(|t| is_inside(shape, &(start + direction * *t)));
        match walked {
            Some(t) => prop_assert!((met - t).abs() < 0.003, "{met} {t}"),
            // The walk steps over corners that are thinner than its step.
            None if met.is_finite() => {
                let at = |t: f64| is_inside(shape, &((start + direction * t) * 0.9995));
                prop_assert!(at(met) || at(met + 0.001), "{met}");
            }
            None => {}
        }
    }

    #[test]
    fn a_surface_point_is_where_its_solid_is_hit(
        shape in shapes(),
        half in proptest::array::uniform3(0.1_f64..3.0),
        aim in proptest::array::uniform2(-0.5_f64..0.5),
        (lean, turn) in (-0.8_f64..0.8, 0.0_f64..6.0),
    ) {
        let solid = Solid::new(shape, Material::Stone, [0.5; 3], [0.0; 3], half);
        let (sin, cos) = turn.sin_cos();
        let solid = solid.leaned(lean).placed(&Vector3::new(9.0, aim[0], aim[1]), [cos, sin]);
        let target = Target::new(&solid, &Vector3::zeros(), &Matrix3::identity());
        let rays = Rays {
            origin: -(target.cube_from_sensor * target.center),
            a: target.cube_from_sensor * Vector3::x(),
            b: Vector3::zeros(),
        };
        let met = intersect(shape, &rays, &[1.0; LANES], &[0.0; LANES])[0];
        prop_assume!(met.is_finite());
        let point = surface_point(&target, &(Vector3::x() * met));
        prop_assert!((point.normal.norm() - 1.0).abs() < 1e-5);
        // The ray comes from outside.
        prop_assert!(point.normal.x < 1e-3, "{:?}", point);
        prop_assert!(point.position.amax() < 1.001, "{:?}", point);
    }
}
