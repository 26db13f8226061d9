//! `leasehold cp`: files into a sandbox and out of it.

use std::path::{Path, PathBuf};

use clap::Args;
use leasehold_archive::{Caps, Exclude, PackOptions, Symlinks, UnpackOptions};
use leasehold_core::{Caller, Grant};
use leasehold_ports::{Incoming, Outgoing};
use serde::Serialize;

use crate::arguments::OwnerArgument;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lease_names;
use crate::stop::StopSignals;
use crate::transfer::{Copied, Source, Target, Transfer, failure_here};

/// Copy files into a sandbox, or out of it.
///
/// One of the two is LEASE:PATH, and relative to the workspace. As with `cp -r`, a source goes into a
/// directory that exists under its own name, and else takes the name of the target; of a source that ends
/// in `/.`, and of `LEASE:`, the contents are copied. Modes, times and links are kept, owners are not. A link
/// that is named itself is followed. `-` is a tar stream: from standard input, or to standard output,
/// where a single file is written as it is.
///
/// In the sandbox, the copying is done by a process of the sandbox's user: it may do what a command may.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  leasehold cp project ls_lfhr:
  leasehold cp --exclude target --exclude '*.log' project/. ls_lfhr:/workspace
  leasehold cp ls_lfhr:out/report.html .
  leasehold cp ls_lfhr:out - | tar t")]
pub(crate) struct CpArguments {
    /// What is copied: a local path, LEASE:PATH, or `-`.
    #[arg(value_name = "SOURCE")]
    source: String,

    /// Where to: a local path, LEASE:PATH, or `-`.
    #[arg(value_name = "TARGET")]
    target: String,

    /// Leave out what fits, in the language of gitignore; may be repeated.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,

    /// Copy what links inside the tree lead to, instead of the links.
    #[arg(long)]
    follow: bool,

    /// Copy no more bytes than this. By default 64 GiB.
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,

    /// Copy no more files, directories and links than this. By default 1,000,000.
    #[arg(long, value_name = "COUNT")]
    max_entries: Option<u64>,

    #[command(flatten)]
    owner: OwnerArgument,

    /// The number that the acquire or the resume gave; a call with an older one is refused.
    #[arg(long, value_name = "NUMBER")]
    grant: Option<u64>,
}

/// One side of a copy, as it was written.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Inside { lease: &'a str, path: &'a str },
    Here(&'a Path),
    Stream,
}

impl<'a> Place<'a> {
    /// As `scp` reads it: a colon before any slash sets a lease apart. `./a:b` is a local file.
    fn of(text: &'a str) -> Self {
        if text == "-" {
            return Self::Stream;
        }
        match text.split_once(':') {
            Some((lease, path)) if !lease.contains('/') => {
                Self::Inside { lease, path: if path.is_empty() { "." } else { path } }
            }
            _ => Self::Here(Path::new(text)),
        }
    }
}

/// The name under which a source goes into a directory; none if its contents do.
fn name_of(source: &str) -> Option<String> {
    let last = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    (!matches!(last, "" | "." | "..")).then(|| last.to_owned())
}

#[derive(Serialize)]
struct CopiedView {
    files: u64,
    directories: u64,
    symlinks: u64,
    bytes: u64,
    left_out: u64,
}

pub(crate) async fn run(
    arguments: &CpArguments,
    installation: &Installation,
) -> Result<ExitCode, Failure> {
    let (source, target) = (Place::of(&arguments.source), Place::of(&arguments.target));
    let lease = match (&source, &target) {
        (Place::Inside { .. }, Place::Inside { .. }) => {
            let problem = "both are in sandboxes: copy to a local directory in between";
            return Err(Failure::bad_argument("SOURCE and TARGET", problem));
        }
        (Place::Inside { lease, .. }, _) | (_, Place::Inside { lease, .. }) => *lease,
        _ => {
            let problem = "one of the two is LEASE:PATH, such as ls_lfhr:data";
            return Err(Failure::bad_argument("SOURCE and TARGET", problem));
        }
    };
    let exclude = Exclude::new(&arguments.exclude).map_err(|error| failure_here(&error))?;
    let mut caps = Caps::default();
    caps.total_bytes = arguments.max_bytes.unwrap_or(caps.total_bytes);
    caps.entries = arguments.max_entries.unwrap_or(caps.entries);
    let usual = &installation.configuration.owner;
    let caller = Caller::Owner {
        owner: arguments.owner.owner.clone().unwrap_or_else(|| usual.clone()),
        grant: arguments.grant.map(Grant),
    };
    let mut signals = StopSignals::catch()?;
    let keeper = installation.keeper().await?;
    let lease = lease_names::find(keeper.ledger(), lease).await?.id.clone();
    let output = installation.output;
    let mut transfer =
        Transfer { keeper: &keeper, lease: &lease, caller: &caller, output, signals: &mut signals };
    let to_stream = target == Place::Stream;
    let copied = match (source, target) {
        (Place::Inside { path, .. }, target) => {
            let source = Outgoing {
                path: path.to_owned(),
                exclude: arguments.exclude.clone(),
                follow_links: arguments.follow,
            };
            let target = match target {
                Place::Here(target) => Target::Copy(target.to_owned(), name_of(path)),
                Place::Stream | Place::Inside { .. } => Target::StandardOutput,
            };
            let options = UnpackOptions { caps, ..UnpackOptions::default() };
            transfer.copy_out(source, target, options).await
        }
        (source, Place::Inside { path, .. }) => {
            let (source, name) = match source {
                Place::Here(source) => {
                    (Source::Path(PathBuf::from(source)), name_of(&arguments.source))
                }
                Place::Stream | Place::Inside { .. } => (Source::StandardInput, None),
            };
            let symlinks = if arguments.follow { Symlinks::Follow } else { Symlinks::Keep };
            let options = PackOptions { exclude, caps, symlinks, ..PackOptions::default() };
            transfer.copy_in(source, Incoming { path: path.to_owned(), name }, options).await
        }
        // Refused above.
        _ => return Ok(ExitCode::USAGE),
    };
    match copied {
        Ok(Copied::Done(summary)) if to_stream || output.quiet => {
            drop(summary);
            Ok(ExitCode::DONE)
        }
        Ok(Copied::Done(summary)) => {
            let view = CopiedView {
                files: summary.files,
                directories: summary.directories,
                symlinks: summary.symlinks,
                bytes: summary.bytes,
                left_out: summary.noticed,
            };
            if output.json {
                output.json(&view)?;
            } else if summary.entries() > 0 {
                let (entries, bytes) = (summary.entries(), summary.bytes);
                output.note(&format!("copied {entries} entries, {bytes} bytes"));
            }
            Ok(ExitCode::DONE)
        }
        Ok(Copied::Stopped(signal)) => {
            keeper.drain().await;
            Ok(ExitCode::of_signal(signal))
        }
        Err(failure) => {
            keeper.settle_idle().await;
            Err(failure)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_any_slash_sets_a_lease_apart() {
        assert_eq!(Place::of("ls_a:b/c"), Place::Inside { lease: "ls_a", path: "b/c" });
        assert_eq!(Place::of("ls_a:"), Place::Inside { lease: "ls_a", path: "." });
        assert_eq!(Place::of("./a:b"), Place::Here(Path::new("./a:b")));
        assert_eq!(Place::of("-"), Place::Stream);
    }

    #[test]
    fn contents_have_no_name() {
        for contents in [".", "..", "a/.", "/", "a/.."] {
            assert_eq!(name_of(contents), None, "{contents}");
        }
        assert_eq!(name_of("/a/b/").as_deref(), Some("b"));
    }
}
