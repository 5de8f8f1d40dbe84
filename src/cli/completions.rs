//! `det_post completions`: what a shell completes.

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};

use super::{Arguments, ExitStatus, stdout};
use det_post_types::Result;

/// Arguments of `det_post completions`.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArguments {
    /// The shell that reads them.
    shell: Shell,
}

/// Prints the completions of a shell.
pub(super) fn completions(arguments: &CompletionsArguments) -> Result<ExitStatus> {
    let program = Arguments::command();
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    let mut shown = Command::new(env!("CARGO_PKG_NAME"))
        .args(program.get_arguments().cloned())
        .subcommands(commands.cloned());
    let mut text = Vec::new();
    generate(arguments.shell, &mut shown, env!("CARGO_PKG_NAME"), &mut text);
    stdout::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitStatus::Done)
}
