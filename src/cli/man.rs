//! `det_post man`: a manual page per command.

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::{Arguments, ExitStatus};
use det_post_ros::output_folder::{OutputFolder, Replaces};
use det_post_types::{Error, ErrorKind, Result};

/// Arguments of `det_post man`.
#[derive(Debug, clap::Args)]
pub(super) struct ManArguments {
    /// Folder for det_post.1, det_post-replay.1 and so on, for example
    /// ~/.local/share/man/man1.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the page of the program and those of its commands.
pub(super) fn man(arguments: &ManArguments) -> Result<ExitStatus> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let mut folder = OutputFolder::open(&arguments.folder, Replaces::These(&[]))?;
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    for command in [&program].into_iter().chain(commands) {
        write_page(&mut folder, command)?;
    }
    folder.finish()?;
    Ok(ExitStatus::Done)
}

fn write_page(folder: &mut OutputFolder, command: &Command) -> Result<()> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)
        .map_err(|e| Error::new(ErrorKind::Io, "man", "cannot write a page").with_source(e))?;
    folder.write(&page.get_filename(), &String::from_utf8_lossy(&text))
}
