//! A job may be declared inside a function, also a generic one.

use delayq::{Job, JobContext, JobResult, JobType, delayed_job};

fn plain() -> &'static str {
    #[delayed_job(name = "in_plain", version = 2, unique = id, from(1 = Old))]
    struct InPlain {
        id: u64,
    }

    #[delayq::payload]
    struct Old(u64);

    impl From<Old> for InPlain {
        fn from(old: Old) -> Self {
            InPlain { id: old.0 }
        }
    }

    impl Job for InPlain {
        async fn run(self, _cx: JobContext) -> JobResult {
            Ok(())
        }
    }

    assert_eq!(InPlain::decode(1, b"7").unwrap().id, 7);
    InPlain::NAME
}

fn generic<T: Default>() -> (&'static str, T) {
    #[delayed_job(name = "in_generic", version = 1)]
    struct InGeneric;

    impl Job for InGeneric {
        async fn run(self, _cx: JobContext) -> JobResult {
            Ok(())
        }
    }

    (InGeneric::NAME, T::default())
}

struct Holder<T>(T);

impl<T: Copy> Holder<T> {
    fn method(&self) -> (T, &'static str) {
        #[delayed_job(name = "in_method", version = 1, handler = external)]
        struct InMethod;

        (self.0, InMethod::NAME)
    }
}

pub(crate) fn main() {
    assert_eq!(plain(), "in_plain");
    assert_eq!(generic::<u8>(), ("in_generic", 0));
    assert_eq!(Holder(1).method(), (1, "in_method"));
}
