//! Requests as a client sends them, and short ways to look at replies.

use bytes::Bytes;
pub use kevy_proto::resp::Reply;

/// A request: its arguments, the command's name first.
pub type Request = Vec<Vec<u8>>;

/// Builds a request of texts.
pub fn request<S: AsRef<[u8]>>(args: impl IntoIterator<Item = S>) -> Request {
    args.into_iter().map(|arg| arg.as_ref().to_vec()).collect()
}

/// Appends a request's bytes as a client sends them.
pub fn encode(request: &Request, to: &mut Vec<u8>) {
    to.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
    for arg in request {
        to.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        to.extend_from_slice(arg);
        to.extend_from_slice(b"\r\n");
    }
}

/// A string reply.
pub fn bulk(text: impl AsRef<[u8]>) -> Reply {
    Reply::Bulk(Bytes::copy_from_slice(text.as_ref()))
}

/// An error reply.
pub fn error(text: impl AsRef<[u8]>) -> Reply {
    Reply::Error(Bytes::copy_from_slice(text.as_ref()))
}

/// The number in an integer reply or in a string.
pub fn number(reply: &Reply) -> Option<i64> {
    if let Reply::Integer(number) = reply {
        return Some(*number);
    }
    std::str::from_utf8(reply.as_bytes()?).ok()?.parse().ok()
}

/// The elements of an array.
pub fn elements(reply: &Reply) -> Option<&[Reply]> {
    if let Reply::Array(elements) = reply {
        Some(elements)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_an_array_of_strings() {
        let mut bytes = Vec::new();
        encode(&request(["SET", "k", "a\r\n"]), &mut bytes);
        assert_eq!(bytes, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na\r\n\r\n");
    }

    #[test]
    fn numbers_stand_in_integers_and_strings() {
        assert_eq!(number(&Reply::Integer(-3)), Some(-3));
        assert_eq!(number(&bulk("42")), Some(42));
        assert_eq!(number(&bulk("x")), None);
        assert_eq!(number(&Reply::Null), None);
    }
}
