//! RESP, the Redis serialization protocol (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).
//!
//! A server reads requests with [`Decoder`] and writes replies with [`Encoder`].

mod args;
mod decode;
mod double;
mod encode;
mod error;
mod inline;
mod protocol_error;

pub use args::{Args, RequestBuffer, Span};
pub use decode::{
    Decoded, Decoder, Limits, MAX_ARGUMENTS, MAX_BULK_BYTES, MAX_HEADER_BYTES, MAX_INLINE_BYTES,
    is_cross_protocol,
};
pub use double::DoubleBuffer;
pub use encode::{Encoder, RespVersion, encode_request};
pub use error::ErrorReply;
pub use protocol_error::ProtocolError;
