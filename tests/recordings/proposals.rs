//! Clouds through the networks of Autoware's TransFusion and BEVFusion, in the place of its nodes:
//! the objects of `chain_expected.json` of the shared data.

use crate::common::drop_in::proposals::{
    LIMITS, NODES, assert_objects, cases, clouds, last_message, write_clouds,
};
use crate::common::shared_data::shared_data;

#[test]
fn clouds_become_the_objects_of_autoware() {
    let Some(data) = shared_data() else { return };
    for node in &NODES {
        for case in &cases(&data, node) {
            let name = format!("{} {}", node.package, case["case"]);
            let folder = tempfile::tempdir().unwrap();
            let bag = folder.path().join("drive");
            let num_frames = write_clouds(&bag, &clouds(&data, node, case));
            let replay = |out: &str| node.replay(&data, &bag, folder.path().join(out), &[LIMITS]);
            let run = replay("out");
            run.expect_code(0);
            assert_eq!(run.lines().len(), num_frames, "{name}");
            let message = last_message(&run, node.topic);
            assert_objects(&message, case["objects"].as_array().unwrap(), &name);
            let again = replay("again");
            assert_eq!(again.bytes("detections.jsonl"), run.bytes("detections.jsonl"), "{name}");
        }
    }
}

/// A cloud that fills fewer voxels than the network takes is dropped with its reason.
#[test]
fn frames_with_too_few_voxels_are_dropped() {
    let Some(data) = shared_data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    write_clouds(&bag, &clouds(&data, &NODES[0], &cases(&data, &NODES[0])[0]));
    // The cloud fills 7421.
    for (least, num_lines) in [(7421, 1), (7422, 0)] {
        let set = format!("voxels_num:=[{least}, 20000, 60000]");
        let run = NODES[0].replay(&data, &bag, folder.path().join(format!("{least}")), &[&set]);
        let report = run.report();
        let dropped = &report["channels"]["lidar"]["dropped"]["too_few_voxels"]["count"];
        assert_eq!(run.lines().len(), num_lines, "{}: {}", run.stdout, run.stderr);
        assert_eq!(dropped.as_u64().unwrap_or(0), 1 - num_lines as u64, "{report}");
    }
}
