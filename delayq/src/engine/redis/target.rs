//! Where the server is and how it is spoken to: URL, timeouts, TLS; and what to say when that doesn't work.

use std::fmt;
use std::sync::Once;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind as RedisKind, IntoConnectionInfo, RedisError, Value,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::{advice, eviction, failure};
use crate::error::{Error, ErrorKind};

/// The oldest server that has every command the scripts use (SMISMEMBER, ZMSCORE).
const OLDEST: (u32, u32) = (6, 2);

/// How long a server that hung up is listened to once more.
const GREETING: Duration = Duration::from_millis(100);
/// What is repeated of a server's own words, in characters: it may be anybody who answers.
const QUOTED_MAX: usize = 200;

/// How a server is spoken to.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Multiplexed connections for commands.
    pub pool_size: u32,
    /// How long connecting may take, names, TLS and login included.
    pub connect_timeout: Duration,
    /// How long a command may take.
    pub response_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { pool_size: 2, connect_timeout: Duration::from_secs(3), response_timeout: Duration::from_secs(3) }
    }
}

/// A server to connect to.
pub struct Target {
    client: Client,
    shown: String,
    pub(super) settings: Settings,
    /// Rises when a connection breaks or can't be made, of any engine with this target: the others may be dead as well,
    /// and one that only waits would not notice.
    pub(super) broken: watch::Sender<u64>,
}

impl Target {
    /// Reads a URL: `redis://`, `rediss://` (TLS), `redis+unix://` or `unix://`, with user, password and db number.
    ///
    /// # Errors
    /// It can't be used; the error says why, without its password.
    pub fn parse(url: &str, settings: Settings) -> Result<Target, Error> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // The application may have chosen another one: then that is used.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let refused = |why: &dyn fmt::Display| {
            Error::new(
                ErrorKind::Config,
                format!(
                    "the URL can't be used ({why}): give redis://[user:password@]host[:port][/db], rediss:// for TLS, \
                     or redis+unix:///path/to/socket[?db=0&pass=..]"
                ),
            )
        };
        let scheme = url.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
        if !matches!(scheme, "redis" | "rediss" | "redis+unix" | "unix") {
            return Err(refused(&"it starts with none of the known schemes"));
        }
        if url.contains('#') {
            // The client reads "#insecure" as: don't check the host name.
            return Err(refused(
                &"it has a '#' part; a server's certificate is always checked, and a '#' in a password is written %23",
            ));
        }
        if settings.pool_size == 0 || settings.connect_timeout.is_zero() || settings.response_timeout.is_zero() {
            return Err(Error::new(
                ErrorKind::Config,
                "pool size, connect timeout and response timeout must be above zero",
            ));
        }
        // redis+unix is the client's name for it; what the client says of a URL could quote it, so it is not repeated.
        let info = url.into_connection_info().map_err(|_| refused(&"it is not well-formed"))?;
        let shown = shown(info.addr(), info.redis_settings().db());
        let client = Client::open(info).map_err(|_| refused(&"it is not well-formed"))?;
        Ok(Target { client, shown, settings, broken: watch::Sender::new(0) })
    }

    /// Makes every waiting connection to this server be made anew.
    pub(super) fn distrust(&self) {
        self.broken.send_modify(|count| *count += 1);
    }

    /// Opens a connection; without a response timeout it may be used for what blocks.
    pub(super) async fn open(&self, response_timeout: Option<Duration>) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.settings.connect_timeout))
            .set_response_timeout(response_timeout);
        // The client's own timeout doesn't cover the login of every server that accepts and then says nothing.
        match tokio::time::timeout(
            self.settings.connect_timeout,
            self.client.get_multiplexed_async_connection_with_config(&config),
        )
        .await
        {
            Ok(Err(error)) if error.is_connection_dropped() => Err(self.greeting().await.unwrap_or(error)),
            Ok(opened) => opened,
            Err(_) => Err(RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))),
        }
    }

    /// What a server says that hangs up on a newcomer at once, such as that it has too many clients: that text comes
    /// before anything is asked, and gets lost when the login meets the closed connection first.
    async fn greeting(&self) -> Option<RedisError> {
        let ConnectionAddr::Tcp(host, port) = self.client.get_connection_info().addr() else { return None };
        let read = async {
            let mut text = [0; 512];
            let mut stream = TcpStream::connect((host.as_str(), *port)).await.ok()?;
            let length = stream.read(&mut text).await.ok()?;
            let text = String::from_utf8_lossy(text[..length].strip_prefix(b"-")?).trim().to_owned();
            Some(RedisError::from((RedisKind::Io, "refused", text)))
        };
        tokio::time::timeout(GREETING.min(self.settings.connect_timeout), read).await.ok().flatten()
    }

    /// Looks at what answers.
    pub(super) async fn probe(&self) -> Result<(), Error> {
        let mut connection =
            self.open(Some(self.settings.response_timeout)).await.map_err(|error| self.connect_failure(&error))?;
        let hello = connection
            .send_packed_command(&redis::cmd("HELLO"))
            .await
            .and_then(Value::extract_error)
            .map_err(|error| self.probe_failure(&error))?;
        match version(&hello) {
            Some((major, minor)) if (major, minor) < OLDEST => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{self} is version {major}.{minor}: delayq needs Redis {}.{} or later", OLDEST.0, OLDEST.1),
            )),
            Some(_) => {
                eviction::warn(&mut connection, self).await;
                Ok(())
            }
            None => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{self} does not say which version it is: is it a Redis?"),
            )),
        }
    }

    fn probe_failure(&self, error: &RedisError) -> Error {
        if error.detail().is_some_and(|detail| detail.contains("unknown command")) {
            return Error::new(
                ErrorKind::Unsupported,
                format!("{self} doesn't know HELLO: delayq needs Redis {}.{} or later", OLDEST.0, OLDEST.1),
            );
        }
        match failure::kind_of_call(error) {
            ErrorKind::Unknown | ErrorKind::Denied => self.connect_failure(error),
            kind => {
                let text = cause(error);
                Error::new(kind, format!("{self} answers, but refuses: {text}; {}", advice::on_answer(&text)))
            }
        }
    }

    /// What a failed connection means.
    pub(super) fn connect_failure(&self, error: &RedisError) -> Error {
        let text = cause(error);
        let code = failure::code(error);
        let advice = advice::on_answer(&text);
        if code == "NOAUTH" {
            let how = "give one in the URL, redis://user:password@host:port/db";
            return Error::new(ErrorKind::Denied, format!("{self} wants a password: {how}"));
        }
        if matches!(error.kind(), RedisKind::AuthenticationFailed) || text.contains("WRONGPASS") {
            let how = "correct them in the URL, with %40 for @, %3A for :, %2F for / and %23 for #";
            return Error::new(ErrorKind::Denied, format!("{self} refuses this user and password: {how}"));
        }
        if code == "NOPERM" {
            return Error::new(ErrorKind::Denied, format!("{self} does not let this user connect: {text}; {advice}"));
        }
        if matches!(error.kind(), RedisKind::Parse | RedisKind::UnexpectedReturnType) {
            let text = format!("what answers at {self} is not a Redis: correct host and port in the URL");
            return Error::new(ErrorKind::Unsupported, text);
        }
        if text.contains("DB index is out of range") {
            let how = "give a lower one, or raise `databases` in its configuration";
            return Error::new(ErrorKind::Config, format!("{self} has no db of this number: {text}; {how}"));
        }
        let refused_now = text.contains("max number of clients") || matches!(code, "LOADING" | "MASTERDOWN");
        if refused_now {
            let text = format!("{self} refuses connections at the moment: {text}; {advice}");
            return Error::new(ErrorKind::Unavailable, text);
        }
        let advice = advice::on_connection(error, &text, self.client.get_connection_info().addr());
        let why =
            if error.is_timeout() { format!("no answer within {:?}", self.settings.connect_timeout) } else { text };
        Error::new(ErrorKind::Unreachable, format!("can't connect to {self}: {why}; {advice}"))
    }

    /// No connection of the pool became free, or could be made, in time.
    pub(super) fn no_connection(&self) -> Error {
        self.connect_failure(&RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut)))
    }

    /// What a failed call means.
    pub(super) fn call_failure(&self, operation: &str, error: &RedisError) -> Error {
        let kind = failure::kind_of_call(error);
        let text = cause(error);
        let advice = advice::on_answer(&text);
        let text = match kind {
            ErrorKind::Unknown if error.is_timeout() => {
                format!(
                    "no answer from {self} to {operation} within {:?}: it may have happened, and is safe to repeat with the \
                     same id; is the server overloaded, or the network cut?",
                    self.settings.response_timeout
                )
            }
            ErrorKind::Unknown => {
                format!(
                    "the answer of {self} to {operation} was lost ({text}): it may have happened, and is safe to repeat with \
                     the same id; was the server stopped, or the network cut?"
                )
            }
            ErrorKind::Denied => format!("{self} does not allow {operation}: {text}; {advice}"),
            ErrorKind::Full => format!("{self} is out of memory and refuses {operation}: {text}; {advice}"),
            ErrorKind::Unavailable => format!("{self} refuses {operation} at the moment: {text}; {advice}"),
            ErrorKind::Corrupt => format!("{operation} failed on {self}: {text}; {advice}"),
            _ => format!("{operation} failed on {self}: {text}"),
        };
        Error::new(kind, text)
    }
}

/// The server as it may be shown: no user, no password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

fn shown(addr: &ConnectionAddr, db: i64) -> String {
    match addr {
        ConnectionAddr::Tcp(host, port) => format!("redis://{host}:{port}/{db}"),
        ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{host}:{port}/{db}"),
        ConnectionAddr::Unix(path) => format!("redis+unix://{}?db={db}", path.display()),
        _ => "the server".to_owned(),
    }
}

/// The innermost text that says something.
fn cause(error: &RedisError) -> String {
    let text = match error.detail() {
        Some(detail) => match error.code() {
            Some(code) => format!("{code} {detail}"),
            None => detail.to_owned(),
        },
        None => error.to_string(),
    };
    quoted(&text)
}

/// A server's words as they can stand in a log and on a terminal, before what is to be done: one line, of bounded length, without
/// the place in a script that they came from.
fn quoted(text: &str) -> String {
    let text = text.split(" script: ").next().unwrap_or_default();
    // Control characters, and those that end a line or turn a text round without being any.
    let obeyed = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut line: String = text.chars().map(|c| if obeyed(c) { ' ' } else { c }).take(QUOTED_MAX).collect();
    if text.chars().count() > QUOTED_MAX
        && let Some(end) = line.rfind(". ")
    {
        line.truncate(end);
    }
    line.truncate(line.trim_end_matches([' ', '.']).len());
    line
}

/// Major and minor of the version that HELLO tells; a fork tells that of the Redis it is compatible with.
fn version(hello: &Value) -> Option<(u32, u32)> {
    let pairs;
    let fields = match hello {
        Value::Array(fields) => fields,
        // The same over RESP3.
        Value::Map(map) => {
            pairs = map.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect();
            &pairs
        }
        _ => return None,
    };
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    };
    let at = fields.iter().position(|field| text(field).as_deref() == Some("version"))?;
    let version = text(fields.get(at + 1)?)?;
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_can_not_be_left_unchecked() {
        let refused = Target::parse("rediss://user:SECRET@localhost:6379/#insecure", Settings::default()).err();
        let refused = refused.expect("refused").to_string();
        assert!(refused.contains("always checked") && !refused.contains("SECRET"), "{refused}");
        assert!(Target::parse("rediss://user:secret@localhost:6379/", Settings::default()).is_ok());
    }

    #[test]
    fn a_servers_words_are_one_line_of_whole_sentences() {
        assert_eq!(quoted("ERR no\r\n\u{1b}[31mred\u{202e}"), "ERR no   [31mred");
        let in_script = "OOM command not allowed when used memory > 'maxmemory'. script: 0f3a, on @user_script:176.";
        assert_eq!(quoted(in_script), "OOM command not allowed when used memory > 'maxmemory'");
        let long = format!("MISCONF It can't save. {}", "Look at the log ".repeat(20));
        assert_eq!(quoted(&long), "MISCONF It can't save");
        assert_eq!(quoted(&"x".repeat(1000)).len(), QUOTED_MAX);
    }
}
