//! Jobs made by a macro: every argument may come from a fragment, and `$crate` may lead to delayq.

use delayq::{Job, JobContext, JobResult, JobType};

pub mod jobs {
    pub use delayq;
}

macro_rules! jobs {
    ($(
        $(#[$attribute:meta])*
        $vis:vis $type:ident $name:literal $version:literal $limit:expr, $old:ty, $timeout:expr, $key:ident: $key_type:ty;
    )*) => {$(
        #[$crate::from_macro_rules::jobs::delayq::delayed_job(
            name = $name,
            version = $version,
            max_retries = $limit,
            timeout = $timeout,
            unique = $key,
            backoff = exponential($timeout, jitter = $limit),
            from(1 = $old),
            crate = $crate::from_macro_rules::jobs::delayq,
        )]
        $(#[$attribute])*
        $vis struct $type {
            $key: $key_type,
        }

        impl Job for $type {
            async fn run(self, _cx: JobContext) -> JobResult {
                let _ = self.$key;
                Ok(())
            }
        }
    )*};
}

jobs! {
    #[derive(Debug)]
    pub First "first" 2 0, Old, "30s", id: u64;
    /// Documented.
    Second "second" 2 1, Old, "1h", key: String;
}

#[delayq::payload]
struct Old;

impl From<Old> for First {
    fn from(_: Old) -> Self {
        First { id: 1 }
    }
}

impl From<Old> for Second {
    fn from(_: Old) -> Self {
        Second { key: "old".to_owned() }
    }
}

macro_rules! in_a_function {
    ($type:ident, $krate:path) => {
        #[delayq::delayed_job(name = "third", version = 1, handler = external, crate = $crate::from_macro_rules::jobs::delayq)]
        struct $type {
            #[allow(dead_code)]
            id: u64,
        }

        #[delayq::payload(crate = $krate)]
        struct Payload;
    };
}

pub(crate) fn main() {
    in_a_function!(Third, jobs::delayq);
    assert_eq!(First::NAME, "first");
    assert_eq!(First::decode(1, b"null").unwrap().id, 1);
    assert_eq!(Second::MAX_RETRIES, 1);
    assert_eq!(Second::TIMEOUT, Some(std::time::Duration::from_secs(3_600)));
    assert!(Second::decode(1, b"null").unwrap().unique_key().is_some());
    assert_eq!(Third::NAME, "third");
    let _ = Payload;
}
