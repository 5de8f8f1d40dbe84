//! One file that the user named.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::marker::cannot;
use super::{OutputFolder, Replaces};
use crate::error::{Error, ErrorKind, Result};

/// Writes one file that the user named, through an [`OutputFolder`] at its parent; to a device
/// or a pipe directly.
///
/// # Errors
/// As of [`OutputFolder`].
pub(crate) fn write_file(path: &Path, contents: &str) -> Result<()> {
    let Some((mut folder, name)) = folder_of(path)? else {
        return fs::write(path, contents).map_err(|e| cannot("write", path).with_source(e));
    };
    folder.write(name, contents)?;
    folder.finish()
}

/// Refuses what [`write_file`] would refuse now: called before a long run, so that its result is
/// not lost. Does not keep the folder locked.
///
/// # Errors
/// As of [`OutputFolder`].
pub(crate) fn check_file(path: &Path) -> Result<()> {
    let Some((folder, name)) = folder_of(path)? else { return Ok(()) };
    folder.contents().add_file(name, &mut BTreeSet::new())
}

/// The folder of a file that the user named, and its name there; `None` for a device or a pipe.
fn folder_of(path: &Path) -> Result<Option<(OutputFolder, &str)>> {
    let is_stream = |kind: fs::FileType| kind.is_char_device() || kind.is_fifo();
    if fs::metadata(path).is_ok_and(|about| is_stream(about.file_type())) {
        return Ok(None);
    }
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        let message = format!("'{}' does not name a file in UTF-8", path.display());
        return Err(Error::new(ErrorKind::Usage, "outputs", message));
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = OutputFolder::open(parent.unwrap_or(Path::new(".")), Replaces::These(&[]))?;
    Ok(Some((folder, name)))
}
