//! Images of the surround network: all cameras and the bird's-eye view.

use std::path::Path;

use super::scenes::{ANIMATION_SIZE, SCANS_PER_FRAME, animation_of, moments_in_space};
use crate::cli::interrupt::Interrupt;
use crate::draw::draw;
use crate::replay::ReplayFrame;
use det_post_eval::draw::{BevImage, Canvas, side_by_side};
use det_post_eval::recordings::Sides;
use det_post_ros::output_folder::OutputFolder;
use det_post_types::{Detection3d, Detections, PointRange, Result, Stamp};

/// The range of the bird's-eye views.
const RANGE: PointRange = PointRange { min: [-52.0, -52.0, -5.0], max: [52.0, 52.0, 5.0] };

/// The frame of a drive that is drawn, as it was served.
pub(super) struct SurroundScene {
    number: u64,
    served: Option<Served>,
}

struct Served {
    stamp: Stamp,
    /// All cameras, with the boxes that they show.
    images: Canvas,
    detections: Vec<Detection3d>,
    class_names: Vec<String>,
}

impl SurroundScene {
    /// The frame in the middle of a drive.
    pub(super) fn in_the_middle(num_frames: f64) -> Self {
        Self { number: (0.5 * num_frames) as u64, served: None }
    }

    /// Keeps the frame if it is the one, or before it if it is the first that was served.
    ///
    /// # Errors
    /// Returns the errors of drawing.
    pub(super) fn see(&mut self, frame: &ReplayFrame<'_>) -> Result<()> {
        let is_wanted = frame.number == self.number || self.served.is_none();
        let (true, Ok(found)) = (is_wanted, &frame.result) else { return Ok(()) };
        let Detections::Boxes3d(detections) = found.detections else { return Ok(()) };
        self.served = Some(Served {
            stamp: found.header.stamp,
            images: draw(&found.inputs, 0, found.detections, frame.config)?,
            detections: detections.to_vec(),
            class_names: frame.config.kind.class_names().to_vec(),
        });
        Ok(())
    }

    /// Draws the frame with its truth to `images/surround.png`, and an animation of the
    /// bird's-eye view to `images/drive.png` and `images/drive.gif`.
    ///
    /// # Errors
    /// `Io` when an image cannot be written.
    pub(super) fn draw(
        &self,
        sides: &Sides,
        folder: &mut OutputFolder,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let moments = moments_in_space(sides);
        let class_names = self.served.as_ref().map_or(&[][..], |served| &served.class_names);
        if let Some(served) = &self.served {
            let size = served.images.size().height;
            let mut from_above = BevImage::new(None, &RANGE, size)?;
            if let Some(moment) = moments.get(&served.stamp) {
                from_above.draw_truth(moment.truth.iter().copied());
            }
            from_above.draw_detections(&served.detections, &served.class_names);
            let both = side_by_side(&served.images, from_above.canvas());
            both.save(&folder.file("images/surround.png")?)?;
        }
        let shown: Vec<_> = moments.values().step_by(SCANS_PER_FRAME).collect();
        if shown.is_empty() {
            return Ok(());
        }
        let mut animation = animation_of(folder, shown.len() as u32)?;
        for moment in shown {
            if interrupt.is_set() {
                return Ok(());
            }
            let mut image = BevImage::new(None, &RANGE, ANIMATION_SIZE)?;
            image.draw_truth(moment.truth.iter().copied());
            image.draw_detections(&moment.detections, class_names);
            animation.add(image.canvas())?;
        }
        animation.finish()
    }
}

/// The list of results, and further commands.
pub(super) fn directions(out: &Path, seconds: f64) -> String {
    let out = out.display();
    let program = std::env::args_os().next().unwrap_or_else(|| "det_post".into());
    let program = program.display();
    format!(
        "in {seconds:.0} s, below {out}/
  report.html        accuracy, curves and the worst frames, for a browser
  images/            surround.png: cameras and from above; drive.gif, drive.png
  detections/        a recording of the detections; detections.jsonl: JSON lines
  drive/             the recording with ground truth: Foxglove, ros2 bag play
  report.json        frames, times, counts of limits; eval.json: accuracy
  figures/           precision over recall, calibration

next
  {program} replay {out}/drive --config {out}/demo.param.yaml \\
      -p surround.score_thresholds:=[0.5] --out certain
  {program} eval --detections certain --truth {out}/drive
  {program} inspect {out}/drive
"
    )
}
