//! One file that the user named.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::marker::{self, Listed, cannot};
use super::{Contents, OutputFolder, Replaces};
use det_post_types::{Error, ErrorKind, Result};

/// Writes one file that the user named, through an [`OutputFolder`] at its parent; to a device
/// or a pipe directly.
///
/// # Errors
/// As of [`OutputFolder`].
pub fn write_file(path: &Path, contents: &str) -> Result<()> {
    let Some((folder, name)) = place_of(path)? else {
        return fs::write(path, contents).map_err(|e| cannot("write", path).with_source(e));
    };
    let mut folder = OutputFolder::open(folder, Replaces::These(&[]))?;
    folder.write(name, contents)?;
    folder.finish()
}

/// Refuses what [`write_file`] would refuse now: called before a long run, so that its result is
/// not lost. Makes nothing, and does not keep the folder locked.
///
/// # Errors
/// As of [`OutputFolder`].
pub fn check_file(path: &Path) -> Result<()> {
    let Some((folder, name)) = place_of(path)? else { return Ok(()) };
    if fs::symlink_metadata(folder.join(marker::FILE_NAME)).is_err() {
        // Opening the folder would make its marker.
        return Contents { folder, listed: &Listed::default() }
            .add_file(name, &mut BTreeSet::new());
    }
    let folder = OutputFolder::open(folder, Replaces::These(&[]))?;
    folder.contents().add_file(name, &mut BTreeSet::new())
}

/// The folder of a file that the user named, and its name there; `None` for a device or a pipe.
fn place_of(path: &Path) -> Result<Option<(&Path, &str)>> {
    let is_stream = |kind: fs::FileType| kind.is_char_device() || kind.is_fifo();
    if fs::metadata(path).is_ok_and(|about| is_stream(about.file_type())) {
        return Ok(None);
    }
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        let message = format!("'{}' does not name a file in UTF-8", path.display());
        return Err(Error::new(ErrorKind::Usage, "outputs", message));
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(Some((parent.unwrap_or(Path::new(".")), name)))
}
