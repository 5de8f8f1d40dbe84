//! Serialized messages to decode: those of the shared recordings, and built
//! ones that cover every type.

use det_post_ros::messages::{
    CameraInfo, CompressedImage, Detection2DArray, Detection3DArray, Float64Stamped, Image,
    LabelInfo, PointCloud2, PublishedTime, TensorList, TfMessage, TransformStamped,
};
use det_post_ros::{
    AreaRemap, DebugTimesType, ObjectFormat, ObjectLabel, OutputFormat, OutputType,
};
use det_post_types::{
    Box2d, Box3d, Detection2d, Detection3d, Detections, Header, Keypoint, Keypoints, Object3d,
    PointField, PointFields, Stamp, TensorType, Variance3d,
};
use std::path::Path;

/// A serialized message with its encapsulation header.
pub struct Message {
    pub bag: String,
    pub topic: String,
    pub type_name: String,
    pub cdr: Vec<u8>,
}

/// All messages of the bags under `root/bags` that can be read, bag by bag, and
/// the single one under `root/scans`.
pub fn recorded(root: &Path) -> Vec<Message> {
    let mut messages = Vec::new();
    let bags = root.join("bags");
    for folder in [bags.clone(), bags.join("broken")] {
        let mut entries: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for bag in entries {
            for file in std::fs::read_dir(&bag).unwrap() {
                let file = file.unwrap().path();
                match file.extension().and_then(|extension| extension.to_str()) {
                    Some("mcap") => read_mcap(&bag, &file, &mut messages),
                    Some("db3") => read_db3(&bag, &file, &mut messages),
                    _ => {}
                }
            }
        }
    }
    messages.push(Message {
        bag: "cloudini".into(),
        topic: "dds_message".into(),
        type_name: PointCloud2::TYPE.into(),
        cdr: std::fs::read(root.join("scans/cloudini/dds_message.bin")).unwrap(),
    });
    messages
}

fn name_of(bag: &Path) -> String {
    bag.file_name().unwrap().to_string_lossy().into_owned()
}

/// Reads up to the first damage.
fn read_mcap(bag: &Path, file: &Path, messages: &mut Vec<Message>) {
    let bytes = std::fs::read(file).unwrap();
    let options = mcap::read::Options::IgnoreEndMagic.into();
    let Ok(stream) = mcap::MessageStream::new_with_options(&bytes, options) else {
        return;
    };
    for message in stream.map_while(Result::ok) {
        messages.push(Message {
            bag: name_of(bag),
            topic: message.channel.topic.clone(),
            type_name: message.channel.schema.as_ref().unwrap().name.clone(),
            cdr: message.data.into_owned(),
        });
    }
}

fn read_db3(bag: &Path, file: &Path, messages: &mut Vec<Message>) {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let uri = format!("file:{}?immutable=1", file.display());
    let flags = flags | rusqlite::OpenFlags::SQLITE_OPEN_URI;
    let connection = rusqlite::Connection::open_with_flags(uri, flags).unwrap();
    let mut statement = connection
        .prepare(
            "SELECT topics.name, topics.type, messages.data FROM messages \
             JOIN topics ON topics.id = messages.topic_id ORDER BY messages.id",
        )
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        messages.push(Message {
            bag: name_of(bag),
            topic: row.get(0).unwrap(),
            type_name: row.get(1).unwrap(),
            cdr: row.get(2).unwrap(),
        });
    }
}

/// One message of every type, small, with no two values alike by chance.
pub fn built() -> Vec<Message> {
    let header = Header { stamp: Stamp::from_ros(1_700_000_001, 250_000_003), frame_id: "sensor" };
    let data: Vec<u8> = (0..120).collect();
    let mut cdr = Vec::new();
    let mut messages = Vec::new();
    let mut add = |type_name: &str, cdr: &[u8]| {
        messages.push(Message {
            bag: "built".into(),
            topic: type_name.into(),
            type_name: type_name.into(),
            cdr: cdr.into(),
        });
    };

    let image = Image {
        header,
        height: 6,
        width: 5,
        encoding: "rgb8",
        is_bigendian: false,
        step: 20,
        data: &data,
    };
    image.encode(&mut cdr).unwrap();
    add(Image::TYPE, &cdr);

    let format = "rgb8; jpeg compressed bgr8";
    CompressedImage { header, format, data: &data[..77] }.encode(&mut cdr).unwrap();
    add(CompressedImage::TYPE, &cdr);

    let camera_info = CameraInfo {
        header,
        height: 375,
        width: 1242,
        distortion_model: "plumb_bob",
        d: vec![0.1, -0.2, 0.3, -0.4, 0.5],
        k: std::array::from_fn(|i| i as f64 + 0.25),
        r: std::array::from_fn(|i| i as f64 - 0.5),
        p: std::array::from_fn(|i| i as f64 * 1.5),
        ..CameraInfo::default()
    };
    camera_info.encode(&mut cdr).unwrap();
    add(CameraInfo::TYPE, &cdr);

    let mut fields = PointFields::new();
    for (name, offset, datatype) in [("x", 0, 7), ("y", 4, 7), ("z", 8, 7), ("ring", 12, 4)] {
        fields.push(PointField { name, offset, datatype, count: 1 }).unwrap();
    }
    let cloud = PointCloud2 {
        header,
        height: 2,
        width: 4,
        fields,
        is_bigendian: false,
        point_step: 14,
        row_step: 60,
        data: &data,
        is_dense: true,
    };
    cloud.encode(&mut cdr).unwrap();
    add(PointCloud2::TYPE, &cdr);

    let transform = |child_frame_id, x| TransformStamped {
        header,
        child_frame_id,
        translation: [x, 2.5, -3.5],
        rotation: [0.5, -0.5, 0.5, -0.5],
    };
    TfMessage::encode(&[transform("base", 1.5), transform("lidar", 4.5)], &mut cdr).unwrap();
    add(TfMessage::TYPE, &cdr);

    let class_names = ["car", "pedestrian", "cyclist"];
    let detections = [(1, 0.75, 3.5), (0, 0.5, 101.25)].map(|(class, score, x)| Detection2d {
        class,
        score,
        bbox: Box2d::new(x, 20.0, x + 31.0, 60.5),
    });
    Detection2DArray::encode(&header, &detections, &class_names, &mut cdr).unwrap();
    add(Detection2DArray::TYPE, &cdr);

    let variance = Variance3d {
        center: [0.25, 0.5, 0.125],
        size: [1.0, 2.0, 3.0],
        yaw: 0.0625,
        velocity: [4.0, 5.0],
    };
    let detections =
        [(2, 0.375, 0.4, Some(variance)), (0, 0.25, -2.7, None)].map(|(class, score, yaw, v)| {
            let bbox = Box3d {
                center: [12.5, -3.25, 0.75],
                length_m: 4.5,
                width_m: 1.75,
                height_m: 1.5,
                yaw_rad: yaw,
            };
            let object = Object3d { bbox, velocity_mps: None, variance: v };
            Detection3d { class, score, object }
        });
    Detection3DArray::encode(&header, &detections, &class_names, &mut cdr).unwrap();
    add(Detection3DArray::TYPE, &cdr);

    LabelInfo { header, class_names: &class_names, threshold: 0.375 }.encode(&mut cdr).unwrap();
    add(LabelInfo::TYPE, &cdr);

    for (type_name, cdr) in built_for_other_stacks(&header) {
        add(type_name, &cdr);
    }
    messages
}

/// One message of every type of Autoware, Isaac ROS and yolo_ros.
fn built_for_other_stacks(header: &Header<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let class_names = ["CAR", "PEDESTRIAN", "DOG"].map(str::to_owned).to_vec();
    let labels = class_names.iter().map(|name| Some(ObjectLabel::of_class(name)));
    let objects = ObjectFormat {
        labels: labels.collect(),
        remap_by_area: vec![AreaRemap::parse("CAR TRUCK 7 36").unwrap()],
        has_twist: true,
        cell_size_m: Some([0.5, 0.25]),
    };
    let format = OutputFormat {
        output_type: OutputType::DetectedObjects,
        class_ids: class_names.clone(),
        class_names,
        objects,
        keypoint_threshold: 0.25,
    };
    let solid = |class, length_m, variance| {
        let bbox = Box3d {
            center: [12.5, -3.25, 0.75],
            length_m,
            width_m: 1.75,
            height_m: 1.5,
            yaw_rad: 0.0,
        };
        let object = Object3d { bbox, velocity_mps: Some([3.0, -1.5]), variance };
        Detection3d { class, score: 0.375, object }
    };
    let variance = Variance3d {
        center: [0.25, 0.125, 0.5],
        size: [1.0; 3],
        yaw: 0.0625,
        velocity: [4.0, 5.0],
    };
    let solids = [solid(0, 4.5, Some(variance)), solid(1, 0.5, None), solid(2, 2.0, None)];
    let flat = [(0, 0.75, 3.5), (2, 0.5, 101.25)].map(|(class, score, x)| Detection2d {
        class,
        score,
        bbox: Box2d::new(x, 20.0, x + 31.0, 60.5),
    });
    let points = [0.5, 0.125, 0.25, 1.0].map(|score| Keypoint { x: 4.5, y: 100.0 * score, score });
    let encoded = |output_type, detections| {
        let mut cdr = Vec::new();
        format.encode(output_type, header, detections, &mut cdr).unwrap();
        (output_type.type_name(), cdr)
    };
    let mut messages = vec![
        encoded(OutputType::DetectedObjects, Detections::Boxes3d(&solids)),
        encoded(OutputType::AutoDetectedObjects, Detections::Boxes3d(&solids)),
        encoded(OutputType::DetectedObjectsWithFeature, Detections::Boxes2d(&flat)),
        encoded(
            OutputType::YoloDetectionArray,
            Detections::Keypoints2d(&flat, Keypoints { num_per_detection: 2, all: &points }),
        ),
    ];
    let mut cdr = Vec::new();
    let data: Vec<u8> = (0..24).collect();
    let tensors = [
        ("boxes", TensorType::F32, &[1, 2, 3][..], &data[..]),
        ("labels", TensorType::I64, &[2], &data[..16]),
        ("none", TensorType::U8, &[0, 4], &[]),
    ];
    TensorList::encode(header, &tensors, &mut cdr).unwrap();
    messages.push((TensorList::TYPE, cdr.clone()));
    Float64Stamped { stamp: header.stamp, data: 4.25 }.encode(&mut cdr).unwrap();
    for times in [DebugTimesType::AutowareInternalDebug, DebugTimesType::Tier4Debug] {
        messages.push((times.type_name(), cdr.clone()));
    }
    let published = Stamp::from_ros(1_700_000_002, 7);
    PublishedTime { header: *header, published }.encode(&mut cdr).unwrap();
    messages.push((PublishedTime::TYPE, cdr));
    messages
}
