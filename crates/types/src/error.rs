//! The one public error type.
//!
//! An [`Error`] is opaque: programs use [`Error::kind`], people the message, which contains
//! the stage and the numbers:
//! `letterbox: image data has 15371 bytes, 96 rows of step 480 need 46080`.
//!
//! Text from messages and files is escaped and truncated by [`crate::text`], so that errors
//! are safe to log and to publish.
//!
//! Each error is handled exactly once: logged, counted or returned. An error of a frame
//! drops that frame, is counted under [`ErrorKind::reason`] and never ends the process.

use std::fmt::{self, Write};

use crate::text::{LineBreaks, Shown, shown};

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure with its stage, its message and, if there is one, its cause.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    stage: &'static str,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

named! {
    /// The kinds of failure a program can react to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum ErrorKind {
        /// The command line is wrong.
        Usage => "usage",
        /// A parameter is unknown, missing, of the wrong type or out of range.
        Config => "config",
        /// The operating system refused a file.
        Io => "io",
        /// The recording is damaged: truncated, malformed or incomplete.
        DamagedBag => "damaged_bag",
        /// A message does not decode: too short, or lengths that contradict it.
        Message => "malformed_message",
        /// An image encoding or compression format that is not supported.
        Encoding => "unsupported_encoding",
        /// Declared sizes contradict each other or the data (step, row, width …).
        Layout => "inconsistent_layout",
        /// A point field is missing or has an unusable type or offset.
        PointField => "unusable_point_field",
        /// A compressed image does not decode.
        Codec => "undecodable_image",
        /// A compressed cloud does not decode.
        CloudCodec => "undecodable_cloud",
        /// A packet of video does not decode, or packets before it are missing.
        VideoCodec => "undecodable_video",
        /// A packet of video gives no picture: a key frame is missing before it, or it has none.
        NoImage => "no_image",
        /// A transform is unknown at the requested time.
        Transform => "missing_transform",
        /// A time that a recording cannot represent: before 1970.
        Time => "time_out_of_range",
        /// A model cannot be loaded or does not fit its head.
        Model => "model",
        /// The engine failed while running a model.
        Inference => "inference_failed",
        /// Arguments of an op do not fit together.
        Argument => "invalid_argument",
        /// The requested device is not usable.
        Device => "device",
        /// A fault has made a GPU unusable for this process.
        DeviceLost => "device_lost",
        /// A frame is older than the channel allows.
        TooOld => "too_old",
        /// Inputs of a frame are missing.
        IncompleteViews => "incomplete_views",
        /// The stamps of a frame's inputs are further apart than allowed.
        ViewsTooFarApart => "views_too_far_apart",
        /// The stamp of a message is not newer than the last of its input.
        StampNotNewer => "stamp_not_newer",
        /// Interrupted by a request to stop.
        Interrupted => "interrupted",
        /// The ROS graph cannot be joined, or refuses a topic or a service.
        Middleware => "middleware",
        /// The system does not provide the memory that a frame needs.
        Memory => "out_of_memory",
        /// An image takes more work or time to decode than is allowed.
        DecodeLimit => "decode_limit",
        /// A message is larger than a channel allows.
        TooLarge => "message_too_large",
        /// The calibration of a camera is missing or unusable.
        Uncalibrated => "uncalibrated",
        /// The calibration of a camera is for images of another size or frame.
        CalibrationMismatch => "calibration_mismatch",
        /// A distortion model that is not supported.
        UnsupportedDistortion => "unsupported_distortion",
        /// A message of another type than the one that is read of its topic.
        MessageType => "another_type",
        /// A cloud fills fewer voxels than the network takes.
        TooFewVoxels => "too_few_voxels",
    }
    /// The stable short name under which dropped frames are counted in
    /// `report.json`.
    pub fn reason;
}

impl ErrorKind {
    /// Whether a device has failed, or cannot be used.
    pub fn is_of_device(self) -> bool {
        matches!(self, Self::Device | Self::DeviceLost)
    }
}

impl Error {
    /// An error of `kind` in `stage`. The message contains the numbers.
    pub fn new(kind: ErrorKind, stage: &'static str, message: impl Into<String>) -> Self {
        let message = shown(message.into(), line_breaks(kind));
        Self(Box::new(Inner { kind, stage, message, source: None }))
    }

    /// The same error with the error that caused it.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error with the place where it occurred ahead of its message, such as a channel's
    /// parameter.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        let message = format!("{place}: {}", self.0.message);
        self.0.message = shown(message, line_breaks(self.0.kind));
        self
    }

    /// What a program can react to.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stage that failed: an operation, a module or a command.
    pub fn stage(&self) -> &'static str {
        self.0.stage
    }

    /// The message without the stage and the cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.stage, self.0.message)?;
        match &self.0.source {
            Some(source) => {
                f.write_str(": ")?;
                let mut shown = Shown::new(f, line_breaks(self.0.kind));
                write!(shown, "{source}")?;
                shown.finish()
            }
            None => Ok(()),
        }
    }
}

/// The problems of a configuration are a list, one per line.
fn line_breaks(kind: ErrorKind) -> LineBreaks {
    match kind {
        ErrorKind::Config => LineBreaks::Kept,
        _ => LineBreaks::Escaped,
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_stage_and_cause() {
        let cause = std::io::Error::other("disk gone");
        let error = Error::new(ErrorKind::Io, "bag", "cannot map drive.mcap").with_source(cause);
        assert_eq!(error.to_string(), "bag: cannot map drive.mcap: disk gone");
        assert_eq!(error.kind().reason(), "io");
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn a_place_is_ahead_of_the_message() {
        let cause = std::io::Error::other("disk gone");
        let error = Error::new(ErrorKind::Model, "rten", "no output").with_source(cause);
        let error = error.within("cam.model_path");
        assert_eq!(error.to_string(), "rten: cam.model_path: no output: disk gone");
        assert_eq!(error.kind(), ErrorKind::Model);
    }

    #[test]
    fn what_is_quoted_is_escaped_and_cut() {
        let forged = "x\n2026-01-01T00:00:00Z  INFO all is well\u{1b}[2K";
        let cause = std::io::Error::other(forged.repeat(10_000));
        let error = Error::new(ErrorKind::Message, "cdr", format!("topic {forged}"));
        let text = error.with_source(cause).to_string();
        assert!(text.len() < 16_000 && !text.contains(['\n', '\u{1b}']), "{text}");
        assert!(text.contains("more bytes)"), "{text}");
        let problems = Error::new(ErrorKind::Config, "config", "2 problems\n  a: b\n  c: d");
        assert_eq!(problems.message().lines().count(), 3);
    }

    #[test]
    fn every_kind_has_a_reason_of_its_own() {
        let reasons = ErrorKind::ALL.map(ErrorKind::reason);
        assert!(reasons.iter().enumerate().all(|(i, reason)| !reasons[..i].contains(reason)));
        assert!(ErrorKind::ALL.is_sorted());
    }

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }
}
