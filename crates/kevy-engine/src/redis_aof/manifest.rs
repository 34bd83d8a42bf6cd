//! Which files make up an append-only log.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b        the base: one at most
//! file appendonly.aof.1.incr.aof seq 1 type h        history: to be deleted
//! file appendonly.aof.2.incr.aof seq 2 type i        increments, in order
//! ```
//!
//! A name with strange characters stands in double quotes, as Redis quotes them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// The longest manifest that is read: Redis's have three lines.
pub const MANIFEST_MAX_BYTES: usize = 1 << 20;

/// The files that count, in the order in which they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// What the increments build on.
    pub base: Option<String>,
    /// What was done since, in order.
    pub increments: Vec<String>,
}

/// Why a text is no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFault {
    /// Which line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

impl fmt::Display for ManifestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl core::error::Error for ManifestFault {}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// A line is not understood, a name is no plain file name, there are two bases, or increments are not in order.
    pub fn parse(text: &str) -> Result<Self, ManifestFault> {
        let mut manifest = Self::default();
        let mut last_sequence = 0;
        let lines = text.lines().enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.starts_with('#')) {
            let fault = |what| ManifestFault {
                line: index + 1,
                what,
            };
            let file = line_of(line).map_err(fault)?;
            match file.kind {
                'b' if manifest.base.is_some() => return Err(fault("a second base")),
                'b' => manifest.base = Some(file.name),
                'i' if file.sequence <= last_sequence => {
                    return Err(fault("an increment out of order"));
                }
                'i' => {
                    last_sequence = file.sequence;
                    manifest.increments.push(file.name);
                }
                // History: what the base holds already.
                'h' => {}
                _ => return Err(fault("an unknown type of file")),
            }
        }
        Ok(manifest)
    }

    /// All files, in the order in which they are read.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.base.iter().chain(&self.increments).map(String::as_str)
    }
}

struct Line {
    name: String,
    sequence: u64,
    kind: char,
}

/// `name value` pairs in any order. Names that are not known are left out, as Redis leaves them out.
fn line_of(line: &str) -> Result<Line, &'static str> {
    const STRANGE: &str = "not \"file NAME seq NUMBER type b|h|i\"";
    let (mut name, mut sequence, mut kind) = (None, None, None);
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = word(rest).ok_or(STRANGE)?;
        let (value, after) = self::word(after).ok_or(STRANGE)?;
        rest = after;
        match word.as_str() {
            "file" => name = Some(value),
            "seq" => sequence = value.parse().ok(),
            "type" => kind = value.parse().ok(),
            _ => {}
        }
    }
    let name = name.ok_or(STRANGE)?;
    if name.is_empty() || name.contains(['/', '\0']) || name == ".." || name == "." {
        return Err("a name that is no plain file name");
    }
    Ok(Line {
        name,
        sequence: sequence.ok_or(STRANGE)?,
        kind: kind.ok_or(STRANGE)?,
    })
}

/// The first word, and what follows it and its spaces.
fn word(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        return self::quoted(quoted);
    }
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (!word.is_empty()).then(|| (word.to_string(), rest.trim_start()))
}

/// A word in quotes, the first of which is passed already.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => break,
            b'\\' => {
                let (byte, after) = escape(rest)?;
                bytes.push(byte);
                rest = after;
            }
            _ => bytes.push(byte),
        }
    }
    let rest = text.get(text.len() - rest.len()..)?;
    let apart = rest.is_empty() || rest.starts_with(char::is_whitespace);
    let word = String::from_utf8(bytes).ok()?;
    apart.then(|| (word, rest.trim_start()))
}

/// What stands behind a backslash.
fn escape(rest: &[u8]) -> Option<(u8, &[u8])> {
    let (&byte, after) = rest.split_first()?;
    let plain = match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        b'x' => {
            let (digits, after) = after.split_first_chunk::<2>()?;
            let digits = core::str::from_utf8(digits).ok()?;
            return Some((u8::from_str_radix(digits, 16).ok()?, after));
        }
        other => other,
    };
    Some((plain, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn what_redis_writes_is_read() {
        let text = "file a.2.base.rdb seq 2 type b\nfile a.1.incr.aof seq 1 type h\n\
                    file a.2.incr.aof seq 2 type i\nfile \"a b\\x41\\\".incr\" seq 3 type i startoffset 7\n";
        let manifest = Manifest::parse(text).unwrap();
        assert_eq!(manifest.base.as_deref(), Some("a.2.base.rdb"));
        assert_eq!(manifest.increments, vec!["a.2.incr.aof", "a bA\".incr"]);
        let all: Vec<&str> = manifest.files().collect();
        assert_eq!(all, ["a.2.base.rdb", "a.2.incr.aof", "a bA\".incr"]);
        assert_eq!(Manifest::parse("# nothing\n"), Ok(Manifest::default()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, line, part) in [
            ("file a seq 1 type b\nfile b seq 2 type b", 2, "second base"),
            (
                "file a seq 2 type i\nfile b seq 2 type i",
                2,
                "out of order",
            ),
            ("file a seq 1 type x", 1, "unknown type"),
            ("file ../a seq 1 type b", 1, "plain file name"),
            ("file .. seq 1 type b", 1, "plain file name"),
            ("file a seq 1", 1, "not \"file"),
            ("file a seq", 1, "not \"file"),
            ("file \"a seq 1 type b", 1, "not \"file"),
            ("file \"a\"b seq 1 type b", 1, "not \"file"),
            ("\n", 1, "not \"file"),
        ] {
            let fault = Manifest::parse(text).unwrap_err();
            assert_eq!(fault.line, line, "{text}");
            assert!(fault.to_string().contains(part), "{text}: {fault}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(file|seq|type|b|i|\"|\\\\|x|é| |\n|[0-9]){0,30}") {
            if let Ok(manifest) = Manifest::parse(&text) {
                prop_assert!(manifest.files().all(|name| !name.is_empty() && !name.contains('/')));
            }
        }
    }
}
