//! `tools/export_view_decoder.py`: checkpoints with a prefix and with more than a decoder
//! needs give the file of the decoder.

use std::process::{Command, Output};

use det_post_infer::safetensors::SafeTensors;
use det_post_infer::view_decoder::parse;
use det_post_types::ViewDecoder;

use det_post_testing::require::{Need, skip};
use det_post_testing::view_networks::{detr3d, detr3d_facts, sparse4d, sparse4d_facts};

fn run(python: &str, script: &str, arguments: &[&str]) -> Output {
    let path = det_post_testing::workspace().join(script);
    Command::new(python).arg(path).args(arguments).output().unwrap()
}

#[test]
fn checkpoints_become_files_of_their_decoder() {
    let Ok(python) = std::env::var("DET_POST_TORCH_PYTHON") else {
        return skip(Need::Torch, format_args!("DET_POST_TORCH_PYTHON names no Python"));
    };
    let cases = [
        (
            detr3d(&detr3d_facts()),
            ViewDecoder::Detr3d(detr3d_facts()),
            "pts_bbox_head.",
            &["code_weights", "cls_branches.0.0.weight"][..],
            "kind: detr3d\ndecoder: {channels: 16, queries: 12, blocks: 2}\n",
        ),
        (
            sparse4d(&sparse4d_facts()),
            ViewDecoder::Sparse4d(sparse4d_facts()),
            "module.head.",
            &["instance_bank.anchor_handler.fix_scale"],
            "kind: sparse4d\ndecoder: {channels: 16, anchors: 10, blocks: 3, single_frame_blocks: 1, \
             quality: true}\n",
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (source, checkpoint, out) = (path("a.safetensors"), path("a.pth"), path("b.safetensors"));
    for (weights, facts, prefix, unused, printed) in cases {
        let bytes = weights.to_safetensors();
        std::fs::write(&source, &bytes).unwrap();
        let arguments = [&[source.as_str(), &checkpoint, prefix], unused].concat();
        let made = run(&python, "crates/infer/tests/reference/views/checkpoint.py", &arguments);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let exported = run(&python, "tools/export_view_decoder.py", &[&checkpoint, &out]);
        assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
        assert_eq!(String::from_utf8_lossy(&exported.stdout), printed);
        let found = std::fs::read(&out).unwrap();
        parse(&found, &facts).unwrap();
        let (found, expected) =
            (SafeTensors::parse(&found).unwrap(), SafeTensors::parse(&bytes).unwrap());
        assert!(found.names().eq(expected.names()));
        for name in expected.names() {
            assert_eq!(found.get(name), expected.get(name), "{name}");
        }
    }
    let half = run(&python, "tools/export_view_decoder.py", &[&checkpoint, &out, "--half"]);
    assert!(half.status.success());
    assert!(
        std::fs::metadata(&out).unwrap().len() < std::fs::metadata(&source).unwrap().len() * 2 / 3
    );
    std::fs::write(&checkpoint, b"no checkpoint").unwrap();
    let refused = run(&python, "tools/export_view_decoder.py", &[&checkpoint, &out]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("weights_only"), "{message}");
}
