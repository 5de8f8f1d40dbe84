//! nms_circle
