//! Frames of the control protocol: a length of four bytes (big endian), then that many bytes of JSON.
//!
//! Both ends use this module, the init with blocking-free reads and the manager with async ones, so it works
//! on buffers and knows nothing of sockets.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest frame, in bytes. Arguments and environment of one command must fit: the kernel's own limit
/// for them is 2 MiB by default, and JSON may double it.
pub const FRAME_LIMIT: usize = 4 * 1024 * 1024;

const LENGTH_BYTES: usize = 4;

/// Why bytes could not be turned into a frame or back.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length announced, or the value to send, exceeds [`FRAME_LIMIT`].
    #[error("a frame of {length} bytes exceeds the limit of {FRAME_LIMIT}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The body is not the JSON that was expected. Bodies may hold secrets, so only the place is told.
    #[error("a frame is not valid (line {line}, column {column})")]
    Malformed {
        /// Line of the body, from 1.
        line: usize,
        /// Column of the body, from 1.
        column: usize,
    },
}

impl From<serde_json::Error> for FrameError {
    // serde's own message quotes the offending value, which may be an environment value.
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed { line: error.line(), column: error.column() }
    }
}

/// The bytes of one frame that holds `value`.
///
/// # Errors
///
/// [`FrameError::TooLong`] when the value does not fit.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut bytes, value)?;
    let length = bytes.len() - LENGTH_BYTES;
    match u32::try_from(length) {
        Ok(prefix) if length <= FRAME_LIMIT => {
            bytes[..LENGTH_BYTES].copy_from_slice(&prefix.to_be_bytes())
        }
        _ => return Err(FrameError::TooLong { length }),
    }
    Ok(bytes)
}

/// Collects bytes as they arrive and hands out whole frames.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
}

impl Decoder {
    /// Adds bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if all of it has arrived.
    ///
    /// # Errors
    ///
    /// A frame that is too long or not a `T`; the stream is then of no more use.
    pub fn next_frame<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(prefix) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > FRAME_LIMIT {
            return Err(FrameError::TooLong { length });
        }
        let end = LENGTH_BYTES + length;
        let Some(body) = self.buffer.get(LENGTH_BYTES..end) else { return Ok(None) };
        let value = serde_json::from_slice(body)?;
        self.consume(end);
        Ok(Some(value))
    }

    /// The next whole frame, as a `T` or, if it is none, as a `U`.
    ///
    /// # Errors
    ///
    /// A frame that is too long or neither; the stream is then of no more use.
    pub fn next_frame_or<T: DeserializeOwned, U: DeserializeOwned>(
        &mut self,
    ) -> Result<Option<Result<T, U>>, FrameError> {
        match self.next_frame::<T>() {
            Err(error @ FrameError::Malformed { .. }) => match self.next_frame::<U>() {
                Ok(other) => Ok(other.map(Err)),
                Err(_) => Err(error),
            },
            other => Ok(other?.map(Ok)),
        }
    }

    fn consume(&mut self, end: usize) {
        self.buffer.drain(..end);
        if self.buffer.is_empty() {
            // One large command must not keep its memory for the life of the connection.
            self.buffer.shrink_to(4096);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_split_of_their_bytes() {
        let bytes = [encode(&"one").unwrap(), encode(&"two").unwrap()].concat();
        let mut decoder = Decoder::default();
        let mut seen: Vec<String> = Vec::new();
        for byte in bytes {
            decoder.push(&[byte]);
            while let Some(value) = decoder.next_frame().unwrap() {
                seen.push(value);
            }
        }
        assert_eq!(seen, ["one", "two"]);
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_arrive() {
        let mut decoder = Decoder::default();
        decoder.push(&u32::MAX.to_be_bytes());
        assert!(matches!(decoder.next_frame::<String>(), Err(FrameError::TooLong { .. })));
    }

    #[test]
    fn the_error_of_a_malformed_frame_quotes_nothing_of_it() {
        let mut decoder = Decoder::default();
        decoder.push(&encode(&"canary-secret").unwrap());
        let error = decoder.next_frame::<u64>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
}
