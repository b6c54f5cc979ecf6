//! Without any prelude the generated code still finds its names.
#![no_implicit_prelude]

#[::delayq::payload]
enum OldJob {
    Cancel(::core::primitive::u64),
    Keep { order_id: ::core::primitive::u64 },
}

impl ::core::convert::From<OldJob> for Job {
    fn from(old: OldJob) -> Self {
        match old {
            OldJob::Cancel(order_id) | OldJob::Keep { order_id } => {
                Job { order_id, note: ::std::string::String::new() }
            }
        }
    }
}

#[::delayq::delayed_job(
    name = "job",
    version = 2,
    queue = "orders",
    timeout = "1s",
    backoff = fixed("1s"),
    unique = (order_id, note),
    from(1 = OldJob),
)]
struct Job {
    order_id: ::core::primitive::u64,
    note: ::std::string::String,
}

impl ::delayq::Job for Job {
    async fn run(self, _cx: ::delayq::JobContext) -> ::delayq::JobResult {
        ::core::result::Result::Ok(())
    }
}

pub(crate) fn main() {
    let job = <Job as ::delayq::JobType>::decode(1, br#"{"Cancel":7}"#).unwrap();
    ::std::assert_eq!(job.order_id, 7);
    ::std::assert!(::delayq::JobType::unique_key(&job).is_some());
}
