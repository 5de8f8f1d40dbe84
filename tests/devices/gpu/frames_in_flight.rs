//! Frames of real detectors that are in flight together on a GPU, with faults in their stages.

use std::path::Path;
use std::sync::Arc;

use det_post::config::{ChannelConfig, ChannelKind, Config};
use det_post::detectors::image2d::{self, YoloHead};
use det_post::detectors::{Detector, pillars};
use det_post::replay::{Replay, ReplayOptions, Threads};
use det_post::{Error, ErrorKind, Result};
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_infer::{Engine, RtenEngine};
use det_post_ops::device::Device;
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{Image, PointCloud2, definition};
use det_post_types::{Stamp, TensorSpec, TensorView};

use super::engine::library;
use super::gpu;
use crate::common::session::{cloud, image_message, messages, sample};

const NUM_FRAMES: i32 = 12;

/// The frame whose message cannot be decoded.
const UNDECODABLE: i32 = 5;

/// A network that fails in runs of these numbers.
struct Failing {
    engine: RtenEngine,
    fails_in: Vec<usize>,
    num_runs: usize,
}

impl Engine for Failing {
    fn inputs(&self) -> &[TensorSpec] {
        self.engine.inputs()
    }

    fn outputs(&self) -> &[TensorSpec] {
        self.engine.outputs()
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.num_runs += 1;
        if self.fails_in.contains(&self.num_runs) {
            return Err(Error::new(ErrorKind::Inference, "test", "on purpose"));
        }
        self.engine.run(inputs)
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        self.engine.output(index)
    }

    fn name(&self) -> &str {
        "failing"
    }
}

fn failing(path: &Path, fails_in: &[usize]) -> Result<Box<dyn Engine>> {
    let engine = RtenEngine::load(path, Some(1))?;
    Ok(Box::new(Failing { engine, fails_in: fails_in.to_vec(), num_runs: 0 }))
}

/// The detector of a channel on GPU 0, whose network fails. Its first run is that of loading.
fn open(config: &ChannelConfig, fails_in: &[usize]) -> Result<Box<dyn Detector>> {
    let Device::Cuda(device) = Device::open(det_post_types::DeviceChoice::Cuda(0))? else {
        panic!("a GPU was asked for by number")
    };
    let stream = &device.stream()?;
    Ok(match &config.kind {
        ChannelKind::Camera(camera) => {
            let engine = failing(&camera.model_path, fails_in)?;
            let shape = |input: &TensorSpec| YoloHead::input_shape(&camera.facts, input);
            let engine = DeviceEngine::on_host(engine, stream, |i| Ok(shape(i)?.to_vec()))?;
            Box::new(<image2d::CudaDetector>::new(camera, stream, engine)?)
        }
        ChannelKind::Lidar(lidar) => {
            let encoder = failing(&lidar.encoder_path, &[])?;
            let encoder = DeviceEngine::on_host(encoder, stream, fixed_shape)?;
            let head = failing(&lidar.model_path, fails_in)?;
            let head = DeviceEngine::on_host(head, stream, fixed_shape)?;
            Box::new(pillars::CudaDetector::new(lidar, stream, encoder, head)?)
        }
        ChannelKind::Surround(_) => panic!("the sample has no surround channel"),
    })
}

/// Images and clouds in turn, one of each undecodable.
fn record(folder: &Path) {
    let of_sample = messages(&sample().join("drive"));
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let mut add = |topic: &str, type_name: &str| {
        let text = definition(type_name).unwrap();
        bag.add_topic(topic, type_name, &text, OfferedQos::default()).unwrap()
    };
    let topic_of = |marker: &str| of_sample.iter().find(|(of, ..)| of.contains(marker)).unwrap();
    let camera = add(&topic_of("image").0, Image::TYPE);
    let lidar = add(&topic_of("points").0, PointCloud2::TYPE);
    for frame in 1..=NUM_FRAMES {
        let at = Stamp::from_ros(frame, 0);
        for (topic, message) in [(camera, image_message(at)), (lidar, cloud(at))] {
            let len = if frame == UNDECODABLE { message.len() / 2 } else { message.len() };
            bag.write(topic, at, &message[..len]).unwrap();
        }
    }
    bag.finish().unwrap();
}

/// Channel and number of each frame, with its detections or the reason why there are none.
fn replay(
    bag: &Path,
    (frames_in_flight, threads): (usize, Threads),
    fails_in: &[usize],
) -> Vec<(String, u64, std::result::Result<String, String>)> {
    let config = Config::load(&[sample().join("sample.param.yaml")], &[]).unwrap();
    let fails_in = fails_in.to_vec();
    let factory = Arc::new(move |config: &ChannelConfig, _| open(config, &fails_in));
    let options = ReplayOptions {
        frames_in_flight: Some(frames_in_flight),
        factory,
        threads,
        ..ReplayOptions::default()
    };
    let mut passed = vec![];
    let replay = Replay::open(bag, &config, options).unwrap();
    let report = replay.run(|frame| {
        let result = match &frame.result {
            Ok(found) => {
                assert_eq!(found.inputs.inputs.len(), 1);
                Ok(format!("{:?} {:?}", found.header.stamp, found.detections))
            }
            Err(error) => Err(error.to_string()),
        };
        passed.push((frame.config.name.clone(), frame.number, result));
        Ok(())
    });
    report.unwrap();
    passed
}

/// The upload or decoding of one frame fails, and the network of others: the first, two in a
/// row, the last.
#[test]
fn a_fault_of_a_stage_costs_the_frame_that_it_hits_and_no_other() {
    let Some((_alone, _)) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    record(&bag);
    let [one, two] = [1, 2].map(|num| (num, Threads::One));
    let whole = replay(&bag, one, &[]);
    assert_eq!(whole.len(), 2 * NUM_FRAMES as usize);
    let num_lost = |passed: &[(String, u64, std::result::Result<String, String>)]| {
        passed.iter().filter(|(.., result)| result.is_err()).count()
    };
    assert_eq!(num_lost(&whole), 2);
    // Without the frame that does not reach the network, and with the run of loading.
    let last = NUM_FRAMES as usize;
    for fails_in in [&[][..], &[2], &[4, 5], &[last]] {
        let found = replay(&bag, two, fails_in);
        assert_eq!(found, replay(&bag, one, fails_in), "{fails_in:?}");
        let by_threads = replay(&bag, (2, Threads::PerChannel), fails_in);
        assert_eq!(found, by_threads, "{fails_in:?}");
        assert_eq!(num_lost(&found), 2 + 2 * fails_in.len(), "{fails_in:?}");
        let same = |(found, whole): &(&_, &_)| found == whole;
        let is_camera = |of: &&(String, u64, _)| of.0 == "camera";
        let cameras = found.iter().filter(is_camera).zip(whole.iter().filter(is_camera));
        // The frames of a camera do not depend on each other; clouds contain past sweeps, also
        // those of frames whose network failed.
        let num_same = cameras.filter(same).count();
        assert_eq!(num_same, NUM_FRAMES as usize - fails_in.len(), "{fails_in:?}");
    }
}

/// With more than two frames in flight, every two of a camera have an instance of its network.
/// Payloads are registered or copied.
#[test]
fn instances_of_a_network_give_the_same_frames_in_the_same_order() {
    let (Some((_alone, _)), Some(_)) = (gpu(), library()) else { return };
    let replay = |frames_in_flight, mib| {
        let parameters = [
            "device:=cuda:0".to_owned(),
            "camera.engine.provider:=cuda".to_owned(),
            format!("mapped_upload_mib:={mib}"),
        ];
        let config = Config::load(&[sample().join("sample.param.yaml")], &parameters).unwrap();
        let frames_in_flight = Some(frames_in_flight);
        let options = ReplayOptions { frames_in_flight, ..ReplayOptions::default() };
        let mut passed = vec![];
        let replay = Replay::open(&sample().join("drive"), &config, options).unwrap();
        let report = replay.run(|frame| {
            let found = frame.result.as_ref().map(|found| format!("{:?}", found.detections));
            passed.push((frame.config.name.clone(), frame.number, found.unwrap()));
            Ok(())
        });
        report.unwrap();
        passed
    };
    let expected = replay(1, 256);
    let cameras = expected.iter().filter(|(channel, ..)| channel == "camera");
    let mut found: Vec<_> = cameras.map(|(.., found)| found).collect();
    found.dedup();
    assert!(found.len() > 4, "{} images that differ", found.len());
    for frames_in_flight in [2, 3, 4, 8] {
        for mib in [256, 8, 0] {
            assert!(replay(frames_in_flight, mib) == expected, "{frames_in_flight} {mib}");
        }
    }
}
