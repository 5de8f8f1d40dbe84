//! The parameters of the kernels that suppress.

pub mod nms;
pub mod nms_soft;

use super::{check_len, check_threads, refused};
