//! A rough reading of Rust source: enough to know which paths it names, not a parser.

/// The lines before the unit tests: what ships.
pub fn without_tests(text: &str) -> &str {
    let starts = text.match_indices("#[cfg(test)]\n").map(|(at, _)| at);
    let mut modules = starts.filter(|at| text[*at..].lines().nth(1).is_some_and(opens_module));
    modules.next().map_or(text, |at| &text[..at])
}

fn opens_module(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("pub(crate) ");
    line.starts_with("mod ") && line.trim_end().ends_with('{')
}

/// The text with comments, strings and character literals blanked; line breaks stay.
pub fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest));
        if let Some(length) = skipped {
            code.extend(rest[..length].chars().filter(|c| *c == '\n'));
            code.push(' ');
            rest = &rest[length..];
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            // A name may end in r or b; what follows it is no raw string.
            while is_name(first) && rest.starts_with(is_name) {
                let next = rest.chars().next().expect("just seen");
                code.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    code
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    rest.strip_prefix("/*")
        .map(|inside| inside.find("*/").map_or(rest.len(), |end| end + 4))
}

fn literal(rest: &str) -> Option<usize> {
    let unprefixed = rest.trim_start_matches(['b', 'c', 'r']);
    let prefix = rest.len() - unprefixed.len();
    if prefix > 2 {
        return None;
    }
    if rest[..prefix].ends_with('r') {
        let fences = unprefixed.len() - unprefixed.trim_start_matches('#').len();
        let inside = unprefixed[fences..].strip_prefix('"')?;
        let close = format!("\"{}", "#".repeat(fences));
        let end = inside.find(&close)?;
        return Some(prefix + fences + 1 + end + close.len());
    }
    match unprefixed.chars().next()? {
        '"' => quoted(unprefixed, '"').map(|length| prefix + length),
        // A quote not closed after one character is a lifetime.
        '\'' => quoted(unprefixed, '\'')
            .filter(|length| {
                let inside = &unprefixed[1..length - 1];
                inside.starts_with('\\') || inside.chars().count() == 1
            })
            .map(|length| prefix + length),
        _ => None,
    }
}

fn quoted(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    let close = rest[1..].char_indices().find(|&(_, c)| {
        let closes = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    });
    close.map(|(at, c)| 1 + at + c.len_utf8())
}

/// Every path of at least two parts that the code names, with `use` groups written out:
/// `use std::{fs, net::{TcpStream}}` gives `std::fs` and `std::net::TcpStream`. Each with its line.
pub fn paths(text: &str) -> Vec<(usize, String)> {
    let tokens = tokens(&code_only(text));
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if starts_name(&tokens[at].1) {
            at = path(&tokens, at, "", &mut found);
        } else {
            at += 1;
        }
    }
    found
}

type Token = (usize, String);

fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while !rest.is_empty() {
            let length = if rest.starts_with(is_name) {
                rest.find(|c| !is_name(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                rest.chars().next().map_or(0, char::len_utf8)
            };
            tokens.push((number + 1, rest[..length].to_owned()));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

fn starts_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads the path that begins at `at` after `prefix`; gives the place behind it.
fn path(tokens: &[Token], mut at: usize, prefix: &str, found: &mut Vec<Token>) -> usize {
    let line = tokens[at].0;
    let mut path = join(prefix, &tokens[at].1);
    at += 1;
    while is(tokens, at, "::") {
        at += 1;
        match tokens.get(at) {
            Some((_, token)) if token == "{" => return group(tokens, at + 1, &path, found),
            Some((_, token)) if starts_name(token) || token == "*" => path = join(&path, token),
            _ => break,
        }
        at += 1;
    }
    if path.contains("::") {
        found.push((line, path));
    }
    at
}

fn group(tokens: &[Token], mut at: usize, prefix: &str, found: &mut Vec<Token>) -> usize {
    while at < tokens.len() && !is(tokens, at, "}") {
        if starts_name(&tokens[at].1) {
            at = path(tokens, at, prefix, found);
        }
        // Past a new name (`as ...`) to the next member.
        while at < tokens.len() && !is(tokens, at, ",") && !is(tokens, at, "}") {
            at += 1;
        }
        at += usize::from(is(tokens, at, ","));
    }
    at + 1
}

fn is(tokens: &[Token], at: usize, what: &str) -> bool {
    tokens.get(at).is_some_and(|(_, token)| token == what)
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        name.to_owned()
    } else {
        format!("{prefix}::{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<String> {
        paths(text).into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn groups_are_written_out() {
        let text = "use std::{fs, net::{TcpStream, UdpSocket as U}, time};";
        let expected = [
            "std::fs",
            "std::net::TcpStream",
            "std::net::UdpSocket",
            "std::time",
        ];
        assert_eq!(named(text), expected);
        assert_eq!(
            named("let x = std::time::\n Instant::now();"),
            ["std::time::Instant::now"]
        );
    }

    #[test]
    fn comments_and_strings_name_nothing() {
        let text = "// std::fs\n/* std::fs\n */ let a = \"std::fs\"; let b = r#\"std::\"fs\"#;\nlet c = '\"'; a::b";
        assert_eq!(paths(text), [(4, "a::b".to_owned())]);
        assert_eq!(
            named("fn f<'a>(x: &'a str) -> std::fs::File {}"),
            ["std::fs::File"]
        );
        assert_eq!(
            named("let number\"x\"; let br = b'\\''; std::fs"),
            ["std::fs"]
        );
    }

    #[test]
    fn tests_are_cut_off_and_nothing_else_is() {
        assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests {\n"), "a\n");
        let kept = "#[cfg(test)]\nextern crate std;\nfn f() {}\n";
        assert_eq!(without_tests(kept), kept);
    }
}
