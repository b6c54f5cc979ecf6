//! How far the server is: its clock against this host's, and the round trip.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Finding;
use crate::error::Error;
use crate::store::{Store, Told};

const CLOCK: &str = "clock";
const ROUND_TRIP: &str = "round-trip";
/// How often the clock is asked for.
const ROUNDS: usize = 7;
/// Apart by more than this, and by more than the measurement is unsure of, clocks are worth a warning.
const APART_MAX: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_millis(5);
const VERY_SLOW: Duration = Duration::from_millis(50);

/// One question for the clock, µs since 1970 by this host before it, the server's answer, and how long it took.
struct Round {
    before_us: i128,
    server_us: i128,
    took: Duration,
}

fn host_us() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i128)
}

pub(super) async fn of(server: &Store) -> Result<Vec<Finding>, Error> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    while rounds.len() < ROUNDS {
        let (before_us, started) = (host_us(), Instant::now());
        match server.clock_us().await {
            Ok(Told::Answer(server_us)) => {
                rounds.push(Round { before_us, server_us: i128::from(server_us), took: started.elapsed() });
            }
            Ok(Told::Withheld(why)) => {
                let advice = "give the user +time, which every script needs too";
                return Ok(vec![Finding::unknown(CLOCK, format!("it is not told: {why}"), advice)]);
            }
            Ok(Told::NoServer) => return Ok(vec![Finding::good(CLOCK, "the store goes by this host's clock")]),
            // What one round lost says nothing of the clock; a store that is gone is told by the first question.
            Err(error) if rounds.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(vec![clock(&rounds), round_trip(&mut rounds)])
}

fn clock(rounds: &[Round]) -> Finding {
    let Some(best) = rounds.iter().min_by_key(|round| round.took) else {
        return Finding::unknown(CLOCK, "it was not told", "try again");
    };
    // It was read somewhere between question and answer: halfway, give or take as much.
    let half_us = best.took.as_micros() as i128 / 2;
    let offset_us = best.server_us - (best.before_us + half_us);
    let apart = Duration::from_micros(u64::try_from(offset_us.unsigned_abs()).unwrap_or(u64::MAX));
    let unsure = Duration::from_micros(u64::try_from(half_us + 1).unwrap_or(u64::MAX));
    let side = if offset_us < 0 { "behind" } else { "ahead of" };
    let what = format!("the server's clock is {apart:?} {side} this host's, give or take {unsure:?}");
    if apart > APART_MAX + unsure {
        return Finding::warning(
            CLOCK,
            format!("{what}: what is scheduled for an instant of this host's clock runs that much too early or late"),
            "keep both by NTP; delays count by the server's clock and don't mind",
        );
    }
    Finding::good(CLOCK, what)
}

fn round_trip(rounds: &mut [Round]) -> Finding {
    rounds.sort_by_key(|round| round.took);
    let Some(median) = rounds.get(rounds.len() / 2).map(|round| round.took) else {
        return Finding::unknown(ROUND_TRIP, "it was not told", "try again");
    };
    let what = format!("{median:?}, the median of {}", rounds.len());
    if median >= VERY_SLOW {
        return Finding::warning(
            ROUND_TRIP,
            format!("{what}: each job starts at least that late"),
            "run workers near the server; is the machine or the network overloaded?",
        );
    }
    if median >= SLOW { Finding::note(ROUND_TRIP, what) } else { Finding::good(ROUND_TRIP, what) }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn round(offset_us: i128, took_us: u64) -> Round {
        let before_us = 1_000_000_000_000;
        let half = i128::from(took_us / 2);
        Round { before_us, server_us: before_us + half + offset_us, took: Duration::from_micros(took_us) }
    }

    #[test]
    fn clocks_that_are_apart_are_told() {
        assert_eq!(clock(&[round(200, 300)]).level, Level::Good);
        assert!(clock(&[round(-400, 300)]).what.contains("400µs behind"), "{:?}", clock(&[round(-400, 300)]));
        assert_eq!(clock(&[round(1_100_000, 300)]).level, Level::Warning);
        assert_eq!(clock(&[round(-3_600_000_000, 300)]).level, Level::Warning);
        // The quickest round is the surest.
        assert_eq!(clock(&[round(9_000_000, 90_000), round(0, 300)]).level, Level::Good);
        assert_eq!(clock(&[round(1_100_000, 400_000)]).level, Level::Good, "it may be the network");
        assert_eq!(clock(&[]).level, Level::Unknown);
    }

    #[test]
    fn the_median_round_trip_counts() {
        let of = |took: &[u64]| round_trip(&mut took.iter().map(|us| round(0, *us)).collect::<Vec<_>>()).level;
        assert_eq!(of(&[100, 200, 900_000]), Level::Good);
        assert_eq!(of(&[6000, 100, 7000]), Level::Note);
        assert_eq!(of(&[60_000, 70_000, 100]), Level::Warning);
        assert_eq!(of(&[]), Level::Unknown);
    }
}
