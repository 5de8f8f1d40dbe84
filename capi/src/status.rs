//! Errors as numbers, and their messages.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use det_post::{Error, ErrorKind};

/// `DET_POST_OK` or one of the errors.
pub type Status = i32;

/// Defines a constant for each number, and the functions between them, names and kinds.
macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, $text:expr $(, $kind:ident)?;)*) => {
        $($(#[doc = $doc])* pub const $name: Status = $number;)*

        /// Every status, its name for C and the kind of error that it stands for.
        const ALL: &[(Status, &str, Option<ErrorKind>)] =
            &[$(($number, concat!($text, "\0"), statuses!(@kind $($kind)?)),)*];

        /// The number of a kind of error, which never changes.
        fn number(kind: ErrorKind) -> Status {
            match kind {
                $($(ErrorKind::$kind => $number,)?)*
                // A test holds that no kind is.
                _ => UNKNOWN,
            }
        }
    };
    (@kind) => { None };
    (@kind $kind:ident) => { Some(ErrorKind::$kind) };
}

statuses! {
    /// The call has done what it was asked for.
    OK = 0, "ok";
    /// The command line is wrong.
    USAGE = 1, "usage", Usage;
    /// A parameter is unknown, missing, of the wrong type or out of range.
    CONFIG = 2, "config", Config;
    /// The operating system refused a file.
    IO = 3, "io", Io;
    /// A recording is damaged.
    DAMAGED_BAG = 4, "damaged_bag", DamagedBag;
    /// A message does not decode.
    MESSAGE = 5, "malformed_message", Message;
    /// An image encoding or compression format that is not supported.
    ENCODING = 6, "unsupported_encoding", Encoding;
    /// Declared sizes contradict each other or the data.
    LAYOUT = 7, "inconsistent_layout", Layout;
    /// A point field is missing or has an unusable type or offset.
    POINT_FIELD = 8, "unusable_point_field", PointField;
    /// A compressed image does not decode.
    CODEC = 9, "undecodable_image", Codec;
    /// A transform is unknown at the requested time.
    TRANSFORM = 10, "missing_transform", Transform;
    /// A time that a recording cannot represent.
    TIME = 11, "time_out_of_range", Time;
    /// A model cannot be loaded or does not fit its head.
    MODEL = 12, "model", Model;
    /// The engine failed while running a model.
    INFERENCE = 13, "inference_failed", Inference;
    /// Arguments do not fit together, or one is not possible.
    ARGUMENT = 14, "invalid_argument", Argument;
    /// The requested device is not usable.
    DEVICE = 15, "device", Device;
    /// A fault has made a GPU unusable for this process.
    DEVICE_LOST = 16, "device_lost", DeviceLost;
    /// A frame is older than the channel allows.
    TOO_OLD = 17, "too_old", TooOld;
    /// Inputs of a frame are missing.
    INCOMPLETE_VIEWS = 18, "incomplete_views", IncompleteViews;
    /// The stamps of a frame's inputs are further apart than allowed.
    VIEWS_TOO_FAR_APART = 19, "views_too_far_apart", ViewsTooFarApart;
    /// The stamp of a message is not newer than the last of its input.
    STAMP_NOT_NEWER = 20, "stamp_not_newer", StampNotNewer;
    /// Interrupted by a request to stop.
    INTERRUPTED = 21, "interrupted", Interrupted;
    /// The ROS graph cannot be joined.
    MIDDLEWARE = 22, "middleware", Middleware;
    /// The system does not provide the memory that a frame needs.
    MEMORY = 23, "out_of_memory", Memory;
    /// An image takes more work or time to decode than is allowed.
    DECODE_LIMIT = 24, "decode_limit", DecodeLimit;
    /// A message is larger than a channel allows.
    TOO_LARGE = 25, "message_too_large", TooLarge;
    /// The calibration of a camera is missing or unusable.
    UNCALIBRATED = 26, "uncalibrated", Uncalibrated;
    /// The calibration of a camera is for images of another size or frame.
    CALIBRATION_MISMATCH = 27, "calibration_mismatch", CalibrationMismatch;
    /// A distortion model that is not supported.
    UNSUPPORTED_DISTORTION = 28, "unsupported_distortion", UnsupportedDistortion;
    /// A message of another type than the one that is read of its topic.
    MESSAGE_TYPE = 29, "another_type", MessageType;
    /// A cloud fills fewer voxels than the network takes.
    TOO_FEW_VOXELS = 30, "too_few_voxels", TooFewVoxels;
    /// A compressed cloud does not decode.
    CLOUD_CODEC = 31, "undecodable_cloud", CloudCodec;
    /// A packet of video does not decode, or packets before it are missing.
    VIDEO_CODEC = 32, "undecodable_video", VideoCodec;
    /// A packet of video gives no image: a key frame is missing before it, or it has none.
    NO_IMAGE = 33, "no_image", NoImage;
    /// A pointer is null.
    NULL = 1001, "null_pointer";
    /// No object has this number: it was closed, or never opened, or is of another kind.
    HANDLE = 1002, "invalid_handle";
    /// Another thread is in a call on the object.
    BUSY = 1003, "busy";
    /// A fault of the library. An object that it happened to can only be closed.
    PANIC = 1004, "panic";
    /// An error without a separate number.
    UNKNOWN = 1005, "unknown";
}

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    pub(super) status: Status,
    message: String,
    /// Of a text that is not UTF-8: in a message it is one that does not decode.
    is_of_text: bool,
}

impl Failure {
    fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), is_of_text: false }
    }

    /// An argument that is null.
    pub(super) fn null(name: &str) -> Self {
        Self::new(NULL, format!("{name} is null"))
    }

    /// An argument that is not possible.
    pub(super) fn argument(message: impl Into<String>) -> Self {
        Self::new(ARGUMENT, message)
    }

    /// A text that is not UTF-8.
    pub(super) fn not_utf8(name: &str) -> Self {
        Self { is_of_text: true, ..Self::argument(format!("{name} is not UTF-8")) }
    }

    /// A parameter that is not possible.
    pub(super) fn config(message: impl Into<String>) -> Self {
        Self::new(CONFIG, message)
    }

    /// A number of no object of a kind.
    pub(super) fn handle(kind: &str, id: u64) -> Self {
        Self::new(HANDLE, format!("no open {kind} has the number {id:#x}"))
    }

    /// An object in use.
    pub(super) fn busy(kind: &str) -> Self {
        Self::new(BUSY, format!("another thread is in a call on this {kind}"))
    }

    /// An object in which a panic has happened.
    pub(super) fn unusable(kind: &str) -> Self {
        Self::new(PANIC, format!("an earlier fault of the library has ended this {kind}"))
    }

    /// The payload of a panic.
    pub(super) fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::new(PANIC, format!("the library has a fault: {}", text.unwrap_or("unknown")))
    }
}

impl Failure {
    /// The error of data that is not usable.
    ///
    /// # Errors
    /// The failure itself where it is a misuse of the ABI, which no kind of error stands for.
    pub(super) fn into_error(self) -> Result<Error, Self> {
        if self.is_of_text {
            return Ok(Error::new(ErrorKind::Message, "message", self.message));
        }
        match ALL.iter().find(|(status, ..)| *status == self.status) {
            Some((.., Some(kind))) => Ok(Error::new(*kind, "message", self.message)),
            _ => Err(self),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(number(error.kind()), error.to_string())
    }
}

/// The name of a status, ending with 0.
pub(super) fn name(status: Status) -> &'static str {
    ALL.iter().find(|(number, ..)| *number == status).map_or("unknown\0", |(_, name, _)| name)
}

/// The message of the last failure of each open object.
static OF_OBJECTS: Mutex<BTreeMap<u64, String>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The message of the last failure in this thread without an object.
    static OF_THREAD: RefCell<String> = const { RefCell::new(String::new()) };
}

fn of_objects() -> MutexGuard<'static, BTreeMap<u64, String>> {
    OF_OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to keep messages with an object.
pub(super) fn opened(id: u64) {
    of_objects().insert(id, String::new());
}

/// Ends it.
pub(super) fn closed(id: u64) {
    of_objects().remove(&id);
}

/// Keeps the message of a failure with this thread.
pub(super) fn keep_with_thread(failure: &Failure) {
    OF_THREAD.with(|message| message.borrow_mut().clone_from(&failure.message));
}

/// Keeps the message of a failure with its object or, without one, with this thread.
pub(super) fn keep(id: u64, failure: Failure) -> Status {
    match of_objects().get_mut(&id) {
        Some(message) => *message = failure.message,
        None => OF_THREAD.with(|message| *message.borrow_mut() = failure.message),
    }
    failure.status
}

/// The message of the last failure of an object, or of this thread for 0 and for an object that
/// is closed.
pub(super) fn message(id: u64) -> String {
    let of_object = of_objects().get(&id).cloned();
    of_object.unwrap_or_else(|| OF_THREAD.with(|message| message.borrow().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number_and_its_reason() {
        for kind in ErrorKind::ALL {
            let (_, name, of) = ALL.iter().find(|(status, ..)| *status == number(kind)).unwrap();
            assert_eq!((*of, name.trim_end_matches('\0')), (Some(kind), kind.reason()));
        }
        let numbers: Vec<Status> = ALL.iter().map(|(number, ..)| *number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b));
    }
}
