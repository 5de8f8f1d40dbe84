//! `det_post outputs`: what a program that runs det_post does to its output folders, such as the
//! fleet of the Python package. Only files that det_post wrote are replaced or removed.

use std::path::PathBuf;
use std::time::Duration;

use super::ExitStatus;
use crate::replay::RESULTS;
use det_post_ros::output_folder::owned;
use det_post_types::Result;

/// How long a check waits for a process that writes to the folder, such as one that is ending.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `det_post outputs`.
#[derive(Debug, clap::Args)]
pub(super) struct OutputsArguments {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Debug, clap::Subcommand)]
enum Operation {
    /// Refuses what would refuse a command that writes these results.
    Check(Results),
    /// Writes a file from standard input.
    Write {
        /// The output folder.
        folder: PathBuf,
        /// The file below it.
        name: String,
    },
    /// Removes these results of earlier runs.
    Remove(Results),
}

#[derive(Debug, clap::Args)]
struct Results {
    /// The output folder.
    folder: PathBuf,
    /// Files and, with a slash at the end, folders below it; without any, the results of a replay.
    names: Vec<String>,
}

impl Results {
    fn names(&self) -> Vec<String> {
        match &self.names[..] {
            [] => RESULTS.iter().map(|&name| name.to_owned()).collect(),
            names => names.to_vec(),
        }
    }
}

/// Does the operation.
pub(super) fn outputs(arguments: &OutputsArguments) -> Result<ExitStatus> {
    match &arguments.operation {
        Operation::Check(results) => owned::check(&results.folder, &results.names(), PATIENCE)?,
        Operation::Write { folder, name } => {
            owned::write(folder, name, &mut std::io::stdin().lock())?;
        }
        Operation::Remove(results) => owned::remove_files(&results.folder, &results.names())?,
    }
    Ok(ExitStatus::Done)
}
