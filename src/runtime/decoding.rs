//! From a middleware to a slot, for packets of video.
//!
//! A thread decodes every packet in the order of arrival, since a picture depends on those before it, and offers its
//! picture to the slot, where the newest one waits. Where it falls behind, packets wait for it, up to
//! [`MAX_WAITING`]; over that, those before the newest key frame that waits, or else before the next one that arrives,
//! are overtaken. The thread ends when its end of the queue is dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::lock;
use super::video_decoder::{InputDecoder, VideoPlace};
use det_post_ops::device::PayloadMemory;
use det_post_ops::image::decompress::video::DevicePicture;
use det_post_ros::video::{Decoded, KeyFrame, VideoMessage, key_frame};
use det_post_types::{Error, ErrorKind, Header, Result};

/// Packets that wait for the decoder: half a second at 30 Hz.
const MAX_WAITING: usize = 16;

/// The picture of a packet, in memory that may be exchanged for other.
pub(super) enum DecodedPicture<'a> {
    /// A whole CDR message of `sensor_msgs/Image`.
    Message(&'a mut PayloadMemory),
    /// On the channel's GPU, with the header of its message.
    OnDevice(Header<'a>, &'a mut DevicePicture),
}

/// Where pictures go.
pub(super) trait Pictures: Send {
    /// Takes the picture of a packet that arrived at `arrived`, or why there is none.
    fn take(&mut self, picture: Result<DecodedPicture<'_>>, arrived: Instant);

    /// Counts packets that are not decoded.
    fn count_overtaken(&mut self, num: u64);
}

/// The queue of packets before a decoder.
pub(super) struct VideoQueue(Arc<Shared>);

impl VideoQueue {
    /// Starts a decoder in a place. Its pictures have at most `max_bytes`, as all packets that wait together have, and are
    /// written to `memory` on the CPU.
    ///
    /// # Errors
    /// `Io` when there is no thread.
    pub(super) fn start(
        mut pictures: Box<dyn Pictures>,
        mut memory: PayloadMemory,
        place: VideoPlace,
        max_bytes: usize,
    ) -> Result<Self> {
        let state = State { waiting: Waiting::new(max_bytes), ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let run = move || {
            let (mut decoder, mut picture) = (InputDecoder::new(place), DevicePicture::default());
            while let Some((packet, num_overtaken)) = of_thread.take() {
                pictures.count_overtaken(num_overtaken);
                let Packet { message, cdr, arrived, .. } = packet;
                let written = &mut memory;
                let decoded = decoder.decode(message, &cdr, max_bytes, &mut picture, |len| {
                    written.reserve(len);
                    written.set_len(len);
                    written.bytes_mut()
                });
                let decoded = decoded.map(|decoded| match decoded {
                    Decoded::Message => DecodedPicture::Message(&mut memory),
                    Decoded::Elsewhere(header) => DecodedPicture::OnDevice(header, &mut picture),
                });
                pictures.take(decoded, arrived);
                lock(&of_thread.state).spare.push(cdr);
            }
        };
        std::thread::Builder::new().name("decode video".to_owned()).spawn(run).map_err(
            |error| Error::new(ErrorKind::Io, "channel", "no thread").with_source(error),
        )?;
        Ok(Self(shared))
    }

    /// Copies a packet for the decoder.
    ///
    /// # Errors
    /// `TooLarge` for a message of more bytes than all that wait may have.
    pub(super) fn put(&self, message: VideoMessage, cdr: &[u8]) -> Result<()> {
        let is_key = key_frame(message, cdr) != KeyFrame::No;
        let mut copy = lock(&self.0.state).spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(cdr);
        let packet = Packet { message, cdr: copy, is_key, arrived: Instant::now() };
        let mut state = lock(&self.0.state);
        let State { waiting, spare, .. } = &mut *state;
        let put = waiting.put(packet, spare);
        spare.truncate(MAX_WAITING);
        drop(state);
        self.0.changed.notify_one();
        put
    }
}

impl Drop for VideoQueue {
    fn drop(&mut self) {
        lock(&self.0.state).is_closed = true;
        self.0.changed.notify_one();
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Waiting,
    /// Memory for the next packets.
    spare: Vec<Vec<u8>>,
    is_closed: bool,
}

impl Shared {
    /// Waits for a packet; with it the number of those that were overtaken before. `None` in the end.
    fn take(&self) -> Option<(Packet, u64)> {
        let mut state = lock(&self.state);
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(packet) = state.waiting.take() {
                return Some((packet, std::mem::take(&mut state.waiting.num_overtaken)));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A message with a packet.
struct Packet {
    message: VideoMessage,
    cdr: Vec<u8>,
    is_key: bool,
    arrived: Instant,
}

/// Packets that wait, in the order of arrival.
#[derive(Default)]
struct Waiting {
    packets: VecDeque<Packet>,
    num_bytes: usize,
    max_bytes: usize,
    /// Whether packets are overtaken until a key frame arrives.
    is_skipping: bool,
    num_overtaken: u64,
}

impl Waiting {
    fn new(max_bytes: usize) -> Self {
        Self { max_bytes, ..Self::default() }
    }

    fn put(&mut self, packet: Packet, spare: &mut Vec<Vec<u8>>) -> Result<()> {
        let len = packet.cdr.len();
        if len > self.max_bytes {
            // What depends on it cannot be decoded, which the decoder finds.
            let max_bytes = self.max_bytes;
            let message = format!("message holds {len} bytes, at most {max_bytes} are allowed");
            return Err(Error::new(ErrorKind::TooLarge, "slot", message));
        }
        if self.is_skipping && !packet.is_key {
            self.num_overtaken += 1;
            spare.push(packet.cdr);
            return Ok(());
        }
        self.is_skipping = false;
        self.num_bytes += len;
        self.packets.push_back(packet);
        if self.packets.len() > MAX_WAITING || self.num_bytes > self.max_bytes {
            self.skip(spare);
        }
        Ok(())
    }

    /// Overtakes what waits before the newest key frame that does not come first; all, if there is none.
    fn skip(&mut self, spare: &mut Vec<Vec<u8>>) {
        let newest = self.packets.iter().rposition(|packet| packet.is_key).filter(|at| *at > 0);
        self.is_skipping = newest.is_none();
        for packet in self.packets.drain(..newest.unwrap_or(self.packets.len())) {
            self.num_overtaken += 1;
            self.num_bytes -= packet.cdr.len();
            spare.push(packet.cdr);
        }
    }

    fn take(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.num_bytes -= packet.cdr.len();
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts packets of a byte each, `K` a key frame and `.` another; returns those that wait by their place.
    fn waiting(packets: &str, max_bytes: usize) -> (Vec<usize>, u64, bool) {
        let mut waiting = Waiting::new(max_bytes);
        for (index, kind) in packets.chars().enumerate() {
            let (message, is_key) = (VideoMessage::Foxglove, kind == 'K');
            let packet =
                Packet { message, cdr: vec![index as u8], is_key, arrived: Instant::now() };
            waiting.put(packet, &mut Vec::new()).unwrap();
        }
        let (num_overtaken, is_skipping) = (waiting.num_overtaken, waiting.is_skipping);
        let left: Vec<usize> =
            std::iter::from_fn(|| waiting.take()).map(|packet| packet.cdr[0].into()).collect();
        assert_eq!(waiting.num_bytes, 0);
        (left, num_overtaken, is_skipping)
    }

    #[test]
    fn a_full_queue_goes_on_at_a_key_frame() {
        let (full, one_over) = ("K...............", "K................");
        assert_eq!(full.len(), MAX_WAITING);
        let all = |num: usize| (0..num).collect::<Vec<_>>();
        let cases = [
            ("", 99, vec![], 0, false),
            (full, 99, all(16), 0, false),
            // No key frame waits after the first: the next one is awaited.
            (one_over, 99, vec![], 17, true),
            ("K................K..", 99, vec![17, 18, 19], 17, false),
            ("K.......K........", 99, (8..17).collect(), 8, false),
            ("K...K...K........", 99, (8..17).collect(), 8, false),
            ("K...............K", 99, vec![16], 16, false),
            ("KKKKKKKKKKKKKKKKK", 99, vec![16], 16, false),
            // The same for bytes.
            ("K..", 3, all(3), 0, false),
            ("K...", 3, vec![], 4, true),
            ("K.K.", 3, vec![2, 3], 2, false),
        ];
        for (packets, max_bytes, left, num_overtaken, is_skipping) in cases {
            let expected = (left, num_overtaken, is_skipping);
            assert_eq!(waiting(packets, max_bytes), expected, "{packets} {max_bytes}");
        }
        let packet = Packet {
            message: VideoMessage::Foxglove,
            cdr: vec![0; 4],
            is_key: true,
            arrived: Instant::now(),
        };
        let error = Waiting::new(3).put(packet, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }
}
