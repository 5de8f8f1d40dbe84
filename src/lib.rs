//! det_post: images and point clouds in, detection arrays out.
//!
//! The program is a perception node for ROS 2; this library holds everything
//! it does, so that another program can call one op on its own slices, or a
//! whole pipeline on one message.
//!
//! | room | what it holds |
//! |---|---|
//! | [`types`] | nouns: views of messages, boxes, candidates, detections, tensors, reports |
//! | [`ros`] | nouns of ROS: names, QoS, parameter values, life cycle |
//! | [`config`] | parameter files to a checked configuration, facts of networks |
//! | [`device`] | CPU or CUDA |
//! | [`ops`] | verbs, one folder each: contract, reference on the CPU, twin on CUDA |
//! | [`infer`] | engines that run a network |
//! | [`detectors`] | inputs to detections: one folder a family |
//! | [`runtime`] | what runs a channel |
//! | [`transport`] | recordings, the live graph, messages, transforms |
//! | [`draw`] | frames drawn: boxes on images, clouds from above, curves |
//! | [`replay`] | a recording to detections |
//! | [`node`] | the live node around channels |
//! | [`sim`] | a simulated drive with ground truth |
//! | [`eval`] | detections against truth |
//! | [`cli`] | the program's commands |
//!
//! Start with [`detectors::Detector`], then
//! [`detectors::image2d::CpuDetector`] or [`detectors::pillars::CpuDetector`]:
//! a frame is one function, its stages in order.
//!
//! ```
//! use det_post::ops::nms::Workspace;
//! use det_post::ops::nms_iou::nms_iou;
//! use det_post::types::{Box2d, Candidate, ClassMode, NmsIou};
//!
//! let candidate = |x, score, source| {
//!     let bbox = Box2d::new(x, 0.0, x + 10.0, 10.0);
//!     Candidate { bbox, score, class: 0, source }
//! };
//! let candidates = [candidate(0.0, 0.6, 0), candidate(1.0, 0.9, 1), candidate(50.0, 0.7, 2)];
//! let nms = NmsIou {
//!     iou_threshold: 0.5,
//!     offset: 0,
//!     class_mode: ClassMode::Aware,
//!     score_threshold: None,
//!     max_num: usize::MAX,
//! };
//! let mut keep = Vec::new();
//! nms_iou(&candidates, &nms, &mut Workspace::with_capacity(3), &mut keep)?;
//! assert_eq!(keep.iter().map(|kept| kept.index).collect::<Vec<_>>(), [1, 2]);
//! # Ok::<(), det_post::Error>(())
//! ```
//!
//! Feature `cuda` (default): the CUDA driver, loaded at run time; kernels when
//! the build finds nvcc. Without either, everything runs on the CPU.

pub mod cli;
pub mod config;
pub mod detectors;
pub mod device;
pub mod draw;
pub mod error;
pub mod eval;
pub mod infer;
mod input_file;
pub mod node;
pub mod ops;
mod output_folder;
pub mod replay;
pub mod ros;
pub mod runtime;
pub mod sim;
pub mod text;
pub mod transport;
pub mod types;
mod yaml;

pub use error::{Error, ErrorKind, Result};
