//! pillar_features
