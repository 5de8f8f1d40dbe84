//! A slot of one input that counts no losses.

use std::sync::Arc;

use det_post::config::{InputConfig, SyncConfig};
use det_post::runtime::slot::{SlotCloser, SlotEvent, SlotOptions, SlotReader, SlotWriter, slot};
use det_post_ops::device::PayloadMemory;
use det_post_types::Stamp;

/// Both ends of the slot, and what closes it.
pub fn one_input_slot() -> (SlotWriter, SlotReader, SlotCloser) {
    let input = InputConfig {
        topic: "/input".into(),
        is_compressed: false,
        packed_cloud: None,
        video: None,
        camera_info: None,
        calibration_path: None,
    };
    let sync = SyncConfig::default();
    let options = SlotOptions { inputs: &[input], sync: &sync, rate: 1.0, announces: false };
    let (mut writers, reader, closer) =
        slot(options, PayloadMemory::default, Arc::new(|_, _, _| {}));
    (writers.remove(0), reader, closer)
}

/// Waits for the next frame; gives its stamp.
pub fn next_stamp(reader: &mut SlotReader) -> Option<Stamp> {
    match reader.take()? {
        SlotEvent::Frame { messages: [Some(message)], .. } => Some(message.stamp()),
        other => panic!("{other:?}"),
    }
}
