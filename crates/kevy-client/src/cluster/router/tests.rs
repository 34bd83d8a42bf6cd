use std::io;

use super::*;

fn address(port: u16) -> Address {
    Address::new("h", port)
}

fn slots(ranges: &[(i64, i64, i64)]) -> Reply {
    let range = |&(first, last, port): &(i64, i64, i64)| {
        let node = Reply::Array(vec![Reply::Bulk("h".into()), Reply::Integer(port)]);
        Reply::Array(vec![Reply::Integer(first), Reply::Integer(last), node])
    };
    Reply::Array(ranges.iter().map(range).collect())
}

/// Slots below 8192 at port 1, the others at port 2.
fn router() -> Router {
    let mut router = Router::new(address(9), ClusterOptions::default());
    let reply = slots(&[(0, 8191, 1), (8192, 16383, 2)]);
    router.learn(reply, &address(9)).unwrap();
    router
}

#[allow(clippy::unnecessary_wraps, reason = "it is an outcome of an attempt")]
fn error(text: &'static str) -> Result<Reply, Failure> {
    Ok(Reply::Error(text.into()))
}

fn cut(sent: bool) -> Result<Reply, Failure> {
    let error = KevyError::Io(io::ErrorKind::ConnectionReset.into());
    Err(Failure { error, sent })
}

/// `foo` is in slot 12182.
fn set() -> Call {
    Call::write("SET").key(b"foo").arg("v")
}

fn get() -> Call {
    Call::read("GET").key(b"foo")
}

#[test]
fn commands_go_to_the_owner_of_their_key() {
    let router = router();
    assert_eq!(router.depart(&set()).target(), &address(2));
    assert_eq!(router.depart(&Call::read("PING")).target(), &address(1));
    let elsewhere = Call::read("PING").routed_by(b"foo");
    assert_eq!(router.depart(&elsewhere).target(), &address(2));
}

#[test]
fn moved_changes_the_owner_and_asks_for_the_topology() {
    let mut router = router();
    let call = set();
    let mut journey = router.depart(&call);
    assert!(
        router
            .arrive(&mut journey, error("MOVED 12182 h:3"))
            .is_none()
    );
    assert_eq!(journey.target(), &address(3));
    assert!(journey.take_refresh() && !journey.take_refresh());
    assert_eq!(router.depart(&call).target(), &address(3));
    let end = router.arrive(&mut journey, Ok(Reply::OK));
    assert!(matches!(end, Some(Ok(Reply::Simple(_)))));
}

#[test]
fn ask_holds_once() {
    let mut router = router();
    let call = set();
    let mut journey = router.depart(&call);
    assert!(
        router
            .arrive(&mut journey, error("ASK 12182 h:3"))
            .is_none()
    );
    assert!(journey.is_asking() && !journey.take_refresh());
    assert_eq!(router.depart(&call).target(), &address(2));
    assert!(
        router
            .arrive(&mut journey, error("TRYAGAIN later"))
            .is_none()
    );
    assert!(!journey.is_asking());
}

#[test]
fn the_writer_of_a_prefix_is_remembered_for_writes() {
    let mut router = router();
    let key = b"app:billing:1";
    let call = Call::write("SET").key(key).arg("v");
    let mut journey = router.depart(&call);
    let outcome = error("MISDIRECTED writer is far:7");
    assert!(router.arrive(&mut journey, outcome).is_none());
    let far = Address::new("far", 7);
    assert_eq!(journey.target(), &far);
    let sister = Call::write("DEL").key(b"app:billing:2");
    assert_eq!(router.depart(&sister).target(), &far);
    assert!(router.knows(&far));
    // What that node says of slots holds there, and not here.
    assert!(
        router
            .arrive(&mut journey, error("MOVED 12182 far:8"))
            .is_none()
    );
    assert_eq!(router.depart(&set()).target(), &address(2));
    // Reads stay; others' writes too.
    let read = Call::read("GET").key(key);
    assert_ne!(router.depart(&read).target(), &far);
    let other = Call::write("SET").key(b"app:auth:1").arg("v");
    assert_ne!(router.depart(&other).target(), &far);
    // A writer that fails is forgotten.
    let mut journey = router.depart(&sister);
    assert!(router.arrive(&mut journey, cut(false)).is_none());
    router.reroute(&mut journey);
    assert_ne!(journey.target(), &far);
}

#[test]
fn writers_are_bounded() {
    let mut router = router();
    for n in 0..=MAX_WRITERS {
        router.remember_writer(format!("{n}:").as_bytes(), address(3));
    }
    assert_eq!(router.writers.len(), 1);
}

#[test]
fn a_quiesced_prefix_is_tried_again_after_a_pause_and_a_bounded_number_of_times() {
    let mut router = router();
    let call = set();
    let mut journey = router.depart(&call);
    for _ in 0..router.options.max_pauses {
        let outcome = error("QUIESCED migrating to h:3");
        assert!(router.arrive(&mut journey, outcome).is_none());
        let pause = journey.take_pause().unwrap();
        assert!(pause <= router.options.pause && pause >= router.options.pause / 2);
        assert_eq!(journey.target(), &address(2));
    }
    let end = router.arrive(&mut journey, error("QUIESCED migrating to h:3"));
    assert!(matches!(end, Some(Ok(Reply::Error(_)))));
}

#[test]
fn redirects_are_bounded() {
    let mut router = router();
    let call = set();
    let mut journey = router.depart(&call);
    for _ in 0..router.options.max_redirects {
        assert!(
            router
                .arrive(&mut journey, error("MOVED 12182 h:3"))
                .is_none()
        );
    }
    let end = router.arrive(&mut journey, error("MOVED 12182 h:3"));
    assert!(matches!(end, Some(Ok(Reply::Error(_)))));
}

#[test]
fn only_what_cannot_have_been_carried_out_twice_is_sent_again() {
    let mut router = router();
    let (set, get) = (set(), get());
    for (call, sent, again) in [
        (&set, true, false),
        (&set, false, true),
        (&get, true, true),
        (&get, false, true),
    ] {
        let mut journey = router.depart(call);
        let end = router.arrive(&mut journey, cut(sent));
        assert_eq!(end.is_none(), again, "{call:?} {sent}");
        assert_eq!(journey.take_pause().is_some(), again);
        assert_eq!(journey.take_refresh(), again);
    }
    let mut journey = router.depart(&get);
    let error = KevyError::TimedOut;
    let end = router.arrive(&mut journey, Err(Failure { error, sent: true }));
    assert!(matches!(end, Some(Err(KevyError::TimedOut))));
}

#[test]
fn failures_are_bounded_and_commands_without_key_try_every_node() {
    let mut router = router();
    let call = Call::read("PING");
    let mut journey = router.depart(&call);
    let mut targets = vec![journey.target().clone()];
    while router.arrive(&mut journey, cut(false)).is_none() {
        router.reroute(&mut journey);
        targets.push(journey.target().clone());
    }
    assert_eq!(targets.len(), 1 + router.options.max_failures as usize);
    assert!(targets.contains(&address(1)) && targets.contains(&address(2)));
}

#[test]
fn a_cluster_that_is_down_is_looked_at_again() {
    let mut router = router();
    let call = set();
    let mut journey = router.depart(&call);
    let outcome = error("CLUSTERDOWN Hash slot not served");
    assert!(router.arrive(&mut journey, outcome).is_none());
    assert!(journey.take_pause().is_some() && journey.take_refresh());
    router.learn(slots(&[(0, 16383, 5)]), &address(9)).unwrap();
    router.reroute(&mut journey);
    assert_eq!(journey.target(), &address(5));
    assert_eq!(router.informants(), [address(5), address(9)]);
}

#[test]
fn a_pipeline_is_dealt_out_in_order() {
    let router = router();
    let keys: [&[u8]; 4] = [b"foo", b"bar", b"{foo}1", b"{bar}1"];
    let calls: Vec<_> = keys.iter().map(|key| Call::read("GET").key(key)).collect();
    let journeys: Vec<_> = calls.iter().map(|call| router.depart(call)).collect();
    let groups = by_target(&journeys);
    assert_eq!(groups, [(address(2), vec![0, 2]), (address(1), vec![1, 3])]);
}
