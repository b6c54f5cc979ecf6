//! `crate = path` names delayq where it isn't `::delayq`; the generated code looks nowhere else.

mod reexport {
    pub use delayq as queue;
}

// Whatever starts with this instead of the given path fails.
mod delayq_shadow {}
use delayq_shadow as delayq;

use reexport::queue::{Job, JobContext, JobResult, JobType, delayed_job, payload};

#[payload(crate = crate::renamed_crate::reexport::queue)]
struct PingV1 {
    to: String,
}

impl From<PingV1> for Ping {
    fn from(old: PingV1) -> Self {
        Ping { host: old.to }
    }
}

#[delayed_job(
    name = "ping",
    version = 2,
    backoff = fixed("1s"),
    unique = host,
    from(1 = PingV1),
    crate = crate::renamed_crate::reexport::queue
)]
struct Ping {
    host: String,
}

impl Job for Ping {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

mod inner {
    use crate::renamed_crate::reexport::queue;

    #[queue::delayed_job(name = "pong", version = 1, handler = external, crate = super::reexport::queue)]
    pub struct Pong;
}

pub(crate) fn main() {
    #[allow(unused_imports)]
    use delayq as _;
    assert_eq!(Ping::decode(1, br#"{"to":"a"}"#).unwrap().host, "a");
    assert_eq!(inner::Pong::NAME, "pong");
}
