//! However payloads reach the GPU, and however many frames are in progress, the detections are
//! the same.

use std::path::Path;

use super::{has_gpu, write_sample};
use crate::common::replay::det_post;
use det_post_ros::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post_ros::messages::definition;

/// Writes a recording again, uncompressed: its payloads are slices of the mapped file.
fn uncompress(from: &Path, to: &Path) {
    let mut reader = BagReader::open(from).unwrap();
    let mut writer = BagWriter::create(to, BagCompression::None).unwrap();
    let add = |topic: &det_post_ros::bag::TopicInfo| {
        let text = definition(&topic.type_name).unwrap();
        writer.add_topic(&topic.name, &topic.type_name, &text, OfferedQos::default()).unwrap()
    };
    let topics: Vec<usize> = reader.topics().iter().map(add).collect();
    while let Some(message) = reader.next_message().unwrap() {
        writer.write(topics[message.topic], message.log_time, message.data).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn uploads_and_frames_in_flight_do_not_change_detections() {
    if !has_gpu() {
        return;
    }
    let sample = tempfile::tempdir().unwrap();
    let (config, drive) = (write_sample(sample.path()), sample.path().join("drive"));
    let plain = sample.path().join("plain");
    uncompress(&drive, &plain);
    let mut expected = None;
    for (bag, mib, threads, in_flight, zero_copy) in [
        (&drive, 256, 4, 1, "never"),
        (&drive, 256, 4, 2, "never"),
        (&plain, 0, 1, 1, "never"),
        (&plain, 0, 4, 2, "never"),
        (&plain, 1, 1, 2, "never"),
        (&plain, 256, 4, 1, "never"),
        (&plain, 256, 4, 2, "never"),
        (&plain, 0, 4, 4, "never"),
        (&plain, 256, 4, 8, "never"),
        (&drive, 256, 4, 1, "always"),
        (&plain, 0, 4, 1, "always"),
        (&plain, 256, 4, 2, "always"),
    ] {
        let out = sample.path().join("out");
        let parameters = [
            "camera.engine.kind:=rten".to_owned(),
            "lidar.engine.kind:=rten".to_owned(),
            "device:=cuda:0".to_owned(),
            format!("mapped_upload_mib:={mib}"),
            format!("copy_threads:={threads}"),
            format!("camera.zero_copy:={zero_copy}"),
            format!("lidar.zero_copy:={zero_copy}"),
        ];
        let (bag_text, out_text) = (bag.display().to_string(), out.display().to_string());
        let in_flight = in_flight.to_string();
        let mut arguments = vec!["replay", &bag_text, "--config", &config, "--out", &out_text];
        arguments.extend(["--frames-in-flight", &in_flight]);
        parameters.iter().for_each(|parameter| arguments.extend(["-p", parameter]));
        let mut run = det_post(&arguments);
        run.out = out;
        let report = run.report();
        let uploads = &report["uploads"];
        println!("{arguments:?}: {uploads}");
        let [in_place, copied] =
            ["in_place_bytes", "copied_bytes"].map(|key| uploads[key].as_u64().unwrap());
        assert!(in_place + copied > 0);
        if mib == 0 || bag == &drive {
            assert!(in_place == 0 && uploads["refused"].is_string());
        } else if uploads["refused"].is_null() {
            assert!(in_place > 0);
        }
        for channel in ["camera", "lidar"] {
            let moved = report["channels"][channel]["bytes_per_frame"].as_array().unwrap();
            let of_payload = moved.iter().find(|row| row["stage"] == "upload");
            let uploaded = of_payload.map_or(0, |row| row["upload"].as_u64().unwrap());
            assert_eq!(uploaded == 0, zero_copy == "always", "{channel}: {uploaded}");
        }
        let found = (run.code, run.bytes("detections.jsonl"));
        assert!(!found.1.is_empty());
        assert!(*expected.get_or_insert_with(|| found.clone()) == found, "{arguments:?}");
    }
}
