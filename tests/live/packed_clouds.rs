//! Packed clouds in a replay and live: the outputs of the clouds that they pack.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use det_post_ros::messages::{
    CompressedPointCloud2, Detection3DArray, LivoxCustomMsg, PointCloud2,
};
use det_post_types::{Header, Stamp};
use mcap::WriteOptions;
use mcap::records::MessageHeader;

use super::diagnostics::await_status;
use super::packed::{compressed, gzip};
use super::recording::CLOUD_TOPIC;
use super::replay;
use super::session::{LIDAR_OUT, PATIENCE, Session, cloud, messages, sample};

/// Names and bytes of messages, and of the messages that they are made of.
type Log = Vec<(Stamp, Vec<u8>)>;

/// The clouds of the sample.
fn clouds() -> Log {
    let all = messages(&sample().join("drive")).into_iter();
    all.filter(|(topic, ..)| topic == CLOUD_TOPIC).map(|(_, time, cdr)| (time, cdr)).collect()
}

fn gzipped(cdr: &[u8]) -> Vec<u8> {
    gzip(&PointCloud2::decode(cdr).unwrap())
}

/// Writes a recording of one topic.
fn write(path: &Path, topic: &str, type_name: &str, messages: &Log) {
    let mut file = std::fs::File::create(path).unwrap();
    let mut writer = WriteOptions::new().profile("ros2").create(&mut file).unwrap();
    let definition = det_post_ros::messages::definition(type_name).unwrap();
    let schema = writer.add_schema(type_name, "ros2msg", definition.as_bytes()).unwrap();
    let channel_id = writer.add_channel(schema, topic, "cdr", &BTreeMap::new()).unwrap();
    for (index, (time, cdr)) in messages.iter().enumerate() {
        let log_time = time.nanos() as u64;
        let sequence = index as u32;
        let header = MessageHeader { channel_id, sequence, log_time, publish_time: log_time };
        writer.write_to_known_channel(&header, cdr).unwrap();
    }
    writer.finish().unwrap();
}

fn config() -> String {
    sample().join("sample.param.yaml").display().to_string()
}

/// The detections of the sample's clouds.
fn expected() -> &'static Log {
    static EXPECTED: OnceLock<Log> = OnceLock::new();
    EXPECTED.get_or_init(|| {
        let out = tempfile::tempdir().unwrap();
        let overrides = ["camera.enabled:=false".to_owned()];
        let drive = sample().join("drive");
        replay::replay(&drive, &config(), &overrides, out.path()).expect_code(0);
        detections(out.path())
    })
}

fn detections(out: &Path) -> Log {
    let all = messages(&out.join("detections")).into_iter();
    all.filter(|(topic, ..)| topic == LIDAR_OUT).map(|(_, time, cdr)| (time, cdr)).collect()
}

#[test]
fn a_replay_of_packed_clouds_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("packed.mcap");
    let packed: Log = clouds().into_iter().map(|(time, cdr)| (time, gzipped(&cdr))).collect();
    write(&bag, CLOUD_TOPIC, CompressedPointCloud2::TYPE, &packed);
    let out = folder.path().join("out");
    replay::replay(&bag, &config(), &[], &out).expect_code(0);
    let (found, expected) = (detections(&out), expected());
    assert_eq!(found.len(), super::drive::NUM_FRAMES);
    assert!(found == *expected);

    // At the recorded pace the channel may skip frames; none is refused.
    let out = folder.path().join("paced");
    let run = replay::replay_at(&bag, &config(), "20", &out);
    let report = &run.expect_code(0).report()["channels"]["lidar"];
    assert!(report["frames_out"].as_u64().unwrap() > 0, "{report}");
    let mut reasons = report["dropped"].as_object().into_iter().flat_map(|dropped| dropped.keys());
    assert!(reasons.all(|reason| reason == "overtaken"), "{report}");
    for (_, cdr) in detections(&out) {
        assert!(expected.iter().any(|(_, known)| *known == cdr));
    }
}

#[test]
fn packed_clouds_that_do_not_unpack_are_dropped_with_their_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("packed.mcap");
    let mut packed = clouds();
    let unknown =
        PointCloud2::decode(&packed[0].1).map(|cloud| compressed(&cloud, "lz4", &[1])).unwrap();
    let damaged =
        PointCloud2::decode(&packed[0].1).map(|cloud| compressed(&cloud, "zstd", &[1])).unwrap();
    packed.iter_mut().for_each(|(_, cdr)| *cdr = gzipped(cdr));
    (packed[0].1, packed[2].1) = (unknown, damaged);
    write(&bag, CLOUD_TOPIC, CompressedPointCloud2::TYPE, &packed);
    let out = folder.path().join("out");
    let overrides = ["lidar.max_payload_bytes:=100000000".to_owned()];
    let run = replay::replay(&bag, &config(), &overrides, &out);
    let report = &run.expect_code(0).report()["channels"]["lidar"];
    let dropped = &report["dropped"];
    assert_eq!(dropped["unsupported_encoding"]["count"], 1, "{report}");
    assert_eq!(dropped["undecodable_cloud"]["count"], 1, "{report}");
    assert_eq!(dropped.as_object().unwrap().len(), 2, "{report}");
    assert!(run.stderr.contains("republish"), "{}", run.stderr);
    let expected = expected();
    let found = detections(&out);
    assert_eq!(found.len() + 2, expected.len());
    assert!(found.iter().all(|message| expected.contains(message)));

    // Unpacked they have more than is allowed.
    let overrides = ["lidar.max_payload_bytes:=1000".to_owned()];
    let run = replay::replay(&bag, &config(), &overrides, &folder.path().join("small"));
    let report = &run.expect_code(1).report()["channels"]["lidar"];
    let num_large = packed.len() - 2;
    assert_eq!(report["dropped"]["message_too_large"]["count"], num_large, "{report}");
}

#[test]
fn live_packed_clouds_give_the_same_bytes() {
    let session = Session::active(&[
        "camera.engine.kind:=rten",
        "lidar.engine.kind:=rten",
        "lidar.input_transport:=compressed",
        "diagnostics_period_s:=0.2",
    ]);
    let of_input = session.graph.inputs().into_iter().find(|(topic, ..)| topic == CLOUD_TOPIC);
    assert_eq!(of_input.unwrap().1.type_name(), CompressedPointCloud2::TYPE);
    for ((_, cdr), (_, expected)) in clouds().into_iter().zip(expected()) {
        assert!(session.send_for(CLOUD_TOPIC, &gzipped(&cdr), LIDAR_OUT) == *expected);
        // What cannot be unpacked changes nothing.
        let bad =
            PointCloud2::decode(&cdr).map(|cloud| compressed(&cloud, "draco", &[7; 100])).unwrap();
        session.graph.send(CLOUD_TOPIC, &bad);
        session.graph.send(CLOUD_TOPIC, &bad[..40]);
    }
    let num = super::drive::NUM_FRAMES as f64;
    await_status(&session, "det_post: lidar: input", |status| {
        // A newer message may overtake one that waits to be unpacked, which is received.
        let refused = status.values.iter().filter(|(key, _)| key.starts_with("refused."));
        let num_refused: f64 = refused.map(|(_, count)| count.parse::<f64>().unwrap()).sum();
        num_refused > 0.0 && status.number("received") + num_refused == 3.0 * num
    });
}

#[test]
fn newer_packed_clouds_overtake_older_ones() {
    let session =
        Session::active(&["lidar.input_transport:=compressed", "diagnostics_period_s:=0.2"]);
    let num = 200;
    for second in 0..num {
        session.graph.send(CLOUD_TOPIC, &gzipped(&cloud(Stamp::from_ros(second, 0))));
    }
    // The newest one is always served.
    let last = Stamp::from_ros(num - 1, 0);
    let start = std::time::Instant::now();
    while !session.graph.take(LIDAR_OUT).iter().any(|cdr| super::session::stamp_of(cdr) == last) {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    await_status(&session, "det_post: lidar: input", |status| {
        status.number("received") == f64::from(num) && status.number("overtaken") > 0.0
    });
}

#[test]
fn arrays_of_points_are_read_live_and_in_a_replay() {
    let sample = clouds();
    let cloud = PointCloud2::decode(&sample[0].1).unwrap();
    let [x, y, z] = ["x", "y", "z"].map(|name| cloud.fields.find(&[name]).unwrap().offset as usize);
    let mut points = Vec::new();
    for (index, point) in cloud.data.chunks(cloud.point_step as usize).enumerate() {
        points.extend((index as u32 * 50).to_le_bytes());
        [x, y, z].iter().for_each(|at| points.extend(&point[*at..at + 4]));
        points.extend([index as u8, 0, index as u8 % 4, 0]);
    }
    let num_points = points.len() / 20;
    points.pop();
    let mut cdr = Vec::new();
    let header = Header { stamp: Stamp::from_ros(7, 0), frame_id: cloud.header.frame_id };
    let message = LivoxCustomMsg { header, points: &points, ..LivoxCustomMsg::default() };
    message.encode(&mut cdr).unwrap();
    let overrides = ["lidar.input_transport:=livox_ros_driver2", "lidar.engine.kind:=rten"];
    let session = Session::active(&overrides);
    let live = session.send_for(CLOUD_TOPIC, &cdr, LIDAR_OUT);
    assert!(!Detection3DArray::decode(&live).unwrap().detections.is_empty());

    let folder = tempfile::tempdir().unwrap();
    for type_name in
        [LivoxCustomMsg::TYPE, LivoxCustomMsg::DRIVER_1_TYPE, LivoxCustomMsg::INTERFACES_TYPE]
    {
        let bag = folder.path().join("livox.mcap");
        write(&bag, CLOUD_TOPIC, type_name, &vec![(Stamp::from_ros(7, 0), cdr.clone())]);
        let out = folder.path().join(type_name.replace('/', "_"));
        replay::replay(&bag, &config(), &[], &out).expect_code(0);
        assert!(detections(&out)[0].1 == live, "{type_name}");
        let run = replay::det_post(&["inspect", &bag.display().to_string()]);
        let text = &run.expect_code(0).stdout;
        let fields =
            "offset_time:U32@0 x:F32@4 y:F32@8 z:F32@12 intensity:U8@16 tag:U8@17 line:U8@18";
        let line = &format!("{num_points}x1 points of 20 bytes: {fields}; read by LiDAR channels");
        assert!(text.contains(line), "{text}");
    }
}
