//! What a client sends, and what redis-server 7.0.15 answered to it: kevy's decoder, encoder and errors must answer the same,
//! byte for byte, however the input is cut.
//!
//! Recorded by sending each input over a connection of its own, and noting what came back and whether the server closed it.

use bytes::BytesMut;
use kevy_proto::resp::{
    Args, Decoded, Decoder, Encoder, ErrorReply, RespVersion, is_cross_protocol,
};

/// The server waits for more.
const OPEN: bool = false;
/// The server closed the connection.
const CLOSED: bool = true;

/// The four commands that the inputs use.
fn answer(args: Args<'_>, encoder: &mut Encoder<'_>) {
    let name = args.at(0).to_ascii_lowercase();
    match (name.as_slice(), args.len()) {
        (b"ping", 1) => encoder.simple("PONG"),
        (b"ping" | b"echo", 2) => encoder.bulk(args.at(1)),
        (b"echo" | b"get", _) => {
            let name = String::from_utf8_lossy(&name).into_owned();
            encoder.error(&ErrorReply::WrongArity(name));
        }
        _ => encoder.error(&ErrorReply::unknown_command(args)),
    }
}

/// What a server on kevy's decoder answers to `input` that arrives in `pieces`, and whether it closes.
fn converse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (BytesMut, bool) {
    let mut decoder = Decoder::new();
    let (mut received, mut sent) = (Vec::new(), BytesMut::new());
    for piece in pieces {
        received.extend_from_slice(piece);
        loop {
            let consumed = match decoder.decode(&received) {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::Nothing { consumed }) => consumed,
                Ok(Decoded::Request { consumed }) => {
                    let args = decoder.args(&received);
                    if is_cross_protocol(args) {
                        return (sent, CLOSED);
                    }
                    answer(args, &mut Encoder::new(&mut sent, RespVersion::V2));
                    consumed
                }
                Err(error) => {
                    error.encode(&mut sent);
                    return (sent, CLOSED);
                }
            };
            received.drain(..consumed);
        }
    }
    (sent, OPEN)
}

#[test]
fn answers_are_those_of_redis() {
    for (input, output, closed) in TABLE {
        let (sent, state) = converse([*input]);
        assert_eq!(
            (sent.escape_ascii().to_string(), state),
            (output.escape_ascii().to_string(), *closed),
            "{}",
            input.escape_ascii()
        );
    }
}

#[test]
fn cuts_change_no_answer() {
    for (input, _, _) in TABLE {
        let whole = converse([*input]);
        assert_eq!(converse(input.chunks(1)), whole);
        for cut in 0..input.len() {
            let (first, second) = input.split_at(cut);
            assert_eq!(converse([first, second]), whole);
        }
    }
}

#[rustfmt::skip]
const TABLE: &[(&[u8], &[u8], bool)] = &[
    (b"PING\n", b"+PONG\r\n", OPEN),
    (b"PING\r\n", b"+PONG\r\n", OPEN),
    (b"\r\nPING\r\n", b"+PONG\r\n", OPEN),
    (b"\n\nPING\r\n", b"+PONG\r\n", OPEN),
    (b"*0\r\nPING\r\n", b"+PONG\r\n", OPEN),
    (b"*-1\r\nPING\r\n", b"+PONG\r\n", OPEN),
    (b"*-5\r\nPING\r\n", b"+PONG\r\n", OPEN),
    (b"*1048576\r\n", b"", OPEN),
    (b"*2147483648\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*abc\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"* 1\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*01\r\n$4\r\nPING\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*+1\r\n$4\r\nPING\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*-0\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*1\n$4\r\nPING\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*1\rX$4\r\nPING\r\n", b"+PONG\r\n", OPEN),
    (b"*1\r\nPING\r\n", b"-ERR Protocol error: expected '$', got 'P'\r\n", CLOSED),
    (b"*1\r\n:4\r\n", b"-ERR Protocol error: expected '$', got ':'\r\n", CLOSED),
    (b"*1\r\n\r\n", b"-ERR Protocol error: expected '$', got ' '\r\n", CLOSED),
    (b"*1\r\n\xff4\r\n", b"-ERR Protocol error: expected '$', got '\xff'\r\n", CLOSED),
    (b"*1\r\nx", b"", OPEN),
    (b"*1\r\n$-1\r\n", b"-ERR Protocol error: invalid bulk length\r\n", CLOSED),
    (b"*1\r\n$abc\r\n", b"-ERR Protocol error: invalid bulk length\r\n", CLOSED),
    (b"*1\r\n$\r\n", b"-ERR Protocol error: invalid bulk length\r\n", CLOSED),
    (b"*1\r\n$04\r\nPING\r\n", b"-ERR Protocol error: invalid bulk length\r\n", CLOSED),
    (b"*1\r\n$536870912\r\n", b"", OPEN),
    (b"*1\r\n$536870913\r\n", b"-ERR Protocol error: invalid bulk length\r\n", CLOSED),
    (b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", b"+PONG\r\n+PONG\r\n", OPEN),
    (b"*1\r\n$0\r\n\r\n", b"-ERR unknown command '', with args beginning with: \r\n", OPEN),
    (b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", b"$0\r\n\r\n", OPEN),
    (b"*1\r\n$4\rXPING\r\n", b"+PONG\r\n", OPEN),
    (b"*1\r\n$-0\r\n", b"-ERR Protocol error: invalid bulk length\r\n", CLOSED),
    (b"ECHO \"a\\x41\\n\\r\\t\\b\\a\\q\\\"\\\\\"\r\n", b"$10\r\naA\n\r\t\x08\x07q\"\\\r\n", OPEN),
    (b"ECHO 'a\\'b\\n'\r\n", b"$5\r\na'b\\n\r\n", OPEN),
    (b"ECHO \"ab\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n", CLOSED),
    (b"ECHO 'ab\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n", CLOSED),
    (b"ECHO \"a\"b\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n", CLOSED),
    (b"ECHO 'a'b\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n", CLOSED),
    (b"ECHO a\"b c\"\r\n", b"$4\r\nab c\r\n", OPEN),
    (b"ECHO a'b'\r\n", b"$2\r\nab\r\n", OPEN),
    (b"ECHO a\"b\"c\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n", CLOSED),
    (b"  ECHO   x  \r\n", b"$1\r\nx\r\n", OPEN),
    (b"   \r\n  PING\r\n", b"+PONG\r\n", OPEN),
    (b"ECHO \"\"\r\n", b"$0\r\n\r\n", OPEN),
    (b"ECHO ''\r\n", b"$0\r\n\r\n", OPEN),
    (b"ECHO \"\\xZZ\"\r\n", b"$3\r\nxZZ\r\n", OPEN),
    (b"ECHO \"\\x4\"\r\n", b"$2\r\nx4\r\n", OPEN),
    (b"\tECHO\ta\x0bPING\r\n", b"$6\r\na\x0bPING\r\n", OPEN),
    (b"ECHO a\rb\r\n", b"-ERR wrong number of arguments for 'echo' command\r\n", OPEN),
    (b"ECHO a\r\r\n", b"$1\r\na\r\n", OPEN),
    (b"\"\" x\r\n", b"-ERR unknown command '', with args beginning with: 'x' \r\n", OPEN),
    (b"ECHO \"a\\", b"", OPEN),
    (b"ECHO \"a\\\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n", CLOSED),
    (b"ECHO 'a\\\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n", CLOSED),
    (b"ECHO \xff\x85\xa0b\r\n", b"$4\r\n\xff\x85\xa0b\r\n", OPEN),
    (b"ECHO \"a\" \"b\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n", CLOSED),
    (b"ECHO a\x0cb\r\n", b"$3\r\na\x0cb\r\n", OPEN),
    (b"ECHO \"a\"\x0b\r\n", b"$1\r\na\r\n", OPEN),
    (b"\"\\x\"\r\n", b"-ERR unknown command 'x', with args beginning with: \r\n", OPEN),
    (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"", CLOSED),
    (b"post / HTTP\r\nPING\r\n", b"", CLOSED),
    (b"Host: x\r\nPING\r\n", b"", CLOSED),
    (b"host: x\r\nPING\r\n", b"", CLOSED),
    (b"HOST: x\r\n", b"", CLOSED),
    (b"*1\r\n$4\r\nPOST\r\n*1\r\n$4\r\nPING\r\n", b"", CLOSED),
    (b"*1\r\n$5\r\nHost:\r\n*1\r\n$4\r\nPING\r\n", b"", CLOSED),
    (b"*1\r\n$5\r\nhost:\r\n*1\r\n$4\r\nPING\r\n", b"", CLOSED),
    (b"GET / HTTP/1.0\r\n", b"-ERR wrong number of arguments for 'get' command\r\n", OPEN),
    (b"Host:\r\n", b"", CLOSED),
    (b"*2\r\n$4\r\nECHO\r\n$6\r\na\r\n\x00\xffb\r\n", b"$6\r\na\r\n\x00\xffb\r\n", OPEN),
    (b"*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nPING\r\n", b"+PONG\r\n+PONG\r\n+PONG\r\n", OPEN),
    (b"*1\r\n$4\r\nPIN", b"", OPEN),
    (b"*1", b"", OPEN),
    (b"PING", b"", OPEN),
    (b"*1\r", b"", OPEN),
    (b"*9223372036854775808\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*-9223372036854775809\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*1\r\n$9223372036854775807\r\n", b"-ERR Protocol error: invalid bulk length\r\n", CLOSED),
    (b"*1\r\n$99999999999999999999\r\n", b"-ERR Protocol error: invalid bulk length\r\n", CLOSED),
    (b"PING\r\n*1\r\nPING\r\n", b"+PONG\r\n-ERR Protocol error: expected '$', got 'P'\r\n", CLOSED),
    (b"FOO a \"b c\" 'd\\'e'\r\n", b"-ERR unknown command 'FOO', with args beginning with: 'a' 'b c' 'd'e' \r\n", OPEN),
    (b"*3\r\n$5\r\nF\r\nOO\r\n$4\r\na\r\nb\r\n$3\r\nq\x00z\r\n", b"-ERR unknown command 'F  OO', with args beginning with: 'a  b' 'q' \r\n", OPEN),
    (b"FOO xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx y\r\n", b"-ERR unknown command 'FOO', with args beginning with: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' \r\n", OPEN),
    (b"FOO xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy z\r\n", b"-ERR unknown command 'FOO', with args beginning with: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' 'yyyyyyyyyyyyyyyyyyyyyyyyy' \r\n", OPEN),
    (b"FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF a\r\n", b"-ERR unknown command 'FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF', with args beginning with: 'a' \r\n", OPEN),
    (b"ECHO\r\n", b"-ERR wrong number of arguments for 'echo' command\r\n", OPEN),
    (b"ECHO a b\r\n", b"-ERR wrong number of arguments for 'echo' command\r\n", OPEN),
    (b"PING \"a\\x4fb\"\r\n", b"$3\r\naOb\r\n", OPEN),
    (b"*1\r\n$ 4\r\nPING\r\n", b"-ERR Protocol error: invalid bulk length\r\n", CLOSED),
    (b"*1 \r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*1\r\n+OK\r\n", b"-ERR Protocol error: expected '$', got '+'\r\n", CLOSED),
    (b"+OK\r\n", b"-ERR unknown command '+OK', with args beginning with: \r\n", OPEN),
    (b"$4\r\nPING\r\n", b"-ERR unknown command '$4', with args beginning with: \r\n+PONG\r\n", OPEN),
    (b"* 0\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"*00\r\n", b"-ERR Protocol error: invalid multibulk length\r\n", CLOSED),
    (b"PING 'it''s'\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n", CLOSED),
    (b"PING \\x41\r\n", b"$4\r\n\\x41\r\n", OPEN),
    (b"PING \"\\xfF\"\r\n", b"$1\r\n\xff\r\n", OPEN),
    (b"PING \"a\\tb\" \r\n", b"$3\r\na\tb\r\n", OPEN),
    (b"\x0b PING\r\n", b"+PONG\r\n", OPEN),
];
