//! View decoders from C: the golden frames of DETR3D, Sparse4D and StreamPETR.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::programs::{Language, Program};
use super::require::{Need, skip};
use super::safetensors::{Named, read};
use super::streampetr::REFERENCE;
use super::{shared_data, view_files};

/// A golden case.
struct Case {
    name: &'static str,
    inputs: Named,
    expected: Named,
}

/// The largest differences of logits and boxes, frame by frame, as in the tests of the crates.
fn bounds(name: &str) -> &'static [[f32; 2]] {
    match name {
        "detr3d_c64" => &[[7.5e-3, 3e-3]],
        "detr3d_c256" => &[[3.5e-4, 2.7e-4]],
        "sparse4d_c64" => &[[5e-5, 2.5e-5], [1e-4, 4e-5], [4e-4, 2.4e-4]],
        _ => &[[5e-5, 3e-4]; 4],
    }
}

type Matrix = nalgebra::Matrix4<f64>;

fn matrices(tensor: &(Vec<usize>, Vec<f32>)) -> Vec<Matrix> {
    let of =
        |values: &[f32]| Matrix::from_row_iterator(values.iter().map(|&value| f64::from(value)));
    tensor.1.chunks(16).map(of).collect()
}

impl Case {
    fn open(data: &Path, name: &'static str) -> Self {
        let [inputs, expected] = ["inputs", "expected"].map(|file| {
            read(&data.join("surround").join(name).join(format!("{file}.safetensors")))
        });
        Self { name, inputs, expected }
    }

    fn is_streampetr(&self) -> bool {
        self.name == "petr_c64"
    }

    /// The cameras, and the frames: text of `frames.txt` and the maps.
    fn save(&self, folder: &Path) {
        let images = if self.is_streampetr() {
            let from_image = matrices(&self.inputs["img2base"]);
            from_image.into_iter().map(|matrix| matrix.try_inverse().unwrap()).collect()
        } else {
            matrices(&self.inputs["matrices"])
        };
        let mut cameras = Vec::new();
        for (index, matrix) in images.iter().enumerate() {
            cameras.extend(matrix.transpose().iter().take(12).copied());
            let focal = self.inputs.get("focal").map(|focal| &focal.1[2 * index..][..2]);
            let [x, y] = focal.map_or([0.0; 2], |focal| [focal[0], focal[1]].map(f64::from));
            cameras.extend([x, 0.0, 0.0, 0.0, y, 0.0, 0.0, 0.0, 1.0]);
        }
        let bytes: Vec<u8> = cameras.iter().flat_map(|value: &f64| value.to_le_bytes()).collect();
        fs::write(folder.join("cameras"), bytes).unwrap();
        let num_frames = bounds(self.name).len();
        let mut plan = format!("{num_frames} {}\n", self.maps(0).len());
        for frame in 0..num_frames {
            let (interval, matrix) = self.motion(frame);
            let rows = matrix.transpose();
            let rows: Vec<String> = rows.iter().map(|value| format!("{value:.17e}")).collect();
            plan += &format!("{interval:.17e} {}\n", rows.join(" "));
            for (index, (shape, values)) in self.maps(frame).into_iter().enumerate() {
                plan += &format!("{} {} {} {}\n", shape[0], shape[1], shape[2], shape[3]);
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                fs::write(folder.join(format!("frame{frame}.map{index}")), bytes).unwrap();
            }
        }
        fs::write(folder.join("frames.txt"), plan).unwrap();
    }

    fn maps(&self, frame: usize) -> Vec<(Vec<usize>, Vec<f32>)> {
        if self.is_streampetr() {
            let tokens = &self.inputs[&format!("frame{frame}.tokens")].1;
            let ([height, width], channels) = (REFERENCE.grid, REFERENCE.channels);
            let cells = height * width;
            let at = |i: usize| {
                let (camera, channel, cell) =
                    (i / (channels * cells), i / cells % channels, i % cells);
                tokens[(camera * cells + cell) * channels + channel]
            };
            let shape = vec![REFERENCE.cameras, channels, height, width];
            return vec![(shape, (0..tokens.len()).map(at).collect())];
        }
        let prefix =
            if self.name == "sparse4d_c64" { format!("frame{frame}.") } else { String::new() };
        let level = |level| self.inputs.get(&format!("{prefix}features.{level}")).cloned();
        (0..).map_while(level).collect()
    }

    /// The seconds since the frame before, and the motion; 0 for the first.
    fn motion(&self, frame: usize) -> (f64, Matrix) {
        if frame == 0 {
            return (0.0, Matrix::identity());
        }
        if self.is_streampetr() {
            let pose = |frame: usize| matrices(&self.inputs[&format!("frame{frame}.ego_pose")])[0];
            let stamps = &self.inputs["stamps"].1;
            let interval = f64::from(stamps[frame]) - f64::from(stamps[frame - 1]);
            return (interval, pose(frame).try_inverse().unwrap() * pose(frame - 1));
        }
        let interval = self.inputs[&format!("frame{frame}.dt")].1[0];
        let matrix = matrices(&self.inputs[&format!("frame{frame}.current_from_past")])[0];
        (f64::from(interval), matrix)
    }

    fn check(&self, folder: &Path) {
        for (frame, &[of_logits, of_boxes]) in bounds(self.name).iter().enumerate() {
            let prefix =
                if bounds(self.name).len() > 1 { format!("frame{frame}.") } else { String::new() };
            let logits = floats(&folder.join(format!("frame{frame}.logits")));
            let boxes = floats(&folder.join(format!("frame{frame}.boxes")));
            let wanted = |name: &str| &self.expected[&format!("{prefix}{name}")].1[..];
            if self.is_streampetr() {
                let (num, channels) = (REFERENCE.queries + REFERENCE.propagated, REFERENCE.classes);
                let of_last =
                    |values: &[f32], width: usize| values[values.len() - num * width..].to_vec();
                near(&of_last(&logits, channels), wanted("logits"), of_logits, &prefix);
                near(&of_last(&boxes, 10), wanted("reg"), of_boxes, &prefix);
            } else {
                near(&logits, wanted("logits"), of_logits, &prefix);
                let expected = wanted("boxes");
                let columns = expected.len() / (boxes.len() / 11);
                near(&decoded(&boxes, columns), expected, of_boxes, &prefix);
            }
        }
    }
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).unwrap();
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// Centre, extents, yaw and as many numbers of the velocity as the reference has.
fn decoded(boxes: &[f32], columns: usize) -> Vec<f32> {
    let of_row = |row: &[f32]| {
        let extents = [row[3].exp(), row[4].exp(), row[5].exp()];
        let all = [&row[..3], &extents, &[row[6].atan2(row[7])], &row[8..11]].concat();
        all[..columns].to_vec()
    };
    boxes.chunks(11).flat_map(of_row).collect()
}

#[track_caller]
fn near(found: &[f32], expected: &[f32], bound: f32, frame: &str) {
    assert_eq!(found.len(), expected.len(), "{frame}");
    let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off <= bound, "{frame}: {off:e} of {bound:e}");
}

#[track_caller]
fn run(device: &str, options: &[&str]) {
    let Some(data) = shared_data() else { return };
    let source = "capi/tests/abi/views.cpp";
    let options = [options, &["-ldl"]].concat();
    let Some(program) = Program::compile(source, Language::Cpp17, &options) else { return };
    let files = TempDir::new().unwrap();
    view_files::save_all(&data.join("surround"), files.path());
    for name in view_files::CASES {
        let case = Case::open(&data, name);
        let folder = TempDir::new().unwrap();
        case.save(folder.path());
        let parameters = files.path().join(name).join("params.yaml");
        let printed =
            program.run(&[parameters.to_str().unwrap(), folder.path().to_str().unwrap(), device]);
        if printed == "no GPU\n" {
            return skip(Need::Cuda, "no GPU");
        }
        assert_eq!(printed, "no failures\n", "{name}");
        case.check(folder.path());
    }
}

/// Host pointers, as they are and under the sanitizers of gcc.
#[test]
fn golden_frames_of_view_decoders() {
    run("cpu", &[]);
    run("cpu", &["-fsanitize=address,undefined", "-fno-sanitize-recover"]);
}

/// Device pointers on a stream of the caller, in f32.
#[test]
fn golden_frames_of_view_decoders_on_a_gpu() {
    run("cuda:0", &[]);
}
