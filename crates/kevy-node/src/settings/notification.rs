//! `notify-keyspace-events`: which changes of keys are published, and how, as a set of classes in Redis's letters
//! (<https://redis.io/docs/latest/develop/use/keyspace-notifications/>).

use super::kind::Invalid;
use core::fmt;

/// A set of classes of keyspace notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotificationClasses(u16);

impl NotificationClasses {
    /// None.
    pub const NONE: Self = Self(0);
    /// `g`: commands of no type, such as `DEL`, `EXPIRE` and `RENAME`.
    pub const GENERIC: Self = Self(1);
    /// `$`: strings.
    pub const STRING: Self = Self(1 << 1);
    /// `l`: lists.
    pub const LIST: Self = Self(1 << 2);
    /// `s`: sets.
    pub const SET: Self = Self(1 << 3);
    /// `h`: hashes.
    pub const HASH: Self = Self(1 << 4);
    /// `z`: sorted sets.
    pub const SORTED_SET: Self = Self(1 << 5);
    /// `x`: keys that expired.
    pub const EXPIRED: Self = Self(1 << 6);
    /// `e`: keys that were evicted.
    pub const EVICTED: Self = Self(1 << 7);
    /// `t`: streams.
    pub const STREAM: Self = Self(1 << 8);
    /// `d`: key types of modules.
    pub const MODULE: Self = Self(1 << 9);
    /// `n`: keys that are new. Not part of `A`.
    pub const NEW: Self = Self(1 << 10);
    /// `K`: published to `__keyspace@0__:<key>`.
    pub const KEYSPACE: Self = Self(1 << 11);
    /// `E`: published to `__keyevent@0__:<event>`.
    pub const KEYEVENT: Self = Self(1 << 12);
    /// `m`: keys that were asked for and are missing. Not part of `A`.
    pub const MISS: Self = Self(1 << 13);
    /// `A`: `g$lshzxetd`.
    pub const ALL: Self = Self((1 << 10) - 1);

    /// The letters, in the order in which Redis shows them.
    const LETTERS: [(char, Self); 14] = [
        ('g', Self::GENERIC),
        ('$', Self::STRING),
        ('l', Self::LIST),
        ('s', Self::SET),
        ('h', Self::HASH),
        ('z', Self::SORTED_SET),
        ('x', Self::EXPIRED),
        ('e', Self::EVICTED),
        ('t', Self::STREAM),
        ('d', Self::MODULE),
        ('n', Self::NEW),
        ('K', Self::KEYSPACE),
        ('E', Self::KEYEVENT),
        ('m', Self::MISS),
    ];

    /// The set that `text` names.
    ///
    /// # Errors
    /// A letter that stands for no class.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        text.chars().try_fold(Self::NONE, |classes, letter| {
            let class = Self::LETTERS.iter().find(|(known, _)| *known == letter);
            match (letter, class) {
                ('A', _) => Ok(classes.with(Self::ALL)),
                (_, Some((_, class))) => Ok(classes.with(*class)),
                (_, None) => Err(Invalid::Because(
                    "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.",
                )),
            }
        })
    }

    /// The classes of both.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether every class of `others` is in it.
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether an event of `class` is to be published, to whatever channels.
    pub const fn wants(self, class: Self) -> bool {
        let published = self.0 & (Self::KEYSPACE.0 | Self::KEYEVENT.0) != 0;
        published && self.0 & class.0 != 0
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for NotificationClasses {
    /// As `CONFIG GET` shows it. Under `A` Redis 7 does not show `n`, though it is set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.contains(Self::ALL);
        if all {
            f.write_str("A")?;
        }
        let hidden = if all {
            Self::ALL.with(Self::NEW)
        } else {
            Self::NONE
        };
        for (letter, class) in Self::LETTERS {
            if self.contains(class) && !hidden.contains(class) {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed on redis-server 7.0.15.
    #[test]
    fn classes_are_shown_as_redis_shows_them() {
        for (written, shown) in [
            ("", ""),
            ("A", "A"),
            ("KEA", "AKE"),
            ("gxE", "gxE"),
            ("g$lshzxetd", "A"),
            ("g$lshzxetdn", "A"),
            ("mK", "Km"),
            ("Knm", "nKm"),
            ("AKEmn", "AKEm"),
            ("zhsl", "lshz"),
        ] {
            let classes = NotificationClasses::parse(written).unwrap();
            assert_eq!(classes.to_string(), shown, "{written}");
        }
        assert!(NotificationClasses::parse("Q").is_err());
    }

    #[test]
    fn a_class_is_wanted_only_if_it_is_published_somewhere() {
        let parse = |text| NotificationClasses::parse(text).unwrap();
        assert!(!parse("A").wants(NotificationClasses::LIST));
        assert!(parse("KA").wants(NotificationClasses::LIST));
        assert!(!parse("KA").wants(NotificationClasses::NEW));
        assert!(!parse("Eg").wants(NotificationClasses::LIST));
        assert!(parse("").is_empty());
    }
}
