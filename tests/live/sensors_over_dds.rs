//! Video with losses and clouds that are deskewed by transforms, over DDS: the detections of a replay.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use det_post::config::Config;
use det_post::node::{Change, LiveNode};
use det_post_ros::dds::DdsMiddleware;
use det_post_ros::messages::{PointCloud2, TfMessage};
use det_post_ros::middleware::{Middleware, Publisher, Qos};
use det_post_ros::{NodeName, Remaps};

use crate::common::domain::Domain;
use crate::common::session::messages;
use crate::common::several_lidars::{Fixture, NUM_FRAMES, NUM_LIDARS, OUTPUT, topic};
use crate::diagnostics::{Status, decode};
use crate::inputs_over_dds::{InputsOverDds, Published, middleware, of_topic, wait_until};

/// A node whose inputs come over DDS, and a participant that sends them.
struct Graph {
    published: Published,
    sender: DdsMiddleware,
    _node: LiveNode,
    _domain: Domain,
}

impl Graph {
    fn new(file: &Path, overrides: &[&str]) -> Self {
        let domain = Domain::reserve();
        let published = Published::default();
        let inputs = InputsOverDds {
            dds: middleware(&domain, "det_post", Remaps::default()),
            published: Arc::clone(&published),
        };
        let name = NodeName::new("", "det_post").unwrap();
        let overrides = [&["diagnostics_period_s:=0.1"], overrides].concat();
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let config = Config::load_for(&name, &[file.to_owned()], &overrides).unwrap();
        let node = LiveNode::open(config, Box::new(inputs)).unwrap();
        node.change(Change::Configure).unwrap();
        node.change(Change::Activate).unwrap();
        let sender = middleware(&domain, "sensors", Remaps::default());
        Self { published, sender, _node: node, _domain: domain }
    }

    /// A writer that the node reads.
    fn writer(&mut self, topic: &str, type_name: &'static str, qos: Qos) -> Box<dyn Publisher> {
        let writer = self.sender.advertise(topic, type_name, qos).unwrap();
        wait_until(|| writer.num_subscribers(), |num| *num == 1);
        writer
    }

    /// Waits for this number of messages of an output.
    fn wait_for(&self, output: &str, num: usize) {
        wait_until(|| of_topic(&self.published, output).len(), |found| *found >= num);
    }

    /// Waits for a status that is as wanted.
    fn await_status(&self, name: &str, wanted: impl Fn(&Status) -> bool) {
        let newest = || decode(&of_topic(&self.published, "/diagnostics").pop()?).remove(name);
        wait_until(newest, |status| status.as_ref().is_some_and(&wanted));
    }
}

/// The messages of the detections of a replay.
fn replayed(out: &Path, output: &str) -> Vec<Vec<u8>> {
    let all = messages(&out.join("detections")).into_iter();
    all.filter(|(topic, ..)| topic == output).map(|(.., cdr)| cdr).collect()
}

#[test]
fn scans_are_deskewed_by_transforms_as_in_a_replay() {
    let fixture = Fixture::new(true);
    let deskew = "deskew.enabled:=true";
    fixture.replay(&fixture.drive(), "several", "out", &[deskew]).expect_code(0);
    fixture.replay(&fixture.drive(), "several", "skewed", &[]).expect_code(0);
    let [expected, skewed] = ["out", "skewed"].map(|out| replayed(&fixture.path(out), OUTPUT));
    assert_eq!(expected.len(), NUM_FRAMES);
    assert_ne!(expected, skewed);

    let overrides = [
        "lidar.deskew.enabled:=true",
        "lidar.sync.deadline_s:=10.0",
        "lidar.qos.reliability:=reliable",
    ];
    let mut graph = Graph::new(&fixture.path("several.yaml"), &overrides);
    let mut drive = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for (topic, _, data) in messages(&fixture.drive()) {
        drive.entry(topic).or_default().push(data);
    }
    let mut num_transforms = 0;
    for (topic, qos) in [("/tf_static", Qos::LATCHED), ("/tf", Qos::DEFAULT)] {
        let all = &drive[topic];
        let mut writer = graph.writer(topic, TfMessage::TYPE, Qos { depth: 100, ..qos });
        for cdr in all {
            writer.publish(cdr).unwrap();
            num_transforms += TfMessage::decode(cdr).unwrap().transforms.len();
        }
        let num = num_transforms as f64;
        graph.await_status("det_post: node", |status| status.number("transforms") >= num);
    }
    let mut writers: Vec<_> = (0..NUM_LIDARS)
        .map(|lidar| graph.writer(&topic(lidar), PointCloud2::TYPE, Qos::DEFAULT))
        .collect();
    let clouds: Vec<_> = (0..NUM_LIDARS).map(|lidar| &drive[&topic(lidar)]).collect();
    for frame in 0..NUM_FRAMES {
        for (writer, clouds) in writers.iter_mut().zip(&clouds) {
            writer.publish(&clouds[frame]).unwrap();
        }
        graph.wait_for(OUTPUT, frame + 1);
    }
    assert!(of_topic(&graph.published, OUTPUT) == expected);
}

#[cfg(feature = "video")]
#[test]
fn video_that_loses_packets_goes_on_at_the_next_key_frame() {
    use crate::common::recording::IMAGE_TOPIC;
    use crate::common::session::{CAMERA_OUT, sample};
    use crate::video::{KEY_PERIOD, carried, expected};
    use det_post_ros::video::VideoMessage;

    let overrides = [
        "camera.engine.kind:=rten",
        "camera.input_transport:=foxglove",
        "camera.qos.reliability:=reliable",
    ];
    let mut graph = Graph::new(&sample().join("sample.param.yaml"), &overrides);
    let carrier = VideoMessage::Foxglove;
    let packets = carried(carrier, "h264");
    let mut writer = graph.writer(IMAGE_TOPIC, carrier.type_name(), Qos::DEFAULT);
    // The first key frame, a picture between, and the last before a key frame are lost.
    let lost = [0, KEY_PERIOD + 1, 3 * KEY_PERIOD - 1];
    let has_image = |index: &usize| match index / KEY_PERIOD {
        0 => false,
        1 => *index == KEY_PERIOD,
        _ => !lost.contains(index),
    };
    let mut num_images = 0;
    for (index, (_, cdr)) in packets.iter().enumerate() {
        if lost.contains(&index) {
            continue;
        }
        writer.publish(cdr).unwrap();
        if has_image(&index) {
            num_images += 1;
            graph.wait_for(CAMERA_OUT, num_images);
        }
    }
    let all = (0..packets.len()).filter(has_image).map(|index| expected()[index].1.clone());
    assert!(of_topic(&graph.published, CAMERA_OUT) == all.collect::<Vec<_>>());
    assert!(packets.len() > 3 * KEY_PERIOD, "a key frame follows each loss");
    graph.await_status("det_post: camera: input", |status| {
        let count = |reason: &str| {
            let count = status.values.get(&format!("refused.{reason}"));
            count.map_or(0, |count| count.parse().unwrap())
        };
        // Before the first key frame, and behind a packet that does not follow.
        status.number("received") == num_images as f64
            && count("no_image") == (KEY_PERIOD - 1) + (KEY_PERIOD - 3)
            && count("undecodable_video") == 1
    });
}
