//! Commands answer alike wherever the elements are: random ones on keys that are always small, never, or now and then,
//! in transactions that are committed, taken back in part or whole, and read again from what was written.

use super::super::commands::{self, Answer};
use super::*;

/// No key is small, some are for a while, all are.
const LIMITS: [usize; 4] = [0, 60, 300, small::WEIGHT_MAX];
const TURNS: usize = 600;
/// Of elements.
const NAMES: u8 = 40;

fn name(nth: u8) -> Vec<u8> {
    [vec![nth; usize::from(nth % 5)], b"name".to_vec(), vec![nth]].concat()
}

struct Dice(fastrand::Rng);

impl Dice {
    fn name(&mut self) -> Vec<u8> {
        name(self.0.u8(0..NAMES))
    }

    /// Mostly few, now and then many.
    fn count(&mut self) -> usize {
        let most = if self.0.u8(0..4) == 0 { 30 } else { 4 };
        self.0.usize(1..most)
    }

    /// Now and then all that there are.
    fn names(&mut self) -> Vec<Vec<u8>> {
        if self.0.u8(0..6) == 0 {
            return (0..NAMES).map(name).collect();
        }
        (0..self.count()).map(|_| self.name()).collect()
    }

    fn number(&mut self) -> Vec<u8> {
        self.0.i32(-12..12).to_string().into_bytes()
    }

    /// Pairs of what the two make.
    fn pairs(&mut self, first: fn(&mut Dice) -> Vec<u8>, second: fn(&mut Dice) -> Vec<u8>) -> Vec<Vec<u8>> {
        (0..self.count()).flat_map(|_| [first(self), second(self)]).collect()
    }

    fn bound(&mut self) -> Vec<u8> {
        match self.0.u8(0..4) {
            0 => b"-inf".to_vec(),
            1 => b"+inf".to_vec(),
            2 => [b"(".to_vec(), self.number()].concat(),
            _ => self.number(),
        }
    }

    /// A command, mostly on a key of its type.
    fn command(&mut self) -> Vec<Vec<u8>> {
        let verbs: Vec<&str> = commands::names().filter(|verb| *verb != "TIME").collect();
        let verb = verbs[self.0.usize(0..verbs.len())];
        let args = match verb {
            "HSET" if self.0.bool() => self.pairs(Dice::name, Dice::number),
            "HSET" => self.pairs(Dice::name, Dice::name),
            "ZADD" => {
                let pairs = self.pairs(Dice::number, Dice::name);
                if self.0.u8(0..4) == 0 { [vec![b"XX".to_vec()], pairs].concat() } else { pairs }
            }
            "HINCRBY" => vec![self.name(), self.number()],
            "HEXISTS" | "HGET" | "ZRANK" | "ZREVRANK" | "ZSCORE" => vec![self.name()],
            "HLEN" | "SCARD" | "ZCARD" | "SMEMBERS" => Vec::new(),
            "SRANDMEMBER" => vec![self.number()],
            "HSCAN" => {
                let cursor = match self.0.u8(0..3) {
                    0 => b"0".to_vec(),
                    // The cursor of a field: its bytes in hex digits.
                    _ => self
                        .name()
                        .iter()
                        .fold(b"1".to_vec(), |text, byte| [text, format!("{byte:02x}").into()].concat()),
                };
                vec![cursor, b"COUNT".to_vec(), self.number()]
            }
            "ZCOUNT" => vec![self.bound(), self.bound()],
            "ZRANGEBYSCORE" if self.0.bool() => {
                vec![self.bound(), self.bound(), b"LIMIT".to_vec(), self.number(), self.number()]
            }
            "ZRANGEBYSCORE" => vec![b"-inf".to_vec(), self.bound()],
            "ZREMRANGEBYRANK" => vec![b"0".to_vec(), self.number()],
            "ZRANGE" | "ZREVRANGE" if self.0.bool() => vec![self.number(), self.number()],
            "ZRANGE" | "ZREVRANGE" => vec![self.number(), self.number(), b"WITHSCORES".to_vec()],
            _ => self.names(),
        };
        let kind = if self.0.u8(0..30) == 0 { b'S' } else { verb.as_bytes()[0] };
        let key = vec![kind, self.0.u8(b'0'..b'3')];
        [vec![verb.as_bytes().to_vec(), key], args].concat()
    }
}

fn told(answer: Result<Answer, Fault>) -> Result<Answer, String> {
    answer.map_err(|fault| {
        assert!(!fault.ends_transaction(), "{fault}");
        fault.to_string()
    })
}

/// Each of the keyspaces does the same.
fn all(spaces: &mut [Keyspace], mut work: impl FnMut(&mut Keyspace) -> Result<(), Fault>) {
    spaces.iter_mut().for_each(|space| work(space).expect("it is done"));
}

#[test]
fn keys_answer_alike_wherever_their_elements_are() {
    for seed in 0..2 {
        let mut dice = Dice(fastrand::Rng::with_seed(seed));
        let mut spaces = LIMITS.map(|small_max| {
            let space = Keyspace::open(&Place::Memory, Clock::from(|| 7)).expect("SQLite opens");
            Keyspace { small_max, ..space }
        });
        let mut next = Vec::new();
        for turn in 0..TURNS {
            all(&mut spaces, Keyspace::begin);
            for _ in 0..dice.0.u8(1..4) {
                let apart = dice.0.bool();
                if apart {
                    all(&mut spaces, Keyspace::save);
                }
                for _ in 0..dice.0.u8(1..5) {
                    let words = next.pop().unwrap_or_else(|| dice.command());
                    let mut answers = spaces.iter_mut().map(|space| told(commands::run(space, &words)));
                    let first = answers.next().expect("there are several");
                    for (other, limit) in answers.zip(&LIMITS[1..]) {
                        let shown: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
                        assert_eq!(other, first, "seed {seed}, turn {turn}, few are {limit}: {shown:?}");
                    }
                    // What is due is found, and removed by its rank; now and then others change before.
                    if let (b"ZRANGEBYSCORE", 4, Ok(Answer::List(due))) = (words[0].as_slice(), words.len(), &first)
                        && dice.0.bool()
                    {
                        let (key, last) = (words[1].clone(), (due.len() as i64 - 1).to_string().into_bytes());
                        next.push(vec![b"ZREMRANGEBYRANK".to_vec(), key.clone(), b"0".to_vec(), last]);
                        match dice.0.u8(0..4) {
                            0 => next.push(vec![b"ZADD".to_vec(), key, dice.number(), dice.name()]),
                            1 => next.push(vec![b"ZREM".to_vec(), key, dice.name()]),
                            _ => {}
                        }
                    }
                }
                if apart {
                    all(&mut spaces, if dice.0.u8(0..3) == 0 { Keyspace::undo } else { Keyspace::release });
                }
            }
            match dice.0.u8(0..10) {
                0 => spaces.iter_mut().for_each(Keyspace::roll_back),
                1..4 => {
                    // As after another process's commit.
                    all(&mut spaces, |space| space.commit().map(drop));
                    spaces.iter_mut().for_each(Keyspace::forget);
                }
                _ => all(&mut spaces, |space| space.commit().map(drop)),
            }
        }
        // Where nothing is small, all that there is is in the tables; where all is, nothing.
        for (space, limit) in spaces.iter().zip(LIMITS) {
            let count = |sql: &str| space.db.query_row(sql, (), |row| row.get::<_, i64>(0)).expect("it is counted");
            let told = count("SELECT coalesce(sum(size), 0) FROM keys WHERE small IS NULL");
            let rows = ["hashes", "sets", "sorted"].map(|table| count(&format!("SELECT count(*) FROM {table}")));
            assert_eq!(rows.iter().sum::<i64>(), told, "few are {limit}");
            let packed = count("SELECT count(*) FROM keys WHERE small IS NOT NULL AND size > 0");
            assert!(if limit == 0 { packed == 0 } else { limit < small::WEIGHT_MAX || told == 0 }, "few are {limit}");
        }
    }
}

#[test]
fn a_size_that_no_key_can_have_is_told_and_not_reckoned_with() {
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    for damage in ["size = -1", "size = -1, small = x''", "kind = 9", "kind = 9, small = NULL"] {
        let mut space = Keyspace::open(&Place::Memory, Clock::from(|| 7)).expect("SQLite opens");
        space.begin().expect("it begins");
        commands::run(&mut space, &words("SADD s a")).expect("a member is added");
        space.commit().expect("it is committed");
        space.forget();
        space.db.execute(&format!("UPDATE keys SET {damage}"), ()).expect("the row is damaged");
        space.begin().expect("it begins");
        for command in ["SMEMBERS s", "SADD s b"] {
            assert!(commands::run(&mut space, &words(command)).is_err(), "{damage}: {command}");
        }
    }
}
