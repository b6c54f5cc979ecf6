//! A job may be a tuple struct, or have no payload at all.

use delayq::{Job, JobContext, JobResult, JobType, delayed_job};

#[delayed_job(name = "pair", version = 1)]
pub struct Pair(pub u64, String);

#[delayed_job(name = "newtype", version = 1)]
pub(crate) struct Newtype(Vec<u8>);

#[delayed_job(name = "unit", version = 1)]
struct Unit;

#[delayed_job(name = "empty", version = 1)]
struct Empty {}

impl Job for Pair {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

impl Job for Newtype {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

impl Job for Unit {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

impl Job for Empty {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

pub(crate) fn main() {
    let pair = Pair::decode(1, br#"[7,"a"]"#).unwrap();
    assert_eq!((pair.0, pair.1.as_str()), (7, "a"));
    assert_eq!(Newtype::decode(1, b"[1,2]").unwrap().0, [1, 2]);
    assert!(Unit::decode(1, b"null").is_ok());
    assert!(Empty::decode(1, b"{}").is_ok());
}
