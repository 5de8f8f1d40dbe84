//! Parameter files to a checked configuration.
