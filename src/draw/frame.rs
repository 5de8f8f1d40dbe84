//! The detections of a frame on its inputs.

use super::surround::draw_surround;
use crate::config::{ChannelConfig, ChannelKind};
use crate::detectors::lidar::placement;
use crate::detectors::{FrameSet, Payload};
use det_post_eval::draw::{
    BEV_SIZE, BevImage, Canvas, draw_boxes, draw_keypoints, draw_masks, image_canvas,
};
use det_post_ops::cloud::unpack::placement::Placement;
use det_post_types::{CloudView, Detections, PointRange, Result, Size};

/// Size of the image of a frame without an image whose size is unknown.
const EMPTY_IMAGE: Size = Size::new(640, 640);

/// The range of a bird's-eye image without one in the configuration.
const DEFAULT_RANGE: PointRange = PointRange { min: [-60.0, -60.0, -3.0], max: [60.0, 60.0, 5.0] };

/// The detections of a frame on its inputs: boxes in an image on the reference
/// input's image, over their masks or keypoints; boxes in space projected into the images of a surround channel,
/// else from above, inside `range`, over the points of the clouds.
///
/// # Errors
/// Returns the errors of decoding the inputs, and `Argument` for boxes in an image without
/// that image.
pub fn draw(
    frame: &FrameSet<'_>,
    reference: usize,
    detections: Detections<'_>,
    config: &ChannelConfig,
) -> Result<Canvas> {
    let class_names = config.kind.class_names();
    match detections {
        Detections::Boxes2d(found) => {
            let mut canvas = camera_canvas(frame, reference, config)?;
            draw_boxes(&mut canvas, found, class_names);
            Ok(canvas)
        }
        Detections::Masked2d(found, masks) => {
            let mut canvas = camera_canvas(frame, reference, config)?;
            draw_masks(&mut canvas, found, &masks);
            draw_boxes(&mut canvas, found, class_names);
            Ok(canvas)
        }
        Detections::Keypoints2d(found, keypoints) => {
            let mut canvas = camera_canvas(frame, reference, config)?;
            let threshold = config.publish.format.keypoint_threshold;
            draw_keypoints(&mut canvas, found, &keypoints, threshold);
            draw_boxes(&mut canvas, found, class_names);
            Ok(canvas)
        }
        Detections::RotatedBoxes2d(found) => {
            let mut canvas = camera_canvas(frame, reference, config)?;
            draw_boxes(&mut canvas, found, class_names);
            Ok(canvas)
        }
        Detections::Boxes3d(found) => {
            if let ChannelKind::Surround(surround) = &config.kind {
                return draw_surround(frame, found, surround, &config.inputs);
            }
            let clouds = clouds(frame, config)?;
            let range = config.kind.point_range().unwrap_or(DEFAULT_RANGE);
            let mut bev = BevImage::of_clouds(&clouds, &range, BEV_SIZE)?;
            bev.draw_detections(found, class_names);
            Ok(bev.into_canvas())
        }
    }
}

/// The clouds of a frame in the frame of its boxes.
fn clouds<'a>(
    frame: &FrameSet<'a>,
    config: &ChannelConfig,
) -> Result<Vec<(&'a CloudView<'a>, Placement)>> {
    let placement = |index| match &config.kind {
        ChannelKind::Lidar(lidar) => placement(frame, index, &lidar.clouds),
        ChannelKind::Camera(_) | ChannelKind::Surround(_) => Ok(Placement::default()),
    };
    let inputs = frame.inputs.iter().enumerate();
    let clouds = inputs.filter_map(|(index, input)| match input.as_ref()?.payload {
        Payload::Cloud(cloud) => Some((cloud, index)),
        Payload::Image(_) | Payload::CloudOnDevice(_) | Payload::Tensors(_) => None,
    });
    clouds.map(|(cloud, index)| Ok((cloud, placement(index)?))).collect()
}

/// The image of a frame; an empty one where a frame has the outputs of a network instead.
fn camera_canvas(frame: &FrameSet<'_>, reference: usize, config: &ChannelConfig) -> Result<Canvas> {
    let ChannelKind::Camera(camera) = &config.kind else {
        return image_canvas(&frame.image(reference)?, None);
    };
    match frame.input(reference)?.payload {
        Payload::Tensors(_) => {
            let size = camera.source_size.or(camera.facts.input_size);
            Ok(Canvas::new(size.unwrap_or(EMPTY_IMAGE)))
        }
        Payload::Image(_) | Payload::Cloud(_) | Payload::CloudOnDevice(_) => {
            image_canvas(&frame.image(reference)?, None)
        }
    }
}
