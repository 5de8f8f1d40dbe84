//! A cloud and six images over DDS, written by a participant of our own, through a small BEVFusion: the
//! messages of a replay, in a channel of our own and in the place of Autoware's node.

use std::collections::BTreeMap;

use det_post::config::{Config, Source};
use det_post::node::{Change, LiveNode};
use det_post_ros::dds::DdsMiddleware;
use det_post_ros::messages::{CameraInfo, Image, PointCloud2, TfMessage};
use det_post_ros::middleware::{Middleware, Publisher, Qos};
use det_post_ros::{NodeName, Remaps};

use crate::common::domain::Domain;
use crate::common::fused_rig::{Autoware, CLOUDS, NUM_CAMERAS, OBJECTS, fixture, topics};
use crate::common::session::messages;
use crate::common::surround_rig::Fixture;
use crate::diagnostics::decode;
use crate::inputs_over_dds::{InputsOverDds, Published, middleware, of_topic, wait_until};

const OUTPUT: &str = "/det_post/rig/detections";
/// Frames of the drive wait for their images, which arrive in any order.
const LIVE: [&str; 3] =
    ["sync.deadline_s:=10.0", "sync.min_cameras:=6", "qos.reliability:=reliable"];

/// The messages of a topic of a recording.
fn of_recording(bag: &std::path::Path, topic: &str) -> Vec<Vec<u8>> {
    let all = messages(bag).into_iter();
    all.filter(|(of, ..)| of == topic).map(|(.., data)| data).collect()
}

/// The sensors of the drive.
struct Sensors {
    _participant: DdsMiddleware,
    publishers: BTreeMap<String, Box<dyn Publisher>>,
    drive: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Sensors {
    fn new(domain: &Domain, fixture: &Fixture) -> Self {
        let mut drive = BTreeMap::<String, Vec<Vec<u8>>>::new();
        for (topic, _, data) in messages(&fixture.drive()) {
            drive.entry(topic).or_default().push(data);
        }
        let mut participant = middleware(domain, "sensors", Remaps::default());
        let mut publishers = BTreeMap::new();
        let mut add = |topic: &str, type_name, qos| {
            publishers
                .insert(topic.to_owned(), participant.advertise(topic, type_name, qos).unwrap());
        };
        add("/tf_static", TfMessage::TYPE, Qos::LATCHED);
        add(CLOUDS, PointCloud2::TYPE, Qos::DEFAULT);
        topics("image").iter().for_each(|topic| add(topic, Image::TYPE, Qos::DEFAULT));
        let infos = topics("camera_info");
        infos.iter().for_each(|topic| add(topic, CameraInfo::TYPE, Qos::DEFAULT));
        Self { _participant: participant, publishers, drive }
    }

    fn publish(&mut self, topic: &str, number: usize) {
        self.publishers.get_mut(topic).unwrap().publish(&self.drive[topic][number]).unwrap();
    }

    /// Waits for the node, and sends what it needs of cameras.
    fn prepare(&mut self, published: &Published) {
        let all = || self.publishers.values().map(|of| of.num_subscribers()).min();
        wait_until(all, |least| least.is_some_and(|least| least > 0));
        self.publish("/tf_static", 0);
        topics("camera_info").iter().for_each(|topic| self.publish(topic, 0));
        let ready = || {
            let statuses = decode(&of_topic(published, "/diagnostics").pop()?);
            let value = |(name, part): (&str, &str)| {
                let status = statuses.iter().find(|(of, _)| of.ends_with(name))?.1;
                status.values.get(part).cloned()
            };
            let inputs = statuses.iter().filter(|(name, _)| name.contains(": input "));
            let is_known = inputs.clone().all(|(_, of)| of.values["state"] != "no_camera_info");
            let num = value((": node", "transforms"))?.parse::<usize>().ok()?;
            Some((inputs.count(), is_known, num))
        };
        wait_until(ready, |found| {
            found.is_some_and(|(num, is_known, transforms)| {
                num == 1 + NUM_CAMERAS && is_known && transforms > NUM_CAMERAS
            })
        });
    }

    /// Sends a frame and waits for what comes of it.
    fn frame(&mut self, number: usize, published: &Published, output: &str) -> Vec<u8> {
        let before = of_topic(published, output).len();
        topics("image").iter().for_each(|topic| self.publish(topic, number));
        self.publish(CLOUDS, number);
        let num = || of_topic(published, output).len();
        wait_until(num, |&num| num > before);
        of_topic(published, output).pop().unwrap()
    }
}

/// The messages on a topic of a node with inputs over DDS, one a frame of the drive from `first` on.
fn live(
    config: Config,
    fixture: &Fixture,
    (remaps, output): (Remaps, &str),
    frames: std::ops::Range<usize>,
) -> Vec<Vec<u8>> {
    let domain = Domain::reserve();
    let published = Published::default();
    let name = output.split('/').nth(1).unwrap();
    let dds = middleware(&domain, name, remaps);
    let inputs = InputsOverDds { dds, published: published.clone() };
    let node = LiveNode::open(config, Box::new(inputs)).unwrap();
    node.change(Change::Configure).unwrap();
    node.change(Change::Activate).unwrap();
    let mut sensors = Sensors::new(&domain, fixture);
    sensors.prepare(&published);
    frames.map(|number| sensors.frame(number, &published, output)).collect()
}

#[test]
fn a_cloud_and_images_over_dds_have_the_bytes_of_a_replay() {
    let fixture = fixture();
    // Past sweeps move with the vehicle, whose poses are not sent here.
    let options =
        ["rig.densification.num_past_sweeps:=0".to_owned(), "diagnostics_period_s:=0.1".into()];
    let run = fixture.replay(&fixture.drive(), "out", &[&options[0]]);
    let expected = of_recording(&run.expect_code(0).out.join("detections"), OUTPUT);
    let node = NodeName::new("", "det_post").unwrap();
    let live_options = LIVE.map(|text| format!("rig.{text}"));
    let overrides = [&options[..], &live_options[..]].concat();
    let config = Config::load_for(&node, &[fixture.path("rig.param.yaml")], &overrides).unwrap();
    // The first images of the recording precede their calibrations.
    let num = of_recording(&fixture.drive(), CLOUDS).len();
    assert!(expected.len() + 1 >= num && num > 3, "{} of {num}", expected.len());
    let frames = num - expected.len()..num;
    let found = live(config, &fixture, (Remaps::default(), OUTPUT), frames);
    assert!(found == expected);
}

#[test]
fn a_node_of_autoware_over_dds_has_the_bytes_of_a_replay() {
    let node = Autoware::new();
    let run = node.like(&node.fixture.drive(), "out", &["sync.min_cameras:=6"]);
    let expected = of_recording(&run.expect_code(0).out.join("detections"), OBJECTS);
    let more = LIVE.iter().chain(&["diagnostics_period_s:=0.1", "idle_without_subscribers:=false"]);
    let source = Source {
        files: node.files.clone(),
        overrides: node
            .parameters
            .iter()
            .cloned()
            .chain(more.map(|text| (*text).to_owned()))
            .collect(),
        arguments: node.arguments.clone(),
        like: Some("autoware_bevfusion".parse().unwrap()),
        ..Source::default()
    };
    let config = Config::read(&NodeName::new("", "bevfusion").unwrap(), &source).unwrap();
    // The topics of Autoware's node, as its launch file maps them.
    let mut remaps = Remaps::default();
    remaps.push("~/input/pointcloud", CLOUDS);
    for (camera, (image, info)) in
        topics("image").into_iter().zip(topics("camera_info")).enumerate()
    {
        remaps.push(format!("~/input/image{camera}"), image);
        remaps.push(format!("~/input/camera_info{camera}"), info);
    }
    let num = of_recording(&node.fixture.drive(), CLOUDS).len();
    assert!(expected.len() + 1 >= num && num > 3, "{} of {num}", expected.len());
    let frames = num - expected.len()..num;
    let found = live(config, &node.fixture, (remaps, OBJECTS), frames);
    assert!(found == expected);
}
