//! Inline commands: a request as a person types it into `nc`, its arguments between blanks, with quotes as in a shell.
//!
//! The rules are those that Redis 7.0.15 shows. `"..."` knows `\n \r \t \b \a \xHH`, and a backslash before any other byte
//! stands for that byte; `'...'` knows `\'` only. A quote may open within a word, but what follows its end must be a blank.

use super::{ProtocolError, Span};
use alloc::vec::Vec;

/// A line without its end.
#[derive(Clone, Copy)]
pub(super) struct Line<'a>(&'a [u8]);

impl<'a> Line<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self(line)
    }

    pub(super) fn has_quotes(self) -> bool {
        memchr::memchr2(b'"', b'\'', self.0).is_some()
    }

    /// Appends the places of the words of a line without quotes.
    pub(super) fn split(self, spans: &mut Vec<Span>) {
        let mut at = 0;
        while let Some(start) = next_word(self.0, at) {
            at = word_end(self.0, start);
            spans.push(Span {
                start,
                length: at - start,
            });
        }
    }

    /// Appends the words without their quotes to `scratch`, and their places there to `spans`.
    pub(super) fn unquote(
        self,
        spans: &mut Vec<Span>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        let mut at = 0;
        while let Some(word) = next_word(self.0, at) {
            let start = scratch.len();
            at = unquote_word(self.0, word, scratch)?;
            spans.push(Span {
                start,
                length: scratch.len() - start,
            });
        }
        Ok(())
    }
}

/// What stands between words: C's `isspace`.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// What ends a word. As in Redis, not every blank does: vertical tab and form feed are part of a word once it has begun.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn next_word(line: &[u8], at: usize) -> Option<usize> {
    let skipped = line.get(at..)?.iter().position(|byte| !is_blank(*byte))?;
    Some(at + skipped)
}

fn word_end(line: &[u8], start: usize) -> usize {
    let length = line[start..].iter().position(|byte| ends_word(*byte));
    length.map_or(line.len(), |length| start + length)
}

/// Appends the word that starts at `at`; gives the place after it.
fn unquote_word(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    while let Some(byte) = line.get(at) {
        match byte {
            b'"' | b'\'' => return unquote(line, at + 1, *byte, out),
            byte if ends_word(*byte) => break,
            byte => out.push(*byte),
        }
        at += 1;
    }
    Ok(at)
}

/// Appends what stands from `at` to the closing `quote`; gives the place after the quote.
fn unquote(
    line: &[u8],
    mut at: usize,
    quote: u8,
    out: &mut Vec<u8>,
) -> Result<usize, ProtocolError> {
    loop {
        let rest = line.get(at..).unwrap_or_default();
        let (byte, length) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [first, rest @ ..] if *first == quote => {
                let ends = rest.first().is_none_or(|next| is_blank(*next));
                return ends
                    .then_some(at + 1)
                    .ok_or(ProtocolError::UnbalancedQuotes);
            }
            [b'\\', b'\'', ..] if quote == b'\'' => (b'\'', 2),
            [b'\\', rest @ ..] if quote == b'"' => unescape(rest),
            [byte, ..] => (*byte, 1),
        };
        out.push(byte);
        at += length;
    }
}

/// The byte that a backslash and `rest` stand for, and the bytes that make it, the backslash included.
fn unescape(rest: &[u8]) -> (u8, usize) {
    match rest {
        [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            (hex_digit(*high) << 4 | hex_digit(*low), 4)
        }
        [b'n', ..] => (b'\n', 2),
        [b'r', ..] => (b'\r', 2),
        [b't', ..] => (b'\t', 2),
        [b'b', ..] => (0x08, 2),
        [b'a', ..] => (0x07, 2),
        [other, ..] => (*other, 2),
        // A backslash at the line's end; the missing quote is found next.
        [] => (b'\\', 1),
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        letter => (letter | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        let (mut spans, mut scratch) = (Vec::new(), Vec::new());
        Line::new(line).unquote(&mut spans, &mut scratch).ok()?;
        let words = spans
            .iter()
            .map(|span| scratch[span.start..span.start + span.length].to_vec());
        Some(words.collect())
    }

    #[test]
    fn quotes_and_escapes_follow_redis() {
        let cases: [(&[u8], &[&[u8]]); 12] = [
            (br#""a\x41\n\r\t\b\a\q\"\\""#, &[b"aA\n\r\t\x08\x07q\"\\"]),
            (br"'a\'b\n'", &[b"a'b\\n"]),
            (br#"a"b c""#, &[b"ab c"]),
            (br"a'b' c", &[b"ab", b"c"]),
            (br#""" ''"#, &[b"", b""]),
            (br#""\xZZ""#, &[b"xZZ"]),
            (br#""\x4""#, &[b"x4"]),
            (br#""\xfF""#, &[b"\xff"]),
            (b"\"a\"\x0b", &[b"a"]),
            (b"\x0b a\x0bb '\x00'", &[b"a\x0bb", b"\x00"]),
            (br#""it's" 'say "x"'"#, &[b"it's", b"say \"x\""]),
            (b"  ", &[]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line).unwrap(), expected, "{line:?}");
        }
    }

    #[test]
    fn open_quotes_and_words_after_a_quote_are_refused() {
        for line in [
            &br#""ab"#[..],
            b"'ab",
            br#""a"b"#,
            b"'a'b",
            br#"a"b"c"#,
            br#""a\"#,
            br"'a\",
            br#""a" "b"#,
            b"\"a\"\x00b",
        ] {
            assert_eq!(words(line), None, "{line:?}");
        }
    }

    #[test]
    fn both_ways_agree_on_lines_without_quotes() {
        for line in [
            &b"a bc\td"[..],
            b"  x  ",
            b"",
            b"a\rb \x0c c\x0c",
            b"\x00 \x00\\n",
        ] {
            let mut spans = Vec::new();
            Line::new(line).split(&mut spans);
            let split: Vec<&[u8]> = spans
                .iter()
                .map(|span| &line[span.start..span.start + span.length])
                .collect();
            assert_eq!(words(line).unwrap(), split);
        }
    }
}
