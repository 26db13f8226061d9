//! A transfer of files: what a child does that executes no program.
//!
//! The child is the command's user in the sandbox's root, and hostile processes of the same user run beside
//! it. It has the init's memory, so it must not be one that they can look into; and none of its descriptors
//! but its three streams.

use crate::kernel;
use crate::protocol::Transfer;
use leasehold_archive::{
    ArchiveError, Exclude, PackOptions, Placement, Summary, Symlinks, UnpackOptions, Watch,
    receive, send,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::convert::Infallible;
use std::io;

/// Bytes of words that go to standard error at most, so that a reader need not be trusted to read.
const WORDS: usize = 16 * 1024;

/// Does the transfer over the standard streams and ends the process. Whoever started it learns that it runs
/// from the descriptors that are closed first.
///
/// # Errors
///
/// If it was not begun.
pub(crate) fn perform(transfer: &Transfer) -> io::Result<Infallible> {
    // As the command's user, so after every change of it: a change sets this back.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    kernel::without_descriptors(|| {
        let (words, status) = match run(transfer) {
            Ok(summary) => (notices(&summary), 0),
            Err(error) => (format!("{error}\n"), error.trouble().exit_status()),
        };
        let words = words.as_bytes();
        // Nobody reads it: then nobody is to be told.
        let _ = rustix::io::write(rustix::stdio::stderr(), words.get(..WORDS).unwrap_or(words));
        kernel::exit_now(i32::from(status))
    })
}

fn run(transfer: &Transfer) -> Result<Summary, ArchiveError> {
    match transfer {
        Transfer::Send { path, exclude, follow_links } => {
            let options = PackOptions {
                exclude: Exclude::new(exclude)?,
                symlinks: if *follow_links { Symlinks::Follow } else { Symlinks::Keep },
                ..PackOptions::default()
            };
            send(path, Stream(rustix::stdio::stdout()), &options, &mut Watch::none())
        }
        Transfer::Receive { path, name } => {
            let placement = Placement::Copy { name: name.as_deref() };
            let input = Stream(rustix::stdio::stdin());
            receive(path, placement, input, &UnpackOptions::default(), &mut Watch::none())
        }
    }
}

/// One line for each thing that was left out or changed.
fn notices(summary: &Summary) -> String {
    let mut words: String = summary
        .notices
        .iter()
        .map(|notice| format!("{:?}: {}\n", notice.path, notice.reason))
        .collect();
    let more = summary.noticed.saturating_sub(summary.notices.len() as u64);
    if more > 0 {
        words.push_str(&format!("and {more} more\n"));
    }
    words
}

/// A standard stream without the standard library's buffer and lock.
struct Stream(std::os::fd::BorrowedFd<'static>);

impl io::Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buffer)?)
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
