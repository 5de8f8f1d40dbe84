//! The rig over DDS: the bytes of a replay, and what diagnostics say of each
//! input.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use det_post::node::Change;
use det_post::node::LiveNode;
use det_post_ros::Remaps;
use det_post_ros::dds::DdsMiddleware;
use det_post_ros::middleware::{Middleware, Qos};

use super::rig::{self, Message};
use super::{replay, stub};
use crate::common::domain::Domain;
use crate::diagnostics::decode;
use crate::inputs_over_dds::{InputsOverDds, Published, middleware, of_topic, wait_until};

/// What diagnostics say of the rig so far.
#[derive(Debug, Default, PartialEq)]
struct Account {
    /// By input.
    received: [u64; 2],
    refused: [u64; 2],
    unused: [u64; 2],
    overtaken: [u64; 2],
    num_dropped: u64,
}

impl Account {
    fn read(published: &Published, name: &str) -> Self {
        let mut account = Self::default();
        for cdr in of_topic(published, "/diagnostics") {
            let statuses = decode(&cdr);
            let number = |status: &str, key: &str| {
                let value = statuses[&format!("det_post: {name}: {status}")].values.get(key);
                value.map_or(0, |value| value.parse().unwrap())
            };
            let inputs = |key| [number("input 0", key), number("input 1", key)];
            // Totals, and the drops of each message.
            account.received = inputs("received");
            account.refused = inputs("refused.stamp_not_newer");
            account.unused = inputs("unused");
            account.overtaken = inputs("overtaken");
            account.num_dropped += number("frames", "dropped.incomplete_views");
        }
        account
    }
}

/// Sends the messages in their order, each when the one before has arrived. Where the recording
/// pauses for longer than a deadline, every frame is published or dropped before the next message.
fn send(sender: &mut DdsMiddleware, name: &str, second: &'static str, published: &Published) {
    let mut advertise = |topic, qos| sender.advertise(topic, rig::type_name(topic), qos).unwrap();
    let mut publishers: BTreeMap<&str, _> =
        [rig::CAMERA, second].map(|topic| (topic, advertise(topic, Qos::DEFAULT))).into();
    let mut poses = advertise(rig::TF_STATIC, Qos::LATCHED);
    poses.publish(&rig::pose()).unwrap();
    let mut calibrations = advertise(rig::CAMERA_INFO, Qos::DEFAULT);
    let num_subscribers = || {
        let all = publishers.values().chain([&calibrations]);
        all.map(|publisher| publisher.num_subscribers()).collect::<Vec<_>>()
    };
    wait_until(num_subscribers, |nums| !nums.contains(&0));
    calibrations.publish(&rig::calibration()).unwrap();
    // The calibration and the pose that a LiDAR needs, before the first frame.
    let prepared = || {
        let statuses = decode(&of_topic(published, "/diagnostics").pop()?);
        let value = |status: &str, key: &str| Some(statuses.get(status)?.values[key].clone());
        let num_calibrations = value(&format!("det_post: {name}: camera_info 0"), "received")?;
        let num_poses = value("det_post: node", "transforms").filter(|_| second == rig::LIDAR);
        Some([num_calibrations, num_poses.unwrap_or("1".into())])
    };
    wait_until(prepared, |nums| {
        nums.as_ref().is_some_and(|nums| nums.iter().all(|num| num == "1"))
    });

    let output = rig::config(name).channels[0].output.clone();
    let messages = rig::messages(second);
    let (mut num_sent, mut num_frames) = (0, 0);
    for (index, Message { at, topic, cdr }) in messages.iter().enumerate() {
        publishers.get_mut(topic).unwrap().publish(cdr).unwrap();
        num_sent += 1;
        num_frames += u64::from(*topic == rig::CAMERA);
        let look = || (Account::read(published, name), of_topic(published, &output).len() as u64);
        wait_until(look, |(account, _)| {
            account.received.iter().chain(&account.refused).sum::<u64>() == num_sent
        });
        let is_pause = messages
            .get(index + 1)
            .is_none_or(|next| next.at.seconds_since(*at) > rig::DEADLINE.as_secs_f64());
        if is_pause {
            wait_until(look, |(account, num_published)| {
                num_published + account.num_dropped + account.refused[0] == num_frames
            });
        }
    }
}

fn check(name: &str, second: &'static str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut config = rig::config(name);
    let output = config.channels[0].output.clone();
    let expected = replay::expected(name, second, &output);
    // Of the clock, not of the recording.
    config.channels[0].sync.deadline = Duration::from_secs(2);
    let domain = Domain::reserve();
    let published = Published::default();
    let dds = middleware(&domain, "det_post", Remaps::default());
    let inputs = InputsOverDds { dds, published: Arc::clone(&published) };
    let node = LiveNode::with_factory(config, Box::new(inputs), Arc::new(stub::open)).unwrap();
    node.change(Change::Configure).unwrap();
    node.change(Change::Activate).unwrap();
    let mut sender = middleware(&domain, "sensors", Remaps::default());
    send(&mut sender, name, second, &published);
    assert_eq!(of_topic(&published, &output), expected);

    // What happened to the inputs, each by itself.
    let wanted = Account {
        received: [11, 11],
        refused: [1, 1],
        unused: [0, 2],
        overtaken: [0, 0],
        num_dropped: rig::NUM_INCOMPLETE,
    };
    wait_until(|| Account::read(&published, name), |account| *account == wanted);
}

#[test]
fn two_cameras_meet_over_dds() {
    check("cameras", rig::OTHER_CAMERA);
}

#[test]
fn a_camera_and_a_lidar_meet_over_dds() {
    check("fused", rig::LIDAR);
}
