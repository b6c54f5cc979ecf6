//! The peers: what each is, how it is set up, and how many jobs it can be given.

/// A peer.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// How it is set up, in a line. README.md says why.
    pub(crate) setup: &'static str,
    pub(crate) program: Program,
    /// The oldest Redis that its documentation allows.
    pub(crate) needs_redis: (u32, u32),
    /// The share of the jobs that it is sent in the enqueue phase, in percent.
    pub(crate) sent_percent: usize,
    /// The share of the jobs that it runs in a phase, in percent: a slow peer's phase should end in about half a minute.
    pub(crate) ran_percent: usize,
    /// With how many jobs a phase is tried again that stalled.
    pub(crate) fewer: Option<usize>,
}

/// What an adapter is made of.
pub(crate) enum Program {
    /// A crate of this workspace and the package that it is about.
    Rust { adapter: &'static str, package: &'static str },
    /// A script in node/ and its package.
    Node { script: &'static str, package: &'static str },
    /// A script in python/ and its package.
    Python { script: &'static str, package: &'static str },
}

const ORDINARY: Peer = Peer {
    name: "",
    setup: "",
    program: Program::Rust { adapter: "", package: "" },
    needs_redis: (6, 2),
    sent_percent: 100,
    ran_percent: 100,
    fewer: None,
};

/// All, the one that they are compared with first.
pub(crate) const PEERS: &[Peer] = &[
    Peer {
        name: "delayq",
        setup: "default client, worker and stack (300 at once)",
        program: Program::Rust { adapter: "peer-delayq", package: "delayq" },
        ..ORDINARY
    },
    Peer {
        name: "apalis-redis",
        setup: "batches of 500, leases, events and results off, polled every 100 ms; push_all",
        program: Program::Rust { adapter: "peer-apalis-redis", package: "apalis-redis" },
        // Its fetch script unpacks all that is due into one call, and Lua's unpack takes fewer than 8,000.
        fewer: Some(7_000),
        ..ORDINARY
    },
    Peer {
        name: "bullmq-official",
        setup: "Rust; one worker, concurrency 100, finished jobs removed; add_bulk",
        program: Program::Rust { adapter: "peer-bullmq-official", package: "bullmq-official" },
        ..ORDINARY
    },
    Peer {
        name: "oxana",
        setup: "one queue, concurrency 100, pool of 110; enqueue_list, scheduled: 64 sends in flight",
        program: Program::Rust { adapter: "peer-oxana", package: "oxana" },
        ran_percent: 40,
        ..ORDINARY
    },
    Peer {
        name: "rusty-sidekiq",
        setup: "50 workers, pool of 60; no bulk call: 64 sends in flight",
        program: Program::Rust { adapter: "peer-rusty-sidekiq", package: "rusty-sidekiq" },
        // It moves ten scheduled jobs each five seconds: so many come through within the patience.
        fewer: Some(50),
        ..ORDINARY
    },
    Peer {
        name: "chasquimq",
        setup: "concurrency 100, batches of 512; add_bulk, add_in_bulk",
        program: Program::Rust { adapter: "peer-chasquimq", package: "chasquimq" },
        needs_redis: (8, 6),
        ..ORDINARY
    },
    Peer {
        name: "bullmq",
        setup: "Node; one worker, concurrency 100, finished jobs removed; addBulk",
        program: Program::Node { script: "bullmq.js", package: "bullmq" },
        ..ORDINARY
    },
    Peer {
        name: "celery",
        setup: "prefork, a process a core, prefetch 100, no results, no gossip; no bulk call: one kept producer",
        program: Program::Python { script: "celery_app.py", package: "celery" },
        sent_percent: 10,
        ran_percent: 10,
        ..ORDINARY
    },
    Peer {
        name: "python-loop",
        setup: "redis-py with hiredis; ZADD, a Lua script pops one due job, none due: sleep 0.1 s",
        program: Program::Python { script: "loop.py", package: "redis" },
        ..ORDINARY
    },
];
