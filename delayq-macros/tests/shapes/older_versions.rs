//! An older payload passes through every version after its own.

use delayq::{JobType, delayed_job, payload};

#[payload]
struct V1 {
    name: String,
}

#[payload]
#[serde(rename_all = "camelCase")]
struct V2 {
    full_name: String,
    steps: Vec<u32>,
}

/// An enum serves too.
#[payload]
pub enum V3 {
    Person { name: String, steps: Vec<u32> },
}

impl From<V1> for V2 {
    fn from(old: V1) -> Self {
        V2 { full_name: old.name, steps: vec![1] }
    }
}

impl From<V2> for V3 {
    fn from(mut old: V2) -> Self {
        old.steps.push(2);
        V3::Person { name: old.full_name, steps: old.steps }
    }
}

impl From<V3> for Greet {
    fn from(old: V3) -> Self {
        let V3::Person { name, mut steps } = old;
        steps.push(3);
        Greet { name, steps }
    }
}

// In any order: the numbers say which comes after which.
#[delayed_job(name = "greet", version = 4, handler = external, from(3 = V3, 1 = V1, 2 = V2))]
struct Greet {
    name: String,
    steps: Vec<u32>,
}

// Version 2 only gained a field with a default, so that today's struct reads it; version 1 is no longer read.
#[delayed_job(name = "wave", version = 3, handler = external, from(2 = Self))]
struct Wave {
    to: String,
    #[serde(default)]
    times: Option<u32>,
}

mod generic {
    use std::collections::HashMap;

    #[delayq::delayed_job(name = "count", version = 2, handler = external, from(1 = HashMap<String, (u32, u32)>))]
    pub struct Count {
        pub words: u32,
    }

    impl From<HashMap<String, (u32, u32)>> for Count {
        fn from(old: HashMap<String, (u32, u32)>) -> Self {
            Count { words: old.values().map(|(a, b)| a + b).sum() }
        }
    }
}

pub(crate) fn main() {
    assert_eq!(Greet::OLDEST_VERSION, 1);
    for (version, json, steps) in [
        (1, r#"{"name":"Ada"}"#, vec![1, 2, 3]),
        (2, r#"{"fullName":"Ada","steps":[9]}"#, vec![9, 2, 3]),
        (3, r#"{"Person":{"name":"Ada","steps":[9]}}"#, vec![9, 3]),
        (4, r#"{"name":"Ada","steps":[9]}"#, vec![9]),
    ] {
        let job = Greet::decode(version, json.as_bytes()).unwrap();
        assert_eq!((job.name.as_str(), job.steps), ("Ada", steps), "version {version}");
    }
    assert!(Greet::decode(1, br#"{"fullName":"Ada","steps":[]}"#).is_err());

    assert_eq!(Wave::OLDEST_VERSION, 2);
    let wave = Wave::decode(2, br#"{"to":"Ada"}"#).unwrap();
    assert_eq!((wave.to.as_str(), wave.times), ("Ada", None));
    assert_eq!(generic::Count::decode(1, br#"{"a":[1,2],"b":[3,4]}"#).unwrap().words, 10);
}
