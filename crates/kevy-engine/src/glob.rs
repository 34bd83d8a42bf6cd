//! Redis's glob patterns: `*`, `?`, `[abc]`, `[a-z]`, `[^a]` and `\` before a character taken literally.
//!
//! The pattern is matched with one place to go back to, the last `*`: everything before it is settled, so the cost is at
//! most pattern times text and no pattern can hold a shard for long. What is accepted equals Redis's matcher, with its
//! own ideas about unfinished classes.

/// Whether all of `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Redis looks at the pattern only while there is text, so nothing but the empty pattern matches the empty text.
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut pattern, mut text) = (pattern, text);
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            retry = Some((rest, text));
            continue;
        }
        if let Some((&byte, text_rest)) = text.split_first() {
            if let Some(pattern_rest) = step(pattern, byte) {
                (pattern, text) = (pattern_rest, text_rest);
                continue;
            }
        } else if pattern.is_empty() {
            return true;
        }
        // Let the last `*` take one more byte.
        let Some((after_star, [_, rest @ ..])) = retry else {
            return false;
        };
        retry = Some((after_star, rest));
        (pattern, text) = (after_star, rest);
    }
}

/// What is left of `pattern` after its first element matched `byte`; `None` if it does not match.
fn step(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', b'^', class @ ..] => {
            let (inside, rest) = class_holds(class, byte);
            (!inside).then_some(rest)
        }
        [b'[', class @ ..] => {
            let (inside, rest) = class_holds(class, byte);
            inside.then_some(rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte).then_some(rest),
    }
}

/// Whether the class that starts here (after `[` or `[^`) holds `byte`, and what follows the class. A class without `]`
/// goes to the end of the pattern.
fn class_holds(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let mut inside = false;
    let mut class = class;
    loop {
        let (holds, rest) = match class {
            [] => return (inside, class),
            [b']', rest @ ..] => return (inside, rest),
            [b'\\', literal, rest @ ..] => (*literal == byte, rest),
            [from, b'-', to, rest @ ..] => {
                let range = *from.min(to)..=*from.max(to);
                (range.contains(&byte), rest)
            }
            [literal, rest @ ..] => (*literal == byte, rest),
        };
        inside |= holds;
        class = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn each_element_matches_what_redis_says() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", false),
            ("a", "", false),
            ("*", "a", true),
            ("a*", "a", true),
            ("a**", "a", true),
            ("a*?", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hbllo", true),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hbllo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("[abc", "b", true),
            ("[^", "b", true),
            ("[]a]", "a", false),
            ("[\\]]", "]", true),
            ("[a-]", "-", false),
            ("\\", "\\", true),
            ("a\\", "a\\", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxxcx", false),
        ] {
            let got = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(got, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_cost_at_most_pattern_times_text() {
        let pattern = b"a*".repeat(5000);
        let mut text = vec![b'a'; 10_000];
        assert!(matches(&pattern, &text));
        text.push(b'b');
        let mut never = pattern;
        never.push(b'c');
        assert!(!matches(&never, &text));
    }
}
