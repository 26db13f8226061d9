//! The manager's end of a sandbox's control socket.
//!
//! A connection serves one call, or one command from its start to its end. Before anything is sent the peer
//! is proved to be the recorded init: by the kernel's word on who listens (process and user id), and by its
//! greeting (boot, start time, sandbox).

use crate::error::LocalError;
use crate::layout::Found;
use bytes::BytesMut;
use leasehold_init::framing::{Decoder, encode};
use leasehold_init::identity::ProcessIdentity;
use leasehold_init::protocol::{
    Answer, Call, Greeting, OLDEST_PROTOCOL, PROTOCOL, Reply, Request, SOCKET_NAME, TIMER_PROTOCOL,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;

/// A connection to an init that is proved to be the right one.
pub(crate) struct Control {
    stream: UnixStream,
    decoder: Decoder,
    next_serial: u64,
    /// What the init speaks.
    protocol: u32,
    /// Replies that came before the one that was waited for.
    early: Vec<Reply>,
}

impl Control {
    /// Connects. Every error means that nothing was asked of the sandbox.
    pub(crate) async fn connect(found: &Found, init: &ProcessIdentity) -> Result<Self, LocalError> {
        let stream = loop {
            match UnixStream::connect(found.directory.short_path(SOCKET_NAME)).await {
                Ok(stream) => break stream,
                // The queue of the listener is full: let it work. The caller's deadline bounds this.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::task::yield_now().await
                }
                Err(error) => return Err(refusal_to_connect(found, init, error)),
            }
        };
        let peer = stream.peer_cred().map_err(LocalError::Unreachable)?;
        if peer.uid() != rustix::process::geteuid().as_raw() || peer.pid() != Some(init.pid) {
            return Err(LocalError::Impostor);
        }
        let mut control = Self {
            stream,
            decoder: Decoder::default(),
            next_serial: 0,
            protocol: PROTOCOL,
            early: Vec::new(),
        };
        let greeting: Greeting = control.receive().await.map_err(|error| match error {
            LocalError::ConnectionLost(source) => refusal_to_connect(found, init, source),
            other => other,
        })?;
        let is_recorded_init = greeting.boot_id == init.boot_id
            && greeting.start_time == init.start_time
            && greeting.sandbox == found.record.id.as_str();
        if !is_recorded_init {
            return Err(LocalError::Impostor);
        }
        control.protocol = agree(greeting.protocol, greeting.oldest_protocol)?;
        Ok(control)
    }

    /// Whether the init has a timer.
    pub(crate) const fn has_timer(&self) -> bool {
        self.protocol >= TIMER_PROTOCOL
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(&mut self, request: Request) -> Result<Answer, LocalError> {
        let (serial, frame) = self.frame(request)?;
        self.stream.write_all(&frame).await.map_err(LocalError::ConnectionLost)?;
        self.answer(serial).await
    }

    /// Asks something of a command, with descriptors that the init gets copies of, and in the same breath
    /// for the command's end: gives the answer to the first, and what the end is to be had with from
    /// [`Control::answer`].
    pub(crate) async fn ask_with_end(
        &mut self,
        request: Request,
        descriptors: &[OwnedFd],
        command: String,
    ) -> Result<(Answer, u64), LocalError> {
        let (serial, mut frames) = self.frame(request)?;
        let (end, wait) = self.frame(Request::Wait { command })?;
        frames.extend(wait);
        let sent =
            self.send_first_part(&frames, descriptors).await.map_err(LocalError::ConnectionLost)?;
        self.stream.write_all(&frames[sent..]).await.map_err(LocalError::ConnectionLost)?;
        Ok((self.answer(serial).await?, end))
    }

    /// The protocol that both ends speak.
    pub(crate) const fn protocol(&self) -> u32 {
        self.protocol
    }

    fn frame(&mut self, request: Request) -> Result<(u64, Vec<u8>), LocalError> {
        let serial = self.next_serial;
        self.next_serial += 1;
        Ok((serial, encode(&Call { protocol: self.protocol, serial, request })?))
    }

    async fn send_first_part(&self, frame: &[u8], descriptors: &[OwnedFd]) -> io::Result<usize> {
        let descriptors: Vec<BorrowedFd<'_>> =
            descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
        self.stream
            .async_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                Ok(sendmsg(&self.stream, &[IoSlice::new(frame)], &mut ancillary, flags)?)
            })
            .await
    }

    /// Waits for the answer to a call that was sent.
    pub(crate) async fn answer(&mut self, serial: u64) -> Result<Answer, LocalError> {
        if let Some(place) = self.early.iter().position(|reply| reply.serial == serial) {
            return Ok(self.early.swap_remove(place).answer);
        }
        loop {
            let reply: Reply = self.receive().await?;
            if reply.serial == serial {
                return Ok(reply.answer);
            }
            // At most as many as calls were sent.
            if reply.serial >= self.next_serial || self.early.len() > 1 {
                return Err(LocalError::UnexpectedAnswer);
            }
            self.early.push(reply);
        }
    }

    async fn receive<T: DeserializeOwned>(&mut self) -> Result<T, LocalError> {
        loop {
            if let Some(value) = self.decoder.next_frame()? {
                return Ok(value);
            }
            let mut chunk = BytesMut::with_capacity(4096);
            match self.stream.read_buf(&mut chunk).await {
                Ok(0) => {
                    return Err(LocalError::ConnectionLost(io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(_) => self.decoder.push(&chunk),
                Err(error) => return Err(LocalError::ConnectionLost(error)),
            }
        }
    }
}

/// The newest protocol that both this build and an init speak.
fn agree(protocol: u32, oldest: u32) -> Result<u32, LocalError> {
    if protocol < OLDEST_PROTOCOL || oldest > PROTOCOL {
        return Err(LocalError::Unsuitable(format!(
            "this sandbox's init speaks protocol {oldest} to {protocol}, this build {OLDEST_PROTOCOL} to \
             {PROTOCOL}: use the build that made the sandbox, or destroy it, which any build can"
        )));
    }
    Ok(protocol.min(PROTOCOL))
}

/// A socket without a listener belongs to an init that has ended; any other error tells nothing.
fn refusal_to_connect(found: &Found, init: &ProcessIdentity, error: io::Error) -> LocalError {
    match crate::liveness::lives(init) {
        Ok(false) if matches!(found.directory.timer_end(), Ok(Some(_))) => LocalError::TimerDue,
        Ok(false) => LocalError::InitEnded,
        _ => LocalError::Unreachable(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_speak_the_newest_protocol_that_both_know() {
        assert_eq!(agree(1, 1).ok(), Some(1));
        assert_eq!(agree(PROTOCOL, 1).ok(), Some(PROTOCOL));
        assert_eq!(agree(99, PROTOCOL).ok(), Some(PROTOCOL));
    }

    #[test]
    fn an_init_of_a_protocol_that_is_not_known_is_named_with_what_to_do() {
        for (protocol, oldest) in [(0, 0), (99, PROTOCOL + 1)] {
            let told = agree(protocol, oldest).map_err(|error| error.to_string());
            assert!(told.is_err_and(|message| message.contains("destroy it")));
        }
    }
}
