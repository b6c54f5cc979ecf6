//! The security checks that touch the command line, by their numbers: 16 (what comes from the store can't steer a terminal),
//! 18 (nor end a command), 20 (the documented user is enough), 22 (no password and no payload where it doesn't belong), 23
//! (secrets from environment or file, changes written down).

use std::collections::BTreeMap;

use delayq::{JobId, RawJob};
use delayq_redis_fixture::RedisServer;

use crate::kit::{
    Folder, HOUR, ORDERS, Ran, Running, bury, documented_user, ended, eventually, ids, listed, program, run,
    server_and_client, shown, texts, waiting,
};

const SECRET: &str = "s3cret-password";
const HOSTILE: &str = "\x1b]0;owned\x07\x1b[2J\u{9b}31m\r\n\u{202e}txt\u{200b}";

/// No character that a terminal would obey, but the ends of our own lines.
#[track_caller]
fn is_inert(ran: &Ran) {
    for c in ran.out.chars().chain(ran.err.chars()) {
        let hostile = (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
        assert!(!hostile, "{c:?} in {ran:#?}");
    }
}

#[tokio::test]
async fn s16_what_comes_from_the_store_is_inert_in_tables_and_exact_in_json() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let dead = bury(&client, &[HOSTILE]).await[0].to_string();
    let payload = format!("raw {HOSTILE}");
    let job = RawJob::new("a", 1, payload.clone()).unique(HOSTILE).at(HOUR);
    let waits = client.send_raw(ORDERS, vec![job]).await.remove(0).unwrap().id().to_string();
    let worker = Running::start(&client, "worker \u{202e}txt\u{200b}");
    let holds = client.enqueue().send(crate::kit::charge("wait")).await.unwrap().id().to_string();
    // A foreign hand's queue among those in use.
    server.command(&["ZADD", "delayq:queues", "0", &format!("zz{HOSTILE}")]).unwrap();
    eventually("the worker says who it is", || async {
        let workers = client.workers(ORDERS).await.unwrap();
        workers.iter().any(|worker| worker.name.is_some() && worker.running == 1).then_some(())
    })
    .await;
    for args in [
        &["job", &dead, "--queue", ORDERS][..],
        &["job", &waits, "--queue", ORDERS],
        &["job", &holds, "--queue", ORDERS],
        &["jobs", "--queue", ORDERS],
        &["dead", "list", "--queue", ORDERS],
        &["dead", "show", &dead, "--queue", ORDERS],
        &["workers", ORDERS, "--running"],
        &["queues", ORDERS],
        &["dead", "list", "--queue", ORDERS, "--error", HOSTILE],
    ] {
        let ran = run(&url, args).await;
        ran.ok();
        is_inert(&ran);
    }
    // What can't be a name is left out of the list, and refused where it is given, without its escapes.
    let queues = run(&url, &["queues", "--json"]).await;
    assert_eq!(queues.json()["queue"], ORDERS, "the others are shown");
    is_inert(&queues);
    for args in [
        &["job", HOSTILE][..],
        &["jobs", "--queue", HOSTILE],
        &["enqueue", HOSTILE, "{}"],
        &["enqueue", "a", "{}", "--queue", HOSTILE],
    ] {
        let ran = run(&url, args).await;
        assert!(matches!(ran.code, 1 | 2), "{ran:#?}");
        is_inert(&ran);
    }
    let json = run(&url, &["job", &dead, "--queue", ORDERS, "--json"]).await.json();
    assert!(json["failure"]["text"].as_str().unwrap().contains(HOSTILE), "{json}");
    let json = run(&url, &["job", &waits, "--queue", ORDERS, "--json"]).await.json();
    assert_eq!(json["unique"], HOSTILE);
    let found = run(&url, &["dead", "list", "--queue", ORDERS, "--error", HOSTILE, "--json"]).await;
    assert_eq!(ids(&found.json_lines()), texts(&[dead.parse().unwrap()]), "a filter takes the text as it is");
    worker.stop().await;
}

#[tokio::test]
async fn s16_names_with_control_characters_are_refused_with_nothing_written() {
    let (server, _client) = server_and_client().await;
    for name in ["a\r\nb", "a\nb", "x}:dead", "{}", "*?["] {
        run(&server.url(), &["enqueue", name, "{}"]).await.fails(2, "not a name");
        run(&server.url(), &["enqueue", "a", "{}", "--queue", name]).await.fails(2, "not a name");
        run(&server.url(), &["queues", "--prefix", name]).await.fails(2, "not a");
    }
    assert!(server.command(&["DBSIZE"]).unwrap().starts_with(":0"));
}

#[tokio::test]
async fn s18_what_a_foreign_hand_stored_ends_no_command() {
    let (server, client) = server_and_client().await;
    waiting(&client, ORDERS, "a", 2).await;
    bury(&client, &["timeout"]).await;
    let key = |name: &str| format!("delayq:{{{ORDERS}/0}}:{name}");
    for command in [
        // A record that is none, an entry that is no id, a dead letter without a record, a session of nobody.
        ["HSET", &key("jobs"), "0123456789abcdef", "garbage"],
        ["ZADD", &key("due:5"), "1", "0123456789abcdef"],
        ["ZADD", &key("due:5"), "2", "no id"],
        ["ZADD", &key("dead"), "1", "fedcba9876543210"],
        ["HSET", &key("error"), "fedcba9876543210", "\u{1b}[2J"],
        ["ZADD", &key("sessions"), "1", "nobody's"],
    ] {
        assert!(server.command(&command).unwrap().starts_with(':'), "{command:?}");
    }
    // Those 16 bytes as ids.
    let (id, letter) = ("30313233-3435-3637-3839-616263646566", "66656463-6261-3938-3736-353433323130");
    for args in [
        &["jobs", "--queue", ORDERS][..],
        &["jobs", "--queue", ORDERS, "--name", "a"],
        &["jobs", "--queue", ORDERS, "--state", "running"],
        &["job", id],
        &["job", letter],
        &["dead", "list", "--queue", ORDERS],
        &["dead", "show", letter],
        &["dead", "export", "--queue", ORDERS],
        &["queues"],
        &["forecast", ORDERS],
        &["workers", ORDERS, "--running"],
    ] {
        for json in [&[][..], &["--json"]] {
            let ran = run(&server.url(), &[args, json].concat()).await;
            assert!(matches!(ran.code, 0 | 1) && !ran.err.contains("panicked"), "{args:?}: {ran:#?}");
            is_inert(&ran);
        }
    }
}

#[tokio::test]
async fn s20_each_command_works_for_the_documented_user() {
    let (server, client) = server_and_client().await;
    let url = documented_user(&server);
    let dead: Vec<String> =
        bury(&client, &["timeout", "timeout", "refused", "late"]).await.iter().map(ToString::to_string).collect();
    waiting(&client, "mail", "newsletter", 3).await;
    let id = JobId::new().to_string();
    for args in [
        &["enqueue", "a", "{}", "--queue", ORDERS, "--in", "1h", "--id", &id, "--unique", "k", "--retain", "1h"][..],
        &["job", &id],
        &["jobs", "--queue", "mail", "--payload", "n"],
        &["jobs", "--queue", ORDERS, "--state", "running"],
        &["jobs", "--queue", ORDERS, "--state", "retained"],
        &["jobs", "--queue", ORDERS, "--state", "dead", "--payload", "n"],
        &["queues"],
        &["forecast", "mail"],
        &["workers", ORDERS, "--running"],
        &["reschedule", &id, "--in", "2h"],
        &["cancel", &id],
        &["cancel", "--queue", "mail", "--name", "newsletter", "--yes"],
        &["dead", "list", "--queue", ORDERS],
        &["dead", "show", &dead[0]],
        &["dead", "export", "--queue", ORDERS],
        &["dead", "retry", &dead[0]],
        &["dead", "delete", &dead[1]],
        &["dead", "retry", "--queue", ORDERS, "--error", "refused", "--yes"],
        &["dead", "delete", "--queue", ORDERS, "--error", "late", "--yes"],
        &["pause", ORDERS],
        &["resume", ORDERS],
    ] {
        run(&url, args).await.ok();
    }
    assert_eq!(server.command(&["ACL", "LOG"]).unwrap(), "*0\r\n", "nothing else was tried");
    // What only a diagnosis asks for, and does without.
    for args in [&["doctor", "mail"][..], &["doctor", "mail", "--repair", "--yes"]] {
        run(&url, args).await.ok();
    }
    let log = server.command(&["ACL", "LOG"]).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let refused: Vec<&str> = lines.windows(3).filter(|line| line[0] == "object").map(|line| line[2]).collect();
    assert!(!refused.is_empty() && refused.iter().all(|object| object.starts_with("config")), "{refused:?}");
}

#[tokio::test]
async fn s22_no_output_shows_a_password() {
    let server = RedisServer::start_with(&["--requirepass", SECRET]).unwrap();
    let (url, folder) = (server.url(), Folder::new());
    let wrong = url.replace(SECRET, "wrong-s3cret");
    let nobody = format!("redis://:{SECRET}@127.0.0.1:1/");
    let file = folder.write("url", &format!("{url}\n"));
    let no_scheme = format!("rediss//user:{SECRET}@host");
    for (url, args, code) in [
        (&url, &["--help"][..], 0),
        (&url, &["queues"], 0),
        (&url, &["queues", "--help"], 0),
        (&url, &["enqueue", "a", "{}", "--json"], 0),
        (&url, &["jobs", "--queue", "none"], 1),
        (&url, &["queues", "--limit", "3"], 2),
        (&wrong, &["queues", "--timeout", "500ms"], 3),
        (&nobody, &["queues", "--timeout", "500ms"], 3),
        (&no_scheme, &["queues"], 2),
        (&"redis://unused/".to_owned(), &["queues", "--url-file", &file], 0),
        (&"redis://unused/".to_owned(), &["queues", "--url", &nobody, "--timeout", "500ms"], 3),
        (&"redis://unused/".to_owned(), &["queues", "--url", &nobody, "--url-file", &file], 2),
        (&"redis://unused/".to_owned(), &["queues", "--timeout", "500ms", "--url", &no_scheme], 2),
    ] {
        let ran = run(url, args).await;
        assert_eq!(ran.code, code, "{args:?}: {ran:#?}");
        assert!(!format!("{ran:?}").contains("s3cret"), "{args:?}: {ran:#?}");
    }
}

#[tokio::test]
async fn s22_payloads_are_in_no_error_and_no_table() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let job = RawJob::new("a", 1, r#"{"card":"s3cret"}"#).at(HOUR);
    client.send_raw(ORDERS, vec![job]).await.remove(0).unwrap();
    bury(&client, &["timeout"]).await;
    let folder = Folder::new();
    let lines = "{\"name\":\"a\",\"version\":1,\"payload\":{\"card\":\"s3cret\"},\"priority\":77}\n{\"name\":\"a\",\"version\":1,\"payload\":\"s3cret\n";
    let lines = folder.write("lines", lines);
    for args in [
        &["jobs"][..],
        &["queues"],
        &["dead", "list"],
        &["enqueue", "a", r#"{"card":"s3cret""#],
        &["enqueue", "a", r#"{"card":"s3cret"}"#, "--priority", "77"],
        &["enqueue", "--lines", &lines],
        &["cancel", "--queue", ORDERS, "--payload", "card"],
    ] {
        let ran = run(&url, args).await;
        assert!(!format!("{ran:?}").contains("s3cret"), "{args:?}: {ran:#?}");
    }
}

#[tokio::test]
async fn s23_the_url_comes_from_the_environment_or_a_file() {
    let server = RedisServer::start_with(&["--requirepass", SECRET]).unwrap();
    let (url, folder) = (server.url(), Folder::new());
    let file = folder.write("url", &format!("  {url}  \nsecond line\n"));
    let empty = folder.write("empty", "\n");
    let none = |args: &[&str]| {
        let mut command = program("", args);
        command.env_remove("DELAYQ_URL");
        command
    };
    ended(none(&["queues"])).await.fails(2, "no store is named: set DELAYQ_URL");
    ended(none(&["queues", "--url-file", &file])).await.ok();
    ended(none(&["queues", "--url", &url])).await.ok();
    let mut by_file = none(&["queues"]);
    by_file.env("DELAYQ_URL_FILE", &file);
    ended(by_file).await.ok();
    let mut both = program(&url, &["queues"]);
    both.env("DELAYQ_URL_FILE", &file);
    ended(both).await.fails(2, "both set");
    run(&url, &["queues", "--url-file", "/no/such/file"]).await.fails(2, "can't be read from /no/such/file");
    run(&url, &["queues", "--url-file", &empty]).await.fails(2, "no URL in its first line");
}

#[tokio::test]
async fn s23_changes_are_written_to_the_audit_log_before_and_after() {
    let (server, client) = server_and_client().await;
    let (url, folder) = (server.url(), Folder::new());
    waiting(&client, ORDERS, "cancel_order", 3).await;
    let dead = bury(&client, &["timeout", "timeout"]).await;
    let log = shown(&folder.file("audit.jsonl"));
    let id = JobId::new().to_string();
    let payload = r#"{"card":"s3cret"}"#;
    for args in [
        &["enqueue", "a", payload, "--queue", ORDERS, "--in", "1h", "--id", &id][..],
        &["reschedule", &id, "--in", "2h"],
        &["cancel", &id],
        &["cancel", "--queue", ORDERS, "--payload", "n", "--name", "cancel_order", "--yes"],
        &["dead", "delete", &dead[0].to_string()],
        &["dead", "retry", "--queue", ORDERS, "--error", "timeout", "--yes"],
        &["pause", ORDERS],
        &["resume", ORDERS],
        // What only looks, or only counts, writes nothing.
        &["queues"],
        &["jobs"],
    ] {
        run(&url, &[args, &["--audit-log", &log]].concat()).await.ok();
    }
    let counted = run(&url, &["cancel", "--queue", ORDERS, "--all", "--audit-log", &log]).await;
    counted.fails(1, "add --yes");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("s3cret"), "{text}");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut told: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pair in lines.chunks(2) {
        let [begins, ends] = pair else { panic!("{text}") };
        assert_eq!((&begins["event"], &ends["event"]), (&"begins".into(), &"ends".into()));
        assert_eq!(
            (&begins["command"], &begins["pid"], &begins["queue"]),
            (&ends["command"], &ends["pid"], &ORDERS.into())
        );
        assert!(begins["at"].as_str() <= ends["at"].as_str());
        told.entry(begins["command"].as_str().unwrap()).or_default().push(ends["what"].as_str().unwrap());
    }
    let commands: Vec<&str> = told.keys().copied().collect();
    assert_eq!(commands, ["cancel", "dead delete", "dead retry", "enqueue", "pause", "reschedule", "resume"]);
    assert_eq!(told["cancel"].len(), 2);
    assert!(told["cancel"][1].starts_with("3 cancelled"), "{told:?}");
    assert!(text.contains("3 jobs: name=cancel_order, payload: 1 bytes"), "{text}");

    // What can't be written down isn't done.
    let nowhere = "/no/such/folder/audit.jsonl";
    let refused = run(&url, &["pause", ORDERS, "--audit-log", nowhere]).await;
    refused.fails(1, "the audit log /no/such/folder/audit.jsonl can't be written");
    let mut by_environment = program(&url, &["enqueue", "a", "{}", "--queue", "unwritten"]);
    by_environment.env("DELAYQ_AUDIT_LOG", nowhere);
    ended(by_environment).await.fails(1, "the audit log");
    assert!(!client.stats(ORDERS).await.unwrap().paused);
    assert_eq!(client.stats("unwritten").await.unwrap().enqueued_total, 0);
    listed(&client, ORDERS).await;
}
