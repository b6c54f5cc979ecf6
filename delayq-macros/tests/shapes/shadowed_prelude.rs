//! The user's own names, whatever they are, don't reach the generated code.
#![allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals)]

mod std {}
mod core {}
mod alloc {}
mod serde {}
mod inventory {}

struct Result;
struct Option;
struct String;
struct Vec;
struct Box;
struct Duration;
struct Backoff;
struct JobType;
struct Registration;
struct Display;
trait From {}
trait Into {}
trait Send {}
trait Serialize {}
trait Deserialize {}
fn Ok() {}
fn Err() {}
fn Some() {}
const None: () = ();
const version: () = ();
const payload: () = ();

macro_rules! file {
    () => {
        compile_error!("not this one")
    };
}
macro_rules! line {
    () => {
        compile_error!("not this one")
    };
}

/// Serde's derives know the primitive types by their short names; delayq's code doesn't rely on them.
mod primitives {
    struct str;
    struct u8;
    struct u32;
    struct u64;
    struct f64;
    struct bool;

    #[delayq::delayed_job(
        name = "plain",
        version = 2,
        queue = "orders",
        max_retries = 1,
        timeout = "1s",
        priority = 1,
        backoff = exponential("1s", factor = 1.5, max = "2s", jitter = 0.5),
        unique = (0, 1),
        from(1 = super::OldPlain),
        handler = external,
        serde = external,
    )]
    pub struct Plain(pub ::core::primitive::u64, pub ::core::primitive::u64);
}

#[delayq::payload]
struct OldPlain;

impl ::core::convert::From<OldPlain> for primitives::Plain {
    fn from(_: OldPlain) -> Self {
        primitives::Plain(1, 2)
    }
}

impl ::serde::Serialize for primitives::Plain {
    fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> ::serde::Deserialize<'de> for primitives::Plain {
    fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
        <u64 as ::serde::Deserialize>::deserialize(deserializer).map(|id| primitives::Plain(id, id))
    }
}

#[delayq::payload]
struct OldJob {
    id: ::core::primitive::u64,
}

impl ::core::convert::From<OldJob> for Job {
    fn from(old: OldJob) -> Self {
        Job { id: old.id }
    }
}

#[delayq::delayed_job(
    name = "job",
    version = 2,
    queue = "orders",
    max_retries = 1,
    timeout = "1s",
    priority = 1,
    backoff = exponential("1s", factor = 2, max = "2s", jitter = 0),
    unique = (id, id_too),
    from(1 = OldJobToo),
)]
struct JobToo {
    id: ::core::primitive::u64,
    id_too: ::core::primitive::u64,
}

#[delayq::payload]
struct OldJobToo;

impl ::core::convert::From<OldJobToo> for JobToo {
    fn from(_: OldJobToo) -> Self {
        JobToo { id: 1, id_too: 2 }
    }
}

#[delayq::delayed_job(name = "job", version = 3, unique = id, from(2 = OldJob))]
struct Job {
    id: ::core::primitive::u64,
}

impl delayq::Job for Job {
    async fn run(self, _cx: delayq::JobContext) -> delayq::JobResult {
        ::core::result::Result::Ok(())
    }
}

impl delayq::Job for JobToo {
    async fn run(self, _cx: delayq::JobContext) -> delayq::JobResult {
        ::core::result::Result::Ok(())
    }
}

pub(crate) fn main() {
    let job = <Job as delayq::JobType>::decode(2, br#"{"id":7}"#).unwrap();
    assert_eq!(job.id, 7);
    assert!(delayq::JobType::unique_key(&job).is_some());
    let job = <JobToo as delayq::JobType>::decode(1, b"null").unwrap();
    assert_eq!(job.id_too, 2);
    let plain = <primitives::Plain as delayq::JobType>::decode(1, b"null").unwrap();
    assert_eq!(plain.1, 2);
}
