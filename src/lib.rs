//! det_post: images and point clouds in, detection arrays out.
//!
//! The program `det_post` is a perception node for ROS 2. This library is what it is made of,
//! for programs that embed a part of it.
//!
//! | to … | use |
//! |---|---|
//! | run a network on the inputs of a frame | [`Detector`] on a [`FrameSet`] |
//! | run all configured channels on a recording | [`Replay`] |
//! | run the live node | [`node::LiveNode`] |
//! | call one operation on slices | [`ops`], such as [`ops::nms::iou`] |
//! | read and write recordings and messages | [`ros::bag`], [`ros::messages`] |
//! | simulate a drive with ground truth | [`sim`] |
//! | evaluate detections | [`eval`] |
//!
//! | module, crate | content |
//! |---|---|
//! | [`types`] | data: views of messages, boxes, candidates, detections, tensors, reports, errors |
//! | [`ops`] | operations: contract, reference on the CPU, CUDA; devices |
//! | [`infer`] | engines that run a network |
//! | [`ros`] | recordings, middlewares, messages, transforms, names, QoS, parameter values |
//! | [`sim`], [`eval`] | the simulated drive; figures of accuracy, images |
//! | [`config`] | parameter files to a checked [`Config`], facts of networks |
//! | [`detectors`] | inputs of a frame to detections |
//! | [`draw`] | images of frames with their detections |
//! | [`runtime`] | channels: slots, synchronizer, supervisor, isolated process |
//! | [`replay`] | a recording to detections |
//! | [`node`] | the live node |
//!
//! The first rows are crates of their names with `det_post_` before, for programs that use no
//! other part.
//!
//! An image to detections:
//!
//! ```
//! use std::path::PathBuf;
//!
//! use det_post_sim::{Drive, Options, RenderedImage};
//! use det_post_types::{Detections, Encoding, FrameReport, Header, ImagePayload, ImageView};
//! use det_post::{Config, FrameInput, FrameSet, open_detector};
//!
//! let config = Config::load(&[PathBuf::from("config/demo.param.yaml")], &[])?;
//! let camera = config.channel("camera").expect("the demo has a camera");
//! let mut detector = open_detector(camera, "cpu".parse()?)?;
//!
//! let mut rendered = RenderedImage::default();
//! Drive::new(9000, &Options::default())?.image(0, 20, &mut rendered);
//! let row_step = 3 * rendered.size.width as usize;
//! let image = ImageView::new(rendered.size, row_step, Encoding::Rgb8, false, &rendered.rgb)?;
//! let inputs = [Some(FrameInput::image(Header::default(), ImagePayload::Raw(image)))];
//! let mut report = FrameReport::new();
//! let Detections::Boxes2d(boxes) = detector.detect(&FrameSet::single(&inputs), &mut report)?
//! else {
//!     unreachable!("a camera gives boxes in the image")
//! };
//! assert!(boxes.iter().all(|found| found.score >= 0.1) && !boxes.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `cli` | the program: arguments, log output, signals | yes |
//! | `cuda` | the CUDA driver, loaded at run time, and the kernels when the build finds nvcc | yes |
//! | `db3` | recordings in SQLite files | yes |
//! | `dds` | a DDS participant that joins a ROS 2 graph without ROS | yes |
//! | `ros2` | the ROS 2 client library, which the build needs sourced | no |
//! | `video` | H.264 as input; the build compiles C++ | yes |
//!
//! Without any of them everything runs on the CPU, from MCAP recordings.

#[cfg(feature = "cli")]
mod bench;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
pub mod detectors;
pub mod draw;
pub mod node;
pub mod replay;
pub mod runtime;

pub use det_post_eval as eval;
pub use det_post_infer as infer;
pub use det_post_ops as ops;
pub use det_post_ros as ros;
pub use det_post_sim as sim;
pub use det_post_types as types;

pub use config::Config;
pub use det_post_types::{Error, ErrorKind, Result};
pub use detectors::{Detector, FrameInput, FrameSet};
pub use replay::{Replay, ReplayOptions};
pub use runtime::open_detector;
