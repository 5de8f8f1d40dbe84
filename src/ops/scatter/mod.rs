//! scatter
