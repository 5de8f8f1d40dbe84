//! densify
