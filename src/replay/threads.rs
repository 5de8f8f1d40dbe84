//! The threads of a replay at full rate: the channels of each GPU have one, so that none waits
//! for the work of another GPU.
//!
//! Every thread has a reader of the recording and of its transforms, which gives it all messages
//! of all channels; it processes those of its own. Therefore what a channel is given does not
//! depend on the threads, nor does the order in which frames are passed on ([`super::turns`]).

use std::thread;

use super::channel::ReplayChannel;
use super::context::Reading;
use super::in_order::{InOrder, Uploads};
use super::transforms::TransformFeed;
use crate::config::ChannelConfig;
use det_post_ops::device::MappedUploads;
use det_post_ros::bag::BagReader;
use det_post_types::{DeviceChoice, Result};

/// How the channels of a replay at full rate are divided among threads. The detections, their
/// order and what is dropped are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// The channels of each GPU have a thread. Those without a GPU are with the ones of the first
    /// GPU, and so are all where the recording is compressed, SQLite or without an index: every
    /// thread reads it.
    #[default]
    PerGpu,
    /// As [`Threads::PerGpu`], for each channel.
    PerChannel,
    /// One for all.
    One,
}

/// What a thread reads.
pub(super) struct Feed {
    pub(super) reader: BagReader,
    pub(super) transforms: Option<TransformFeed>,
}

/// The threads of channels, by number from 0 on.
pub(super) fn divide<'a>(
    channels: impl Iterator<Item = &'a ChannelConfig>,
    threads: Threads,
) -> Vec<usize> {
    let mut names = vec![];
    let of_channel = |channel: &ChannelConfig| {
        let name = match threads {
            Threads::PerGpu => match channel.device {
                DeviceChoice::Cuda(gpu) => gpu.to_string(),
                _ => return 0,
            },
            Threads::PerChannel => channel.name.clone(),
            Threads::One => return 0,
        };
        let known = names.iter().position(|other| *other == name);
        known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        })
    };
    channels.map(of_channel).collect()
}

/// Processes the messages of all readers. The first one is read on this thread.
///
/// # Errors
/// As [`InOrder::process`].
pub(super) fn process(
    first: &mut Reading<'_>,
    others: &mut [Reading<'_>],
    channels: &mut [ReplayChannel],
    thread_of: &[usize],
    uploads: Option<&MappedUploads>,
    frames_in_flight: usize,
) -> Result<()> {
    let mut own: Vec<Vec<&mut ReplayChannel>> = vec![];
    own.resize_with(others.len() + 1, Vec::new);
    for (channel, thread) in channels.iter_mut().zip(thread_of) {
        own[*thread].push(channel);
    }
    let is_shared = !others.is_empty();
    let uploads = |reader| uploads.map(|files| Uploads { files, reader, is_shared });
    let mut own = own.into_iter();
    let of_first = own.next().unwrap_or_default();
    thread::scope(|scope| {
        let others = others.iter_mut().zip(own).zip(1..).map(|((reading, channels), reader)| {
            let uploads = uploads(reader);
            scope.spawn(move || process_own(reading, channels, uploads, frames_in_flight))
        });
        let others: Vec<_> = others.collect();
        let processed = process_own(first, of_first, uploads(0), frames_in_flight);
        others.into_iter().fold(processed, |processed, other| {
            // One of them has an error at most: after it, no frame is passed on.
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            processed.and(other)
        })
    })
}

/// Processes the messages of the channels of one thread.
fn process_own(
    reading: &mut Reading<'_>,
    channels: Vec<&mut ReplayChannel>,
    uploads: Option<Uploads<'_>>,
    frames_in_flight: usize,
) -> Result<()> {
    let context = reading.context;
    let _end = context.turn.end();
    let mut in_order = InOrder::new(channels, uploads, context, frames_in_flight);
    reading.each(&mut |message| in_order.process(message))?;
    if let Some(Uploads { files, reader, .. }) = uploads {
        files.end(reader);
    }
    if context.turn.is_stopped() {
        return Ok(());
    }
    in_order.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn channels_are_divided_by_their_gpus_or_names() {
        let channel = |name: &str, more: &str| {
            let of = |key: &str| format!("{name}.{key}");
            let all = ["input:=/i", "model_path:=m", "head:=yolov5", more];
            all.iter().filter(|text| !text.is_empty()).map(|text| of(text)).collect::<Vec<_>>()
        };
        let parameters = [
            channel("a", "device:=cpu"),
            channel("b", "device:=cuda:3"),
            channel("c", "device:=cuda:1"),
            channel("d", "device:=cuda:3"),
            channel("e", "device:=auto"),
            channel("f", "device:=cuda:1"),
        ];
        let channels = Config::load(&[], &parameters.concat()).unwrap().channels;
        let divided = |threads| divide(channels.iter(), threads);
        assert_eq!(divided(Threads::One), [0; 6]);
        assert_eq!(divided(Threads::PerGpu), [0, 0, 1, 0, 0, 1]);
        assert_eq!(divided(Threads::PerChannel), [0, 1, 2, 3, 4, 5]);
    }
}
