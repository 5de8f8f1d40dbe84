//! Lens distortion: ideal rays to distorted ones and back. Sources of the formulas:
//! OpenCV's `calib3d` (Brown-Conrady with rational, thin prism and tilt terms) and its
//! `fisheye` (Kannala-Brandt).

use nalgebra::{Matrix2, Matrix3, Vector2, Vector3};

use crate::error::{Error, ErrorKind, Result};

/// The stage of errors.
pub(super) const STAGE: &str = "calibration";

/// The tangent of the largest angle from the optical axis that a Brown-Conrady model
/// covers: 86 degrees.
const MAX_TANGENT: f64 = 16.0;
/// Steps in which the range of a model is searched.
const RANGE_STEPS: u32 = 4096;
/// The largest absolute value of a coefficient.
const MAX_COEFFICIENT: f64 = 1e6;

/// A distortion model and its coefficients.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Distortion {
    /// Images are pinhole projections.
    None,
    /// `plumb_bob` and `rational_polynomial`.
    BrownConrady(Box<BrownConrady>),
    /// `equidistant`: the angle from the optical axis is a polynomial.
    Equidistant(Equidistant),
}

impl Distortion {
    /// The model named as in `sensor_msgs/CameraInfo`. Coefficients that are all zero are no
    /// distortion, except of `equidistant`, which then is an ideal fisheye lens.
    pub(super) fn new(model: &str, coefficients: &[f64]) -> Result<Self> {
        let unsupported = |message| Error::new(ErrorKind::UnsupportedDistortion, STAGE, message);
        if let Some(absurd) = coefficients.iter().find(|d| d.is_nan() || d.abs() > MAX_COEFFICIENT)
        {
            let message = format!("a coefficient of {model:?} is {absurd}");
            return Err(unsupported(message));
        }
        let is_zero = coefficients.iter().all(|&d| d == 0.0);
        match (model, coefficients.len()) {
            ("" | "none" | "plumb_bob" | "rational_polynomial", _) if is_zero => Ok(Self::None),
            ("plumb_bob" | "rational_polynomial", 4 | 5 | 8 | 12 | 14) => {
                Ok(Self::BrownConrady(Box::new(BrownConrady::new(coefficients))))
            }
            ("equidistant", 4) => Ok(Self::Equidistant(Equidistant::new(coefficients))),
            (_, number) => Err(unsupported(format!(
                "model {model:?} with {number} coefficients is not supported; plumb_bob and rational_polynomial \
                 with 4, 5, 8, 12 or 14 and equidistant with 4 are"
            ))),
        }
    }

    /// The distorted ray; `None` outside the range of the model.
    pub(super) fn apply(&self, ray: [f64; 2]) -> Option<[f64; 2]> {
        match self {
            Self::None => Some(ray),
            Self::BrownConrady(lens) => {
                let ray = Vector2::from(ray);
                let distorted = lens.contains(&ray).then(|| lens.apply(&ray));
                distorted.filter(|at| at.iter().all(|v| v.is_finite())).map(Into::into)
            }
            Self::Equidistant(lens) => lens.apply(ray),
        }
    }

    /// The ideal ray of a distorted one: the inverse of [`Distortion::apply`].
    pub(super) fn remove(&self, distorted: [f64; 2]) -> Option<[f64; 2]> {
        match self {
            Self::None => Some(distorted),
            Self::BrownConrady(lens) => lens.remove(Vector2::from(distorted)),
            Self::Equidistant(lens) => lens.remove(distorted),
        }
    }
}

/// Radial, tangential, thin prism and tilt terms.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BrownConrady {
    /// k1, k2, k3 of the numerator, k4, k5, k6 of the denominator.
    radial: [f64; 6],
    tangential: [f64; 2],
    prism: [f64; 4],
    /// The projection onto a tilted sensor.
    tilt: Option<Matrix3<f64>>,
    /// Squared length of the longest ray.
    max_squared: f64,
}

impl BrownConrady {
    /// Coefficients k1 k2 p1 p2 \[k3 \[k4 k5 k6 \[s1 s2 s3 s4 \[τx τy\]\]\]\].
    fn new(coefficients: &[f64]) -> Self {
        let mut d = [0.0; 14];
        d[..coefficients.len()].copy_from_slice(coefficients);
        let [k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4, tilt_x, tilt_y] = d;
        let is_tilted = tilt_x != 0.0 || tilt_y != 0.0;
        let mut lens = Self {
            radial: [k1, k2, k3, k4, k5, k6],
            tangential: [p1, p2],
            prism: [s1, s2, s3, s4],
            tilt: is_tilted.then(|| tilt(tilt_x, tilt_y)),
            max_squared: 0.0,
        };
        let profile = |radius: f64| Some(radius * lens.radial_factor(radius * radius)?);
        lens.max_squared = growing_range(MAX_TANGENT, profile).powi(2);
        lens
    }

    fn contains(&self, ray: &Vector2<f64>) -> bool {
        ray.norm_squared() <= self.max_squared
    }

    /// `None` where the denominator is not positive.
    fn radial_factor(&self, squared: f64) -> Option<f64> {
        let [k1, k2, k3, k4, k5, k6] = self.radial;
        let denominator = 1.0 + squared * (k4 + squared * (k5 + squared * k6));
        let numerator = 1.0 + squared * (k1 + squared * (k2 + squared * k3));
        (denominator > 0.0).then_some(numerator / denominator)
    }

    fn apply(&self, ray: &Vector2<f64>) -> Vector2<f64> {
        let squared = ray.norm_squared();
        let radial = self.radial_factor(squared).unwrap_or(f64::NAN);
        let ([p1, p2], [s1, s2, s3, s4]) = (self.tangential, self.prism);
        let (x, y) = (ray.x, ray.y);
        let bent = Vector3::new(
            x * radial
                + 2.0 * p1 * x * y
                + p2 * (squared + 2.0 * x * x)
                + squared * (s1 + squared * s2),
            y * radial
                + p1 * (squared + 2.0 * y * y)
                + 2.0 * p2 * x * y
                + squared * (s3 + squared * s4),
            1.0,
        );
        let seen = self.tilt.map_or(bent, |tilt| tilt * bent);
        seen.xy() / seen.z
    }

    /// Newton's method. A step that leads out of the range or does not come nearer is halved.
    fn remove(&self, distorted: Vector2<f64>) -> Option<[f64; 2]> {
        const STEP: f64 = 1e-6;
        let residual = |ray: &Vector2<f64>| self.apply(ray) - distorted;
        let mut ray = distorted * (self.max_squared.sqrt() / distorted.norm()).min(1.0);
        if distorted == Vector2::zeros() {
            ray = distorted;
        }
        let mut error = residual(&ray);
        for _ in 0..50 {
            if error.norm() < 1e-13 {
                break;
            }
            let [x, y] = [Vector2::new(STEP, 0.0), Vector2::new(0.0, STEP)]
                .map(|step| (residual(&(ray + step)) - residual(&(ray - step))) / (2.0 * STEP));
            let mut step = Matrix2::from_columns(&[x, y]).try_inverse()? * error;
            let nearer = (0..20).find_map(|_| {
                let next = ray - step;
                step /= 2.0;
                let left = residual(&next);
                (self.contains(&next) && left.norm() < error.norm()).then_some((next, left))
            });
            let Some(nearer) = nearer else { break };
            (ray, error) = nearer;
        }
        (error.norm() < 1e-9 && self.contains(&ray)).then(|| ray.into())
    }
}

/// The projection onto a sensor that is turned about x, then about y, by angles in radians.
fn tilt(about_x: f64, about_y: f64) -> Matrix3<f64> {
    let ((sx, cx), (sy, cy)) = (about_x.sin_cos(), about_y.sin_cos());
    let x = Matrix3::new(1.0, 0.0, 0.0, 0.0, cx, sx, 0.0, -sx, cx);
    let y = Matrix3::new(cy, 0.0, -sy, 0.0, 1.0, 0.0, sy, 0.0, cy);
    let turned = y * x;
    let (a, b, c) = (turned[(2, 2)], turned[(0, 2)], turned[(1, 2)]);
    Matrix3::new(a, 0.0, -b, 0.0, a, -c, 0.0, 0.0, 1.0) * turned
}

/// The Kannala-Brandt model: `theta (1 + k1 theta² + … + k4 theta⁸)` of the angle `theta`
/// between ray and optical axis is the distance from the centre.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Equidistant {
    k: [f64; 4],
    /// The largest angle of a ray.
    max_angle: f64,
}

impl Equidistant {
    fn new(coefficients: &[f64]) -> Self {
        let mut k = [0.0; 4];
        k.copy_from_slice(&coefficients[..4]);
        let mut lens = Self { k, max_angle: 0.0 };
        // A ray (x, y, 1) is at most a quarter turn from the axis.
        lens.max_angle =
            growing_range(std::f64::consts::FRAC_PI_2, |angle| Some(lens.radius(angle)));
        lens
    }

    fn radius(&self, angle: f64) -> f64 {
        let squared = angle * angle;
        let [k1, k2, k3, k4] = self.k;
        angle * (1.0 + squared * (k1 + squared * (k2 + squared * (k3 + squared * k4))))
    }

    fn apply(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let tangent = x.hypot(y);
        let angle = tangent.atan();
        if angle > self.max_angle || !tangent.is_finite() {
            return None;
        }
        let factor = if tangent > 0.0 { self.radius(angle) / tangent } else { 1.0 };
        Some([x * factor, y * factor])
    }

    /// The radius grows with the angle: bisection.
    fn remove(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let radius = x.hypot(y);
        let (mut below, mut above) = (0.0, self.max_angle);
        if radius.is_nan() || radius > self.radius(above) {
            return None;
        }
        for _ in 0..60 {
            let middle = 0.5 * (below + above);
            let is_below = self.radius(middle) < radius;
            (below, above) = if is_below { (middle, above) } else { (below, middle) };
        }
        let factor = if radius > 0.0 { above.tan() / radius } else { 1.0 };
        Some([x * factor, y * factor])
    }
}

/// The end of the range from 0, up to `most`, in which a profile grows.
fn growing_range(most: f64, profile: impl Fn(f64) -> Option<f64>) -> f64 {
    let mut last = 0.0;
    for step in 1..=RANGE_STEPS {
        let at = f64::from(step) / f64::from(RANGE_STEPS) * most;
        match profile(at) {
            Some(value) if value > last => last = value,
            _ => return f64::from(step - 1) / f64::from(RANGE_STEPS) * most,
        }
    }
    most
}
