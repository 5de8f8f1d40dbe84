//! nms_rotated
