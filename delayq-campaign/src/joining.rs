//! What every process of the campaign is told, and how it comes to its store and to the history.

use std::path::PathBuf;
use std::time::Duration;

use delayq::{Client, ClientBuilder, Error};

use crate::history::{Journal, What};

/// Between two tries to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// What each is told on its command line.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Member {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) name: String,
    #[arg(long)]
    pub(crate) history: PathBuf,
    /// How long an answer is waited for, ms.
    #[arg(long, default_value_t = 1500)]
    pub(crate) response_ms: u64,
}

impl Member {
    pub(crate) fn journal(&self) -> std::io::Result<Journal> {
        Journal::open(&self.history, &self.name)
    }

    /// The builder of its client, impatient as the campaign wants it.
    pub(crate) fn client(&self) -> ClientBuilder {
        let patience = Duration::from_millis(self.response_ms);
        Client::builder().connect_timeout(patience).response_timeout(patience)
    }

    /// Connects. While the store is away it tries again, as a supervisor would let it, and writes that into the history.
    pub(crate) async fn join(&self, client: ClientBuilder, journal: &Journal) -> Result<Client, Error> {
        loop {
            match client.clone().connect(&self.url).await {
                Err(error) if error.is_temporary() => {
                    journal.tell(What::Alarm { text: format!("can't start yet: {:?}: {error}", error.kind()) });
                    tokio::time::sleep(PAUSE).await;
                }
                joined => return joined,
            }
        }
    }
}
