//! What commands wrote: kept with offsets, so that it outlives the manager that asked for it.
//!
//! The init stands between a command's pipes and its readers. Each stream has a spool of
//! [`SPOOL_BYTES`]. While a reader is attached nothing that it has not got is given up: a full spool makes
//! the command wait. With no reader the oldest bytes go, and who attaches later learns from the offset where
//! the delivery begins how many. What may not live here: sockets, and any look at what was written.

use rustix::event::PollFlags;
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::io::{Errno, ioctl_fionread, pread, pwrite, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// What is kept of one stream, in bytes: 64 MiB for a command's two.
const SPOOL_BYTES: u64 = 32 * 1024 * 1024;

/// What is kept of all commands whose output is over, in bytes, and of how many.
const FINISHED_BYTES: u64 = 64 * 1024 * 1024;
const FINISHED_COMMANDS: usize = 64;

const CHUNK_BYTES: usize = 64 * 1024;

/// A ring in memory that is nobody's address space: it costs what is in it, and no more.
struct Spool {
    file: Option<OwnedFd>,
    capacity: u64,
    /// The offset of the oldest byte that is kept.
    start: u64,
    /// The offset after the latest.
    end: u64,
}

impl Spool {
    const fn new(capacity: u64) -> Self {
        Self { file: None, capacity, start: 0, end: 0 }
    }

    /// Keeps bytes, at the cost of the oldest. What cannot be kept counts as written and gone.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let goal = self.end + bytes.len() as u64;
        let result = self.append_all(bytes);
        if result.is_err() {
            (self.start, self.end) = (goal, goal);
        }
        result
    }

    fn append_all(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(memfd_create(c"leasehold-output", MemfdFlags::CLOEXEC)?),
        };
        while !bytes.is_empty() {
            let place = self.end % self.capacity;
            let fitting = bytes.len().min(usize_of(self.capacity - place));
            let count = pwrite(file, &bytes[..fitting], place)?;
            if count == 0 {
                return Err(Errno::NOSPC);
            }
            bytes = &bytes[count..];
            self.end += count as u64;
            self.start = self.start.max(self.end.saturating_sub(self.capacity));
        }
        Ok(())
    }

    /// Reads from an offset that is kept, as much as lies in one piece.
    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let Some(file) = &self.file else { return Ok(0) };
        let place = at % self.capacity;
        let length = usize_of((self.end - at).min(self.capacity - place)).min(buffer.len());
        pread(file, &mut buffer[..length], place)
    }

    fn forget(&mut self) {
        self.file = None;
        self.start = self.end;
    }
}

fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Somebody who is given a stream, and how far.
struct Reader {
    pipe: OwnedFd,
    at: u64,
}

struct Stream {
    /// The end of the command's pipe that is ours, until all of the command's processes have closed theirs.
    source: Option<OwnedFd>,
    /// How many bytes still count, once the command has ended: those that were in the pipe then. Children
    /// that it left behind may write on; that is thrown away.
    remaining: Option<u64>,
    spool: Spool,
    readers: Vec<Reader>,
}

impl Stream {
    fn new(source: OwnedFd, capacity: u64) -> Self {
        let spool = Spool::new(capacity);
        Self { source: Some(source), remaining: None, spool, readers: Vec::new() }
    }

    /// Whether everything that counts was taken in.
    fn is_over(&self) -> bool {
        self.source.is_none() || self.remaining == Some(0)
    }

    /// How many bytes may be taken in without loss to a reader.
    fn room(&self) -> u64 {
        let slowest = self.readers.iter().map(|reader| reader.at).min();
        slowest.map_or(u64::MAX, |at| self.spool.capacity - (self.spool.end - at))
    }

    /// Takes in one piece; says whether there may be more at once.
    fn take_in(&mut self, buffer: &mut [u8]) -> bool {
        let Some(source) = &self.source else { return false };
        let is_over = self.remaining == Some(0);
        let limit =
            if is_over { u64::MAX } else { self.room().min(self.remaining.unwrap_or(u64::MAX)) };
        let length = usize_of(limit).min(buffer.len());
        if length == 0 {
            return false;
        }
        match read(source, &mut buffer[..length]) {
            Ok(count @ 1..) => {
                if !is_over {
                    if self.spool.append(&buffer[..count]).is_err() {
                        // A reader must not take what comes after a hole for what comes next.
                        self.readers.clear();
                    }
                    if let Some(remaining) = &mut self.remaining {
                        *remaining = remaining.saturating_sub(count as u64);
                    }
                }
                !is_over
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Ok(_) | Err(_) => {
                self.source = None;
                false
            }
        }
    }

    /// Gives every reader what its pipe takes, and its end to whoever has everything.
    fn give_out(&mut self, buffer: &mut [u8]) {
        let (spool, is_over) = (&self.spool, self.is_over());
        self.readers.retain_mut(|reader| {
            while reader.at < spool.end {
                let Ok(count @ 1..) = spool.read(reader.at, buffer) else { return false };
                match write(&reader.pipe, &buffer[..count]) {
                    Ok(written) => reader.at += written as u64,
                    Err(Errno::AGAIN | Errno::INTR) => return true,
                    Err(_) => return false,
                }
            }
            !is_over
        });
    }

    fn main_ended(&mut self, buffer: &mut [u8]) {
        if let Some(source) = &self.source {
            self.remaining = Some(ioctl_fionread(source).unwrap_or(0));
        }
        loop {
            let more = !self.is_over() && self.take_in(buffer);
            self.give_out(buffer);
            if !more {
                return;
            }
        }
    }

    /// Attaches a reader; says at which offset its delivery begins.
    fn attach(&mut self, pipe: OwnedFd, from: u64) -> Result<u64, Errno> {
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        let at = from.clamp(self.spool.start, self.spool.end);
        self.readers.push(Reader { pipe, at });
        Ok(at)
    }

    fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let takes = self.remaining == Some(0) || self.room() > 0;
        let source = self.source.iter().filter(move |_| takes);
        // A pipe whose other end is closed reports so unasked.
        let readers = self.readers.iter().map(|reader| {
            let waits = reader.at < self.spool.end;
            (reader.pipe.as_fd(), if waits { PollFlags::OUT } else { PollFlags::empty() })
        });
        source.map(|source| (source.as_fd(), PollFlags::IN)).chain(readers)
    }
}

/// The output of one command.
pub(crate) struct Output([Stream; 2]);

impl Output {
    /// Puts the init between a command and those who asked for it: the streams that come back are the
    /// command's, the ones given become its first readers.
    pub(crate) fn between(streams: [OwnedFd; 3]) -> Result<([OwnedFd; 3], Self), Errno> {
        let [input, output, error] = streams;
        let (output_source, command_output) = command_pipe()?;
        let (error_source, command_error) = command_pipe()?;
        let mut kept =
            Self([Stream::new(output_source, SPOOL_BYTES), Stream::new(error_source, SPOOL_BYTES)]);
        kept.attach([output, error], [0, 0])?;
        Ok(([input, command_output, command_error], kept))
    }

    fn attach(&mut self, [output, error]: [OwnedFd; 2], from: [u64; 2]) -> Result<[u64; 2], Errno> {
        let [first, second] = &mut self.0;
        Ok([first.attach(output, from[0])?, second.attach(error, from[1])?])
    }

    fn turn(&mut self, buffer: &mut [u8]) {
        for stream in &mut self.0 {
            stream.take_in(buffer);
            stream.give_out(buffer);
        }
    }

    fn has_readers(&self) -> bool {
        self.0.iter().any(|stream| !stream.readers.is_empty())
    }

    fn is_finished(&self) -> bool {
        !self.has_readers() && self.0.iter().all(Stream::is_over)
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|stream| stream.spool.end - stream.spool.start).sum()
    }
}

/// A pipe whose reading end does not block; the writing end, which the command gets, does.
fn command_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&read, fcntl_getfl(&read)? | OFlags::NONBLOCK)?;
    Ok((read, write))
}

/// The output of all commands that asked for it to be kept.
#[derive(Default)]
pub(crate) struct Outputs {
    by_command: BTreeMap<String, Output>,
    /// Those that are over and read by nobody, oldest first.
    finished: VecDeque<String>,
}

impl Outputs {
    pub(crate) fn insert(&mut self, command: String, output: Output) {
        self.by_command.insert(command, output);
    }

    /// Attaches readers of output and error. `None` when nothing of this command is kept.
    pub(crate) fn attach(
        &mut self,
        command: &str,
        pipes: [OwnedFd; 2],
        from: [u64; 2],
    ) -> Option<Result<[u64; 2], Errno>> {
        let attached = self.by_command.get_mut(command)?.attach(pipes, from);
        self.finished.retain(|finished| finished != command);
        self.turn(command);
        Some(attached)
    }

    /// Moves what can be moved.
    pub(crate) fn turn(&mut self, command: &str) {
        let Some(output) = self.by_command.get_mut(command) else { return };
        output.turn(&mut vec![0; CHUNK_BYTES]);
        self.settle(command);
    }

    /// The command's main process has ended: what it wrote counts, and nothing that comes later.
    pub(crate) fn main_ended(&mut self, command: &str) {
        let Some(output) = self.by_command.get_mut(command) else { return };
        let mut buffer = vec![0; CHUNK_BYTES];
        for stream in &mut output.0 {
            stream.main_ended(&mut buffer);
        }
        self.settle(command);
    }

    /// Forgets the output of commands that are not known any more, unless somebody is reading it.
    pub(crate) fn keep_only(&mut self, is_known: impl Fn(&str) -> bool) {
        let forgotten: Vec<String> = self
            .by_command
            .iter()
            .filter(|(id, output)| !is_known(id) && !output.has_readers())
            .map(|(id, _)| id.clone())
            .collect();
        self.finished.retain(|id| !forgotten.contains(id));
        for id in forgotten {
            self.forget(&id);
        }
    }

    /// What to watch, with the command that it belongs to.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>, PollFlags)> {
        self.by_command.iter().flat_map(|(id, output)| {
            output
                .0
                .iter()
                .flat_map(Stream::watched)
                .map(move |(descriptor, flags)| (id.as_str(), descriptor, flags))
        })
    }

    fn settle(&mut self, command: &str) {
        let is_finished = self.by_command.get(command).is_some_and(Output::is_finished);
        if !is_finished || self.finished.iter().any(|finished| finished == command) {
            return;
        }
        self.finished.push_back(command.to_owned());
        let mut bytes: u64 =
            self.finished.iter().filter_map(|id| self.by_command.get(id)).map(Output::bytes).sum();
        while bytes > FINISHED_BYTES || self.finished.len() > FINISHED_COMMANDS {
            let Some(oldest) = self.finished.pop_front() else { return };
            bytes -= self.by_command.get(&oldest).map_or(0, Output::bytes);
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, command: &str) {
        let Some(output) = self.by_command.get_mut(command) else { return };
        if output.0.iter().all(|stream| stream.source.is_none()) {
            self.by_command.remove(command);
            return;
        }
        // Children that were left behind still write: closing the pipe would kill them.
        output.0.iter_mut().for_each(|stream| stream.spool.forget());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(capacity: u64) -> (Stream, OwnedFd) {
        let (source, command) = command_pipe().unwrap();
        (Stream::new(source, capacity), command)
    }

    fn everything_in(pipe: &OwnedFd) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let count = read(pipe, &mut bytes).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    fn attach(stream: &mut Stream, from: u64) -> (u64, OwnedFd) {
        let (reading, writing) = command_pipe().unwrap();
        (stream.attach(writing, from).unwrap(), reading)
    }

    #[test]
    fn with_no_reader_the_oldest_goes_and_the_gap_is_counted() {
        let (mut stream, command) = stream(8);
        let mut buffer = [0; 3];
        write(&command, b"0123456789ab").unwrap();
        while stream.take_in(&mut buffer) {}
        let (at, reading) = attach(&mut stream, 1);
        assert_eq!(at, 4, "of what was asked for, 3 bytes are gone");
        stream.give_out(&mut buffer);
        assert_eq!(everything_in(&reading), b"456789ab");
    }

    #[test]
    fn with_a_reader_a_full_spool_takes_nothing_in_and_nothing_is_lost() {
        let (mut stream, command) = stream(8);
        let mut buffer = [0; 64];
        let (_, reading) = attach(&mut stream, 0);
        write(&command, b"0123456789ab").unwrap();
        stream.take_in(&mut buffer);
        stream.take_in(&mut buffer);
        assert_eq!((stream.spool.end, stream.room()), (8, 0));
        assert!(stream.watched().all(|(_, flags)| flags == PollFlags::OUT));
        stream.give_out(&mut buffer);
        stream.take_in(&mut buffer);
        stream.give_out(&mut buffer);
        assert_eq!(everything_in(&reading), b"0123456789ab");
    }

    #[test]
    fn a_reader_that_goes_holds_nobody_up() {
        let (mut stream, command) = stream(8);
        let mut buffer = [0; 64];
        let (_, reading) = attach(&mut stream, 0);
        drop(reading);
        write(&command, b"0123456789ab").unwrap();
        stream.take_in(&mut buffer);
        stream.give_out(&mut buffer);
        assert_eq!(stream.room(), u64::MAX);
    }

    #[test]
    fn what_was_written_before_the_end_counts_and_what_comes_later_does_not() {
        let (mut stream, command) = stream(64);
        let mut buffer = [0; 3];
        let (_, reading) = attach(&mut stream, 0);
        write(&command, b"before").unwrap();
        stream.main_ended(&mut buffer);
        write(&command, b"after").unwrap();
        while stream.take_in(&mut buffer) {}
        stream.give_out(&mut buffer);
        assert_eq!(everything_in(&reading), b"before");
        assert!(stream.readers.is_empty() && stream.source.is_some());
    }

    #[test]
    fn of_commands_that_are_over_a_bounded_number_is_kept() {
        let mut outputs = Outputs::default();
        for number in 0..FINISHED_COMMANDS + 5 {
            let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
            let (streams, output) = Output::between([null(), null(), null()]).unwrap();
            drop(streams);
            let id = format!("{number:03}");
            outputs.insert(id.clone(), output);
            outputs.turn(&id);
            outputs.turn(&id);
        }
        assert_eq!(outputs.by_command.len(), FINISHED_COMMANDS);
        assert!(!outputs.by_command.contains_key("004"));
        assert!(outputs.by_command.contains_key("005"));
    }
}
