//! Clients of kevy, and of anything else that speaks RESP.
//!
//! | type | talks to |
//! | --- | --- |
//! | [`Client`] | one server, over one connection |
//! | [`Connection`] | the same, named by a URL |
//! | [`Subscriber`] | one server, which tells it what others publish |
//! | [`ClusterClient`] | every shard of a cluster, over a connection each |
//! | [`ReadWriteClient`] | a primary that it writes to, and replicas that it reads from |
//!
//! Each has the same typed verbs (`get`, `hset`, `zrange`, ...), takes any command as words (`request`) or as a [`Call`],
//! and sends many at once (`pipeline`). With the feature `tokio` there are twins to `.await`: `AsyncClient`,
//! `AsyncSubscriber`, `AsyncClusterClient`, `AsyncPipeline`.
//!
//! What decides does no I/O: the conversation on a connection ([`protocol`]), what a subscriber is told
//! ([`Subscription`]), where a cluster's command goes (`cluster/router.rs`). The blocking and the tokio clients only carry
//! bytes for these machines, so they cannot differ in what they decide.
//!
//! ```no_run
//! use kevy_client::ClusterClient;
//!
//! let mut cc = ClusterClient::connect("127.0.0.1", 6005)?;
//! cc.set(b"user:42", b"alice")?;
//! assert_eq!(cc.get(b"user:42")?, Some(b"alice".to_vec()));
//! # Ok::<(), kevy_client::KevyError>(())
//! ```
#![forbid(unsafe_code)]

mod call;
mod client;
mod cluster;
mod connection;
mod error;
mod from_reply;
mod link;
mod options;
mod pipeline;
pub mod protocol;
mod read_write;
mod stream;
mod subscriber;
mod subscription;
#[cfg(feature = "tokio")]
mod tokio_host;
mod transaction;
mod url;
mod verbs;

pub use call::{Access, Call};
pub use client::Client;
pub use cluster::{Address, ClusterClient, ClusterOptions};
pub use connection::Connection;
pub use error::{KevyError, KevyResult, StoreError};
pub use from_reply::{FromReply, Page};
pub use kevy_proto::resp::Reply;
pub use link::MAX_KEPT_PUSHES;
pub use options::Options;
pub use pipeline::{Pipeline, WINDOW_BYTES};
pub use read_write::ReadWriteClient;
pub use subscriber::Subscriber;
pub use subscription::{MAX_QUEUED_EVENTS, PubsubEvent, Subscription};
#[cfg(feature = "tokio")]
pub use tokio_host::{AsyncClient, AsyncClusterClient, AsyncPipeline, AsyncSubscriber};
pub use transaction::{Transaction, TransactionReplies};
pub use url::DEFAULT_PORT;
pub use verbs::Aggregate;
