//! The story of a frame.
