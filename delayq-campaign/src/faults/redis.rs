//! Faults of the server that end or stop it: crashes, power cuts, torn files, freezes, long loads, an empty restart.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use delayq::BoxError;
use rustix::process::Signal;

use super::{Fault, Seen, built};
use crate::history::{What, now_us};
use crate::world::{World, raw};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        built!(19 "kill-server" Redis REDIS, kill_server, "kill -9 of the server under AOF always, everysec, no, and RDB alone"),
        built!(20 "power-cut" Redis REDIS, power_cut, "a power cut: kill -9, and what was not synced is cut off the files", |setup| setup.shim = true),
        built!(21 "torn-aof-tail" Redis REDIS, torn_tail, "kill -9, and the last bytes of the append-only file are torn off"),
        built!(22 "freeze-server" Redis REDIS, freeze_server, "SIGSTOP of the server for 1 s, and for 30 s"),
        built!(32 "loading" Redis REDIS, loading, "the server restarts and loads its data for seconds (LOADING)"),
        built!(33 "empty-restart" Redis REDIS, empty_restart, "the server comes back empty: noticed and alarmed"),
    ]
}

/// Waits until a field of INFO has this value.
pub(super) async fn info_is(world: &mut World, field: &str, value: &str, patience_ms: u64) -> Result<bool, BoxError> {
    let wanted = format!("{field}:{value}");
    let until = Instant::now() + Duration::from_millis(patience_ms);
    while Instant::now() < until {
        let info = world.servers.command(&["INFO", "everything"])?;
        if info.lines().any(|line| line.trim() == wanted) {
            return Ok(true);
        }
        world.rest_ms(10).await?;
    }
    Ok(false)
}

/// Stays down for a while, then comes back with what it persisted.
pub(super) async fn come_back(world: &mut World) -> Result<(), BoxError> {
    let down_ms = world.dice.between(50, 1200);
    world.rest_ms(down_ms).await?;
    world.servers.main()?.restart()?;
    world.calm(None);
    Ok(())
}

/// Ends the server at once; answers when.
pub(super) fn crash(world: &mut World, why: &str) -> Result<u64, BoxError> {
    world.disturbed(None, why);
    world.servers.main()?.kill();
    Ok(now_us())
}

async fn kill_server(world: &mut World) -> Result<Seen, BoxError> {
    let mode = ["always", "everysec", "no", "rdb"][((world.spin + world.turn) % 4) as usize];
    let calm_ms = world.dice.between(300, 900);
    if mode == "rdb" {
        world.servers.command(&["CONFIG", "SET", "appendonly", "no"])?;
        world.servers.main()?.set("--appendonly", "no");
        let since = now_us();
        world.servers.command(&["SAVE"])?;
        world.rest_ms(calm_ms).await?;
        let until = crash(world, "the server was killed")?;
        world.tell(What::MayLose { since, until, why: "RDB alone keeps what its last save had".to_owned() });
        come_back(world).await?;
        return Ok(Seen::when(true, "the server was killed, with RDB alone"));
    }
    world.servers.command(&["CONFIG", "SET", "appendfsync", mode])?;
    world.servers.command(&["CONFIG", "SET", "appendonly", "yes"])?;
    world.servers.main()?.set("--appendonly", "yes");
    world.servers.main()?.set("--appendfsync", mode);
    if !info_is(world, "aof_rewrite_in_progress", "0", 10_000).await? {
        return Ok(Seen::when(false, "the append-only file was not ready within 10 s"));
    }
    world.rest_ms(calm_ms).await?;
    crash(world, "the server was killed")?;
    come_back(world).await?;
    Ok(Seen::when(true, format!("the server was killed, with AOF {mode}")))
}

/// The append-only file that is being written.
fn growing(folder: &Path) -> Result<PathBuf, BoxError> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder.join("appendonlydir"))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .collect();
    files.sort_by_key(|path| path.metadata().and_then(|is| is.modified()).ok());
    files.pop().ok_or_else(|| "there is no append-only file".into())
}

fn cut(path: &Path, size: u64) -> std::io::Result<()> {
    std::fs::OpenOptions::new().write(true).open(path)?.set_len(size)
}

/// How much of a file was synced last, as the shim wrote it down.
fn synced(world: &World, file: &Path) -> Option<u64> {
    let log = std::fs::read_to_string(world.folder().join("server.synced")).ok()?;
    let path = file.display().to_string();
    log.lines().rev().find_map(|line| {
        let (size, of) = line.split_once(' ')?;
        if of == path { size.parse().ok() } else { None }
    })
}

async fn power_cut(world: &mut World) -> Result<Seen, BoxError> {
    let mode = ["everysec", "always"][((world.spin + world.turn) % 2) as usize];
    world.servers.command(&["CONFIG", "SET", "appendfsync", mode])?;
    world.servers.main()?.set("--appendfsync", mode);
    // What was written before the change is synced within a second.
    let calm_ms = world.dice.between(1500, 2500);
    world.rest_ms(calm_ms).await?;
    let aof = growing(world.servers.main()?.folder())?;
    // Just after a sync there would be nothing to lose.
    let deadline = Instant::now() + Duration::from_secs(5);
    while mode == "everysec" && synced(world, &aof) >= Some(aof.metadata()?.len()) && Instant::now() < deadline {
        world.rest_ms(3).await?;
    }
    let until = crash(world, "the power was cut")?;
    let synced = synced(world, &aof);
    let size = aof.metadata()?.len();
    let kept = synced.unwrap_or(0).min(size);
    cut(&aof, kept)?;
    if mode == "everysec" {
        let since = until.saturating_sub(2_000_000);
        world.tell(What::MayLose { since, until, why: "everysec: what came after the last sync".to_owned() });
    }
    come_back(world).await?;
    let fired = synced.is_some() && (mode == "always" || kept < size);
    Ok(Seen::when(fired, format!("the power was cut under {mode}: {} of {size} bytes were not synced", size - kept)))
}

async fn torn_tail(world: &mut World) -> Result<Seen, BoxError> {
    let calm_ms = world.dice.between(300, 900);
    world.rest_ms(calm_ms).await?;
    let until = crash(world, "the server was killed")?;
    let aof = growing(world.servers.main()?.folder())?;
    let size = aof.metadata()?.len();
    let torn = world.dice.between(1, 300).min(size);
    cut(&aof, size - torn)?;
    let since = until.saturating_sub(1_000_000);
    world.tell(What::MayLose { since, until, why: format!("the last {torn} bytes are torn off") });
    come_back(world).await?;
    // Redis 7.0 cuts the file behind the last whole command, also in the middle of a transaction, and the rest of that
    // transaction is carried out by the restart after this one: half a script, which no script can guard against. A rewrite ends it.
    world.servers.command(&["BGREWRITEAOF"])?;
    world.rest_ms(100).await?;
    let whole = info_is(world, "aof_rewrite_in_progress", "0", 10_000).await?;
    Ok(Seen::when(torn > 0 && whole, format!("{torn} bytes were torn off the append-only file")))
}

async fn freeze_server(world: &mut World) -> Result<Seen, BoxError> {
    let long = if world.is_smoke { 4000 } else { 30_000 };
    let ms = [1000, long][((world.spin + world.turn) % 2) as usize];
    world.disturbed(None, "the server was frozen");
    world.servers.signal(Signal::STOP)?;
    let silent = raw(world.servers.main()?.port(), &[b"PING"], Duration::from_millis(300)).is_err();
    world.rest_ms(ms).await?;
    world.servers.signal(Signal::CONT)?;
    world.calm(None);
    world.rest_ms(500).await?;
    Ok(Seen::when(silent, format!("the server was silent for {ms} ms")))
}

async fn loading(world: &mut World) -> Result<Seen, BoxError> {
    // Keys of nobody's, so that there is something to load.
    let fill = "for i = 1, 20000 do redis.call('SET', 'ballast:' .. i, 'x') end";
    world.servers.command(&["EVAL", fill, "0"])?;
    world.servers.command(&["BGREWRITEAOF"])?;
    world.rest_ms(200).await?;
    if !info_is(world, "aof_rewrite_in_progress", "0", 10_000).await? {
        return Ok(Seen::when(false, "the append-only file was not rewritten within 10 s"));
    }
    crash(world, "the server restarts and loads")?;
    let server = world.servers.main()?;
    server.set("--key-load-delay", "120");
    server.set("--loading-process-events-interval-bytes", "1024");
    server.launch()?;
    let port = server.port();
    let mut seen = 0;
    for _ in 0..600 {
        match raw(port, &[b"PING"], Duration::from_millis(500)) {
            Ok(answer) if answer.starts_with("-LOADING") => seen += 1,
            Ok(answer) if answer.starts_with('+') => break,
            _ => {}
        }
        world.rest_ms(20).await?;
    }
    world.servers.main()?.ready(Duration::from_secs(60))?;
    world.calm(None);
    world.servers.command(&["CONFIG", "SET", "key-load-delay", "0"])?;
    world.servers.main()?.set("--key-load-delay", "0");
    Ok(Seen::when(seen > 0, format!("the server answered LOADING {seen} times")))
}

async fn empty_restart(world: &mut World) -> Result<Seen, BoxError> {
    let calm_ms = world.dice.between(300, 900);
    world.rest_ms(calm_ms).await?;
    let until = crash(world, "the server restarts empty")?;
    let _ = std::fs::remove_dir_all(world.servers.main()?.folder().join("appendonlydir"));
    let _ = std::fs::remove_file(world.servers.main()?.folder().join("dump.rdb"));
    world.tell(What::MayLose { since: 0, until, why: "the server restarted empty".to_owned() });
    let from = world.mark();
    come_back(world).await?;
    noticed(world, from).await?;
    Ok(Seen::when(true, "the server came back empty"))
}

/// A worker says that its session is gone.
pub(super) async fn noticed(world: &mut World, from: usize) -> Result<(), BoxError> {
    let alarm = world
        .wait(from, 10_000, |event| match &event.what {
            What::Alarm { text } if text.contains("session was lost") || text.contains("rolled back") => Some(()),
            _ => None,
        })
        .await?;
    world.demand('S', alarm.is_some(), "a worker says aloud that the store lost what it had");
    Ok(())
}
