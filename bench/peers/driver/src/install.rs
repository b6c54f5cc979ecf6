//! Builds and installs the adapters. What is made lies in the target folder; a peer that can't be had gives the reason.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::peer::{Peer, Program};
use crate::server::Version;

/// How the variables begin that cargo sets for a program that it runs.
const OWN_VARIABLES: [&str; 5] =
    ["CARGO_MANIFEST", "CARGO_PKG_", "CARGO_CRATE_NAME", "CARGO_BIN_NAME", "CARGO_PRIMARY_PACKAGE"];

/// bench/peers.
fn home() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The folder of this very program, in which cargo puts the adapters too.
fn out() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|error| format!("no path of this program: {error}"))?;
    exe.parent().map(Path::to_path_buf).ok_or_else(|| "this program is in no folder".to_owned())
}

/// The command that starts a peer's adapter.
#[derive(Clone)]
pub(crate) struct Adapter {
    pub(crate) program: PathBuf,
    pub(crate) first_args: Vec<PathBuf>,
}

/// Makes a peer's adapter ready to run.
pub(crate) fn install(peer: &Peer, redis: &Version) -> Result<Adapter, String> {
    if redis.number < peer.needs_redis {
        let (major, minor) = peer.needs_redis;
        return Err(format!("not run: needs Redis {major}.{minor}, this is {}", redis.text));
    }
    match peer.program {
        Program::Rust { adapter, .. } => rust(adapter),
        Program::Node { script, .. } => node(script),
        Program::Python { script, .. } => python(script),
    }
    .map_err(|why| format!("not installed: {why}"))
}

fn rust(adapter: &str) -> Result<Adapter, String> {
    let out = out()?;
    let release = if cfg!(debug_assertions) { &[][..] } else { &["--release"][..] };
    let target = out.parent().ok_or("no target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--locked", "--package", adapter]).args(release);
    build.arg("--target-dir").arg(target).current_dir(home());
    // What `cargo run` tells this program about itself would make build scripts that watch it run again, every time.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| OWN_VARIABLES.iter().any(|own| name.starts_with(own))) {
            build.env_remove(name);
        }
    }
    finish(&mut build)?;
    Ok(Adapter { program: out.join(adapter), first_args: Vec::new() })
}

fn node(script: &str) -> Result<Adapter, String> {
    let folder = out()?.join("peers-node");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let fresh = same(&home().join("node/package-lock.json"), &folder.join("package-lock.json"))
        && folder.join("node_modules/.package-lock.json").exists();
    for entry in std::fs::read_dir(home().join("node")).map_err(|error| format!("bench/peers/node: {error}"))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            std::fs::copy(&path, folder.join(name)).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    if !fresh {
        // Without scripts: what they would compile is there ready-made.
        finish(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder))?;
    }
    Ok(Adapter { program: "node".into(), first_args: vec![folder.join(script)] })
}

fn python(script: &str) -> Result<Adapter, String> {
    let folder = out()?.join("peers-python");
    let (wanted, stamp) = (home().join("python/requirements.txt"), folder.join("installed.txt"));
    let python = folder.join("bin/python");
    if !same(&wanted, &stamp) {
        finish(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
        finish(Command::new(&python).args(pip).arg(&wanted))?;
        std::fs::copy(&wanted, &stamp).map_err(|error| format!("{}: {error}", stamp.display()))?;
    }
    Ok(Adapter { program: python, first_args: vec!["-B".into(), home().join("python").join(script)] })
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((std::fs::read(one), std::fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

/// Runs a command to its end; what it wrote last is the reason if it fails.
fn finish(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name} can't be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = text.lines().filter(|line| line.to_lowercase().contains("error")).take(3).collect();
    let last = text.lines().last().unwrap_or("").to_owned();
    let why = if errors.is_empty() { last } else { errors.join("; ") };
    Err(format!("{name} ended with {}: {why}", output.status))
}

/// The version of what a peer is about, out of the lock file that it is installed by.
pub(crate) fn version(peer: &Peer) -> String {
    let read = |path: &str| std::fs::read_to_string(home().join(path)).unwrap_or_default();
    let found = match peer.program {
        Program::Rust { package, .. } => {
            let lock = read("Cargo.lock");
            let after =
                lock.split_once(&format!("name = \"{package}\"\nversion = \"")).map(|(_, rest)| rest.to_owned());
            after.and_then(|rest| rest.split_once('"').map(|(version, _)| version.to_owned()))
        }
        Program::Node { package, .. } => serde_json::from_str::<serde_json::Value>(&read("node/package-lock.json"))
            .ok()
            .and_then(|lock| Some(lock["packages"][format!("node_modules/{package}")]["version"].as_str()?.to_owned())),
        Program::Python { package, .. } => read("python/requirements.txt")
            .lines()
            .find_map(|line| line.strip_prefix(package)?.strip_prefix("==").map(str::to_owned)),
    };
    found.unwrap_or_else(|| "?".to_owned())
}
