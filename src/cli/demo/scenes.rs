//! Images of a drive with its truth and its detections.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cli::interrupt::Interrupt;
use crate::cli::progress::Progress;
use det_post_eval::draw::{Animation, AnimationPaths, BEV_SIZE, BevImage, draw_camera_over_truth};
use det_post_eval::recordings::{Classes, Filters, Sides, Stream};
use det_post_eval::{GroundTruth2d, GroundTruth3d};
use det_post_ros::bag::BagReader;
use det_post_ros::messages::{Image, PointCloud2};
use det_post_ros::output_folder::OutputFolder;
use det_post_types::{
    Box3d, Detection2d, Detection3d, ImageBox, ImagePayload, PointRange, Result, Rle, Size, Stamp,
};

/// Edge length of the animation in pixels.
pub(super) const ANIMATION_SIZE: u32 = 640;

/// Every second scan is shown, for as long as it lasted.
pub(super) const SCANS_PER_FRAME: usize = 2;
const FRAME_MS: u16 = 200;

/// The inputs of the images of a drive.
pub(super) struct Scenes<'a> {
    pub(super) bag: &'a Path,
    pub(super) image_topic: &'a str,
    pub(super) points_topic: &'a str,
    pub(super) range: PointRange,
    pub(super) sides: &'a Sides,
    pub(super) classes: &'a Classes,
}

/// Truth and detections of one stamp.
pub(super) struct Moment<T, D> {
    pub(super) truth: Vec<T>,
    pub(super) detections: Vec<D>,
    /// Of the detections in an image, as far as they have some.
    masks: Vec<Option<Rle>>,
}

impl Scenes<'_> {
    /// Draws the frame with the most truth of the camera and of the LiDAR, and an animation of
    /// the LiDAR, to `images/`, as far as there are frames with truth and detections.
    ///
    /// # Errors
    /// `Io` when an image cannot be written, and those of decoding.
    pub(super) fn draw(&self, folder: &mut OutputFolder, interrupt: &Interrupt) -> Result<()> {
        let (images, clouds) = (self.camera_moments(), moments_in_space(self.sides));
        let fullest_image = fullest(&images);
        let fullest_cloud = fullest(&clouds);
        let shown: Vec<Stamp> = clouds.keys().copied().step_by(SCANS_PER_FRAME).collect();
        let mut animation = match shown.len() {
            0 => None,
            num => Some(animation_of(folder, num as u32)?),
        };
        let mut reader = BagReader::open(self.bag)?;
        let topics = reader.topics().to_vec();
        reader.select(&[self.image_topic, self.points_topic]);
        let progress = Progress::new(reader.num_messages(), "messages");
        while let Some(message) = reader.next_message()? {
            if interrupt.is_set() {
                return Ok(());
            }
            progress.advance();
            if topics[message.topic].name == self.image_topic {
                let image = Image::decode(message.data)?;
                if Some(image.header.stamp) == fullest_image {
                    let moment = &images[&image.header.stamp];
                    let path = folder.file("images/camera.png")?;
                    self.image(&ImagePayload::Raw(image.view()?), moment, &path)?;
                }
                continue;
            }
            let cloud = PointCloud2::decode(message.data)?;
            let stamp = cloud.header.stamp;
            let Some(moment) = clouds.get(&stamp) else { continue };
            if Some(stamp) == fullest_cloud {
                let image = self.bird_eye(&cloud, moment, BEV_SIZE)?;
                image.canvas().save(&folder.file("images/birds_eye.png")?)?;
            }
            if let Some(animation) = animation.as_mut().filter(|_| shown.contains(&stamp)) {
                animation.add(self.bird_eye(&cloud, moment, ANIMATION_SIZE)?.canvas())?;
            }
        }
        if let Some(animation) = animation {
            animation.finish()?;
        }
        Ok(())
    }

    fn camera_moments(&self) -> BTreeMap<Stamp, Moment<ImageBox, Detection2d<ImageBox>>> {
        let filter = Filters::default().in_images();
        let counted = |truth: &GroundTruth2d| filter.counts(truth).then_some(truth.bbox);
        moments(&self.sides.truth.cameras, &self.sides.detections.cameras, counted)
    }

    fn image(
        &self,
        payload: &ImagePayload<'_>,
        moment: &Moment<ImageBox, Detection2d<ImageBox>>,
        path: &Path,
    ) -> Result<()> {
        let Moment { truth, detections, masks } = moment;
        let names = self.classes.names();
        draw_camera_over_truth(payload, truth, detections, masks, names)?.save(path)
    }

    fn bird_eye(
        &self,
        cloud: &PointCloud2<'_>,
        moment: &Moment<Box3d, Detection3d>,
        size: u32,
    ) -> Result<BevImage> {
        let mut image = BevImage::new(Some(&cloud.view()?), &self.range, size)?;
        image.draw_truth(moment.truth.iter().copied());
        image.draw_detections(&moment.detections, self.classes.names());
        Ok(image)
    }
}

/// The animation of a drive, `images/drive.png` and `images/drive.gif`.
///
/// # Errors
/// `Usage` and `Io` of the folder, `Io` when a file cannot be written.
pub(super) fn animation_of(folder: &mut OutputFolder, num_frames: u32) -> Result<Animation> {
    let [png, gif] = ["images/drive.png", "images/drive.gif"].map(|name| folder.file(name));
    let paths = AnimationPaths { png: &png?, gif: &gif? };
    Animation::create(paths, Size::new(ANIMATION_SIZE, ANIMATION_SIZE), num_frames, FRAME_MS)
}

/// The boxes in space of the one sensor or rig.
pub(super) fn moments_in_space(sides: &Sides) -> BTreeMap<Stamp, Moment<Box3d, Detection3d>> {
    let filter = Filters::default().in_space();
    let counted = |truth: &GroundTruth3d| filter.counts(truth).then_some(truth.bbox);
    moments(&sides.truth.lidars, &sides.detections.lidars, counted)
}

/// The boxes of truth that count and the detections, for the frames that have both, of the one
/// sensor of a kind.
fn moments<T, B, D: Clone>(
    truth: &[Stream<T>],
    detections: &[Stream<D>],
    counted: impl Fn(&T) -> Option<B>,
) -> BTreeMap<Stamp, Moment<B, D>> {
    let (Some(there), Some(found)) = (truth.first(), detections.first()) else {
        return BTreeMap::new();
    };
    let moment = |(stamp, truth): (&Stamp, &Vec<T>)| {
        let detections = found.frames.get(stamp)?.clone();
        let truth = truth.iter().filter_map(&counted).collect();
        let masks = found.parts.get(stamp).map_or_else(Vec::new, |parts| parts.masks.clone());
        Some((*stamp, Moment { truth, detections, masks }))
    };
    there.frames.iter().filter_map(moment).collect()
}

/// The frame with the most truth, the first of equals.
fn fullest<T, D>(moments: &BTreeMap<Stamp, Moment<T, D>>) -> Option<Stamp> {
    let most = moments.iter().rev().max_by_key(|(_, moment)| moment.truth.len());
    most.map(|(stamp, _)| *stamp)
}
