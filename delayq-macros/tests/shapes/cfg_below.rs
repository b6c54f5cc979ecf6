//! `cfg` and `cfg_attr` below the attribute: what is generated stands or falls with the struct.
#![deny(warnings)]

use delayq::{Job, JobContext, JobResult, JobType, delayed_job};

#[delayed_job(name = "never", version = 1, unique = id)]
#[cfg(any())]
struct Never {
    id: u64,
}

#[delayed_job(name = "never_too", version = 1, crate = crate::missing)]
#[cfg_attr(all(), cfg(any()))]
struct NeverToo;

#[delayq::payload]
#[cfg(any())]
struct NoPayload;

#[delayed_job(name = "always", version = 1, unique = id)]
#[cfg(not(target_os = "none"))]
#[cfg_attr(all(), derive(Debug), serde(rename_all = "UPPERCASE"))]
#[cfg_attr(any(), derive(NoSuchDerive))]
struct Always {
    #[cfg(not(target_os = "none"))]
    id: u64,
    #[cfg(any())]
    id: String,
    #[cfg_attr(all(), serde(default))]
    note: String,
}

impl Job for Always {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

pub(crate) fn main() {
    let job = Always::decode(1, br#"{"ID":7}"#).unwrap();
    assert_eq!(format!("{job:?}"), r#"Always { id: 7, note: "" }"#);
    assert!(job.unique_key().is_some());
}
