//! The server as its users meet it: starting and stopping, connections, the protocol, cluster answers.
#![forbid(unsafe_code)]

mod administration;
mod blocking;
mod cluster;
mod connections;
mod dump;
mod monitor;
mod notifications;
mod protocol;
mod starting;
mod tracking;

use kevy_tests::connection::Connection;

/// The value of `field` in `INFO <section>`.
fn info(connection: &mut Connection, section: &str, field: &str) -> String {
    let text = connection.ask(&["INFO", section]).text();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(name, _)| *name == field);
    let (_, value) = found.unwrap_or_else(|| panic!("no {field} in {text}"));
    value.trim_end().to_owned()
}
