//! From a reply to the value that a verb gives. RESP2 and RESP3 give the same value.

use kevy_proto::resp::Reply;

use crate::{KevyError, KevyResult};

/// A value that a reply can become.
///
/// ```
/// use kevy_client::{FromReply, Reply};
///
/// let pairs = Reply::Array(vec![Reply::Bulk("a".into()), Reply::Bulk("1.5".into())]);
/// let scores = Vec::<(String, f64)>::from_reply(pairs)?;
/// assert_eq!(scores, [("a".to_owned(), 1.5)]);
/// assert_eq!(Option::<i64>::from_reply(Reply::Null)?, None);
/// # Ok::<(), kevy_client::KevyError>(())
/// ```
pub trait FromReply: Sized {
    /// Converts the reply.
    ///
    /// # Errors
    ///
    /// The error that an error reply stands for; [`KevyError::Protocol`] for a reply of another type.
    fn from_reply(reply: Reply) -> KevyResult<Self>;
}

/// The reply, unless it is an error.
pub(crate) fn no_error(reply: Reply) -> KevyResult<Reply> {
    if let Reply::Error(text) = &reply {
        return Err(KevyError::from_error_reply(text));
    }
    Ok(reply)
}

impl FromReply for Reply {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        no_error(reply)
    }
}

/// `OK`, whatever the word is.
impl FromReply for () {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        let reply = no_error(reply)?;
        if matches!(reply, Reply::Simple(_)) {
            return Ok(());
        }
        Err(KevyError::unexpected(&reply))
    }
}

impl FromReply for i64 {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        let reply = no_error(reply)?;
        if let Reply::Integer(number) = reply {
            return Ok(number);
        }
        Err(KevyError::unexpected(&reply))
    }
}

/// A count: an integer that is not negative.
impl FromReply for usize {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        let number = i64::from_reply(reply)?;
        Self::try_from(number)
            .map_err(|_| KevyError::Protocol(format!("unexpected reply: {number}")))
    }
}

impl FromReply for bool {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        if let Reply::Boolean(value) = reply {
            return Ok(value);
        }
        Ok(i64::from_reply(reply)? != 0)
    }
}

/// RESP2 sends a double as text.
impl FromReply for f64 {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        let reply = no_error(reply)?;
        if let Reply::Double(number) = reply {
            return Ok(number);
        }
        let text = reply.as_bytes().and_then(|text| str::from_utf8(text).ok());
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| KevyError::unexpected(&reply))
    }
}

impl FromReply for Vec<u8> {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        let reply = no_error(reply)?;
        let bytes = reply.as_bytes().cloned();
        let bytes = bytes.ok_or_else(|| KevyError::unexpected(&reply))?;
        drop(reply);
        // Copies nothing: the bytes have no other owner now.
        Ok(Self::from(bytes))
    }
}

/// Text; bytes that are no UTF-8 are an error.
impl FromReply for String {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        let bytes = Vec::from_reply(reply)?;
        Self::from_utf8(bytes).map_err(|error| KevyError::Protocol(error.to_string()))
    }
}

/// No value is `None`.
impl<T: FromReply> FromReply for Option<T> {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        if is_null(&reply) {
            return Ok(None);
        }
        T::from_reply(reply).map(Some)
    }
}

pub(crate) fn is_null(reply: &Reply) -> bool {
    matches!(reply, Reply::Null | Reply::NullArray)
}

/// The elements of an array, or of a set of RESP3.
pub(crate) fn elements(reply: Reply) -> KevyResult<Vec<Reply>> {
    let reply = no_error(reply)?;
    if let Reply::Array(items) | Reply::Set(items) | Reply::Push(items) = reply {
        return Ok(items);
    }
    Err(KevyError::unexpected(&reply))
}

impl<T: FromReply> FromReply for Vec<T> {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        elements(reply)?.into_iter().map(T::from_reply).collect()
    }
}

/// Pairs as RESP2 sends them (one after the other) or RESP3 (a map, or an array of pairs).
impl<A: FromReply, B: FromReply> FromReply for Vec<(A, B)> {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        let reply = no_error(reply)?;
        if let Reply::Map(pairs) = reply {
            let pairs = pairs.into_iter();
            return pairs
                .map(|(a, b)| Ok((A::from_reply(a)?, B::from_reply(b)?)))
                .collect();
        }
        let items = elements(reply)?;
        if items.iter().all(|item| matches!(item, Reply::Array(_))) {
            return items.into_iter().map(pair).collect();
        }
        let mut items = items.into_iter();
        let mut pairs = Self::with_capacity(items.len() / 2);
        while let Some(first) = items.next() {
            let second = items.next().ok_or_else(odd)?;
            pairs.push((A::from_reply(first)?, B::from_reply(second)?));
        }
        Ok(pairs)
    }
}

fn odd() -> KevyError {
    KevyError::Protocol("a value is missing in a reply of pairs".to_owned())
}

fn pair<A: FromReply, B: FromReply>(reply: Reply) -> KevyResult<(A, B)> {
    let [first, second] = exactly(reply)?;
    Ok((A::from_reply(first)?, B::from_reply(second)?))
}

/// The elements of an array that has exactly `N` of them.
pub(crate) fn exactly<const N: usize>(reply: Reply) -> KevyResult<[Reply; N]> {
    <[Reply; N]>::try_from(elements(reply)?)
        .map_err(|items| KevyError::Protocol(format!("{} elements instead of {N}", items.len())))
}

/// What a blocking pop gives: the key and the element, or nothing in time.
impl<A: FromReply, B: FromReply> FromReply for Option<(A, B)> {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        if is_null(&reply) {
            return Ok(None);
        }
        pair(reply).map(Some)
    }
}

/// What a blocking pop of a sorted set gives: the key, the member and its score, or nothing in time.
impl<A: FromReply, B: FromReply, C: FromReply> FromReply for Option<(A, B, C)> {
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        if is_null(&reply) {
            return Ok(None);
        }
        let [a, b, c] = exactly(reply)?;
        Ok(Some((
            A::from_reply(a)?,
            B::from_reply(b)?,
            C::from_reply(c)?,
        )))
    }
}

/// One step of an iteration over keys, fields or members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// Where to go on; 0 when the iteration is over.
    pub cursor: u64,
    /// What this step found, possibly nothing.
    pub items: Vec<T>,
}

impl<T> FromReply for Page<T>
where
    Vec<T>: FromReply,
{
    fn from_reply(reply: Reply) -> KevyResult<Self> {
        let [cursor, items] = exactly(reply)?;
        let text = String::from_reply(cursor)?;
        let cursor = text
            .parse()
            .map_err(|_| KevyError::Protocol(format!("no cursor: {text}")))?;
        Ok(Self {
            cursor,
            items: Vec::from_reply(items)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &'static str) -> Reply {
        Reply::Bulk(text.into())
    }

    #[test]
    fn both_versions_give_the_same_pairs() {
        let flat = Reply::Array(vec![bulk("a"), bulk("1"), bulk("b"), bulk("2.5")]);
        let nested = Reply::Array(vec![
            Reply::Array(vec![bulk("a"), Reply::Double(1.0)]),
            Reply::Array(vec![bulk("b"), Reply::Double(2.5)]),
        ]);
        let map = Reply::Map(vec![
            (bulk("a"), Reply::Double(1.0)),
            (bulk("b"), Reply::Double(2.5)),
        ]);
        for reply in [flat, nested, map] {
            let pairs = Vec::<(String, f64)>::from_reply(reply).unwrap();
            assert_eq!(pairs, [("a".to_owned(), 1.0), ("b".to_owned(), 2.5)]);
        }
        let odd = Reply::Array(vec![bulk("a")]);
        assert!(Vec::<(String, f64)>::from_reply(odd).is_err());
    }

    #[test]
    fn a_reply_of_another_type_is_an_error_and_no_value() {
        assert!(i64::from_reply(bulk("1")).is_err());
        assert!(<()>::from_reply(Reply::Integer(1)).is_err());
        assert!(usize::from_reply(Reply::Integer(-1)).is_err());
        assert!(Vec::<u8>::from_reply(Reply::Null).is_err());
        assert!(f64::from_reply(bulk("x")).is_err());
        assert!(Vec::<i64>::from_reply(Reply::Integer(1)).is_err());
        assert!(Option::<(String, String)>::from_reply(Reply::Array(vec![])).is_err());
        assert!(Page::<String>::from_reply(Reply::Array(vec![bulk("x"), bulk("y")])).is_err());
        let error = Reply::Error("ERR no such key".into());
        assert!(matches!(
            Option::<i64>::from_reply(error),
            Err(KevyError::Store(_))
        ));
    }

    #[test]
    fn nulls_of_both_versions_are_none() {
        for null in [Reply::Null, Reply::NullArray] {
            assert_eq!(Option::<Vec<u8>>::from_reply(null.clone()).unwrap(), None);
            assert_eq!(
                Option::<(String, String, f64)>::from_reply(null).unwrap(),
                None
            );
        }
    }
}
