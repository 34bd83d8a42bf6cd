//! Errors that a client sees, worded in one place and to the letter as Redis 7.2 words them.

use super::Args;
use super::encode::put_on_one_line;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::BytesMut;
use core::fmt;

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
    UnknownCommand(Vec<u8>),
    /// No such subcommand; holds what was given and the container's name in upper case.
    UnknownSubcommand {
        /// The subcommand as given.
        given: Vec<u8>,
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
    /// Any other text that repeats bytes of a client, its code first.
    Quoting(Vec<u8>),
}

impl ErrorReply {
    /// An error with a fixed text, its code first.
    pub const fn text(text: &'static str) -> Self {
        Self::Other(Cow::Borrowed(text))
    }

    /// An error that repeats what a client sent, to its first zero byte as in Redis: `before`, `quoted`, `after`. The code
    /// comes first in `before`.
    pub fn quoting(before: &str, quoted: &[u8], after: &str) -> Self {
        let quoted = quotable(quoted, quoted.len());
        Self::Quoting([before.as_bytes(), quoted, after.as_bytes()].concat())
    }

    /// Its code: the first word of its text, as `INFO errorstats` counts it.
    pub fn code(&self) -> &str {
        let of = |text: &'_ [u8]| {
            text.iter()
                .position(|byte| *byte == b' ')
                .unwrap_or(text.len())
        };
        match self {
            Self::WrongType => "WRONGTYPE",
            Self::Moved { .. } => "MOVED",
            Self::OutOfMemory => "OOM",
            Self::Loading => "LOADING",
            Self::Other(text) => &text[..of(text.as_bytes())],
            Self::Quoting(text) => core::str::from_utf8(&text[..of(text)]).unwrap_or("ERR"),
            Self::NotInteger
            | Self::NotFloat
            | Self::Syntax
            | Self::WrongArity(_)
            | Self::UnknownCommand(_)
            | Self::UnknownSubcommand { .. }
            | Self::OutOfRange
            | Self::IncrementOverflow
            | Self::IncrementNotFinite
            | Self::NoSuchKey
            | Self::StringTooLong
            | Self::InvalidExpire(_) => "ERR",
        }
    }

    /// The error for a command that does not exist, which quotes the request's first arguments.
    pub fn unknown_command(args: Args<'_>) -> Self {
        let mut quoted = Vec::from(b"'");
        quoted.extend_from_slice(quotable(args.at(0), MAX_QUOTED_BYTES));
        quoted.extend_from_slice(b"', with args beginning with: ");
        let before = quoted.len();
        for arg in args.iter().skip(1) {
            let room = MAX_QUOTED_BYTES.saturating_sub(quoted.len() - before);
            if room == 0 {
                break;
            }
            quoted.push(b'\'');
            quoted.extend_from_slice(quotable(arg, room));
            quoted.extend_from_slice(b"' ");
        }
        Self::UnknownCommand(quoted)
    }

    /// The error for a subcommand that `container` (`config`) does not have.
    pub fn unknown_subcommand(given: &[u8], container: &str) -> Self {
        Self::UnknownSubcommand {
            given: quotable(given, MAX_QUOTED_BYTES).to_vec(),
            container: container.to_ascii_uppercase(),
        }
    }

    /// Appends the error's line without its `-` and line end. CR and LF inside become spaces, as in Redis.
    pub fn render(&self, out: &mut BytesMut) {
        self.parts(|part| put_on_one_line(out, part));
    }

    /// Gives the error's text piece by piece to `put`.
    fn parts(&self, mut put_bytes: impl FnMut(&[u8])) {
        let mut put = |text: &str| put_bytes(text.as_bytes());
        match self {
            Self::WrongArity(name) => {
                ["ERR wrong number of arguments for '", name, "' command"]
                    .into_iter()
                    .for_each(put);
            }
            Self::UnknownCommand(quoted) => {
                put("ERR unknown command ");
                put_bytes(quoted);
            }
            Self::UnknownSubcommand { given, container } => {
                put("ERR unknown subcommand '");
                put_bytes(given);
                ["'. Try ", container, " HELP."]
                    .into_iter()
                    .for_each(|text| put_bytes(text.as_bytes()));
            }
            Self::InvalidExpire(name) => {
                ["ERR invalid expire time in '", name, "' command"]
                    .into_iter()
                    .for_each(put);
            }
            Self::Moved { slot, address } => {
                ["MOVED ", itoa::Buffer::new().format(*slot), " ", address]
                    .into_iter()
                    .for_each(put);
            }
            Self::Other(text) => put(text),
            Self::Quoting(text) => put_bytes(text),
            Self::WrongType => {
                put("WRONGTYPE Operation against a key holding the wrong kind of value");
            }
            Self::NotInteger => put("ERR value is not an integer or out of range"),
            Self::NotFloat => put("ERR value is not a valid float"),
            Self::Syntax => put("ERR syntax error"),
            Self::OutOfRange => put("ERR index out of range"),
            Self::IncrementOverflow => put("ERR increment or decrement would overflow"),
            Self::IncrementNotFinite => put("ERR increment would produce NaN or Infinity"),
            Self::NoSuchKey => put("ERR no such key"),
            Self::StringTooLong => {
                put("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
            }
            Self::OutOfMemory => put("OOM command not allowed when used memory > 'maxmemory'."),
            Self::Loading => put("LOADING Redis is loading the dataset in memory"),
        }
    }
}

/// Bytes of an argument that an error quotes; of all arguments together, roughly.
const MAX_QUOTED_BYTES: usize = 128;

/// The text of `arg` as Redis quotes it: to its first zero byte, at most `room` bytes.
fn quotable(arg: &[u8], room: usize) -> &[u8] {
    let end = memchr::memchr(0, arg).unwrap_or(arg.len()).min(room);
    &arg[..end]
}

impl fmt::Display for ErrorReply {
    /// The text as the client sees it, without the `-`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = BytesMut::new();
        self.render(&mut line);
        f.write_str(&String::from_utf8_lossy(&line))
    }
}

impl core::error::Error for ErrorReply {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::RequestBuffer;
    use alloc::format;
    use alloc::string::ToString;

    fn unknown<const N: usize>(args: [&[u8]; N]) -> String {
        ErrorReply::unknown_command(RequestBuffer::from_slices(args).args()).to_string()
    }

    // The expected texts are answers of redis-server 7.0.15.
    #[test]
    fn unknown_commands_are_quoted_as_redis_quotes_them() {
        let (x, y) = ("x".repeat(200), "y".repeat(100));
        let begin = "ERR unknown command 'FOO', with args beginning with: ";
        assert_eq!(unknown([b"FOO"]), begin);
        assert_eq!(
            unknown([b"FOO", b"a", b"c d", b"e'f"]),
            format!("{begin}'a' 'c d' 'e'f' ")
        );
        assert_eq!(
            unknown([b"FOO", b"a\r\nb", b"q\0z"]),
            format!("{begin}'a  b' 'q' ")
        );
        assert_eq!(
            unknown([b"FOO", x.as_bytes(), b"y"]),
            format!("{begin}'{}' ", &x[..128])
        );
        assert_eq!(
            unknown([b"FOO", &x.as_bytes()[..100], y.as_bytes(), b"z"]),
            format!("{begin}'{}' '{}' ", &x[..100], &y[..25])
        );
        assert_eq!(
            unknown([x.as_bytes(), b"a"]),
            format!(
                "ERR unknown command '{}', with args beginning with: 'a' ",
                &x[..128]
            )
        );
    }

    #[test]
    fn bytes_are_repeated_as_they_are() {
        let rendered = |error: ErrorReply| {
            let mut line = BytesMut::new();
            error.render(&mut line);
            line
        };
        let request = RequestBuffer::from_slices([&b"F\xff"[..], b"\xfe\x01"]);
        assert_eq!(
            rendered(ErrorReply::unknown_command(request.args())),
            b"ERR unknown command 'F\xff', with args beginning with: '\xfe\x01' "[..]
        );
        let quoting = ErrorReply::quoting("ERR no '", b"\xff\n", "'");
        assert_eq!(rendered(quoting.clone()), b"ERR no '\xff '"[..]);
        assert_eq!(quoting.code(), "ERR");
        assert_eq!(ErrorReply::text("NOPROTO no").code(), "NOPROTO");
    }

    #[test]
    fn texts_are_those_of_redis() {
        let name = String::from("config|get");
        for (error, text) in [
            (
                ErrorReply::unknown_subcommand(b"f\r\noo", "config"),
                "ERR unknown subcommand 'f  oo'. Try CONFIG HELP.",
            ),
            (
                ErrorReply::WrongArity(name),
                "ERR wrong number of arguments for 'config|get' command",
            ),
            (
                ErrorReply::InvalidExpire(String::from("set")),
                "ERR invalid expire time in 'set' command",
            ),
            (
                ErrorReply::Moved {
                    slot: 16383,
                    address: String::from("127.0.0.1:7001"),
                },
                "MOVED 16383 127.0.0.1:7001",
            ),
            (ErrorReply::text("ERR \r\n\n"), "ERR    "),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
