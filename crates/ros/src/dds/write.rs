//! How writers write.

use det_post_rtps::{SampleIdentity, WriteOptions, Writer};

use super::error::error;
use det_post_types::Result;

/// Writes a whole CDR message in little endian. Its length is a multiple of
/// four: some readers refuse fragments of other lengths. `related` is the
/// request that the message answers.
///
/// # Errors
/// `Middleware`, naming `topic`, when the message is malformed or larger than a writer keeps.
pub(super) fn write(
    writer: &Writer,
    cdr: &[u8],
    related: Option<SampleIdentity>,
    topic: &str,
) -> Result<()> {
    if !cdr.starts_with(&[0, 1]) || cdr.len() < 4 || !cdr.len().is_multiple_of(4) {
        let start = &cdr[..cdr.len().min(4)];
        let found = format!("{} bytes that start {start:02x?}", cdr.len());
        return Err(error(format!("{topic}: {found} are not a padded little-endian CDR message")));
    }
    let options = WriteOptions { related, source_timestamp: None };
    match writer.write(cdr, &options) {
        Ok(_) => Ok(()),
        Err(cause) => {
            Err(error(format!("{topic}: {} bytes are not sent", cdr.len())).with_source(cause))
        }
    }
}
