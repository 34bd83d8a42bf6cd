//! Properties of RESP for any input: what was encoded is decoded, cuts do not matter, garbage is answered and never a panic.

use bytes::{Bytes, BytesMut};
use kevy_proto::resp::{
    Decoded, Decoder, ProtocolError, Reply, ReplyDecoder, RequestBuffer, encode_request,
    reply_length,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

type Requests = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);
type Replies = (Vec<Reply>, Option<ProtocolError>);

/// Ends of the pieces that `input` arrives in.
fn ends(input: &[u8], cuts: &[Index]) -> Vec<usize> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
    ends.push(input.len());
    ends.sort_unstable();
    ends
}

fn requests(input: &[u8], cuts: &[Index]) -> Requests {
    let mut decoder = Decoder::new();
    let (mut start, mut found) = (0, Vec::new());
    for end in ends(input, cuts) {
        loop {
            let buffer = &input[start..end];
            start += match decoder.decode(buffer) {
                Err(error) => return (found, Some(error)),
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::Nothing { consumed }) => consumed,
                Ok(Decoded::Request { consumed }) => {
                    let args = decoder.args(buffer).iter();
                    found.push(args.map(<[u8]>::to_vec).collect());
                    consumed
                }
            };
            assert!(decoder.is_idle());
        }
        assert_eq!(decoder.is_idle(), start == end);
    }
    (found, None)
}

fn replies(input: &[u8], cuts: &[Index]) -> Replies {
    let mut decoder = ReplyDecoder::new();
    let (mut start, mut found) = (0, Vec::new());
    for end in ends(input, cuts) {
        loop {
            let buffer = &input[start..end];
            match decoder.decode(buffer) {
                Err(error) => return (found, Some(error)),
                Ok(None) => break,
                Ok(Some((reply, length))) => {
                    assert_eq!(reply_length(buffer), Ok(Some(length)));
                    found.push(reply);
                    start += length;
                }
            }
        }
    }
    (found, None)
}

/// Bytes that the protocol gives a meaning to, more often than others.
fn protocol_bytes() -> impl Strategy<Value = Vec<u8>> {
    let fragments = select(vec![
        &b"*1\r\n"[..],
        b"*2\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"$1\r\n",
        b"$0\r\n\r\n",
        b"$3\r\nGET\r\n",
        b"$-1\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"*",
        b"$",
        b"\"",
        b"'",
        b"\\",
        b"\\x4",
        b" ",
        b"a",
        b"9",
        b"%1\r\n",
        b"~1\r\n",
        b">1\r\n",
        b"|1\r\n",
        b"+OK\r\n",
        b"-ERR\r\n",
        b":1\r\n",
        b",1.5\r\n",
        b"#t\r\n",
        b"_\r\n",
        b"(12\r\n",
        b"=5\r\ntxt:a\r\n",
        b"!1\r\na\r\n",
        b"\0",
        b"\xff",
    ]);
    vec(fragments, 0..24).prop_map(|fragments| fragments.concat())
}

fn args() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..20), 1..6)
}

fn line() -> impl Strategy<Value = Bytes> {
    "[ -~]{0,12}".prop_map(Bytes::from)
}

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn reply() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        line().prop_map(Reply::Simple),
        bytes().prop_map(Reply::Error),
        any::<i64>().prop_map(Reply::Integer),
        any::<f64>().prop_map(Reply::Double),
        select(vec![f64::INFINITY, f64::NEG_INFINITY, 0.0, 1e17]).prop_map(Reply::Double),
        any::<bool>().prop_map(Reply::Boolean),
        "-?[0-9]{1,30}".prop_map(|digits| Reply::BigNumber(Bytes::from(digits))),
        bytes().prop_map(Reply::Bulk),
        (any::<[u8; 3]>(), bytes()).prop_map(|(format, text)| Reply::Verbatim { format, text }),
        Just(Reply::Null),
        Just(Reply::NullArray),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Reply::Array),
            vec(inner.clone(), 0..6).prop_map(Reply::Set),
            vec(inner.clone(), 0..6).prop_map(Reply::Push),
            vec((inner.clone(), inner), 0..4).prop_map(Reply::Map),
        ]
    })
}

/// An argument as a person quotes it, byte by byte.
fn quoted(arg: &[u8]) -> String {
    let escaped = arg.iter().map(|byte| format!("\\x{byte:02x}"));
    format!("\"{}\"", escaped.collect::<String>())
}

proptest! {
    #[test]
    fn encoded_requests_are_decoded(sent in vec(args(), 1..5), cuts: Vec<Index>) {
        let mut input = BytesMut::new();
        for args in &sent {
            let request = RequestBuffer::from_slices(args.iter().map(Vec::as_slice));
            encode_request(request.args().iter(), &mut input);
        }
        prop_assert_eq!(requests(&input, &cuts), (sent, None));
    }

    #[test]
    fn quoted_lines_are_decoded(sent in vec(args(), 1..5), end in select(vec!["\n", "\r\n"]), cuts: Vec<Index>) {
        let mut input = String::new();
        for args in &sent {
            let words: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
            input.push_str(&words.join(" "));
            input.push_str(end);
        }
        prop_assert_eq!(requests(input.as_bytes(), &cuts), (sent, None));
    }

    #[test]
    fn cuts_do_not_change_what_is_found(input in protocol_bytes(), cuts: Vec<Index>) {
        prop_assert_eq!(requests(&input, &cuts), requests(&input, &[]));
        prop_assert_eq!(replies(&input, &cuts), replies(&input, &[]));
    }

    #[test]
    fn garbage_is_no_panic(input in vec(any::<u8>(), 0..200), cuts: Vec<Index>) {
        prop_assert_eq!(requests(&input, &cuts), requests(&input, &[]));
        prop_assert_eq!(replies(&input, &cuts), replies(&input, &[]));
        let _ = reply_length(&input);
    }

    #[test]
    fn encoded_replies_are_decoded(sent in vec(reply(), 1..4), cuts: Vec<Index>) {
        let mut input = BytesMut::new();
        for reply in &sent {
            reply.encode(&mut input);
        }
        prop_assert_eq!(replies(&input, &cuts), (sent, None));
    }
}
