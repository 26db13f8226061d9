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
        let mut control = Self { stream, decoder: Decoder::default(), next_serial: 0, protocol: 0 };
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
        if greeting.protocol < OLDEST_PROTOCOL || greeting.oldest_protocol > PROTOCOL {
            return Err(LocalError::Unsuitable(format!(
                "this sandbox's init speaks protocol {}, this build speaks {PROTOCOL}",
                greeting.protocol
            )));
        }
        control.protocol = greeting.protocol;
        Ok(control)
    }

    /// Whether the init has a timer.
    pub(crate) const fn has_timer(&self) -> bool {
        self.protocol >= TIMER_PROTOCOL
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(&mut self, request: Request) -> Result<Answer, LocalError> {
        let serial = self.send(request, None).await?;
        self.answer(serial).await
    }

    /// Asks with descriptors, which the init gets copies of.
    pub(crate) async fn ask_with(
        &mut self,
        request: Request,
        streams: &[OwnedFd; 3],
    ) -> Result<Answer, LocalError> {
        let serial = self.send(request, Some(streams)).await?;
        self.answer(serial).await
    }

    async fn send(
        &mut self,
        request: Request,
        streams: Option<&[OwnedFd; 3]>,
    ) -> Result<u64, LocalError> {
        let serial = self.next_serial;
        self.next_serial += 1;
        let frame = encode(&Call { protocol: PROTOCOL, serial, request })?;
        let sent = match streams {
            Some(streams) => {
                self.send_first_part(&frame, streams).await.map_err(LocalError::ConnectionLost)?
            }
            None => 0,
        };
        self.stream.write_all(&frame[sent..]).await.map_err(LocalError::ConnectionLost)?;
        Ok(serial)
    }

    async fn send_first_part(&self, frame: &[u8], streams: &[OwnedFd; 3]) -> io::Result<usize> {
        self.stream
            .async_io(Interest::WRITABLE, || {
                let descriptors: [BorrowedFd<'_>; 3] =
                    streams.each_ref().map(|stream| stream.as_fd());
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                Ok(sendmsg(&self.stream, &[IoSlice::new(frame)], &mut ancillary, flags)?)
            })
            .await
    }

    async fn answer(&mut self, serial: u64) -> Result<Answer, LocalError> {
        let reply: Reply = self.receive().await?;
        if reply.serial == serial { Ok(reply.answer) } else { Err(LocalError::UnexpectedAnswer) }
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

/// A socket without a listener belongs to an init that has ended; any other error tells nothing.
fn refusal_to_connect(found: &Found, init: &ProcessIdentity, error: io::Error) -> LocalError {
    match crate::liveness::lives(init) {
        Ok(false) if matches!(found.directory.timer_end(), Ok(Some(_))) => LocalError::TimerDue,
        Ok(false) => LocalError::InitEnded,
        _ => LocalError::Unreachable(error),
    }
}
