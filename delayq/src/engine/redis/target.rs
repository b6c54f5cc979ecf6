//! Where the server is and how it is spoken to: URL, timeouts, TLS; and what to say when that doesn't work.

use std::fmt;
use std::sync::Once;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind as RedisKind, RedisError, TlsMode, Value,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::address::{Address, Place, Sentinels};
use super::{advice, cluster, eviction, failure};
use crate::error::{Error, ErrorKind};
use crate::limits::{CALL_TIMEOUT_MAX, CONNECTIONS_MAX};

/// The oldest server that has every command the scripts use (SMISMEMBER, ZMSCORE).
const OLDEST: (u32, u32) = (6, 2);

/// How long a server that hung up is listened to once more.
const GREETING: Duration = Duration::from_millis(100);
/// So long a packet may be lost again and again without its connection being given up.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MIN: Duration = Duration::from_secs(3);
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

impl Settings {
    /// What can't be used is refused here, once for all that is connected with it.
    pub(super) fn check(&self) -> Result<(), Error> {
        let is_timeout = |timeout: Duration| !timeout.is_zero() && timeout <= CALL_TIMEOUT_MAX;
        if !(1..=CONNECTIONS_MAX).contains(&self.pool_size)
            || !is_timeout(self.connect_timeout)
            || !is_timeout(self.response_timeout)
        {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "the pool size must be 1 to {CONNECTIONS_MAX}, connect timeout and response timeout above zero and at most \
                     {CALL_TIMEOUT_MAX:?}"
                ),
            ));
        }
        Ok(())
    }
}

/// How a server is found, each time that a connection is made.
enum Way {
    /// It is always this one.
    Fixed(Client),
    /// It is the one that Sentinels call the primary.
    Followed(Sentinels),
}

/// A server to connect to.
pub struct Target {
    way: Way,
    shown: String,
    /// Another server may take the place of this one.
    is_replaceable: bool,
    pub(super) settings: Settings,
    /// Rises when a connection breaks or can't be made, of any engine with this target: the others may be dead as well,
    /// and one that only waits would not notice.
    pub(super) broken: watch::Sender<u64>,
}

/// The kinds of server that HELLO tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Standalone,
    Cluster,
}

impl Target {
    /// Reads a URL of one server: `redis://`, `rediss://` (TLS), `redis+unix://` or `unix://`, with user, password and db number; or
    /// `redis-sentinel://`, which is whichever server Sentinels call the primary.
    ///
    /// # Errors
    /// It can't be used; the error says why, without its password.
    pub fn parse(url: &str, settings: Settings) -> Result<Target, Error> {
        Target::of(Address::parse(url)?, settings)
    }

    pub(super) fn of(address: Address, settings: Settings) -> Result<Target, Error> {
        settings.check()?;
        let way = match address.place {
            Place::Server(info) => {
                let tcp = impatient(info.tcp_settings().clone(), &settings);
                Way::Fixed(open(info.set_tcp_settings(tcp))?)
            }
            Place::Sentinels(sentinels) => {
                install_provider();
                Way::Followed(sentinels)
            }
            Place::Cluster(_) => return Err(Error::new(ErrorKind::Config, "a cluster is more than one server")),
        };
        let is_replaceable = matches!(way, Way::Followed(_));
        Ok(Target { way, shown: address.shown, is_replaceable, settings, broken: watch::Sender::new(0) })
    }

    /// The same as a node of a cluster.
    pub(super) fn one_of_several(self) -> Target {
        Target { is_replaceable: true, ..self }
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
        match tokio::time::timeout(self.settings.connect_timeout, async {
            match &self.way {
                Way::Fixed(client) => client.get_multiplexed_async_connection_with_config(&config).await,
                // Asked anew each time: the one that was the primary may be so no more. No connection to a Sentinel is kept, so that
                // none can be found dead when it matters.
                Way::Followed(sentinels) => {
                    primary(sentinels, &self.settings)
                        .await?
                        .get_multiplexed_async_connection_with_config(&config)
                        .await
                }
            }
        })
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
        let Some(ConnectionAddr::Tcp(host, port)) = self.addr() else { return None };
        let read = async {
            let mut text = [0; 512];
            let mut stream = TcpStream::connect((host.as_str(), *port)).await.ok()?;
            let length = stream.read(&mut text).await.ok()?;
            let text = String::from_utf8_lossy(text[..length].strip_prefix(b"-")?).trim().to_owned();
            Some(RedisError::from((RedisKind::Io, "refused", text)))
        };
        tokio::time::timeout(GREETING.min(self.settings.connect_timeout), read).await.ok().flatten()
    }

    fn addr(&self) -> Option<&ConnectionAddr> {
        match &self.way {
            Way::Fixed(client) => Some(client.get_connection_info().addr()),
            Way::Followed(_) => None,
        }
    }

    /// Looks at what answers, and whether it is of the kind that is expected there.
    pub(super) async fn probe(&self, expected: Mode) -> Result<(), Error> {
        let mut connection =
            self.open(Some(self.settings.response_timeout)).await.map_err(|error| self.connect_failure(&error))?;
        let hello = connection
            .send_packed_command(&redis::cmd("HELLO"))
            .await
            .and_then(Value::extract_error)
            .map_err(|error| self.probe_failure(&error))?;
        match (expected, field(&hello, "mode").as_deref()) {
            // One that has all slots can be worked with as any other; and what stands before a cluster may say what its nodes do.
            (Mode::Standalone, Some("cluster")) => {
                let how = "give redis-cluster://host:port, with a node or several, joined by ','";
                match self.primaries(&mut connection).await {
                    Ok(..=1) => {}
                    Ok(_) => {
                        return Err(Error::new(ErrorKind::Config, format!("{self} is a node of a cluster: {how}")));
                    }
                    Err(error) if failure::code(&error) == "NOPERM" => {
                        let text = format!(
                            "{self} is a node of a cluster, and does not let this user ask for its slots: {how}, and the user \
                             the right +cluster|slots"
                        );
                        return Err(Error::new(ErrorKind::Denied, text));
                    }
                    // Whatever it is, it doesn't know of slots.
                    Err(_) => {}
                }
            }
            (_, Some("sentinel")) => {
                let how = "give redis-sentinel://host:port/name, with the name that it has for the primary";
                return Err(Error::new(ErrorKind::Config, format!("{self} is a Sentinel: {how}")));
            }
            _ => {}
        }
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

    /// How many nodes of its cluster take writes.
    async fn primaries(&self, connection: &mut MultiplexedConnection) -> Result<usize, RedisError> {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let answer = connection.send_packed_command(&command).await.and_then(Value::extract_error)?;
        Ok(cluster::primaries(&answer))
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

    /// What a failed connection means while work is under way: where another server may take the place of this one, nothing that was
    /// met here is final.
    pub(super) fn passing_failure(&self, error: &RedisError) -> Error {
        let error = self.connect_failure(error);
        match error.kind() {
            ErrorKind::Config | ErrorKind::Unsupported if self.is_replaceable => {
                Error::new(ErrorKind::Unreachable, error.to_string())
            }
            _ => error,
        }
    }

    /// What a failed connection means.
    pub(super) fn connect_failure(&self, error: &RedisError) -> Error {
        let text = cause(error);
        let code = failure::code(error);
        let advice = advice::on_answer(&text);
        if code == "NOAUTH" && matches!(self.way, Way::Followed(_)) {
            let how = "give that of the servers as in redis-sentinel://user:password@host/name, and that of the Sentinels by \
                       ?sentinel_user=..&sentinel_password=..";
            return Error::new(ErrorKind::Denied, format!("a password is wanted behind {self}: {how}"));
        }
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
        if matches!(error.kind(), RedisKind::MasterNameNotFoundBySentinel) {
            let how = "correct the name in the URL, or wait for the failover that goes on";
            let text = format!("no Sentinel of {self} knows a living primary of that name: {how}");
            return Error::new(ErrorKind::Unreachable, text);
        }
        if matches!(error.kind(), RedisKind::InvalidClientConfig) {
            let text = format!("what answers for {self} is no Sentinel: correct hosts and ports in the URL");
            return Error::new(ErrorKind::Config, text);
        }
        let advice = advice::on_connection(error, &text, self.addr());
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

/// TLS needs to know by what it is done.
fn install_provider() {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // The application may have chosen another one: then that is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

fn open(info: ConnectionInfo) -> Result<Client, Error> {
    install_provider();
    // What the client says of an address could quote it.
    Client::open(info).map_err(|_| Error::new(ErrorKind::Config, "the URL can't be used: it is not well-formed"))
}

/// What was sent and is not acknowledged, as where a network swallows packets, is given up about when its answer is. Otherwise the kernel goes on sending
/// it for minutes: a send that was repeated in vain would reach the server after its job has ended and is forgotten.
#[cfg(target_os = "linux")]
fn impatient(tcp: TcpSettings, settings: &Settings) -> TcpSettings {
    tcp.set_user_timeout(settings.response_timeout.max(UNACKNOWLEDGED_MIN))
}

#[cfg(not(target_os = "linux"))]
fn impatient(tcp: TcpSettings, _: &Settings) -> TcpSettings {
    tcp
}

/// The primary, as the first of the Sentinels says that knows one which says so itself.
async fn primary(sentinels: &Sentinels, settings: &Settings) -> Result<Client, RedisError> {
    let ask = |sentinel| async move { follower(sentinels, sentinel, settings)?.async_get_client().await };
    let mut lookups: FuturesUnordered<_> = sentinels.sentinels.iter().map(ask).collect();
    let mut told: Option<RedisError> = None;
    while let Some(found) = lookups.next().await {
        match found {
            Ok(client) => return Ok(client),
            Err(error) if told.as_ref().is_none_or(|told| weight(told) <= weight(&error)) => told = Some(error),
            Err(_) => {}
        }
    }
    Err(told.unwrap_or_else(|| (RedisKind::InvalidClientConfig, "no Sentinel is named").into()))
}

/// Which of several errors says the most: what was refused in words rather than what was silent.
fn weight(error: &RedisError) -> u8 {
    match error.kind() {
        RedisKind::AuthenticationFailed => 3,
        _ if error.code().is_some() => 3,
        RedisKind::MasterNameNotFoundBySentinel => 2,
        // It is no Sentinel that was asked.
        RedisKind::InvalidClientConfig | RedisKind::Parse | RedisKind::UnexpectedReturnType => 0,
        _ => 1,
    }
}

/// Asks a Sentinel for the primary, and the one that it names whether it is one.
fn follower(
    sentinels: &Sentinels,
    sentinel: &ConnectionInfo,
    settings: &Settings,
) -> Result<SentinelClient, RedisError> {
    let addr = [sentinel.addr().clone()];
    let mut builder = SentinelClientBuilder::new(addr, &sentinels.name, SentinelServerType::Master)?;
    let login = sentinel.redis_settings();
    if let Some(username) = login.username() {
        builder = builder.set_client_to_sentinel_username(username);
    }
    if let Some(password) = login.password() {
        builder = builder.set_client_to_sentinel_password(password);
    }
    let primary = sentinels.primary.redis_settings();
    builder = builder.set_client_to_redis_db(primary.db());
    if let Some(username) = primary.username() {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = primary.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if matches!(sentinels.primary.addr(), ConnectionAddr::TcpTls { .. }) {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    builder.set_client_to_redis_tcp_settings(impatient(TcpSettings::default(), settings)).build()
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

/// A field of what HELLO tells.
fn field(hello: &Value, name: &str) -> Option<String> {
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
    let at = fields.iter().position(|field| text(field).as_deref() == Some(name))?;
    text(fields.get(at + 1)?)
}

/// Major and minor of the version that HELLO tells; a fork tells that of the Redis it is compatible with.
fn version(hello: &Value) -> Option<(u32, u32)> {
    let version = field(hello, "version")?;
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

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
