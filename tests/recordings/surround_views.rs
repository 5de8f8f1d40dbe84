//! Six cameras of a simulated drive through small DETR3D and Sparse4D decoders with
//! random weights.

use det_post_types::{Detr3d, MapLayout, Sparse4d};

use super::surround::{NUM_SERVED, frames, reasons};
use crate::common::replay::det_post;
use crate::common::surround_rig::{Fixture, NUM_FRAMES};
use crate::common::view_networks::{detr3d, detr3d_facts, sparse4d, sparse4d_facts};
use crate::common::view_rig::{
    INT8_SCALE, detr3d_fixture, float_backbone, int8_backbone, int8_decoder, int8_fixture,
    sparse4d_fixture,
};

#[test]
fn both_families_find_boxes_in_the_frame_of_the_vehicle() {
    for fixture in [detr3d_fixture(), sparse4d_fixture()] {
        let run = fixture.replay(&fixture.drive(), "out", &[]);
        assert_eq!(frames(&run), (NUM_SERVED, reasons(&[("uncalibrated", 1)])));
        let lines = run.lines();
        assert_eq!(lines.len() as u64, NUM_SERVED);
        for line in &lines {
            assert_eq!(line["frame_id"], "base_link", "{line}");
            assert!(!line["detections_3d"].as_array().unwrap().is_empty(), "{line}");
        }
        // Equal again, and in a process of its own.
        let again = fixture.replay(&fixture.drive(), "again", &[]);
        let isolated = fixture.replay(&fixture.drive(), "isolated", &["rig.isolate:=true"]);
        for run in [&again, &isolated] {
            assert_eq!(run.expect_code(0).lines(), lines);
        }
    }
}

#[test]
fn the_memory_of_sparse4d_ends_with_a_gap_and_detr3d_has_none() {
    let differs = |fixture: &Fixture| {
        let plain = fixture.replay(&fixture.drive(), "plain", &[]).lines();
        let single = ["rig.memory.max_gap_s:=0.05"];
        let single = fixture.replay(&fixture.drive(), "single", &single).lines();
        assert_eq!(plain[0], single[0]);
        plain[1..] != single[1..]
    };
    assert!(differs(&sparse4d_fixture()));
    assert!(!differs(&detr3d_fixture()));
}

#[test]
fn a_camera_may_be_missing() {
    for fixture in [detr3d_fixture(), sparse4d_fixture()] {
        let gap = fixture.rewrite("gap_bag", |topic, count, data| {
            (topic != "/camera_1/image" || count != 2).then(|| data.to_vec())
        });
        let all = NUM_FRAMES as u64;
        let first = ("uncalibrated", 1);
        let run = fixture.replay(&gap, "gap", &[]);
        assert_eq!(frames(&run), (all - 2, reasons(&[("incomplete_views", 1), first])));
        let few = ["rig.sync.min_cameras:=5"];
        let run = fixture.replay(&gap, "five", &few);
        assert_eq!(frames(&run), (all - 1, reasons(&[first])));
        // The frames before are those of all cameras, the frame itself is not.
        let (with, without) = (fixture.replay(&fixture.drive(), "six", &few).lines(), run.lines());
        assert_eq!(with[..1], without[..1]);
        assert_ne!(with[1], without[1]);
    }
}

#[test]
fn calibration_finds_the_scales_of_int8_maps() {
    let fixture = detr3d_fixture();
    let config = fixture.path("rig.param.yaml").display().to_string();
    let (bag, scales) = (fixture.drive().display().to_string(), fixture.path("scales.param.yaml"));
    let out = scales.display().to_string();
    let calibrate = |more: &[&str]| {
        let arguments = [&["calibrate", &bag, "--config", &config][..], more].concat();
        det_post(&arguments)
    };
    // A file of the user stays, and is refused before the recording is looked for.
    let own = std::fs::read_to_string(&config).unwrap();
    for bag in [bag.as_str(), "no.mcap"] {
        let run = det_post(&["calibrate", bag, "--config", &config, "--out", &config]);
        run.expect_code(2);
        assert!(
            run.stderr.contains("rig.param.yaml was not written by det_post"),
            "{}",
            run.stderr
        );
    }
    assert_eq!(std::fs::read_to_string(&config).unwrap(), own);
    calibrate(&["--out", &out]).expect_code(0);
    calibrate(&["--out", &out]).expect_code(0);
    let text = std::fs::read_to_string(&scales).unwrap();
    assert!(text.contains(&format!("# channel rig: {NUM_SERVED} frames\n")), "{text}");
    // A row for each level and method; the scale with the least error is the one of its level.
    let rows = |text: &str| -> Vec<(String, f64, bool)> {
        let rows = text.lines().filter(|line| line.contains(" % "));
        let row = |line: &str| {
            let words: Vec<&str> = line.trim_start_matches('#').split_whitespace().collect();
            (words[1].to_owned(), words[3].parse().unwrap(), line.ends_with('*'))
        };
        rows.map(row).collect()
    };
    let of_auto = rows(&text);
    assert_eq!(of_auto.len(), 6, "{text}");
    for level in of_auto.chunks(3) {
        assert!(level[0].2 && level[0].1 <= level[1].1 && level[1].1 <= level[2].1, "{text}");
        let mut names: Vec<&str> = level.iter().map(|row| row.0.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["cosine", "entropy", "percentile"]);
    }
    let scales_of = |text: &str| -> Vec<f32> {
        let (_, list) = text.split_once("map_scales: [").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        list.split(", ").map(|scale| scale.parse().unwrap()).collect()
    };
    let found = scales_of(&text);
    // Two levels, the second made of texels of the first. The largest value is at least as
    // large; printed without a file, whatever scales the configuration has.
    let by_percentile = ["--method", "percentile", "--percentile", "100"];
    let more = ["-p", "rig.decoder.map_scales:=[9.0, 9.0]"];
    let largest = calibrate(&[&by_percentile[..], &more].concat());
    let largest = scales_of(&largest.expect_code(0).stdout);
    assert_eq!((found.len(), largest.len()), (2, 2));
    assert!(found.iter().zip(&largest).all(|(a, b)| 0.0 < *a && a <= b), "{found:?} {largest:?}");
    assert!(largest[1] <= largest[0]);
    for method in ["entropy", "cosine"] {
        let run = calibrate(&["--method", method]);
        let run = run.expect_code(0);
        assert!(rows(&run.stdout).iter().all(|row| row.0 == method && row.2), "{}", run.stdout);
        let scales = scales_of(&run.stdout);
        assert!(scales.iter().zip(&largest).all(|(a, b)| 0.0 < *a && *a <= b * 1.001), "{method}");
    }

    // The file is one more parameter file of a replay, whose scores it changes a little.
    let all = ["-p", "rig.score_thresholds:=0.0"];
    let replay = |files: &[&str], name: &str| {
        let out = fixture.path(name).display().to_string();
        let config = files.iter().flat_map(|file| ["--config", *file]).collect::<Vec<_>>();
        let arguments = [&["replay", &bag, "--out", &out], &config[..], &all].concat();
        det_post(&arguments).expect_code(0);
        let text = std::fs::read_to_string(fixture.path(name).join("detections.jsonl")).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let detections = line["detections_3d"].as_array().unwrap().iter();
        detections.map(|one| one["score"].as_f64().unwrap()).collect::<Vec<f64>>()
    };
    let (floats, integers) = (replay(&[&config], "floats"), replay(&[&config, &out], "integers"));
    assert_eq!(floats.len(), integers.len());
    let apart = floats.iter().zip(&integers).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart > 0.0 && apart < 0.03, "{apart}");

    let refused = |more: &[&str], expected: &str| {
        let run = calibrate(more);
        assert!(run.code != 0 && run.stderr.contains(expected), "{expected}: {}", run.stderr);
    };
    refused(&["--percentile", "40"], "above 50 and at most 100");
    refused(&["--method", "largest"], "percentile, entropy, cosine");
    refused(&["-p", "rig.world_frame:=nowhere"], "no frame was complete");
    let camera = ["calibrate", &bag, "--config", "config/camera.param.yaml"];
    let run = det_post(&camera);
    assert!(run.stderr.contains("no channel has a head of kind"), "{}", run.stderr);
}

/// Maps that the backbone quantizes give the detections of maps that are quantized here by the same scale,
/// in every layout.
#[test]
fn int8_maps_of_a_backbone_are_read_as_they_are() {
    for is_detr3d in [true, false] {
        let fixture = int8_fixture(is_detr3d, MapLayout::Planar);
        let floats = fixture.path("floats.onnx");
        float_backbone(&floats);
        let model = format!("rig.model_path:={}", floats.display());
        let scales = format!("rig.decoder.map_scales:=[{INT8_SCALE}, {INT8_SCALE}]");
        let all = "rig.score_thresholds:=0.0";
        let quantized = fixture.replay(&fixture.drive(), "floats", &[&model, &scales, all]);
        let expected = quantized.expect_code(0).lines();
        let plain = fixture.replay(&fixture.drive(), "plain", &[&model, all]);
        assert_ne!(plain.expect_code(0).lines(), expected);
        for layout in [MapLayout::Planar, MapLayout::ChannelsLast, MapLayout::Blocks32] {
            int8_backbone(layout).save(&fixture.path("backbone.onnx")).unwrap();
            std::fs::write(fixture.path("head.yaml"), int8_decoder(is_detr3d, layout).0).unwrap();
            let run = fixture.replay(&fixture.drive(), "int8", &[all]);
            assert!(run.expect_code(0).lines() == expected, "{is_detr3d} {layout:?}");
            // The same scales are no contradiction; others are.
            let run = fixture.replay(&fixture.drive(), "same", &[all, &scales]);
            assert!(run.expect_code(0).lines() == expected, "{is_detr3d} {layout:?}");
        }
        let refused = |more: &[&str], expected: &str| {
            let run = fixture.replay(&fixture.drive(), "refused", more);
            assert!(run.code != 0 && run.stderr.contains(expected), "{expected}: {}", run.stderr);
        };
        let others = "rig.decoder.map_scales:=[0.1, 0.1]";
        refused(&[others], "quantizes its output maps_i8 by 0.05: leave decoder.map_scales out");
        let config = fixture.path("rig.param.yaml").display().to_string();
        let bag = fixture.drive().display().to_string();
        let run = det_post(&["calibrate", &bag, "--config", &config]);
        assert!(run.code != 0 && run.stderr.contains("int8 already"), "{}", run.stderr);
        let head = int8_decoder(is_detr3d, MapLayout::Blocks32).0;
        std::fs::write(fixture.path("head.yaml"), head.replace("channels: 32", "channels: 48"))
            .unwrap();
        refused(&[], "blocks_32 with channels in steps of 32");
    }
}

#[test]
fn files_that_do_not_fit_each_other_are_refused_by_name() {
    let fixture = sparse4d_fixture();
    let refused = |change: &[&str], expected: &str| {
        let run = fixture.replay(&fixture.drive(), "refused", change);
        assert!(run.code != 0 && run.stderr.contains(expected), "{expected}: {}", run.stderr);
    };
    let two = "rig.inputs:=[/camera_0/image, /camera_1/image]";
    refused(&[two], "takes 6 cameras");
    refused(&["rig.decoder.precision:=f16"], "f16 requires a GPU");
    refused(&["rig.decoder.map_scales:=[0.1]"], "allowed: 2 scales, one per level");
    let no_file = format!("rig.weights_path:={}", fixture.path("no.safetensors").display());
    refused(&[&no_file], "no.safetensors");
    let weights = detr3d(&Detr3d { num_views: 6, ..detr3d_facts() }).to_safetensors();
    std::fs::write(fixture.path("weights.safetensors"), weights).unwrap();
    refused(&[], "weights.safetensors: tensor instance_bank.anchor is missing");
    let head = std::fs::read_to_string(fixture.path("head.yaml")).unwrap();
    let write = |head: String| std::fs::write(fixture.path("head.yaml"), head).unwrap();
    write(head.replace("cameras: 6\n", ""));
    refused(&[], "cameras: is missing; allowed: the number of cameras");
    write(head.replace("level_strides: [8]", "level_strides: [8, 16]"));
    let weights = sparse4d(&Sparse4d { num_views: 6, num_levels: 3, ..sparse4d_facts() });
    std::fs::write(fixture.path("weights.safetensors"), weights.to_safetensors()).unwrap();
    refused(&[], "the backbone has 1 outputs, the head 2 level_strides");
}
