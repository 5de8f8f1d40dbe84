//! Boxes in images as files of COCO, for pycocotools, FiftyOne and the like.
//!
//! Truth that is not counted is marked as a crowd, with the same effect as in [`crate`].
//! A rotated box has the bounds of its rectangle. All detections are in the files: COCO has no field
//! that excludes one which matches nothing and is lower than the filter's heights, as `crate` does.

use serde::Serialize;

use super::filters::Filters;
use super::pair::Paired;
use crate::GroundTruth2d;
use det_post_ros::output_folder::OutputFolder;
use det_post_types::{Box2d, Detection2d, Error, ErrorKind, ImageBox, Result};

/// A camera's two files, as text.
pub(super) struct CocoFiles {
    /// The channel of the camera, or the topic of its detections.
    pub(super) name: String,
    truth: String,
    detections: String,
}

#[derive(Serialize)]
struct Truth<'a> {
    images: Vec<Image>,
    categories: Vec<Category<'a>>,
    annotations: Vec<Annotation>,
}

/// A frame: of all drives, in their order, from 1.
#[derive(Serialize)]
struct Image {
    id: usize,
    /// The topic of the detections and the stamp in nanoseconds.
    file_name: String,
}

#[derive(Serialize)]
struct Category<'a> {
    id: u32,
    name: &'a str,
}

#[derive(Serialize)]
struct Annotation {
    id: usize,
    image_id: usize,
    category_id: u32,
    /// Left, top, width, height.
    bbox: [f64; 4],
    area: f64,
    iscrowd: u8,
}

#[derive(Serialize)]
struct Found {
    image_id: usize,
    category_id: u32,
    bbox: [f64; 4],
    score: f32,
}

impl CocoFiles {
    /// The frames of a camera; `classes` are names with their indices.
    ///
    /// # Errors
    /// `Io` when a number has no form in JSON.
    pub(super) fn of(
        paired: &Paired<GroundTruth2d, Detection2d<ImageBox>>,
        classes: &[(&str, u32)],
        filters: &Filters,
    ) -> Result<Self> {
        let filter = filters.in_images();
        let categories =
            classes.iter().map(|&(name, class)| Category { id: class + 1, name }).collect();
        let (mut images, mut annotations, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for (image_id, (stamp, frame)) in (1..).zip(paired.stamps.iter().zip(&paired.frames)) {
            let file_name = format!("{}/{}", paired.detections, stamp.nanos());
            images.push(Image { id: image_id, file_name });
            for truth in &frame.truth {
                let bbox = bounds(&truth.bbox);
                annotations.push(Annotation {
                    id: annotations.len() + 1,
                    image_id,
                    category_id: truth.class + 1,
                    bbox,
                    area: bbox[2] * bbox[3],
                    iscrowd: u8::from(!filter.counts(truth)),
                });
            }
            for detection in &frame.detections {
                if detection.score.is_finite() && detection.bbox.is_finite() {
                    let (category_id, bbox) = (detection.class + 1, bounds(&detection.bbox));
                    found.push(Found { image_id, category_id, bbox, score: detection.score });
                }
            }
        }
        Ok(Self {
            name: paired.name.clone(),
            truth: json(&Truth { images, categories, annotations })?,
            detections: json(&found)?,
        })
    }

    /// Writes the two files to a folder: `CAMERA_truth.json` and `CAMERA_detections.json`.
    ///
    /// # Errors
    /// `Usage` and `Io` of the folder.
    pub(super) fn write(&self, camera: &str, folder: &mut OutputFolder) -> Result<()> {
        folder.write(&format!("{camera}_truth.json"), &self.truth)?;
        folder.write(&format!("{camera}_detections.json"), &self.detections)
    }
}

fn bounds(bbox: &ImageBox) -> [f64; 4] {
    let Box2d { x1, y1, x2, y2 } = bbox.bounds();
    let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(f64::from);
    [x1, y1, x2 - x1, y2 - y1]
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| Error::new(ErrorKind::Io, "eval", "boxes have no form in JSON").with_source(e))
}
