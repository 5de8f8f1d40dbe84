//! Sun, sky and haze, and the shading of surfaces. Colours are linear RGB.

use nalgebra::{Vector2, Vector3};

use super::material::{Appearance, scaled};
use super::random::{Random, noise_2d};

/// Linear interpolation between two colours.
#[inline(always)]
pub(super) fn blend(a: [f32; 3], b: [f32; 3], share: f32) -> [f32; 3] {
    let mut color = a;
    for i in 0..3 {
        color[i] += (b[i] - a[i]) * share;
    }
    color
}

/// Upper limit of the woods on the horizon: the sine of the elevation.
const WOODS_HEIGHT: f32 = 0.05;

/// The light of a drive.
#[derive(Clone, Debug)]
pub(super) struct Light {
    /// Towards the sun, in the map.
    pub(super) sun: Vector3<f64>,
    sun_color: [f32; 3],
    zenith: [f32; 3],
    horizon: [f32; 3],
    /// Cloud cover, 0 to 1.
    cover: f32,
    /// Distance in metres at which haze is half way to its maximum.
    haze_m: f32,
    brightness: f64,
    key: u32,
}

/// The directions of the light in the axes of a camera.
#[derive(Clone, Copy, Debug)]
pub(super) struct LightDirections {
    /// Towards the sun.
    pub(super) sun: Vector3<f32>,
    /// Upwards.
    pub(super) up: Vector3<f32>,
}

impl Light {
    /// Random weather: clear to overcast, never night.
    pub(super) fn new(random: &mut Random) -> Self {
        let (sin, cos) = libm::sincos(random.range(0.0, std::f64::consts::TAU));
        let height = random.range(0.55, 1.5);
        let sun = Vector3::new(cos, sin, height).normalize();
        let cover = random.range(0.05, 0.8) as f32;
        let strength = 2.3 * (1.0 - 0.72 * cover);
        let warmth = 1.0 - 0.5 * (sun.z as f32);
        let gray = 0.62 + 0.1 * cover;
        let blend = |clear: f32| clear + (gray - clear) * (0.25 + 0.75 * cover);
        Self {
            sun,
            sun_color: [
                strength,
                strength * (1.0 - 0.1 * warmth),
                strength * (1.0 - 0.26 * warmth),
            ],
            zenith: [blend(0.16), blend(0.33), blend(0.72)],
            horizon: [blend(0.6), blend(0.7), blend(0.82)],
            cover,
            haze_m: random.range(350.0, 1200.0) as f32,
            brightness: random.range(0.85, 1.15),
            key: random.next() as u32,
        }
    }

    /// The exposure of a camera, which varies slowly as by automatic exposure.
    pub(super) fn exposure(&self, time_s: f64) -> f32 {
        let phase = f64::from(self.key % 628) * 0.01;
        let wander = 0.1 * libm::sin(0.7 * time_s + phase) + 0.06 * libm::sin(2.3 * time_s);
        let level = 1.15 / (0.5 + 0.5 * f64::from(self.sun_color[0]));
        (self.brightness * level * (1.0 + wander)) as f32
    }

    /// The colour of a surface. `normal` and `ray`, the unit vector from the
    /// camera, are in the camera's axes. The last argument is the shares of
    /// sunlight and skylight, 0 to 1 each.
    #[inline]
    pub(super) fn shade(
        &self,
        appearance: &Appearance,
        normal: &Vector3<f32>,
        ray: &Vector3<f32>,
        lights: &LightDirections,
        [sunlit, skylit]: [f32; 2],
    ) -> [f32; 3] {
        let direct = normal.dot(&lights.sun).max(0.0) * sunlit;
        let upward = 0.5 + 0.5 * normal.dot(&lights.up);
        let mut color = [0.0; 3];
        for (i, value) in color.iter_mut().enumerate() {
            let sky = 0.72 * self.zenith[i] + 0.28 * self.horizon[i];
            let around = sky * upward + 0.16 * (1.0 - upward);
            *value = appearance.albedo[i] * (self.sun_color[i] * direct + 0.75 * around * skylit);
        }
        if appearance.gloss > 0.0 {
            let facing = -normal.dot(ray);
            let mirrored = ray + normal * (2.0 * facing);
            let glance = 1.0 - facing.clamp(0.0, 1.0);
            let share = appearance.gloss * (0.14 + 0.86 * glance * glance * glance);
            let height = mirrored.dot(&lights.up);
            let spark = mirrored.dot(&lights.sun).max(0.0);
            let spark = spark * spark;
            let spark = spark * spark * spark * spark;
            let spark = spark * spark * spark * sunlit;
            let sky = if height > 0.0 { self.gradient(height) } else { [0.12, 0.12, 0.11] };
            for (i, value) in color.iter_mut().enumerate() {
                *value +=
                    share * (sky[i] - *value) + appearance.gloss * 0.8 * self.sun_color[i] * spark;
            }
        }
        color
    }

    /// Applies the haze of a distance.
    #[inline]
    pub(super) fn through_haze(&self, color: [f32; 3], distance_m: f32) -> [f32; 3] {
        let share = distance_m / (distance_m + self.haze_m);
        let share = share * share;
        blend(color, scaled(self.horizon, 0.9), share)
    }

    #[inline]
    fn gradient(&self, height: f32) -> [f32; 3] {
        let low = 1.0 - height.clamp(0.0, 1.0);
        let low = low * low * low;
        blend(self.zenith, self.horizon, low)
    }

    /// The colour of distant woods in a unit direction of the map; `None` above
    /// them.
    pub(super) fn woods(&self, direction: &Vector3<f32>) -> Option<[f32; 3]> {
        if direction.z > WOODS_HEIGHT {
            return None;
        }
        let level = (direction.x * direction.x + direction.y * direction.y).sqrt();
        let around = Vector2::new(direction.x, direction.y) / level.max(1e-6);
        let ridge = 0.012
            + 0.03 * noise_2d(self.key ^ 1, around.x * 7.0 + 40.0, around.y * 7.0)
            + 0.008 * noise_2d(self.key ^ 2, around.x * 55.0, around.y * 55.0);
        (direction.z < ridge).then(|| blend(self.horizon, [0.1, 0.15, 0.1], 0.45))
    }

    /// The colour of the sky with clouds in a unit direction of the map.
    pub(super) fn sky(&self, direction: &Vector3<f32>) -> [f32; 3] {
        let height = direction.z.max(0.0);
        let sky = self.gradient(height);
        let spread = 1.0 / (height + 0.12);
        let (x, y) = (direction.x * spread, direction.y * spread);
        let cloud = 0.55 * noise_2d(self.key, x * 1.3, y * 1.3)
            + 0.3 * noise_2d(self.key ^ 3, x * 3.1, y * 3.1)
            + 0.15 * noise_2d(self.key ^ 4, x * 7.3, y * 7.3);
        let threshold = 0.75 - 0.55 * self.cover;
        let thick = ((cloud - threshold) * 3.5).clamp(0.0, 1.0);
        let white = 0.86 - 0.25 * thick * self.cover;
        blend(sky, [white; 3], 0.85 * thick)
    }
}
