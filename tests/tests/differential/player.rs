//! Who plays a history: what was opened, given and told so far, and what time it is.

use std::collections::VecDeque;

use delayq::engine::Reply;
use delayq::store::Shard;

use super::dice::{Dice, id};
use super::pair::Call;

/// How many ids of jobs there are, so that calls meet each other's jobs.
pub(crate) const JOBS: u64 = 16;
pub(crate) const LEASES: [u64; 3] = [1000, 5000, 30_000];
pub(crate) const DAY_MS: u64 = 86_400_000;
/// How many of what it was told last the player remembers.
const REMEMBERED: usize = 60;

/// A session, as its worker knows it.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) id: [u8; 16],
    pub(crate) seq: u64,
    pub(crate) lease: u64,
    /// It was told that it is no more.
    pub(crate) gone: bool,
}

/// Sends calls, and remembers what it was told.
pub(crate) struct Player {
    pub(crate) dice: Dice,
    pub(crate) now_us: u64,
    pub(crate) seats: Vec<Seat>,
    pub(crate) shard: Shard,
    /// What was given to whom, by the number of the seat.
    pub(crate) held: VecDeque<(usize, Vec<u8>)>,
    timers: VecDeque<u64>,
    pub(crate) solos: VecDeque<Vec<u8>>,
    /// Sessions that a beat told of.
    pub(crate) lost: VecDeque<Vec<u8>>,
    /// Where pages of waiting jobs ended.
    pub(crate) due_pages: VecDeque<(Vec<u8>, u64, i64)>,
    /// Where pages of retained jobs ended.
    pub(crate) done_pages: VecDeque<(Vec<u8>, u64)>,
    /// Where pages of dead letters ended.
    pub(crate) pages: VecDeque<(Vec<u8>, u64)>,
    pub(crate) fresh: u64,
    pub(crate) schema: Vec<u8>,
    pub(crate) shards: Vec<u8>,
    /// Sends hundreds of jobs at once sometimes.
    pub(crate) crowd: bool,
    /// For so many calls more than usual only look, since a key was just broken.
    pub(crate) curious: u32,
}

fn remember<T>(what: &mut VecDeque<T>, new: T, most: usize) {
    what.push_back(new);
    if what.len() > most {
        what.pop_front();
    }
}

pub(crate) fn text(n: impl ToString) -> Vec<u8> {
    n.to_string().into_bytes()
}

impl Player {
    pub(crate) fn new(seed: u64, shard: Shard, crowd: bool) -> Player {
        let mut dice = Dice::new(seed);
        let now_us = 1_700_000_000_000_000 + dice.roll(DAY_MS * 1000);
        Player {
            dice,
            now_us,
            seats: Vec::new(),
            shard,
            held: VecDeque::new(),
            timers: VecDeque::new(),
            solos: VecDeque::new(),
            lost: VecDeque::new(),
            due_pages: VecDeque::new(),
            done_pages: VecDeque::new(),
            pages: VecDeque::new(),
            fresh: JOBS,
            schema: text(1),
            shards: text(1),
            crowd,
            curious: 0,
        }
    }

    /// Time passes, mostly.
    pub(crate) fn tick(&mut self) {
        let lease = self.dice.pick(&LEASES);
        let back = self.dice.once_in(60);
        let ms = match self.dice.roll(40) {
            0..18 => return,
            18..30 => self.dice.roll(60),
            30..33 => lease - 1 + self.dice.roll(3),
            33..35 => 14_999 + self.dice.roll(3),
            35..37 => 1000 + self.dice.roll(3000),
            37 => DAY_MS,
            _ => self.dice.roll(100_000),
        };
        let us = ms * 1000 + self.dice.roll(1000);
        self.now_us = if back { self.now_us - us } else { self.now_us + us };
    }

    pub(crate) fn now(&self) -> u64 {
        self.now_us / 1000
    }

    pub(crate) fn call(&self, script: &'static str, session: Option<&[u8; 16]>, args: Vec<Vec<u8>>) -> Call {
        let names = ["jobs", "stats", "wake", "sessions", "held:", "dead", "error", "done", "unique", "tombs"];
        let mut keys: Vec<Vec<u8>> = names.iter().map(|name| self.shard.key(name)).collect();
        if let Some(session) = session {
            keys[4] = self.shard.held(session);
        }
        keys.extend((0..10).map(|p| self.shard.key(&format!("due:{p}"))));
        Call { script, keys, args }
    }

    /// One of the jobs that were given last.
    pub(crate) fn held_job(&mut self) -> Vec<u8> {
        match self.held.len() as u64 {
            0 => self.job(),
            all => self.held[(all - 1 - self.dice.roll(all.min(5))) as usize].1[..16].to_vec(),
        }
    }

    pub(crate) fn job(&mut self) -> Vec<u8> {
        if self.dice.once_in(25) {
            return id(JOBS + self.dice.roll(self.fresh)).to_vec();
        }
        if !self.held.is_empty() && self.dice.once_in(4) {
            let at = self.dice.roll(self.held.len() as u64) as usize;
            return self.held[at].1[..16].to_vec();
        }
        id(self.dice.roll(JOBS)).to_vec()
    }

    /// Mostly a session that stands, else one of the latest.
    pub(crate) fn seat(&mut self) -> usize {
        let standing: Vec<usize> = (0..self.seats.len()).filter(|at| !self.seats[*at].gone).collect();
        if !standing.is_empty() && !self.dice.once_in(12) {
            return self.dice.pick(&standing);
        }
        let all = self.seats.len() as u64;
        (all - 1 - self.dice.roll(all.min(6))) as usize
    }

    pub(crate) fn session(&mut self) -> [u8; 16] {
        let at = self.seat();
        self.seats[at].id
    }

    /// The number of a session's next call, at times one that came too late.
    pub(crate) fn seq(&mut self, seat: usize) -> Vec<u8> {
        let late = self.dice.once_in(25);
        let seat = &mut self.seats[seat];
        if late {
            return text(seat.seq.saturating_sub(self.dice.roll(2)));
        }
        seat.seq += 1;
        text(seat.seq)
    }

    pub(crate) fn timer(&mut self) -> Vec<u8> {
        match self.timers.back() {
            Some(timer) if !self.dice.once_in(3) => text(timer),
            _ if self.dice.once_in(4) => text(self.now() + self.dice.roll(100)),
            _ => text(0),
        }
    }

    /// What a worker or client would remember of an answer.
    pub(crate) fn learn(&mut self, call: &Call, reply: &Reply) {
        let Reply::List(parts) = reply else { return };
        self.learn_of_end(call, &parts[0]);
        match (call.script, parts.as_slice()) {
            ("beat", [_, _, _, _, lost @ ..]) => {
                let lost = lost.iter().filter_map(|id| if let Reply::Bytes(id) = id { Some(id.clone()) } else { None });
                lost.for_each(|id| remember(&mut self.lost, id, 3));
            }
            (
                "claim",
                [
                    Reply::Bytes(code),
                    Reply::Int(now_us),
                    _,
                    Reply::Int(timer),
                    _,
                    Reply::Bytes(solo),
                    _,
                    Reply::Bytes(ids),
                    Reply::List(records),
                ],
            ) if code == b"OK" => {
                if *timer > 0 {
                    remember(&mut self.timers, *timer as u64, REMEMBERED);
                }
                if !solo.is_empty() {
                    remember(&mut self.solos, solo.clone(), REMEMBERED);
                } else if !call.args[5].is_empty() {
                    self.solos.pop_back();
                }
                let Some(seat) = self.seats.iter().position(|seat| seat.id[..] == call.args[0]) else { return };
                for (id, record) in ids.as_chunks::<16>().0.iter().zip(records) {
                    let Reply::Bytes(record) = record else { continue };
                    let now = (*now_us as u64 / 1000).to_be_bytes();
                    let member = [&id[..], (&record[10..16]).max(&now[2..])].concat();
                    remember(&mut self.held, (seat, member), if self.crowd { 400 } else { REMEMBERED });
                }
            }
            (_, [Reply::Bytes(code), Reply::Bytes(stored)]) if code == b"SCHEMA" => self.schema.clone_from(stored),
            (_, [Reply::Bytes(code), Reply::Bytes(stored)]) if code == b"SHARDS" => self.shards.clone_from(stored),
            ("due_list", [.., Reply::Bytes(id), Reply::Int(due), Reply::Int(priority), _]) => {
                remember(&mut self.due_pages, (id.clone(), *due as u64, *priority), REMEMBERED);
            }
            ("done_list", [.., Reply::Bytes(id), Reply::Int(until), _]) => {
                remember(&mut self.done_pages, (id.clone(), *until as u64), REMEMBERED);
            }
            ("dead_list", [.., Reply::Bytes(id), Reply::Int(died), _, _]) => {
                remember(&mut self.pages, (id.clone(), *died as u64), REMEMBERED);
            }
            _ => {}
        }
    }

    /// Which session an answer says is no more.
    fn learn_of_end(&mut self, call: &Call, code: &Reply) {
        let Reply::Bytes(code) = code else { return };
        let ends = match call.script {
            "rescue" => matches!(code.as_slice(), b"DONE" | b"MORE" | b"GONE"),
            "close" => code == b"OK" || code == b"LOST",
            _ => code == b"LOST",
        };
        let seat = self.seats.iter().position(|seat| call.args.first().is_some_and(|id| seat.id[..] == id[..]));
        if let Some(seat) = seat.filter(|_| ends) {
            self.seats[seat].gone = true;
            // Some are remembered: they are what comes too late.
            self.held.retain(|(by, _)| *by != seat || self.dice.once_in(4));
        }
    }

    /// A marker was taken.
    pub(crate) fn watch(&mut self, due_ms: u64) {
        remember(&mut self.timers, due_ms, REMEMBERED);
    }
}
