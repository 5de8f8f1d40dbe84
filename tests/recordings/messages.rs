//! Messages as other programs wrote them: every message of the shared
//! recordings, against the files the recordings were made from.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common::{messages, shared_data};
use det_post::ErrorKind;
use det_post_ros::messages::{
    CameraInfo, CompressedImage, Detection3DArray, Image, PointCloud2, TfMessage, definition,
};
use det_post_ros::tf;
use det_post_types::{CloudView, CompressedFormat, Encoding, Size};
use messages::Message;
use shared_data::shared_data;
use std::path::Path;

fn from_bag<'a>(messages: &'a [Message], bag: &str, type_name: &str) -> Vec<&'a Message> {
    messages.iter().filter(|m| m.bag == bag && m.type_name == type_name).collect()
}

/// What a message says, written again.
fn encoded_again(message: &Message) -> det_post::Result<Vec<u8>> {
    let mut cdr = Vec::new();
    match message.type_name.as_str() {
        Image::TYPE => Image::decode(&message.cdr)?.encode(&mut cdr)?,
        CompressedImage::TYPE => CompressedImage::decode(&message.cdr)?.encode(&mut cdr)?,
        CameraInfo::TYPE => CameraInfo::decode(&message.cdr)?.encode(&mut cdr)?,
        PointCloud2::TYPE => PointCloud2::decode(&message.cdr)?.encode(&mut cdr)?,
        TfMessage::TYPE => {
            let transforms: Result<Vec<_>, _> =
                TfMessage::decode(&message.cdr)?.transforms.collect();
            TfMessage::encode(&transforms?, &mut cdr)?;
        }
        other => panic!("no encoder for {other}"),
    }
    Ok(cdr)
}

#[test]
fn every_recorded_message_decodes_and_is_written_the_same() {
    let Some(root) = shared_data() else { return };
    let messages = messages::recorded(&root);
    // 85 in the four good bags, 36 readable ones in the damaged bags, a single one.
    assert_eq!(messages.len(), 122);
    for message in &messages {
        if message.type_name == Detection3DArray::TYPE {
            let array = Detection3DArray::decode(&message.cdr).unwrap();
            assert!(!array.detections.is_empty());
            for detection in array.detections {
                assert_eq!(detection.unwrap().header, array.header);
            }
            continue;
        }
        let mut cdr = encoded_again(message)
            .unwrap_or_else(|error| panic!("{} {}: {error}", message.bag, message.topic));
        let len = message.cdr.len();
        assert!(cdr.len() - len < 4, "only padding may be added");
        cdr.truncate(len);
        assert!(cdr == message.cdr, "{} {}", message.bag, message.topic);
    }
}

/// A cloud whose rows are `step` bytes of the scan it was made from.
fn assert_cloud_is(cloud: &CloudView<'_>, scan: &Path, names: &[&str]) {
    let scan = std::fs::read(scan).unwrap();
    let found: Vec<_> = cloud.fields().as_slice().iter().map(|field| field.name).collect();
    assert_eq!(found, names);
    assert_eq!(cloud.point_step(), 4 * names.len());
    assert_eq!(cloud.num_points() * cloud.point_step(), scan.len());
    assert!(cloud.data() == scan);
}

#[test]
fn clouds_are_the_scans_they_were_made_from() {
    let Some(root) = shared_data() else { return };
    let messages = messages::recorded(&root);

    let kitti = from_bag(&messages, "kitti_000008_mcap", PointCloud2::TYPE);
    assert_eq!(kitti.len(), 10);
    for message in kitti {
        let cloud = PointCloud2::decode(&message.cdr).unwrap();
        assert_eq!(cloud.header.frame_id, "velodyne");
        let scan = root.join("scans/kitti/000008.bin");
        assert_cloud_is(&cloud.view().unwrap(), &scan, &["x", "y", "z", "intensity"]);
    }
    let waymo = from_bag(&messages, "waymo_5_db3", PointCloud2::TYPE);
    assert_eq!(waymo.len(), 4);
    for (frame, message) in (100..).zip(waymo) {
        let cloud = PointCloud2::decode(&message.cdr).unwrap();
        assert_eq!(cloud.header.frame_id, "base_link");
        let scan = root.join(format!("scans/waymo/seq_0_frame_{frame}.bin"));
        let names = ["x", "y", "z", "intensity", "elongation"];
        assert_cloud_is(&cloud.view().unwrap(), &scan, &names);
    }

    let by_itself = from_bag(&messages, "cloudini", PointCloud2::TYPE);
    let cloud = PointCloud2::decode(&by_itself[0].cdr).unwrap();
    assert_eq!(cloud.header.frame_id, "lidar_link");
    let view = cloud.view().unwrap();
    assert_eq!((view.num_points(), view.point_step(), cloud.is_dense), (64_000, 26, false));
    let timestamp = view.fields().find(&["timestamp"]).unwrap();
    assert_eq!((timestamp.offset, timestamp.datatype), (18, 8));
}

#[test]
fn images_are_borrowed_with_their_format() {
    let Some(root) = shared_data() else { return };
    let messages = messages::recorded(&root);

    for message in from_bag(&messages, "kitti_000008_mcap", Image::TYPE) {
        let image = Image::decode(&message.cdr).unwrap();
        let view = image.view().unwrap();
        assert_eq!(image.header.frame_id, "camera");
        assert_eq!((view.size(), view.step()), (Size::new(1242, 375), 3726));
        assert_eq!(view.encoding(), Encoding::Rgb8);
        assert!(message.cdr.as_ptr_range().contains(&view.data().as_ptr()));
    }
    let cameras = from_bag(&messages, "nuscenes_surround_mcap", CompressedImage::TYPE);
    assert_eq!(cameras.len(), 30);
    for message in cameras {
        let view = CompressedImage::decode(&message.cdr).unwrap().view().unwrap();
        assert_eq!(view.format, CompressedFormat::Jpeg);
        assert!(view.data.starts_with(&[0xff, 0xd8]) && view.data.ends_with(&[0xff, 0xd9]));
    }
    for message in from_bag(&messages, "kitti_000008_mcap", CameraInfo::TYPE) {
        let info = CameraInfo::decode(&message.cdr).unwrap();
        assert_eq!((info.width, info.height, info.d.len()), (1242, 375, 5));
        assert_eq!([info.k[0], info.k[2], info.k[5]], [721.5377, 609.5593, 172.854]);
        assert_eq!(info.p[..3], info.k[..3]);
    }
}

#[test]
fn transforms_make_isometries() {
    let Some(root) = shared_data() else { return };
    let messages = messages::recorded(&root);
    let kitti = from_bag(&messages, "kitti_000008_mcap", TfMessage::TYPE);
    let transform = TfMessage::decode(&kitti[0].cdr).unwrap().transforms.next().unwrap().unwrap();
    assert_eq!((transform.header.frame_id, transform.child_frame_id), ("velodyne", "camera"));
    let velodyne_from_camera = tf::isometry(transform.translation, transform.rotation).unwrap();
    // The optical axis of the camera is the forward axis of the scanner, but for 1 degree.
    let forward = velodyne_from_camera.rotation * nalgebra::Vector3::z();
    assert!(forward.x > 0.999, "{forward}");

    let waymo = from_bag(&messages, "waymo_5_db3", TfMessage::TYPE);
    assert_eq!(waymo.len(), 5);
    for message in waymo {
        let transform = TfMessage::decode(&message.cdr).unwrap().transforms.next().unwrap();
        let transform = transform.unwrap();
        let isometry = tf::isometry(transform.translation, transform.rotation).unwrap();
        assert_eq!(isometry, nalgebra::Isometry3::identity());
    }
}

#[test]
fn detections_are_the_boxes_they_were_made_from() {
    let Some(root) = shared_data() else { return };
    let messages = messages::recorded(&root);
    let arrays = from_bag(&messages, "detections_pointpillars_mcap", Detection3DArray::TYPE);
    assert_eq!(arrays.len(), 5);
    for (i, message) in arrays.iter().enumerate() {
        let path = format!("scans/cuda-pointpillars/box_prediction/result_{i:06}.txt");
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        let rows: Vec<Vec<f64>> = text
            .lines()
            .map(|line| line.split_whitespace().map(|value| value.parse().unwrap()).collect())
            .collect();
        let array = Detection3DArray::decode(&message.cdr).unwrap();
        assert_eq!(array.header.frame_id, "velodyne");
        let detections: Vec<_> = array.detections.map(Result::unwrap).collect();
        assert_eq!(detections.len(), rows.len());
        for (detection, row) in detections.iter().zip(&rows) {
            let best = detection.best.unwrap();
            assert_eq!(detection.center.position, row[..3]);
            assert_eq!(detection.size, row[3..6]);
            assert!((detection.center.yaw_rad() - row[6]).sin().abs() < 1e-9);
            assert!((detection.center.yaw_rad() - row[6]).cos() > 0.0);
            assert_eq!(best.class_id, ["Car", "Pedestrian", "Cyclist"][row[7] as usize]);
            assert_eq!(best.score.to_bits(), row[8].to_bits());
        }
    }
}

#[test]
fn damaged_messages_are_refused_and_their_neighbours_served() {
    let Some(root) = shared_data() else { return };
    let messages = messages::recorded(&root);
    // What the message in the middle of each bag gives.
    let cases = [
        ("cloud_data_short", Some(ErrorKind::Layout)),
        ("image_data_short", Some(ErrorKind::Layout)),
        ("image_zero_size", Some(ErrorKind::Layout)),
        ("unknown_encoding", Some(ErrorKind::Encoding)),
        // These are for the ops to refuse, or fine.
        ("big_endian_cloud_valid", None),
        ("field_beyond_point_step", None),
        ("jpeg_truncated", None),
        ("nan_inf_points", None),
        ("no_xyz_fields", None),
        ("zero_points", None),
    ];
    for (bag, expected) in cases {
        let views: Vec<_> =
            messages.iter().filter(|message| message.bag == bag).map(view).collect();
        assert!(views.len() >= 2, "{bag}");
        let refused: Vec<_> = views.iter().flatten().copied().collect();
        assert_eq!(refused, Vec::from_iter(expected), "{bag}");
        assert_eq!(views[0], None, "{bag}");
        assert_eq!(views.last(), Some(&None), "{bag}");
    }
    let truncated = from_bag(&messages, "truncated_mcap", PointCloud2::TYPE);
    assert_eq!(truncated.len(), 6);
}

/// Why the payload of a message is refused.
fn view(message: &Message) -> Option<ErrorKind> {
    let cdr = &message.cdr;
    let refused = match message.type_name.as_str() {
        Image::TYPE => Image::decode(cdr).and_then(|image| image.view()).err(),
        PointCloud2::TYPE => PointCloud2::decode(cdr).and_then(|cloud| cloud.view()).err(),
        CompressedImage::TYPE => CompressedImage::decode(cdr).and_then(|image| image.view()).err(),
        other => panic!("{other} in a damaged bag"),
    };
    refused.map(|error| error.kind())
}

/// Leaves every message and its definition where `tests/peers/check_messages.py`
/// reads them with other implementations.
#[test]
fn messages_and_definitions_are_laid_out_for_the_peers() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("messages");
    std::fs::create_dir_all(&folder).unwrap();
    let built = messages::built();
    assert_eq!(built.len(), 16);
    for message in built {
        let stem = message.type_name.replace("/msg/", ".");
        assert_eq!(message.cdr.len() % 4, 0, "{stem}");
        std::fs::write(folder.join(format!("{stem}.cdr")), &message.cdr).unwrap();
        let text = definition(&message.type_name).unwrap();
        std::fs::write(folder.join(format!("{stem}.msg")), text).unwrap();
    }
}
