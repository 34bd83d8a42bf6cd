//! The clients on tokio: the same machines, with sockets to `.await`. TCP only.
//!
//! They need a runtime with I/O and time enabled. Dropping a future before it is ready is safe: what was begun is
//! transmitted to its end later, and its reply is dropped when it comes. (So a blocking pop that is dropped may still take an
//! element.)

mod client;
mod cluster;
mod link;
mod pipeline;
mod subscriber;

pub use client::AsyncClient;
pub use cluster::AsyncClusterClient;
pub use pipeline::AsyncPipeline;
pub use subscriber::AsyncSubscriber;
