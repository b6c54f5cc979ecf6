//! Reads a URL: a server, Sentinels that know one, or the nodes of a cluster.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::error::{Error, ErrorKind};

/// How many Sentinels or nodes a URL may name.
const NAMED_MAX: usize = 32;
/// Where Sentinels listen unless said otherwise.
const SENTINEL_PORT: &str = ":26379";

/// Where a URL leads.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// To this server.
    Server(ConnectionInfo),
    /// To whichever server these Sentinels call the primary.
    Sentinels(Sentinels),
    /// To the cluster that these nodes belong to.
    Cluster(Vec<ConnectionInfo>),
}

/// Sentinels, and whom to ask them for.
#[derive(Debug, Clone)]
pub(super) struct Sentinels {
    /// Where they are, and the user and password for them.
    pub(super) sentinels: Vec<ConnectionInfo>,
    /// What they call the primary.
    pub(super) name: String,
    /// How the primary is logged in to: its address isn't one.
    pub(super) primary: ConnectionInfo,
}

/// A URL that was read.
#[derive(Debug, Clone)]
pub(super) struct Address {
    pub(super) place: Place,
    /// As it may be shown: no user, no password.
    pub(super) shown: String,
}

fn refused(why: impl fmt::Display) -> Error {
    Error::new(
        ErrorKind::Config,
        format!(
            "the URL can't be used ({why}): give redis://[user:password@]host[:port][/db], rediss:// for TLS, \
             redis+unix:///path/to/socket[?db=0&pass=..], redis-sentinel://[user:password@]host[:port],../name[/db] or \
             redis-cluster://[user:password@]host[:port],.."
        ),
    )
}

impl Address {
    /// Reads a URL.
    ///
    /// # Errors
    /// It can't be used; the error says why, without its password.
    pub(super) fn parse(url: &str) -> Result<Address, Error> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let read = match scheme {
            "redis" | "rediss" | "redis+unix" | "unix" => server,
            "redis-sentinel" | "rediss-sentinel" => sentinels,
            "redis-cluster" | "rediss-cluster" => cluster,
            _ => return Err(refused("it starts with none of the known schemes")),
        };
        if url.contains('#') {
            // The client reads "#insecure" as: don't check the host name.
            return Err(refused(
                "it has a '#' part; a server's certificate is always checked, and a '#' in a password is written %23",
            ));
        }
        read(url, scheme, rest)
    }
}

/// What the client makes of a URL; what it says of one could quote it, and is not repeated.
fn info(url: &str) -> Result<ConnectionInfo, Error> {
    url.into_connection_info().map_err(|_| refused("it is not well-formed"))
}

fn server(url: &str, _scheme: &str, _rest: &str) -> Result<Address, Error> {
    let info = info(url)?;
    let db = info.redis_settings().db();
    let addr = shown_addr(info.addr());
    let shown = match info.addr() {
        ConnectionAddr::Tcp(..) => format!("redis://{addr}/{db}"),
        ConnectionAddr::TcpTls { .. } => format!("rediss://{addr}/{db}"),
        ConnectionAddr::Unix(path) => format!("redis+unix://{}?db={db}", path.display()),
        _ => "the server".to_owned(),
    };
    Ok(Address { place: Place::Server(info), shown })
}

/// Host and port as a URL has them.
pub(super) fn shown_addr(addr: &ConnectionAddr) -> String {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } if host.contains(':') => {
            format!("[{host}]:{port}")
        }
        _ => addr.to_string(),
    }
}

/// The parts of a URL that names several hosts.
struct Parts<'u> {
    /// `redis` or `rediss`: how each of them is spoken to.
    scheme: &'static str,
    /// User and password as they stand there, with the `@`.
    login: &'u str,
    hosts: Vec<&'u str>,
    path: &'u str,
    query: &'u str,
}

impl<'u> Parts<'u> {
    fn of(scheme: &str, rest: &'u str) -> Result<Parts<'u>, Error> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (named, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A password may have an '@' in it, a host can't.
        let (login, hosts) = named.split_at(named.rfind('@').map_or(0, |at| at + 1));
        let hosts: Vec<&str> = hosts.split(',').collect();
        if hosts.iter().any(|host| host.is_empty()) {
            return Err(refused("between its commas stands no host"));
        }
        if hosts.len() > NAMED_MAX {
            return Err(refused(format_args!("it names {} hosts, more than {NAMED_MAX}", hosts.len())));
        }
        let scheme = if scheme.starts_with("rediss") { "rediss" } else { "redis" };
        Ok(Parts { scheme, login, hosts, path, query })
    }

    /// Each host as the client reads it.
    fn infos(&self, login: &str, default_port: &str) -> Result<Vec<ConnectionInfo>, Error> {
        let each = self.hosts.iter().map(|host| {
            // What follows the ']' of an IPv6 address, or the whole name.
            let after = host.rsplit(']').next().unwrap_or_default();
            let port = if after.contains(':') { "" } else { default_port };
            info(&format!("{}://{login}{host}{port}/", self.scheme))
        });
        each.collect()
    }

    fn shown(&self, kind: &str, infos: &[ConnectionInfo]) -> String {
        let hosts: Vec<String> = infos.iter().map(|info| shown_addr(info.addr())).collect();
        format!("{}-{kind}://{}", self.scheme, hosts.join(","))
    }
}

/// `redis-sentinel://[user:password@]host[:port][,host[:port]..]/name[/db][?sentinel_user=..&sentinel_password=..]`
fn sentinels(_url: &str, scheme: &str, rest: &str) -> Result<Address, Error> {
    let parts = Parts::of(scheme, rest)?;
    let (name, db) = parts.path.split_once('/').unwrap_or((parts.path, ""));
    let db = if db.is_empty() { "0" } else { db };
    // Sentinel allows no other characters in it.
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b)) {
        return Err(refused("after the hosts of Sentinels, it must name the primary as they do: /mymaster"));
    }
    let (mut user, mut password) = ("", "");
    for pair in parts.query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel_user", value)) => user = value,
            Some(("sentinel_password", value)) => password = value,
            _ => {
                return Err(refused(
                    "after the '?' it may have sentinel_user=.. and sentinel_password=.., joined by '&'",
                ));
            }
        }
    }
    // Like the other one it is percent-encoded.
    let login = if password.is_empty() { String::new() } else { format!("{user}:{password}@") };
    let sentinels = parts.infos(&login, SENTINEL_PORT)?;
    let primary = info(&format!("{}://{}primary/{db}", parts.scheme, parts.login))?;
    let shown = format!("{}/{name}/{}", parts.shown("sentinel", &sentinels), primary.redis_settings().db());
    Ok(Address { place: Place::Sentinels(Sentinels { sentinels, name: name.to_owned(), primary }), shown })
}

/// `redis-cluster://[user:password@]host[:port][,host[:port]..]`
fn cluster(_url: &str, scheme: &str, rest: &str) -> Result<Address, Error> {
    let parts = Parts::of(scheme, rest)?;
    if !matches!(parts.path, "" | "0") {
        return Err(refused("a cluster has no db but 0: nothing may follow its hosts"));
    }
    if !parts.query.is_empty() {
        return Err(refused("that of a cluster has nothing after a '?'"));
    }
    let nodes = parts.infos(parts.login, "")?;
    let shown = parts.shown("cluster", &nodes);
    Ok(Address { place: Place::Cluster(nodes), shown })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).shown
    }

    fn said(url: &str) -> String {
        let said = Address::parse(url).expect_err(url).to_string();
        assert!(!said.contains("SECRET"), "{said}");
        said
    }

    #[test]
    fn what_is_shown_has_neither_user_nor_password() {
        assert_eq!(shown("redis://user:pw@h:7/2"), "redis://h:7/2");
        assert_eq!(shown("rediss://:pw@h/"), "rediss://h:6379/0");
        assert_eq!(shown("redis+unix:///s.sock?pass=pw"), "redis+unix:///s.sock?db=0");
        assert_eq!(shown("redis://[::1]:7/"), "redis://[::1]:7/0");
        assert_eq!(
            shown("redis-sentinel://u:p%40@s1,s2:7,[::1]/my.master-1/3?sentinel_user=a&sentinel_password=b"),
            "redis-sentinel://s1:26379,s2:7,[::1]:26379/my.master-1/3"
        );
        assert_eq!(shown("rediss-sentinel://s1/m"), "rediss-sentinel://s1:26379/m/0");
        assert_eq!(shown("redis-cluster://u:p@w@n1:7000,n2"), "redis-cluster://n1:7000,n2:6379");
        assert_eq!(shown("rediss-cluster://n1/"), "rediss-cluster://n1:6379");
    }

    #[test]
    fn sentinels_and_the_primary_have_logins_of_their_own() {
        let url = "redis-sentinel://u%3A:p%40@s1,s2/m/3?sentinel_user=a&sentinel_password=%2Fb";
        let Place::Sentinels(Sentinels { sentinels, name, primary }) = Address::parse(url).expect("it is one").place
        else {
            panic!("not Sentinels");
        };
        let primary = primary.redis_settings();
        assert_eq!((primary.username(), primary.password(), primary.db()), (Some("u:"), Some("p@"), 3));
        for sentinel in &sentinels {
            let login = sentinel.redis_settings();
            assert_eq!((login.username(), login.password(), login.db()), (Some("a"), Some("/b"), 0));
        }
        assert_eq!((sentinels.len(), name.as_str()), (2, "m"));
        let Place::Sentinels(plain) = Address::parse("redis-sentinel://u:p@s1/m").expect("it is one").place else {
            panic!("not Sentinels");
        };
        assert_eq!(
            plain.sentinels[0].redis_settings().password(),
            None,
            "that of the primary is not told to Sentinels"
        );
    }

    #[test]
    fn each_node_of_a_cluster_gets_the_login() {
        let Place::Cluster(nodes) = Address::parse("rediss-cluster://u:p,w@n1,n2:7000").expect("it is one").place
        else {
            panic!("no cluster");
        };
        for node in &nodes {
            assert_eq!(node.redis_settings().password(), Some("p,w"));
            assert!(matches!(node.addr(), ConnectionAddr::TcpTls { insecure: false, .. }));
        }
    }

    #[test]
    fn what_can_not_be_used_is_told_without_its_password() {
        for (url, why) in [
            ("localhost:6379", "schemes"),
            ("http://user:SECRET@h/", "schemes"),
            ("redis-sentinel://:SECRET@s1,s2/", "must name the primary"),
            ("redis-sentinel://:SECRET@s1,s2/a%20b", "must name the primary"),
            ("redis-sentinel://:SECRET@s1,,s2/m", "no host"),
            ("redis-sentinel:///m", "no host"),
            ("redis-sentinel://:SECRET@s1/m/x", "not well-formed"),
            ("redis-sentinel://s1/m?password=SECRET", "sentinel_password=.."),
            ("redis-cluster://:SECRET@n1/1", "no db but 0"),
            ("redis-cluster://:SECRET@n1?db=1", "nothing after a '?'"),
            ("redis-cluster://:SECRET@n1:port", "not well-formed"),
            ("rediss-cluster://:SECRET@n1#insecure", "always checked"),
            ("rediss://user:SECRET@localhost:6379/#insecure", "always checked"),
        ] {
            let said = said(url);
            assert!(said.contains(why), "{url}: {said}");
        }
        let many = format!("redis-cluster://{}", vec!["n"; NAMED_MAX + 1].join(","));
        assert!(said(&many).contains("33 hosts"));
        assert!(Address::parse(&many.replacen("n,", "", 1)).is_ok());
    }
}
