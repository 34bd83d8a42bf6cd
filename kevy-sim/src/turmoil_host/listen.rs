//! The doors of a simulated node: the main port, whose connections go to one of the accepting shards as the seed says, and one
//! port for each shard.

use super::Process;
use super::connection::Arrival;
use kevy_node::host::{Door, Peer};
use kevy_proto::ids::ShardId;
use kevy_proto::rng::Rng;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use tokio::task::spawn_local;
use turmoil::net::{TcpListener, TcpStream};

/// The port that serves every key.
pub const MAIN_PORT: u16 = 6004;

/// The port of one shard in cluster mode.
pub fn shard_port(shard: ShardId) -> u16 {
    MAIN_PORT + 1 + shard.0
}

/// Opens all doors of a node.
pub(crate) async fn open(process: &Rc<Process>) -> io::Result<()> {
    accept_at(process, MAIN_PORT, Door::Main).await?;
    for shard in (0..process.options.shards).map(ShardId) {
        accept_at(process, shard_port(shard), Door::Shard(shard)).await?;
    }
    Ok(())
}

async fn accept_at(process: &Rc<Process>, port: u16, door: Door) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
    let rng = Rng::from_seed(process.options.seed ^ u64::from(port) << 40);
    let acceptor = spawn_local(accept(Rc::clone(process), listener, door, rng));
    process.acceptors.borrow_mut().push(acceptor.abort_handle());
    Ok(())
}

async fn accept(process: Rc<Process>, listener: TcpListener, door: Door, mut rng: Rng) {
    while let Ok((stream, address)) = listener.accept().await {
        let shard = match door {
            Door::Shard(shard) => shard,
            Door::Main | Door::Unix => {
                ShardId(rng.below(process.options.accept_shards.into()) as u16)
            }
        };
        process.connected.set(process.connected.get() + 1);
        let peer = peer(&process, &stream, address, door);
        process.inboxes[shard.index()].arrive(Arrival { stream, peer });
    }
}

fn peer(process: &Process, stream: &TcpStream, address: SocketAddr, door: Door) -> Peer {
    let local = stream.local_addr().ok();
    Peer {
        door,
        address: address.to_string(),
        local_address: local.map(|local| local.to_string()).unwrap_or_default(),
        local_ip: local.map(|local| local.ip()),
        connected_total: process.connected.get(),
    }
}
