//! The sky of an image.

use nalgebra::Vector3;

use super::light::{Light, blend};
use super::raster::Pinhole;
use super::scene::View;

/// The sky of an image, sampled at every eighth pixel and interpolated.
#[derive(Clone, Debug, Default)]
pub(super) struct Sky {
    columns: usize,
    colors: Vec<[f32; 3]>,
}

impl Sky {
    const STEP: usize = 8;

    /// Renders the sky of a view.
    pub(super) fn render(&mut self, light: &Light, view: &View, pinhole: &Pinhole) {
        self.columns = pinhole.width / Self::STEP + 2;
        self.colors.clear();
        for row in 0..pinhole.height / Self::STEP + 2 {
            for column in 0..self.columns {
                let (x, y) = (pinhole.x(column * Self::STEP), pinhole.y(row * Self::STEP));
                let direction = Vector3::new(x, y, 1.0).normalize().map(f64::from);
                let in_map = view.sensor_from_map.tr_mul(&direction);
                self.colors.push(light.sky(&in_map.map(|value| value as f32)));
            }
        }
    }

    /// The colour in a direction inside the image, in the camera's axes.
    #[inline]
    pub(super) fn at(&self, direction: &Vector3<f32>, pinhole: &Pinhole) -> [f32; 3] {
        let sample = |along: f32, center: f32| {
            ((along * pinhole.focal + center - 0.5) / Self::STEP as f32).max(0.0)
        };
        let x = sample(direction.x, pinhole.center[0]);
        let y = sample(direction.y, pinhole.center[1]);
        let (column, row) = (x as usize, y as usize);
        let (x, y) = (x - column as f32, y - row as f32);
        let (upper, lower) = (row * self.columns + column, (row + 1) * self.columns + column);
        let upper = blend(self.colors[upper], self.colors[upper + 1], x);
        blend(upper, blend(self.colors[lower], self.colors[lower + 1], x), y)
    }
}
