//! CDR.
