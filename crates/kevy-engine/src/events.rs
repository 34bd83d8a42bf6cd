//! Events of keys, for keyspace notifications: what happened to which key, by the names and classes of Redis
//! (<https://redis.io/docs/latest/develop/use/keyspace-notifications/>).
//!
//! The keyspace notes what happens to a key by itself (`expired`, `evicted`, `keymiss`, `new`), commands note the rest. An
//! event whose class nobody wants costs one branch.

use alloc::vec::Vec;
use core::fmt;

/// A set of classes of events, and of the ways to publish them (`notify-keyspace-events`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u16);

impl EventClasses {
    /// None: notifications are off.
    pub const NONE: Self = Self(0);
    /// `K`: published to `__keyspace@<db>__:<key>`.
    pub const KEYSPACE: Self = Self(1);
    /// `E`: published to `__keyevent@<db>__:<event>`.
    pub const KEYEVENT: Self = Self(1 << 1);
    /// `g`: commands for keys of any type, such as `DEL`, `EXPIRE` and `RENAME`.
    pub const GENERIC: Self = Self(1 << 2);
    /// `$`: commands for strings.
    pub const STRING: Self = Self(1 << 3);
    /// `l`: commands for lists.
    pub const LIST: Self = Self(1 << 4);
    /// `s`: commands for sets.
    pub const SET: Self = Self(1 << 5);
    /// `h`: commands for hashes.
    pub const HASH: Self = Self(1 << 6);
    /// `z`: commands for sorted sets.
    pub const SORTED_SET: Self = Self(1 << 7);
    /// `x`: a key has expired.
    pub const EXPIRED: Self = Self(1 << 8);
    /// `e`: a key was evicted.
    pub const EVICTED: Self = Self(1 << 9);
    /// `t`: commands for streams.
    pub const STREAM: Self = Self(1 << 10);
    /// `d`: types of modules; kevy has none.
    pub const MODULE: Self = Self(1 << 11);
    /// `n`: a key is new.
    pub const NEW: Self = Self(1 << 12);
    /// `m`: a key was asked for that is not there.
    pub const MISS: Self = Self(1 << 13);
    /// `A`: all classes but `n` and `m`.
    pub const ALL: Self = Self(0b1111_1111_1100);

    /// The letters, in the order in which Redis writes them.
    const LETTERS: [(u8, Self); 14] = [
        (b'g', Self::GENERIC),
        (b'$', Self::STRING),
        (b'l', Self::LIST),
        (b's', Self::SET),
        (b'h', Self::HASH),
        (b'z', Self::SORTED_SET),
        (b'x', Self::EXPIRED),
        (b'e', Self::EVICTED),
        (b't', Self::STREAM),
        (b'd', Self::MODULE),
        (b'n', Self::NEW),
        (b'K', Self::KEYSPACE),
        (b'E', Self::KEYEVENT),
        (b'm', Self::MISS),
    ];

    /// Reads letters in any order, `A` among them; `None` if one means nothing.
    pub fn parse(letters: &[u8]) -> Option<Self> {
        let of = |letter: u8| match letter {
            b'A' => Some(Self::ALL),
            _ => Self::LETTERS
                .iter()
                .find(|(own, _)| *own == letter)
                .map(|(_, class)| *class),
        };
        letters
            .iter()
            .try_fold(Self::NONE, |all, letter| Some(all.with(of(*letter)?)))
    }

    /// These and `others`.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether any of `others` is among these.
    #[inline]
    pub const fn any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// The classes that are to be noted: none unless they would be published in some way.
    #[must_use]
    pub const fn to_note(self) -> Self {
        if self.any(Self::KEYSPACE.with(Self::KEYEVENT)) {
            self
        } else {
            Self::NONE
        }
    }
}

impl fmt::Display for EventClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0 & Self::ALL.0 == Self::ALL.0;
        if all {
            f.write_str("A")?;
        }
        for (letter, class) in Self::LETTERS {
            if self.any(class) && !(all && Self::ALL.any(class)) {
                write!(f, "{}", char::from(letter))?;
            }
        }
        Ok(())
    }
}

/// Something that happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What, as Redis calls it.
    pub name: &'static str,
    /// To which key.
    pub key: Vec<u8>,
}

/// Events that happened and were not taken yet, in order.
#[derive(Debug, Default)]
pub(crate) struct Events {
    wanted: EventClasses,
    noted: Vec<Event>,
    /// A key that went because it became empty: its `del` comes after the event of the command that emptied it.
    emptied: Option<Vec<u8>>,
}

impl Events {
    pub(crate) fn want(&mut self, classes: EventClasses) {
        self.wanted = classes.to_note();
    }

    #[inline]
    pub(crate) fn note(&mut self, class: EventClasses, name: &'static str, key: &[u8]) {
        if self.wanted != EventClasses::NONE {
            self.note_wanted(class, name, key);
        }
    }

    #[cold]
    fn note_wanted(&mut self, class: EventClasses, name: &'static str, key: &[u8]) {
        let other = self.emptied.as_ref().is_some_and(|emptied| emptied != key);
        if other {
            self.end_emptied();
        }
        self.push(class, name, key);
        self.end_emptied();
    }

    fn push(&mut self, class: EventClasses, name: &'static str, key: &[u8]) {
        if self.wanted.any(class) {
            let key = key.to_vec();
            self.noted.push(Event { name, key });
        }
    }

    /// A collection became empty, and its key is gone.
    #[inline]
    pub(crate) fn note_emptied(&mut self, key: &[u8]) {
        if self.wanted.any(EventClasses::GENERIC) {
            self.end_emptied();
            self.emptied = Some(key.to_vec());
        }
    }

    fn end_emptied(&mut self) {
        if let Some(key) = self.emptied.take() {
            self.push(EventClasses::GENERIC, "del", &key);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.noted.is_empty() && self.emptied.is_none()
    }

    pub(crate) fn take(&mut self) -> Vec<Event> {
        self.end_emptied();
        core::mem::take(&mut self.noted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn classes_are_written_as_redis_writes_them() {
        let cases = [
            ("KEA", "AKE"),
            ("KEmn", "nKEm"),
            ("KEg$n", "g$nKE"),
            ("g$lshzxetdKE", "AKE"),
            ("xK", "xK"),
            ("", ""),
        ];
        for (given, shown) in cases {
            let classes = EventClasses::parse(given.as_bytes()).unwrap();
            assert_eq!(classes.to_string(), shown);
            assert_eq!(EventClasses::parse(shown.as_bytes()), Some(classes));
        }
        assert_eq!(EventClasses::parse(b"Kq"), None);
        assert_eq!(
            EventClasses::parse(b"A").unwrap().to_note(),
            EventClasses::NONE
        );
    }

    #[test]
    fn an_emptied_key_goes_after_the_event_of_its_command() {
        let mut events = Events::default();
        events.want(EventClasses::parse(b"Klg").unwrap());
        events.note_emptied(b"a");
        events.note(EventClasses::LIST, "rpop", b"a");
        events.note(EventClasses::SET, "sadd", b"not wanted");
        events.note_emptied(b"b");
        events.note(EventClasses::LIST, "lpush", b"c");
        events.note_emptied(b"d");
        let names: Vec<_> = events
            .take()
            .into_iter()
            .map(|e| (e.name, e.key[0]))
            .collect();
        let expected = [
            ("rpop", b'a'),
            ("del", b'a'),
            ("del", b'b'),
            ("lpush", b'c'),
            ("del", b'd'),
        ];
        assert_eq!(names, expected);
        assert!(events.is_empty());
    }
}
