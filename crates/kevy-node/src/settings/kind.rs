//! Kinds of values: text in, a typed field set, and back to text as `CONFIG GET` and TOML write it.
//!
//! The texts of [`Invalid`] are those of redis-server 7.0 wherever it has the case.

use super::{OutputLimit, OutputLimits, Settings};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How a directive's value is written, what bounds it, and which field it sets.
#[derive(Debug)]
pub enum Kind {
    /// A decimal number.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
        /// What is counted, in the plural; empty for a mere number.
        unit: &'static str,
        /// The field.
        field: Field<i64>,
    },
    /// A number of bytes, perhaps with a unit: `64mb`, `1gb`, `1k`.
    Memory {
        /// Smallest value in bytes.
        min: u64,
        /// Largest value in bytes.
        max: u64,
        /// The field.
        field: Field<u64>,
    },
    /// Permission bits in octal: `770`.
    Mode(Field<u32>),
    /// True or false.
    Switch(Field<bool>),
    /// One of several names.
    Choice {
        /// The names, as a user writes them.
        names: &'static [&'static str],
        /// The field, as a position in `names`.
        field: Field<usize>,
    },
    /// IP addresses to listen on.
    Addresses(Field<Vec<IpAddr>>),
    /// A path or a host: any text without control characters.
    Text {
        /// Longest text in bytes.
        max_bytes: usize,
        /// What the text is, as a message names it.
        what: &'static str,
        /// The field.
        field: Field<String>,
    },
    /// Limits on waiting output, one class after another: `normal 0 0 0 pubsub 32mb 8mb 60`.
    OutputLimits(Field<OutputLimits>),
    /// A value with a notation of its own.
    Notation {
        /// Stores the value that the text stands for.
        parse: fn(&mut Settings, &str) -> Result<(), Invalid>,
        /// The value in its canonical form, which `parse` reads.
        show: fn(&Settings) -> String,
        /// What may be written.
        expects: &'static str,
    },
}

/// A field of [`Settings`], read and written as a `T`.
#[derive(Debug)]
pub struct Field<T> {
    /// The value; `None`: not set.
    pub read: fn(&Settings) -> Option<T>,
    /// Stores a value that its kind has checked.
    pub write: fn(&mut Settings, T),
}

/// Why a text is no value of its kind. Its `Display` is what `CONFIG SET` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Not a decimal number.
    NotAnInteger,
    /// Not a number of bytes.
    NotMemory,
    /// A number outside the bounds.
    OutOfRange {
        /// Smallest allowed.
        min: i128,
        /// Largest allowed.
        max: i128,
    },
    /// Neither yes nor no.
    NotASwitch,
    /// None of these names.
    NotOneOf(&'static [&'static str]),
    /// For another reason.
    Because(&'static str),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnInteger => f.write_str("argument couldn't be parsed into an integer"),
            Self::NotMemory => f.write_str("argument must be a memory value"),
            Self::OutOfRange { min, max } => {
                write!(f, "argument must be between {min} and {max} inclusive")
            }
            Self::NotASwitch => f.write_str("argument must be 'yes' or 'no'"),
            Self::NotOneOf(names) => {
                write!(
                    f,
                    "argument(s) must be one of the following: {}",
                    names.join(", ")
                )
            }
            Self::Because(reason) => f.write_str(reason),
        }
    }
}

impl Kind {
    /// Sets the field of `settings` to the value that `text` stands for.
    ///
    /// # Errors
    /// Leaves `settings` alone and says why, if `text` is no value of this kind.
    pub fn set(&self, settings: &mut Settings, text: &str) -> Result<(), Invalid> {
        match self {
            Self::Integer {
                min, max, field, ..
            } => (field.write)(settings, parse_integer(text, *min, *max)?),
            Self::Memory { min, max, field } => {
                let bytes = parse_memory(text)?;
                within(bytes.into(), (*min).into(), (*max).into())?;
                (field.write)(settings, bytes);
            }
            Self::Mode(field) => (field.write)(settings, parse_mode(text)?),
            Self::Switch(field) => (field.write)(settings, parse_switch(text)?),
            Self::Choice { names, field } => (field.write)(settings, parse_choice(text, names)?),
            Self::Addresses(field) => (field.write)(settings, parse_addresses(text)?),
            Self::Text {
                max_bytes, field, ..
            } => (field.write)(settings, parse_text(text, *max_bytes)?),
            Self::OutputLimits(field) => {
                let before = (field.read)(settings).unwrap_or_default();
                (field.write)(settings, parse_output_limits(text, before)?);
            }
            Self::Notation { parse, .. } => parse(settings, text)?,
        }
        Ok(())
    }

    /// The field's value as `CONFIG GET` shows it; empty if it is not set.
    pub fn redis_text(&self, settings: &Settings) -> String {
        match self {
            Self::Integer { field, .. } => shown(field, settings, i64::to_string),
            Self::Memory { field, .. } => shown(field, settings, u64::to_string),
            Self::Mode(field) => shown(field, settings, |mode| format!("{mode:o}")),
            Self::Switch(field) => {
                shown(field, settings, |on| if *on { "yes" } else { "no" }.into())
            }
            Self::Choice { names, field } => shown(field, settings, |i| names[*i].into()),
            Self::Addresses(field) => {
                shown(field, settings, |all| join(all, " ", IpAddr::to_string))
            }
            Self::Text { field, .. } => (field.read)(settings).unwrap_or_default(),
            Self::OutputLimits(field) => shown(field, settings, |limits| {
                output_limits_text(limits, "slave", |bytes| bytes.to_string())
            }),
            Self::Notation { show, .. } => show(settings),
        }
    }

    /// The field's value as a TOML literal; `None` if it is not set.
    pub fn toml_text(&self, settings: &Settings) -> Option<String> {
        match self {
            Self::Integer { field, .. } => (field.read)(settings).map(|n| n.to_string()),
            Self::Memory { field, .. } => (field.read)(settings).map(memory_literal),
            Self::Mode(field) => (field.read)(settings).map(|mode| format!("\"{mode:o}\"")),
            Self::Switch(field) => (field.read)(settings).map(|on| on.to_string()),
            Self::Choice { names, field } => (field.read)(settings).map(|i| toml_string(names[i])),
            Self::Addresses(field) => (field.read)(settings).map(|all| addresses_literal(&all)),
            Self::Text { field, .. } => (field.read)(settings).map(|text| toml_string(&text)),
            Self::OutputLimits(field) => (field.read)(settings)
                .map(|limits| toml_string(&output_limits_text(&limits, "replica", memory_text))),
            Self::Notation { show, .. } => Some(toml_string(&show(settings))),
        }
    }

    /// What may be written, for messages and documentation: "an integer from 1 to 65535".
    pub fn expects(&self) -> String {
        match self {
            Self::Integer { min, max, unit: "", .. } => format!("an integer from {min} to {max}"),
            Self::Integer { min, max, unit, .. } => format!("{unit}, an integer from {min} to {max}"),
            Self::Memory { min: 0, .. } => "bytes, a size such as 64mb or 1gb".into(),
            Self::Memory { min, .. } => format!("bytes, a size such as 64mb or 1gb, at least {}", memory_text(*min)),
            Self::Mode(_) => "octal permission bits such as \"770\", at most \"777\"".into(),
            Self::Switch(_) => "true or false".into(),
            Self::Choice { names, .. } => format!("one of {}", names.join(", ")),
            Self::Addresses(_) => "IP addresses of this machine, localhost, * or ::*".into(),
            Self::Text { what, max_bytes, .. } => format!("{what} of 1 to {max_bytes} bytes"),
            Self::OutputLimits(_) => {
                "quadruples \"<class> <hard> <soft> <soft seconds>\", class normal, replica or pubsub".into()
            }
            Self::Notation { expects, .. } => (*expects).into(),
        }
    }
}

fn shown<T>(field: &Field<T>, settings: &Settings, show: impl Fn(&T) -> String) -> String {
    (field.read)(settings)
        .as_ref()
        .map(show)
        .unwrap_or_default()
}

fn join<T>(items: &[T], separator: &str, show: impl Fn(&T) -> String) -> String {
    items.iter().map(show).collect::<Vec<_>>().join(separator)
}

fn within(number: i128, min: i128, max: i128) -> Result<(), Invalid> {
    if (min..=max).contains(&number) {
        Ok(())
    } else {
        Err(Invalid::OutOfRange { min, max })
    }
}

/// Redis's strict form: no sign but `-`, no leading zeros, no spaces.
fn parse_integer(text: &str, min: i64, max: i64) -> Result<i64, Invalid> {
    let number: i64 = text.parse().map_err(|_| Invalid::NotAnInteger)?;
    if number.to_string() != text {
        return Err(Invalid::NotAnInteger);
    }
    within(number.into(), min.into(), max.into())?;
    Ok(number)
}

/// Units as in redis.conf: `k` is 1000 bytes and `kb` is 1024, in either case.
fn parse_memory(text: &str) -> Result<u64, Invalid> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err(Invalid::NotMemory),
    };
    if number.is_empty() {
        return Err(Invalid::NotMemory);
    }
    // Too large to be read is as large as can be, as in C.
    let number: u64 = number.parse().unwrap_or(u64::MAX);
    number.checked_mul(factor).ok_or(Invalid::NotMemory)
}

fn parse_mode(text: &str) -> Result<u32, Invalid> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 && !text.starts_with('+') => Ok(mode),
        Ok(_) | Err(_) => Err(Invalid::Because("argument must be octal permission bits")),
    }
}

fn parse_switch(text: &str) -> Result<bool, Invalid> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "1" | "on" => Ok(true),
        "no" | "false" | "0" | "off" => Ok(false),
        _ => Err(Invalid::NotASwitch),
    }
}

fn parse_choice(text: &str, names: &'static [&'static str]) -> Result<usize, Invalid> {
    let found = names
        .iter()
        .position(|name| name.eq_ignore_ascii_case(text));
    found.ok_or(Invalid::NotOneOf(names))
}

/// Most addresses that one server listens on.
const MAX_ADDRESSES: usize = 16;

fn parse_addresses(text: &str) -> Result<Vec<IpAddr>, Invalid> {
    let words = text.split([' ', ',', '\t']).filter(|word| !word.is_empty());
    let mut addresses = Vec::new();
    for word in words {
        let address = parse_address(word)?;
        if addresses.contains(&address) {
            return Err(Invalid::Because("an address stands there twice"));
        }
        if addresses.len() == MAX_ADDRESSES {
            return Err(Invalid::Because("more than 16 addresses"));
        }
        addresses.push(address);
    }
    if addresses.is_empty() {
        return Err(Invalid::Because("no address"));
    }
    Ok(addresses)
}

fn parse_address(word: &str) -> Result<IpAddr, Invalid> {
    match word {
        "*" => Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        "::*" => Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => word
            .parse()
            .map_err(|_| Invalid::Because("not an IP address")),
    }
}

fn parse_text(text: &str, max_bytes: usize) -> Result<String, Invalid> {
    if text.is_empty() || text.len() > max_bytes || text.contains(char::is_control) {
        return Err(Invalid::Because(
            "empty, too long or with control characters",
        ));
    }
    Ok(text.into())
}

/// Classes that `text` does not name keep the limits of `before`.
fn parse_output_limits(text: &str, before: OutputLimits) -> Result<OutputLimits, Invalid> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (quadruples, rest) = words.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Invalid::Because(
            "Wrong number of arguments in buffer limit configuration.",
        ));
    }
    let mut limits = before;
    for [class, hard, soft, seconds] in quadruples {
        let limit = match class.to_ascii_lowercase().as_str() {
            "normal" => &mut limits.normal,
            "replica" | "slave" => &mut limits.replica,
            "pubsub" => &mut limits.pubsub,
            _ => {
                return Err(Invalid::Because(
                    "Invalid client class specified in buffer limit configuration.",
                ));
            }
        };
        *limit = parse_output_limit(hard, soft, seconds).ok_or(Invalid::Because(
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
        ))?;
    }
    Ok(limits)
}

fn parse_output_limit(hard: &str, soft: &str, seconds: &str) -> Option<OutputLimit> {
    Some(OutputLimit {
        hard_bytes: parse_memory(hard).ok()?,
        soft_bytes: parse_memory(soft).ok()?,
        soft_seconds: seconds.parse().ok()?,
    })
}

fn output_limits_text(limits: &OutputLimits, replica: &str, bytes: fn(u64) -> String) -> String {
    let classes = [
        ("normal", limits.normal),
        (replica, limits.replica),
        ("pubsub", limits.pubsub),
    ];
    join(&classes, " ", |(class, limit)| {
        let (hard, soft) = (bytes(limit.hard_bytes), bytes(limit.soft_bytes));
        format!("{class} {hard} {soft} {}", limit.soft_seconds)
    })
}

/// The shortest exact form: `512mb`, not `536870912`.
fn memory_text(bytes: u64) -> String {
    for (unit, shift) in [("gb", 30), ("mb", 20), ("kb", 10)] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

fn memory_literal(bytes: u64) -> String {
    let text = memory_text(bytes);
    // A TOML integer has 63 bits.
    if text.parse::<i64>().is_ok() {
        text
    } else {
        toml_string(&text)
    }
}

fn addresses_literal(addresses: &[IpAddr]) -> String {
    match addresses {
        [one] => toml_string(&one.to_string()),
        several => format!(
            "[{}]",
            join(several, ", ", |address| toml_string(&address.to_string()))
        ),
    }
}

/// A basic string; the texts of settings hold no control characters, so these two escapes are enough.
fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_the_units_of_redis() {
        for (text, bytes) in [
            ("0", 0),
            ("100", 100),
            ("1b", 1),
            ("1k", 1000),
            ("1kb", 1024),
            ("1KB", 1024),
            ("1m", 1_000_000),
            ("64mb", 64 << 20),
            ("1g", 1_000_000_000),
            ("1Gb", 1 << 30),
            ("18446744073709551615", u64::MAX),
            ("99999999999999999999999", u64::MAX),
        ] {
            assert_eq!(parse_memory(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "mb",
            "-1",
            "+5",
            "1.5gb",
            "1 mb",
            "1t",
            "1kib",
            "5%",
            "0x10",
            "17179869184gb",
        ] {
            assert_eq!(parse_memory(text), Err(Invalid::NotMemory), "{text}");
        }
    }

    #[test]
    fn memory_text_is_short_and_exact() {
        for (bytes, text) in [
            (0, "0"),
            (1, "1"),
            (1024, "1kb"),
            (1 << 30, "1gb"),
            (3 << 29, "1536mb"),
            (1025, "1025"),
        ] {
            assert_eq!(memory_text(bytes), text);
            assert_eq!(parse_memory(text), Ok(bytes));
        }
        assert_eq!(memory_literal(u64::MAX), "\"18446744073709551615\"");
    }

    #[test]
    fn integers_are_strict_as_in_redis() {
        let range = Err(Invalid::OutOfRange { min: 1, max: 10 });
        for (text, result) in [
            ("1", Ok(1)),
            ("10", Ok(10)),
            ("0", range),
            ("11", range),
            ("-5", range),
            ("007", Err(Invalid::NotAnInteger)),
            ("+5", Err(Invalid::NotAnInteger)),
            ("-0", Err(Invalid::NotAnInteger)),
            (" 5", Err(Invalid::NotAnInteger)),
            ("", Err(Invalid::NotAnInteger)),
            ("99999999999999999999", Err(Invalid::NotAnInteger)),
        ] {
            assert_eq!(parse_integer(text, 1, 10), result, "{text}");
        }
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!(parse_mode("770"), Ok(0o770));
        assert_eq!(parse_mode("0"), Ok(0));
        for text in ["", "778", "1000", "-7", "+7", "rwx"] {
            assert!(parse_mode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_may_be_several_in_several_forms() {
        let shown = |text| parse_addresses(text).map(|all| join(&all, " ", IpAddr::to_string));
        assert_eq!(shown("127.0.0.1"), Ok("127.0.0.1".into()));
        assert_eq!(shown("localhost ::1"), Ok("127.0.0.1 ::1".into()));
        assert_eq!(shown("*, ::*"), Ok("0.0.0.0 ::".into()));
        for text in [
            "",
            " , ",
            "foo",
            "127.0.0.1:80",
            "[::1]",
            "::1 ::1",
            "1.2.3",
        ] {
            assert!(shown(text).is_err(), "{text}");
        }
        let many = join(&(1..=17).collect::<Vec<u8>>(), " ", |i| {
            format!("127.0.0.{i}")
        });
        assert_eq!(
            shown(&many),
            Err(Invalid::Because("more than 16 addresses"))
        );
    }

    #[test]
    fn output_limits_change_only_the_classes_they_name() {
        let limits =
            parse_output_limits("normal 1mb 2 3 slave 4 5 6", OutputLimits::default()).unwrap();
        assert_eq!(
            output_limits_text(&limits, "slave", |bytes| bytes.to_string()),
            "normal 1048576 2 3 slave 4 5 6 pubsub 33554432 8388608 60"
        );
        assert_eq!(parse_output_limits("", limits), Ok(limits));
    }

    #[test]
    fn text_survives_toml() {
        let text = r#"C:\dir "x""#;
        let document = format!("key = {}", toml_string(text));
        let table = toml::de::DeTable::parse(&document).unwrap();
        assert_eq!(table.get_ref()["key"].get_ref().as_str(), Some(text));
    }
}
