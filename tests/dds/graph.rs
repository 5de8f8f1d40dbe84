//! The graph as others see it, and others as the middleware sees them.

use super::peer::{Heard, PATIENCE, Peer, events, turn, wait_until};
use det_post_ros::Remaps;
use det_post_ros::messages::type_hash;
use det_post_ros::middleware::{
    InputKind, Middleware, MiddlewareEvent, Qos, Receiver, Reliability, Response, ServiceKind,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const DETECTIONS: &str = "vision_msgs/msg/Detection2DArray";
const IMAGE: &str = "sensor_msgs/msg/Image";

fn nobody() -> Receiver {
    Box::new(|_| ())
}

/// The only node of the graph, with the topics and types of the
/// endpoints that are said to be its own.
fn the_node(peer: &mut Peer) -> Option<(String, BTreeMap<String, String>)> {
    let graph = peer.ask(&json!({"op": "graph"}));
    let nodes: Vec<(&String, &Value)> = graph["nodes"].as_object().unwrap().iter().collect();
    let [(participant, nodes)] = nodes[..] else { return None };
    let node = &nodes[0];
    let mut endpoints = BTreeMap::new();
    for which in ["readers", "writers"] {
        for gid in node[which].as_array().unwrap() {
            let endpoint = &graph[which][gid.as_str().unwrap()];
            let [topic, dds_type, owner, user_data] =
                [0, 1, 2, 3].map(|i| endpoint[i].as_str().unwrap_or("?"));
            assert_eq!(owner, participant, "{topic} belongs to another participant");
            let ros_type = dds_type.trim_end_matches('_').replace("::dds_::", "/");
            let hash = type_hash(&ros_type.replace("::", "/")).unwrap();
            assert_eq!(user_data, format!("typehash={hash};"), "{topic}");
            endpoints.insert(format!("{which} {topic}"), dds_type.to_owned());
        }
    }
    let name = format!("{} {}", node["namespace"].as_str()?, node["name"].as_str()?);
    Some((name, endpoints))
}

/// Waits until the node is announced with `count` endpoints.
fn node_with(peer: &mut Peer, count: usize) -> BTreeMap<String, String> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some((name, endpoints)) = the_node(peer)
            && endpoints.len() == count
        {
            assert_eq!(name, "/front det_post");
            return endpoints;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("no node with {count} endpoints, but {:#?}", the_node(peer));
}

#[test]
fn the_node_is_seen_with_its_endpoints() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut remaps = Remaps::default();
    remaps.push("image", "/camera/image_raw");
    let mut middleware = turn.middleware_in("/front", "det_post", remaps);
    let image =
        middleware.subscribe("image", InputKind::Image, Qos::SENSOR_DATA, nobody()).unwrap();
    let out = middleware.advertise("~/out", DETECTIONS, Qos::DEFAULT).unwrap();
    let endpoints = node_with(&mut peer, 2);
    assert_eq!(endpoints["readers rt/camera/image_raw"], "sensor_msgs::msg::dds_::Image_");
    assert_eq!(
        endpoints["writers rt/front/det_post/out"],
        "vision_msgs::msg::dds_::Detection2DArray_"
    );

    middleware.serve(Box::new(|_| Response::Changed(true))).unwrap();
    assert!(middleware.serve(Box::new(|_| Response::Changed(true))).is_err());
    let num_services = ServiceKind::of_nodes().count();
    let endpoints = node_with(&mut peer, 2 + 2 * num_services);
    for kind in ServiceKind::of_nodes() {
        let dds_type = kind.type_name().replace("/srv/", "::srv::dds_::");
        let name = format!("/front/det_post/{}", kind.name());
        assert_eq!(endpoints[&format!("readers rq{name}Request")], format!("{dds_type}_Request_"));
        assert_eq!(endpoints[&format!("writers rr{name}Reply")], format!("{dds_type}_Response_"));
    }

    drop(image);
    drop(out);
    let endpoints = node_with(&mut peer, 2 * num_services);
    assert!(!endpoints.contains_key("readers rt/camera/image_raw"));
    let leaving = Instant::now();
    drop(middleware);
    println!("the middleware was left within {:?}", leaving.elapsed());
    while leaving.elapsed() < PATIENCE {
        let graph = peer.ask(&json!({"op": "graph", "timeout": 0.1}));
        if graph["nodes"] == json!({}) {
            return;
        }
    }
    panic!("the node is still there");
}

#[test]
fn a_peer_of_another_quality_or_type_is_reported() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware("det_post");
    let heard = events(&mut middleware);
    let topic = || "/image".to_owned();

    let reliable = Qos { reliability: Reliability::Reliable, ..Qos::SENSOR_DATA };
    let input = middleware.subscribe("image", InputKind::Image, reliable, nobody()).unwrap();
    peer.writer("/image", IMAGE, &json!({"reliable": false}), 0);
    let policy = "reliability".to_owned();
    let incompatible = MiddlewareEvent::IncompatibleQos { topic: topic(), policy };
    assert_eq!(heard.wait(|all| !all.is_empty()), std::slice::from_ref(&incompatible));
    assert_eq!(input.num_publishers(), 0);

    // The publisher comes back with the right quality.
    peer.ask(&json!({"op": "close", "id": "/image"}));
    let settled = MiddlewareEvent::Compatible { topic: topic() };
    assert_eq!(heard.wait(|all| all.len() >= 2)[1..], std::slice::from_ref(&settled)[..]);
    peer.writer("/image", IMAGE, &json!({"reliable": true}), 1);
    wait_until("a publisher", || input.num_publishers() == 1);
    let found = MiddlewareEvent::PeerFound { topic: topic() };
    assert_eq!(heard.wait(|all| all.len() >= 3), [incompatible, settled, found]);

    let output = middleware.advertise("~/out", DETECTIONS, Qos::SENSOR_DATA).unwrap();
    peer.reader("/det_post/out", DETECTIONS, &json!({"reliable": true, "latched": true}), 0);
    let told = heard.wait(|all| all.len() >= 4);
    let topic = || "/det_post/out".to_owned();
    // Durability is looked at before reliability.
    let policy = "durability".to_owned();
    assert_eq!(told[3..], [MiddlewareEvent::IncompatibleQos { topic: topic(), policy }]);
    assert_eq!(output.num_subscribers(), 0);

    let settled = || MiddlewareEvent::Compatible { topic: topic() };
    peer.ask(&json!({"op": "close", "id": "/det_post/out"}));
    assert_eq!(heard.wait(|all| all.len() >= 5)[4..], [settled()]);
    peer.reader("/det_post/out", IMAGE, &json!({}), 0);
    let told = heard.wait(|all| all.len() >= 6);
    let found = IMAGE.to_owned();
    let expected = DETECTIONS.to_owned();
    assert_eq!(told[5..], [MiddlewareEvent::IncompatibleType { topic: topic(), found, expected }]);
    assert_eq!(output.num_subscribers(), 0);
    peer.ask(&json!({"op": "close", "id": "/det_post/out"}));
    assert_eq!(heard.wait(|all| all.len() >= 7)[6..], [settled()]);

    // Without our endpoint no peer is incompatible.
    peer.reader("/det_post/out", DETECTIONS, &json!({"reliable": true, "latched": true}), 0);
    assert_eq!(heard.wait(|all| all.len() >= 8).len(), 8);
    drop(output);
    assert_eq!(heard.wait(|all| all.len() >= 9)[8..], [settled()]);
}

#[test]
fn either_side_may_restart() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let image = json!({"header": {"frame_id": "cam"}, "height": 1, "width": 1,
        "encoding": "mono8", "step": 1, "data": [7]});
    let mut middleware = turn.middleware("det_post");
    for round in 0..3 {
        let heard_events = events(&mut middleware);
        let (heard, receiver) = Heard::receiver(|received| received.is_ok());
        let input =
            middleware.subscribe("/image", InputKind::Image, Qos::SENSOR_DATA, receiver).unwrap();
        let mut output = middleware.advertise("/out", IMAGE, Qos::DEFAULT).unwrap();
        peer.writer("/image", IMAGE, &json!({}), 1);
        peer.reader("/out", IMAGE, &json!({"reliable": true}), 1);
        wait_until("a publisher", || input.num_publishers() == 1);
        peer.write("/image", &image);
        assert_eq!(heard.wait(|all| !all.is_empty()), [true], "round {round}");

        let mut cdr = Vec::new();
        let message = det_post_ros::messages::Image::default();
        message.encode(&mut cdr).unwrap();
        // Each side finds the other in its own time.
        wait_until("a subscriber", || output.num_subscribers() == 1);
        output.publish(&cdr).unwrap();
        assert_eq!(peer.take("/out", 1).len(), 1, "round {round}");
        if round == 1 {
            // The node restarts, the peer stays.
            drop((input, output));
            drop(middleware);
            peer.wait_matched("/image", 0);
            peer.ask(&json!({"op": "close", "id": "/image"}));
            peer.ask(&json!({"op": "close", "id": "/out"}));
            middleware = turn.middleware("det_post");
        } else {
            // The peer restarts, the node stays.
            drop(peer);
            wait_until("the end of the peer", || {
                input.num_publishers() == 0 && output.num_subscribers() == 0
            });
            let gone = MiddlewareEvent::PeerGone { topic: "/image".to_owned() };
            assert!(heard_events.wait(|all| all.contains(&gone)).contains(&gone));
            peer = turn.peer().unwrap();
        }
    }
}
