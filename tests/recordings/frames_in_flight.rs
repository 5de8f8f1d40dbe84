//! Replays with several frames in flight, and of several threads: the same results in the same order as
//! one frame after another, also when frames fail.

use crate::common::pipelined::{Faults, Pipelined, Step};
use crate::common::session;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use det_post::ErrorKind;
use det_post::config::{ChannelConfig, Config, InputConfig};
use det_post::detectors::{Detector, PayloadKind};
use det_post::replay::{Replay, ReplayOptions, Threads};
use det_post::runtime::Factory;
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{Image, PointCloud2, definition};
use det_post_types::{Detection2d, Detections, Stamp};

const NUM_FRAMES: u32 = 12;

/// Where a frame of a camera fails: channel, number of the frame, step, and how.
type Fault = (&'static str, u32, Step, ErrorKind);

/// Two cameras in turn, a cloud without pose every third time, an image that cannot be decoded,
/// and two that are missing, one of them beside a cloud.
fn record(folder: &Path) {
    record_by(folder, BagCompression::None);
}

fn record_by(folder: &Path, compression: BagCompression) {
    let mut bag = BagWriter::create(folder, compression).unwrap();
    let mut add = |topic, type_name| {
        let text = definition(type_name).unwrap();
        bag.add_topic(topic, type_name, &text, OfferedQos::default()).unwrap()
    };
    let cameras = [add("/a", Image::TYPE), add("/b", Image::TYPE)];
    let lidar = add("/points", PointCloud2::TYPE);
    for frame in 1..=NUM_FRAMES {
        let at = |part: u32| Stamp::from_ros(frame as i32, part);
        let mut image = session::image_message(at(0));
        let end = image.len() - 1;
        image[end] = frame as u8;
        bag.write(cameras[0], at(0), &image).unwrap();
        if frame == 5 {
            bag.write(cameras[0], at(1), &image[..200]).unwrap();
        }
        if frame % 3 == 0 {
            bag.write(lidar, at(2), &session::cloud(at(0))).unwrap();
        }
        if frame != 6 && frame != 7 {
            bag.write(cameras[1], at(3), &image).unwrap();
        }
    }
    bag.finish().unwrap();
}

/// A frame as it was passed on: channel, number, and what was found or the reason why not.
type Passed = (String, u64, std::result::Result<(i64, i64, Vec<Detection2d>), String>);

/// What a replay passes on, its report as JSON without times, and the largest number of frames
/// in flight.
fn replay(
    bag: &Path,
    channels: &[&str],
    frames_in_flight: usize,
    faults: &[Fault],
) -> (Vec<Passed>, serde_json::Value, usize) {
    replay_by(bag, channels, (frames_in_flight, Threads::One), faults, &mut || {}).0
}

/// As [`replay`], by the threads of the channels; `work` is done in each call of the closure. Also
/// gives the number of threads that called it.
fn replay_by(
    bag: &Path,
    channels: &[&str],
    (frames_in_flight, threads): (usize, Threads),
    faults: &[Fault],
    work: &mut (dyn FnMut() + Send),
) -> ((Vec<Passed>, serde_json::Value, usize), usize) {
    let mut parameters = vec![];
    for channel in channels {
        let (head, topic, more) = match *channel {
            "lidar" | "rig" | "roof" => {
                ("centerpoint_autoware", "/points", Some("encoder_path:=e"))
            }
            "a" => ("yolov5", "/a", None),
            _ => ("yolov5", "/b", None),
        };
        parameters.push(format!("{channel}.head:={head}"));
        parameters.push(format!("{channel}.input:={topic}"));
        parameters.push(format!("{channel}.model_path:=m"));
        parameters.extend(more.map(|more| format!("{channel}.{more}")));
    }
    let mut config = Config::load(&[], &parameters).unwrap();
    for rig in config.channels.iter_mut().filter(|channel| channel.name == "rig") {
        rig.inputs.push(InputConfig { topic: "/b".to_owned(), ..rig.inputs[0].clone() });
    }
    let most = Arc::new(AtomicUsize::new(0));
    let (faults, seen) = (faults.to_vec(), Arc::clone(&most));
    // The frames of each channel that have begun.
    let begun: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let all_begun = Arc::clone(&begun);
    let factory: Factory = Arc::new(move |config: &ChannelConfig, _| {
        let is_lidar = ["lidar", "rig", "roof"].contains(&config.name.as_str());
        let kind = if is_lidar { PayloadKind::Cloud } else { PayloadKind::Image };
        let here = faults.iter().filter(|fault| fault.0 == config.name).copied();
        let here: Vec<Fault> = here.collect();
        let (begun, name) = (Arc::clone(&all_begun), config.name.clone());
        let faults: Faults = Arc::new(move |number, step| {
            let is_begun = u64::from(step == Step::Submit);
            *begun.lock().unwrap().entry(name.clone()).or_default() += is_begun;
            let hit = here.iter().find(|(_, at, when, _)| (*at, *when) == (number, step));
            hit.map(|(.., kind)| *kind)
        });
        let detector = match config.name.as_str() {
            "rig" => Pipelined::of_cloud_and_image(&faults, &seen),
            "lidar" => Pipelined::new(kind, &faults, &seen).one_at_a_time(),
            _ => Pipelined::new(kind, &faults, &seen),
        };
        Ok(Box::new(detector) as Box<dyn Detector>)
    });
    let options = ReplayOptions {
        frames_in_flight: Some(frames_in_flight),
        factory,
        threads,
        ..ReplayOptions::default()
    };
    let (mut passed, mut num_passed, mut callers) = (vec![], BTreeMap::new(), BTreeSet::new());
    let report = Replay::open(bag, &config, options).unwrap().run(|frame| {
        work();
        callers.insert(format!("{:?}", thread::current().id()));
        for (channel, num) in &*begun.lock().unwrap() {
            let num_kept = num.saturating_sub(*num_passed.get(channel).unwrap_or(&0));
            assert!(num_kept <= frames_in_flight as u64, "{channel} is {num_kept} frames ahead");
        }
        *num_passed.entry(frame.config.name.clone()).or_default() += 1;
        let result = match &frame.result {
            Ok(found) => {
                let Detections::Boxes2d(boxes) = found.detections else { panic!() };
                let stamp = found.header.stamp.nanos();
                assert!(!found.header.frame_id.is_empty());
                assert_eq!(found.inputs.inputs.len(), frame.config.inputs.len());
                let (_, sum) = Pipelined::digest(&found.inputs).unwrap();
                assert_eq!(boxes[0].bbox.y1, sum, "the inputs are those of the detections");
                Ok((stamp, found.log_time.nanos(), boxes.to_vec()))
            }
            Err(error) => Err(error.to_string()),
        };
        passed.push((frame.config.name.clone(), frame.number, result));
        Ok(())
    });
    let mut report = serde_json::to_value(report.unwrap()).unwrap();
    for channel in report["channels"].as_object_mut().unwrap().values_mut() {
        channel.as_object_mut().unwrap().remove("stages_ms");
    }
    ((passed, report, most.load(Ordering::Relaxed)), callers.len())
}

#[test]
fn frames_in_flight_are_passed_on_as_single_ones_are() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    record(&bag);
    for channels in [
        &["a"][..],
        &["a", "b"],
        &["a", "b", "lidar"],
        &["a", "roof"],
        &["a", "roof", "lidar"],
        &["a", "rig"],
        &["a", "b", "lidar", "rig"],
    ] {
        let (expected, report, single) = replay(&bag, channels, 1, &[]);
        assert!(single == 1 && expected.len() >= 13 && expected.iter().any(|f| f.2.is_err()));
        for num in [2, 4, 8] {
            let (found, overlapped, most) = replay(&bag, channels, num, &[]);
            // A camera has up to four, fewer where a frame that is processed by itself ends them.
            assert!((2..=num.min(4)).contains(&most), "{most} {channels:?}");
            assert_eq!(found, expected, "{channels:?}");
            assert_eq!(overlapped, report, "{channels:?}");
        }
        for num in [1, 2, 8] {
            let way = (num, Threads::PerChannel);
            let ((found, by_threads, _), num_threads) =
                replay_by(&bag, channels, way, &[], &mut || {});
            assert_eq!(found, expected, "{channels:?}");
            assert_eq!(by_threads, report, "{channels:?}");
            assert_eq!(num_threads, channels.len());
        }
    }
}

#[test]
fn no_thread_is_ahead_by_more_than_its_frames_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    record(&bag);
    let channels = ["a", "b", "lidar", "rig"];
    let (expected, ..) = replay(&bag, &channels, 1, &[]);
    let way = (2, Threads::PerChannel);
    let mut wait = || thread::sleep(Duration::from_millis(5));
    let ((found, ..), num_threads) = replay_by(&bag, &channels, way, &[], &mut wait);
    assert_eq!((found, num_threads), (expected, channels.len()));
}

#[test]
fn a_recording_that_each_thread_would_read_through_is_read_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let [plain, packed, cut, damaged] =
        ["plain", "packed", "cut", "damaged"].map(|name| folder.path().join(name));
    record(&plain);
    record_by(&packed, BagCompression::Zstd);
    // Without its index.
    record(&cut);
    let file = cut.join("cut_0.mcap");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() * 2 / 3]).unwrap();
    // With a length that is wrong, of the record of a message by its times.
    record(&damaged);
    let file = damaged.join("damaged_0.mcap");
    let mut bytes = std::fs::read(&file).unwrap();
    let times = Stamp::from_ros(9, 3).nanos().to_le_bytes().repeat(2);
    let at = bytes.windows(times.len()).position(|part| part == times).unwrap();
    bytes[at - 14..at - 6].copy_from_slice(&u64::MAX.to_le_bytes());
    std::fs::write(&file, &bytes).unwrap();
    let channels = ["a", "b", "lidar"];
    for (bag, expected_threads) in [(&plain, 3), (&packed, 1), (&cut, 1), (&damaged, 3)] {
        let expected = replay(bag, &channels, 2, &[]);
        assert!(expected.0.len() > 10);
        let num_damages = expected.1["damage"].as_array().unwrap().len();
        assert_eq!(num_damages, usize::from(bag == &cut || bag == &damaged));
        let way = (2, Threads::PerChannel);
        let (found, num_threads) = replay_by(bag, &channels, way, &[], &mut || {});
        assert_eq!((found.0, found.1), (expected.0, expected.1));
        assert_eq!(num_threads, expected_threads);
    }
}

#[test]
fn a_number_of_frames_in_flight_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    record(&bag);
    let parameters = ["a.head:=yolov5", "a.input:=/a", "a.model_path:=m"].map(str::to_owned);
    let config = Config::load(&[], &parameters).unwrap();
    for frames_in_flight in [0, 9] {
        let options =
            ReplayOptions { frames_in_flight: Some(frames_in_flight), ..ReplayOptions::default() };
        let error = Replay::open(&bag, &config, options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Argument);
        let part = format!("frames_in_flight is {frames_in_flight}; it must be from 1 to 8");
        assert!(error.message().contains(&part), "{error}");
    }
}

#[test]
fn a_fault_costs_the_frame_that_it_hits_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    record(&bag);
    let (whole, ..) = replay(&bag, &["a", "b"], 1, &[]);
    for kind in [ErrorKind::Inference, ErrorKind::Device] {
        for step in [Step::Submit, Step::Collect] {
            // The first, one in between, two in a row, the last.
            let faults = [1, 4, 8, 9, NUM_FRAMES].map(|frame| ("a", frame, step, kind));
            for faults in [&faults[..1], &faults[1..2], &faults[2..4], &faults[4..]] {
                let (found, report, _) = replay(&bag, &["a", "b"], 1, faults);
                for num in [2, 4] {
                    let (overlapped, counted, most) = replay(&bag, &["a", "b"], num, faults);
                    assert_eq!(overlapped, found, "{num} {faults:?}");
                    assert_eq!(counted, report, "{num} {faults:?}");
                    assert_eq!(most, num);
                    let way = (num, Threads::PerChannel);
                    let ((by_threads, counted, _), num_threads) =
                        replay_by(&bag, &["a", "b"], way, faults, &mut || {});
                    assert_eq!((&by_threads, num_threads), (&found, 2), "{num} {faults:?}");
                    assert_eq!(counted, report, "{num} {faults:?}");
                }
                let differ = found.iter().zip(&whole).filter(|(found, whole)| found != whole);
                let lost: Vec<_> = differ.map(|(found, _)| found).collect();
                assert_eq!((found.len(), lost.len()), (whole.len(), faults.len()), "{faults:?}");
                assert!(lost.iter().all(|lost| lost.0 == "a" && lost.2.is_err()), "{lost:?}");
            }
        }
    }
}
