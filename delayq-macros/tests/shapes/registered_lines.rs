//! A registration names the line of the attribute in the user's own file.

use delayq::JobType as _;

/// Stands in for delayq, to see what is registered.
mod watched {
    pub use delayq::*;

    pub mod __private {
        pub use delayq::__private::{String, decode_json, inventory, serde};

        pub struct Registration {
            pub name: &'static str,
            pub external: bool,
            pub file: &'static str,
            pub line: u32,
        }

        inventory::collect!(Registration);

        impl Registration {
            pub const fn of<J: delayq::Job>(file: &'static str, line: u32) -> Registration {
                Registration { name: J::NAME, external: false, file, line }
            }

            pub const fn external<J: delayq::JobType>(file: &'static str, line: u32) -> Registration {
                Registration { name: J::NAME, external: true, file, line }
            }
        }
    }
}

const BEFORE_FIRST: u32 = line!();
#[delayq::delayed_job(name = "first", version = 1, crate = crate::registered_lines::watched)]
struct First;

impl delayq::Job for First {
    async fn run(self, _cx: delayq::JobContext) -> delayq::JobResult {
        Ok(())
    }
}

const BEFORE_SECOND: u32 = line!();
#[delayq::delayed_job(
    name = "second",
    version = 1,
    handler = external,
    crate = crate::registered_lines::watched
)]
/// Documented.
#[derive(Debug)]
struct Second {
    #[allow(dead_code)]
    id: u64,
}

macro_rules! job {
    ($type:ident, $name:literal) => {
        #[delayq::delayed_job(name = $name, version = 1, handler = external, crate = crate::registered_lines::watched)]
        struct $type;
    };
}

const BEFORE_THIRD: u32 = line!();
job!(Third, "third");

pub(crate) fn main() {
    let line_of = |name, external| {
        let found: Vec<_> = delayq::__private::inventory::iter::<watched::__private::Registration>()
            .filter(|one| one.name == name)
            .collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, file!());
        assert_eq!(found[0].external, external);
        found[0].line
    };
    assert_eq!(line_of(First::NAME, false), BEFORE_FIRST + 1);
    assert_eq!(line_of(Second::NAME, true), BEFORE_SECOND + 1);
    assert_eq!(line_of(Third::NAME, true), BEFORE_THIRD + 1);
}
