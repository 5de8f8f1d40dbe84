//! The middleware against Fast DDS: topics, large messages and services, both ways.

use super::fast_dds_peer::{FastDdsPeer, digest, to_hex};
use super::metadata_client::MetadataClient;
use super::peer::{Heard, PATIENCE, dds_type, events, turn, wait_until};
use det_post_ros::cdr::{Reader, Writer};
use det_post_ros::messages::Image;
use det_post_ros::middleware::{
    Durability, InputKind, Middleware, MiddlewareEvent, Qos, Received, Reliability, Request,
    Response,
};
use det_post_types::{Header, ImagePayload, Stamp};
use std::sync::LazyLock;
use std::time::Duration;

const IMAGE: &str = "sensor_msgs/msg/Image";
const RELIABLE: Qos =
    Qos { reliability: Reliability::Reliable, durability: Durability::Volatile, depth: 30 };

/// Bytes of the pixels of 1080p in colour.
const NUM_PIXEL_BYTES: usize = 1920 * 1080 * 3;

/// An image of `width` by `height` in colour.
fn image_message(number: u64, width: u32, height: u32, data: &[u8]) -> Vec<u8> {
    let stamp = Stamp::from_nanos(1_000_000_000 + i64::try_from(number).unwrap());
    let header = Header { stamp, frame_id: "camera" };
    let step = 3 * width;
    let image = Image { header, height, width, encoding: "rgb8", is_bigendian: false, step, data };
    let mut cdr = Vec::new();
    image.encode(&mut cdr).unwrap();
    cdr
}

/// The pixels of a received image.
fn pixels(received: det_post::Result<Received<'_>>) -> Vec<u8> {
    match received {
        Ok(Received::Image { payload: ImagePayload::Raw(image), .. }) => image.data().to_owned(),
        other => panic!("{other:?}"),
    }
}

/// The number of a received image of `stream`, which is at either end of its pixels.
fn number(received: det_post::Result<Received<'_>>) -> u64 {
    let data = pixels(received);
    static EXPECTED: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..NUM_PIXEL_BYTES).map(|i| (i % 251) as u8).collect());
    let inner = 8..NUM_PIXEL_BYTES - 8;
    assert_eq!(data.len(), NUM_PIXEL_BYTES);
    assert!(data[inner.clone()] == EXPECTED[inner], "another image than was sent");
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    assert_eq!(number(&data[..8]), number(&data[data.len() - 8..]), "an image is made of two");
    number(&data[..8])
}

#[test]
fn topics_go_both_ways() {
    let turn = turn();
    let Some(mut peer) = FastDdsPeer::start(turn.domain) else { return };
    for (name, qos, options) in [
        ("best_effort", Qos::SENSOR_DATA, ""),
        ("reliable", RELIABLE, "reliable="),
        ("latched", Qos::LATCHED, "reliable= latched= depth=1"),
    ] {
        let (into, out) = (format!("/{name}/in"), format!("/{name}/out"));
        let (heard, receiver) = Heard::receiver(pixels);
        let is_latched = qos.durability == Durability::TransientLocal;
        peer.writer(&into, &into, IMAGE, options);
        if is_latched {
            peer.write(&into, &image_message(1, 2, 1, &[1, 2, 3, 4, 5, 6]));
        }
        let mut middleware = turn.middleware("det_post");
        let input = middleware.subscribe(&into, InputKind::Image, qos, receiver).unwrap();
        let mut output = middleware.advertise(&out, IMAGE, qos).unwrap();
        let sent = image_message(2, 1, 1, &[7, 8, 9]);
        if is_latched {
            output.publish(&sent).unwrap();
        }
        peer.reader(&out, &out, IMAGE, options);
        peer.wait_matched(&into, 1);
        peer.wait_matched(&out, 1);
        wait_until("a publisher", || input.num_publishers() == 1);
        wait_until("a subscriber", || output.num_subscribers() == 1);
        if !is_latched {
            peer.write(&into, &image_message(1, 2, 1, &[1, 2, 3, 4, 5, 6]));
            output.publish(&sent).unwrap();
        }
        assert_eq!(heard.wait(|all| !all.is_empty()), [[1, 2, 3, 4, 5, 6]], "{name}");
        assert_eq!(peer.take(&out, 1, PATIENCE), [sent], "{name}");

        drop((input, output));
        peer.wait_matched(&into, 0);
        peer.wait_matched(&out, 0);
    }
}

#[test]
fn a_peer_that_leaves_is_missed_at_once() {
    let turn = turn();
    let Some(mut peer) = FastDdsPeer::start(turn.domain) else { return };
    let mut middleware = turn.middleware("det_post");
    let input =
        middleware.subscribe("/image", InputKind::Image, RELIABLE, Box::new(|_| ())).unwrap();
    peer.writer("w", "/image", IMAGE, "reliable=");
    peer.wait_matched("w", 1);
    wait_until("a publisher", || input.num_publishers() == 1);
    peer.ask("close w");
    wait_until("no publisher", || input.num_publishers() == 0);
    peer.writer("w", "/image", IMAGE, "reliable=");
    wait_until("a publisher", || input.num_publishers() == 1);
    drop(peer);
    wait_until("no publisher", || input.num_publishers() == 0);
}

#[test]
fn large_images_arrive_whole() {
    let turn = turn();
    let Some(mut peer) = FastDdsPeer::start(turn.domain) else { return };
    let (heard, receiver) = Heard::receiver(number);
    let mut middleware = turn.middleware("det_post");
    let input = middleware.subscribe("/image", InputKind::Image, RELIABLE, receiver).unwrap();
    peer.writer("w", "/image", IMAGE, "reliable= keep_all= depth=8");
    peer.wait_matched("w", 1);
    wait_until("a publisher", || input.num_publishers() == 1);
    let whole = image_message(0, 1920, 1080, &vec![0; NUM_PIXEL_BYTES]);
    // The last field is the sequence of pixels, after its length.
    let start = to_hex(&whole[..whole.len() - NUM_PIXEL_BYTES - 4]);
    peer.ask(&format!("stream w 20 10 {NUM_PIXEL_BYTES} {start}"));
    let numbers: Vec<u64> = (0..20).collect();
    assert_eq!(heard.wait(|all| all.len() >= 20), numbers);
}

#[test]
fn large_images_are_sent_whole() {
    let turn = turn();
    let Some(mut peer) = FastDdsPeer::start(turn.domain) else { return };
    let mut middleware = turn.middleware("det_post");
    let mut output = middleware.advertise("/image", IMAGE, Qos::DEFAULT).unwrap();
    peer.reader("r", "/image", IMAGE, "reliable=");
    peer.wait_matched("r", 1);
    wait_until("a subscriber", || output.num_subscribers() == 1);
    let mut data: Vec<u8> = (0..NUM_PIXEL_BYTES).map(|i| (i % 251) as u8).collect();
    for round in 0..8 {
        data[round] = 255;
        let cdr = image_message(round as u64, 1920, 1080, &data);
        output.publish(&cdr).unwrap();
        let expected = format!("{}:{}", cdr.len(), digest(&cdr));
        assert_eq!(peer.ask("receive r 1 20"), expected, "image {round}");
    }
}

#[test]
fn a_client_gets_its_responses() {
    let turn = turn();
    let Some(mut peer) = FastDdsPeer::start(turn.domain) else { return };
    let mut middleware = turn.middleware("det_post");
    // More than a datagram.
    let names: Vec<String> = (0..4000).map(|i| format!("camera.parameter_{i}")).collect();
    let listed = names.clone();
    middleware
        .serve(Box::new(move |request| match request {
            Request::ListParameters { depth: 0, .. } => {
                Response::Names { names: listed.clone(), prefixes: Vec::new() }
            }
            Request::ListParameters { depth, prefixes } => {
                Response::Names { names: vec![format!("depth {depth}")], prefixes }
            }
            other => panic!("{other:?}"),
        }))
        .unwrap();
    let service_type = "rcl_interfaces/srv/ListParameters";
    for depth in [3, 0, 7, 0, 1] {
        let mut request = Vec::new();
        let mut writer = Writer::new(&mut request);
        writer.sequence_len(1);
        writer.str("camera");
        writer.u64(depth);
        writer.finish(service_type).unwrap();
        let service = "/det_post/list_parameters";
        let response = peer.call(service, service_type, &request, PATIENCE).expect("a response");
        let mut reader = Reader::new("response", &response).unwrap();
        let expected = if depth == 0 { names.clone() } else { vec![format!("depth {depth}")] };
        assert_eq!(reader.sequence_len(4).unwrap(), expected.len());
        for name in &expected {
            assert_eq!(reader.str().unwrap(), name);
        }
    }
}

#[test]
fn a_server_answers_our_requests() {
    let turn = turn();
    let Some(mut peer) = FastDdsPeer::start(turn.domain) else { return };
    let service_type = "lifecycle_msgs/srv/GetState";
    // Less and more than a datagram.
    for len in [4, 200_000] {
        let service = format!("/peer/get_state_{len}");
        let response: Vec<u8> = [0, 1, 0, 0].into_iter().chain((0..len).map(|i| i as u8)).collect();
        let dds_type = dds_type(service_type);
        let dds_type = dds_type.strip_suffix('_').unwrap();
        peer.ask(&format!("serve {service} {dds_type} {}", to_hex(&response)));
        let client = MetadataClient::new(turn.domain, &service, service_type);
        for round in 1..=3 {
            assert_eq!(client.ask(&[0, 1, 0, 0, 9, 0, 0, 0]), response, "{len} bytes");
            assert_eq!(peer.ask(&format!("served {service}")), round.to_string());
        }
    }
}

#[test]
fn a_writer_that_cannot_match_is_reported_once_by_the_policy() {
    let turn = turn();
    let Some(mut peer) = FastDdsPeer::start(turn.domain) else { return };
    let mut middleware = turn.middleware("det_post");
    let heard = events(&mut middleware);
    let (mut inputs, mut expected) = (Vec::new(), Vec::new());
    for (policy, options) in [("ownership", "exclusive="), ("partition", "partition=left")] {
        let topic = format!("/{policy}");
        let qos = Qos::SENSOR_DATA;
        let receiver = Box::new(|_: det_post::Result<Received<'_>>| ());
        inputs.push(middleware.subscribe(&topic, InputKind::Image, qos, receiver).unwrap());
        peer.writer(policy, &topic, IMAGE, &format!("{options} depth=1"));
        expected.push(MiddlewareEvent::IncompatibleQos { topic, policy: policy.to_owned() });
        assert_eq!(heard.wait(|all| all.len() >= expected.len()), expected);
    }
    // Announcements are repeated; the reports are not.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(heard.all(), expected);
    assert!(inputs.iter().all(|input| input.num_publishers() == 0));
}
