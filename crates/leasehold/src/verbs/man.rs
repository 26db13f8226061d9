//! `leasehold man`: the manual, from the definitions of the help.

use std::path::PathBuf;

use clap::Args;
use clap_mangen::Man;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::{command_line, reference};

/// Print the man page, or write one for each verb
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold man | man -l -
  leasehold man --output /usr/local/share/man/man1")]
pub(crate) struct ManArguments {
    /// Write a page for each verb into this directory
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,

    /// Print the whole manual as one page of Markdown instead
    #[arg(long, conflicts_with = "output")]
    markdown: bool,
}

pub(crate) fn run(arguments: &ManArguments, output: Output) -> Result<ExitCode, Failure> {
    if arguments.markdown {
        output.text(&reference::markdown())?;
        return Ok(ExitCode::DONE);
    }
    let command = command_line::command();
    if let Some(directory) = &arguments.output {
        clap_mangen::generate_to(command, directory)
            .map_err(|error| Failure::bad_argument(&directory.display().to_string(), error))?;
        return Ok(ExitCode::DONE);
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    output.text(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::DONE)
}
