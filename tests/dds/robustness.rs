//! What a peer may do to the middleware.

use super::node::{Program, Status, await_status, call};
use super::peer::{Heard, events, turn};
use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::session::{CAMERA_OUT, LIDAR_OUT, messages, sample};
use det_post::node::DIAGNOSTICS_TOPIC;
use det_post_ros::dds::{DdsMiddleware, DdsSettings, DiscoveryRange};
use det_post_ros::messages::{Detection2DArray, Detection3DArray, DiagnosticArray};
use det_post_ros::middleware::{
    InputKind, Middleware, MiddlewareEvent, MiddlewareOptions, Qos, Received, Reliability,
};
use det_post_ros::{NodeName, Remaps};
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::time::Duration;

/// Messages that no decoder may take.
const NUM_MALFORMED: usize = 10_000;
/// How many of them before each good one.
const PER_GOOD: usize = 100;

fn image() -> Value {
    json!({"header": {"frame_id": "camera"}, "height": 4, "width": 4, "encoding": "rgb8",
        "step": 12, "data": (0..48).map(|i| i * 5).collect::<Vec<u8>>()})
}

fn cloud() -> Value {
    let field = |name, offset| json!({"name": name, "offset": offset, "datatype": 7, "count": 1});
    json!({"header": {"frame_id": "lidar"}, "height": 1, "width": 3,
        "fields": [field("x", 0), field("y", 4)], "point_step": 8, "row_step": 24,
        "data": (0..24).collect::<Vec<_>>(), "is_dense": true})
}

/// What came: nothing but good data, or the reason.
#[derive(Clone, Debug, PartialEq)]
enum Came {
    Data(Vec<u8>),
    Refused(String),
}

fn note(received: det_post::Result<Received<'_>>) -> Came {
    match received {
        Ok(Received::Image { payload, .. }) => match payload {
            det_post_types::ImagePayload::Raw(image) => Came::Data(image.data().to_owned()),
            det_post_types::ImagePayload::Compressed(file) => Came::Data(file.data.to_owned()),
            on_device @ det_post_types::ImagePayload::OnDevice(_) => panic!("{on_device:?}"),
        },
        Ok(Received::Cloud { view, .. }) => Came::Data(view.data().to_owned()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Came::Refused(error.to_string()),
    }
}

#[test]
fn malformed_messages_are_refused_one_by_one() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware("det_post");
    let told = events(&mut middleware);
    for (topic, kind, sample) in
        [("/image", InputKind::Image, image()), ("/points", InputKind::PointCloud2, cloud())]
    {
        let (heard, receiver) = Heard::receiver(note);
        let qos = Qos { reliability: Reliability::Reliable, depth: 1000, ..Qos::SENSOR_DATA };
        let _input = middleware.subscribe(topic, kind, qos, receiver).unwrap();
        let wire_type = kind.type_name().replace("/msg/", ".msg.dds_.");
        peer.ask(&json!({"op": "blob", "id": topic, "topic": format!("rt{topic}"),
            "type": format!("{wire_type}_"), "reliable": true, "depth": 1000}));
        peer.wait_matched(topic, 1);
        let count = NUM_MALFORMED / 2;
        let num_good = peer.ask(&json!({"op": "fuzz", "id": topic, "kind": kind.type_name(),
            "sample": sample, "count": count, "every": PER_GOOD, "pause": 0.005}));
        assert_eq!(num_good, json!(count / PER_GOOD));
        let came = heard.wait(|all| all.len() >= count + count / PER_GOOD);
        assert_eq!(came.len(), count + count / PER_GOOD, "{topic}: {:?}", told.all());
        let data: Vec<u8> = serde_json::from_value(sample["data"].clone()).unwrap();
        for (i, came) in came.iter().enumerate() {
            match came {
                Came::Data(found) => {
                    assert_eq!((i + 1) % (PER_GOOD + 1), 0, "{topic}: message {i} was taken");
                    assert_eq!(*found, data, "{topic}: message {i}");
                }
                Came::Refused(reason) => {
                    assert_ne!((i + 1) % (PER_GOOD + 1), 0, "{topic}: {i} was refused: {reason}");
                    assert!(reason.starts_with(kind.type_name()), "{reason}");
                    assert!(reason.len() < 400, "{reason}");
                }
            }
        }
    }
}

/// The whole node: what comes of good messages between malformed ones is what
/// came of them before, and every malformed one is counted with its reason.
#[test]
fn detections_are_the_same_between_malformed_messages() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let parameters =
        ["diagnostics_period_s:=0.2", "camera.qos.depth:=1000", "lidar.qos.depth:=1000"];
    let program = Program::start_sample(turn.domain, &parameters);
    let reliable = json!({"reliable": true, "depth": 1000});
    peer.reader(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, &reliable, 1);
    let drive = messages(&sample().join("drive"));
    for (channel, topic, kind, output, output_type) in [
        ("camera", IMAGE_TOPIC, InputKind::Image, CAMERA_OUT, Detection2DArray::TYPE),
        ("lidar", CLOUD_TOPIC, InputKind::PointCloud2, LIDAR_OUT, Detection3DArray::TYPE),
    ] {
        peer.reader(output, output_type, &reliable, 1);
        let wire_type = kind.type_name().replace("/msg/", ".msg.dds_.");
        peer.ask(&json!({"op": "blob", "id": topic, "topic": format!("rt{topic}"),
            "type": format!("{wire_type}_"), "reliable": true, "depth": 1000}));
        peer.wait_matched(topic, 1);
        let (.., good) = drive.iter().find(|(of, ..)| of == topic).unwrap();
        let good: String = good.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut found_with = |count: usize| {
            peer.ask(&json!({"op": "fuzz", "id": topic, "hex": good, "count": count,
                "every": count, "pause": 0.005}));
            peer.ask(&json!({"op": "take", "id": output, "count": 1, "timeout": 20, "hex": true}))
        };
        let count = NUM_MALFORMED / 2;
        let first = found_with(1);
        let cdr = first[0].as_str().unwrap();
        assert!(cdr.len() > 1000, "{channel} finds nothing: {cdr}");
        for round in 1..count / PER_GOOD {
            assert_eq!(found_with(PER_GOOD), first, "{channel} in round {round}");
        }
        assert_eq!(found_with(PER_GOOD - 1), first, "{channel} at last");
        let refused = |status: &Status| {
            let refused = status.values.keys().filter(|key| key.starts_with("refused."));
            refused.map(|key| status.number(key)).sum::<f64>()
        };
        // A status may be of the moment before the last good message.
        let received = (1 + count / PER_GOOD) as f64;
        let input = await_status(&mut peer, &format!("det_post: {channel}: input"), |status| {
            refused(status) >= count as f64 && status.number("received") >= received
        });
        assert_eq!(refused(&input), count as f64, "{input:?}");
        assert_eq!(input.number("received"), received, "{input:?}");
        assert_eq!(input.number("lost_in_middleware"), 0.0, "{input:?}");
    }
    let state = call(&mut peer, "get_state", "lifecycle_msgs/srv/GetState", &json!({}));
    assert_eq!(state["current_state"]["label"], json!("active"));
    assert_eq!(program.interrupt().0, Some(0));
}

#[test]
fn a_peer_of_another_type_does_no_harm() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware("det_post");
    let told = events(&mut middleware);
    let (heard, receiver) = Heard::receiver(note);
    let _input =
        middleware.subscribe("/image", InputKind::Image, Qos::SENSOR_DATA, receiver).unwrap();
    peer.writer("/image", InputKind::PointCloud2.type_name(), &json!({"reliable": true}), 0);
    let told = told.wait(|all| !all.is_empty());
    let found = InputKind::PointCloud2.type_name().to_owned();
    let (topic, expected) = ("/image".to_owned(), InputKind::Image.type_name().to_owned());
    assert_eq!(told, [MiddlewareEvent::IncompatibleType { topic, found, expected }]);
    peer.write("/image", &cloud());
    std::thread::sleep(Duration::from_millis(300));
    assert!(heard.all().iter().all(|came| matches!(came, Came::Refused(_))), "{:?}", heard.all());
}

#[test]
fn noise_on_the_ports_does_no_harm() {
    let turn = turn();
    // The middleware is the first participant of its domain, so its ports are known.
    let mut middleware = turn.middleware("det_post");
    let Some(mut peer) = turn.peer() else { return };
    let told = events(&mut middleware);
    let (heard, receiver) = Heard::receiver(note);
    // Reliable: noise may fill the buffers of the sockets.
    let qos = Qos { reliability: Reliability::Reliable, ..Qos::SENSOR_DATA };
    let _input = middleware.subscribe("/image", InputKind::Image, qos, receiver).unwrap();
    peer.writer("/image", InputKind::Image.type_name(), &json!({"reliable": true}), 1);
    peer.write("/image", &image());
    assert_eq!(heard.wait(|all| !all.is_empty()).len(), 1);

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // The ports of a domain, and those of its first participant.
    const DISCOVERY: u16 = 10;
    const USER_TRAFFIC: u16 = 11;
    let first_port = 7400 + 250 * turn.domain;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for number in 0..10_000 {
        let len = (next() % 200) as usize;
        let mut noise: Vec<u8> = (0..len).map(|_| next() as u8).collect();
        // Mostly with the start that lets a datagram in, and a known kind of submessage.
        let start = [b"RTPS\x02\x04\x01\x10".as_slice(), &[0; 12]].concat();
        if number % 4 != 0 {
            noise.splice(0..noise.len().min(20), start);
            let kinds = [0x06, 0x07, 0x08, 0x09, 0x0c, 0x0d, 0x0e, 0x0f, 0x12, 0x13, 0x15, 0x16];
            if let Some(kind) = noise.get_mut(20) {
                *kind = kinds[(next() % kinds.len() as u64) as usize];
            }
        }
        for port in [first_port + DISCOVERY, first_port + USER_TRAFFIC] {
            socket.send_to(&noise, ("127.0.0.1", port)).unwrap();
        }
        if number % 100 == 99 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let data: Vec<u8> = serde_json::from_value(image()["data"].clone()).unwrap();
    for round in 1..=20 {
        peer.write("/image", &image());
        let came = heard.wait(|all| all.len() > round);
        assert_eq!(came[round..], [Came::Data(data.clone())]);
    }
    assert!(!told.all().iter().any(|event| matches!(event, MiddlewareEvent::Failed { .. })));
}

#[test]
fn with_discovery_off_there_are_no_peers() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let settings = DdsSettings { domain: turn.domain, range: DiscoveryRange::Off, gid_len: 16 };
    let options =
        MiddlewareOptions { node: NodeName::new("", "single").unwrap(), remaps: Remaps::default() };
    let mut middleware = DdsMiddleware::open(options, &settings).unwrap();
    let input = middleware
        .subscribe("/image", InputKind::Image, Qos::SENSOR_DATA, Box::new(|_| ()))
        .unwrap();
    peer.ask(&json!({"op": "writer", "id": "w", "topic": "/image",
        "type": InputKind::Image.type_name()}));
    let found = peer.ask(&json!({"op": "matched", "id": "w", "count": 1, "timeout": 3}));
    assert_eq!((found, input.num_publishers()), (json!(0), 0));
}
