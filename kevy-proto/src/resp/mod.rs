//! RESP, the Redis serialization protocol (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).

mod args;
mod encode;
mod error;

pub use args::{Args, RequestBuffer, Span};
pub use encode::{Encoder, RespVersion};
pub use error::ErrorReply;
