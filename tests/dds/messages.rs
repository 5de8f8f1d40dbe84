//! Messages of every kind in, detections out.

use super::peer::{Heard, turn, wait_until};
use det_post_ros::messages::{Detection2DArray, Detection3DArray, LabelInfo, MotionType};
use det_post_ros::middleware::{InputKind, Middleware, Qos, Received, Reliability};
use det_post_types::{
    Box2d, Box3d, Detection2d, Detection3d, Header, ImagePayload, Object3d, Stamp,
};
use serde_json::{Value, json};

fn header(frame_id: &str) -> Value {
    json!({"stamp": {"sec": 1_700_000_001, "nanosec": 250_000_003}, "frame_id": frame_id})
}

/// What a receiver was given, in words.
fn in_words(received: det_post::Result<Received<'_>>) -> String {
    match received {
        Err(error) => format!("refused: {error}"),
        Ok(Received::Image { header, payload: ImagePayload::Raw(image) }) => {
            let size = image.size();
            let (w, h, data) = (size.width, size.height, image.data());
            format!("{} {} {w}x{h} {:?} {data:?}", header.stamp, header.frame_id, image.encoding())
        }
        Ok(Received::Image { header, payload: ImagePayload::Compressed(file) }) => {
            format!("{} {} {:?} {:?}", header.stamp, header.frame_id, file.format, file.data)
        }
        Ok(Received::Image { payload: ImagePayload::OnDevice(_), .. }) => {
            unreachable!("messages are in host memory")
        }
        Ok(Received::Cloud { header, view }) => {
            let names: Vec<_> = view.fields().as_slice().iter().map(|field| field.name).collect();
            let (n, data) = (view.num_points(), view.data());
            format!("{} {} {n} of {names:?} {data:?}", header.stamp, header.frame_id)
        }
        Ok(Received::Packed { header, cdr }) => {
            format!("{} {} {cdr:?}", header.stamp, header.frame_id)
        }
        Ok(Received::Video { header, cdr, .. }) => {
            format!("{} {} {cdr:?}", header.stamp, header.frame_id)
        }
        Ok(Received::Tensors { header, tensors }) => {
            format!("{} {} {}", header.stamp, header.frame_id, tensors.describe())
        }
        Ok(Received::CameraInfo(info)) => {
            format!(
                "{} {}x{} {:?} {:?}",
                info.header.frame_id, info.width, info.height, info.d, info.k
            )
        }
        Ok(Received::Transform { transform: t, is_static }) => format!(
            "{} {} from {} {:?} {:?} {is_static}",
            t.header.stamp, t.header.frame_id, t.child_frame_id, t.translation, t.rotation
        ),
        Ok(Received::Motion(motion)) => {
            format!("{} {} {:?}", motion.header.stamp, motion.moving_frame, motion.motion)
        }
        Ok(Received::Clock(stamp)) => format!("clock {stamp}"),
        Ok(Received::Bond(status)) => format!("bond {}", status.id),
    }
}

fn transforms(child: &str) -> Value {
    let rotation = json!({"x": 0.5, "y": -0.5, "z": 0.5, "w": -0.5});
    let of = |child: String, x: f64| {
        let motion = json!({"translation": {"x": x, "y": 2.5, "z": -3.5}, "rotation": rotation});
        json!({"header": header("map"), "child_frame_id": child, "transform": motion})
    };
    json!({"transforms": [of(format!("{child}_a"), 1.5), of(format!("{child}_b"), -1.5)]})
}

/// Samples of every type that says how a vehicle moves.
fn motions() -> [(&'static str, InputKind, Value, Vec<&'static str>); 4] {
    let vector = |[x, y, z]: [f64; 3]| json!({"x": x, "y": y, "z": z});
    let twist = json!({"linear": vector([1.5, 2.5, 3.5]), "angular": vector([0.5, 0.25, -0.5])});
    let with_covariance = json!({"twist": twist, "covariance": vec![0.125; 36]});
    let orientation = json!({"x": 0.5, "y": -0.5, "z": 0.5, "w": -0.5});
    let pose = json!({"position": vector([4.5, 5.5, 6.5]), "orientation": orientation});
    let pose = json!({"pose": pose, "covariance": vec![0.25; 36]});
    let odometry = json!({"header": header("odom"), "child_frame_id": "base", "pose": pose,
        "twist": with_covariance});
    let imu = json!({"header": header("imu"), "orientation": orientation,
        "orientation_covariance": vec![-1.0; 9], "angular_velocity": vector([0.5, 0.25, -0.5]),
        "angular_velocity_covariance": vec![0.5; 9],
        "linear_acceleration": vector([9.5, 8.5, 7.5]),
        "linear_acceleration_covariance": vec![0.75; 9]});
    let of_twist = "1700000001.250000003 base Velocity { linear: [1.5, 2.5, 3.5], angular: [0.5, 0.25, -0.5] }";
    [
        (
            "/odom",
            InputKind::Motion(MotionType::Odometry),
            odometry,
            vec![
                "1700000001.250000003 base Pose { position: [4.5, 5.5, 6.5], orientation: [0.5, -0.5, 0.5, -0.5] }",
            ],
        ),
        (
            "/twist",
            InputKind::Motion(MotionType::Twist),
            json!({"header": header("base"), "twist": twist}),
            vec![of_twist],
        ),
        (
            "/twist_with_covariance",
            InputKind::Motion(MotionType::TwistWithCovariance),
            json!({"header": header("base"), "twist": with_covariance}),
            vec![of_twist],
        ),
        (
            "/imu",
            InputKind::Motion(MotionType::Imu),
            imu,
            vec![
                "1700000001.250000003 imu Velocity { linear: [0.0, 0.0, 0.0], angular: [0.5, 0.25, -0.5] }",
            ],
        ),
    ]
}

/// Topic, kind, sample, and what the receiver must have been given.
fn inputs() -> Vec<(&'static str, InputKind, Value, Vec<&'static str>)> {
    let image = json!({"header": header("cam"), "height": 2, "width": 2, "encoding": "rgb8",
        "step": 7, "data": (0..14).collect::<Vec<_>>()});
    let file = json!({"header": header("cam"), "format": "jpeg", "data": [255, 216, 255, 1, 2]});
    let field = |name, offset| json!({"name": name, "offset": offset, "datatype": 7, "count": 1});
    let cloud = json!({"header": header("lidar"), "height": 1, "width": 2,
        "fields": [field("x", 0), field("y", 4)], "point_step": 8, "row_step": 16,
        "data": (0..16).collect::<Vec<_>>(), "is_dense": true});
    let info = json!({"header": header("cam"), "height": 480, "width": 640,
        "distortion_model": "plumb_bob", "d": [0.1, -0.2],
        "k": [1.0, 0.0, 2.0, 0.0, 3.0, 4.0, 0.0, 0.0, 1.0]});
    let clock = json!({"clock": {"sec": 12, "nanosec": 5}});
    let mut inputs = vec![
        (
            "/camera/image_raw",
            InputKind::Image,
            image,
            vec![
                "1700000001.250000003 cam 2x2 Rgb8 [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]",
            ],
        ),
        (
            "/camera/image/compressed",
            InputKind::CompressedImage,
            file,
            vec!["1700000001.250000003 cam Jpeg [255, 216, 255, 1, 2]"],
        ),
        (
            "/points",
            InputKind::PointCloud2,
            cloud,
            vec![
                "1700000001.250000003 lidar 2 of [\"x\", \"y\"] \
             [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]",
            ],
        ),
        (
            "/camera/camera_info",
            InputKind::CameraInfo,
            info,
            vec!["cam 640x480 [0.1, -0.2] [1.0, 0.0, 2.0, 0.0, 3.0, 4.0, 0.0, 0.0, 1.0]"],
        ),
        (
            "/tf",
            InputKind::Transforms { is_static: false },
            transforms("wheel"),
            vec![
                "1700000001.250000003 map from wheel_a [1.5, 2.5, -3.5] [0.5, -0.5, 0.5, -0.5] false",
                "1700000001.250000003 map from wheel_b [-1.5, 2.5, -3.5] [0.5, -0.5, 0.5, -0.5] false",
            ],
        ),
        (
            "/tf_static",
            InputKind::Transforms { is_static: true },
            transforms("cam"),
            vec![
                "1700000001.250000003 map from cam_a [1.5, 2.5, -3.5] [0.5, -0.5, 0.5, -0.5] true",
                "1700000001.250000003 map from cam_b [-1.5, 2.5, -3.5] [0.5, -0.5, 0.5, -0.5] true",
            ],
        ),
        ("/clock", InputKind::Clock, clock, vec!["clock 12.000000005"]),
    ];
    inputs.extend(motions());
    inputs
}

#[test]
fn every_kind_of_message_arrives_as_it_was_sent() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware("det_post");
    for reliability in [Reliability::BestEffort, Reliability::Reliable] {
        for (topic, kind, sample, expected) in inputs() {
            let (heard, receiver) = Heard::receiver(in_words);
            let qos = Qos { reliability, ..Qos::SENSOR_DATA };
            let subscription = middleware.subscribe(topic, kind, qos, receiver).unwrap();
            peer.writer(topic, kind.type_name(), &json!({"reliable": true}), 1);
            wait_until("a publisher", || subscription.num_publishers() == 1);
            peer.write(topic, &sample);
            assert_eq!(heard.wait(|all| all.len() >= expected.len()), expected, "{topic}");
            drop(subscription);
            peer.wait_matched(topic, 0);
            peer.ask(&json!({"op": "close", "id": topic}));
        }
    }
}

#[test]
fn latched_messages_reach_late_joiners() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let latched = json!({"reliable": true, "latched": true});
    peer.writer("/tf_static", "tf2_msgs/msg/TFMessage", &latched, 0);
    peer.write("/tf_static", &transforms("early"));
    let mut middleware = turn.middleware("det_post");
    let (heard, receiver) = Heard::receiver(in_words);
    let kind = InputKind::Transforms { is_static: true };
    let subscription = middleware.subscribe("/tf_static", kind, Qos::LATCHED, receiver).unwrap();
    assert_eq!(heard.wait(|all| all.len() >= 2).len(), 2);

    // A new subscription, as after a deactivation, gets them again, once.
    drop(subscription);
    peer.wait_matched("/tf_static", 0);
    let (heard, receiver) = Heard::receiver(in_words);
    let _subscription = middleware.subscribe("/tf_static", kind, Qos::LATCHED, receiver).unwrap();
    peer.wait_matched("/tf_static", 1);
    assert_eq!(heard.wait(|all| all.len() >= 2).len(), 2);
    peer.write("/tf_static", &transforms("late"));
    let all = heard.wait(|all| all.len() >= 4);
    assert_eq!(all.len(), 4, "the early transforms once, then the late ones: {all:?}");

    let mut labels = middleware.advertise("~/labels", LabelInfo::TYPE, Qos::LATCHED).unwrap();
    let mut cdr = Vec::new();
    let class_names = ["car", "person"];
    let header = Header { stamp: Stamp::from_ros(7, 8), frame_id: "cam" };
    LabelInfo { header, class_names: &class_names, threshold: 0.25 }.encode(&mut cdr).unwrap();
    labels.publish(&cdr).unwrap();
    peer.reader("/det_post/labels", LabelInfo::TYPE, &latched, 1);
    let told = peer.take("/det_post/labels", 1);
    assert_eq!(told[0]["class_map"][1], json!({"class_id": 1, "class_name": "person"}));
    assert_eq!(told[0]["threshold"], json!(0.25));
}

fn an_object(x: f32) -> Detection3d {
    let bbox = Box3d {
        center: [x, -3.25, 0.75],
        length_m: 4.5,
        width_m: 1.75,
        height_m: 1.5,
        yaw_rad: 0.4,
    };
    let object = Object3d { bbox, velocity_mps: None, variance: None };
    Detection3d { class: 0, score: 0.5, object }
}

#[test]
fn detections_are_read_by_others() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware("det_post");
    let header = Header { stamp: Stamp::from_ros(1_700_000_001, 250_000_003), frame_id: "cam" };
    let mut flat =
        middleware.advertise("~/detections_2d", Detection2DArray::TYPE, Qos::DEFAULT).unwrap();
    let mut solid =
        middleware.advertise("~/detections_3d", Detection3DArray::TYPE, Qos::DEFAULT).unwrap();
    assert_eq!((flat.num_subscribers(), solid.num_subscribers()), (0, 0));
    let reliable = json!({"reliable": true});
    peer.reader("/det_post/detections_2d", Detection2DArray::TYPE, &reliable, 1);
    peer.reader("/det_post/detections_3d", Detection3DArray::TYPE, &reliable, 1);
    wait_until("subscribers", || flat.num_subscribers() == 1 && solid.num_subscribers() == 1);

    let mut cdr = Vec::new();
    let boxes = [Detection2d { class: 1, score: 0.75, bbox: Box2d::new(10.0, 21.0, 13.0, 26.0) }];
    Detection2DArray::encode(&header, &boxes, &["car", "person"], &mut cdr).unwrap();
    flat.publish(&cdr).unwrap();
    let array = &peer.take("/det_post/detections_2d", 1)[0];
    assert_eq!(array["header"]["frame_id"], json!("cam"));
    assert_eq!(array["header"]["stamp"], json!({"sec": 1_700_000_001, "nanosec": 250_000_003}));
    let found = &array["detections"][0];
    assert_eq!(found["results"][0]["hypothesis"], json!({"class_id": "person", "score": 0.75}));
    let center = json!({"position": {"x": 11.5, "y": 23.5}, "theta": 0.0});
    assert_eq!(found["bbox"], json!({"center": center, "size_x": 3.0, "size_y": 5.0}));

    // Many enough to be sent in fragments.
    let objects: Vec<_> = (0..200).map(|i| an_object(i as f32)).collect();
    Detection3DArray::encode(&header, &objects, &["car"], &mut cdr).unwrap();
    assert!(cdr.len() > 64 << 10, "{} bytes", cdr.len());
    solid.publish(&cdr).unwrap();
    let array = &peer.take("/det_post/detections_3d", 1)[0];
    let found = array["detections"].as_array().unwrap();
    assert_eq!(found.len(), objects.len());
    for (i, found) in found.iter().enumerate() {
        assert_eq!(
            found["bbox"]["center"]["position"],
            json!({"x": i as f64, "y": -3.25, "z": 0.75})
        );
        assert_eq!(found["bbox"]["size"], json!({"x": 4.5, "y": 1.75, "z": 1.5}));
    }

    peer.ask(&json!({"op": "close", "id": "/det_post/detections_2d"}));
    wait_until("the subscriber's end", || flat.num_subscribers() == 0);
}
