//! Recordings in all their forms, whole and damaged.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking"
)]

use crate::common::{recordings, shared_data};

mod hostile_db3;
mod hostile_metadata;
mod limits;
mod memory;

use std::path::Path;

use det_post::{Error, ErrorKind};
use det_post_ros::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post_types::Stamp;
use mcap::Compression;
use recordings::{Layout, Message, TOPICS, mcap_file, messages, write_db3};

/// Everything a reader delivers, and the errors with how many messages had
/// come before each.
fn drain(reader: &mut BagReader) -> (Vec<Message>, Vec<(usize, Error)>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    loop {
        match reader.next_message() {
            Ok(Some(message)) => {
                let time = message.log_time.nanos() as u64;
                found.push((message.topic, time, message.data.to_vec()));
            }
            Ok(None) => return (found, errors),
            Err(error) => errors.push((found.len(), error)),
        }
    }
}

fn read(path: &Path) -> (Vec<Message>, Vec<(usize, Error)>) {
    drain(&mut BagReader::open(path).unwrap())
}

/// What `bytes` delivers as a file of its own.
fn read_bytes(bytes: &[u8]) -> (Vec<Message>, Vec<(usize, Error)>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    read(file.path())
}

fn error_of(path: &Path) -> Error {
    BagReader::open(path).err().unwrap()
}

fn layouts() -> Vec<Layout> {
    let mut layouts = Vec::new();
    for has_summary in [true, false] {
        for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd)] {
            layouts.push(Layout { compression, has_summary, ..Layout::PLAIN });
        }
        layouts.push(Layout { is_chunked: false, has_summary, ..Layout::PLAIN });
    }
    layouts
}

/// Where the data section of an MCAP file ends: behind its DataEnd record.
fn data_end(bytes: &[u8]) -> usize {
    let mut at = 8;
    loop {
        let len = u64::from_le_bytes(bytes[at + 1..at + 9].try_into().unwrap()) as usize;
        let opcode = bytes[at];
        at += 9 + len;
        if opcode == 0x0f {
            return at;
        }
    }
}

#[test]
fn every_storage_delivers_the_same() {
    let wanted = messages(10);
    for layout in layouts() {
        let (found, errors) = read_bytes(&mcap_file(layout, &wanted));
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(found, wanted);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive.db3");
    write_db3(&path, &wanted);
    let (found, errors) = read(&path);
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(found, wanted);
}

#[test]
fn empty_recordings_are_whole() {
    for layout in layouts() {
        let (found, errors) = read_bytes(&mcap_file(layout, &[]));
        assert!(found.is_empty() && errors.is_empty(), "{errors:?}");
    }
}

#[test]
fn topics_are_sorted_and_counted() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for layout in layouts() {
        std::fs::write(file.path(), mcap_file(layout, &messages(5))).unwrap();
        let mut reader = BagReader::open(file.path()).unwrap();
        let topics: Vec<_> = reader.topics().iter().collect();
        for (topic, (name, type_name)) in topics.iter().zip(TOPICS) {
            assert_eq!((topic.name.as_str(), topic.type_name.as_str()), (name, type_name));
            assert_eq!(topic.serialization, "cdr");
        }
        assert_eq!(topics.len(), 2);
        assert_eq!((topics[0].num_messages, topics[1].num_messages), (Some(3), Some(2)));
        assert_eq!(reader.num_messages(), Some(5));
        assert_eq!(reader.start_time(), Some(Stamp::from_nanos(1000)));
        assert_eq!(reader.duration().unwrap().as_nanos(), 40);
        reader.select(&["/lidar", "/not/there"]);
        assert_eq!(reader.num_messages(), Some(2));
        let (found, errors) = drain(&mut reader);
        assert!(errors.is_empty());
        assert_eq!(found.iter().map(|found| found.0).collect::<Vec<_>>(), [1, 1]);
    }
}

/// Log times out of order within and across chunks, with ties.
fn jumbled() -> Vec<Message> {
    let times = [50, 10, 30, 30, 20, 60, 10, 40, 70, 5, 30, 65];
    times.iter().enumerate().map(|(at, time)| (at % 2, *time, vec![at as u8; 9])).collect()
}

#[test]
fn overlapping_chunks_are_merged_by_log_time_and_position() {
    for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd)] {
        let layout = Layout { compression, ..Layout::PLAIN };
        let (found, _) = read_bytes(&mcap_file(layout, &jumbled()));
        let mut sorted = jumbled();
        sorted.sort_by_key(|message| message.1);
        assert_eq!(found, sorted);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive.db3");
    write_db3(&path, &jumbled());
    let mut sorted = jumbled();
    sorted.sort_by_key(|message| message.1);
    assert_eq!(read(&path).0, sorted);
}

#[test]
fn without_index_only_chunks_are_sorted() {
    let layout = Layout { has_summary: false, ..Layout::PLAIN };
    let (found, _) = read_bytes(&mcap_file(layout, &jumbled()));
    let mut sorted = jumbled();
    for chunk in sorted.chunks_mut(layout.num_per_chunk) {
        chunk.sort_by_key(|message| message.1);
    }
    assert_eq!(found, sorted);
    let layout = Layout { is_chunked: false, ..Layout::PLAIN };
    assert_eq!(read_bytes(&mcap_file(layout, &jumbled())).0, jumbled());
}

#[test]
fn uncompressed_payloads_are_slices_of_the_file() {
    for is_chunked in [true, false] {
        let bytes = mcap_file(Layout { is_chunked, ..Layout::PLAIN }, &messages(8));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let mut reader = BagReader::open(file.path()).unwrap();
        let mut bases = Vec::new();
        while let Some(message) = reader.next_message().unwrap() {
            let len = message.data.len();
            let at = bytes.windows(len).position(|window| window == message.data).unwrap();
            bases.push(message.data.as_ptr() as usize - at);
        }
        assert_eq!(bases.len(), 8);
        assert!(bases.iter().all(|base| *base == bases[0]), "one mapping, no copies");
    }
}

#[test]
fn chunks_without_a_selected_topic_are_not_opened() {
    // One topic per chunk; the first chunk of the other topic is damaged.
    let mut all = messages(8);
    all.sort_by_key(|message| message.0);
    let mut bytes =
        mcap_file(Layout { compression: Some(Compression::Lz4), ..Layout::PLAIN }, &all);
    let chunk = bytes.iter().position(|byte| *byte == 0x06).unwrap();
    bytes[chunk + 120] ^= 0xff;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let mut reader = BagReader::open(file.path()).unwrap();
    reader.select(&["/lidar"]);
    let (found, errors) = drain(&mut reader);
    assert_eq!((found.len(), errors.len()), (4, 0), "{errors:?}");
    assert_eq!(read(file.path()).1.len(), 1);
}

#[test]
fn a_cut_gives_what_is_whole_and_one_error() {
    let wanted = messages(10);
    for layout in layouts() {
        let bytes = mcap_file(layout, &wanted);
        let end = data_end(&bytes);
        let mut num_before = 0;
        for len in (16..end).step_by(11).chain([end - 1, end, bytes.len() - 1]) {
            let (found, errors) = read_bytes(&bytes[..len]);
            assert_eq!(found, wanted[..found.len()], "cut at {len}");
            assert!(found.len() >= num_before, "cut at {len}");
            num_before = found.len();
            assert_eq!(errors.len(), usize::from(len < end), "cut at {len} of {end}: {errors:?}");
            if let Some((after, error)) = errors.first() {
                assert_eq!((*after, error.kind()), (found.len(), ErrorKind::DamagedBag));
                assert!(error.message().contains(" at byte "), "{error}");
                let told = format!("{} messages of it were delivered", found.len());
                assert!(error.message().contains(&told), "{error}");
            }
        }
        assert_eq!(num_before, wanted.len());
    }
}

#[test]
fn a_damaged_summary_is_no_loss() {
    let wanted = messages(6);
    let bytes = mcap_file(Layout::PLAIN, &wanted);
    for at in data_end(&bytes)..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        let (found, errors) = read_bytes(&damaged);
        assert!(errors.is_empty(), "byte {at}: {errors:?}");
        assert_eq!(found, wanted, "byte {at}");
    }
}

/// Where the body of chunk `index` starts and where its contents do.
fn chunk_at(bytes: &[u8], index: usize) -> (usize, usize) {
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (mut at, mut num_chunks) = (8, 0);
    loop {
        let body = at + 9;
        if bytes[at] == 0x06 {
            if num_chunks == index {
                let name_len = u32::from_le_bytes(bytes[body + 28..][..4].try_into().unwrap());
                return (body, body + 40 + name_len as usize);
            }
            num_chunks += 1;
        }
        at = body + u64_at(at + 1);
    }
}

#[test]
fn a_wrong_checksum_of_a_compressed_chunk_ends_the_file() {
    let wanted = messages(12);
    for layout in layouts().into_iter().filter(|layout| layout.compression.is_some()) {
        let bytes = mcap_file(layout, &wanted);
        let (body, contents) = chunk_at(&bytes, 1);
        let len = u64::from_le_bytes(bytes[contents - 8..contents].try_into().unwrap()) as usize;
        // The checksum in the head, and the end of the stream.
        for (at, part) in [(body + 24, "checksum"), (contents + len - 1, "the chunk")] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let (found, errors) = read_bytes(&damaged);
            assert_eq!(found, wanted[..4]);
            assert_eq!(errors.len(), 1);
            assert!(errors[0].1.message().contains(part), "{}", errors[0].1);
        }
    }
}

#[test]
fn uncompressed_payloads_come_as_they_stand_in_the_file() {
    for has_summary in [true, false] {
        let mut wanted = messages(12);
        let mut bytes = mcap_file(Layout { has_summary, ..Layout::PLAIN }, &wanted);
        let payload = &mut wanted[5].2;
        let at = bytes.windows(payload.len()).position(|window| window == payload).unwrap();
        bytes[at + 3] ^= 1;
        payload[3] ^= 1;
        let (found, errors) = read_bytes(&bytes);
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(found, wanted);
    }
}

#[test]
fn the_error_is_kept_and_comes_once() {
    let bytes = mcap_file(Layout::PLAIN, &messages(8));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes[..bytes.len() / 3]).unwrap();
    let mut reader = BagReader::open(file.path()).unwrap();
    assert!(reader.damage().is_none());
    let (_, errors) = drain(&mut reader);
    assert_eq!(errors.len(), 1);
    assert_eq!(reader.damage().unwrap().message(), errors[0].1.message());
    assert!(reader.next_message().unwrap().is_none());
}

fn page(files: &[&str], extra: &str) -> String {
    let mut text = format!(
        "rosbag2_bagfile_information:\n  version: 5\n  storage_identifier: mcap\n{extra}  \
         relative_file_paths:\n"
    );
    for file in files {
        text += &format!("  - {file}\n");
    }
    text
}

#[test]
fn several_files_are_merged_and_damage_in_one_spares_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let all = messages(12);
    let (early, late) = all.split_at(6);
    let bytes = mcap_file(Layout::PLAIN, early);
    std::fs::write(at("a.mcap"), &bytes).unwrap();
    write_db3(&at("b.db3"), late);
    std::fs::write(at("metadata.yaml"), page(&["a.mcap", "b.db3"], "")).unwrap();
    assert_eq!(read(directory.path()).0, all);

    // Equal times: the order of the files.
    write_db3(&at("b.db3.same"), early);
    std::fs::write(at("metadata.yaml"), page(&["b.db3.same", "a.mcap"], "")).unwrap();
    let doubled: Vec<_> =
        early.iter().flat_map(|message| [message.clone(), message.clone()]).collect();
    assert_eq!(read(directory.path()).0, doubled);

    // The first file is cut behind its first chunk, the third is missing.
    std::fs::write(at("a.mcap"), &bytes[..bytes.len() / 2]).unwrap();
    std::fs::write(at("metadata.yaml"), page(&["a.mcap", "c.mcap", "b.db3"], "")).unwrap();
    let (found, errors) = read(directory.path());
    let kept = found.len() - late.len();
    assert!(kept < early.len());
    assert_eq!(found, [&early[..kept], late].concat());
    assert_eq!(errors.iter().map(|error| error.0).collect::<Vec<_>>(), [kept, found.len()]);
    assert!(errors[0].1.message().contains("a.mcap at byte"), "{}", errors[0].1);
    assert!(errors[1].1.message().contains("c.mcap is missing"), "{}", errors[1].1);
}

#[test]
fn a_directory_without_a_usable_page_is_read_by_names() {
    let directory = tempfile::tempdir().unwrap();
    for (part, name) in [(0, "drive_9.mcap"), (1, "drive_10.mcap")] {
        let part = [(0, 1000, vec![part])];
        std::fs::write(directory.path().join(name), mcap_file(Layout::PLAIN, &part)).unwrap();
    }
    let (found, errors) = read(directory.path());
    assert_eq!(found.iter().map(|found| found.2[0]).collect::<Vec<_>>(), [0, 1]);
    assert!(errors.is_empty());
    std::fs::write(directory.path().join("metadata.yaml"), "rosbag2_bagfile_information: 7")
        .unwrap();
    let (found, errors) = read(directory.path());
    assert_eq!((found.len(), errors.len()), (2, 1));
    assert!(errors[0].1.message().contains("metadata.yaml"), "{}", errors[0].1);
}

#[test]
fn what_is_no_recording_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("empty.mcap"), b"").unwrap();
    std::fs::write(at("text.mcap"), b"hello, this is text").unwrap();
    std::fs::write(at("note.txt"), b"a note").unwrap();
    std::fs::write(at("whole.mcap.zstd"), [0x28, 0xb5, 0x2f, 0xfd, 0]).unwrap();
    std::fs::write(at("ros_1.bag"), b"#ROSBAG V2.0\nE").unwrap();
    for (name, kind, part) in [
        ("empty.mcap", ErrorKind::DamagedBag, "is empty (0 bytes)"),
        ("text.mcap", ErrorKind::DamagedBag, "starts with 'hello, this is t'"),
        ("note.txt", ErrorKind::Usage, "is not a recording: it starts with 'a note'"),
        ("whole.mcap.zstd", ErrorKind::Encoding, "`zstd -d "),
        ("ros_1.bag", ErrorKind::Encoding, "`rosbags-convert --src "),
        ("absent.mcap", ErrorKind::Io, "cannot open"),
    ] {
        let error = error_of(&at(name));
        assert_eq!(error.kind(), kind);
        assert!(error.message().contains(name) && error.message().contains(part), "{error}");
    }
    for mode in ["FILE", "message"] {
        let extra = format!("  compression_format: zstd\n  compression_mode: {mode}\n");
        std::fs::write(at("metadata.yaml"), page(&["whole.mcap.zstd"], &extra)).unwrap();
        let error = error_of(directory.path());
        assert_eq!(error.kind(), ErrorKind::Encoding);
        assert!(error.message().contains(&mode.to_lowercase()), "{error}");
    }
}

#[test]
fn an_unpacked_file_is_read_in_place_of_the_compressed_one() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let wanted = messages(6);
    let parts = [mcap_file(Layout::PLAIN, &wanted[..3]), mcap_file(Layout::PLAIN, &wanted[3..])];
    let extra = "  compression_format: zstd\n  compression_mode: FILE\n";
    let listed = ["drive_0.mcap.zstd", "drive_1.mcap.zstd"];
    for with_metadata in [true, false] {
        for (name, bytes) in listed.iter().zip(&parts) {
            std::fs::write(at(name), [0x28, 0xb5, 0x2f, 0xfd, 0]).unwrap();
            std::fs::write(at(name.trim_end_matches(".zstd")), bytes).unwrap();
        }
        match with_metadata {
            true => std::fs::write(at("metadata.yaml"), page(&listed, extra)).unwrap(),
            false => std::fs::remove_file(at("metadata.yaml")).unwrap(),
        }
        let (found, errors) = read(directory.path());
        assert_eq!((found.len(), errors.len()), (6, 0));
        // The second file is not unpacked.
        std::fs::remove_file(at("drive_1.mcap")).unwrap();
        let error = error_of(directory.path());
        assert_eq!(error.kind(), ErrorKind::Encoding);
        let command = format!("`zstd -d {}`", at("drive_1.mcap.zstd").display());
        assert!(error.message().contains(&command), "{error}");
    }
}

#[test]
fn an_unpacked_file_is_read_whatever_the_metadata_says_of_its_compression() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let wanted = messages(6);
    let parts = [mcap_file(Layout::PLAIN, &wanted[..3]), mcap_file(Layout::PLAIN, &wanted[3..])];
    let listed = ["drive_0.mcap.zstd", "drive_1.mcap.zstd"];
    for mode in ["FILE", "file", "MESSAGE", "message", ""] {
        for (name, bytes) in listed.iter().zip(&parts) {
            std::fs::write(at(name.trim_end_matches(".zstd")), bytes).unwrap();
        }
        let extra = format!("  compression_format: zstd\n  compression_mode: {mode}\n");
        std::fs::write(at("metadata.yaml"), page(&listed, &extra)).unwrap();
        let (found, errors) = read(directory.path());
        assert_eq!((found.len(), errors.len()), (6, 0), "{mode}");
        // The second file is gone, too.
        std::fs::remove_file(at("drive_1.mcap")).unwrap();
        let (found, errors) = read(directory.path());
        assert_eq!((found.len(), errors.len()), (3, 1), "{mode}");
        assert!(errors[0].1.message().contains("drive_1.mcap.zstd is missing"), "{}", errors[0].1);
    }
}

#[test]
fn a_cut_database_gives_the_rows_that_are_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive.db3");
    // Every third payload overflows to further pages and ends in zeros.
    let mut wanted = messages(60);
    for (_, _, payload) in wanted.iter_mut().step_by(3) {
        payload.resize(9 * payload.len(), 0);
    }
    write_db3(&path, &wanted);
    let bytes = std::fs::read(&path).unwrap();
    let mut num_before = 0;
    for len in (512 * 12..bytes.len()).step_by(128).flat_map(|len| [len, len + 3, len + 100]) {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let (found, errors) = read(&path);
        assert!(found.len() >= num_before && found.len() <= wanted.len(), "{len} bytes");
        num_before = found.len();
        assert!(found == wanted[..found.len()], "{len} bytes, {} messages", found.len());
        assert_eq!(errors.len(), 1, "{len} bytes");
        assert_eq!(errors[0].1.kind(), ErrorKind::DamagedBag);
        assert!(errors[0].1.message().contains("declares"), "{}", errors[0].1);
    }
    assert!(num_before > wanted.len() - 4, "{num_before}");
}

#[test]
fn a_database_cut_anywhere_lacks_only_rows_behind_the_cut() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive.db3");
    // One row per leaf, so that what a cut must spare is known.
    let wanted: Vec<Message> =
        (0..40).map(|index| (0, 1000 + index, vec![index as u8 | 0x80; 400])).collect();
    write_db3(&path, &wanted);
    let bytes = std::fs::read(&path).unwrap();
    for num_pages in 10..bytes.len() / 512 {
        let whole = &bytes[..num_pages * 512];
        let is_there =
            |message: &&Message| whole.windows(400).any(|window| window == message.2.as_slice());
        let num_there = wanted.iter().take_while(is_there).count();
        std::fs::write(&path, &bytes[..num_pages * 512 + 200]).unwrap();
        assert_eq!(read(&path).0.len(), num_there, "{num_pages} pages");
    }
}

fn write_recording(directory: &Path, compression: BagCompression) {
    let mut writer = BagWriter::create(directory, compression).unwrap();
    for (name, type_name) in TOPICS {
        writer.add_topic(name, type_name, "byte[] data", OfferedQos::default()).unwrap();
    }
    for (topic, time, payload) in messages(30) {
        writer.write(topic, Stamp::from_nanos(time as i64), &payload).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn written_recordings_read_back_and_are_the_same_every_time() {
    for compression in [BagCompression::None, BagCompression::Zstd] {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = [&one, &two].map(|parent| {
            let directory = parent.path().join("detections");
            write_recording(&directory, compression);
            ["detections_0.mcap", "metadata.yaml"]
                .map(|name| std::fs::read(directory.join(name)).unwrap())
        });
        assert!(files[0] == files[1], "the same calls give the same bytes");
        let mut reader = BagReader::open(&one.path().join("detections")).unwrap();
        assert_eq!(reader.num_messages(), Some(30));
        assert_eq!(reader.duration().unwrap().as_nanos(), 290);
        assert!(reader.topics()[0].offered_qos.starts_with("- history: 1\n  depth: 10\n"));
        let (found, errors) = drain(&mut reader);
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(found, messages(30));
        // A second recording of the same name takes the place of the first.
        write_recording(&one.path().join("detections"), compression);
        assert_eq!(read(&one.path().join("detections")).0.len(), 30);
    }
}

#[test]
fn the_writer_refuses_what_it_cannot_store() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("bag");
    let mut writer = BagWriter::create(&directory, BagCompression::None).unwrap();
    writer.add_topic("/a", "a/msg/A", "", OfferedQos::default()).unwrap();
    let twice = writer.add_topic("/a", "a/msg/B", "", OfferedQos::default());
    let unknown = writer.write(1, Stamp::from_nanos(0), &[]);
    let early = writer.write(0, Stamp::from_nanos(-1), &[]);
    for error in [twice.err(), unknown.err()] {
        assert_eq!(error.unwrap().kind(), ErrorKind::Argument);
    }
    assert_eq!(early.unwrap_err().kind(), ErrorKind::Time);
    let nowhere = BagWriter::create(Path::new("/"), BagCompression::None);
    assert_eq!(nowhere.err().unwrap().kind(), ErrorKind::Argument);
}

#[test]
fn shared_recordings_are_read_whole() {
    let Some(data) = shared_data::shared_data() else { return };
    for (name, num_messages) in [
        ("kitti_000008_mcap", 31),
        ("nuscenes_surround_mcap", 0),
        ("waymo_5_db3", 9),
        ("detections_pointpillars_mcap", 0),
    ] {
        let mut reader = BagReader::open(&data.join("bags").join(name)).unwrap();
        let declared = reader.num_messages().unwrap();
        let (found, errors) = drain(&mut reader);
        assert!(errors.is_empty(), "{name}: {errors:?}");
        assert_eq!(found.len() as u64, declared, "{name}");
        assert!(num_messages == 0 || found.len() == num_messages, "{name}");
        assert!(found.is_sorted_by_key(|message| message.1), "{name}");
    }
}

#[test]
fn shared_damaged_recordings_give_what_they_have() {
    let Some(data) = shared_data::shared_data() else { return };
    let broken = data.join("bags/broken");
    let mut names: Vec<_> = std::fs::read_dir(&broken).unwrap().flatten().collect();
    names.sort_by_key(|entry| entry.path());
    assert_eq!(names.len(), 13);
    for entry in names {
        let name = entry.file_name().into_string().unwrap();
        let opened = BagReader::open(&entry.path());
        match (name.as_str(), opened) {
            ("missing_file", Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::DamagedBag);
                assert!(error.message().contains("is missing"), "{error}");
            }
            ("zero_length_file", Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::DamagedBag);
                assert!(error.message().contains("zero_length_file_0.mcap is empty"), "{error}");
            }
            ("truncated_mcap", Ok(mut reader)) => {
                let (found, errors) = drain(&mut reader);
                assert_eq!((found.len(), errors.len()), (6, 1), "{errors:?}");
                assert_eq!(reader.num_messages(), Some(10));
            }
            // The messages are at fault, not the recording.
            (_, Ok(mut reader)) => {
                let (found, errors) = drain(&mut reader);
                assert!(errors.is_empty(), "{name}: {errors:?}");
                assert_eq!(Some(found.len() as u64), reader.num_messages(), "{name}");
            }
            (_, Err(error)) => panic!("{name}: {error}"),
        }
    }
}
