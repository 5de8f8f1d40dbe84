//! Single operations on an output folder, for programs that run det_post.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use super::marker::{self, Listed, Marker, cannot};
use super::{Contents, OutputFolder, PARTIAL, Replaces, remove, remove_empty};
use det_post_types::Result;

/// Refuses what would refuse a command that writes these files and, with a slash at the end,
/// folders. Makes and changes nothing. Waits up to `patience` for another process that writes
/// there.
///
/// # Errors
/// As of [`OutputFolder::open`].
pub fn check(folder: &Path, names: &[String], patience: Duration) -> Result<()> {
    // Opening a marker would make it.
    let has_marker = fs::symlink_metadata(folder.join(marker::FILE_NAME)).is_ok();
    let marker = has_marker.then(|| Marker::open_within(folder, patience)).transpose()?;
    let none = Listed::default();
    let contents = Contents { folder, listed: marker.as_ref().map_or(&none, Marker::listed) };
    contents.add_folder(PARTIAL, &mut BTreeSet::new())?;
    found(&contents, names).map(|_| ())
}

/// Writes a file of the folder from a reader, in place of one that det_post wrote.
///
/// # Errors
/// As of [`OutputFolder`].
pub fn write(folder: &Path, name: &str, source: &mut impl Read) -> Result<()> {
    let mut open = OutputFolder::open(folder, Replaces::These(&[]))?;
    let path = open.file(name)?;
    let cannot_write = |e| cannot("write", &path).with_source(e);
    let mut file = File::create(&path).map_err(cannot_write)?;
    io::copy(source, &mut file).map_err(cannot_write)?;
    open.finish()
}

/// Removes these files and, with a slash at the end, folders, then the marker and the folder
/// where nothing else is left of them. Removes nothing when one of them is refused.
///
/// # Errors
/// `Usage` naming a file that det_post did not write, `Io` naming the path when the system
/// refuses or another process writes there.
pub fn remove_files(folder: &Path, names: &[String]) -> Result<()> {
    if fs::symlink_metadata(folder.join(marker::FILE_NAME)).is_err() {
        return check(folder, names, Duration::ZERO);
    }
    let mut marker = Marker::open(folder)?;
    let contents = Contents { folder, listed: marker.listed() };
    let mut removed = found(&contents, names)?;
    contents.add_folder(PARTIAL, &mut removed)?;
    for name in &removed {
        remove(&folder.join(name))?;
    }
    let folders = names.iter().filter_map(|name| name.strip_suffix('/'));
    folders.chain([PARTIAL]).for_each(|name| remove_empty(&folder.join(name)));
    marker.compact()?;
    if marker.listed().is_empty() {
        remove(&folder.join(marker::FILE_NAME))?;
        // A folder that is not empty stays.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

/// The files of these names that are there.
fn found(contents: &Contents<'_>, names: &[String]) -> Result<BTreeSet<String>> {
    names.iter().try_for_each(|name| super::check_name(contents.folder, name))?;
    let mut found = BTreeSet::new();
    contents.add_named(names.iter().map(String::as_str), &mut found)?;
    Ok(found)
}

impl OutputFolder {
    /// Refuses a folder that [`Self::open`] refuses for what is in it, before work that takes long.
    /// Creates, locks and changes nothing.
    ///
    /// # Errors
    /// `Usage` naming a file that has the name of a result and was not written by det_post.
    pub fn check(folder: &Path, replaces: Replaces) -> Result<()> {
        if !folder.is_dir() {
            return Ok(());
        }
        let listed = Listed::of_folder(folder);
        Contents { folder, listed: &listed }.replaced(replaces).map(drop)
    }
}
