//! `serve`: the HTTP service. Its parts, what they share, and its start.

mod audit;
mod auth;
mod autoscale;
mod cache;
mod dead;
mod extract;
mod health;
mod jobs;
mod limits;
mod listen;
mod metrics;
mod openapi;
mod origin;
mod pages;
mod problem;
mod queues;
mod roles;
mod routes;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use clap::Args;
use delayq::Client;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::commands::Session;
use crate::failure::{Failure, Outcome};
use crate::output::remark;

use self::metrics::Metrics;
use audit::Audit;
use auth::Tokens;
use cache::Cached;
use limits::{Bounds, CHANGES_MAX, Rate};

/// Where it listens, who may do what, and how much.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq serve                                              on 127.0.0.1:8080, for whoever is on this machine
  delayq serve --listen 0.0.0.0:8080 --reader-tokens readers --operator-tokens operators
  curl http://127.0.0.1:8080/api/v1/jobs -H 'content-type: application/json' \\
    -d '{\"name\":\"cancel_order\",\"version\":1,\"payload\":{\"order_id\":42},\"queue\":\"orders\",\"in\":\"30m\"}'

A token has 32 characters or more, for example those of: openssl rand -hex 32
The API is described by GET /api/v1/openapi.json. TLS is for a proxy in front.")]
pub(crate) struct Options {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// A file of bearer tokens that may look, one a line [env: DELAYQ_READER_TOKENS, the tokens themselves]
    #[arg(long, value_name = "FILE")]
    reader_tokens: Option<PathBuf>,
    /// A file of bearer tokens that may look and change, one a line [env: DELAYQ_OPERATOR_TOKENS, the tokens themselves]
    #[arg(long, value_name = "FILE")]
    operator_tokens: Option<PathBuf>,
    /// Answer /metrics without a token
    #[arg(long)]
    metrics_open: bool,
    #[command(flatten)]
    bounds: Bounds,
    /// The tokens, once they were read: a pipe has them once.
    #[arg(skip)]
    gathered: OnceLock<Arc<Tokens>>,
}

/// What the handlers share.
pub(crate) struct Service {
    client: Client,
    tokens: Arc<Tokens>,
    metrics_open: bool,
    bounds: Bounds,
    rate: Rate,
    audit: Audit,
    /// A place for each change under way.
    changes: Arc<Semaphore>,
    metrics: Metrics,
    /// Whether a script ran, lately.
    ready: Cached<bool>,
    /// The store's part of the metrics, lately.
    gauges: Cached<Arc<str>>,
}

/// As axum hands it to the handlers.
type App = Arc<Service>;

impl fmt::Debug for Service {
    // Tokens have no place in a log, not even their hashes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("client", &self.client).finish_non_exhaustive()
    }
}

#[derive(Debug, Serialize)]
struct Listening {
    listening: String,
}

impl Options {
    /// Refuses what would be open to the network, before anything is connected to.
    pub(crate) fn check(&self) -> Outcome {
        let tokens = self.tokens()?;
        if tokens.is_empty() && !self.listen.ip().is_loopback() {
            return Err(Failure::Usage(format!(
                "{} can be reached from beyond this machine, and there is no token: give --operator-tokens FILE or \
                 --reader-tokens FILE, or listen on 127.0.0.1",
                self.listen
            )));
        }
        self.bounds.check()
    }

    fn tokens(&self) -> Outcome<Arc<Tokens>> {
        if let Some(tokens) = self.gathered.get() {
            return Ok(tokens.clone());
        }
        let tokens = Tokens::gather(self.reader_tokens.as_deref(), self.operator_tokens.as_deref())?;
        Ok(self.gathered.get_or_init(|| Arc::new(tokens)).clone())
    }
}

pub(crate) async fn run(session: &mut Session, audit_log: Option<&Path>, options: Options) -> Outcome {
    let tokens = options.tokens()?;
    if tokens.is_empty() {
        remark("there is no token: whoever is on this machine may look and change");
    }
    let listener = listen::bind(options.listen).await?;
    let listening = format!("http://{}", listener.local_addr()?);
    let bounds = options.bounds.clone();
    let app: App = Arc::new(Service {
        client: session.client.clone(),
        tokens,
        metrics_open: options.metrics_open,
        rate: Rate::new(bounds.rate),
        bounds: bounds.clone(),
        audit: Audit::open(audit_log)?,
        changes: Arc::new(Semaphore::new(CHANGES_MAX as usize)),
        metrics: Metrics::install()?,
        ready: Cached::new(health::FRESH),
        gauges: Cached::new(metrics::FRESH),
    });
    let changes = app.changes.clone();
    let upkeep = tokio::spawn(metrics::upkeep(app.clone()));
    if session.out.json {
        session.out.json_line(&Listening { listening })?;
    } else {
        session.out.line(format!("listening on {listening}"))?;
    }
    session.out.flush()?;
    listen::serve(listener, routes::router(app), &bounds, &changes).await;
    upkeep.abort();
    Ok(())
}
