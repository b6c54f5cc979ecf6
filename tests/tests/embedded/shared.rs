//! Several connections on one file, writing in turn, as processes do: what one keeps in memory is never older than the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use delayq::ErrorKind;
use delayq::engine::embedded::{EmbeddedEngine, Stored};
use delayq::engine::{Engine, Reply, Script};
use delayq_tests::store_kit::kind;

use super::Base;

/// Changes a hash, a set and a sorted set: puts what begins with '+', removes what begins with '-'; then fails if it is told to.
static CHANGES: Script = Script::new(
    "test_changes",
    "for i = 2, #ARGV do
       local name, score = string.sub(ARGV[i], 2), i
       if string.sub(ARGV[i], 1, 1) == '+' then
         redis.call('HSET', KEYS[1], name, ARGV[i])
         redis.call('SADD', KEYS[2], name)
         redis.call('ZADD', KEYS[3], score, name)
       else
         redis.call('HDEL', KEYS[1], name)
         redis.call('SREM', KEYS[2], name)
         redis.call('ZREM', KEYS[3], name)
       end
     end
     redis.call('HINCRBY', KEYS[4], 'calls', 1)
     if ARGV[1] == 'fail' then return redis.error_reply('BADARG told to') end
     return { redis.call('HLEN', KEYS[1]), redis.call('SCARD', KEYS[2]), redis.call('ZCARD', KEYS[3]) }",
);
static KEYS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| ["hash", "set", "sorted", "stats"].map(Vec::from).to_vec());

/// What the keys hold.
#[derive(Default, Clone, PartialEq, Debug)]
struct Model {
    hash: BTreeMap<Vec<u8>, Vec<u8>>,
    sorted: BTreeMap<Vec<u8>, f64>,
    calls: u64,
}

impl Model {
    fn change(&mut self, words: &[String]) {
        for (at, word) in words.iter().enumerate() {
            let name = word.as_bytes()[1..].to_vec();
            if word.starts_with('+') {
                self.hash.insert(name.clone(), word.as_bytes().to_vec());
                self.sorted.insert(name, at as f64 + 2.0);
            } else {
                self.hash.remove(&name);
                self.sorted.remove(&name);
            }
        }
        self.calls += 1;
    }

    async fn assert_held_by(&self, engine: &EmbeddedEngine, when: &str) {
        let names: BTreeSet<Vec<u8>> = self.hash.keys().cloned().collect();
        let some = |there: bool, stored| there.then_some(stored);
        let there = !names.is_empty();
        let calls = BTreeMap::from([(b"calls".to_vec(), self.calls.to_string().into_bytes())]);
        for (key, expected) in [
            ("hash", some(there, Stored::Hash(self.hash.clone()))),
            ("set", some(there, Stored::Set(names))),
            ("sorted", some(there, Stored::Sorted(self.sorted.clone()))),
            ("stats", some(self.calls > 0, Stored::Hash(calls))),
        ] {
            assert_eq!(engine.read(key.as_bytes()).await.unwrap(), expected, "{key}, {when}");
        }
    }
}

async fn change(engine: &EmbeddedEngine, first: &str, words: &[String]) -> Result<Reply, delayq::Error> {
    let args: Vec<&[u8]> = [first.as_bytes()].into_iter().chain(words.iter().map(String::as_bytes)).collect();
    engine.run(&CHANGES, &KEYS, &args).await
}

/// Few elements, then too many to be kept in a key's row, then few again, then none.
fn waves() -> Vec<Vec<String>> {
    let words = |sign: char, numbers: std::ops::Range<u32>| -> Vec<String> {
        numbers.map(|n| format!("{sign}element {n:0>40}")).collect()
    };
    vec![
        words('+', 0..3),
        words('+', 2..90),
        words('-', 0..20),
        words('+', 90..700),
        words('-', 10..690),
        words('+', 5..9),
        words('-', 0..700),
        words('+', 0..2),
    ]
}

#[tokio::test]
async fn connections_that_write_in_turn_see_each_other() {
    let base = Base::new();
    let engines = [base.engine().await, base.engine().await, base.engine().await];
    let mut model = Model::default();
    for (turn, words) in waves().into_iter().enumerate() {
        // By halves, so that each goes on where another one ended.
        for (half, words) in words.chunks(words.len().div_ceil(2)).enumerate() {
            let by = &engines[(2 * turn + half) % engines.len()];
            let reply = change(by, "", words).await.unwrap();
            model.change(words);
            let size = Reply::Int(model.hash.len() as i64);
            assert_eq!(reply, Reply::List(vec![size; 3]), "turn {turn}");
            for engine in &engines {
                model.assert_held_by(engine, &format!("turn {turn}")).await;
            }
        }
    }
    drop(engines);
    model.assert_held_by(&base.engine().await, "opened again").await;
    base.assert_whole();
}

#[tokio::test]
async fn a_script_that_is_taken_back_leaves_nothing_in_memory() {
    let base = Base::new();
    let (engine, other) = (base.engine().await, base.engine().await);
    let (mut model, waves) = (Model::default(), waves());
    for (turn, words) in waves.iter().enumerate() {
        for next in &waves {
            assert_eq!(kind(change(&engine, "fail", next).await), ErrorKind::InvalidArgument);
        }
        model.assert_held_by(&engine, &format!("failed at turn {turn}")).await;
        // In one transaction with others that succeed.
        let (first, last) = (change(&engine, "fail", &waves[3]), change(&engine, "fail", &waves[4]));
        let (first, good, last) = tokio::join!(first, change(&engine, "", words), last);
        assert!(first.is_err() && last.is_err());
        good.unwrap();
        model.change(words);
        for engine in [&engine, &other] {
            model.assert_held_by(engine, &format!("turn {turn}")).await;
        }
    }
    base.assert_whole();
}

#[tokio::test]
async fn a_file_of_form_1_is_brought_up_and_shuts_its_old_users_out() {
    let base = Base::new();
    let old = base.look();
    old.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE keys (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, kind INTEGER NOT NULL,
                            count INTEGER NOT NULL, waited INTEGER NOT NULL);
         CREATE TABLE hashes (k INTEGER NOT NULL, f BLOB NOT NULL, v BLOB NOT NULL, PRIMARY KEY (k, f)) WITHOUT ROWID;
         CREATE TABLE sets (k INTEGER NOT NULL, m BLOB NOT NULL, PRIMARY KEY (k, m)) WITHOUT ROWID;
         CREATE TABLE sorted (k INTEGER NOT NULL, s REAL NOT NULL, m BLOB NOT NULL, PRIMARY KEY (k, s, m)) WITHOUT ROWID;
         CREATE UNIQUE INDEX sorted_members ON sorted (k, m);
         INSERT INTO keys VALUES (1, x'68617368', 1, 2, 0), (2, x'736574', 2, 1, 0), (3, x'736f72746564', 3, 1, 1);
         INSERT INTO hashes VALUES (1, x'61', x'62'), (1, x'63', x'64');
         INSERT INTO sets VALUES (2, x'61');
         INSERT INTO sorted VALUES (3, 7.5, x'61');
         PRAGMA application_id = 1684830577;
         PRAGMA user_version = 1;",
    )
    .unwrap();
    let mut reads = old.prepare("SELECT id, kind, count, waited FROM keys WHERE name = ?1").unwrap();
    assert!(reads.exists([b"hash"]).unwrap());
    let engine = base.engine().await;
    let one = |text: &str| text.as_bytes().to_vec();
    let hash = BTreeMap::from([(one("a"), one("b")), (one("c"), one("d"))]);
    assert_eq!(engine.read(b"hash").await.unwrap(), Some(Stored::Hash(hash)));
    assert_eq!(engine.read(b"set").await.unwrap(), Some(Stored::Set([one("a")].into())));
    assert_eq!(engine.read(b"sorted").await.unwrap(), Some(Stored::Sorted([(one("a"), 7.5)].into())));
    // What it would read now is not all that there is.
    let error = reads.exists([b"hash"]).unwrap_err();
    assert!(error.to_string().contains("no such column: count"), "{error}");
    let words = ["+a".to_owned(), "-c".to_owned()];
    let sizes = change(&engine, "", &words).await.unwrap();
    assert_eq!(sizes, Reply::List(vec![Reply::Int(1); 3]));
    base.assert_whole();
}

#[tokio::test]
async fn a_row_that_was_damaged_is_told() {
    let base = Base::new();
    let engine = base.engine().await;
    change(&engine, "", &["+a".to_owned(), "+b".to_owned()]).await.unwrap();
    let look = base.look();
    let whole: Vec<u8> =
        look.query_row("SELECT small FROM keys WHERE name = x'68617368'", (), |row| row.get(0)).unwrap();
    let put = |small: &[u8]| look.execute("UPDATE keys SET small = ?1 WHERE name = x'68617368'", [small]).unwrap();
    for damaged in [&whole[1..], &whole[..whole.len() - 1], &[whole.as_slice(), b"x"].concat(), b""] {
        assert_eq!(put(damaged), 1);
        for error in
            [engine.read(b"hash").await.unwrap_err(), change(&engine, "", &["+c".to_owned()]).await.unwrap_err()]
        {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains("holds what delayq doesn't store there"), "{error}");
        }
    }
    put(&whole);
    assert_eq!(change(&engine, "", &["+c".to_owned()]).await.unwrap(), Reply::List(vec![Reply::Int(3); 3]));
}
