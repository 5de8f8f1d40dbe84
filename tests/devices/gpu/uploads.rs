//! Uploads from mapped files whose pages are registered ahead of the reader.

use std::sync::Arc;
use std::time::{Duration, Instant};

use det_post_ops::device::cuda::{DeviceBuffer, InPlaceUploads, PinnedBuffer, Stream};
use det_post_ops::device::{FileBytes, MappedUploads, UploadTotals, set_copy_threads};
use det_post_ros::bag::Mapped;
use det_post_types::DeviceChoice;

/// With this limit a window has 128 KiB.
const LIMIT: usize = 1 << 20;
const WINDOW: usize = LIMIT / 8;

fn file_of(bytes: &[u8]) -> (tempfile::NamedTempFile, Mapped) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let mapped = Mapped::open(file.path()).unwrap();
    (file, mapped)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

/// Uploads a payload and reads it back; returns whether it was copied on the host.
fn upload(stream: &Stream, payload: &[u8]) -> bool {
    let mut pinned = PinnedBuffer::zeros(stream, payload.len()).unwrap();
    let mut target = DeviceBuffer::zeros(stream, payload.len()).unwrap();
    let uploads = InPlaceUploads::new(stream).unwrap();
    let num_copied =
        uploads.scope(|scope| pinned.enqueue_payload(payload, &mut target, scope)).unwrap();
    assert!(target.read().unwrap()[..payload.len()] == *payload, "{} bytes", payload.len());
    assert!([0, payload.len()].contains(&num_copied));
    num_copied > 0
}

/// Waits until `num` bytes were registered.
fn wait_for(uploads: &MappedUploads, num: usize) -> UploadTotals {
    let start = Instant::now();
    loop {
        let totals = uploads.totals();
        let is_refused = totals.refused.as_ref().is_some_and(|why| !why.contains("not mapped"));
        if totals.registered_bytes >= num as u64 || is_refused {
            return totals;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{totals:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn payloads_of_a_registered_file_are_uploaded_where_they_are() {
    let Some((_alone, device)) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    // The last window is cut off in the middle of a page.
    let bytes = bytes(20 * WINDOW + 12_345);
    let (_file, mapped) = file_of(&bytes);
    let start = |limit| {
        let files = vec![Arc::new(mapped.clone()) as FileBytes];
        let uploads = MappedUploads::start(DeviceChoice::Cuda(0), files, limit, 1).unwrap();
        uploads.advance(0, &mapped[..1]);
        uploads
    };
    let uploads = start(LIMIT);
    let totals = wait_for(&uploads, 8 * WINDOW);
    if let Some(reason) = totals.refused {
        println!("not registered here, payloads are copied: {reason}");
        let all = start(0);
        assert!(upload(&stream, &mapped[100..100_000]));
        assert_eq!(all.totals().in_place_bytes, 0);
        return;
    }
    // Inside a window, at its ends, across two and three.
    for (from, len) in [(1, 1000), (0, WINDOW), (WINDOW - 7, 20), (5, 2 * WINDOW), (77, WINDOW)] {
        let payload = &mapped[from..from + len];
        uploads.advance(0, payload);
        assert!(!upload(&stream, payload), "{from} {len}");
    }
    // More windows than one upload holds, and what is not registered yet: copied.
    assert!(upload(&stream, &mapped[10..10 + 5 * WINDOW]));
    let last = &mapped[20 * WINDOW + 1..];
    assert!(upload(&stream, last));
    // A reader that goes through the file: never more than the limit at a time.
    for window in 0..20 {
        let payload = &mapped[window * WINDOW + 3..(window + 1) * WINDOW + 3];
        uploads.advance(0, payload);
        wait_for(&uploads, (window + 1).max(8) * WINDOW);
        std::thread::sleep(Duration::from_millis(5));
        upload(&stream, payload);
    }
    let totals = wait_for(&uploads, bytes.len());
    assert_eq!(totals.registered_bytes, bytes.len() as u64);
    assert!(!upload(&stream, last));
    // Windows behind the reader are released.
    assert!(upload(&stream, &mapped[..1000]));
    assert!(totals.in_place_bytes > 15 * WINDOW as u64, "{totals:?}");
    drop(uploads);
    assert!(upload(&stream, last));
    // Two readers of one file, one after the other: released pages are registered again.
    let again = start(LIMIT);
    wait_for(&again, 8 * WINDOW);
    assert!(!upload(&stream, &mapped[..1000]));
}

#[test]
fn windows_are_released_behind_the_last_reader() {
    let Some((_alone, device)) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    let (_file, mapped) = file_of(&bytes(20 * WINDOW));
    let files = vec![Arc::new(mapped.clone()) as FileBytes];
    let uploads = MappedUploads::start(DeviceChoice::Cuda(0), files, LIMIT, 2).unwrap();
    uploads.advance(0, &mapped[..1]);
    if wait_for(&uploads, 8 * WINDOW).registered_bytes == 0 {
        return;
    }
    for window in 0..8 {
        assert!(!upload(&stream, &mapped[window * WINDOW..][..WINDOW]));
    }
    uploads.advance(0, &mapped[12 * WINDOW..][..1]);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(uploads.totals().registered_bytes, 8 * WINDOW as u64);
    assert!(!upload(&stream, &mapped[..1000]));
    uploads.end(1);
    wait_for(&uploads, 16 * WINDOW);
    assert!(upload(&stream, &mapped[..1000]));
    assert!(!upload(&stream, &mapped[12 * WINDOW..][..1000]));
}

#[test]
fn a_recording_of_which_little_is_uploaded_is_not_registered_to_its_end() {
    let Some((_alone, _)) = super::gpu() else { return };
    let (_file, mapped) = file_of(&bytes(40 * WINDOW));
    let files = vec![Arc::new(mapped.clone()) as FileBytes];
    let uploads = MappedUploads::start(DeviceChoice::Cuda(0), files, LIMIT, 1).unwrap();
    // A payload of a compressed chunk, then one in the file, which starts the registration.
    uploads.advance(0, &[1; 100]);
    assert_eq!((uploads.totals().registered_bytes, uploads.totals().copied_bytes), (0, 100));
    uploads.advance(0, &mapped[..100]);
    if wait_for(&uploads, 8 * WINDOW).registered_bytes == 0 {
        return;
    }
    for window in 0..40 {
        uploads.advance(0, &mapped[window * WINDOW..][..100]);
        std::thread::sleep(Duration::from_millis(2));
    }
    let totals = wait_for(&uploads, usize::MAX);
    assert!(totals.refused.unwrap().contains("not read by a GPU"));
    assert!(totals.registered_bytes < 20 * WINDOW as u64);
}

#[test]
fn copies_by_several_threads_arrive_whole() {
    let Some((_alone, device)) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    for num_threads in [1, 2, 4, 7] {
        set_copy_threads(num_threads);
        for len in [1, (1 << 20) - 1, 1 << 20, 1920 * 1080 * 3, 40 << 20] {
            assert!(upload(&stream, &bytes(len)));
        }
    }
    set_copy_threads(0);
}
