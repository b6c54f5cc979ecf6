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
        setup: "default client, worker and stack (200 at once)",
        program: Program::Rust { adapter: "peer-delayq", package: "delayq" },
        ..ORDINARY
    },
    Peer {
        name: "bullmq",
        setup: "Node; one worker, concurrency 100, finished jobs removed; addBulk",
        program: Program::Node { script: "bullmq.js", package: "bullmq" },
        ..ORDINARY
    },
    Peer {
        name: "python-loop",
        setup: "redis-py with hiredis; ZADD, a Lua script pops one due job, none due: sleep 0.1 s",
        program: Program::Python { script: "loop.py", package: "redis" },
        ..ORDINARY
    },
];
