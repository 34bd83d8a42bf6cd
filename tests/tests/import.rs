//! Keys come from Redis and go back: its RDB files of every type and encoding, its append-only directories and files, and
//! the RDB files that kevy exports. redis-server writes and reads them; each key is compared by commands.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use kevy_tests::clients::tool;
use kevy_tests::connection::Connection;
use kevy_tests::contents::{State, assert_same, fill, run, state};
use kevy_tests::process::{Signal, poll};
use kevy_tests::reply::Reply;
use kevy_tests::server::{Ended, Redis, Spec, run_kevy};
use tempfile::TempDir;

fn directory() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

fn text(path: &Path) -> String {
    path.to_str()
        .expect("a path of plain characters")
        .to_owned()
}

// ---- encodings -------------------------------------------------------------------------------------------------------

/// Sets Redis's limits so that the next values are in other encodings.
fn configure(connection: &mut Connection, limits: &[(&str, &str)]) {
    for (name, value) in limits {
        assert_eq!(
            connection.ask(&["CONFIG", "SET", name, value]),
            Reply::ok(),
            "{name}"
        );
    }
}

const TABLES: &[(&str, &str)] = &[
    ("list-max-listpack-size", "2"),
    ("set-max-intset-entries", "0"),
    ("hash-max-listpack-entries", "0"),
    ("zset-max-listpack-entries", "0"),
    ("stream-node-max-entries", "2"),
];

const COMPACT: &[(&str, &str)] = &[
    ("list-max-listpack-size", "-5"),
    ("set-max-intset-entries", "100000"),
    ("hash-max-listpack-entries", "100000"),
    ("hash-max-listpack-value", "100000"),
    ("zset-max-listpack-entries", "100000"),
    ("stream-node-max-entries", "0"),
];

/// All that Redis 7.0 has.
const ENCODINGS: [&str; 9] = [
    "embstr",
    "hashtable",
    "int",
    "intset",
    "listpack",
    "quicklist",
    "raw",
    "skiplist",
    "stream",
];

/// In which encodings the keys are.
fn encodings(connection: &mut Connection, keys: &State) -> String {
    let mut found = BTreeSet::new();
    for key in keys.keys() {
        let reply = connection.ask(&[&b"OBJECT"[..], b"ENCODING", key]);
        let Reply::Bulk(name) = reply else {
            panic!("{reply:?} is no encoding");
        };
        found.insert(String::from_utf8_lossy(&name).into_owned());
    }
    found.into_iter().collect::<Vec<_>>().join(" ")
}

// ---- steps -----------------------------------------------------------------------------------------------------------

fn kevy(arguments: &[&str]) -> Ended {
    run_kevy(arguments, &[])
}

fn succeeds(arguments: &[&str]) -> Ended {
    let ended = kevy(arguments);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    ended
}

/// Imports `source` for `threads` shards; what a kevy that is started with it shows, and what the import said.
fn imported(source: &Path, threads: u16) -> (State, String) {
    let data = directory();
    let (source, dir, count) = (text(source), text(data.path()), threads.to_string());
    let arguments = ["import", &source, "--dir", &dir, "--threads", &count];
    let said = succeeds(&arguments).stdout;
    let server = Spec::threads(threads).durable().start_in(data);
    (state(&mut server.connect()), said)
}

/// What the Redis shows that is started with these files.
fn reloaded(directory: TempDir, arguments: &[&str]) -> (State, TempDir) {
    let redis = Redis::start_in(directory, arguments);
    let shown = state(&mut redis.connect());
    (shown, redis.stop())
}

fn await_rewrite(connection: &mut Connection) {
    let is_over = || {
        let Reply::Bulk(info) = connection.run("INFO persistence") else {
            panic!("INFO is a text");
        };
        let info = String::from_utf8_lossy(&info).into_owned();
        let quiet = ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"];
        quiet.iter().all(|line| info.contains(line)).then_some(())
    };
    poll(is_over).expect("the rewrite ends");
}

// ---- RDB files -------------------------------------------------------------------------------------------------------

fn an_rdb_file_is_imported(compression: &str, threads: u16) {
    let redis = Redis::start_in(directory(), &["--rdbcompression", compression]);
    let mut connection = redis.connect();
    fill(&mut connection, "usual:", 700);
    configure(&mut connection, TABLES);
    fill(&mut connection, "tables:", 300);
    configure(&mut connection, COMPACT);
    fill(&mut connection, "compact:", 700);
    run(&mut connection, "SAVE");
    let expected = state(&mut connection);
    assert_eq!(encodings(&mut connection, &expected), ENCODINGS.join(" "));
    let files = redis.stop();
    let (found, said) = imported(&files.path().join("dump.rdb"), threads);
    assert_same(&found, &expected);
    assert_eq!(said, format!("imported {} keys\n", expected.len()));
}

#[test]
fn an_rdb_file_with_every_type_and_encoding_is_imported() {
    an_rdb_file_is_imported("yes", 3);
}

#[test]
fn an_rdb_file_without_compression_is_imported() {
    an_rdb_file_is_imported("no", 1);
}

#[test]
fn redis_loads_what_kevy_exports() {
    let server = Spec::threads(2).durable().start();
    let mut connection = server.connect();
    fill(&mut connection, "kevy:", 700);
    run(&mut connection, "SET gone v PX 1");
    let (status, data) = server.stop(Signal::TERM);
    assert!(status.success(), "{status}");
    let files = directory();
    let path = files.path().join("export.rdb");
    let (rdb, dir) = (text(&path), text(data.path()));
    let said = succeeds(&["export", "--rdb", &rdb, "--dir", &dir]).stdout;
    let server = Spec::threads(2).durable().start_in(data);
    let expected = state(&mut server.connect());
    let count = expected.len();
    assert_eq!(
        said,
        format!("exported {count} keys to {rdb} (RDB version 10)\n")
    );

    let check = Command::new(tool("redis-check-rdb"))
        .arg(&path)
        .output()
        .expect("it runs");
    let words = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(
        check.status.success() && words.contains("RDB looks OK"),
        "{words}"
    );
    assert!(words.contains(&format!("{count} keys read")), "{words}");
    let (found, files) = reloaded(files, &["--dbfilename", "export.rdb"]);
    assert_same(&found, &expected);
    // And back again.
    let (again, _) = imported(&files.path().join("export.rdb"), 1);
    assert_same(&again, &expected);
}

#[test]
fn deadlines_of_fields_come_back() {
    let server = Spec::threads(1).durable().start();
    let mut connection = server.connect();
    for line in [
        "HSET hash a 1 b 2 c 3",
        "HPEXPIREAT hash 4000000000123 FIELDS 2 a b",
    ] {
        run(&mut connection, line);
    }
    let (_, data) = server.stop(Signal::TERM);
    let files = directory();
    let rdb = text(&files.path().join("export.rdb"));
    let said = succeeds(&["export", "--rdb", &rdb, "--dir", &text(data.path())]).stdout;
    assert_eq!(said, format!("exported 1 keys to {rdb} (RDB version 12)\n"));
    let data = directory();
    succeeds(&[
        "import",
        &rdb,
        "--dir",
        &text(data.path()),
        "--threads",
        "2",
    ]);
    let server = Spec::threads(2).durable().start_in(data);
    let found = server.connect().run("HPEXPIRETIME hash FIELDS 3 a b c");
    let at = Reply::Integer(4_000_000_000_123);
    assert_eq!(
        found,
        Reply::Array(vec![at.clone(), at, Reply::Integer(-1)])
    );
}

// ---- append-only files -----------------------------------------------------------------------------------------------

/// Changes of many kinds, some of them over several keys and in transactions.
fn change(connection: &mut Connection) {
    fill(connection, "later:", 300);
    for line in [
        "MULTI",
        "SET m 1",
        "INCR m",
        "RENAME later:string renamed",
        "DEL first:string",
        "EXEC",
        "SET volatile v EX 100000",
        "GETEX volatile PERSIST",
        "EXPIRE later:number 0",
        "SPOP later:300:set 5",
        "LMOVE later:300:list first:300:list LEFT RIGHT",
        "SUNIONSTORE union first:3:set later:300:set",
        "SORT first:300:shorts ALPHA STORE sorted",
        "XAUTOCLAIM later:300:stream g carol 0 0 COUNT 5",
        "XTRIM first:300:stream MAXLEN ~ 10",
        "INCRBYFLOAT float 1.5",
        "LMPOP 1 later:3:list LEFT COUNT 2",
        "PUBLISH channel message",
    ] {
        run(connection, line);
    }
}

fn an_append_only_directory_is_imported(preamble: &str, base: &str) {
    let arguments = [
        "--appendonly",
        "yes",
        "--aof-use-rdb-preamble",
        preamble,
        "--aof-timestamp-enabled",
        "yes",
    ];
    let redis = Redis::start_in(directory(), &arguments);
    let mut connection = redis.connect();
    fill(&mut connection, "first:", 300);
    run(&mut connection, "BGREWRITEAOF");
    await_rewrite(&mut connection);
    change(&mut connection);
    let files = redis.stop();
    // What consumer groups have read is not all in such files: the measure is what Redis itself reads there.
    let (expected, files) = reloaded(files, &arguments);
    let log = files.path().join("appendonlydir");
    let (found, _) = imported(&log, 3);
    assert_same(&found, &expected);

    // As it was before Redis 7: one file, beginning with an RDB file or not.
    let single = files.path().join("single.aof");
    let parts = [base, "appendonly.aof.2.incr.aof"];
    let parts = parts.map(|name| fs::read(log.join(name)).expect("Redis has written it"));
    fs::write(&single, parts.concat()).expect("the directory is writable");
    let (found, _) = imported(&single, 1);
    assert_same(&found, &expected);

    // A tail that was cut off is left out, and told of.
    let last = log.join("appendonly.aof.2.incr.aof");
    let whole = fs::read(&last).expect("Redis has written it");
    let torn = [
        &whole[..],
        b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nm\r\n$1\r\n9\r\n",
    ]
    .concat();
    fs::write(&last, torn).expect("the directory is writable");
    let (found, said) = imported(&log, 2);
    assert_same(&found, &expected);
    assert!(
        said.contains("left out: 42 bytes of an unfinished"),
        "{said}"
    );
}

#[test]
fn an_append_only_directory_with_an_rdb_base_is_imported() {
    an_append_only_directory_is_imported("yes", "appendonly.aof.2.base.rdb");
}

#[test]
fn an_append_only_directory_of_requests_is_imported() {
    an_append_only_directory_is_imported("no", "appendonly.aof.2.base.aof");
}

// ---- what is refused -------------------------------------------------------------------------------------------------

#[test]
fn other_databases_are_refused_unless_one_is_chosen() {
    let redis = Redis::start_in(directory(), &["--databases", "16"]);
    let mut connection = redis.connect();
    for line in ["SET zero 0", "SELECT 5", "SET five 5", "SET six 6"] {
        run(&mut connection, line);
    }
    run(&mut connection, "SAVE");
    let files = redis.stop();
    let (source, data) = (text(&files.path().join("dump.rdb")), directory());
    let dir = text(data.path());
    let refused = kevy(&["import", &source, "--dir", &dir]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("database 5: 2 keys"),
        "{}",
        refused.stderr
    );
    let chosen = succeeds(&["import", &source, "--dir", &dir, "--database", "5"]);
    assert_eq!(
        chosen.stdout,
        "imported 2 keys\nleft out: database 0: 1 keys\n"
    );
}

#[test]
fn nothing_is_overwritten() {
    let redis = Redis::start();
    run(&mut redis.connect(), "SET key value");
    run(&mut redis.connect(), "SAVE");
    let files = redis.stop();
    let source = text(&files.path().join("dump.rdb"));
    let data = directory();
    let dir = text(data.path());
    let into = ["import", &source, "--dir", &dir, "--threads", "1"];
    succeeds(&into);
    let again = kevy(&into);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("is not empty"), "{}", again.stderr);
    let export = kevy(&["export", "--rdb", &source, "--dir", &dir]);
    assert_eq!(export.code, Some(1));
    assert!(
        export.stderr.contains("exists already"),
        "{}",
        export.stderr
    );
    let nothing = directory();
    let export = kevy(&["export", "--rdb", "new.rdb", "--dir", &text(nothing.path())]);
    assert_eq!(export.code, Some(1));
    assert!(
        export.stderr.contains("holds no data of kevy"),
        "{}",
        export.stderr
    );
}

#[test]
fn what_cannot_be_read_leaves_no_data_directory() {
    let redis = Redis::start();
    fill(&mut redis.connect(), "", 10);
    run(&mut redis.connect(), "SAVE");
    let files = redis.stop();
    let path = files.path().join("dump.rdb");
    let whole = fs::read(&path).expect("Redis has written it");
    let mut changed = whole.clone();
    changed[whole.len() - 12] ^= 1;
    for (bytes, part) in [
        (&whole[..whole.len() / 2], "the file ends in the middle"),
        (&changed[..], "dump.rdb: at byte "),
        (b"REDIS0013\xff", "RDB version 13: kevy reads 6 to 12"),
        (b"something else", "this is no RDB file"),
    ] {
        fs::write(&path, bytes).expect("the directory is writable");
        let data = directory();
        let ended = kevy(&["import", &text(&path), "--dir", &text(data.path())]);
        assert_eq!(ended.code, Some(1), "{part}");
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
        let left = data.path().read_dir().expect("it is there");
        let left: Vec<_> = left
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(left, ["kevy.lock"]);
    }
}

#[test]
fn a_wrong_command_line_exits_with_two() {
    for arguments in [
        &["import"][..],
        &["import", "dump.rdb"],
        &["import", "dump.rdb", "--dir", "d", "--threads", "0"],
        &["import", "dump.rdb", "--dir", "d", "--database", "x"],
        &["export", "--dir", "d"],
        &["export", "--rdb", "f"],
        &["--dir", "d", "import", "dump.rdb", "--dir", "e"],
    ] {
        assert_eq!(kevy(arguments).code, Some(2), "{arguments:?}");
    }
    let missing = kevy(&["import", "missing.rdb", "--dir", "d"]);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.stderr.contains("cannot read missing.rdb"),
        "{}",
        missing.stderr
    );
}
