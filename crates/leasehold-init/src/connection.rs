//! One connection of the manager: frames in with their descriptors, frames out, never blocking.

use crate::framing::{Decoder, FrameError, encode};
use crate::protocol::{Call, Greeting, Reply, UnknownCall};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors that may wait for their frame: three for one command.
const DESCRIPTOR_LIMIT: usize = 3;

/// Answers that may wait for a manager that does not read them, in bytes. They are small; a peer that lets
/// this many pile up is broken.
const OUTGOING_LIMIT: usize = 256 * 1024;

/// The manager's end is gone, or speaks nonsense.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("the peer closed the connection")]
    Closed,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the peer asks for what its version does not have")]
    Unknown,
    #[error("the peer does not read its answers")]
    Clogged,
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// A connection, and what is half sent and half received on it.
pub(crate) struct Connection {
    socket: OwnedFd,
    decoder: Decoder,
    descriptors: Vec<OwnedFd>,
    outgoing: VecDeque<u8>,
}

impl Connection {
    /// Greets a peer that was accepted on a non-blocking socket.
    pub(crate) fn new(socket: OwnedFd, greeting: &Greeting) -> Result<Self, ConnectionError> {
        let mut connection = Self {
            socket,
            decoder: Decoder::default(),
            descriptors: Vec::new(),
            outgoing: VecDeque::new(),
        };
        connection.queue(greeting)?;
        Ok(connection)
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether answers wait for the socket to take them.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Reads what has arrived, one buffer of it: other connections want their turn.
    pub(crate) fn receive(&mut self) -> Result<(), ConnectionError> {
        let mut bytes = vec![0; 64 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_LIMIT))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        );
        let count = match received {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(io::Error::from(error).into()),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        // More than one command's worth belongs to no frame of ours: dropping closes them.
        self.descriptors.truncate(DESCRIPTOR_LIMIT);
        if count == 0 {
            return Err(ConnectionError::Closed);
        }
        self.decoder.push(&bytes[..count]);
        Ok(())
    }

    /// The next whole call, or what is understood of it.
    pub(crate) fn next_call(
        &mut self,
    ) -> Result<Option<Result<Call, UnknownCall>>, ConnectionError> {
        Ok(self.decoder.next_frame_or()?)
    }

    /// The descriptors that came with the last frame.
    pub(crate) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    /// Queues a reply and sends what the socket takes.
    pub(crate) fn reply(&mut self, reply: &Reply) -> Result<(), ConnectionError> {
        self.queue(reply)
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self) -> Result<(), ConnectionError> {
        while !self.outgoing.is_empty() {
            let (bytes, _) = self.outgoing.as_slices();
            match send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    fn queue<T: Serialize>(&mut self, value: &T) -> Result<(), ConnectionError> {
        self.outgoing.extend(encode(value)?);
        self.flush()?;
        if self.outgoing.len() > OUTGOING_LIMIT { Err(ConnectionError::Clogged) } else { Ok(()) }
    }
}
