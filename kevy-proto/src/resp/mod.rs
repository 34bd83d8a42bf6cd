//! RESP, the Redis serialization protocol (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).
//!
//! A server reads requests with [`Decoder`] and writes replies with [`Encoder`]. A client
//! writes requests with [`encode_request`] and reads replies with [`ReplyDecoder`].

mod args;
mod decode;
mod double;
mod element;
mod encode;
mod error;
mod header;
mod inline;
mod protocol_error;
mod reply;
mod reply_decode;

pub use args::{Args, RequestBuffer, Span};
pub use decode::{
    Decoded, Decoder, Limits, MAX_ARGUMENTS, MAX_BULK_BYTES, MAX_HEADER_BYTES, MAX_INLINE_BYTES,
    is_cross_protocol,
};
pub use double::DoubleBuffer;
pub use element::{MAX_REPLY_ELEMENTS, MAX_REPLY_LINE_BYTES};
pub use encode::{Encoder, RespVersion, encode_request};
pub use error::ErrorReply;
pub use protocol_error::ProtocolError;
pub use reply::Reply;
pub use reply_decode::{MAX_REPLY_DEPTH, ReplyDecoder, reply_length};
