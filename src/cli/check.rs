//! `det_post check`: the effective configuration, and the layers of sparse encoders and networks.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::fingerprint::{self, Fingerprint};
use super::one_model::OneModel;
use super::precision::PrecisionArguments;
use super::ros_args::RosArguments;
use super::{ConfigArguments, ExitStatus, one_model, precision, stdout};
use crate::config::{
    CameraConfig, ChannelKind, EncoderFacts, LidarConfig, describe_file, fitting_heads,
};
use crate::detectors::image2d::describe_cut;
use crate::detectors::{fused, voxels};
use det_post_infer::dense::{Network, PlanOptions, Precision, Table};
use det_post_infer::efficient_nms::EfficientNms;
use det_post_infer::metadata::Metadata;
use det_post_infer::sparse::{self, Plan};
use det_post_types::text::{LineBreaks, shown};
use det_post_types::{Dim, Error, ErrorKind, NetworkPart, Result, TensorSpec, input_file};

/// What to check.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// A parameter file, as `replay` takes it.
    #[arg(short, long = "config", value_name = "YAML")]
    config_files: Vec<PathBuf>,
    /// Prints the effective configuration as JSON, with the hashes of its files and a key that
    /// changes when either does.
    /// With --compare-precision, what it found.
    #[arg(long, conflicts_with = "encoder")]
    json: bool,
    /// A sparse encoder (scn or Autoware's ONNX): lists its levels, steps and memory.
    #[arg(long, value_name = "ONNX")]
    encoder: Option<PathBuf>,
    /// A network, an ONNX file: prints the parameter file that is equivalent to `replay --model`.
    #[arg(long, value_name = "ONNX", conflicts_with = "encoder")]
    model: Option<PathBuf>,
    /// The topic of that channel. The default is /camera/image_raw; with --compare-precision, the
    /// only topic of images.
    #[arg(long, value_name = "TOPIC", requires = "model")]
    topic: Option<String>,
    /// A network, an ONNX file: lists the steps in which the engine cuda runs it, or names the first node that
    /// it does not cover.
    #[arg(long, value_name = "ONNX", conflicts_with = "json")]
    network: Option<PathBuf>,
    /// Lengths of the network's first input, such as 1,3,640,640; a dynamic first length is 1.
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', requires = "network")]
    input_shape: Vec<usize>,
    /// Layers of the network that keep 32-bit floats, as `engine.keep_f32` names them.
    #[arg(long, value_name = "LAYERS", value_delimiter = ',', requires = "network")]
    keep_f32: Vec<String>,
    #[command(flatten)]
    precision: PrecisionArguments,
    /// Voxels of a frame that the listed capacities are for.
    #[arg(long, value_name = "VOXELS", default_value_t = 160_000, requires = "encoder")]
    voxel_capacity: usize,
}

/// Prints, unless as JSON, the configuration that the files and overrides make, as a ROS 2 parameter file
/// that gives the same again, and as comments behind it what is cut off a network and the layers
/// of the channels' sparse encoders; the listing of an encoder or a network where one is named.
pub(super) fn check(arguments: &CheckArguments, ros: &RosArguments) -> Result<ExitStatus> {
    if let Some(encoder) = &arguments.encoder {
        stdout::print(&listing(encoder, arguments.voxel_capacity)?)?;
        if arguments.config.files.is_empty() && ros.sources.is_empty() {
            return Ok(ExitStatus::Done);
        }
    }
    if let Some(network) = &arguments.network {
        stdout::print(&steps_of(network, &arguments.input_shape, &arguments.keep_f32)?)?;
        if arguments.config.files.is_empty() && ros.sources.is_empty() {
            return Ok(ExitStatus::Done);
        }
    }
    let ConfigArguments { files, overrides, like } = &arguments.config;
    let files = &[&files[..], &arguments.config_files].concat();
    if let Some(recording) = arguments.precision.recording() {
        let model = OneModel::of(arguments.model.as_deref(), arguments.topic.as_deref());
        let all = [model.overrides(recording)?, overrides.clone()].concat();
        let config = like.load(files, &all, ros).map_err(|e| model.with_name(e, overrides))?;
        return precision::compare(&arguments.precision, recording, &config, arguments.json);
    }
    if arguments.json && arguments.model.is_some() {
        let message = "--json with --model needs --compare-precision: a parameter file is YAML";
        return Err(Error::new(ErrorKind::Usage, "arguments", message));
    }
    if let [file] = &files[..]
        && let Some(text) = described(file)?
    {
        if let Some(parameter) = overrides.first() {
            return Err(no_parameter(file, parameter));
        }
        stdout::print(&text)?;
        return Ok(ExitStatus::Done);
    }
    let topic = arguments.topic.as_deref();
    let of_model = arguments.model.as_deref().map(|model| parameters_of(model, topic));
    let of_model = of_model.transpose()?.unwrap_or_default();
    let overrides = &[of_model, overrides.clone()].concat();
    let config = like.load(files, overrides, ros)?;
    if arguments.json {
        stdout::print(&Fingerprint::of(&config)?.to_json()?)?;
        return Ok(ExitStatus::Done);
    }
    for (parameter, path) in fingerprint::named_files(&config)? {
        if !path.exists() {
            let path = path.display();
            tracing::warn!("{parameter}: {path} is not there: no channel can run without it");
        } else if is_onnx(&path) {
            metadata_of(&path).map_err(|error| error.within(&parameter))?;
        }
    }
    let mut text = config.to_yaml();
    if arguments.model.is_some() && topic.is_none() {
        text += "# camera.input: no --topic was given; `det_post inspect RECORDING` lists topics\n";
    }
    for channel in &config.channels {
        if let ChannelKind::Camera(camera) = &channel.kind
            && camera.model_path.is_file()
        {
            text += &comments(&class_names_of(&channel.name, camera));
            if let Some(nms) = EfficientNms::of_file(&camera.model_path)? {
                let path = camera.model_path.display();
                text += &comments(&format!("{}: {path} {}", channel.name, describe_cut(&nms)));
            }
        }
        if let ChannelKind::Lidar(lidar) = &channel.kind
            && has_sparse_encoder(lidar)?
        {
            text += &comments(&encoder_of(&channel.name, lidar)?);
            let cameras = fused::describe_files(lidar);
            if let Some(cameras) = cameras.map_err(|error| channel.name_network(error))? {
                text += &comments(&format!("{}: {cameras}", channel.name));
            }
        }
    }
    stdout::print(&text)?;
    Ok(ExitStatus::Done)
}

/// Class names of a network in words; the parameter file has all.
const MAX_SHOWN_CLASSES: usize = 8;

/// A file that is no parameter file in words: a network with its tensors and the heads that fit, a head
/// with its kind and classes. `None` for any other.
fn described(path: &Path) -> Result<Option<String>> {
    if is_onnx(path) {
        return network_in_words(path).map(Some);
    }
    let Some(head) = describe_file(path)? else { return Ok(None) };
    Ok(Some(format!(
        "{path}: a head file, to be named in `NAME.head`\n  {head}\n",
        path = path.display()
    )))
}

/// The error of a parameter beside a file that has none.
fn no_parameter(file: &Path, parameter: &str) -> Error {
    let file = file.display();
    let message = format!(
        "-p {parameter}: has no effect on {file}, which is no parameter file; allowed: \
         `det_post check --model NETWORK.onnx -p {parameter}`, or a parameter file that names it"
    );
    Error::new(ErrorKind::Usage, "check", message)
}

/// Whether a file is called an ONNX file.
fn is_onnx(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("onnx"))
}

/// The metadata of a file that is called an ONNX file.
///
/// # Errors
/// `Io` when it cannot be opened, `Model` when it is no ONNX file, with what it is.
fn metadata_of(path: &Path) -> Result<Metadata> {
    let cannot_read = |e| {
        let message = format!("cannot read {}", path.display());
        Error::new(ErrorKind::Io, "check", message).with_source(e)
    };
    let mut file = input_file::open(path).map_err(cannot_read)?;
    Metadata::read(path).or_else(|e| {
        let mut start = Vec::new();
        file.by_ref().take(NUM_START_BYTES).read_to_end(&mut start).map_err(cannot_read)?;
        let found = match (kind_of(&start), e.kind()) {
            (Some(found), _) => found.to_owned(),
            (None, std::io::ErrorKind::UnexpectedEof) => "a file that ends too early".to_owned(),
            (None, _) => format!("a file that starts with {:?}", String::from_utf8_lossy(&start)),
        };
        let message = format!(
            "{}: found {found}; expected an ONNX file with a graph: export or copy it again",
            path.display()
        );
        Err(Error::new(ErrorKind::Model, "check", message))
    })
}

/// The number of bytes at the start of a file that show its kind.
const NUM_START_BYTES: u64 = 16;

/// What a file is that is often called an ONNX file, from its first bytes.
fn kind_of(start: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 8] = [
        (b"version https://", "a pointer of Git LFS in place of the file (`git lfs pull`)"),
        (b"PK\x03\x04", "a zip archive, as PyTorch's checkpoints are"),
        (b"\x80\x02", "a pickle, as PyTorch's older checkpoints are"),
        (b"ptrt", "an engine of TensorRT"),
        (b"ftrt", "an engine of TensorRT"),
        (b"\x89HDF", "an HDF5 file"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"<", "a web page or XML"),
    ];
    if start.is_empty() {
        return Some("an empty file");
    }
    KINDS.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, kind)| *kind)
}

/// Inputs, outputs and metadata of a network, and the heads that fit.
fn network_in_words(path: &Path) -> Result<String> {
    metadata_of(path)?;
    let (heads, metadata) = fitting_heads(path);
    let escaped = |text: &str| shown(text.to_owned(), LineBreaks::Escaped);
    let mut text = format!("{}\n", path.display());
    text += &match &heads[..] {
        [] => "  heads of cameras that fit: none; a head file describes others\n  (docs/tutorials/your-network.md), networks of \
               clouds are named in a parameter file\n"
            .into(),
        [head] => format!("  head that fits: {head}\n"),
        heads => format!("  heads that fit: {}; name one: -p camera.head:=NAME\n", heads.join(", ")),
    };
    for (side, tensors) in [("input", &metadata.inputs), ("output", &metadata.outputs)] {
        for tensor in tensors {
            text += &format!("  {side}: {}\n", escaped(&tensor.to_string()));
        }
    }
    if let Some(task) = &metadata.task {
        text += &format!("  task: {}\n", escaped(task));
    }
    match &metadata.class_names {
        Some(Ok(names)) => {
            let more = match names.len().saturating_sub(MAX_SHOWN_CLASSES) {
                0 => String::new(),
                more => format!(" … and {more} more"),
            };
            let first = &names[..names.len().min(MAX_SHOWN_CLASSES)];
            text += &format!("  classes: {}: {}{more}\n", names.len(), escaped(&first.join(", ")));
        }
        Some(Err(reason)) => text += &format!("  class names are not used: {reason}\n"),
        None => {}
    }
    if let Some(size) = metadata.input_size {
        text += &format!("  exported for images of {}x{}\n", size.width, size.height);
    }
    if metadata.is_end_to_end {
        text += "  outputs are final boxes (end2end)\n";
    }
    if let [_] = &heads[..] {
        text += &format!(
            "to run it, or to keep its parameters as a file:\n  det_post replay RECORDING --model {path}\n  \
             det_post check --model {path} --topic TOPIC > my.param.yaml\n",
            path = path.display()
        );
    }
    Ok(text)
}

/// The parameters of `replay --model`, as overrides.
fn parameters_of(model: &Path, topic: Option<&str>) -> Result<Vec<String>> {
    // Relative paths of a parameter file begin at its folder, and this one is not known.
    let path = std::path::absolute(model).unwrap_or_else(|_| model.to_owned());
    let path = path.to_str().ok_or_else(|| one_model::not_utf8(model))?;
    Ok(one_model::parameters("camera", topic.unwrap_or("/camera/image_raw"), path))
}

/// Whose class names a camera channel has, where its network names classes; else nothing.
fn class_names_of(name: &str, camera: &CameraConfig) -> String {
    let Some(Ok(names)) = Metadata::of_file(&camera.model_path).class_names else {
        return String::new();
    };
    let (used, path) = (&camera.facts.class_names, camera.model_path.display());
    match *used == names {
        true => format!("{name}: the {} class names come from the network {path}", used.len()),
        false => format!(
            "{name}: the {} class names are given; the network {path} names others",
            used.len()
        ),
    }
}

/// The sparse encoder of a channel, layer by layer. The configuration may be checked where
/// the networks are not.
fn encoder_of(name: &str, config: &LidarConfig) -> Result<String> {
    let path = config.encoder_file().display();
    if !config.encoder_file().exists() {
        return Ok(format!("{name}: the encoder {path} is not there, its layers are not known\n"));
    }
    let plan = voxels::plan(config).map_err(|error| {
        let message = format!("{name}: {}", error.message());
        Error::new(error.kind(), error.stage(), message)
    })?;
    Ok(format!("{name}: encoder {path}\n\n{}", plan.listing()))
}

/// Whether the layers of a sparse encoder are listed: of a file without them, or that is not there, none are.
fn has_sparse_encoder(config: &LidarConfig) -> Result<bool> {
    match &config.facts.encoder {
        EncoderFacts::Voxels(_) | EncoderFacts::Sites(_) => Ok(true),
        EncoderFacts::None(_) if config.model_path.is_file() => {
            Ok(sparse::detector(&config.model_path)?.is_some())
        }
        EncoderFacts::None(_) | EncoderFacts::Pillars(_) => Ok(false),
    }
}

/// Text as comments of a YAML file.
fn comments(text: &str) -> String {
    text.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect()
}

/// What an H200 moves and computes at most, for the floor of a step.
const GIGABYTES_PER_SECOND: f64 = 4800.0;
const TERAFLOPS: f64 = 990.0;

/// The steps in which the engine cuda runs a network.
fn steps_of(path: &Path, input_shape: &[usize], keep_f32: &[String]) -> Result<String> {
    let failed = |message: String| Error::new(ErrorKind::Model, "check", message);
    let has_shape = std::cell::Cell::new(!input_shape.is_empty());
    let shape_of = |input: &TensorSpec| {
        if has_shape.replace(false) {
            return Ok(input_shape.to_vec());
        }
        let dims = input.shape.as_deref().unwrap_or_default().iter().enumerate();
        let lengths = dims.map(|(at, dim)| match dim {
            Dim::Fixed(length) => Some(*length),
            Dim::Dynamic => (at == 0).then_some(1),
        });
        lengths.collect::<Option<Vec<usize>>>().filter(|lengths| !lengths.is_empty()).ok_or_else(
            || {
                failed(format!(
                    "input {input} has dynamic dimensions: give its lengths in --input-shape"
                ))
            },
        )
    };
    let options = PlanOptions { precision: Precision::F16, keep_f32, ..PlanOptions::default() };
    let network =
        Network::of_file(path, NetworkPart::Whole, options, &shape_of).map_err(|error| {
            let message = format!("{}: {}", path.display(), error.message());
            Error::new(error.kind(), error.stage(), message)
        })?;
    let table = Table {
        network: &network,
        gigabytes_per_second: GIGABYTES_PER_SECOND,
        teraflops: TERAFLOPS,
    };
    Ok(format!(
        "{table}us: the floor on a GPU of {GIGABYTES_PER_SECOND} GB/s and {TERAFLOPS} TFLOP/s of f16\n"
    ))
}

/// An encoder's file, layer by layer.
fn listing(path: &Path, voxel_capacity: usize) -> Result<String> {
    let file = sparse::load(path)?;
    let capacities = file.network.default_capacities(voxel_capacity);
    let channels = match &file.point_channels {
        Some(names) => {
            format!("{} ({})", names.len(), shown(names.join(" "), LineBreaks::Escaped))
        }
        None => file.network.input_channels().to_string(),
    };
    let head = format!(
        "dialect {}, point channels {channels}, {} parameters{}\n\n",
        file.dialect,
        file.network.num_parameters(),
        if file.rest.is_some() { ", a network behind the map" } else { "" }
    );
    let plan = Plan::new(file.network, &capacities)?;
    Ok(head + &plan.listing())
}
