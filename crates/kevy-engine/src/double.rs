//! Doubles as Redis reads them from arguments: C's `strtod`.
//!
//! Decimal or hexadecimal (`0x1.8p3`) numbers and infinity, each in any case. NaN is never accepted.

/// A double argument, as strictly as Redis takes scores and coordinates: no spaces, not empty, no number that is too large
/// or, though not zero, too small.
pub fn parse(text: &[u8]) -> Option<f64> {
    let (negative, magnitude) = split_sign(text);
    let number = if is_hexadecimal(magnitude) {
        hexadecimal(magnitude)?
    } else {
        decimal(magnitude)?
    };
    let out_of_range = match number {
        f64::INFINITY => magnitude.iter().any(u8::is_ascii_digit),
        0.0 => has_significant_digit(magnitude),
        _ => false,
    };
    (!out_of_range).then_some(if negative { -number } else { number })
}

/// A double as Redis takes the ends of score ranges: also after spaces, empty (0), ended by a zero byte, or so large or
/// small that infinity or 0 comes nearest.
pub fn parse_leniently(text: &[u8]) -> Option<f64> {
    let end = memchr::memchr(0, text).unwrap_or(text.len());
    let text = &text[..end];
    if text.is_empty() {
        return Some(0.0);
    }
    let (negative, magnitude) = split_sign(trim_start(text));
    let number = if is_hexadecimal(magnitude) {
        hexadecimal(magnitude)?
    } else {
        decimal(magnitude)?
    };
    Some(if negative { -number } else { number })
}

/// Without the spaces of C before it.
fn trim_start(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte));
    &text[start.unwrap_or(text.len())..]
}

fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn is_hexadecimal(text: &[u8]) -> bool {
    matches!(text, [b'0', b'x' | b'X', ..])
}

fn decimal(text: &[u8]) -> Option<f64> {
    // A second sign is none of C's.
    if matches!(text.first(), Some(b'+' | b'-')) {
        return None;
    }
    let number: f64 = core::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

fn has_significant_digit(text: &[u8]) -> bool {
    let (digits, end): (&[u8], fn(&u8) -> bool) = if is_hexadecimal(text) {
        (&text[2..], |byte| matches!(byte, b'p' | b'P'))
    } else {
        (text, |byte| matches!(byte, b'e' | b'E'))
    };
    let mut mantissa = digits.iter().take_while(|byte| !end(byte));
    mantissa.any(|byte| byte.is_ascii_hexdigit() && *byte != b'0')
}

fn hexadecimal(text: &[u8]) -> Option<f64> {
    let mut rest = &text[2..];
    let (mut mantissa, mut exponent, mut digits, mut after_point) = (0_u64, 0_i64, 0, false);
    while let Some((&byte, next)) = rest.split_first() {
        match char::from(byte).to_digit(16) {
            Some(digit) => {
                digits += 1;
                // The lowest bit remembers what was lost: enough to round well.
                if mantissa >> 58 == 0 {
                    mantissa = mantissa << 4 | u64::from(digit);
                    exponent -= if after_point { 4 } else { 0 };
                } else {
                    mantissa |= u64::from(digit != 0);
                    exponent += if after_point { 0 } else { 4 };
                }
            }
            None if byte == b'.' && !after_point => after_point = true,
            None => break,
        }
        rest = next;
    }
    if digits == 0 {
        return None;
    }
    exponent = exponent.saturating_add(binary_exponent(rest)?);
    let exponent = exponent.clamp(-10_000, 10_000) as i32;
    Some(libm::ldexp(mantissa as f64, exponent))
}

/// The `p-3` after a hexadecimal number; 0 for nothing.
fn binary_exponent(text: &[u8]) -> Option<i64> {
    let Some((b'p' | b'P', text)) = text.split_first() else {
        return text.is_empty().then_some(0);
    };
    let (negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_i64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
    });
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_strtod() {
        for (text, number) in [
            ("0", 0.0),
            ("-1.5", -1.5),
            ("+1.", 1.0),
            (".5", 0.5),
            ("1e3", 1000.0),
            ("1E-3", 0.001),
            ("00012", 12.0),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("+INF", f64::INFINITY),
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("0x.8", 0.5),
            ("0x1p-1074", 5e-324),
            ("0x1.fffffffffffff8p0", 2.0),
            ("0x10000000000000000000000000000001", 2_f64.powi(124)),
            ("5e-324", 5e-324),
            ("1e-310", 1e-310),
            ("0e-400", 0.0),
            ("1.7976931348623157e308", f64::MAX),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(number), "{text}");
            assert_eq!(parse_leniently(text.as_bytes()), Some(number), "{text}");
        }
        assert!(parse(b"-0").is_some_and(f64::is_sign_negative));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "nan", "-nan", "+-1", "--1", "1 ", "1x", "e5", ".", "-", "+", "0x", "0x.", "0xg",
            "0x1p", "0x1p+", "1e", "1_0", "infinit", "ten", "(1",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
            assert_eq!(parse_leniently(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_ends_of_ranges_may_be_written_carelessly() {
        for (text, number) in [
            (&b""[..], 0.0),
            (b" 5", 5.0),
            (b"\t\x0b\x0c\r\n5", 5.0),
            (b"5\0x", 5.0),
            (b"\0x", 0.0),
            (b"1e400", f64::INFINITY),
            (b"-1e400", f64::NEG_INFINITY),
            (b"1e-400", 0.0),
            (b"0x1p9999", f64::INFINITY),
            (b"0x1p-9999", 0.0),
        ] {
            assert_eq!(parse_leniently(text), Some(number), "{text:?}");
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(parse_leniently(b" "), None);
    }
}
