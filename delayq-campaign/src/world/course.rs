//! The course of a run: warm up, heal, drain, take the store down in writing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use delayq::BoxError;
use delayq::engine::embedded::Stored;
use rustix::process::Signal;

use super::snapshot::Keys;
use super::{Kind, Mode, Proc, World, snapshot};
use crate::history::What;
use crate::work::QUEUE;

impl World {
    /// Waits until the load is there: every process is up and a few jobs have had their effect.
    pub(crate) async fn warm_up(&mut self) -> Result<bool, BoxError> {
        let (from, wanted) = (self.mark(), if self.setup.producers == 0 { 0 } else { 15 });
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            self.tick().await?;
            let up = |proc: &Proc| {
                self.events.iter().any(|event| event.by == proc.name && matches!(event.what, What::Up { .. }))
            };
            let effects = self.events[from..].iter().filter(|event| matches!(event.what, What::Effect { .. })).count();
            if effects >= wanted && self.procs.iter().all(up) {
                return Ok(true);
            }
            if Instant::now() > until {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// All as it should be again: whoever is frozen goes on, proxies pass, servers run, workers are there.
    pub(crate) async fn heal(&mut self) -> Result<(), BoxError> {
        for name in self.procs.iter().map(|proc| proc.name.clone()).collect::<Vec<_>>() {
            let proc = self.proc(&name)?;
            if let Some(proxy) = &proc.proxy {
                proxy.spare();
                proxy.set(Mode::Pass);
            }
            if proc.frozen {
                self.signal(&name, Signal::CONT)?;
                self.calm(Some(&name));
            }
        }
        self.servers.heal().await?;
        self.replace_workers().await?;
        self.tell(What::Healed);
        Ok(())
    }

    /// Ends the producers, waits until nothing waits or runs any more, ends the workers, and takes the store down in writing.
    pub(crate) async fn finish(&mut self) -> Result<bool, BoxError> {
        self.end_all(Kind::Producer, 15_000).await?;
        let whole = self.drain(self.patience).await?;
        self.tell(What::Drained { whole });
        self.respawn = false;
        self.end_all(Kind::Worker, self.setup.grace_ms + 12_000).await?;
        let all = self.read_store().await?;
        snapshot::tell(&self.journal, &all);
        self.anchor();
        self.tick().await?;
        Ok(whole)
    }

    /// All keys of the queue as they are.
    pub(crate) async fn read_store(&mut self) -> Result<BTreeMap<String, Stored>, BoxError> {
        let (_, shard) = self.store().await?;
        let prefix = String::from_utf8_lossy(&shard.key("")).into_owned();
        self.servers.look()?;
        let mut keys = Keys::open(&self.servers.main_url()).await?;
        snapshot::read_all(&mut keys, &prefix).await
    }

    async fn end_all(&mut self, kind: Kind, patience_ms: u64) -> Result<(), BoxError> {
        for name in self.names(kind) {
            self.signal(&name, Signal::TERM)?;
        }
        for name in self.names(kind) {
            if !self.gone(&name, patience_ms).await? {
                self.demand('S', false, format!("{name} did not end within {patience_ms} ms of SIGTERM"));
                self.kill(&name).await?;
            }
        }
        Ok(())
    }

    async fn drain(&mut self, patience: Duration) -> Result<bool, BoxError> {
        let until = Instant::now() + patience;
        loop {
            let client = self.client().await?;
            match client.stats(QUEUE).await {
                Ok(stats) if stats.waiting + stats.running == 0 => return Ok(true),
                _ if Instant::now() > until => return Ok(false),
                _ => {}
            }
            self.rest_ms(50).await?;
        }
    }
}
