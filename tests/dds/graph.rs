//! The graph as others see it, and others as the door sees them.

use super::peer::turn;
use det_post::transport::door::{Door, InputKind, Qos};
use det_post::types::Remaps;
use serde_json::json;

#[test]
fn the_node_is_seen_with_its_endpoints() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut remaps = Remaps::default();
    remaps.push("image", "/camera/image_raw");
    let mut door = turn.door_in("/front", "det_post", remaps);
    let nobody: det_post::transport::door::Receiver = Box::new(|_| ());
    let _image = door.subscribe("image", InputKind::Image, Qos::SENSOR_DATA, nobody).unwrap();
    let _out = door.advertise("~/out", "vision_msgs/msg/Detection2DArray", Qos::DEFAULT).unwrap();
    // A reader of its own makes the peer wait for the match.
    peer.reader("/front/det_post/out", "vision_msgs/msg/Detection2DArray", &json!({}), 1);
    let graph = peer.ask(&json!({"op": "graph"}));
    let nodes = graph["nodes"].as_object().unwrap();
    assert_eq!(nodes.len(), 1, "{graph}");
    println!("{graph:#}");
}
