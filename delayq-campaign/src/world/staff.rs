//! The processes of a run: started, found, signalled, replaced.

use std::time::{Duration, Instant};

use delayq::BoxError;
use rustix::process::Signal;

use super::watch::TICK;
use super::{Kind, Proc, Proxy, World, servers};
use crate::dice::Dice;
use crate::history::What;

impl World {
    pub(crate) async fn add_worker(&mut self) -> Result<String, BoxError> {
        self.add_worker_with(&[]).await
    }

    /// Starts a worker, with further arguments.
    pub(crate) async fn add_worker_with(&mut self, more: &[String]) -> Result<String, BoxError> {
        self.born += 1;
        let name = format!("w{}", self.born);
        let proxy = self.proxy(self.setup.worker_proxies).await?;
        let mut args = self.common("worker", &name, proxy.as_ref());
        for (flag, value) in [
            ("--lease-ms", self.setup.lease_ms),
            ("--concurrency", self.setup.concurrency as u64),
            ("--grace-ms", self.setup.grace_ms),
        ] {
            args.extend([flag.to_owned(), value.to_string()]);
        }
        args.extend_from_slice(more);
        let environment = self.clock_of_worker()?;
        self.spawn(name, Kind::Worker, &args, &environment, proxy)
    }

    fn clock_of_worker(&self) -> Result<Vec<(String, String)>, BoxError> {
        let clocks = &self.setup.worker_clocks_ms;
        if clocks.is_empty() {
            return Ok(Vec::new());
        }
        servers::shim_environment(&self.folder, &format!("worker-{}", self.born), clocks[self.born % clocks.len()])
    }

    pub(crate) async fn add_producer(&mut self) -> Result<String, BoxError> {
        self.born += 1;
        let name = format!("p{}", self.born);
        let proxy = self.proxy(self.setup.producer_proxies).await?;
        let mut args = self.common("producer", &name, proxy.as_ref());
        for (flag, value) in [("--seed", self.seed_of_next()), ("--rate", self.setup.rate)] {
            args.extend([flag.to_owned(), value.to_string()]);
        }
        if self.setup.delays_only {
            args.push("--delays-only".to_owned());
        }
        if self.setup.confirmed_by > 0 {
            args.extend(["--confirmed-by".to_owned(), self.setup.confirmed_by.to_string()]);
        }
        self.spawn(name, Kind::Producer, &args, &[], proxy)
    }

    /// By its number and not by what was drawn before: when a process has to be replaced is not the seed's to say.
    fn seed_of_next(&self) -> u64 {
        Dice::part(self.seed, 1000 + self.born as u64).roll()
    }

    async fn proxy(&mut self, wanted: bool) -> Result<Option<Proxy>, BoxError> {
        if !wanted {
            return Ok(None);
        }
        let seed = self.seed_of_next();
        let proxy = Proxy::start(self.servers.port(), seed).await?;
        proxy.set(self.first_mode);
        Ok(Some(proxy))
    }

    fn common(&self, command: &str, name: &str, proxy: Option<&Proxy>) -> Vec<String> {
        let url = proxy.map_or_else(|| self.servers.url(), |proxy| format!("redis://127.0.0.1:{}/", proxy.port()));
        [command, "--url", &url, "--name", name, "--history", &self.history()].map(str::to_owned).to_vec()
    }

    fn spawn(
        &mut self,
        name: String,
        kind: Kind,
        args: &[String],
        environment: &[(String, String)],
        proxy: Option<Proxy>,
    ) -> Result<String, BoxError> {
        let mut proc = Proc::start(&name, kind, args, environment, &self.folder)?;
        proc.proxy = proxy;
        self.procs.push(proc);
        Ok(name)
    }

    pub(crate) fn proc(&mut self, name: &str) -> Result<&mut Proc, BoxError> {
        let gone = || format!("{name} is no more").into();
        self.procs.iter_mut().find(|proc| proc.name == name).ok_or_else(gone)
    }

    pub(crate) fn names(&self, kind: Kind) -> Vec<String> {
        self.procs.iter().filter(|proc| proc.kind == kind).map(|proc| proc.name.clone()).collect()
    }

    /// Sends a signal to a process and says so; KILL and TERM ask it to end.
    pub(crate) fn signal(&mut self, name: &str, signal: Signal) -> Result<(), BoxError> {
        let text = match signal {
            Signal::KILL => "KILL",
            Signal::TERM => "TERM",
            Signal::STOP => "STOP",
            Signal::CONT => "CONT",
            _ => "?",
        };
        let proc = self.proc(name)?;
        proc.asked |= matches!(text, "KILL" | "TERM");
        proc.frozen = text == "STOP" || (proc.frozen && text != "CONT");
        // Said before it is done: what follows must not seem to come first.
        self.journal.tell(What::Signal { to: name.to_owned(), signal: text.to_owned() });
        self.proc(name)?.signal(signal)?;
        Ok(())
    }

    /// Kills a process and waits for its end.
    pub(crate) async fn kill(&mut self, name: &str) -> Result<(), BoxError> {
        self.signal(name, Signal::KILL)?;
        self.gone(name, 5000).await.map(drop)
    }

    /// Waits for the end of a process; whether it came.
    pub(crate) async fn gone(&mut self, name: &str, patience_ms: u64) -> Result<bool, BoxError> {
        let until = Instant::now() + Duration::from_millis(patience_ms);
        while self.procs.iter().any(|proc| proc.name == name) {
            if Instant::now() > until {
                return Ok(false);
            }
            self.tick().await?;
            tokio::time::sleep(TICK).await;
        }
        Ok(true)
    }

    /// As many workers as there should be.
    pub(crate) async fn replace_workers(&mut self) -> Result<(), BoxError> {
        self.tick().await?;
        let wanted = self.setup.workers;
        while self.procs.iter().filter(|proc| proc.kind == Kind::Worker && !proc.asked).count() < wanted {
            self.add_worker().await?;
        }
        Ok(())
    }
}
