//! One idea: asked to stop, a worker stops taking, finishes or hands back, and leaves.

use tokio::sync::watch;

/// Tells the parts of a worker to stop.
pub(super) struct Stopper(watch::Sender<bool>);

/// Whether to stop.
#[derive(Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

pub(super) fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    pub(super) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    pub(super) fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once it is set, or once nobody is left to set it.
    pub(super) async fn wait(&mut self) {
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// The first SIGTERM or ctrl-c from this call on, be it before the answer is waited for; from then on a second one ends the process at once.
pub(super) fn signal() -> impl Future<Output = ()> {
    // One pair of ears for both: the second signal is heard however soon after the first it comes.
    let mut signals = Signals::new();
    async move {
        let code = signals.next().await;
        tokio::spawn(async move {
            tracing::info!("stopping: running jobs have the grace period; a second signal exits at once");
            signals.next().await;
            tracing::warn!("a second signal: exiting at once; running jobs come back when the lease runs out");
            std::process::exit(code);
        });
    }
}

/// Listens from its making on.
#[cfg(unix)]
struct Signals(Option<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)>);

#[cfg(unix)]
impl Signals {
    fn new() -> Signals {
        use tokio::signal::unix::{SignalKind, signal};
        Signals(signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?))).ok())
    }

    /// The exit code that shells give to the signal that came.
    async fn next(&mut self) -> i32 {
        let Some((terminate, interrupt)) = &mut self.0 else {
            tracing::warn!("signals can't be received here: the worker ends with its process only");
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => 128 + 15,
            _ = interrupt.recv() => 128 + 2,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Signals {
        Signals
    }

    async fn next(&mut self) -> i32 {
        if tokio::signal::ctrl_c().await.is_err() {
            tracing::warn!("ctrl-c can't be received here: the worker ends with its process only");
            std::future::pending::<()>().await;
        }
        130
    }
}
