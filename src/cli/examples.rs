//! Examples in `--help`.

use std::fmt::Write as _;

use super::exit;

/// Of each command two calls, and of the program, by no name, the first three.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "det_post demo",
            "det_post replay drive --model yolo11n.onnx --topic /image_raw --out out",
            "det_post run --model yolo11n.onnx --topic /image_raw",
        ],
    ),
    ("demo", &["det_post demo", "det_post demo --surround --seconds 5 --out six_cameras"]),
    ("inspect", &["det_post inspect drive", "det_post inspect drive/drive_0.mcap"]),
    (
        "check",
        &[
            "det_post check yolo11n.onnx",
            "det_post check --model yolo11n.onnx --topic /image_raw > my.param.yaml",
        ],
    ),
    (
        "replay",
        &[
            "det_post replay drive --model yolo11n.onnx --topic /image_raw --images 3 --out out",
            "det_post replay drive --config my.param.yaml --from +60 --frames 100 --out out",
        ],
    ),
    (
        "eval",
        &[
            "det_post eval --detections out --truth drive --html report.html",
            "det_post eval --detections a_out b_out --truth a b --json eval.json",
        ],
    ),
    (
        "run",
        &[
            "det_post run --model yolo11n.onnx --topic /image_raw",
            "det_post run --config my.param.yaml --ros-args -r __ns:=/front",
        ],
    ),
    (
        "simulate",
        &[
            "det_post simulate --seed 1 --seconds 5 --out town",
            "det_post simulate --cameras 6 --lidars 0 --image-size 640x360 --out rig",
        ],
    ),
    ("bench", &["det_post bench", "det_post bench nms --device cpu --json nms.json"]),
    (
        "migrate",
        &[
            "det_post migrate yolox_tiny.param.yaml -p model_path:=yolox.onnx",
            "det_post migrate ml_package.param.yaml centerpoint.param.yaml --format json",
        ],
    ),
    (
        "calibrate",
        &[
            "det_post calibrate drive --config rig.param.yaml --out scales.yaml",
            "det_post calibrate drive --config rig.param.yaml --method percentile --percentile 99.9",
        ],
    ),
    (
        "completions",
        &["source <(det_post completions bash)", "det_post completions zsh > _det_post"],
    ),
    ("man", &["det_post man ~/.local/share/man/man1", "det_post man pages"]),
];

/// What `--help` of a command ends with: its examples and the exit codes.
pub(super) fn help(command: &str) -> String {
    let mut text = String::new();
    if let Some((_, calls)) = EXAMPLES.iter().find(|(of, _)| *of == command) {
        text += "Examples:\n";
        for call in *calls {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {call}");
        }
        text.push('\n');
    }
    text + exit::HELP
}
