//! Video through channels and the decoder: types that are refused, conformance streams, and pictures of another
//! implementation.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use det_post::replay::{Replay, ReplayOptions};
use det_post::{Config, ErrorKind};
use mcap::WriteOptions;
use mcap::records::MessageHeader;

/// A recording of one message of a type.
fn recording(type_name: &str) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut writer = WriteOptions::new().profile("ros2").create(&mut file).unwrap();
    let schema = writer.add_schema(type_name, "ros2msg", b"byte[] data").unwrap();
    let channel_id = writer.add_channel(schema, "/video", "cdr", &BTreeMap::new()).unwrap();
    let header = MessageHeader { channel_id, sequence: 0, log_time: 1, publish_time: 1 };
    writer.write_to_known_channel(&header, &[0, 1, 0, 0]).unwrap();
    writer.finish().unwrap();
    drop(writer);
    file.into_inner()
}

fn open(type_name: &str, input: &str) -> det_post::Result<Replay> {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("video.mcap");
    std::fs::write(&bag, recording(type_name)).unwrap();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/demo.param.yaml");
    let overrides = ["device:=cpu".to_owned(), input.to_owned()];
    let config = Config::load(&[demo], &overrides).unwrap();
    Replay::open(&bag, &config, ReplayOptions::default())
}

#[test]
fn cameras_take_video_and_other_channels_do_not() {
    for type_name in
        ["foxglove_msgs/msg/CompressedVideo", "ffmpeg_image_transport_msgs/msg/FFMPEGPacket"]
    {
        assert!(open(type_name, "camera.input:=/video").is_ok(), "{type_name}");
        let error = open(type_name, "lidar.input:=/video").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        let expected = format!("/video carries {type_name}; it takes point clouds");
        assert!(error.message().ends_with(&expected), "{error}");
    }
    let error = open("std_msgs/msg/String", "camera.input:=/video").err().unwrap();
    assert!(error.message().ends_with("carries std_msgs/msg/String; it takes images"), "{error}");
}

#[cfg(feature = "video")]
mod decoded {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use det_post_ros::video::{Decoded, PictureDecoder, VideoDecoder, VideoMessage, grown};
    use det_post_types::{Error, ErrorKind, FrameCrop, Header, Result, Size};
    use serde_json::Value;

    use crate::common::require::{Need, skip};
    use crate::common::video::{Decode, Nv12, OnGpu, Picture, encode, message, with_crop};

    /// The packets of a stream with start codes: a picture each, with the sets before it.
    fn packets(stream: &[u8]) -> Vec<Vec<u8>> {
        let is_start = |at: &usize| stream[*at..].starts_with(&[0, 0, 1]);
        let starts: Vec<usize> = (0..stream.len().saturating_sub(3)).filter(is_start).collect();
        let (mut packets, mut packet, mut has_slice) = (Vec::new(), Vec::new(), false);
        for (index, start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(stream.len());
            let unit = &stream[*start..end];
            let kind = unit[3] & 0x1f;
            let is_slice = matches!(kind, 1 | 5);
            // Parts of the base layer and of others belong together.
            let is_first = is_slice && unit[4] & 0x80 != 0;
            if has_slice && (is_first || matches!(kind, 6..=9)) {
                packets.push(std::mem::take(&mut packet));
                has_slice = false;
            }
            has_slice |= is_slice;
            packet.extend_from_slice(unit);
        }
        packets.push(packet);
        packets
    }

    fn sha1(bytes: &[u8]) -> String {
        let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
        let mut padded = bytes.to_vec();
        padded.push(0x80);
        padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
        padded.extend((8 * bytes.len() as u64).to_be_bytes());
        for block in padded.chunks_exact(64) {
            let mut words = [0u32; 80];
            for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
                *word = u32::from_be_bytes(bytes.try_into().unwrap());
            }
            for at in 16..80 {
                words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16])
                    .rotate_left(1);
            }
            let [mut a, mut b, mut c, mut d, mut e] = state;
            for (round, word) in words.iter().enumerate() {
                let (f, k) = match round / 20 {
                    0 => (b & c | !b & d, 0x5a82_7999),
                    1 => (b ^ c ^ d, 0x6ed9_eba1),
                    2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                    _ => (b ^ c ^ d, 0xca62_c1d6u32),
                };
                let sum = a.rotate_left(5).wrapping_add(f).wrapping_add(e);
                (e, d, c, b) = (d, c, b.rotate_left(30), a);
                a = sum.wrapping_add(k).wrapping_add(*word);
            }
            for (sum, value) in state.iter_mut().zip([a, b, c, d, e]) {
                *sum = sum.wrapping_add(value);
            }
        }
        state.iter().map(|word| format!("{word:08x}")).collect()
    }

    #[test]
    fn sha1_is_that_of_its_standard() {
        assert_eq!(sha1(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }

    /// Decodes the streams of openh264's own tests (its folder `res`) and of the standard's, and compares with the SHA-1 of
    /// all pictures that those tests state; `new` makes a decoder, `end` looks at it after a stream.
    fn check_streams<D: Decode>(new: impl Fn() -> D, mut end: impl FnMut(&str, D)) {
        let folder = PathBuf::from(std::env::var_os("DET_POST_H264_STREAMS").unwrap());
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/h264_sha1.txt");
        let list = std::fs::read_to_string(list).unwrap();
        let (mut num_equal, mut refused) = (0, Vec::new());
        for line in list.lines() {
            let (expected, name) = line.split_once("  ").unwrap();
            let Ok(stream) = std::fs::read(folder.join(name)) else { continue };
            let (mut decoder, mut all) = (new(), Vec::new());
            let decoded = packets(&stream).iter().try_for_each(|packet| {
                match decoder.picture(packet) {
                    Ok(picture) => all.extend(picture.planes()),
                    // Parameter sets at the end.
                    Err(error) if error.message().contains("and no image") => {}
                    Err(error) => return Err(error),
                }
                Ok(())
            });
            match decoded {
                Ok(()) => {
                    assert_eq!(sha1(&all), expected, "{name}");
                    num_equal += 1;
                    end(name, decoder);
                }
                Err(error) => {
                    println!("{name}: {error}");
                    // A stream that starts its numbers over without a key frame (MMCO 5) is taken for a loss.
                    let starts_over = name == "MR2_TANDBERG_E.264";
                    let is_refused = error.kind() == ErrorKind::Encoding || starts_over;
                    assert!(is_refused, "{name}: {error}");
                    refused.push(name.to_owned());
                }
            }
        }
        println!("{num_equal} streams equal, refused: {}", refused.join(" "));
        assert!(num_equal >= 30, "{num_equal}");
    }

    #[test]
    #[ignore = "needs the streams of openh264"]
    fn conformance_streams_give_their_hashes() {
        check_streams(VideoDecoder::default, |_, _| {});
    }

    #[test]
    #[ignore = "needs the streams of openh264"]
    fn conformance_streams_give_their_hashes_on_a_gpu() {
        if OnGpu::open().is_none() {
            return;
        }
        let mut num_on_gpu = 0;
        check_streams(OnGpu::new, |name, decoder| match decoder.num_on_cpu {
            0 => num_on_gpu += 1,
            num => println!("{name}: {num} images on the CPU"),
        });
        assert!(num_on_gpu >= 30, "{num_on_gpu}");
    }

    /// A decoder that decodes nothing, and fails as it is asked to.
    #[derive(Default)]
    struct Planted {
        /// The errors of the next pictures; without one a picture decodes.
        errors: Vec<Option<ErrorKind>>,
        num_pictures: usize,
        num_resets: usize,
    }

    impl PictureDecoder for Planted {
        fn decode(&mut self, units: &[u8], crop: FrameCrop) -> Result<()> {
            assert!(units.starts_with(&[0, 0, 0, 1]) && crop.size == Size::new(64, 48));
            self.num_pictures += 1;
            match self.errors.pop().flatten() {
                Some(kind) => Err(Error::new(kind, "test", "planted")),
                None => Ok(()),
            }
        }

        fn reset(&mut self) {
            self.num_resets += 1;
        }
    }

    /// What becomes of the packets of key frames (every third) and pictures after them: `g` by the other decoder, `c` on
    /// the CPU, else the reason. The other decoder is dropped after an error but of a damaged picture.
    #[test]
    fn the_cpu_takes_over_at_a_key_frame() {
        use ErrorKind::{Device, Encoding, VideoCodec};
        let pictures: Vec<Picture> = (0..9).map(|number| Picture::moving(64, 48, number)).collect();
        let packets = encode(&pictures, 3);
        type Case = (Vec<Option<ErrorKind>>, &'static str, usize);
        let cases: [Case; 6] = [
            (vec![], "ggg ggg ggg", 0),
            // It does not decode the stream.
            (vec![Some(Encoding)], "ccc ccc ccc", 0),
            // It fails at a key frame, and in between.
            (vec![None, None, None, Some(Device)], "ggg ccc ccc", 0),
            (vec![None, None, None, None, Some(Device)], "ggg gDn ccc", 0),
            // A damaged picture, and a damaged key frame.
            (vec![None, Some(VideoCodec)], "gVn ggg ggg", 1),
            (vec![Some(VideoCodec), Some(Device)], "Vnn ccc ccc", 1),
        ];
        for (mut errors, expected, num_resets) in cases {
            errors.reverse();
            let mut other = Planted { errors, ..Planted::default() };
            let (mut decoder, mut image, mut found) =
                (VideoDecoder::default(), Vec::new(), String::new());
            let mut has_ended = false;
            for (index, packet) in packets.iter().enumerate() {
                let carrier = VideoMessage::Foxglove;
                let cdr = message(carrier, Header::default(), "h264", packet);
                let num_before = other.num_pictures;
                let fails = other.errors.last().copied().flatten();
                let used = (!has_ended).then_some(&mut other as &mut dyn PictureDecoder);
                let decoded = decoder.decode_by(used, carrier, &cdr, 1 << 20, grown(&mut image));
                if other.num_pictures > num_before {
                    has_ended |= fails.is_some_and(|kind| kind != VideoCodec);
                }
                if index > 0 && index % 3 == 0 {
                    found.push(' ');
                }
                found.push(match decoded {
                    Ok(Decoded::Message) => 'c',
                    Ok(Decoded::Elsewhere(header)) => {
                        assert_eq!(header, Header::default());
                        'g'
                    }
                    Err(error) if error.kind() == Device => 'D',
                    Err(error) if error.kind() == VideoCodec => 'V',
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NoImage);
                        'n'
                    }
                });
            }
            assert_eq!((&*found, other.num_resets), (expected, num_resets));
        }
    }

    /// Finds where pictures are in their frames.
    #[derive(Default)]
    struct Places(Vec<FrameCrop>);

    impl PictureDecoder for Places {
        fn decode(&mut self, _: &[u8], crop: FrameCrop) -> Result<()> {
            self.0.push(crop);
            Ok(())
        }

        fn reset(&mut self) {}
    }

    /// The parts of whole frames that the sets state are the pictures that the decoder gives.
    #[test]
    fn pictures_are_the_parts_of_their_frames_that_the_stream_states() {
        let pictures: Vec<Picture> = (0..6).map(|number| Picture::moving(96, 64, number)).collect();
        let (mut all, mut places) = (VideoDecoder::default(), Places::default());
        for crop in [[0, 0, 0, 0], [0, 0, 0, 4], [13, 12, 7, 9], [1, 0, 0, 0], [40, 7, 31, 0]] {
            let (mut whole, mut of_places) = (VideoDecoder::default(), VideoDecoder::default());
            for packet in &encode(&pictures, 3) {
                let whole = whole.picture(packet).unwrap();
                let packet = with_crop(packet, crop);
                // One decoder for all crops: they change at key frames.
                let found = all.picture(&packet).unwrap();
                let cdr = message(VideoMessage::Foxglove, Header::default(), "h264", &packet);
                let (carrier, places) = (VideoMessage::Foxglove, &mut places);
                of_places.decode_by(Some(places), carrier, &cdr, 1 << 20, |_| panic!()).unwrap();
                let FrameCrop { coded, offset: [left, top], size } = *places.0.last().unwrap();
                assert_eq!((coded, size), (Size::new(96, 64), found.size));
                assert_eq!([left, top], [2 * crop[0], 2 * crop[2]]);
                let part = |start: u32, top: u32, height: u32| {
                    let row = move |y: u32| ((start + (top + y) * 96 + left) as usize, size.width);
                    (0..height).map(row)
                };
                let rows = part(0, top, size.height).chain(part(96 * 64, top / 2, size.height / 2));
                let samples = rows.flat_map(|(at, len)| &whole.samples[at..at + len as usize]);
                assert!(samples.eq(&found.samples), "{crop:?}");
            }
        }
    }

    #[test]
    fn sizes_change_at_a_key_frame_and_damage_costs_no_more_than_up_to_the_next() {
        let stream = |width, height| {
            let pictures: Vec<Picture> =
                (0..6).map(|number| Picture::moving(width, height, number)).collect();
            encode(&pictures, 3)
        };
        let mut decoder = VideoDecoder::default();
        let all = [stream(48, 32), stream(64, 40), stream(48, 32)].concat();
        let sizes = |decoder: &mut VideoDecoder| -> Vec<u32> {
            let width = |packet: &Vec<u8>| Ok::<_, Error>(decoder.picture(packet)?.size.width);
            all.iter().map(width).map(|width| width.unwrap_or(0)).collect()
        };
        let expected = [[48; 6], [64; 6], [48; 6]].concat();
        assert_eq!(sizes(&mut decoder), expected);
        // Each packet damaged once: what is decoded later is what it was.
        let whole: Vec<_> = all.iter().map(|packet| decoder.picture(packet).unwrap()).collect();
        for damaged in 0..all.len() {
            let mut decoder = VideoDecoder::default();
            let mut num_lost = 0;
            for (index, packet) in all.iter().enumerate() {
                let cut = &packet[..packet.len() / 2];
                let packet = if index == damaged { cut } else { packet };
                match decoder.picture(packet) {
                    Ok(picture) if index != damaged => assert!(picture == whole[index], "{index}"),
                    Ok(_) => panic!("half of packet {index} decodes"),
                    Err(_) => num_lost += 1,
                }
            }
            assert_eq!(num_lost, 3 - damaged % 3, "{damaged}");
        }
    }

    /// Streams of x264 in all profiles that are decoded, and their pictures by FFmpeg's decoder.
    #[test]
    fn pictures_are_those_of_another_decoder() {
        let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
            return skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
        };
        let has_av = Command::new(&python).args(["-c", "import av"]).output();
        if !has_av.is_ok_and(|output| output.status.success()) {
            return skip(Need::Peers, "the Python has no av");
        }
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(python);
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        command.arg("tests/peers/video.py").arg(folder.path());
        assert!(command.status().unwrap().success());
        let cases = std::fs::read(folder.path().join("cases.json")).unwrap();
        let cases: Vec<Value> = serde_json::from_slice(&cases).unwrap();
        assert!(cases.len() >= 8);
        let has_gpu = OnGpu::open().is_some();
        for case in &cases {
            let name = case["name"].as_str().unwrap();
            let read = |number: usize, of: &str| {
                std::fs::read(folder.path().join(format!("{name}.{number}.{of}"))).unwrap()
            };
            let mut decoder = VideoDecoder::default();
            let mut on_gpu = has_gpu.then(OnGpu::new);
            let num = case["num"].as_u64().unwrap() as usize;
            let mut num_b_frames = 0;
            for number in 0..num {
                let packet = read(number, "packet");
                let on_gpu = on_gpu.as_mut().map(|decoder| decoder.picture(&packet));
                match decoder.picture(&packet) {
                    Ok(picture) => {
                        assert!(picture.planes() == read(number, "planes"), "{name} {number}");
                        let is_equal = |found: Result<Nv12>| found.unwrap() == picture;
                        assert!(on_gpu.is_none_or(is_equal), "{name} {number}");
                    }
                    Err(error) if case["has_b_frames"] == true => {
                        assert_ne!(error.kind(), ErrorKind::VideoCodec, "{name} {number}: {error}");
                        num_b_frames += usize::from(error.message().contains("B frames"));
                    }
                    Err(error) => panic!("{name} {number}: {error}"),
                }
            }
            assert_eq!(num_b_frames > 0, case["has_b_frames"] == true, "{name}");
        }
    }
}
