//! A zipmap: small hashes before Redis 2.6.
//!
//! ```text
//! [number of pairs: 1, 254 if there are as many or more]([length][name][length][free: 1][value][free bytes])..[ff]
//! length = up to 253: 1 | fe and 4, little endian
//! ```

/// Ends a zipmap.
const END: u8 = 0xff;
/// A length of four bytes follows; as the number of pairs: nobody counted.
const LONG: u8 = 0xfe;

/// The pairs of `bytes`, all of which were looked at; `None` if they are no zipmap.
pub(super) fn open(bytes: &[u8]) -> Option<Pairs<'_>> {
    let (&count, rest) = bytes.split_first()?;
    let pairs = Pairs { rest };
    let mut left = pairs.clone();
    let mut found = 0;
    while left.rest != [END] {
        left.next()?;
        found += 1;
    }
    (count >= LONG || usize::from(count) == found).then_some(pairs)
}

/// Names with their values, in order.
#[derive(Clone, Debug)]
pub(super) struct Pairs<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = length(self.rest)?;
        let (name, rest) = rest.split_at_checked(length)?;
        let (length, rest) = self::length(rest)?;
        let (&free, rest) = rest.split_first()?;
        let (value, rest) = rest.split_at_checked(length)?;
        self.rest = rest.get(usize::from(free)..)?;
        Some((name, value))
    }
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    match first {
        END => None,
        LONG => {
            let (long, rest) = rest.split_first_chunk()?;
            Some((u32::from_le_bytes(*long) as usize, rest))
        }
        short => Some((usize::from(short), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `foo => bar`, `hello => world` with two bytes free.
    const EXAMPLE: &[u8] = b"\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xff";

    #[test]
    fn pairs_are_read() {
        let expected = [(&b"foo"[..], &b"bar"[..]), (b"hello", b"world")];
        assert!(open(EXAMPLE).unwrap().eq(expected));
        assert_eq!(open(b"\x00\xff").unwrap().count(), 0);
        let long = [b"\xfe\xfe\x00\x01\0\0", &[b'x'; 256][..], b"\x00\x00\xff"].concat();
        assert_eq!(open(&long).unwrap().next().unwrap().0.len(), 256);
    }

    #[test]
    fn damage_is_found() {
        for cut in 0..EXAMPLE.len() {
            assert!(open(&EXAMPLE[..cut]).is_none(), "cut at {cut}");
        }
        assert!(open(b"\x03\x03foo\x03\x00bar\xff").is_none());
        assert!(open(b"\x01\x03foo\x03\x00bar\xff.").is_none());
        assert!(open(b"\x01\xfe\xff\xff\xff\xff\xff").is_none());
    }
}
