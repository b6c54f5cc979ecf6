//! `top` in a terminal of its own, which `script` of util-linux makes: what is drawn, what keys do, and that the terminal is given
//! back on every way out. The keys and drawings themselves are held by the cases beside their code.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use delayq::Client;
use delayq_redis_fixture::RedisServer;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;

use crate::kit::{Folder, ORDERS, bury, eventually, in_terminal, run, server_and_client, shown, soon, waiting};

/// What switches to a terminal's other screen, back from it, and shows the cursor.
const OTHER_SCREEN: &str = "\u{1b}[?1049h";
const FIRST_SCREEN: &str = "\u{1b}[?1049l";
const SHOWN_CURSOR: &str = "\u{1b}[?25h";

/// `delayq top` in a terminal of 120 columns and 30 rows.
struct Top {
    child: Child,
    keys: ChildStdin,
    /// All that was drawn.
    drawn: Arc<Mutex<Vec<u8>>>,
    /// What takes it, to its end.
    reader: JoinHandle<()>,
    folder: Folder,
}

impl Top {
    fn start(url: &str, options: &str) -> Top {
        let folder = Folder::new();
        let file = |name| shown(&folder.file(name));
        // Its settings before and after tell whether the terminal is as it was.
        let line = format!(
            "stty -g > '{}'; sh -c 'echo $$ > \"{}\"; exec \"{}\" top {options}'; code=$?; \
             stty -g > '{}'; exit $code",
            file("before"),
            file("pid"),
            env!("CARGO_BIN_EXE_delayq"),
            file("after"),
        );
        let mut command = in_terminal(url, &line);
        command.env("DELAYQ_AUDIT_LOG", folder.file("audit"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("script, of util-linux");
        let (keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let drawn = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&drawn);
        let reader = tokio::spawn(async move {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut bytes).await {
                to.lock().unwrap().extend_from_slice(&bytes[..n]);
            }
        });
        Top { child, keys, drawn, reader, folder }
    }

    fn drawn(&self) -> String {
        String::from_utf8_lossy(&self.drawn.lock().unwrap()).into_owned()
    }

    /// Waits until this was drawn so often.
    async fn draws(&self, text: &str, times: usize) {
        let enough = || async { (self.drawn().matches(text).count() >= times).then_some(()) };
        eventually(&format!("{text:?} is drawn"), enough).await;
    }

    async fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.unwrap();
        self.keys.flush().await.unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(PathBuf::from(shown(&self.folder.file(name)))).unwrap_or_default()
    }

    /// Once it has ended: with this code, and the terminal given back.
    #[track_caller]
    fn gave_back(&self, code: i32) {
        let drawn = self.drawn();
        assert_eq!(code, 0, "{drawn:?}");
        assert!(!self.read("before").is_empty());
        assert_eq!(self.read("before"), self.read("after"), "the terminal's settings");
        let back = drawn.rfind(FIRST_SCREEN).expect("back on the first screen");
        assert!(drawn.find(OTHER_SCREEN).is_some_and(|at| at < back));
        assert!(drawn[back..].contains(SHOWN_CURSOR), "{:?}", &drawn[back..]);
    }

    /// Waits for its end, and for the last that it drew.
    async fn end(&mut self) -> i32 {
        let code = soon(self.child.wait()).await.unwrap().code().unwrap_or(-1);
        soon(&mut self.reader).await.unwrap();
        code
    }
}

#[tokio::test]
async fn keys_walk_to_a_dead_letter_and_delete_it_and_the_terminal_is_given_back() {
    let (server, client) = server_and_client().await;
    let letter = bury(&client, &["the bank says no"]).await[0].to_string();
    waiting(&client, "mail", "newsletter", 2).await;
    let mut top = Top::start(&server.url(), "--interval 250ms");
    top.draws("mail", 1).await;
    top.draws(ORDERS, 1).await;
    // From mail to orders, in, from what waits to what died.
    top.press("j\r\t").await;
    top.draws("the bank says no", 1).await;
    top.press("D").await;
    top.draws("Delete this dead letter for good?", 1).await;
    assert_eq!(client.stats(ORDERS).await.unwrap().dead, 1, "not without a yes");
    top.press("y").await;
    eventually("it is deleted", || async { (client.stats(ORDERS).await.unwrap().dead == 0).then_some(()) }).await;
    eventually("it is written down", || async { (top.read("audit").lines().count() == 2).then_some(()) }).await;
    let audit: Vec<Value> = top.read("audit").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (line, event, what) in [(&audit[0], "begins", letter.clone()), (&audit[1], "ends", format!("{letter} deleted"))]
    {
        assert_eq!((&line["event"], &line["what"]), (&event.into(), &what.into()), "{line}");
        assert_eq!((&line["command"], &line["queue"]), (&"top: dead delete".into(), &ORDERS.into()), "{line}");
    }
    top.press("q").await;
    let code = top.end().await;
    top.gave_back(code);
}

#[tokio::test]
async fn a_store_that_goes_away_is_told_and_sigterm_gives_the_terminal_back() {
    // What was sent is there again after the restart.
    let mut server = RedisServer::start_with(&["--appendonly", "yes"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    waiting(&client, "mail", "newsletter", 2).await;
    let mut top = Top::start(&server.url(), "--interval 250ms");
    top.draws("1 queue ", 1).await;
    server.kill();
    top.draws("no answer for ", 1).await;
    server.restart().unwrap();
    // Old figures are in another style than the space after them.
    top.draws("1 queue ", 2).await;
    let pid = top.read("pid").trim().to_owned();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    let code = top.end().await;
    top.gave_back(code);
}

#[tokio::test]
async fn without_a_terminal_top_says_what_to_use() {
    // It doesn't even ask the store.
    let url = "redis://127.0.0.1:1/";
    run(url, &["top"]).await.fails(2, "use `delayq queues --json`");
    run(url, &["top", "--json"]).await.fails(2, "use `delayq queues --json`");
    run(url, &["top", "--interval", "100ms"]).await.fails(2, "250ms at the least");
}
