//! From where the URL comes, and how the store is connected to.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use delayq::{Client, Durability};

use crate::cli::Global;
use crate::failure::{Failure, Outcome};

/// For so long a call is repeated at most: the library allows no more.
const DEADLINE_MAX: Duration = Duration::from_secs(10);
/// For so long one call waits for replicas at most, and no longer than half of what the store may take to answer.
const REPLICAS_WAIT_MAX: Duration = Duration::from_secs(1);

/// Connects as the options and the environment say. `creates` says whether a database that isn't there may be made.
pub(crate) async fn connect(global: &Global, creates: bool) -> Outcome<Client> {
    let url = url(global)?;
    if let Some(path) = sqlite_path(&url)? {
        // A name that was mistyped would become an empty database, and all would look well.
        if !creates && !path.exists() {
            return Err(Failure::Refused(format!("there is no database {}", path.display())));
        }
    }
    let timeout = global.timeout.max(Duration::from_millis(1));
    let durability = match global.wait_replicas {
        0 => Durability::Server,
        count => Durability::Replicas { count, within: (timeout / 2).min(REPLICAS_WAIT_MAX) },
    };
    let builder = Client::builder()
        .durability(durability)
        .prefix(&global.prefix)
        .pool_size(2)
        .connect_timeout(timeout)
        .response_timeout(timeout)
        .send_deadline(timeout.min(DEADLINE_MAX))
        .payload_limit(delayq::limits::PAYLOAD_BYTES_CEILING);
    Ok(builder.connect(&url).await?)
}

/// The store as it may be shown: no user, no password.
pub(crate) fn shown(global: &Global) -> Outcome<String> {
    Ok(without_secrets(&url(global)?))
}

/// Whatever may be a secret is left out, also of a URL that is none.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let server = rest.rsplit_once('@').map_or(rest, |(_, server)| server);
    let server = server.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{}", server.trim_end_matches('/'))
}

fn url(global: &Global) -> Outcome<String> {
    if let Some(url) = &global.url {
        return Ok(url.clone());
    }
    if let Some(file) = &global.url_file {
        return from_file(file);
    }
    let (url, file) = (env::var("DELAYQ_URL").ok(), env::var_os("DELAYQ_URL_FILE").map(PathBuf::from));
    match (url.filter(|url| !url.is_empty()), file.filter(|file| !file.as_os_str().is_empty())) {
        (Some(_), Some(_)) => {
            Err(Failure::Usage("DELAYQ_URL and DELAYQ_URL_FILE are both set: unset one of them".to_owned()))
        }
        (Some(url), None) => Ok(url),
        (None, Some(file)) => from_file(&file),
        (None, None) => Err(Failure::Usage(
            "no store is named: set DELAYQ_URL, or give --url redis://host/ or --url sqlite://jobs.db".to_owned(),
        )),
    }
}

fn from_file(file: &Path) -> Outcome<String> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("the URL can't be read from {}: {error}", file.display())))?;
    match text.lines().next().map(str::trim).filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(Failure::Usage(format!("{} has no URL in its first line", file.display()))),
    }
}

/// The file of an embedded store.
fn sqlite_path(url: &str) -> Outcome<Option<PathBuf>> {
    if matches!(url, "sqlite::memory:" | "sqlite://:memory:") {
        return Err(Failure::Usage(
            "what is in memory ends with this command: name a file, --url sqlite://jobs.db".to_owned(),
        ));
    }
    let path = url.strip_prefix("sqlite://").and_then(|rest| rest.split('?').next());
    Ok(path.filter(|path| !path.is_empty()).map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s22_a_store_is_shown_without_its_secrets() {
        for (url, shown) in [
            ("redis://127.0.0.1:6379/", "redis://127.0.0.1:6379"),
            ("redis://:s3cret@redis.internal/3", "redis://redis.internal/3"),
            ("rediss://user:s3/c?r@e#t@redis.internal", "rediss://redis.internal"),
            ("redis+unix:///run/redis.sock?user=a&pass=s3cret", "redis+unix:///run/redis.sock"),
            ("redis-cluster://:s3@cret@n1:7000,n2", "redis-cluster://n1:7000,n2"),
            (
                "redis-sentinel://u:s3cret@s1,s2:26379/main/0?sentinel_password=s3cret",
                "redis-sentinel://s1,s2:26379/main/0",
            ),
            ("sqlite://jobs.db", "sqlite://jobs.db"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
