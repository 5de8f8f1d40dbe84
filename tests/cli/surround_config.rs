//! Parameters of surround channels.

use std::path::PathBuf;
use std::time::Duration;

use det_post::Result;
use det_post::config::{
    ChannelConfig, ChannelKind, Config, SurroundConfig, SurroundDecoder, SurroundKind, SyncPolicy,
};
use det_post_ros::OutputType;
use det_post_types::{
    CachedYaw, ClassMode, Nms3d, PixelConvention, SizeOrder, Undistort, ViewDecoder, ViewPrecision,
};

const REQUIRED: [&str; 5] = [
    "rig.inputs:=[/cam/front/image_raw, /cam/left/image_raw/compressed]",
    "rig.head:=streampetr_autoware",
    "rig.model_path:=backbone.onnx",
    "rig.position_embedding_path:=position.onnx",
    "rig.head_path:=head.onnx",
];

fn load(more: &[&str]) -> Result<ChannelConfig> {
    let overrides: Vec<String> = REQUIRED.iter().chain(more).map(|&text| text.into()).collect();
    Config::load(&[], &overrides).map(|config| config.channels.into_iter().next().unwrap())
}

fn surround(channel: &ChannelConfig) -> &SurroundConfig {
    match &channel.kind {
        ChannelKind::Surround(surround) => surround,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_surround_channel_has_the_defaults_of_its_head() {
    let channel = load(&[]).unwrap();
    let topics: Vec<_> = channel.inputs.iter().map(|input| input.topic.as_str()).collect();
    assert_eq!(topics, ["/cam/front/image_raw", "/cam/left/image_raw/compressed"]);
    assert_eq!([false, true], [0, 1].map(|index| channel.inputs[index].is_compressed));
    for (input, info) in
        channel.inputs.iter().zip(["/cam/front/camera_info", "/cam/left/camera_info"])
    {
        assert_eq!(input.camera_info.as_deref(), Some(info));
        assert_eq!(input.calibration_path, None);
    }
    assert_eq!(channel.publish.format.output_type, OutputType::Detection3dArray);
    assert_eq!(channel.sync.policy, SyncPolicy::Nearest);
    // Seconds are read in single precision.
    let wait = channel.live.transform_wait;
    assert!(wait.abs_diff(Duration::from_millis(100)) < Duration::from_nanos(10));
    assert!(channel.live.publishes_markers);
    let surround = surround(&channel);
    assert_eq!(
        (surround.target_frame.as_str(), surround.world_frame.as_str()),
        ("base_link", "map")
    );
    assert_eq!(surround.undistort, Undistort::Auto);
    assert!(!surround.compensate_skew, "Autoware does not");
    assert_eq!(surround.max_gap, Duration::from_millis(500));
    assert_eq!(surround.transforms_path, None);
    assert_eq!(surround.facts.class_names[4], "PEDESTRIAN");
    assert_eq!(surround.facts.pixel_convention, PixelConvention::Trainer);
    assert_eq!(surround.facts.size_order, SizeOrder::LengthWidthHeight);
    let [Nms3d::Bev(nms)] = &surround.nms[..] else { panic!("{:?}", surround.nms) };
    assert_eq!((nms.iou_thresholds[0], nms.search_distance_m), (0.5, 10.0));
    assert_eq!(nms.class_mode, ClassMode::Agnostic);
    assert_eq!(nms.forbidden_pairs, [[0, 4], [1, 4], [2, 4], [3, 4]]);
    let range = channel.kind.point_range().unwrap();
    assert_eq!((range.min, range.max), ([-61.2, -61.2, -10.0], [61.2, 61.2, 10.0]));
}

#[test]
fn scores_of_streampetr_are_above_their_thresholds() {
    let channel = load(&["rig.class_filter:=[CAR, BUS]"]).unwrap();
    let decode = surround(&channel).streampetr_decode(true);
    assert!(decode.channels_last);
    let least = |class: u32| decode.query.score_thresholds.at(class, 10.0).unwrap();
    for (class, threshold) in [(0, 0.36_f32), (2, 0.38)] {
        assert!(least(class) > threshold && least(class).next_down() <= threshold);
    }
    assert!(least(1).is_infinite() && least(4).is_infinite());
    assert_eq!(decode.query.yaw_norm_thresholds, [0.3, 0.3, 0.3, 0.3, 0.0]);
}

#[test]
fn values_of_a_surround_channel_arrive_and_survive_their_own_yaml() {
    let channel = load(&[
        "rig.calibration_paths:=[front.yaml, left.yaml]",
        "rig.transforms_path:=rig.yaml",
        "rig.target_frame:=ego",
        "rig.world_frame:=odom",
        "rig.reference_camera:=1",
        "rig.sync.max_skew_s:=0.1",
        "rig.sync.min_cameras:=2",
        "rig.undistort:=never",
        "rig.compensate_skew:=true",
        "rig.transform_wait_s:=0.5",
        "rig.memory.max_gap_s:=2.0",
        "rig.nms.kind:=none",
    ])
    .unwrap();
    assert!(channel.inputs.iter().all(|input| input.camera_info.is_none()));
    assert_eq!(channel.inputs[1].calibration_path, Some(PathBuf::from("left.yaml")));
    assert_eq!((channel.sync.reference, channel.sync.min_inputs), (1, Some(2)));
    assert_eq!(channel.live.transform_wait, Duration::from_millis(500));
    let found = surround(&channel);
    assert_eq!((found.target_frame.as_str(), found.world_frame.as_str()), ("ego", "odom"));
    assert_eq!(found.transforms_path, Some(PathBuf::from("rig.yaml")));
    assert!(found.compensate_skew && found.undistort == Undistort::Never);
    assert_eq!((found.max_gap, &found.nms[..]), (Duration::from_secs(2), &[Nms3d::None][..]));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), channel.to_yaml()).unwrap();
    let again = Config::load(&[file.path().to_owned()], &[]).unwrap();
    assert_eq!(again.channels, [channel]);
}

#[test]
fn what_contradicts_itself_is_refused_by_name() {
    for (more, part) in [
        ("rig.camera_infos:=[/info]", "rig.camera_infos: found 1 items; allowed: 2, one per input"),
        ("rig.calibration_paths:=[a, b, c]", "rig.calibration_paths: found 3 items"),
        ("rig.sync.min_cameras:=1", "all 2: the head cannot mask a missing camera"),
        ("rig.reference_camera:=2", "rig.reference_camera: found 2"),
        ("rig.memory.max_gap_s:=0.0", "rig.memory.max_gap_s"),
        ("rig.undistort:=always", "allowed: auto, never"),
        ("rig.input:=/one", "rig.input"),
        ("rig.encoder_path:=e", "rig.encoder_path"),
    ] {
        let error = load(&[more]).expect_err(part);
        assert!(error.message().contains(part), "no `{part}` in: {error}");
    }
    let topics: Vec<String> = (0..17).map(|index| format!("/c{index}")).collect();
    let error = load(&[&format!("rig.inputs:=[{}]", topics.join(", "))]).unwrap_err();
    assert!(
        error.message().contains("rig.inputs: found 17 topics; allowed: at most 16"),
        "{error}"
    );
}

#[test]
fn heads_of_view_decoders_state_their_facts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.yaml");
    let common = "sensor: surround\nclass_names: [car, bus]\ncameras: 2\ninput_size: [640, 352]\n\
                  channel_order: rgb\nmean: [0, 0, 0]\nstd: [1, 1, 1]\nlevel_strides: [8, 16, 32]\n\
                  extra_level: true\nsize_order: length_width_height\nyaw: counter_clockwise\n";
    let load = |facts: &str, more: &[&str]| {
        std::fs::write(&path, format!("{common}{facts}")).unwrap();
        let head = format!("rig.head:={}", path.display());
        let all = [REQUIRED[0], REQUIRED[2], &head, "rig.weights_path:=decoder.safetensors"];
        let overrides: Vec<String> = all.iter().chain(more).map(|&text| text.into()).collect();
        Config::load(&[], &overrides).map(|config| config.channels.into_iter().next().unwrap())
    };
    let sparse4d = "kind: sparse4d\ncached_yaw: cos_sin\ndecoder: {channels: 96, heads: 6, groups: 6, \
                    anchors: 250, cached: 150, blocks: 3, quality: false}\n";
    let channel = load(sparse4d, &["rig.sync.min_cameras:=1"]).unwrap();
    let config = surround(&channel);
    assert!(config.compensate_skew, "own decoders are trained with the motion in their matrices");
    assert_eq!(
        config.decoder,
        SurroundDecoder::Views {
            weights_path: "decoder.safetensors".into(),
            precision: ViewPrecision::Auto,
            map_scales: None
        }
    );
    assert_eq!(config.model_paths().map(|(key, _)| key).collect::<Vec<_>>(), ["model", "weights"]);
    let SurroundKind::Views(facts) = &config.facts.kind else { panic!("{:?}", config.facts) };
    let ViewDecoder::Sparse4d(decoder) = &facts.decoder else { panic!("{facts:?}") };
    assert_eq!((decoder.num_views, decoder.num_levels, decoder.num_classes), (2, 4, 2));
    assert_eq!((decoder.num_groups, decoder.num_single_frame_blocks), (6, 1));
    assert_eq!((decoder.cached_yaw, decoder.has_quality), (CachedYaw::CosSin, false));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), channel.to_yaml()).unwrap();
    assert_eq!(Config::load(&[file.path().to_owned()], &[]).unwrap().channels, [channel]);

    let detr3d = "kind: detr3d\npoint_range_m: [-51.2, -51.2, -5, 51.2, 51.2, 3]\n\
                  decoder: {channels: 256, queries: 900, blocks: 6}\n";
    let channel = load(detr3d, &[]).unwrap();
    let SurroundKind::Views(facts) = &surround(&channel).facts.kind else { panic!("views") };
    let ViewDecoder::Detr3d(decoder) = &facts.decoder else { panic!("{facts:?}") };
    assert_eq!((decoder.num_heads, decoder.num_queries, decoder.range.max[0]), (8, 900, 51.2));

    for (facts, part) in [
        ("kind: detr3d\ndecoder: {channels: 256, queries: 900, blocks: 6}\n", "point_range_m"),
        ("kind: sparse4d\ndecoder: {channels: 96, blocks: 3}\n", "decoder.anchors"),
        (&*format!("{sparse4d}decoder.queries: 3\n"), "decoder.queries"),
    ] {
        let error = load(facts, &[]).expect_err(part);
        assert!(error.message().contains(part), "no `{part}` in: {error}");
    }

    // As many distance bins as a GPU decodes.
    let limits = |num: usize| {
        let limits: Vec<String> = (1..=num).map(|limit| limit.to_string()).collect();
        format!("rig.distance_upper_limits_m:=[{}]", limits.join(", "))
    };
    load(detr3d, &[&limits(16)]).unwrap();
    let error = load(detr3d, &[&limits(17)]).unwrap_err();
    let part = "rig.distance_upper_limits_m: found 17 limits; allowed: at most 16 limits";
    assert!(error.message().contains(part), "{error}");

    // The CPU has no f16.
    load(detr3d, &["rig.fallback:=cpu"]).unwrap();
    let error = load(detr3d, &["rig.fallback:=cpu", "rig.decoder.precision:=f16"]).unwrap_err();
    let part = "rig.fallback: found cpu; allowed: none with decoder.precision f16";
    assert!(error.message().contains(part), "{error}");

    // As many pairs of a query and a class as a GPU decodes; 2 classes have fewer.
    load(detr3d, &["rig.pre_nms_top_k:=1048576"]).unwrap();
    let more = detr3d.replace("queries: 900", "queries: 4500");
    load(&more, &["rig.pre_nms_top_k:=8192"]).unwrap();
    let error = load(&more, &["rig.pre_nms_top_k:=8193"]).unwrap_err();
    let part = "rig.pre_nms_top_k: found 8193; allowed: at most 8192 of 9000 pairs";
    assert!(error.message().contains(part), "{error}");
}
