//! Serde derives that are there aren't added again, however they are written; the missing one is.

use delayq::{JobType, delayed_job, payload};

#[delayed_job(name = "a", version = 1, handler = external)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct BothByPath {
    id: u64,
}

mod imported {
    use serde::{Deserialize, Serialize};

    #[delayq::delayed_job(name = "b", version = 1, handler = external)]
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    pub struct BothByName {
        pub id: u64,
    }
}

#[delayed_job(name = "c", version = 1, handler = external)]
#[derive(serde::Serialize)]
struct OnlySerialize {
    id: u64,
}

#[delayed_job(name = "d", version = 1, handler = external)]
#[derive(::serde::Deserialize)]
struct OnlyDeserialize {
    id: u64,
}

#[delayed_job(name = "e", version = 1, handler = external)]
#[cfg_attr(all(), derive(serde::Serialize))]
#[cfg_attr(any(), derive(serde::Deserialize))]
struct Conditional {
    id: u64,
}

#[delayed_job(name = "f", version = 1, handler = external)]
#[serde(crate = "delayq::__private::serde", default)]
#[derive(Default)]
struct NamesItsCrate {
    id: u64,
}

#[payload]
#[derive(serde::Deserialize)]
struct Old {
    id: u64,
}

#[payload]
#[cfg_attr(all(), derive(serde::Serialize, serde::Deserialize))]
struct OldToo {
    id: u64,
}

fn is_serde<T: serde::Serialize + serde::de::DeserializeOwned>() {}

pub(crate) fn main() {
    let json = br#"{"id":7}"#;
    assert_eq!(BothByPath::decode(1, json).unwrap().id, 7);
    assert_eq!(imported::BothByName::decode(1, br#"{"ID":7}"#).unwrap().id, 7);
    assert_eq!(OnlySerialize::decode(1, json).unwrap().id, 7);
    assert_eq!(OnlyDeserialize::decode(1, json).unwrap().id, 7);
    assert_eq!(Conditional::decode(1, json).unwrap().id, 7);
    assert_eq!(NamesItsCrate::decode(1, b"{}").unwrap().id, 0);
    is_serde::<Old>();
    is_serde::<OldToo>();
    let _ = (|old: Old| old.id, |old: OldToo| old.id);
}
