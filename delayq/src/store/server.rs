//! What the server behind the store says of itself: questions past the scripts, which a diagnosis asks.

use std::collections::BTreeMap;

use super::Store;
use crate::engine::Reply;
use crate::error::{Error, ErrorKind};

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told<T> {
    /// The answer.
    Answer(T),
    /// The server doesn't tell this user, or doesn't know the command: what it said.
    Withheld(String),
    /// There is no server: the store is in this process.
    NoServer,
}

impl<T> Told<T> {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&T> {
        match self {
            Told::Answer(answer) => Some(answer),
            _ => None,
        }
    }
}

/// What INFO says, by field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Info(BTreeMap<String, String>);

impl Info {
    /// Reads INFO's text.
    pub fn parse(text: &str) -> Info {
        let fields = text.lines().filter_map(|line| line.trim().split_once(':'));
        Info(fields.map(|(field, value)| (field.to_owned(), value.to_owned())).collect())
    }

    /// A field.
    pub fn get(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    /// A field that is a whole number.
    pub fn number(&self, field: &str) -> Option<u64> {
        self.get(field)?.parse().ok()
    }
}

impl Store {
    async fn question(&self, parts: &[&[u8]]) -> Result<Told<Reply>, Error> {
        match self.engine.command(parts).await {
            Ok(Some(reply)) => Ok(Told::Answer(reply)),
            Ok(None) => Ok(Told::NoServer),
            // Whoever runs the server may have taken the command away, from this user or from all.
            Err(error) if error.kind() == ErrorKind::Denied || error.to_string().contains("unknown command") => {
                Ok(Told::Withheld(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// What INFO says.
    ///
    /// # Errors
    /// The call failed.
    pub async fn info(&self) -> Result<Told<Info>, Error> {
        Ok(match self.question(&[b"INFO"]).await? {
            Told::Answer(Reply::Bytes(text)) => Told::Answer(Info::parse(&String::from_utf8_lossy(&text))),
            Told::Answer(_) => Told::Withheld("INFO answers in an unknown form".to_owned()),
            Told::Withheld(why) => Told::Withheld(why),
            Told::NoServer => Told::NoServer,
        })
    }

    /// A setting of the server.
    ///
    /// # Errors
    /// The call failed.
    pub async fn setting(&self, name: &str) -> Result<Told<String>, Error> {
        Ok(match self.question(&[b"CONFIG", b"GET", name.as_bytes()]).await? {
            Told::Answer(Reply::List(parts)) => match parts.as_slice() {
                [_, Reply::Bytes(value)] => Told::Answer(String::from_utf8_lossy(value).into_owned()),
                _ => Told::Withheld(format!("the server has no setting {name}")),
            },
            Told::Answer(_) => Told::Withheld("CONFIG GET answers in an unknown form".to_owned()),
            Told::Withheld(why) => Told::Withheld(why),
            Told::NoServer => Told::NoServer,
        })
    }

    /// The server's clock, µs since 1970.
    ///
    /// # Errors
    /// The call failed.
    pub async fn clock_us(&self) -> Result<Told<u64>, Error> {
        let number = |reply: &Reply| match reply {
            Reply::Bytes(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok()),
            Reply::Int(n) => u64::try_from(*n).ok(),
            _ => None,
        };
        Ok(match self.question(&[b"TIME"]).await? {
            Told::Answer(Reply::List(parts)) => match parts.as_slice() {
                [seconds, micros] if number(seconds).is_some() && number(micros).is_some() => {
                    let (seconds, micros) = (number(seconds).unwrap_or(0), number(micros).unwrap_or(0));
                    Told::Answer(seconds.saturating_mul(1_000_000).saturating_add(micros))
                }
                _ => Told::Withheld("TIME answers in an unknown form".to_owned()),
            },
            Told::Answer(_) => Told::Withheld("TIME answers in an unknown form".to_owned()),
            Told::Withheld(why) => Told::Withheld(why),
            Told::NoServer => Told::NoServer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read_by_field() {
        let info = Info::parse(
            "# Server\r\nredis_version:7.0.15\r\n\r\n# Memory\r\nused_memory:12\r\nslave0:ip=::1,port=1\r\n",
        );
        assert_eq!(info.get("redis_version"), Some("7.0.15"));
        assert_eq!(info.number("used_memory"), Some(12));
        assert_eq!(info.get("slave0"), Some("ip=::1,port=1"));
        assert_eq!((info.get("maxmemory"), info.number("redis_version")), (None, None));
    }
}
