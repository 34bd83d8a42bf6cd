//! A cluster's client: what it does about redirects, waits and failures.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use kevy_client::{Address, ClusterClient, ClusterOptions, KevyError, Reply};

use crate::fake::{Fake, Step, line, slots};

/// Waits so short that a test does not feel them.
pub(crate) fn quick() -> ClusterOptions {
    let wait = Duration::from_micros(10);
    ClusterOptions::default()
        .with_pauses(wait, 3)
        .with_backoff(wait, wait, 3)
}

fn connect(server: &Fake) -> ClusterClient {
    ClusterClient::connect_with("127.0.0.1", server.port(), quick()).unwrap()
}

/// A node that owns every slot; its script may ask for its own address.
pub(crate) fn alone(mut script: impl FnMut(&str, &Address) -> Step + Send + 'static) -> Fake {
    let own = Arc::new(OnceLock::new());
    let known = Arc::clone(&own);
    let server = Fake::start(move |request| {
        let own: &Address = known.wait();
        match request {
            "CLUSTER SLOTS" => slots(&[(0, 16383, own)]),
            other => script(other, own),
        }
    });
    own.set(server.address()).unwrap();
    server
}

/// A node that answers everything with its name.
fn named(name: &'static str) -> Fake {
    alone(move |request, _| match request.split(' ').next() {
        Some("GET") => line(format!("+{name}")),
        _ => line("+OK"),
    })
}

#[test]
fn moved_is_followed_and_the_new_topology_asked_for_once() {
    let new = named("new");
    let address = new.address();
    let old = Fake::start({
        let moved = Mutex::new(false);
        let own = OnceLock::<Address>::new();
        move |request| match request {
            "CLUSTER SLOTS" if *moved.lock().unwrap() => slots(&[(0, 16383, &address)]),
            // Before the move it is alone; its own address is the seed's, so the host may be left out.
            "CLUSTER SLOTS" => Step::Send(own_slots(&own)),
            port if port.starts_with("PORT ") => {
                own.set(Address::new("", port[5..].parse().unwrap()))
                    .unwrap();
                line("+OK")
            }
            _ => {
                *moved.lock().unwrap() = true;
                line(format!("-MOVED 12182 {address}"))
            }
        }
    });
    tell_port(&old);
    let mut client = connect(&old);
    assert_eq!(client.shard_count(), 1);
    assert_eq!(client.get(b"foo").unwrap(), Some(b"new".to_vec()));
    assert_eq!(client.nodes(), [new.address()]);
    assert_eq!(client.get(b"bar").unwrap(), Some(b"new".to_vec()));
    assert_eq!(old.seen()[1..], ["GET foo"]);
    assert_eq!(old.topologies(), 2);
}

fn own_slots(own: &OnceLock<Address>) -> String {
    let port = own.wait().port();
    format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:{port}\r\n")
}

fn tell_port(server: &Fake) {
    let mut client = kevy_client::Client::connect("127.0.0.1", server.port()).unwrap();
    client
        .request(&["PORT", &server.port().to_string()])
        .unwrap();
}

#[test]
fn ask_is_followed_once_with_asking() {
    let importing = named("importing");
    let address = importing.address();
    let mut asked = false;
    let owner = alone(move |_, _| {
        if std::mem::replace(&mut asked, true) {
            line("+owner")
        } else {
            line(format!("-ASK 12182 {address}"))
        }
    });
    let mut client = connect(&owner);
    assert_eq!(client.get(b"foo").unwrap(), Some(b"importing".to_vec()));
    assert_eq!(importing.seen(), ["ASKING", "GET foo"]);
    assert_eq!(client.get(b"foo").unwrap(), Some(b"owner".to_vec()));
    assert_eq!(owner.topologies(), 1);
}

#[test]
fn the_writer_of_a_prefix_is_remembered() {
    let writer = named("writer");
    let address = writer.address();
    let other = alone(move |request, _| {
        if request.starts_with("SET app:billing:") {
            line(format!("-MISDIRECTED writer is {address}"))
        } else {
            line("+other")
        }
    });
    let mut client = connect(&other);
    client.set(b"app:billing:1", b"v").unwrap();
    client.set(b"app:billing:2", b"v").unwrap();
    assert_eq!(
        client.get(b"app:billing:1").unwrap(),
        Some(b"other".to_vec())
    );
    assert_eq!(other.seen(), ["SET app:billing:1 v", "GET app:billing:1"]);
    assert_eq!(
        writer.seen(),
        ["SET app:billing:1 v", "SET app:billing:2 v"]
    );
}

#[test]
fn what_is_not_ready_is_asked_again() {
    for reason in [
        "QUIESCED migrating to 127.0.0.1:1",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "LOADING Redis is loading the dataset in memory",
        "CLUSTERDOWN The cluster is down",
    ] {
        let mut left = 2;
        let server = alone(move |_, _| {
            if left == 0 {
                return line("+OK");
            }
            left -= 1;
            line(format!("-{reason}"))
        });
        connect(&server).set(b"k", b"v").unwrap();
        assert_eq!(server.seen(), ["SET k v"; 3], "{reason}");
    }
}

#[test]
fn patience_and_redirects_end() {
    let server = alone(|_, _| line("-QUIESCED migrating to 127.0.0.1:1"));
    let error = connect(&server).set(b"k", b"v").unwrap_err();
    assert!(error.to_string().starts_with("QUIESCED"), "{error}");
    assert_eq!(server.seen().len(), 4);

    let server = alone(|_, own| line(format!("-MOVED 12182 {own}")));
    let error = connect(&server).get(b"foo").unwrap_err();
    assert!(error.to_string().starts_with("MOVED"), "{error}");
    assert_eq!(server.seen().len(), 17);
}

#[test]
fn a_read_whose_connection_was_cut_is_asked_again_and_a_write_is_not() {
    let mut cut = false;
    let server = alone(move |_, _| {
        cut = !cut;
        if cut { Step::Cut } else { line("+1") }
    });
    let mut client = connect(&server);
    assert_eq!(client.get(b"k").unwrap(), Some(b"1".to_vec()));
    assert!(client.set(b"k", b"v").is_err());
    // The next command connects anew.
    assert_eq!(client.get(b"k").unwrap(), Some(b"1".to_vec()));
    assert_eq!(server.seen(), ["GET k", "GET k", "SET k v", "GET k"]);
}

#[test]
fn a_server_that_never_comes_back_is_given_up() {
    let server = alone(|_, _| Step::Cut);
    let error = connect(&server).get(b"k").unwrap_err();
    assert!(
        matches!(error, KevyError::Closed | KevyError::Io(_)),
        "{error:?}"
    );
    assert_eq!(server.seen().len(), 4, "the first time and three more");
}

#[test]
fn a_pipeline_cut_in_the_middle_tells_of_writes_and_asks_reads_again() {
    let mut cuts = 1;
    let server = alone(move |request, _| {
        if request == "GET k3" && cuts > 0 {
            cuts -= 1;
            return Step::Cut;
        }
        line(format!("+{request}"))
    });
    let mut client = connect(&server);
    let keys: Vec<_> = (0..6).map(|n| format!("k{n}")).collect();
    let gets = |p: &mut kevy_client::Pipeline| {
        keys.iter().for_each(|key| {
            p.call(kevy_client::Call::read("GET").key(key.as_bytes()));
        });
    };
    let replies = client.pipeline(gets).unwrap();
    let expected = keys
        .iter()
        .map(|key| Reply::Simple(format!("GET {key}").into()));
    assert_eq!(replies, expected.collect::<Vec<_>>());

    let server = alone(|request, _| match request {
        "SET k1 v" => Step::Cut,
        _ => line("+OK"),
    });
    let mut client = connect(&server);
    let sets = |p: &mut kevy_client::Pipeline| {
        keys.iter().for_each(|key| {
            p.cmd(&["SET", key, "v"]);
        });
    };
    assert!(client.pipeline(sets).is_err());
    assert_eq!(server.seen(), ["SET k0 v", "SET k1 v"], "no write twice");
    client.set(b"k0", b"v").unwrap();
}

#[test]
fn a_pipeline_s_redirected_commands_arrive_in_order() {
    let new = named("new");
    let address = new.address();
    let old = alone(move |request, _| {
        if request.ends_with("foo v") {
            line(format!("-MISDIRECTED writer is {address}"))
        } else {
            line("+old")
        }
    });
    let mut client = connect(&old);
    let replies = client
        .pipeline(|p| {
            p.cmd(&["SET", "foo", "v"])
                .cmd(&["SET", "bar", "v"])
                .cmd(&["APPEND", "foo", "v"]);
        })
        .unwrap();
    let simple = |text: &'static str| Reply::Simple(text.into());
    assert_eq!(replies, [simple("OK"), simple("old"), simple("OK")]);
    assert_eq!(new.seen(), ["SET foo v", "APPEND foo v"]);
}

#[test]
fn keys_of_many_slots_are_split_where_the_server_refuses_them() {
    let server = alone(|request, _| match request {
        "MGET a b" | "MSET a 1 b 2" => {
            line("-CROSSSLOT Keys in request don't hash to the same slot")
        }
        "MGET a" => Step::Send("*1\r\n$1\r\n1\r\n".to_owned()),
        "MGET b" => Step::Send("*1\r\n$-1\r\n".to_owned()),
        "DEL a" | "EXISTS a" => line(":1"),
        "DEL b" => line(":0"),
        _ => line("+OK"),
    });
    let mut client = connect(&server);
    assert_eq!(
        client.mget(&[b"a", b"b"]).unwrap(),
        [Some(b"1".to_vec()), None]
    );
    client.mset(&[(b"a", b"1"), (b"b", b"2")]).unwrap();
    assert_eq!(client.del(&[b"a", b"b", b"a"]).unwrap(), 2);
    assert_eq!(client.exists(&[b"a", b"a"]).unwrap(), 2);
    assert_eq!(client.del(&[]).unwrap(), 0);
    let seen = server.seen();
    assert_eq!(seen[3..6], ["MSET a 1 b 2", "SET a 1", "SET b 2"]);
}

#[test]
fn a_server_without_cluster_mode_is_an_error_at_once() {
    let server = Fake::start(|_| line("-ERR This instance has cluster support disabled"));
    let refused = ClusterClient::connect("127.0.0.1", server.port());
    assert!(matches!(refused, Err(KevyError::Protocol(_))));
}
