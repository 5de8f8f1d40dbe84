//! Precision-recall curves and calibration plots as images.

use std::path::Path;

use super::Evaluation;
use super::figures::{Figures, SensorFigures};
use super::file_names::file_names;
use crate::draw::{Curve, IDEAL, class_rgb, save_plot};
use crate::recall_points;
use det_post_ros::output_folder::OutputFolder;
use det_post_types::Result;

impl Evaluation {
    /// Draws two images for every sensor into a folder; their names there
    /// start with `prefix` and the sensor, by `file_names`.
    ///
    /// # Errors
    /// `Usage` and `Io` of the folder.
    pub fn draw(&self, folder: &mut OutputFolder, prefix: &str) -> Result<()> {
        let names = file_names(self.sensors.iter().map(|sensor| &*sensor.name));
        for (sensor, name) in self.sensors.iter().zip(names) {
            draw_precision(
                sensor,
                |name| self.color_of(name),
                &folder.file(&format!("{prefix}{name}_precision_recall.png"))?,
            )?;
            draw_calibration(sensor, &folder.file(&format!("{prefix}{name}_calibration.png"))?)?;
        }
        Ok(())
    }

    /// The colour of a class, as in pictures of the frames.
    pub(super) fn color_of(&self, name: &str) -> [u8; 3] {
        let at = self.class_names.iter().position(|class| class == name);
        class_rgb(at.and_then(|at| self.class_numbers.get(at)).copied().unwrap_or_default())
    }
}

/// Precision over recall, a curve for each class that is there, in its colour, and by which
/// matches.
pub(super) fn precision_curves(
    sensor: &SensorFigures,
    color: impl Fn(&str) -> [u8; 3],
) -> (&'static str, Vec<Curve>) {
    let curve = |name: &str, ap: Option<f64>, precision: &[f64]| {
        let points = recall_points().into_iter().zip(precision).map(|(x, &y)| [x, y]);
        ap.map(|ap| Curve {
            name: format!("{name} {ap:.2}"),
            color: color(name),
            points: points.collect(),
            has_dots: false,
        })
    };
    let (title, curves): (_, Vec<Option<Curve>>) = match &sensor.of {
        Figures::Lidar(figures) => {
            let ap_2m = |row: &super::figures::LidarRow| row.ap_by_distance.map(|ap| ap[2]);
            let classes = figures.classes.iter();
            let curves = classes.map(|(name, c)| curve(name, ap_2m(&c.all), &c.precision));
            ("centres within 2 m", curves.collect())
        }
        Figures::Camera(figures) => {
            let classes = figures.classes.iter();
            let curves = classes.map(|(name, c)| curve(name, c.all.ap50, &c.precision));
            ("overlap of 0.5", curves.collect())
        }
    };
    (title, curves.into_iter().flatten().collect())
}

/// Precision over score, beside what it should be.
pub(super) fn calibration_curves(sensor: &SensorFigures) -> [Curve; 2] {
    let bins = sensor.calibration.bins.iter();
    let points = bins.filter_map(|bin| Some([bin.mean_score?, bin.precision?])).collect();
    let error = sensor.calibration.expected_error;
    let name = error.map_or_else(|| "no detections".into(), |error| format!("mean gap {error:.3}"));
    let ideal = vec![[0.0, 0.0], [1.0, 1.0]];
    [
        Curve { name: "ideal".into(), color: IDEAL, points: ideal, has_dots: false },
        Curve { name, color: class_rgb(0), points, has_dots: true },
    ]
}

fn draw_precision(
    sensor: &SensorFigures,
    color: impl Fn(&str) -> [u8; 3],
    path: &Path,
) -> Result<()> {
    let (title, curves) = precision_curves(sensor, color);
    save_plot(path, &format!("{}: {title}", sensor.name), ["recall", "precision"], &curves)
}

fn draw_calibration(sensor: &SensorFigures, path: &Path) -> Result<()> {
    let title = format!("{}: calibration, precision by score", sensor.name);
    save_plot(path, &title, ["score", "precision"], &calibration_curves(sensor))
}
