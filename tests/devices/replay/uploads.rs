//! However payloads reach the GPU, the detections are the same.

use super::{has_gpu, replay, write_sample};

#[test]
fn copied_and_registered_payloads_give_the_same_bytes() {
    if !has_gpu() {
        return;
    }
    let sample = tempfile::tempdir().unwrap();
    let (config, drive) = (write_sample(sample.path()), sample.path().join("drive"));
    let mut expected = None;
    for (mib, threads) in [(0, 1), (0, 4), (1, 1), (256, 4)] {
        let parameters = [
            "camera.engine.kind:=rten".to_owned(),
            "lidar.engine.kind:=rten".to_owned(),
            "device:=cuda:0".to_owned(),
            format!("mapped_upload_mib:={mib}"),
            format!("copy_threads:={threads}"),
        ];
        let out = sample.path().join(format!("out_{mib}_{threads}"));
        let run = replay(&drive, &config, &parameters, &out);
        let report = run.report();
        let uploads = &report["uploads"];
        println!("mapped_upload_mib {mib}: {uploads}");
        let [in_place, copied] =
            ["in_place_bytes", "copied_bytes"].map(|key| uploads[key].as_u64().unwrap());
        assert!(in_place + copied > 0);
        if mib == 0 {
            assert!(in_place == 0 && uploads["refused"].is_string());
        }
        let found = (run.code, run.bytes("detections.jsonl"));
        assert!(!found.1.is_empty());
        assert!(*expected.get_or_insert_with(|| found.clone()) == found, "{mib} {threads}");
    }
}
