//! nms_fast
