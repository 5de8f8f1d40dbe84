//! The newest message of an input, waiting for its channel.
//!
//! Three buffers go round: one is being filled by the door, one waits, one is
//! being worked on. Handing over swaps pointers under a lock that is held for
//! nothing else, so a door never waits for a channel. A message that a newer
//! one overtakes is counted. Buffers grow to the largest message, which is
//! bounded, and are used again. A GPU uploads from the buffer itself.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::detectors::{FrameInput, Payload};
use crate::device::PayloadMemory;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::door::Received;
use crate::types::{
    CloudView, CompressedFormat, CompressedView, Encoding, Header, ImagePayload, ImageView,
    PointField, PointFields, Size, Stamp,
};

/// A message of its own memory: the one copy of a payload.
#[derive(Debug, Default)]
pub struct Frame {
    stamp: Stamp,
    frame_id: String,
    arrived: Option<Instant>,
    layout: Layout,
    fields: Vec<OwnedField>,
    num_fields: usize,
    data: PayloadMemory,
}

/// What the data of a frame is.
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
    File(CompressedFormat),
    Cloud {
        shape: [u32; 2],
        steps: [u32; 2],
        is_big_endian: bool,
    },
}

#[derive(Debug, Default)]
struct OwnedField {
    name: String,
    offset: u32,
    datatype: u8,
    count: u32,
}

impl Frame {
    /// A buffer that holds no message yet.
    pub fn new(data: PayloadMemory) -> Self {
        Self { data, ..Self::default() }
    }

    /// Takes a copy of a message of a sensor.
    ///
    /// # Errors
    /// `TooLarge` when it holds more than `max_payload_bytes`, `Argument` when it
    /// is not of a sensor.
    pub fn fill(&mut self, message: &Received<'_>, max_payload_bytes: usize) -> Result<()> {
        let (header, layout, data) = match message {
            Received::Picture { header, payload: ImagePayload::Raw(image) } => {
                let layout = Layout::Image {
                    size: image.size(),
                    step: image.step(),
                    encoding: image.encoding(),
                    is_big_endian: image.is_big_endian(),
                };
                (header, layout, image.data())
            }
            Received::Picture { header, payload: ImagePayload::Compressed(file) } => {
                (header, Layout::File(file.format), file.data)
            }
            Received::Cloud { header, view } => (header, self.fill_cloud(view), view.data()),
            Received::CameraInfo(_) | Received::Transform { .. } | Received::Clock(_) => {
                return Err(Error::new(ErrorKind::Argument, "slot", "not a message of a sensor"));
            }
        };
        if data.len() > max_payload_bytes {
            return Err(Error::new(
                ErrorKind::TooLarge,
                "slot",
                format!("message holds {} bytes, {max_payload_bytes} is the most", data.len()),
            ));
        }
        self.stamp = header.stamp;
        self.frame_id.clear();
        self.frame_id.push_str(header.frame_id);
        self.arrived = Some(Instant::now());
        self.layout = layout;
        self.data.copy_from(data);
        Ok(())
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
        // The view was made from numbers of 32 bits.
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Layout::Cloud {
            shape: [view.width(), view.height()].map(narrow),
            steps: [view.point_step(), view.row_step()].map(narrow),
            is_big_endian: view.is_big_endian(),
        }
    }

    /// When it arrived; `None` for a buffer that never held a message.
    pub fn arrived(&self) -> Option<Instant> {
        self.arrived
    }

    /// Acquisition time.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The message as it was received.
    ///
    /// # Errors
    /// `Argument` when there is none; the checks of the view, which passed
    /// before.
    pub fn view(&self) -> Result<InputView<'_>> {
        let header = Header { stamp: self.stamp, frame_id: &self.frame_id };
        let data = self.data.bytes();
        let payload = match self.layout {
            Layout::Nothing => {
                return Err(Error::new(ErrorKind::Argument, "slot", "there is no message"));
            }
            Layout::Image { size, step, encoding, is_big_endian } => {
                let image = ImageView::new(size, step, encoding, is_big_endian, data)?;
                PayloadView::Image(ImagePayload::Raw(image))
            }
            Layout::File(format) => {
                PayloadView::Image(ImagePayload::Compressed(CompressedView { format, data }))
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
        };
        Ok(InputView { header, payload })
    }
}

/// A message of a sensor in memory of this program.
#[derive(Clone, Copy, Debug)]
pub struct InputView<'a> {
    /// Acquisition time and coordinate frame.
    pub header: Header<'a>,
    /// The data.
    pub payload: PayloadView<'a>,
}

/// The data of a message.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "one value an input, on the stack")]
pub enum PayloadView<'a> {
    /// Pixels, or a compressed file.
    Image(ImagePayload<'a>),
    /// Points.
    Cloud(CloudView<'a>),
}

impl InputView<'_> {
    /// The message as an input of a frame, without a pose.
    pub fn input(&self) -> FrameInput<'_> {
        let payload = match &self.payload {
            PayloadView::Image(image) => Payload::Image(*image),
            PayloadView::Cloud(cloud) => Payload::Cloud(cloud),
        };
        FrameInput::new(self.header, payload)
    }
}

/// What became of a message that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It waits.
    Waiting,
    /// It waits in the place of an older one, which is lost.
    Overtook,
    /// The slot is closed; it is lost.
    Closed,
}

/// The side of a slot that fills it.
#[derive(Debug)]
pub struct SlotWriter {
    shared: Arc<Shared>,
    frame: Box<Frame>,
}

/// The side of a slot that empties it.
#[derive(Debug)]
pub struct SlotReader {
    shared: Arc<Shared>,
    frame: Box<Frame>,
}

/// Ends a slot from outside.
#[derive(Clone, Debug)]
pub struct SlotCloser(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    middle: Box<Frame>,
    is_waiting: bool,
    is_closed: bool,
}

/// A slot of three buffers in memory that `take` takes.
pub fn slot(mut take: impl FnMut() -> PayloadMemory) -> (SlotWriter, SlotReader, SlotCloser) {
    let [first, middle, last] = std::array::from_fn(|_| Box::new(Frame::new(take())));
    let state = State { middle, is_waiting: false, is_closed: false };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    let writer = SlotWriter { shared: Arc::clone(&shared), frame: first };
    let reader = SlotReader { shared: Arc::clone(&shared), frame: last };
    (writer, reader, SlotCloser(shared))
}

impl SlotWriter {
    /// Copies a message and lets it wait, in the place of one that waits
    /// already.
    ///
    /// # Errors
    /// Those of [`Frame::fill`]; what waits stays.
    pub fn offer(&mut self, message: &Received<'_>, max_payload_bytes: usize) -> Result<Offered> {
        self.frame.fill(message, max_payload_bytes)?;
        let mut state = lock(&self.shared.state);
        if state.is_closed {
            return Ok(Offered::Closed);
        }
        std::mem::swap(&mut state.middle, &mut self.frame);
        let overtook = std::mem::replace(&mut state.is_waiting, true);
        drop(state);
        self.shared.changed.notify_one();
        Ok(if overtook { Offered::Overtook } else { Offered::Waiting })
    }
}

impl SlotReader {
    /// Waits for a message; `None` once the slot is closed. Messages that still
    /// wait then are lost.
    pub fn take(&mut self) -> Option<&Frame> {
        let state = lock(&self.shared.state);
        let mut state = self
            .shared
            .changed
            .wait_while(state, |state| !state.is_waiting && !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return None;
        }
        state.is_waiting = false;
        std::mem::swap(&mut state.middle, &mut self.frame);
        drop(state);
        Some(&self.frame)
    }
}

impl SlotCloser {
    /// Whether a message waits to be taken.
    pub fn is_waiting(&self) -> bool {
        lock(&self.0.state).is_waiting
    }

    /// Ends the slot. Returns whether a message was waiting, which is lost.
    pub fn close(&self) -> bool {
        let mut state = lock(&self.0.state);
        state.is_closed = true;
        let lost = std::mem::replace(&mut state.is_waiting, false);
        drop(state);
        self.0.changed.notify_all();
        lost
    }
}

/// Nothing is left half done under this lock.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(seconds: i32, data: &[u8]) -> Received<'_> {
        let header = Header { stamp: Stamp::from_ros(seconds, 0), frame_id: "camera" };
        let file = CompressedView { format: CompressedFormat::Jpeg, data };
        Received::Picture { header, payload: ImagePayload::Compressed(file) }
    }

    #[test]
    fn the_newest_waits_and_the_older_is_counted() {
        let (mut writer, mut reader, closer) = slot(PayloadMemory::default);
        assert!(!closer.is_waiting());
        assert_eq!(writer.offer(&picture(1, &[1]), 9).unwrap(), Offered::Waiting);
        assert!(closer.is_waiting());
        assert_eq!(writer.offer(&picture(2, &[2]), 9).unwrap(), Offered::Overtook);
        assert_eq!(reader.take().unwrap().stamp(), Stamp::from_ros(2, 0));
        assert_eq!(writer.offer(&picture(3, &[3]), 9).unwrap(), Offered::Waiting);
        assert!(writer.offer(&picture(4, &[4; 10]), 9).is_err());
        assert_eq!(reader.take().unwrap().stamp(), Stamp::from_ros(3, 0));
        assert_eq!(writer.offer(&picture(5, &[5]), 9).unwrap(), Offered::Waiting);
        assert!(closer.close());
        assert!(reader.take().is_none());
        assert_eq!(writer.offer(&picture(6, &[6]), 9).unwrap(), Offered::Closed);
    }

    #[test]
    fn a_frame_reads_as_it_was_received() {
        let mut frame = Frame::default();
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
        frame.fill(&Received::Picture { header, payload: ImagePayload::Raw(image) }, 12).unwrap();
        let read = frame.view().unwrap();
        let PayloadView::Image(ImagePayload::Raw(read)) = read.payload else { panic!() };
        assert_eq!((read.size(), read.step(), read.data()), (image.size(), 6, &pixels[..]));
        assert_eq!(read.encoding(), Encoding::Bgr8);
    }

    #[test]
    fn buffers_are_used_again() {
        let (mut writer, mut reader, _closer) = slot(PayloadMemory::default);
        let data = vec![1; 1000];
        let mut buffers = std::collections::BTreeSet::new();
        for second in 0..30 {
            writer.offer(&picture(second, &data), 1000).unwrap();
            if second % 3 == 0 {
                buffers.insert(reader.take().unwrap().data.bytes().as_ptr());
            }
        }
        assert!(buffers.len() <= 3, "{buffers:?}");
    }

    #[test]
    fn a_reader_sees_whole_messages_in_order_under_load() {
        let (mut writer, mut reader, closer) = slot(PayloadMemory::default);
        let thread = std::thread::spawn(move || {
            let mut last = -1;
            let mut num_taken = 0;
            while let Some(frame) = reader.take() {
                let second = frame.stamp().to_ros().0;
                assert!(
                    second > last && frame.data.bytes().iter().all(|byte| *byte == second as u8)
                );
                last = second;
                num_taken += 1;
            }
            num_taken
        });
        let mut num_overtaken = 0;
        for second in 0..20_000 {
            let data = vec![second as u8; 64 + second as usize % 64];
            if writer.offer(&picture(second, &data), 200).unwrap() == Offered::Overtook {
                num_overtaken += 1;
            }
        }
        let lost = i32::from(closer.close());
        assert_eq!(thread.join().unwrap() + num_overtaken + lost, 20_000);
    }
}
