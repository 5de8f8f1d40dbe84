//! nms_soft
