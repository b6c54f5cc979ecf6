//! Every script once where there is nothing: whether this server and this user's rights let each of them run.

use futures_util::future::join_all;

use super::keys::KeySet;
use super::script::SCRIPTS;
use super::{Shard, Store, decimal};
use crate::engine::Script;
use crate::error::Error;
use crate::limits::{SCHEMA, SHARDS};

/// What came of it.
#[derive(Debug)]
pub struct Rehearsal {
    /// The scripts that ran.
    pub ran: Vec<&'static str>,
    /// Those that didn't, each with what the store said.
    pub failed: Vec<(&'static str, Error)>,
}

impl Store {
    /// Runs every script but the two that must leave something, with arguments that find nothing to do, on a shard that the queue
    /// doesn't have and that has no keys afterwards either.
    pub async fn rehearse(&self, queue: &Shard) -> Rehearsal {
        let shard = Shard::new(&self.prefix, queue.queue(), u32::MAX);
        let calls = SCRIPTS.iter().filter_map(|file| {
            let (keys, args) = self.harmless(&shard, file.script)?;
            Some(async move { (file.script.name, self.call(file.script, keys, &args).await.map(drop)) })
        });
        let (mut ran, mut failed) = (Vec::new(), Vec::new());
        for (name, answered) in join_all(calls).await {
            match answered {
                Ok(()) => ran.push(name),
                Err(error) => failed.push((name, error)),
            }
        }
        Rehearsal { ran, failed }
    }

    /// Keys and arguments with which a script does nothing; `None` for those that would leave something: `open` opens a session,
    /// `register` notes a queue.
    fn harmless(&self, shard: &Shard, script: &Script) -> Option<(KeySet, Vec<Vec<u8>>)> {
        let nobody = [0; 16];
        let id = nobody.to_vec();
        let text = |text: &str| text.as_bytes().to_vec();
        let keys = match script.name {
            "enqueue" => shard.enqueue(&[]),
            "probe" => shard.probe(),
            "queues" => self.prefix.queues(),
            "workers" => shard.all_and_held(&[nobody]),
            _ => shard.all(None),
        };
        let args = match script.name {
            "audit" => vec![text("records"), text("0"), text("1"), text("0")],
            "beat" => vec![id, text("1000"), text("0")],
            "cancel" | "close" | "inspect" | "workers" => vec![id],
            "claim" => vec![id, text("1"), text("1"), text("1"), text("0"), text("")],
            "dead_delete" | "dead_redrive" | "pass" | "probe" | "stats" => Vec::new(),
            "dead_list" => vec![text("after"), text(""), text(""), text("1"), text(""), text("0")],
            "done_list" => vec![text(""), text(""), text("1")],
            "due_list" => vec![text(""), text(""), text(""), text(""), text("1")],
            "enqueue" => vec![decimal(SCHEMA), decimal(SHARDS), text("")],
            "forecast" => vec![text("0")],
            "pause" => vec![text("0")],
            "queues" | "running_list" => vec![text(""), text("1")],
            "reconcile" | "settle" => vec![id, text("1")],
            "repair" => vec![text("records"), text("0"), text("1"), id],
            "reschedule" => vec![id, text("+0")],
            "rescue" => vec![id, text("1")],
            "sessions" => vec![text("1")],
            _ => return None,
        };
        Some((keys, args))
    }
}
