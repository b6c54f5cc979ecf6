//! How far long work is: shown on a terminal, and nowhere else.

use tokio::process::Command;

use crate::kit::{Ran, ended, in_terminal, program, server_and_client, waiting};

/// The same command in a terminal.
fn on_a_terminal(url: &str, args: &[&str]) -> Command {
    let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
    in_terminal(url, &format!("'{}' {}", env!("CARGO_BIN_EXE_delayq"), quoted.join(" ")))
}

#[tokio::test]
async fn long_work_shows_how_far_it_is_on_a_terminal_alone() {
    let (server, client) = server_and_client().await;
    let args = |queue| ["cancel", "--queue", queue, "--all", "--yes"];
    waiting(&client, "mail", "newsletter", 2000).await;
    waiting(&client, "post", "newsletter", 2000).await;
    let Ran { code, out, .. } = ended(on_a_terminal(&server.url(), &args("mail"))).await;
    assert_eq!(code, 0, "{out:?}");
    // While jobs are looked for their number isn't known, then it is; in the end nothing of it stays in the line.
    let (looked, cancelled) = (out.find("mail: looking"), out.find("/2,000"));
    assert!(looked.is_some() && looked < cancelled, "{out:?}");
    let last = out.rfind("/2,000").unwrap();
    assert!(out[last..].contains("\u{1b}[2K") && out[last..].contains("mail: 2000 cancelled"), "{out:?}");
    let piped = ended(program(&server.url(), &args("post"))).await;
    assert!(piped.ok().contains("post: 2000 cancelled"), "{piped:?}");
    assert!(!piped.err.contains("looking") && !piped.err.contains('\u{1b}'), "{piped:?}");
}
