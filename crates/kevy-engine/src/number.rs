//! Numbers as Redis reads them from arguments and values: stricter than most parsers.

use kevy_proto::resp::ErrorReply;

/// The most characters that a 64-bit integer has.
const LONGEST: usize = 20;

/// A 64-bit integer in canonical form, as Redis's `string2ll`: no sign but `-`, no leading zeros, no spaces, not `-0`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [] => return None,
        _ if text.len() > LONGEST => return None,
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut magnitude = 0_u64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    if negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// An integer argument.
///
/// # Errors
/// [`ErrorReply::NotInteger`].
pub fn integer(text: &[u8]) -> Result<i64, ErrorReply> {
    parse_i64(text).ok_or(ErrorReply::NotInteger)
}

/// The index of a database: 32 bits, of which kevy has 0 only.
///
/// # Errors
/// [`ErrorReply::NotInteger`], or that it is outside of 32 bits, or that there is no such database.
pub fn database(text: &[u8]) -> Result<(), ErrorReply> {
    match i32::try_from(integer(text)?) {
        Ok(0) => Ok(()),
        Ok(_) => Err(ErrorReply::text("ERR DB index is out of range")),
        Err(_) => Err(ErrorReply::text(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn only_the_canonical_form_is_an_integer() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN, i64::MIN + 1] {
            assert_eq!(parse_i64(number.to_string().as_bytes()), Some(number));
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "0x1",
            "a",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "99999999999999999999",
            "100000000000000000000",
            "1\n",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
    }
}
