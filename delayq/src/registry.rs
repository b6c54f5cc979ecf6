//! From a stored name and version to the code that decodes, upcasts and runs it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;

use crate::error::{Error, ErrorKind};
use crate::job::{
    Backoff, Job, JobContext, JobResult, JobType, PayloadError, Registered, Run, RunFuture, StaticRun, check_name,
};
use crate::limits;

/// What `#[delayed_job]` submits: one job type that is linked into this program.
#[derive(Debug)]
pub struct Registration {
    name: &'static str,
    version: u32,
    oldest_version: u32,
    queue: &'static str,
    max_retries: u32,
    backoff: Backoff,
    timeout: Option<Duration>,
    file: &'static str,
    line: u32,
    run: Option<StaticRun>,
}

inventory::collect!(Registration);

impl Registration {
    /// A job type with its handler.
    pub const fn of<J: Job>(file: &'static str, line: u32) -> Registration {
        Registration { run: Some(run_static::<J>), ..Registration::external::<J>(file, line) }
    }

    /// A job type whose handler is given to the worker.
    pub const fn external<J: JobType>(file: &'static str, line: u32) -> Registration {
        Registration {
            name: J::NAME,
            version: J::VERSION,
            oldest_version: J::OLDEST_VERSION,
            queue: J::QUEUE,
            max_retries: J::MAX_RETRIES,
            backoff: J::BACKOFF,
            timeout: J::TIMEOUT,
            file,
            line,
            run: None,
        }
    }

    fn with(&self, run: Run) -> Registered {
        Registered {
            name: self.name,
            version: self.version,
            oldest_version: self.oldest_version,
            queue: self.queue,
            max_retries: self.max_retries,
            backoff: self.backoff,
            timeout: self.timeout.unwrap_or(limits::DEFAULT_TIMEOUT),
            source: format!("{}:{}", self.file, self.line),
            run,
        }
    }
}

fn run_static<J: Job>(version: u32, payload: &[u8], cx: JobContext) -> Result<RunFuture, PayloadError> {
    let job = J::decode(version, payload)?;
    Ok(Box::pin(job.run(cx)))
}

/// What a worker knows, by name and version.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_name: HashMap<&'static str, HashMap<u32, Arc<Registered>, RandomState>, RandomState>,
}

/// What a lookup came to.
pub(crate) enum Lookup<'a> {
    Found(&'a Arc<Registered>),
    UnknownVersion,
    UnknownJob,
}

/// Handlers that a worker was given, until it starts.
#[derive(Default)]
pub(crate) struct Handlers(Vec<Registered>);

impl Handlers {
    pub(crate) fn add<J, F, Fut>(&mut self, location: &'static std::panic::Location<'static>, handler: F)
    where
        J: JobType,
        F: Fn(J, JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = JobResult> + Send + 'static,
    {
        let run = move |version: u32, payload: &[u8], cx: JobContext| -> Result<RunFuture, PayloadError> {
            Ok(Box::pin(handler(J::decode(version, payload)?, cx)))
        };
        let registration = Registration::external::<J>(location.file(), location.line());
        self.0.push(registration.with(Run::Dyn(Box::new(run))));
    }
}

impl Registry {
    /// Everything that is linked, and the handlers that the worker was given.
    ///
    /// # Errors
    /// Two types for one name and version, a name that is none, or an external type without a handler.
    pub(crate) fn collect(handlers: Handlers) -> Result<Registry, Error> {
        Registry::build(inventory::iter::<Registration>.into_iter(), handlers)
    }

    fn build<'a>(linked: impl Iterator<Item = &'a Registration>, handlers: Handlers) -> Result<Registry, Error> {
        let mut registry = Registry::default();
        for registered in handlers.0 {
            registry.add(registered)?;
        }
        for registration in linked {
            match registration.run {
                Some(run) => registry.add(registration.with(Run::Static(run)))?,
                None if registry.handles(registration) => {}
                None => {
                    return Err(Error::new(
                        ErrorKind::Registry,
                        format!(
                            "the job {:?} version {} ({}:{}) is linked with `handler = external`, but this worker has no handler \
                             for it: add Worker::handle with one",
                            registration.name, registration.version, registration.file, registration.line
                        ),
                    ));
                }
            }
        }
        Ok(registry)
    }

    fn handles(&self, registration: &Registration) -> bool {
        matches!(self.lookup(registration.name, registration.version), Lookup::Found(_))
    }

    fn add(&mut self, registered: Registered) -> Result<(), Error> {
        check_name("job", registered.name)?;
        check_name("queue", registered.queue)?;
        if registered.version == 0 || registered.oldest_version == 0 || registered.oldest_version > registered.version {
            return Err(Error::new(
                ErrorKind::Registry,
                format!("the job {registered:?} has versions that can't be: they start at 1 and rise"),
            ));
        }
        let registered = Arc::new(registered);
        let versions = self.by_name.entry(registered.name).or_default();
        for version in registered.oldest_version..=registered.version {
            if let Some(other) = versions.insert(version, registered.clone()) {
                return Err(Error::new(
                    ErrorKind::Registry,
                    format!(
                        "the job {:?} version {version} has two handlers, at {} and at {}: give one of them another name or version",
                        registered.name, other.source, registered.source
                    ),
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn lookup(&self, name: &str, version: u32) -> Lookup<'_> {
        match self.by_name.get(name) {
            None => Lookup::UnknownJob,
            Some(versions) => versions.get(&version).map_or(Lookup::UnknownVersion, Lookup::Found),
        }
    }

    /// Checks that these names and versions are known.
    pub(crate) fn require(&self, required: &[(&'static str, u32)]) -> Result<(), Error> {
        let missing: Vec<String> = required
            .iter()
            .filter(|(name, version)| !matches!(self.lookup(name, *version), Lookup::Found(_)))
            .map(|(name, version)| format!("{name} version {version}"))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Registry,
            format!(
                "required, but not among the handled job types: {}; does the type have #[delayed_job]?",
                missing.join(", ")
            ),
        ))
    }

    /// The name without a copy, where it is known.
    pub(crate) fn intern(&self, name: &str) -> Cow<'static, str> {
        match self.by_name.get_key_value(name) {
            Some((known, _)) => Cow::Borrowed(*known),
            None => Cow::Owned(name.to_owned()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The queues that the known types are sent to.
    pub(crate) fn queues(&self) -> Vec<String> {
        let mut queues: Vec<String> =
            self.by_name.values().flat_map(HashMap::values).map(|registered| registered.queue.to_owned()).collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }

    /// The table that a worker shows at its start.
    pub(crate) fn table(&self) -> String {
        let mut rows: Vec<&Arc<Registered>> = self.by_name.values().flat_map(HashMap::values).collect();
        rows.sort_by_key(|row| (row.name, row.version));
        rows.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let mut table = String::new();
        for row in rows {
            let versions = if row.oldest_version == row.version {
                format!("{}", row.version)
            } else {
                format!("{}-{}", row.oldest_version, row.version)
            };
            let _ = write!(
                table,
                "\n  {} version {versions}, queue {}, {} retries, timeout {:?} ({})",
                row.name, row.queue, row.max_retries, row.timeout, row.source
            );
        }
        table
    }
}

/// Job types that must be linked: see [`Worker::requires`](crate::Worker::requires).
pub trait JobSet {
    /// Name and version of each.
    fn members() -> Vec<(&'static str, u32)>;
}

impl<J: JobType> JobSet for J {
    fn members() -> Vec<(&'static str, u32)> {
        vec![(J::NAME, J::VERSION)]
    }
}

macro_rules! job_set {
    ($($member:ident)+) => {
        impl<$($member: JobType),+> JobSet for ($($member,)+) {
            fn members() -> Vec<(&'static str, u32)> {
                vec![$(($member::NAME, $member::VERSION)),+]
            }
        }
    };
}

job_set!(A);
job_set!(A B);
job_set!(A B C);
job_set!(A B C D);
job_set!(A B C D E);
job_set!(A B C D E F);
job_set!(A B C D E F G);
job_set!(A B C D E F G H);
job_set!(A B C D E F G H I);
job_set!(A B C D E F G H I J);
job_set!(A B C D E F G H I J K);
job_set!(A B C D E F G H I J K L);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct One;

    impl JobType for One {
        const NAME: &'static str = "one";
        const VERSION: u32 = 3;
        const OLDEST_VERSION: u32 = 2;
    }

    impl Job for One {
        async fn run(self, _: JobContext) -> JobResult {
            Ok(())
        }
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Other;

    impl JobType for Other {
        const NAME: &'static str = "one";
        const VERSION: u32 = 2;
    }

    #[test]
    fn versions_are_looked_up_one_by_one() {
        let linked = [Registration::of::<One>("src/one.rs", 7)];
        let registry = Registry::build(linked.iter(), Handlers::default()).expect("one type");
        for version in [2, 3] {
            assert!(matches!(registry.lookup("one", version), Lookup::Found(_)));
        }
        for version in [0, 1, 4, u32::MAX] {
            assert!(matches!(registry.lookup("one", version), Lookup::UnknownVersion));
        }
        assert!(matches!(registry.lookup("two", 1), Lookup::UnknownJob));
        assert!(matches!(registry.intern("one"), Cow::Borrowed("one")));
        assert!(matches!(registry.intern("two"), Cow::Owned(_)));
    }

    #[test]
    fn f_a_run_may_take_15_minutes_unless_its_type_says_otherwise() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Short;

        impl JobType for Short {
            const NAME: &'static str = "short";
            const VERSION: u32 = 1;
            const TIMEOUT: Option<Duration> = Some(Duration::from_secs(30));
        }

        impl Job for Short {
            async fn run(self, _: JobContext) -> JobResult {
                Ok(())
            }
        }

        let linked = [Registration::of::<One>("src/one.rs", 7), Registration::of::<Short>("src/short.rs", 7)];
        let registry = Registry::build(linked.iter(), Handlers::default()).expect("two types");
        for (name, version, seconds) in [("one", 3, 15 * 60), ("short", 1, 30)] {
            let Lookup::Found(known) = registry.lookup(name, version) else { panic!("{name} is not known") };
            assert_eq!(known.timeout, Duration::from_secs(seconds), "{name}");
        }
    }

    #[test]
    fn two_handlers_for_one_version_are_refused_with_both_places() {
        let mut handlers = Handlers::default();
        handlers.add(std::panic::Location::caller(), |_: Other, _| async { Ok(()) });
        let linked = [Registration::of::<One>("src/one.rs", 7)];
        let refused = Registry::build(linked.iter(), handlers).expect_err("version 2 twice").to_string();
        assert!(refused.contains("src/one.rs:7") && refused.contains("registry.rs:"), "{refused}");
    }

    #[test]
    fn an_external_type_needs_its_handler() {
        let linked = [Registration::external::<Other>("src/other.rs", 9)];
        let refused = Registry::build(linked.iter(), Handlers::default()).expect_err("no handler").to_string();
        assert!(refused.contains("src/other.rs:9") && refused.contains("Worker::handle"), "{refused}");
        let mut handlers = Handlers::default();
        handlers.add(std::panic::Location::caller(), |_: Other, _| async { Ok(()) });
        assert!(Registry::build(linked.iter(), handlers).is_ok());
    }
}
