//! The encoding of frames in messages, bit for bit. Their payloads are in the shared
//! memory.

use nalgebra::Isometry3;

use super::message::{Message, malformed, put_error, take_error};
use super::motion::{put_motion, take_motion};
use crate::detectors::motion::Motion;
use crate::detectors::{FrameSet, MAX_INPUTS, Payload};
use crate::runtime::message_buffer::{InputView, PayloadView};
use det_post_types::{
    CameraCalibration, CloudView, CompressedFormat, CompressedView, Encoding, FileSamples, Header,
    ImagePayload, ImageView, MAX_RANK, PointField, PointFields, ReceivedTensors, Result, Size,
    Span, Stamp, TensorEntries, TensorEntry, TensorType,
};

/// The tags of payloads.
mod payload {
    pub(super) const MISSING: u32 = 0;
    pub(super) const PIXELS: u32 = 1;
    pub(super) const FILE: u32 = 2;
    pub(super) const CLOUD: u32 = 3;
    pub(super) const TENSORS: u32 = 4;
}

/// The alignment of payloads in the shared memory.
const ALIGNMENT: usize = 64;

/// By input with a message, the position of its payload in the shared memory, and its bytes.
pub(super) fn payloads<'a>(
    frame: &FrameSet<'a>,
) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
    let mut end = 0_usize;
    frame.inputs.iter().flatten().map(move |input| {
        let data = match input.payload {
            Payload::Image(ImagePayload::Raw(image)) => image.data(),
            Payload::Image(ImagePayload::Compressed(file)) => file.data,
            Payload::Cloud(cloud) => cloud.data(),
            // `put_frame` refuses these.
            Payload::Image(ImagePayload::OnDevice(_)) | Payload::CloudOnDevice(_) => &[],
            Payload::Tensors(tensors) => tensors.bytes(),
        };
        let start = end.next_multiple_of(ALIGNMENT);
        end = start.saturating_add(data.len());
        (start, data)
    })
}

/// Appends a frame without the bytes of its payloads.
pub(super) fn put_frame(message: &mut Message, frame: &FrameSet<'_>) -> Result<()> {
    message.put_u64(frame.stamp.nanos() as u64).put_u32(frame.inputs.len() as u32);
    put_pose(message, frame.target_pose);
    let mut places = payloads(frame);
    for input in frame.inputs {
        let Some(input) = input else {
            message.put_u32(payload::MISSING);
            continue;
        };
        match &input.payload {
            Payload::Image(ImagePayload::Raw(image)) => {
                message.put_u32(payload::PIXELS);
                message.put_u32(image.size().width).put_u32(image.size().height);
                message.put_u64(image.step() as u64).put_text(image.encoding().to_ros());
                message.put_u32(u32::from(image.is_big_endian()));
            }
            Payload::Image(ImagePayload::Compressed(file)) => {
                message.put_u32(payload::FILE);
                message.put_u32(u32::from(file.format == CompressedFormat::Png));
                let samples = FileSamples::ALL.iter().position(|samples| *samples == file.samples);
                message.put_u32(samples.ok_or_else(malformed)? as u32);
            }
            Payload::Image(ImagePayload::OnDevice(image)) => {
                return Err(image.data().refused("isolated"));
            }
            Payload::CloudOnDevice(cloud) => return Err(cloud.data().refused("isolated")),
            Payload::Cloud(cloud) => {
                message.put_u32(payload::CLOUD);
                put_cloud(message, cloud)?;
            }
            Payload::Tensors(tensors) => {
                message.put_u32(payload::TENSORS);
                put_tensors(message, tensors.entries());
            }
        }
        let Header { stamp, frame_id } = input.header;
        message.put_u64(stamp.nanos() as u64).put_text(frame_id);
        put_pose(message, input.pose.as_ref());
        put_motion(message, input.motion.as_ref());
        message.put_u32(u32::from(input.calibration.is_some()));
        if let Some(calibration) = input.calibration {
            put_calibration(message, calibration);
        }
        let (start, data) = places.next().ok_or_else(malformed)?;
        message.put_u64(start as u64).put_u64(data.len() as u64);
    }
    Ok(())
}

fn put_pose(message: &mut Message, pose: Option<&Result<Isometry3<f64>>>) {
    match pose {
        None => {
            message.put_u32(0);
        }
        Some(Ok(pose)) => {
            message.put_u32(1).put_transform(pose);
        }
        Some(Err(error)) => put_error(message.put_u32(2), error),
    }
}

fn take_pose(message: &Message) -> Result<Option<Result<Isometry3<f64>>>> {
    Ok(match message.u32()? {
        0 => None,
        1 => Some(Ok(message.transform()?)),
        _ => Some(Err(take_error(message)?)),
    })
}

fn put_calibration(message: &mut Message, calibration: &CameraCalibration) {
    let CameraCalibration { frame_id, size, distortion_model, distortion, .. } = calibration;
    let CameraCalibration { intrinsics, rectification, projection, binning, region, .. } =
        calibration;
    message.put_text(frame_id).put_u32(size.width).put_u32(size.height);
    message.put_text(distortion_model).put_u32(distortion.len() as u32);
    let matrices = intrinsics.iter().chain(rectification).chain(projection);
    for value in distortion.iter().chain(matrices) {
        message.put_u64(value.to_bits());
    }
    for value in binning.iter().chain(region) {
        message.put_u32(*value);
    }
}

fn take_calibration(message: &Message) -> Result<CameraCalibration> {
    let (frame_id, size) = (message.text()?, Size::new(message.u32()?, message.u32()?));
    let (distortion_model, num) = (message.text()?, message.u32()?);
    let mut distortion = Vec::new();
    for _ in 0..num {
        distortion.push(f64::from_bits(message.u64()?));
    }
    Ok(CameraCalibration {
        frame_id: frame_id.to_owned(),
        size,
        distortion_model: distortion_model.to_owned(),
        distortion,
        intrinsics: take_f64s(message)?,
        rectification: take_f64s(message)?,
        projection: take_f64s(message)?,
        binning: [message.u32()?, message.u32()?],
        region: [message.u32()?, message.u32()?, message.u32()?, message.u32()?],
    })
}

fn take_f64s<const N: usize>(message: &Message) -> Result<[f64; N]> {
    let mut values = [0.0; N];
    for value in &mut values {
        *value = f64::from_bits(message.u64()?);
    }
    Ok(values)
}

fn put_cloud(message: &mut Message, cloud: &CloudView<'_>) -> Result<()> {
    for n in [cloud.width(), cloud.height(), cloud.point_step(), cloud.row_step()] {
        message.put_u32(u32::try_from(n).map_err(|_| malformed())?);
    }
    message.put_u32(u32::from(cloud.is_big_endian()));
    message.put_u32(cloud.fields().as_slice().len() as u32);
    for field in cloud.fields().as_slice() {
        message.put_text(field.name).put_u32(field.offset);
        message.put_u32(field.datatype.into()).put_u32(field.count);
    }
    Ok(())
}

fn put_tensors(message: &mut Message, entries: &TensorEntries) {
    message.put_u32(entries.as_slice().len() as u32);
    for entry in entries.as_slice() {
        for n in [entry.name.start, entry.name.len, entry.data.start, entry.data.len] {
            message.put_u64(n as u64);
        }
        message.put_u32(entry.element.number() as u32).put_u32(entry.rank as u32);
        for dim in entry.shape() {
            message.put_u64(*dim as u64);
        }
    }
}

fn take_tensors(message: &Message) -> Result<TensorEntries> {
    let mut entries = TensorEntries::default();
    for _ in 0..message.u32()? {
        let mut entry = TensorEntry {
            name: Span { start: message.usize()?, len: message.usize()? },
            data: Span { start: message.usize()?, len: message.usize()? },
            element: i32::try_from(message.u32()?)
                .ok()
                .and_then(TensorType::from_number)
                .ok_or_else(malformed)?,
            rank: message.u32()? as usize,
            dims: [0; MAX_RANK],
        };
        for dim in entry.dims.get_mut(..entry.rank).ok_or_else(malformed)? {
            *dim = message.usize()?;
        }
        entries.push(entry)?;
    }
    Ok(entries)
}

/// A frame that [`put_frame`] wrote.
pub(super) struct DecodedFrame<'a> {
    pub(super) stamp: Stamp,
    pub(super) views: [Option<InputView<'a>>; MAX_INPUTS],
    pub(super) poses: [Option<Result<Isometry3<f64>>>; MAX_INPUTS],
    pub(super) motions: [Option<Result<Motion>>; MAX_INPUTS],
    pub(super) calibrations: [Option<CameraCalibration>; MAX_INPUTS],
    pub(super) target_pose: Option<Result<Isometry3<f64>>>,
    pub(super) num_inputs: usize,
}

/// Reads what [`put_frame`] wrote, its payloads from `memory`.
pub(super) fn take_frame<'a>(message: &'a Message, memory: &'a [u8]) -> Result<DecodedFrame<'a>> {
    let stamp = Stamp::from_nanos(message.u64()? as i64);
    let num_inputs = message.u32()? as usize;
    if num_inputs > MAX_INPUTS {
        return Err(malformed());
    }
    let mut frame = DecodedFrame {
        stamp,
        views: [const { None }; MAX_INPUTS],
        poses: [const { None }; MAX_INPUTS],
        motions: [const { None }; MAX_INPUTS],
        calibrations: [const { None }; MAX_INPUTS],
        target_pose: take_pose(message)?,
        num_inputs,
    };
    for input in 0..num_inputs {
        take_input(message, memory, input, &mut frame)?;
    }
    Ok(frame)
}

fn take_input<'a>(
    message: &'a Message,
    memory: &'a [u8],
    input: usize,
    frame: &mut DecodedFrame<'a>,
) -> Result<()> {
    let layout = match message.u32()? {
        payload::MISSING => return Ok(()),
        payload::PIXELS => DecodedLayout::Pixels {
            size: Size::new(message.u32()?, message.u32()?),
            step: message.usize()?,
            encoding: Encoding::from_ros(message.text()?)?,
            is_big_endian: message.u32()? != 0,
        },
        payload::FILE => DecodedLayout::File {
            is_png: message.u32()? != 0,
            samples: *FileSamples::ALL.get(message.u32()? as usize).ok_or_else(malformed)?,
        },
        payload::CLOUD => DecodedLayout::Cloud {
            shape: [message.u32()?, message.u32()?],
            steps: [message.u32()?, message.u32()?],
            is_big_endian: message.u32()? != 0,
            fields: take_fields(message)?,
        },
        payload::TENSORS => DecodedLayout::Tensors(take_tensors(message)?),
        _ => return Err(malformed()),
    };
    let stamp = Stamp::from_nanos(message.u64()? as i64);
    let header = Header { stamp, frame_id: message.text()? };
    frame.poses[input] = take_pose(message)?;
    frame.motions[input] = take_motion(message)?;
    if message.u32()? != 0 {
        frame.calibrations[input] = Some(take_calibration(message)?);
    }
    let (start, len) = (message.usize()?, message.usize()?);
    let end = start.checked_add(len).ok_or_else(malformed)?;
    let data = memory.get(start..end).ok_or_else(malformed)?;
    frame.views[input] = Some(InputView { header, payload: layout.view(data)? });
    Ok(())
}

#[expect(clippy::large_enum_variant, reason = "one value at a time, on the stack")]
enum DecodedLayout<'a> {
    Pixels { size: Size, step: usize, encoding: Encoding, is_big_endian: bool },
    File { is_png: bool, samples: FileSamples },
    Cloud { shape: [u32; 2], steps: [u32; 2], is_big_endian: bool, fields: PointFields<'a> },
    Tensors(TensorEntries),
}

impl<'a> DecodedLayout<'a> {
    fn view(self, data: &'a [u8]) -> Result<PayloadView<'a>> {
        Ok(match self {
            Self::Pixels { size, step, encoding, is_big_endian } => {
                let image = ImageView::new(size, step, encoding, is_big_endian, data)?;
                PayloadView::Image(ImagePayload::Raw(image))
            }
            Self::File { is_png, samples } => {
                let format = if is_png { CompressedFormat::Png } else { CompressedFormat::Jpeg };
                let file = CompressedView { samples, ..CompressedView::new(format, data) };
                PayloadView::Image(ImagePayload::Compressed(file))
            }
            Self::Cloud { shape, steps, is_big_endian, fields } => {
                PayloadView::Cloud(CloudView::new(shape, steps, is_big_endian, fields, data)?)
            }
            Self::Tensors(entries) => PayloadView::Tensors(ReceivedTensors::new(entries, data)?),
        })
    }
}

fn take_fields(message: &Message) -> Result<PointFields<'_>> {
    let mut fields = PointFields::new();
    for _ in 0..message.u32()? {
        let (name, offset) = (message.text()?, message.u32()?);
        let datatype = u8::try_from(message.u32()?).map_err(|_| malformed())?;
        fields.push(PointField { name, offset, datatype, count: message.u32()? })?;
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detectors::FrameInput;
    use det_post_types::{Error, ErrorKind};

    #[test]
    fn frames_come_back_with_what_is_missing() {
        let (pixels, file, points) = ([9; 24], [1, 2, 3], [5; 32]);
        let header = |stamp, frame_id| Header { stamp: Stamp::from_nanos(stamp), frame_id };
        let image = ImageView::new(Size::new(2, 4), 6, Encoding::Rgb8, false, &pixels).unwrap();
        let mut fields = PointFields::new();
        fields.push(PointField { name: "x", offset: 4, datatype: 7, count: 1 }).unwrap();
        let cloud = CloudView::new([2, 1], [16, 32], false, fields, &points).unwrap();
        let samples = FileSamples::Mosaic(Encoding::BayerGrbg8);
        let png = CompressedView { samples, ..CompressedView::new(CompressedFormat::Png, &file) };
        let calibration = CameraCalibration {
            distortion: vec![0.1, -0.2],
            intrinsics: [1.5; 9],
            binning: [2, 1],
            region: [1, 2, 3, 4],
            ..CameraCalibration::default()
        };
        let unknown = Error::new(ErrorKind::Transform, "tf", "no such frame");
        let inputs = [
            Some(FrameInput {
                calibration: Some(&calibration),
                ..FrameInput::image(header(5, "front"), ImagePayload::Raw(image))
            }),
            None,
            Some(FrameInput {
                pose: Some(Err(unknown)),
                ..FrameInput::image(header(6, "rear"), ImagePayload::Compressed(png))
            }),
            Some(
                FrameInput::cloud(header(-7, "lidar"), &cloud)
                    .with_pose(Isometry3::translation(1.0, 2.0, 3.0)),
            ),
        ];
        let target_pose = Ok(Isometry3::translation(0.5, -1.0, 7.0));
        let stamp = Stamp::from_nanos(5);
        let frame = FrameSet { stamp, inputs: &inputs, target_pose: Some(&target_pose) };
        let mut memory = vec![0; 1000];
        for (start, data) in payloads(&frame) {
            assert!(start.is_multiple_of(ALIGNMENT));
            memory[start..start + data.len()].copy_from_slice(data);
        }
        let mut message = Message::default();
        put_frame(message.start(1), &frame).unwrap();
        message.tag().unwrap();
        let taken = take_frame(&message, &memory).unwrap();
        assert_eq!((taken.stamp, taken.num_inputs), (frame.stamp, 4));
        assert_eq!(taken.target_pose.as_ref().unwrap().as_ref().unwrap().translation.y, -1.0);
        let [front, missing, rear, lidar] = [0, 1, 2, 3].map(|input| &taken.views[input]);
        assert!(missing.is_none() && taken.views[4].is_none());
        let front = front.as_ref().unwrap().input();
        let Payload::Image(ImagePayload::Raw(found)) = front.payload else { panic!() };
        assert_eq!((front.header, found.data()), (header(5, "front"), &pixels[..]));
        assert_eq!((found.size(), found.encoding()), (image.size(), Encoding::Rgb8));
        assert_eq!(taken.calibrations[0].as_ref(), Some(&calibration));
        let rear = rear.as_ref().unwrap().input();
        let Payload::Image(ImagePayload::Compressed(found)) = rear.payload else { panic!() };
        assert_eq!((found.format, found.data), (CompressedFormat::Png, &file[..]));
        assert_eq!(found.samples, samples);
        let error = taken.poses[2].as_ref().unwrap().as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transform);
        let lidar = lidar.as_ref().unwrap().input();
        let Payload::Cloud(found) = lidar.payload else { panic!() };
        assert_eq!((found.data(), found.fields().as_slice()), (&points[..], fields.as_slice()));
        let pose = taken.poses[3].as_ref().unwrap().as_ref().unwrap();
        assert_eq!(*pose, Isometry3::translation(1.0, 2.0, 3.0));
        assert!(taken.poses[0].is_none() && taken.calibrations[3].is_none());
        // A payload that is not in the memory is refused.
        message.tag().unwrap();
        assert!(take_frame(&message, &memory[..100]).is_err());
    }
}
