//! Overlap of boxes.
