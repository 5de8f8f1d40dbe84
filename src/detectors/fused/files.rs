//! The files of NVIDIA's CUDA-BEVFusion, checked against each other before any is loaded.
//!
//! | file | inputs | outputs |
//! |---|---|---|
//! | `camera.backbone` | `img` `[1, N, 3, H, W]`, `depth` `[1, N, 1, H, W]` | `camera_feature` `[N, h, w, C]`, `camera_depth_weights` `[N, D, h, w]` |
//! | `camera.vtransform` | `feat_in` `[1, C, x, y]` | `feat_out` `[1, C, x', y']` |
//! | `lidar.backbone.xyz` | voxels | map `[1, L, x', y']` |
//! | `fuser` | `camera`, `lidar`: both maps | `middle` `[1, M, x', y']` |
//! | `head.bbox` | `middle` | six outputs of proposals ([`NetworkPart::Proposals`](det_post_types::NetworkPart)) |
//!
//! Source: CUDA-BEVFusion of NVIDIA-AI-IOT/Lidar_AI_Solution, `qat/export-camera.py`,
//! `qat/export-transfuser.py`, `src/bevfusion/*.cu`, and `src/main.cpp` for the numbers.

use std::path::Path;

use crate::config::{FusedCamerasConfig, FuserPaths, LidarConfig};
use det_post_infer::ExpectedDim::{self, Any, Exactly};
use det_post_infer::metadata::Metadata;
use det_post_infer::sparse::{CameraNetwork, Plan};
use det_post_infer::{Expected, Side, bind, refuse_quantized};
use det_post_types::{Dim, ElementType, Error, ErrorKind, Result, TensorSpec};

const STAGE: &str = "fused";

/// Five files that fit each other.
#[derive(Clone, Debug)]
pub(super) struct Files<'a> {
    /// The networks of the maps.
    pub(super) paths: &'a FuserPaths,
    /// The sizes of the network of the cameras.
    pub(super) sizes: CameraNetwork,
    /// Shape of the images, `[1, N, 3, H, W]` or without the first dimension.
    pub(super) images: Vec<usize>,
    /// Shape of the images of depths, likewise.
    pub(super) depth_images: Vec<usize>,
}

/// The places of tensors of the network of the cameras.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Images and images of depths.
    pub(super) inputs: [usize; 2],
    /// Depths and features of pixels.
    pub(super) outputs: [usize; 2],
}

impl<'a> Files<'a> {
    /// Reads what the files say of their tensors.
    ///
    /// # Errors
    /// `Model` when a file cannot be read, quantizes, or has other tensors than the head, the encoder or
    /// the other files have; the message names the file and the tensor.
    pub(super) fn read(
        config: &LidarConfig,
        cameras: &'a FusedCamerasConfig,
        paths: &'a FuserPaths,
        plan: &Plan,
    ) -> Result<Self> {
        check_rows_along_x(config, plan)?;
        let facts = cameras.facts;
        let (num, size) = (facts.num_cameras, facts.input_size);
        let [height, width] = [size.height, size.width].map(|side| side as usize);
        let backbone = File::read(&cameras.image_backbone_path)?;
        let image = |channels| vec![num, channels, height, width];
        let batched = |shape: Vec<usize>| [vec![1], shape].concat();
        let both = |shape: Vec<usize>| vec![batched(shape.clone()), shape].into_iter().map(exactly);
        backbone.bind(
            Side::Input,
            &[tensor("img", both(image(3)).collect()), tensor("depth", both(image(1)).collect())],
        )?;
        let expected = [
            tensor("camera_feature", vec![vec![Exactly(num), Any, Any, Any]]),
            tensor("camera_depth_weights", vec![vec![Exactly(num), Any, Any, Any]]),
        ];
        backbone.bind(Side::Output, &expected)?;
        let [_, rows, columns, channels] = backbone.fixed("camera_feature")?;
        let [_, num_depths, depth_rows, depth_columns] = backbone.fixed("camera_depth_weights")?;
        if [rows, columns] != [depth_rows, depth_columns] {
            return backbone.refuse(&format!(
                "camera_feature has {rows}x{columns} pixels, camera_depth_weights {depth_rows}x{depth_columns}; \
                 allowed: the same"
            ));
        }
        let [map_rows, map_columns] = check_maps(config, paths, channels, plan)?;
        let in_form = |name: &str, shape: Vec<usize>| match backbone.rank(name) {
            Some(4) => shape,
            _ => batched(shape),
        };
        Ok(Self {
            paths,
            sizes: CameraNetwork {
                image_features: [channels, rows, columns],
                num_depths,
                num_channels: channels,
                levels: 1,
                rows: map_rows,
                columns: map_columns,
                takes_depth_images: true,
            },
            images: in_form("img", image(3)),
            depth_images: in_form("depth", image(1)),
        })
    }
}

/// The places of the tensors of the network of the cameras in an engine.
pub(super) fn places(inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Result<Places> {
    let named = |side, names: [&'static str; 2], found: &[TensorSpec]| {
        let found = bind(side, &names.map(|name| tensor(name, Vec::new())), found)?;
        Ok::<_, Error>([found[0], found[1]])
    };
    Ok(Places {
        inputs: named(Side::Input, ["img", "depth"], inputs)?,
        outputs: named(Side::Output, ["camera_depth_weights", "camera_feature"], outputs)?,
    })
}

/// The places of the maps of points and cameras among the inputs of the fuser in an engine.
pub(super) fn places_of_maps(inputs: &[TensorSpec]) -> Result<[usize; 2]> {
    let maps = ["lidar", "camera"].map(|name| tensor(name, Vec::new()));
    let found = bind(Side::Input, &maps, inputs)?;
    Ok([found[0], found[1]])
}

/// Checks the networks of the maps; rows and columns of the map of the cameras.
fn check_maps(
    config: &LidarConfig,
    paths: &FuserPaths,
    channels: usize,
    plan: &Plan,
) -> Result<[usize; 2]> {
    let of_points = plan.network().map_shape();
    let [_, _, rows, columns] = of_points;
    let transform = File::read(&paths.camera_transform_path)?;
    let map = vec![Exactly(1), Exactly(channels), Any, Any];
    transform.bind(Side::Input, &[tensor("feat_in", vec![map])])?;
    let [_, _, map_rows, map_columns] = transform.fixed("feat_in")?;
    let map = vec![Exactly(1), Any, Exactly(rows), Exactly(columns)];
    transform.bind(Side::Output, &[tensor("feat_out", vec![map.clone()])])?;
    let of_cameras = transform.fixed("feat_out")?;
    let fuser = File::read(&paths.fuser_path)?;
    fuser.bind(
        Side::Input,
        &[
            tensor("camera", vec![exactly(of_cameras.to_vec())]),
            tensor("lidar", vec![exactly(of_points.to_vec())]),
        ],
    )?;
    fuser.bind(Side::Output, &[tensor("middle", vec![map])])?;
    let middle = fuser.fixed("middle")?;
    let head = File::read(&config.model_path)?;
    head.bind(Side::Input, &[tensor("middle", vec![exactly(middle.to_vec())])])?;
    Ok([map_rows, map_columns])
}

/// The map of the cameras has rows along x, and so has the one of the points.
fn check_rows_along_x(config: &LidarConfig, plan: &Plan) -> Result<()> {
    let network = plan.network();
    let places = network.axes.of_zyx();
    let [depth, rows, columns] = network.map.axes.map(|axis| ["z", "y", "x"][places[axis]]);
    if [depth, rows, columns] == ["z", "x", "y"] {
        return Ok(());
    }
    let path = config.encoder_path.display();
    let message = format!(
        "{path}: its map has depth along {depth}, rows along {rows} and columns along {columns}; with cameras \
         allowed: z, x and y, as `lidar.backbone.xyz.onnx` of CUDA-BEVFusion has them"
    );
    Err(Error::new(ErrorKind::Model, STAGE, message))
}

/// What a file says of its tensors.
struct File<'a> {
    path: &'a Path,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
}

impl<'a> File<'a> {
    fn read(path: &'a Path) -> Result<Self> {
        refuse_quantized(path)?;
        let Metadata { inputs, outputs, .. } = Metadata::read(path).map_err(|cause| {
            let message = format!("{}: it is no ONNX file that can be read", path.display());
            Error::new(ErrorKind::Model, STAGE, message).with_source(cause)
        })?;
        Ok(Self { path, inputs, outputs })
    }

    fn bind(&self, side: Side, expected: &[Expected]) -> Result<()> {
        let found = match side {
            Side::Input => &self.inputs,
            Side::Output => &self.outputs,
        };
        match bind(side, expected, found) {
            Ok(_) => Ok(()),
            Err(error) => self.refuse(error.message()),
        }
    }

    fn spec(&self, name: &str) -> Option<&TensorSpec> {
        self.inputs.iter().chain(&self.outputs).find(|spec| spec.name == name)
    }

    fn rank(&self, name: &str) -> Option<usize> {
        Some(self.spec(name)?.shape.as_ref()?.len())
    }

    /// The lengths of a tensor of four dimensions.
    fn fixed(&self, name: &str) -> Result<[usize; 4]> {
        let lengths = self.spec(name).and_then(|spec| {
            let dims = spec.shape.as_ref()?.iter().map(|dim| match dim {
                Dim::Fixed(length) if *length > 0 => Some(*length),
                _ => None,
            });
            dims.collect::<Option<Vec<usize>>>()?.try_into().ok()
        });
        match lengths {
            Some(lengths) => Ok(lengths),
            None => {
                self.refuse(&format!("{name} has an open shape; export the file with fixed shapes"))
            }
        }
    }

    fn refuse<T>(&self, message: &str) -> Result<T> {
        let message = format!("{}: {message}", self.path.display());
        Err(Error::new(ErrorKind::Model, STAGE, message))
    }
}

fn exactly(shape: Vec<usize>) -> Vec<ExpectedDim> {
    shape.into_iter().map(Exactly).collect()
}

fn tensor(name: &'static str, shapes: Vec<Vec<ExpectedDim>>) -> Expected {
    Expected { what: "tensor", name: Some(name.into()), elements: vec![ElementType::F32], shapes }
}
