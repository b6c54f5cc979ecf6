//! How a process of the campaign comes to its store: it tries until the store is there, as a supervisor would let it.

use std::time::Duration;

use delayq::{Client, ClientBuilder, Error};

use crate::history::{Journal, What};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// A client's builder, impatient as the campaign wants it.
pub(crate) fn builder(response_ms: u64) -> ClientBuilder {
    let patience = Duration::from_millis(response_ms);
    Client::builder().connect_timeout(patience).response_timeout(patience)
}

/// Connects; what can pass is written into the history and tried again.
pub(crate) async fn join(builder: ClientBuilder, url: &str, journal: &Journal) -> Result<Client, Error> {
    loop {
        match builder.clone().connect(url).await {
            Err(error) if error.is_temporary() => {
                journal.tell(What::Alarm { text: format!("can't start yet: {:?}: {error}", error.kind()) });
                tokio::time::sleep(PAUSE).await;
            }
            joined => return joined,
        }
    }
}
