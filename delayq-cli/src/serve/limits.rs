//! Every bound of the service, and the bucket of requests that each client address has.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::{Failure, Outcome};
use crate::time;

/// How many jobs one request sends.
pub(super) const BATCH_MAX: usize = 1000;
/// How long a head may be: hyper's buffer, which pieces of a body go through as well.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How many fields a head may have.
pub(super) const HEADERS_MAX: usize = 64;
/// How many queues one request asks the store about: a page of them, the metrics, the search for an id.
pub(super) const QUEUES_MAX: usize = 500;
/// How many of them are asked about at once.
pub(super) const AT_ONCE: usize = 16;
/// How many changes are under way at once. One whose client left goes on, so it isn't bounded by the connections.
pub(super) const CHANGES_MAX: u32 = 1024;
/// How many bytes of payloads one request for a page reads before it answers with what it has.
pub(super) const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How many of them a piece of it has, where those to come are no larger than the largest of the last piece.
pub(super) const PIECE_BYTES: usize = 4 * 1024 * 1024;
/// How many jobs its first piece has, of which no size is known.
pub(super) const PIECE_FIRST: usize = 10;
/// How many client addresses are told apart.
const ADDRESSES_MAX: usize = 10_000;
/// How often those that say nothing any more are looked for: it takes a look at each.
const SWEEP: Duration = Duration::from_secs(1);
/// The smallest limit of a body that is good for anything.
const BODY_BYTES_MIN: usize = 1024;
/// The largest: a body is held in memory.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

const _: () = assert!(PIECE_FIRST <= delayq::limits::JOBS_PAGE_MAX && PIECE_BYTES <= PAGE_BYTES_MAX);

/// What the command line bounds.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct Bounds {
    /// The largest body of a request
    #[arg(long, default_value_t = 4 * 1024 * 1024, value_name = "BYTES")]
    pub(super) body_limit: usize,
    /// How many requests a second one client address may send, with bursts of twice as many; 0 for any number
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub(super) rate: u32,
    /// How many connections are open at once; a further one waits
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub(super) connections: u16,
    /// How long a client may take to send a head, to send a body, and to take what is written to it
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = time::duration)]
    pub(super) patience: Duration,
    /// How long requests under way get when it is stopped
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = time::duration)]
    pub(super) grace: Duration,
}

impl Bounds {
    pub(super) fn check(&self) -> Outcome {
        let usage = |text: String| Err(Failure::Usage(text));
        if !(BODY_BYTES_MIN..=BODY_BYTES_MAX).contains(&self.body_limit) {
            return usage(format!(
                "a --body-limit of {} bytes is out of range: {BODY_BYTES_MIN} to {BODY_BYTES_MAX}",
                self.body_limit
            ));
        }
        if self.connections == 0 {
            return usage("--connections 0 would let nobody in: give 1 or more".to_owned());
        }
        if self.patience < Duration::from_millis(100) {
            return usage("--patience is too short for any client: give 100ms or more".to_owned());
        }
        Ok(())
    }
}

/// Requests that each client address may still send: a bucket that fills at the rate, up to twice of it.
#[derive(Debug)]
pub(super) struct Rate {
    /// Zero for any number.
    a_second: f64,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    all: HashMap<IpAddr, Bucket>,
    swept: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rate {
    pub(super) fn new(a_second: u32) -> Rate {
        Rate { a_second: f64::from(a_second), buckets: Mutex::default() }
    }

    /// Takes one request of this address, or says how long it has to wait.
    pub(super) fn take(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        if self.a_second == 0.0 {
            return Ok(());
        }
        let most = self.a_second * 2.0;
        let full = |bucket: &Bucket| {
            bucket.left + now.saturating_duration_since(bucket.at).as_secs_f64() * self.a_second >= most
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { all, swept } = &mut *buckets;
        let mut address = network(address);
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&address) {
            if swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP) {
                *swept = Some(now);
                // A full bucket says nothing.
                all.retain(|_, bucket| !full(bucket));
            }
            if all.len() >= ADDRESSES_MAX {
                // Those who come when there are too many share one.
                address = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            }
        }
        let bucket = all.entry(address).or_insert(Bucket { left: most, at: now });
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + since * self.a_second).min(most);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / self.a_second));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

/// Who has an IPv6 address has all of its /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    #[test]
    fn s15_a_bucket_holds_twice_the_rate_and_fills_again() {
        let (rate, start) = (Rate::new(10), Instant::now());
        for _ in 0..20 {
            assert_eq!(rate.take(address(1), start), Ok(()));
        }
        let wait = rate.take(address(1), start).expect_err("it is empty");
        assert!(wait <= Duration::from_millis(100), "{wait:?}");
        assert_eq!(rate.take(address(2), start), Ok(()), "another address has its own");
        assert_eq!(rate.take(address(1), start + Duration::from_millis(101)), Ok(()));
        assert!(rate.take(address(1), start + Duration::from_millis(102)).is_err());
        assert_eq!(Rate::new(0).take(address(1), start), Ok(()));
    }

    #[test]
    fn s15_the_number_of_addresses_is_bounded() {
        let (rate, start) = (Rate::new(1), Instant::now());
        for n in 0..2 * ADDRESSES_MAX as u32 {
            let _ = rate.take(address(n), start);
        }
        assert!(rate.buckets.lock().expect("no panic").all.len() <= ADDRESSES_MAX + 1);
        assert!(rate.take(address(u32::MAX), start).is_err(), "those who come too late share one");
        assert_eq!(rate.take(address(u32::MAX), start + Duration::from_secs(5)), Ok(()), "until old ones are full");
    }

    #[test]
    fn s15_a_network_of_ipv6_is_one_address() {
        let one: IpAddr = "2001:db8:1:2:3::4".parse().expect("an address");
        let other: IpAddr = "2001:db8:1:2:ffff::1".parse().expect("an address");
        assert_eq!(network(one), network(other));
        assert_eq!(network("::ffff:10.0.0.1".parse().expect("an address")), address(0x0a00_0001));
    }
}
