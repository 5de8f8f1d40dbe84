//! `network`: the networks of a folder in each engine that the device has, one run from inputs in place to outputs in
//! place.

use std::path::{Path, PathBuf};

use super::inputs::Random;
use super::measure::Bench;
use det_post_ops::device::Device;
use det_post_types::{
    Dim, EngineKind, EngineOptions, Error, ErrorKind, Result, Tensor, TensorSpec,
};

/// Names an ONNX file, or a folder of such files; dynamic dimensions are 1. Without it there are no cases.
const NETWORKS_VARIABLE: &str = "DET_POST_BENCH_NETWORKS";

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    let Some(path) = std::env::var_os(NETWORKS_VARIABLE) else { return Ok(()) };
    for file in files(Path::new(&path))? {
        for engine in engines(device) {
            let name = format!("network {} {}", stem(&file), engine.name);
            if !bench.wants(&name) {
                continue;
            }
            // One engine that does not run a network leaves the others.
            if let Err(error) = measure(bench, &name, device, &file, &engine.options) {
                bench.print(&format!("{name}: {error}\n"))?;
            }
        }
    }
    Ok(())
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The ONNX files of a folder by name, or the one file.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |cause: std::io::Error| {
        let message = format!("{NETWORKS_VARIABLE}, {}: {cause}", path.display());
        Error::new(ErrorKind::Io, "bench", message)
    };
    let entries = std::fs::read_dir(path).map_err(unreadable)?;
    let mut files = entries
        .map(|entry| Ok(entry.map_err(unreadable)?.path()))
        .collect::<Result<Vec<PathBuf>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "onnx"));
    files.sort();
    Ok(files)
}

/// An engine with its options.
struct Candidate {
    name: &'static str,
    options: EngineOptions,
}

fn engines(device: &Device) -> Vec<Candidate> {
    let candidate = |name, kind, tf32, fp16| {
        let mut options = EngineOptions { kind, ..EngineOptions::default() };
        (options.gpu.tf32, options.gpu.fp16) = (tf32, fp16);
        Candidate { name, options }
    };
    match device {
        Device::Cpu => vec![
            candidate("rten", EngineKind::Rten, true, false),
            candidate("onnxruntime", EngineKind::OnnxRuntime, true, false),
        ],
        #[cfg(feature = "cuda")]
        Device::Cuda(_) => vec![
            candidate("cuda f16", EngineKind::Cuda, true, false),
            candidate("cuda f32", EngineKind::Cuda, false, false),
            candidate("onnxruntime f16", EngineKind::OnnxRuntime, true, true),
            candidate("onnxruntime tf32", EngineKind::OnnxRuntime, true, false),
        ],
    }
}

fn shape_of(spec: &TensorSpec) -> Vec<usize> {
    let length = |dim: &Dim| if let Dim::Fixed(length) = dim { *length } else { 1 };
    spec.shape.as_deref().unwrap_or_default().iter().map(length).collect()
}

/// Noise in [0, 1).
fn noise(shape: &[usize]) -> Tensor {
    let mut random = Random::new(23);
    let values = (0..shape.iter().product()).map(|_| random.range(0.0, 1.0)).collect();
    Tensor::F32 { shape: shape.into(), values }
}

fn measure(
    bench: &mut Bench<'_>,
    name: &str,
    device: &Device,
    file: &Path,
    options: &EngineOptions,
) -> Result<()> {
    use super::case::Case;

    match device {
        Device::Cpu => {
            let mut engine = det_post_infer::load(file, options)?;
            let inputs: Vec<_> =
                engine.inputs().iter().map(|spec| noise(&shape_of(spec))).collect();
            let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
            bench.host(Case::new(name), || engine.run(&views))
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            use det_post_infer::device::DeviceEngine;

            let stream = &device.stream()?;
            let fixed = |spec: &TensorSpec| Ok(shape_of(spec));
            let mut engine = DeviceEngine::load(file, options, stream, fixed)?;
            for index in 0..engine.inputs().len() {
                let input = engine.input(index)?;
                let values = noise(input.shape());
                input.write(&values.view())?;
            }
            bench.device(Case::new(name), stream, || engine.enqueue(), || stream.synchronize())
        }
    }
}
