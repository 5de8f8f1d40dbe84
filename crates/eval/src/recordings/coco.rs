//! Boxes in images as files of COCO, for pycocotools, FiftyOne and the like.
//!
//! Truth that is not counted is marked as a crowd, with the same effect as in [`crate`].
//! A rotated box has the bounds of its rectangle. Masks are runs (`segmentation`), keypoints x, y and
//! visibility, 2 where truth has a score above 0, in turn. All detections are in the files: COCO has no field
//! that excludes one which matches nothing and is lower than the filter's heights, as `crate` does.

use serde::Serialize;

use super::filters::Filters;
use super::pair::Paired;
use crate::GroundTruth2d;
use crate::parts::{FrameParts, Parts};
use det_post_ros::output_folder::OutputFolder;
use det_post_types::{Box2d, Detection2d, Error, ErrorKind, ImageBox, Keypoint, Result, Rle};

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
    /// Of frames with masks.
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
}

impl Image {
    fn new(id: usize, file_name: String, parts: &FrameParts) -> Self {
        let mut masks = parts.truth.masks.iter().chain(&parts.detections.masks).flatten();
        let size = masks.next().map(Rle::size);
        let [height, width] = [size.map(|of| of.height), size.map(|of| of.width)];
        Self { id, file_name, height, width }
    }
}

/// The mask and the keypoints of an object or a detection, if it has them.
#[derive(Serialize)]
struct OwnParts {
    #[serde(skip_serializing_if = "Option::is_none")]
    segmentation: Option<Segmentation>,
    /// x, y and visibility or score of each in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keypoints: Vec<f64>,
    /// Of truth with keypoints: the labelled ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    num_keypoints: Option<usize>,
}

/// A mask in lengths of runs.
#[derive(Serialize)]
struct Segmentation {
    /// Rows and columns.
    size: [u32; 2],
    counts: String,
}

impl OwnParts {
    fn new(parts: &Parts, at: usize, of_keypoint: fn(&Keypoint) -> [f64; 3]) -> Self {
        let segmentation = parts.mask(at).map(|mask| Segmentation {
            size: [mask.size().height, mask.size().width],
            counts: mask.to_compressed(),
        });
        let keypoints = parts.keypoints(at).iter().flat_map(of_keypoint).collect();
        Self { segmentation, keypoints, num_keypoints: None }
    }

    fn of_truth(parts: &Parts, at: usize) -> Self {
        let num_keypoints = (!parts.keypoints(at).is_empty()).then(|| parts.num_labelled(at));
        let own = Self::new(parts, at, |&Keypoint { x, y, score }| match score > 0.0 {
            true => [x.into(), y.into(), 2.0],
            false => [0.0; 3],
        });
        Self { num_keypoints, ..own }
    }

    fn of_detection(parts: &Parts, at: usize) -> Self {
        Self::new(parts, at, |&Keypoint { x, y, score }| [x, y, score].map(f64::from))
    }
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
    #[serde(flatten)]
    parts: OwnParts,
}

#[derive(Serialize)]
struct Found {
    image_id: usize,
    category_id: u32,
    bbox: [f64; 4],
    score: f32,
    #[serde(flatten)]
    parts: OwnParts,
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
            let none = FrameParts::default();
            let parts = paired.parts.get(image_id - 1).unwrap_or(&none);
            images.push(Image::new(image_id, file_name, parts));
            for (at, truth) in frame.truth.iter().enumerate() {
                let bbox = bounds(&truth.bbox);
                annotations.push(Annotation {
                    id: annotations.len() + 1,
                    image_id,
                    category_id: truth.class + 1,
                    bbox,
                    area: parts.truth.mask(at).map_or(bbox[2] * bbox[3], |of| of.area() as f64),
                    iscrowd: u8::from(!filter.counts(truth)),
                    parts: OwnParts::of_truth(&parts.truth, at),
                });
            }
            for (at, detection) in frame.detections.iter().enumerate() {
                if detection.score.is_finite() && detection.bbox.is_finite() {
                    let (category_id, bbox) = (detection.class + 1, bounds(&detection.bbox));
                    let (score, parts) =
                        (detection.score, OwnParts::of_detection(&parts.detections, at));
                    found.push(Found { image_id, category_id, bbox, score, parts });
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
