//! A command as a value: its arguments, and what a client must know to send it the right way.

use std::time::Duration;

use kevy_proto::resp::{Args, RequestBuffer};

use crate::{KevyError, KevyResult};

/// Whether a command changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It does not: a replica may serve it, and it may be sent again when its connection failed.
    Read,
    /// It may: only the writer serves it, and it is never sent twice.
    Write,
}

/// What decides which shard a command goes to.
#[derive(Clone, Debug)]
enum Key {
    Nothing,
    /// The argument at this position.
    At(usize),
    /// A key that need not be among the arguments.
    Given(Vec<u8>),
}

/// How long the server may take to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// As the options say.
    Usual,
    /// So much more than the options say.
    Longer(Duration),
    /// As long as it takes.
    Forever,
}

/// A command with its arguments, for clients that know where its key is and whether it writes.
///
/// ```
/// use kevy_client::Call;
///
/// let call = Call::read("GETRANGE").key(b"user:42").number(0).number(-1);
/// assert_eq!(call.key_bytes(), Some(&b"user:42"[..]));
/// ```
#[derive(Clone, Debug)]
pub struct Call {
    request: RequestBuffer,
    key: Key,
    access: Access,
    wait: Wait,
    /// Why it is not to be sent.
    refusal: Option<&'static str>,
}

impl Call {
    /// A command that changes nothing.
    pub fn read(name: &str) -> Self {
        Self::new(name.as_bytes(), Access::Read)
    }

    /// A command that may change something.
    pub fn write(name: &str) -> Self {
        Self::new(name.as_bytes(), Access::Write)
    }

    fn new(name: &[u8], access: Access) -> Self {
        Self {
            request: RequestBuffer::from_slices([name]),
            key: Key::Nothing,
            access,
            wait: Wait::Usual,
            refusal: None,
        }
    }

    /// A command given as its words, the name first. Nothing is known of it, so it counts as a write, and its first
    /// argument as its key.
    ///
    /// # Errors
    ///
    /// [`KevyError::InvalidInput`] without words.
    pub fn from_args<A: AsRef<[u8]>>(args: &[A]) -> KevyResult<Self> {
        let Some((name, rest)) = args.split_first() else {
            return Err(KevyError::InvalidInput(
                "a command without words".to_owned(),
            ));
        };
        let mut call = Self::new(name.as_ref(), Access::Write);
        if !rest.is_empty() {
            call.key = Key::At(1);
        }
        Ok(rest.iter().fold(call, Self::arg))
    }

    /// Adds a key; the first one decides where the command goes.
    #[must_use]
    pub fn key(mut self, key: &[u8]) -> Self {
        if matches!(self.key, Key::Nothing) {
            self.key = Key::At(self.request.args().len());
        }
        self.arg(key)
    }

    /// Adds keys.
    #[must_use]
    pub fn keys(self, keys: &[&[u8]]) -> Self {
        keys.iter().fold(self, |call, key| call.key(key))
    }

    /// Adds an argument that is no key.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.request.push(arg.as_ref());
        self
    }

    /// Adds arguments that are no keys.
    #[must_use]
    pub fn args(self, args: &[&[u8]]) -> Self {
        args.iter().fold(self, Self::arg)
    }

    /// Adds an integer.
    #[must_use]
    pub fn number(self, number: i64) -> Self {
        self.arg(number.to_string())
    }

    /// Adds a count.
    #[must_use]
    pub fn count(self, count: usize) -> Self {
        self.arg(count.to_string())
    }

    /// Adds a floating point number.
    #[must_use]
    pub fn float(self, number: f64) -> Self {
        self.arg(number.to_string())
    }

    /// Adds a time in milliseconds, at least one: what is shorter would mean "never" or "now".
    #[must_use]
    pub fn milliseconds(self, time: Duration) -> Self {
        self.arg(time.as_millis().max(1).to_string())
    }

    /// Adds the time limit of a blocking command in seconds, and lets the answer take that much longer.
    /// `None` waits for ever; a limit of nothing is refused, for the server would take it for "for ever".
    #[must_use]
    pub(crate) fn blocking_for(mut self, limit: Option<Duration>) -> Self {
        self.wait = limit.map_or(Wait::Forever, Wait::Longer);
        if limit.is_some_and(|limit| limit.is_zero()) {
            self.refusal = Some("a blocking pop with a time limit of 0; None waits for ever");
        }
        let milliseconds = limit.map_or(0, |limit| limit.as_millis().max(1));
        self.arg(format!(
            "{}.{:03}",
            milliseconds / 1000,
            milliseconds % 1000
        ))
    }

    /// Goes where `key` is, whatever its arguments are.
    #[must_use]
    pub fn routed_by(mut self, key: &[u8]) -> Self {
        self.key = Key::Given(key.to_vec());
        self
    }

    /// Goes to any shard, whatever its arguments are.
    #[must_use]
    pub fn unrouted(mut self) -> Self {
        self.key = Key::Nothing;
        self
    }

    /// The first key, if there is one.
    pub fn key_bytes(&self) -> Option<&[u8]> {
        match &self.key {
            Key::Nothing => None,
            Key::At(position) => self.request.args().get(*position),
            Key::Given(key) => Some(key),
        }
    }

    /// The words of the command.
    pub fn words(&self) -> Args<'_> {
        self.request.args()
    }

    /// Whether it changes anything.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether it may be sent at all.
    pub(crate) fn check(&self) -> KevyResult<()> {
        match self.refusal {
            Some(reason) => Err(KevyError::InvalidInput(reason.to_owned())),
            None => Ok(()),
        }
    }

    pub(crate) fn wait(&self) -> Wait {
        self.wait
    }

    /// Bytes it takes on the way, about.
    pub(crate) fn len_bytes(&self) -> usize {
        self.request.len_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_blocking_pops_are_seconds_and_never_0_by_accident() {
        for (limit, text) in [
            (None, "0.000"),
            (Some(Duration::from_micros(1)), "0.001"),
            (Some(Duration::from_millis(61_250)), "61.250"),
        ] {
            let call = Call::write("BLPOP").key(b"k").blocking_for(limit);
            assert_eq!(call.words().at(2), text.as_bytes());
        }
        let never = Call::write("BLPOP").blocking_for(Some(Duration::ZERO));
        assert!(matches!(never.check(), Err(KevyError::InvalidInput(_))));
    }

    #[test]
    fn the_first_key_is_the_key() {
        let call = Call::write("ZINTERCARD").count(2).keys(&[b"a", b"b"]);
        assert_eq!(call.key_bytes(), Some(&b"a"[..]));
        assert_eq!(Call::from_args(&["PING"]).unwrap().key_bytes(), None);
        assert!(Call::from_args::<&str>(&[]).is_err());
    }
}
