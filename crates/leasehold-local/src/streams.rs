//! The pipes of a running command.
//!
//! Output is bounded: a reader that stops makes the command wait, once the spool that the init keeps is full.
//! When the command has ended, what it wrote is delivered and the output ends, though children that it left
//! behind may still hold its pipe. The init sees to all that; one of protocol 1 hands the command our own
//! pipes, and then it is seen to here.

use bytes::Bytes;
use leasehold_ports::{Frame, ProcessInput, StreamKind};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

/// The largest frame, in bytes; also what a pipe holds.
const FRAME_BYTES: usize = 64 * 1024;

/// Frames that may wait for the reader. With the two that are being read and the pipes themselves, less than
/// 1 MiB is held here for a command whose reader has stopped.
pub(crate) const FRAMES_WAITING: usize = 8;

/// Pieces of input that may wait for the command.
pub(crate) const INPUTS_WAITING: usize = 8;

/// The command's ends of its pipes.
pub(crate) type CommandEnds = [OwnedFd; 3];

/// The manager's ends.
pub(crate) struct ManagerEnds {
    pub(crate) input: Option<OwnedFd>,
    pub(crate) output: OwnedFd,
    pub(crate) error: OwnedFd,
}

/// Makes the pipes of a command; without input, its standard input is at its end from the start.
pub(crate) fn make(with_input: bool) -> io::Result<(CommandEnds, ManagerEnds)> {
    let (command_input, input) = if with_input {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        (read, Some(write))
    } else {
        (OwnedFd::from(std::fs::File::open("/dev/null")?), None)
    };
    let (output, command_output) = pipe_with(PipeFlags::CLOEXEC)?;
    let (error, command_error) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok(([command_input, command_output, command_error], ManagerEnds { input, output, error }))
}

/// Delivers one stream of kept output until it has ended. A reader that goes closes the pipe: the init then
/// goes on without.
pub(crate) async fn deliver_kept(
    stream: StreamKind,
    descriptor: OwnedFd,
    frames: mpsc::Sender<Frame>,
) {
    let Ok(pipe) = pipe::Receiver::from_owned_fd(descriptor) else { return };
    let mut buffer = vec![0; FRAME_BYTES];
    loop {
        let read = tokio::select! {
            biased;
            () = frames.closed() => return,
            read = read_some(&pipe, &mut buffer) => read,
        };
        let Ok(count @ 1..) = read else { return };
        let frame = Frame { stream, bytes: Bytes::copy_from_slice(&buffer[..count]) };
        if frames.send(frame).await.is_err() {
            return;
        }
    }
}

/// Delivers one stream of output of an init of protocol 1 until it has ended, or the command has and nothing more of it is there.
pub(crate) async fn deliver<E>(
    stream: StreamKind,
    descriptor: OwnedFd,
    frames: mpsc::Sender<Frame>,
    mut end: watch::Receiver<Option<E>>,
) {
    // Makes this end non-blocking; the command's end is a description of its own, and blocks.
    let Ok(pipe) = pipe::Receiver::from_owned_fd(descriptor) else { return };
    let mut buffer = vec![0; FRAME_BYTES];
    loop {
        let has_ended = end.borrow_and_update().is_some();
        let read = if has_ended {
            // By the kernel's word: the runtime's notion of readiness may lag behind it, and would end the
            // output too early.
            match rustix::io::read(pipe.as_fd(), &mut buffer) {
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                other => other.map_err(io::Error::from),
            }
        } else {
            tokio::select! {
                biased;
                read = read_some(&pipe, &mut buffer) => read,
                changed = end.changed() => match changed {
                    Ok(()) => continue,
                    // The end can never be told any more: only the pipe is left to wait for.
                    Err(_) => read_some(&pipe, &mut buffer).await,
                },
            }
        };
        let Ok(count @ 1..) = read else { return };
        let frame = Frame { stream, bytes: Bytes::copy_from_slice(&buffer[..count]) };
        if frames.send(frame).await.is_err() {
            break;
        }
    }
    drop((frames, end));
    // Keep the pipe open for the children that may still hold it.
    buffer.truncate(4096);
    buffer.shrink_to_fit();
    while let Ok(1..) = read_some(&pipe, &mut buffer).await {}
}

async fn read_some(pipe: &pipe::Receiver, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        pipe.readable().await?;
        match pipe.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

/// Passes input on until its end, until nobody sends any more, or until the command does not read any more.
pub(crate) async fn feed(descriptor: OwnedFd, mut inputs: mpsc::Receiver<ProcessInput>) {
    let Ok(mut pipe) = pipe::Sender::from_owned_fd(descriptor) else { return };
    while let Some(ProcessInput::Bytes(bytes)) = inputs.recv().await {
        if pipe.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
