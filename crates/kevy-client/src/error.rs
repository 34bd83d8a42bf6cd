//! What can go wrong for a client, and whose fault it is.

use std::io;

use kevy_proto::resp::{ProtocolError, Reply};

/// The result of everything this crate does.
pub type KevyResult<T> = Result<T, KevyError>;

/// Why a request was not carried out.
///
/// ```
/// use kevy_client::{KevyError, StoreError};
///
/// let error = KevyError::from(StoreError::WrongType);
/// assert!(error.to_string().starts_with("WRONGTYPE"));
/// let error = std::io::Error::from(KevyError::TimedOut);
/// assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KevyError {
    /// What the key holds, or what memory is left, does not allow it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The connection failed. Whether the server carried out what was sent is unknown.
    #[error("{0}")]
    Io(io::Error),
    /// Bytes that are no reply, a reply of another type than the command's, or an error reply that has no variant of its
    /// own: the server's words.
    #[error("{0}")]
    Protocol(String),
    /// The server is a read-only replica.
    #[error("READONLY You can't write against a read only replica.")]
    ReadOnly,
    /// An argument that no server would accept; nothing was sent.
    #[error("invalid input: {0}")]
    InvalidInput(String),
    /// There is no such thing.
    #[error("not found")]
    NotFound,
    /// This client, or this kind of connection, does not do that; nothing was sent.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// No answer within the time that [`crate::Options`] allow. Whether the server carried out what was sent is unknown.
    #[error("timed out")]
    TimedOut,
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
}

/// What the store refused, as [`KevyError::Store`]. The texts are the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The key holds another type than the command works on.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// The value, or the argument, is no 64-bit integer.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// The sum is no 64-bit integer.
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    /// An index or an argument is beyond what is there.
    #[error("ERR index out of range")]
    OutOfRange,
    /// The command needs the key to exist.
    #[error("ERR no such key")]
    NoSuchKey,
    /// The value, or the argument, is no floating point number.
    #[error("ERR value is not a valid float")]
    NotFloat,
    /// The server is at its `maxmemory`.
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    OutOfMemory,
}

impl KevyError {
    /// The error that an error reply with this text stands for.
    pub fn from_error_reply(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        match StoreError::from_text(&text) {
            Some(error) => Self::Store(error),
            None if text.starts_with("READONLY") => Self::ReadOnly,
            None => Self::Protocol(text.into_owned()),
        }
    }

    /// A reply of a type that the command does not have.
    pub(crate) fn unexpected(reply: &Reply) -> Self {
        Self::Protocol(format!("unexpected reply: {reply:?}"))
    }

    /// Whether the connection that it happened on cannot be used any more.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Closed | Self::Protocol(_))
    }
}

impl StoreError {
    fn from_text(text: &str) -> Option<Self> {
        let code = text.split(' ').next()?;
        match code {
            "WRONGTYPE" => return Some(Self::WrongType),
            "OOM" => return Some(Self::OutOfMemory),
            _ => {}
        }
        match text {
            "ERR value is not an integer or out of range" | "ERR hash value is not an integer" => {
                Some(Self::NotInteger)
            }
            "ERR increment or decrement would overflow" => Some(Self::Overflow),
            "ERR index out of range"
            | "ERR offset is out of range"
            | "ERR value is out of range"
            | "ERR value is out of range, must be positive" => Some(Self::OutOfRange),
            "ERR no such key" => Some(Self::NoSuchKey),
            "ERR value is not a valid float" | "ERR hash value is not a float" => {
                Some(Self::NotFloat)
            }
            _ => None,
        }
    }
}

impl From<io::Error> for KevyError {
    /// A socket's time limit shows as `WouldBlock` on Linux.
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{TimedOut, UnexpectedEof, WouldBlock};
        let kind = error.kind();
        if kind == WouldBlock || kind == TimedOut {
            Self::TimedOut
        } else if kind == UnexpectedEof {
            Self::Closed
        } else {
            Self::Io(error)
        }
    }
}

impl From<ProtocolError> for KevyError {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<KevyError> for io::Error {
    fn from(error: KevyError) -> Self {
        use io::ErrorKind;
        let kind = match error {
            KevyError::Io(error) => return error,
            KevyError::Store(StoreError::OutOfMemory) => ErrorKind::OutOfMemory,
            KevyError::Store(_) | KevyError::Protocol(_) => ErrorKind::InvalidData,
            KevyError::ReadOnly => ErrorKind::PermissionDenied,
            KevyError::InvalidInput(_) => ErrorKind::InvalidInput,
            KevyError::NotFound => ErrorKind::NotFound,
            KevyError::Unsupported(_) => ErrorKind::Unsupported,
            KevyError::TimedOut => ErrorKind::TimedOut,
            KevyError::Closed => ErrorKind::ConnectionAborted,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_error_is_read_back_from_its_text() {
        use StoreError::{
            NoSuchKey, NotFloat, NotInteger, OutOfMemory, OutOfRange, Overflow, WrongType,
        };
        for error in [
            WrongType,
            NotInteger,
            Overflow,
            OutOfRange,
            NoSuchKey,
            NotFloat,
            OutOfMemory,
        ] {
            let read = KevyError::from_error_reply(error.to_string().as_bytes());
            assert!(
                matches!(read, KevyError::Store(found) if found == error),
                "{error}"
            );
        }
        let other = KevyError::from_error_reply(b"NOREPLICAS no");
        assert!(matches!(other, KevyError::Protocol(text) if text == "NOREPLICAS no"));
        assert!(matches!(
            KevyError::from_error_reply(b"READONLY x"),
            KevyError::ReadOnly
        ));
    }

    #[test]
    fn io_errors_keep_their_kind() {
        for kind in [io::ErrorKind::ConnectionRefused, io::ErrorKind::TimedOut] {
            let there = KevyError::from(io::Error::from(kind));
            assert_eq!(io::Error::from(there).kind(), kind);
        }
    }
}
