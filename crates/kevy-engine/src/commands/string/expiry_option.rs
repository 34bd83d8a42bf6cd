//! `EX`, `PX`, `EXAT`, `PXAT`: a time as `SET`, `GETEX`, `SETEX` and `PSETEX` take it.

use crate::number;
use kevy_proto::resp::ErrorReply;
use kevy_proto::time::{Now, UnixMillis};

/// How a number says when a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeUnit {
    /// `EX`: seconds from now.
    Seconds,
    /// `PX`: milliseconds from now.
    Millis,
    /// `EXAT`: Unix time in seconds.
    UnixSeconds,
    /// `PXAT`: Unix time in milliseconds.
    UnixMillis,
}

impl TimeUnit {
    /// The unit that `option` names, in any case.
    pub(super) fn from_option(option: &[u8]) -> Option<Self> {
        const NAMES: [(&[u8], TimeUnit); 4] = [
            (b"EX", TimeUnit::Seconds),
            (b"PX", TimeUnit::Millis),
            (b"EXAT", TimeUnit::UnixSeconds),
            (b"PXAT", TimeUnit::UnixMillis),
        ];
        NAMES
            .into_iter()
            .find(|(name, _)| option.eq_ignore_ascii_case(name))
            .map(|(_, unit)| unit)
    }

    /// The moment that `number` says, for the command called `command`.
    ///
    /// # Errors
    /// [`ErrorReply::NotInteger`]; [`ErrorReply::InvalidExpire`] if it is not positive or beyond 64 bits.
    pub(super) fn deadline(
        self,
        number: &[u8],
        now: Now,
        command: &str,
    ) -> Result<UnixMillis, ErrorReply> {
        let number = number::integer(number)?;
        let millis = match self {
            Self::Seconds | Self::UnixSeconds => number.checked_mul(1000),
            Self::Millis | Self::UnixMillis => Some(number),
        };
        let base = match self {
            Self::Seconds | Self::Millis => now.unix.0,
            Self::UnixSeconds | Self::UnixMillis => 0,
        };
        millis
            .filter(|&millis| millis > 0)
            .and_then(|millis| millis.checked_add(base))
            .map(UnixMillis)
            .ok_or_else(|| ErrorReply::InvalidExpire(command.into()))
    }
}
