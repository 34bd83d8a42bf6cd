//! Faults, precedence and what settings demand of each other, from the outside: inputs in, settings or lines out.

use super::super::fault::Fault;
use super::super::{ConfigFile, Inputs, Settings};

fn file(text: &str) -> Inputs {
    let (name, text) = ("kevy.toml".into(), text.into());
    Inputs {
        file: Some(ConfigFile { name, text }),
        ..Inputs::default()
    }
}

fn environment(pairs: &[(&str, &str)]) -> Inputs {
    let owned = |(name, value): &(&str, &str)| ((*name).to_string(), (*value).to_string());
    Inputs {
        environment: pairs.iter().map(owned).collect(),
        ..Inputs::default()
    }
}

fn flags(pairs: &[(&'static str, &str)]) -> Inputs {
    let owned = |(flag, value): &(&'static str, &str)| (*flag, (*value).to_string());
    Inputs {
        flags: pairs.iter().map(owned).collect(),
        ..Inputs::default()
    }
}

/// Resolved on a machine with 4 usable cores.
fn resolved(inputs: &Inputs) -> Settings {
    Settings::resolve(inputs, 4).unwrap()
}

fn faults(inputs: &Inputs) -> Vec<String> {
    let faults = Settings::resolve(inputs, 4).expect_err("a fault");
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn nothing_set_gives_the_defaults_with_a_thread_per_core() {
    let mut expected = Settings::default();
    expected.server.threads = 4;
    assert_eq!(resolved(&Inputs::default()), expected);
    let no_core_known = Settings::resolve(&Inputs::default(), 0).unwrap();
    assert_eq!(no_core_known.server.threads, 1);
    assert_eq!(expected.accepting_shards(), 4);
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let mut inputs = file("[server]\nport = 1001\nthreads = 2\nhz = 20");
    assert_eq!(resolved(&inputs).server.port, 1001);
    inputs.environment = environment(&[("KEVY_PORT", "1002"), ("KEVY_THREADS", "3")]).environment;
    assert_eq!(resolved(&inputs).server.port, 1002);
    inputs.flags = flags(&[("--port", "1003")]).flags;
    let server = resolved(&inputs).server;
    assert_eq!((server.port, server.threads, server.hz), (1003, 3, 20));
}

#[test]
fn accept_shards_comes_from_each_source() {
    for inputs in [
        file("[server]\naccept_shards = 3"),
        environment(&[("KEVY_ACCEPT_SHARDS", "3")]),
        flags(&[("--accept-shards", "3")]),
    ] {
        assert_eq!(resolved(&inputs).accepting_shards(), 3);
    }
}

#[test]
fn every_kind_is_read_from_the_file() {
    let settings = resolved(&file(
        r#"
        [server]
        bind = ["127.0.0.1", "::1"]
        unixsocket = "/run/kevy.sock"
        unixsocketperm = 770
        maxmemory = 1048576
        proto_max_bulk_len = "64mb"
        client_output_buffer_limit = "pubsub 1mb 1k 5"
        maxmemory_policy = "allkeys-lfu"
        logformat = "json"
        tcp_backlog = 1_024
        [cluster]
        enabled = true
        port_base = 7000
        announce_host = "kevy.example"
        [persistence]
        aof = false
        "#,
    ));
    let server = &settings.server;
    assert_eq!(server.bind.len(), 2);
    assert_eq!(server.unixsocket.as_deref(), Some("/run/kevy.sock"));
    assert_eq!(server.unixsocketperm, 0o770);
    assert_eq!((server.maxmemory, server.tcp_backlog), (1 << 20, 1024));
    assert_eq!(server.proto_max_bulk_len, 64 << 20);
    assert_eq!(server.maxmemory_policy.name(), "allkeys-lfu");
    assert_eq!(server.client_output_buffer_limit.pubsub.soft_bytes, 1000);
    assert!(settings.cluster.enabled);
    assert_eq!(
        (settings.port_base(), settings.announce_port_base()),
        (7000, 7000)
    );
    let same_mode = resolved(&file("[server]\nunixsocketperm = 0o770"));
    assert_eq!(same_mode.server.unixsocketperm, 0o770);
}

#[test]
fn switches_have_the_usual_words_in_the_environment() {
    for (word, on) in [
        ("1", true),
        ("yes", true),
        ("TRUE", true),
        ("0", false),
        ("off", false),
        ("", false),
    ] {
        let settings = resolved(&environment(&[("KEVY_CLUSTER", word)]));
        assert_eq!(settings.cluster.enabled, on, "{word}");
    }
}

const FILE_FAULTS: [(&str, &str); 15] = [
    (
        "[server]\nprot = 1",
        "2: unknown key [server] prot; did you mean port?",
    ),
    (
        "[server]\n\ntcp-keepalive = 1",
        "3: unknown key [server] tcp-keepalive; did you mean tcp_keepalive?",
    ),
    (
        "[cluster]\nport = 1",
        "2: unknown key [cluster] port; port belongs below [server]",
    ),
    (
        "[persistence]\ncolour = 1",
        "2: unknown key [persistence] colour; the keys of [persistence] are aof, appendfsync, auto_aof_rewrite_percentage, auto_aof_rewrite_min_size, save",
    ),
    (
        "[srever]\nport = 1",
        "1: unknown section [srever]; did you mean [server]?",
    ),
    (
        "[colours]",
        "1: unknown section [colours]; the sections are [server], [encoding], [monitoring], [cluster], [persistence]",
    ),
    (
        "port = 1",
        "1: port stands in no section; write it below [server]",
    ),
    (
        "[server]\nport = 0",
        "2: [server] port cannot be \"0\"; give an integer from 1 to 65535",
    ),
    (
        "[server]\nport = \"6004\"",
        "2: [server] port cannot be a string; give an integer from 1 to 65535",
    ),
    (
        "[cluster]\nenabled = 1",
        "2: [cluster] enabled cannot be an integer; give true or false",
    ),
    (
        "[server]\nmaxmemory = 1.5",
        "2: [server] maxmemory cannot be a float; give bytes, a size such as 64mb or 1gb",
    ),
    (
        "[server]\nbind = \"foo\"",
        "2: [server] bind cannot be \"foo\": not an IP address; \
         give IP addresses of this machine, localhost, * or ::*",
    ),
    (
        "[server]\nproto_max_bulk_len = \"1k\"",
        "2: [server] proto_max_bulk_len cannot be \"1k\"; \
         give bytes, a size such as 64mb or 1gb, at least 1mb",
    ),
    (
        "[server]\nloglevel = \"info\"",
        "2: [server] loglevel cannot be \"info\"; give one of debug, verbose, notice, warning",
    ),
    (
        "[persistence]\nappendfsync = \"sometimes\"",
        "2: [persistence] appendfsync cannot be \"sometimes\"; give one of always, everysec, no",
    ),
];

#[test]
fn a_fault_in_the_file_names_its_line_and_what_to_do() {
    for (text, line) in FILE_FAULTS {
        assert_eq!(faults(&file(text)), [format!("kevy.toml:{line}")], "{text}");
    }
}

#[test]
fn wrong_types_within_a_list_or_for_a_section_are_faults() {
    assert_eq!(faults(&file("[server]\nbind = [1]")).len(), 1);
    assert_eq!(faults(&file("server = 1")).len(), 1);
    assert_eq!(faults(&file("[[server]]\nport = 1")).len(), 1);
    assert_eq!(faults(&file("[server.port]\nx = 1")).len(), 1);
}

#[test]
fn broken_toml_is_reported_once_per_line_and_hides_no_other_fault() {
    let lines = faults(&file("[server]\nport = = 3\nhzz = 5\nmaxclients 7\n"));
    let starts: Vec<&str> = lines.iter().map(|line| &line[..13]).collect();
    assert_eq!(
        starts,
        ["kevy.toml:2: ", "kevy.toml:3: ", "kevy.toml:4: "],
        "{lines:#?}"
    );
    let twice = faults(&file("[server]\nport = 1\nport = 2"));
    assert!(
        twice[0].starts_with("kevy.toml:3: not TOML: duplicate key"),
        "{twice:?}"
    );
}

#[test]
fn all_faults_of_all_sources_come_at_once() {
    let mut inputs = file("[server]\nport = 70000\nmaxclient = 5");
    inputs.environment = environment(&[("KEVY_PROT", "1"), ("KEVY_THREADS", "many")]).environment;
    inputs.flags = flags(&[("--port", "1003"), ("--maxclients", "all")]).flags;
    assert_eq!(
        faults(&inputs),
        [
            "kevy.toml:2: [server] port cannot be \"70000\"; give an integer from 1 to 65535",
            "kevy.toml:3: unknown key [server] maxclient; did you mean maxclients?",
            "KEVY_PROT: unknown environment variable; did you mean KEVY_PORT?",
            "KEVY_THREADS: [server] threads cannot be \"many\"; give an integer from 0 to 1024",
            "--maxclients: [server] maxclients cannot be \"all\"; give an integer from 1 to 4294967295",
        ]
    );
}

#[test]
fn accept_shards_must_not_exceed_threads() {
    assert_eq!(
        faults(&flags(&[("--accept-shards", "5")])),
        [
            "--accept-shards: [server] accept_shards = 5 is more than the 4 threads; \
          give an integer from 1 to 4, or more threads"
        ]
    );
    assert_eq!(
        faults(&flags(&[("--accept-shards", "0")])),
        ["--accept-shards: [server] accept_shards cannot be \"0\"; \
          give an integer from 1 to the number of threads"]
    );
    let all = flags(&[("--threads", "10"), ("--accept-shards", "10")]);
    assert_eq!(resolved(&all).accepting_shards(), 10);
}

#[test]
fn a_faulty_setting_is_not_blamed_for_what_it_is_bound_to() {
    let inputs = flags(&[("--threads", "x"), ("--accept-shards", "9")]);
    assert_eq!(faults(&inputs).len(), 1);
}

#[test]
fn cluster_ports_must_exist_and_leave_the_main_port_alone() {
    let cluster = |text: &str| {
        file(&format!(
            "[server]\nport = 7003\n[cluster]\nenabled = true\n{text}"
        ))
    };
    assert_eq!(resolved(&cluster("")).port_base(), 7003);
    assert_eq!(
        faults(&cluster("port_base = 7000")),
        [
            "kevy.toml:5: port 7003 would be shard 2's too, as [cluster] port_base is 7000; \
          move port or port_base: the shards take 7001 to 7004"
        ]
    );
    assert_eq!(
        faults(&cluster("port_base = 65534")),
        [
            "kevy.toml:5: [cluster] port_base = 65534 puts the last of 4 shards on port 65538; \
          give a base of at most 65531, or fewer threads"
        ]
    );
    assert_eq!(faults(&cluster("announce_port_base = 65532")).len(), 1);
    let last = resolved(&cluster("announce_port_base = 65531"));
    assert_eq!(last.announce_port_base(), 65531);
}

#[test]
fn the_environment_is_searched_for_typing_errors_but_not_for_other_peoples_variables() {
    let quiet = environment(&[
        ("PATH", "/bin"),
        ("KEVY_CONFIG", "kevy.toml"),
        ("KEVY_TEST_BINARY", "x"),
        ("KEVY_BLESS", "1"),
        ("KEVY_SERVICE_HOST", "10.0.0.1"),
        ("KEVY_SERVICE_PORT", "6004"),
        ("KEVY_PORT", "tcp://10.0.0.1:6004"),
        ("KEVY_PORT_6004_TCP_ADDR", "10.0.0.1"),
    ]);
    assert_eq!(resolved(&quiet), resolved(&Inputs::default()));
    assert_eq!(
        faults(&environment(&[
            ("KEVY_PORT_BASE", "1"),
            ("KEVY_CONFIGS", "1")
        ]))
        .len(),
        2
    );
    assert_eq!(
        faults(&environment(&[("KEVY_COLOUR", "red")])),
        ["KEVY_COLOUR: unknown environment variable; \
          unset it; docs/CONFIGURATION.md lists the variables"]
    );
}

#[test]
fn there_is_a_log_unless_it_is_switched_off() {
    assert!(resolved(&flags(&[])).persistence.aof);
    assert!(!resolved(&flags(&[("--no-aof", "false")])).persistence.aof);
    assert!(!resolved(&environment(&[("KEVY_AOF", "0")])).persistence.aof);
}

#[test]
fn no_text_makes_the_reader_panic() {
    let pieces = [
        "[server]", "port", "=", "\n", "\"", "[", "]", "{", "}", "0o9", "\u{e9}", "\u{0}", "'''",
        ".", "bind", "1",
    ];
    let mut state = 1u64;
    for _ in 0..2000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push_str(pieces[(state >> 60) as usize]);
        }
        let faults = Settings::resolve(&file(&text), 4).err().unwrap_or_default();
        let one_line = |fault: &Fault| !fault.to_string().contains('\n');
        assert!(faults.iter().all(one_line), "{text:?}");
    }
}
