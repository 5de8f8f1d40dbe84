//! Images as the camera network takes them, and their truth.

use std::path::Path;

use det_post::config::YoloFacts;
use det_post_ops::image::letterbox::{self, LetterboxParams, letterbox};
use det_post_sim::{Drive, RenderedImage};
use det_post_types::{
    ElementType, Encoding, ImageView, Letterbox, Normalization, Size, Tensor, TensorValues,
};

use crate::array::Array;
use crate::{Failure, SCANS_BETWEEN_FRAMES, class_index};

/// Writes `num_frames` images of a drive, letterboxed, with their boxes and visible objects.
pub fn export_images(
    drive: &Drive,
    facts: &YoloFacts,
    num_frames: u64,
    folder: &Path,
) -> Result<(), Failure> {
    let Some(Size { width, height }) = facts.input_size else {
        return Err("the head file of the camera does not say its input_size".into());
    };
    let (columns, rows) = (width as usize, height as usize);
    // Levels of 0 to 255 are what a byte can hold; the trainer normalises.
    let params = LetterboxParams {
        placement: facts.placement,
        channel_order: facts.channel_order,
        normalization: Normalization::from_mean_std([0.0; 3], [1.0; 3]),
        pad_value: facts.pad_value,
        resize: facts.resize,
    };
    let mut workspace = letterbox::Workspace::new();
    let mut input = Tensor::zeros(ElementType::F32, &[1, 3, rows, columns])?;
    let mut rendered = RenderedImage::default();
    let mut levels = Vec::with_capacity(3 * rows * columns);

    let mut images = Array::new(folder, "images", &[3, rows, columns]);
    let mut boxes = Array::new(folder, "boxes_2d", &[6]);
    let mut frames = Array::new(folder, "camera_frames", &[]);
    let mut objects = Array::new(folder, "instances", &[rows, columns]);
    for frame in 0..num_frames {
        // Exposures of both sensors at other times than the scans.
        drive.image(0, frame * SCANS_BETWEEN_FRAMES + 11, &mut rendered);
        let step = 3 * rendered.size.width as usize;
        let image = ImageView::new(rendered.size, step, Encoding::Rgb8, false, &rendered.rgb)?;
        let placed = letterbox(&image, &params, &mut workspace, &mut input)?;
        levels.clear();
        if let TensorValues::F32(values) = input.view().values() {
            levels.extend(values.iter().map(|value| value.round() as u8));
        }
        images.push(&levels)?;
        let network_from_source = placed.network_from_source();
        for object in &rendered.truth {
            let class = class_index(&facts.class_names, object.class_name)?;
            let b = network_from_source.apply(object.bbox);
            boxes.push(&[class, b.x1, b.y1, b.x2, b.y2, object.visibility])?;
        }
        frames.push(&[rendered.truth.len() as i32])?;
        objects.push(&visible_objects(&rendered, &placed))?;
    }
    objects.finish()?;
    images.finish()?;
    boxes.finish()?;
    frames.finish()
}

/// By pixel of the network's input, the place of the object at its centre among those of the
/// frame, from 1 on; 0 for none, and beside the image.
fn visible_objects(rendered: &RenderedImage, placed: &Letterbox) -> Vec<i16> {
    let Size { width, height } = placed.network;
    let [columns, rows] = placed.visible();
    let object = |x, y| {
        if !columns.contains(&x) || !rows.contains(&y) {
            return 0;
        }
        let source = rendered.size;
        let [x, y] = placed.source_position([x, y]).map(|value| value.round().max(0.0) as usize);
        let x = x.min(source.width as usize - 1);
        let y = y.min(source.height as usize - 1);
        let id = rendered.track_ids[y * source.width as usize + x];
        let place = rendered.truth.iter().position(|truth| truth.track_id == id);
        place.map_or(0, |place| place as i16 + 1)
    };
    (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| object(x, y)).collect()
}
