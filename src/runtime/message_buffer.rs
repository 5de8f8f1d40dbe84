//! Copies of sensors' messages.

use std::ops::Range;
use std::time::Instant;

use crate::detectors::{FrameInput, Payload};
use det_post_ops::device::PayloadMemory;
use det_post_ops::image::decompress::video::DevicePicture;
use det_post_ros::middleware::{InputKind, Received, deliver};
use det_post_types::{
    CameraCalibration, CloudView, CompressedFormat, CompressedView, Encoding, Error, ErrorKind,
    FileSamples, Header, ImagePayload, ImageView, PointField, PointFields, ReceivedTensors, Result,
    Size, Stamp, TensorEntries,
};

/// Memory for a message, which holds the only copy of its payload.
#[derive(Debug, Default)]
pub struct MessageBuffer {
    stamp: Stamp,
    frame_id: String,
    arrived: Option<Instant>,
    layout: Layout,
    fields: Vec<OwnedField>,
    num_fields: usize,
    tensors: TensorEntries,
    data: PayloadMemory,
    /// Where the payload is in the data, which may be a whole message.
    payload: Range<usize>,
    /// A picture of video on the channel's GPU, in place of data.
    picture: DevicePicture,
}

/// The format of the data.
#[derive(Clone, Copy, Debug, Default)]
enum Layout {
    #[default]
    Nothing,
    Image {
        size: Size,
        step: usize,
        encoding: Encoding,
        is_big_endian: bool,
    },
    File {
        format: CompressedFormat,
        samples: FileSamples,
        is_mislabelled: bool,
    },
    Cloud {
        shape: [u32; 2],
        /// As declared: the view is checked again.
        steps: [u32; 2],
        is_big_endian: bool,
    },
    Tensors,
    Picture,
}

#[derive(Debug, Default)]
struct OwnedField {
    name: String,
    offset: u32,
    datatype: u8,
    count: u32,
}

impl MessageBuffer {
    /// A buffer that holds no message yet.
    pub fn new(data: PayloadMemory) -> Self {
        Self { data, ..Self::default() }
    }

    /// Copies a sensor's message into the buffer.
    ///
    /// # Errors
    /// `TooLarge` when the payload is larger than `max_payload_bytes`, `Argument` for a
    /// message of another kind.
    pub fn fill(&mut self, message: &Received<'_>, max_payload_bytes: usize) -> Result<()> {
        let data = self.describe(message, max_payload_bytes)?;
        self.data.copy_from(data);
        self.payload = 0..data.len();
        Ok(())
    }

    /// Takes over memory that holds a whole CDR message of a sensor, and leaves the buffer's own
    /// in its place.
    ///
    /// # Errors
    /// The errors of [`deliver`] and [`MessageBuffer::fill`]; the memory is left as it is.
    pub fn swap_in(
        &mut self,
        kind: InputKind,
        memory: &mut PayloadMemory,
        max_payload_bytes: usize,
    ) -> Result<()> {
        let message = memory.bytes();
        let mut found = Err(not_of_a_sensor());
        deliver(kind, message, &mut |received| {
            let payload = received.and_then(|received| self.describe(&received, max_payload_bytes));
            found = payload.and_then(|payload| range_in(message, payload));
        });
        self.payload = found?;
        std::mem::swap(&mut self.data, memory);
        Ok(())
    }

    /// Takes over a picture of video on the channel's GPU, and leaves the buffer's own memory in its place.
    ///
    /// # Errors
    /// `Layout` when there is none; it is left as it is.
    pub fn swap_picture(&mut self, header: &Header<'_>, picture: &mut DevicePicture) -> Result<()> {
        picture.view()?;
        std::mem::swap(&mut self.picture, picture);
        self.payload = 0..0;
        self.note(header, Layout::Picture);
        Ok(())
    }

    /// Notes everything of a message but its payload, which it returns.
    fn describe<'m>(
        &mut self,
        message: &Received<'m>,
        max_payload_bytes: usize,
    ) -> Result<&'m [u8]> {
        let (header, layout, data) = match message {
            Received::Image { header, payload: ImagePayload::Raw(image) } => {
                let layout = Layout::Image {
                    size: image.size(),
                    step: image.step(),
                    encoding: image.encoding(),
                    is_big_endian: image.is_big_endian(),
                };
                (header, layout, image.data())
            }
            Received::Image { header, payload: ImagePayload::Compressed(file) } => {
                let CompressedView { format, samples, is_mislabelled, data } = *file;
                (header, Layout::File { format, samples, is_mislabelled }, data)
            }
            Received::Image { payload: ImagePayload::OnDevice(image), .. } => {
                return Err(image.data().refused("slot"));
            }
            Received::Cloud { header, view } => (header, self.fill_cloud(view), view.data()),
            Received::Tensors { header, tensors } => {
                self.tensors = *tensors.entries();
                (header, Layout::Tensors, tensors.bytes())
            }
            Received::Packed { .. }
            | Received::Video { .. }
            | Received::CameraInfo(_)
            | Received::Transform { .. }
            | Received::Motion(_)
            | Received::Clock(_)
            | Received::Bond(_) => return Err(not_of_a_sensor()),
        };
        if data.len() > max_payload_bytes {
            return Err(Error::new(
                ErrorKind::TooLarge,
                "slot",
                format!(
                    "message holds {} bytes, at most {max_payload_bytes} are allowed",
                    data.len()
                ),
            ));
        }
        self.note(header, layout);
        Ok(data)
    }

    fn note(&mut self, header: &Header<'_>, layout: Layout) {
        self.stamp = header.stamp;
        self.frame_id.clear();
        self.frame_id.push_str(header.frame_id);
        self.arrived = Some(Instant::now());
        self.layout = layout;
    }

    fn fill_cloud(&mut self, view: &CloudView<'_>) -> Layout {
        let fields = view.fields().as_slice();
        self.num_fields = fields.len();
        if self.fields.len() < fields.len() {
            self.fields.resize_with(fields.len(), OwnedField::default);
        }
        for (mine, field) in self.fields.iter_mut().zip(fields) {
            mine.name.clear();
            mine.name.push_str(field.name);
            (mine.offset, mine.datatype, mine.count) = (field.offset, field.datatype, field.count);
        }
        // The view was made from 32-bit numbers.
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Layout::Cloud {
            shape: [view.width(), view.height()].map(narrow),
            steps: [view.point_step(), view.declared_row_step()].map(narrow),
            is_big_endian: view.is_big_endian(),
        }
    }

    /// The time of arrival; `None` for a buffer without a message.
    pub fn arrived(&self) -> Option<Instant> {
        self.arrived
    }

    /// Sets the time of arrival of a message that took time to put into the buffer.
    pub fn set_arrived(&mut self, at: Instant) {
        self.arrived = Some(at);
    }

    /// Acquisition time.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The bytes of the payload; none of a picture on a GPU.
    pub fn data(&self) -> &[u8] {
        &self.data.bytes()[self.payload.clone()]
    }

    /// A view of the message.
    ///
    /// # Errors
    /// `Argument` when there is none; those of the view's checks, which passed when the
    /// message was received.
    pub fn view(&self) -> Result<InputView<'_>> {
        let header = Header { stamp: self.stamp, frame_id: &self.frame_id };
        let data = self.data();
        let payload = match self.layout {
            Layout::Nothing => {
                return Err(Error::new(ErrorKind::Argument, "slot", "the buffer holds no message"));
            }
            Layout::Image { size, step, encoding, is_big_endian } => {
                let image = ImageView::new(size, step, encoding, is_big_endian, data)?;
                PayloadView::Image(ImagePayload::Raw(image))
            }
            Layout::File { format, samples, is_mislabelled } => {
                let file = CompressedView { format, samples, is_mislabelled, data };
                PayloadView::Image(ImagePayload::Compressed(file))
            }
            Layout::Cloud { shape, steps, is_big_endian } => {
                let mut fields = PointFields::new();
                for field in &self.fields[..self.num_fields] {
                    let OwnedField { name, offset, datatype, count } = field;
                    let (offset, datatype, count) = (*offset, *datatype, *count);
                    fields.push(PointField { name, offset, datatype, count })?;
                }
                PayloadView::Cloud(CloudView::new(shape, steps, is_big_endian, fields, data)?)
            }
            Layout::Tensors => PayloadView::Tensors(ReceivedTensors::new(self.tensors, data)?),
            Layout::Picture => PayloadView::Image(ImagePayload::OnDevice(self.picture.view()?)),
        };
        Ok(InputView { header, payload })
    }
}

fn not_of_a_sensor() -> Error {
    Error::new(ErrorKind::Argument, "slot", "the message is not a sensor's")
}

/// Where a part of a message is in it.
fn range_in(message: &[u8], part: &[u8]) -> Result<Range<usize>> {
    let start = part.as_ptr().addr().wrapping_sub(message.as_ptr().addr());
    let range = if part.is_empty() { 0..0 } else { start..start.saturating_add(part.len()) };
    match message.get(range.clone()) {
        Some(_) => Ok(range),
        None => Err(Error::new(ErrorKind::Argument, "slot", "the payload is not in its message")),
    }
}

/// A view of a message in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct InputView<'a> {
    /// Acquisition time and frame of reference.
    pub header: Header<'a>,
    /// The data.
    pub payload: PayloadView<'a>,
}

/// The data of a message.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "one value an input, on the stack")]
pub enum PayloadView<'a> {
    /// Pixels or a compressed image.
    Image(ImagePayload<'a>),
    /// Points.
    Cloud(CloudView<'a>),
    /// Outputs of a network.
    Tensors(ReceivedTensors<'a>),
}

impl InputView<'_> {
    /// As [`InputView::input`], with the calibration of its camera.
    pub fn input_with<'a>(&'a self, calibration: Option<&'a CameraCalibration>) -> FrameInput<'a> {
        FrameInput { calibration, ..self.input() }
    }

    /// The message as an input of a frame, without a pose.
    pub fn input(&self) -> FrameInput<'_> {
        let payload = match &self.payload {
            PayloadView::Image(image) => Payload::Image(*image),
            PayloadView::Cloud(cloud) => Payload::Cloud(cloud),
            PayloadView::Tensors(tensors) => Payload::Tensors(tensors),
        };
        FrameInput::new(self.header, payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_as_it_was_received() {
        let mut frame = MessageBuffer::default();
        assert!(frame.view().is_err());
        let header = Header { stamp: Stamp::from_ros(1, 2), frame_id: "lidar" };
        let mut fields = PointFields::new();
        let field = PointField { name: "x", offset: 4, datatype: 7, count: 1 };
        fields.push(field).unwrap();
        let data = [7; 40];
        let view = CloudView::new([2, 2], [8, 20], true, fields, &data).unwrap();
        frame.fill(&Received::Cloud { header, view: &view }, 40).unwrap();
        let read = frame.view().unwrap();
        let PayloadView::Cloud(cloud) = read.payload else { panic!() };
        assert_eq!((read.header, cloud.fields().as_slice()), (header, &[field][..]));
        assert_eq!((cloud.width(), cloud.height(), cloud.data()), (2, 2, &data[..]));
        assert_eq!((cloud.point_step(), cloud.row_step()), (8, 20));
        assert!(cloud.is_big_endian());

        let pixels = [9; 12];
        let image = ImageView::new(Size::new(1, 2), 6, Encoding::Bgr8, false, &pixels).unwrap();
        frame.fill(&Received::Image { header, payload: ImagePayload::Raw(image) }, 12).unwrap();
        let read = frame.view().unwrap();
        let PayloadView::Image(ImagePayload::Raw(read)) = read.payload else { panic!() };
        assert_eq!((read.size(), read.step(), read.data()), (image.size(), 6, &pixels[..]));
        assert_eq!(read.encoding(), Encoding::Bgr8);

        let samples = FileSamples::Mosaic(Encoding::BayerGbrg8);
        let file = CompressedView {
            samples,
            is_mislabelled: true,
            ..CompressedView::new(CompressedFormat::Png, &pixels)
        };
        frame
            .fill(&Received::Image { header, payload: ImagePayload::Compressed(file) }, 12)
            .unwrap();
        let read = frame.view().unwrap();
        let PayloadView::Image(ImagePayload::Compressed(read)) = read.payload else { panic!() };
        assert_eq!((read.format, read.samples), (CompressedFormat::Png, samples));
        assert!(read.is_mislabelled);

        // The step of the rows is wrong in the message.
        let view = CloudView::new([2, 2], [10, 0], true, fields, &data).unwrap();
        frame.fill(&Received::Cloud { header, view: &view }, 40).unwrap();
        let PayloadView::Cloud(cloud) = frame.view().unwrap().payload else { panic!() };
        assert_eq!((cloud.row_step(), cloud.declared_row_step()), (20, 0));
    }
}
