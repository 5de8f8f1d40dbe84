//! Where a channel runs.
