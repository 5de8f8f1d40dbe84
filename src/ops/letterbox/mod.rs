//! letterbox
