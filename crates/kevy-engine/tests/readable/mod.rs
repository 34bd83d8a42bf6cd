//! Requests and replies as text that people read: the notation of `tests/scripts/*.txt`.

use std::fmt::Write as _;

/// Splits a line into arguments: words, or `"quoted"` ones with `\n \r \t \\ \" \xNN`. `"x"{45}` is 45 times `x`.
pub(crate) fn arguments(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut rest = line.trim_start();
    let mut arguments = Vec::new();
    while !rest.is_empty() {
        let (argument, after) = if let Some(quoted) = rest.strip_prefix('"') {
            quoted_argument(quoted)?
        } else {
            let end = rest.find(' ').unwrap_or(rest.len());
            (rest.as_bytes()[..end].to_vec(), &rest[end..])
        };
        arguments.push(argument);
        rest = after.trim_start();
    }
    Ok(arguments)
}

fn quoted_argument(quoted: &str) -> Result<(Vec<u8>, &str), String> {
    let mut bytes = Vec::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return repeated(bytes, &quoted[at + 1..]),
            '\\' => {
                let (_, escape) = chars.next().ok_or("a lone backslash")?;
                bytes.push(match escape {
                    'n' => b'\n',
                    'r' => b'\r',
                    't' => b'\t',
                    'x' => {
                        let digits: String = chars.by_ref().take(2).map(|(_, c)| c).collect();
                        u8::from_str_radix(&digits, 16).map_err(|e| format!("\\x{digits}: {e}"))?
                    }
                    other => u8::try_from(other).map_err(|e| e.to_string())?,
                });
            }
            other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err("a quote that is not closed".to_owned())
}

fn repeated(bytes: Vec<u8>, rest: &str) -> Result<(Vec<u8>, &str), String> {
    let Some((times, after)) = rest.strip_prefix('{').and_then(|r| r.split_once('}')) else {
        return Ok((bytes, rest));
    };
    let times: usize = times.parse().map_err(|e| format!("{{{times}}}: {e}"))?;
    Ok((bytes.repeat(times), after))
}

/// Writes one argument so that [`arguments`] reads it back.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text.push('"');
    text
}

/// Writes a request as effects are written: words where that is unambiguous.
pub(crate) fn request<'a>(arguments: impl Iterator<Item = &'a [u8]>) -> String {
    let words: Vec<String> = arguments
        .map(|argument| {
            let plain = !argument.is_empty()
                && argument
                    .iter()
                    .all(|b| (b'!'..=b'~').contains(b) && !b"\"\\".contains(b));
            if plain {
                String::from_utf8_lossy(argument).into_owned()
            } else {
                quoted(argument)
            }
        })
        .collect();
    words.join(" ")
}

/// A reply, as text on one line.
///
/// `OK` simple string, `-ERR ...` error, `12` integer, `"..."` bulk string, `(nil)` and `(nil array)` RESP2's nulls,
/// `(null)` RESP3's, `[..]` array, `{..}` map, `~[..]` set, `>[..]` push, `,1.5` double, `#t` boolean, `=txt:"..."` verbatim.
pub(crate) fn reply(bytes: &[u8]) -> Result<String, String> {
    let mut reader = Reader { bytes };
    let text = reader.value()?;
    if reader.bytes.is_empty() {
        Ok(text)
    } else {
        Err(format!(
            "{} bytes after the reply {text}",
            reader.bytes.len()
        ))
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn line(&mut self) -> Result<String, String> {
        let end = self
            .bytes
            .windows(2)
            .position(|pair| pair == b"\r\n")
            .ok_or("a line without an end")?;
        let line = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
        self.bytes = &self.bytes[end + 2..];
        Ok(line)
    }

    fn value(&mut self) -> Result<String, String> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or("an empty line")?;
        match (kind, rest) {
            ("+" | ":", text) => Ok(text.to_owned()),
            ("-" | "," | "#" | "(", _) => Ok(line),
            ("$", "-1") => Ok("(nil)".to_owned()),
            ("*", "-1") => Ok("(nil array)".to_owned()),
            ("_", _) => Ok("(null)".to_owned()),
            ("$", length) => Ok(quoted(&self.blob(length)?)),
            ("=", length) => {
                let blob = self.blob(length)?;
                let format = String::from_utf8_lossy(&blob[..4]).into_owned();
                Ok(format!("={format}{}", quoted(&blob[4..])))
            }
            ("*", count) => Ok(format!("[{}]", self.list(count)?)),
            ("~" | ">", count) => Ok(format!("{kind}[{}]", self.list(count)?)),
            ("%", count) => {
                let count: usize = count.parse().map_err(|_| line.clone())?;
                let pairs: Result<Vec<String>, String> = (0..count)
                    .map(|_| Ok(format!("{}: {}", self.value()?, self.value()?)))
                    .collect();
                Ok(format!("{{{}}}", pairs?.join(", ")))
            }
            _ => Err(format!("no RESP: {line}")),
        }
    }

    fn list(&mut self, count: &str) -> Result<String, String> {
        let count: usize = count.parse().map_err(|_| format!("count {count}"))?;
        let items: Result<Vec<String>, String> = (0..count).map(|_| self.value()).collect();
        Ok(items?.join(", "))
    }

    fn blob(&mut self, length: &str) -> Result<Vec<u8>, String> {
        let length: usize = length.parse().map_err(|_| format!("length {length}"))?;
        let blob = self.bytes.get(..length).ok_or("a blob cut short")?.to_vec();
        self.bytes = self
            .bytes
            .get(length + 2..)
            .ok_or("a blob without an end")?;
        Ok(blob)
    }
}
