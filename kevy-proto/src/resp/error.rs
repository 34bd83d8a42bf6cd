//! Errors that a client sees, worded in one place and to the letter as Redis 7.2 words them.

use alloc::borrow::Cow;
use alloc::string::String;
use bytes::BytesMut;

/// An error reply: the client's fault or the state of its data. Nothing was changed by the command that got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorReply {
    /// The key holds another type.
    WrongType,
    /// An argument or a stored value is no 64-bit integer.
    NotInteger,
    /// An argument or a stored value is no float.
    NotFloat,
    /// The options do not fit together.
    Syntax,
    /// The number of arguments is wrong; holds the command's full name (`get`, `object|encoding`).
    WrongArity(String),
    /// No such command; holds its name and its first arguments as Redis quotes them.
    UnknownCommand(String),
    /// No such subcommand; holds what was given and the container's name in upper case.
    UnknownSubcommand {
        /// The subcommand as given.
        given: String,
        /// The container, upper case.
        container: String,
    },
    /// An index or number is outside of its range.
    OutOfRange,
    /// An increment would leave the range of 64 bits.
    IncrementOverflow,
    /// A float increment would give NaN or infinity.
    IncrementNotFinite,
    /// The key does not exist.
    NoSuchKey,
    /// A string would exceed the longest allowed length.
    StringTooLong,
    /// An expiry time that is not positive or too large; holds the command's lower-case name.
    InvalidExpire(String),
    /// The key's slot is owned by another shard port.
    Moved {
        /// The slot of the key.
        slot: u16,
        /// `host:port` where it is served.
        address: String,
    },
    /// `maxmemory` is reached.
    OutOfMemory,
    /// The data set is being loaded.
    Loading,
    /// Any other text, its code first (`ERR ...`).
    Other(Cow<'static, str>),
}

impl ErrorReply {
    /// An error with a fixed text, its code first.
    pub const fn text(text: &'static str) -> Self {
        Self::Other(Cow::Borrowed(text))
    }

    /// Appends the error's line without its `-` and line end. CR and LF inside become spaces, as in Redis.
    pub fn render(&self, out: &mut BytesMut) {
        let mut put = |text: &str| {
            for byte in text.bytes() {
                let byte = if byte == b'\r' || byte == b'\n' {
                    b' '
                } else {
                    byte
                };
                out.extend_from_slice(&[byte]);
            }
        };
        match self {
            Self::WrongType => {
                put("WRONGTYPE Operation against a key holding the wrong kind of value");
            }
            Self::NotInteger => put("ERR value is not an integer or out of range"),
            Self::NotFloat => put("ERR value is not a valid float"),
            Self::Syntax => put("ERR syntax error"),
            Self::WrongArity(name) => {
                put("ERR wrong number of arguments for '");
                put(name);
                put("' command");
            }
            Self::UnknownCommand(quoted) => {
                put("ERR unknown command ");
                put(quoted);
            }
            Self::UnknownSubcommand { given, container } => {
                put("ERR unknown subcommand '");
                put(given);
                put("'. Try ");
                put(container);
                put(" HELP.");
            }
            Self::OutOfRange => put("ERR index out of range"),
            Self::IncrementOverflow => put("ERR increment or decrement would overflow"),
            Self::IncrementNotFinite => put("ERR increment would produce NaN or Infinity"),
            Self::NoSuchKey => put("ERR no such key"),
            Self::StringTooLong => {
                put("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
            }
            Self::InvalidExpire(name) => {
                put("ERR invalid expire time in '");
                put(name);
                put("' command");
            }
            Self::Moved { slot, address } => {
                put("MOVED ");
                put(itoa::Buffer::new().format(*slot));
                put(" ");
                put(address);
            }
            Self::OutOfMemory => put("OOM command not allowed when used memory > 'maxmemory'."),
            Self::Loading => put("LOADING kevy is loading the dataset in memory"),
            Self::Other(text) => put(text),
        }
    }
}
