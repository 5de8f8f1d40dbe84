//! From a middleware to a slot: messages are copied into the slot, and large ones arrive in its
//! memory.
//!
//! A message of several datagrams is put together in a buffer of the slot while it arrives,
//! page-locked where a GPU reads it: its fragments are copied once. The buffer that it replaces
//! is the next one to fill. The first message is copied, and the buffers grow to its size. Where the
//! middleware drops [`MessageBuffers`], it puts no messages together, and there are no such buffers.
//!
//! Packets of video go to a decoder, which is started for the first, and its images to the slot.

use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use super::decoding::{DecodedPicture, Pictures, VideoQueue};
use super::lock;
use super::slot::{Loss, Offered, SlotWriter};
use super::video_decoder::VideoPlace;
use det_post_ops::device::PayloadMemory;
use det_post_ros::middleware::{InputKind, MessageBuffers, MessageMemory, Received, Receiver};
use det_post_ros::video::VideoMessage;
use det_post_types::{ImagePayload, Result};

/// Buffers in which messages of an input arrive: one fills while another is delivered, and a
/// third does where two publishers, or a message that is sent again, overlap.
pub const NUM_ARRIVING: usize = 3;

/// Bytes of a message beside its payload: header, fields, padding.
const MAX_ENVELOPE_BYTES: usize = 64 << 10;

/// What an input does with the outcome of each message.
pub type Note = Box<dyn FnMut(Result<Offered>) + Send>;

/// Where the messages of an input go.
pub struct Arrivals {
    /// The kind of the messages.
    pub kind: InputKind,
    /// The slot.
    pub writer: SlotWriter,
    /// Memory of the slot's device, [`NUM_ARRIVING`] of it.
    pub memory: Vec<PayloadMemory>,
    /// Memory of that kind for pictures of video.
    pub decoded: PayloadMemory,
    /// Where video is decoded.
    pub video: VideoPlace,
    /// The most bytes of a payload.
    pub max_payload_bytes: usize,
    /// Takes the outcome of each message.
    pub note: Note,
}

impl Arrivals {
    /// What a middleware's `subscribe_into` takes.
    pub fn into_receiver(self) -> (Receiver, Box<dyn MessageBuffers>) {
        let shared = Arc::new(self.into_shared());
        let copying = Arc::clone(&shared);
        let receiver: Receiver = Box::new(move |received| match received {
            Ok(Received::Video { message, cdr, .. }) => copying.decode(message, cdr),
            received => copying.copy(received),
        });
        (receiver, Box::new(Buffers(shared)))
    }

    fn into_shared(self) -> Shared {
        let Self { kind, writer, memory, decoded, video, max_payload_bytes, note } = self;
        let (slot, free) = (Mutex::new((writer, note)), Mutex::new(Some(memory)));
        let video = Mutex::new(Video { queue: None, decoded, place: video });
        Shared { kind, max_payload_bytes, slot, free, video }
    }
}

struct Shared {
    kind: InputKind,
    max_payload_bytes: usize,
    /// Locked by the thread that delivers.
    slot: Mutex<(SlotWriter, Note)>,
    /// Locked for a swap only; `None` when nothing takes memory any more.
    free: Mutex<Option<Vec<PayloadMemory>>>,
    video: Mutex<Video>,
}

/// The decoder of an input's video.
struct Video {
    /// `None` before the first packet.
    queue: Option<VideoQueue>,
    /// Memory for its pictures, until it starts.
    decoded: PayloadMemory,
    place: VideoPlace,
}

/// The slot, for a decoder whose queue it has.
struct OfShared(Weak<Shared>);

impl Pictures for OfShared {
    fn take(&mut self, picture: Result<DecodedPicture<'_>>, arrived: Instant) {
        let Some(shared) = self.0.upgrade() else { return };
        let (writer, note) = &mut *lock(&shared.slot);
        let max_bytes = shared.max_payload_bytes;
        note(picture.and_then(|picture| match picture {
            DecodedPicture::Message(memory) => {
                writer.swap_in(InputKind::Image, memory, max_bytes, arrived)
            }
            DecodedPicture::OnDevice(header, picture) => {
                writer.swap_picture(&header, picture, arrived)
            }
        }));
    }

    fn count_overtaken(&mut self, num: u64) {
        let Some(shared) = self.0.upgrade() else { return };
        let (writer, note) = &mut *lock(&shared.slot);
        for _ in 0..num {
            note(Ok(Offered::Waiting));
            writer.count_loss(Loss::Overtaken);
        }
    }
}

impl Shared {
    /// Passes a packet of video to the decoder.
    fn decode(self: &Arc<Self>, message: VideoMessage, cdr: &[u8]) {
        let mut video = lock(&self.video);
        let Video { queue, decoded, place } = &mut *video;
        let put = match queue {
            Some(queue) => queue.put(message, cdr),
            none => {
                let pictures = Box::new(OfShared(Arc::downgrade(self)));
                let (memory, place) = (std::mem::take(decoded), place.clone());
                VideoQueue::start(pictures, memory, place, self.max_payload_bytes)
                    .and_then(|queue| none.insert(queue).put(message, cdr))
            }
        };
        drop(video);
        if let Err(error) = put {
            let (_, note) = &mut *lock(&self.slot);
            note(Err(error));
        }
    }

    fn copy(&self, received: Result<Received<'_>>) {
        let mut slot = lock(&self.slot);
        let (writer, note) = &mut *slot;
        let num_bytes = received.as_ref().map_or(0, payload_bytes);
        let offered = received.and_then(|message| writer.offer(&message, self.max_payload_bytes));
        let is_accepted = offered.is_ok();
        note(offered);
        drop(slot);
        if is_accepted {
            self.grow_free(num_bytes + MAX_ENVELOPE_BYTES);
        }
    }

    /// Grows the free buffers, none of which is lent for a message over its capacity.
    fn grow_free(&self, num_bytes: usize) {
        let is_small = |memory: &mut PayloadMemory| memory.capacity() < num_bytes;
        // Grown outside of the lock: page-locked memory takes milliseconds.
        let mut small: Vec<_> = match &mut *lock(&self.free) {
            Some(free) => free.extract_if(.., is_small).collect(),
            None => return,
        };
        small.iter_mut().for_each(|memory| memory.reserve(num_bytes));
        small.into_iter().for_each(|memory| self.give_back(memory));
    }

    /// Memory for a message of `len` bytes, if one that is free is large enough.
    fn take(&self, len: usize) -> Option<PayloadMemory> {
        let mut free = lock(&self.free);
        let free = free.as_mut()?;
        let found = free.iter().position(|memory| memory.capacity() >= len)?;
        Some(free.swap_remove(found))
    }

    /// Memory that is free again.
    fn give_back(&self, memory: PayloadMemory) {
        if let Some(free) = &mut *lock(&self.free) {
            free.push(memory);
        }
    }
}

struct Buffers(Arc<Shared>);

impl MessageBuffers for Buffers {
    fn buffer(&mut self, len: usize) -> Option<Box<dyn MessageMemory>> {
        let mut memory = self.0.take(len)?;
        memory.set_len(len);
        Some(Box::new(Arriving { memory, shared: Arc::clone(&self.0) }))
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // Released outside of the lock.
        let released = lock(&self.0.free).take();
        drop(released);
    }
}

/// A message that arrives. Its memory, or the memory that it replaces, becomes free in the end.
struct Arriving {
    memory: PayloadMemory,
    shared: Arc<Shared>,
}

impl MessageMemory for Arriving {
    fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    fn deliver(mut self: Box<Self>) {
        let Self { memory, shared } = &mut *self;
        if let Some(message) = shared.kind.video_in(memory.bytes()) {
            return shared.decode(message, memory.bytes());
        }
        let num_bytes = memory.bytes().len();
        let mut slot = lock(&shared.slot);
        let (writer, note) = &mut *slot;
        note(writer.swap_in(shared.kind, memory, shared.max_payload_bytes, Instant::now()));
        drop(slot);
        // The slot's own buffers are smaller at first.
        memory.reserve(num_bytes);
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.shared.give_back(std::mem::take(&mut self.memory));
    }
}

/// Bytes of a message's payload.
fn payload_bytes(message: &Received<'_>) -> usize {
    match message {
        Received::Image { payload: ImagePayload::Raw(image), .. } => image.data().len(),
        Received::Image { payload: ImagePayload::Compressed(file), .. } => file.data.len(),
        Received::Cloud { view, .. } => view.data().len(),
        Received::Tensors { tensors, .. } => tensors.bytes().len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{InputConfig, SyncConfig};
    use crate::runtime::slot::{SlotEvent, SlotOptions, SlotReader, slot};
    use det_post_ros::messages::Image;
    use det_post_ros::middleware::deliver;
    use det_post_types::{Header, Stamp};

    struct Site {
        receiver: Receiver,
        buffers: Box<dyn MessageBuffers>,
        reader: SlotReader,
        outcomes: Outcomes,
    }

    type Outcomes = Arc<Mutex<Vec<Option<Offered>>>>;

    fn arrivals(max_payload_bytes: usize) -> (Arrivals, SlotReader, Outcomes) {
        let input = InputConfig {
            topic: "/image".to_owned(),
            is_compressed: false,
            packed_cloud: None,
            video: None,
            camera_info: None,
            calibration_path: None,
        };
        let sync = SyncConfig::default();
        let options = SlotOptions { inputs: &[input], sync: &sync, rate: 1.0, announces: false };
        let (mut writers, reader, _) =
            slot(options, PayloadMemory::default, Arc::new(|_, _, _| {}));
        let outcomes = Outcomes::default();
        let noted = Arc::clone(&outcomes);
        let arrivals = Arrivals {
            kind: InputKind::Image,
            writer: writers.remove(0),
            memory: (0..NUM_ARRIVING).map(|_| PayloadMemory::default()).collect(),
            decoded: PayloadMemory::default(),
            video: VideoPlace::default(),
            max_payload_bytes,
            note: Box::new(move |offered| lock(&noted).push(offered.ok())),
        };
        (arrivals, reader, outcomes)
    }

    fn site(max_payload_bytes: usize) -> Site {
        let (arrivals, reader, outcomes) = arrivals(max_payload_bytes);
        let (receiver, buffers) = arrivals.into_receiver();
        Site { receiver, buffers, reader, outcomes }
    }

    #[test]
    fn messages_that_come_whole_need_no_memory_to_arrive_in() {
        let (arrivals, mut reader, _) = arrivals(1 << 20);
        let shared = Arc::new(arrivals.into_shared());
        let cdr = image_message(1, 1000);
        deliver(InputKind::Image, &cdr, &mut |received| shared.copy(received));
        let sizes = |free: &Option<Vec<PayloadMemory>>| {
            free.iter().flatten().map(|memory| memory.capacity() >= cdr.len()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&lock(&shared.free)), [true; NUM_ARRIVING]);
        // As a middleware does that takes no memory.
        drop(Buffers(Arc::clone(&shared)));
        deliver(InputKind::Image, &cdr, &mut |received| shared.copy(received));
        assert!(lock(&shared.free).is_none());
        assert!(matches!(reader.take(), Some(SlotEvent::Frame { .. })));
    }

    fn image_message(number: u8, width: u32) -> Vec<u8> {
        let data = vec![number; 100 * width as usize];
        let stamp = Stamp::from_ros(number.into(), 0);
        let header = Header { stamp, frame_id: "camera" };
        let (height, step, encoding) = (100, width, "mono8");
        let image =
            Image { header, height, width, encoding, is_bigendian: false, step, data: &data };
        let mut cdr = Vec::new();
        image.encode(&mut cdr).unwrap();
        cdr
    }

    impl Site {
        /// Puts a message together as a participant does; returns the address of its buffer.
        fn arrive(&mut self, cdr: &[u8]) -> Option<usize> {
            let mut memory = self.buffers.buffer(cdr.len())?;
            memory.bytes_mut().copy_from_slice(cdr);
            let address = memory.bytes().as_ptr().addr();
            memory.deliver();
            Some(address)
        }

        /// The address and the first byte of the next frame's payload.
        fn next(&mut self) -> (usize, u8) {
            match self.reader.take() {
                Some(SlotEvent::Frame { messages: [Some(message)], .. }) => {
                    let data = message.data();
                    assert!(data.iter().all(|byte| *byte == data[0]));
                    (data.as_ptr().addr(), data[0])
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_message_is_read_where_it_arrived() {
        let mut site = site(1 << 20);
        assert_eq!(site.arrive(&image_message(0, 1000)), None, "the size is not known yet");
        deliver(InputKind::Image, &image_message(1, 1000), &mut *site.receiver);
        assert_eq!(site.next().1, 1);
        for number in 2..50 {
            let cdr = image_message(number, 1000);
            let buffer = site.arrive(&cdr).unwrap();
            let (payload, first) = site.next();
            assert_eq!(first, number);
            // The payload is the end of the message.
            assert_eq!(payload, buffer + cdr.len() - 100_000);
        }
        assert!(lock(&site.outcomes).iter().all(|outcome| *outcome == Some(Offered::Waiting)));
    }

    #[test]
    fn unfinished_and_refused_messages_give_their_memory_back() {
        let mut site = site(100_000);
        deliver(InputKind::Image, &image_message(1, 1000), &mut *site.receiver);
        for _ in 0..10 {
            let unfinished: Vec<_> = (0..NUM_ARRIVING).map(|_| site.buffers.buffer(9)).collect();
            assert!(unfinished.iter().all(Option::is_some));
            assert!(site.buffers.buffer(9).is_none());
        }
        // Larger than allowed, cut, and of another encapsulation.
        let large = image_message(2, 1001);
        let cut = &image_message(3, 1000)[..60_000];
        let strange = [9; 1000];
        for refused in [&large[..], cut, &strange] {
            assert!(site.arrive(refused).is_some());
        }
        assert_eq!(lock(&site.outcomes)[1..], [None; 3]);
        assert_eq!(site.next().1, 1);
        assert!(site.arrive(&image_message(4, 1000)).is_some());
        assert_eq!(site.next().1, 4);
    }
}
