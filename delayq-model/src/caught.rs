//! Where each rule is missed when it is gone: in a scene of the model, or by a test of the scripts.

use crate::Part;
use crate::Part::*;

/// A part of a rule, and the law that is broken without it.
#[derive(Debug, Clone, Copy)]
pub struct Caught {
    /// The part.
    pub part: Part,
    /// The scene in which it is missed.
    pub scene: &'static str,
    /// The letter of the law that is broken first.
    pub law: char,
}

/// A rule that no shard and no call shows, and the test that does.
#[derive(Debug, Clone, Copy)]
pub struct Elsewhere {
    /// The rule's letter in the protocol.
    pub letter: char,
    /// Why not here.
    pub why: &'static str,
    /// The source file, from the root.
    pub file: &'static str,
    /// What must stand there.
    pub name: &'static str,
}

const fn caught(part: Part, scene: &'static str, law: char) -> Caught {
    Caught { part, scene, law }
}

/// Every part.
pub const CAUGHT: &[Caught] = &[
    caught(AFence, "leases", 'a'),
    caught(ARenew, "leases", 'a'),
    caught(AOnce, "sends", 'a'),
    caught(BRecheck, "leases", 'b'),
    caught(BFence, "leases", 'a'),
    caught(BListed, "leases", 'a'),
    caught(BEmpty, "leases", 'b'),
    caught(CSeq, "network", 'c'),
    caught(CHandBack, "network", 'c'),
    caught(CReport, "network", 'c'),
    caught(DToken, "network", 'd'),
    caught(DRise, "network", 'd'),
    caught(DClock, "damage", 'd'),
    caught(EHold, "leases", 'e'),
    caught(ECut, "leases", 'e'),
    caught(GHolds, "baton", 'g'),
    caught(HDue, "sends", 'h'),
    caught(HRound, "sends", 'h'),
    caught(HAlone, "crashes", 'h'),
    caught(ITomb, "sends", 'i'),
    caught(IKept, "sends", 'i'),
    caught(KOnce, "sends", 'k'),
    caught(LEnqueue, "sends", 'l'),
    caught(LSettle, "baton", 'l'),
    caught(LReconcile, "network", 'l'),
    caught(LRescue, "leases", 'l'),
    caught(LReschedule, "baton", 'l'),
    caught(LRedrive, "sends", 'l'),
    caught(LResume, "baton", 'l'),
    caught(MFull, "baton", 'm'),
    caught(MClose, "baton", 'm'),
    caught(MPass, "baton", 'm'),
    caught(MWatch, "baton", 'm'),
    caught(MBeat, "baton", 'm'),
    caught(NScanned, "baton", 'n'),
    caught(OFlag, "network", 's'),
    caught(OSettle, "network", 'o'),
    caught(OReconcile, "network", 'o'),
    caught(ORescue, "leases", 'o'),
    caught(PCharge, "crashes", 'p'),
    caught(PLimit, "leases", 'p'),
    caught(PBuried, "crashes", 'p'),
    caught(PLast, "crashes", 'p'),
    caught(PApart, "crashes", 'p'),
    caught(PEmpty, "crashes", 'p'),
    caught(QCount, "network", 'q'),
    caught(RRefuse, "sends", 'r'),
    caught(ROwner, "sends", 'r'),
    caught(RRelease, "sends", 'r'),
    caught(RRedrive, "sends", 'r'),
    caught(RConflict, "sends", 'r'),
    caught(SRecord, "network", 's'),
    caught(SHeld, "network", 'm'),
    caught(SCounted, "sends", 's'),
    caught(SRunning, "damage", 's'),
    caught(UMissing, "damage", 'm'),
    caught(VShards, "sends", 'v'),
    caught(WSchema, "sends", 'w'),
];

const fn elsewhere(letter: char, why: &'static str, file: &'static str, name: &'static str) -> Elsewhere {
    Elsewhere { letter, why, file, name }
}

/// What the model can't say.
pub const ELSEWHERE: &[Elsewhere] = &[
    elsewhere(
        'f',
        "which thread renews, and which run is given up, is the worker's own affair",
        "tests/tests/worker/panics.rs",
        "f_a_run_that_blocks_its_thread_for_ever_is_given_up",
    ),
    elsewhere(
        'j',
        "who sends together is the client's own affair",
        "tests/tests/client/coalescing.rs",
        "j_a_caller_that_goes_away_takes_nothing_with_it",
    ),
    elsewhere(
        'j',
        "records have no bytes here",
        "tests/tests/store/claim.rs",
        "j_bytes_are_capped_but_one_job_always_comes",
    ),
    elsewhere(
        't',
        "memory is the server's",
        "tests/tests/store/server.rs",
        "t_b69_at_maxmemory_new_work_is_refused_and_old_work_gets_through",
    ),
    elsewhere(
        'u',
        "keys have no wrong types here, and records no wrong bytes",
        "tests/tests/store/wrong_types.rs",
        "u_a_key_of_the_wrong_type_shows_before_anything_was_written",
    ),
    elsewhere(
        'x',
        "what a power cut leaves is the file system's; that a file is written through unless said otherwise is",
        "delayq/src/engine/embedded/opening.rs",
        "x_a_file_is_written_through_unless_said_otherwise",
    ),
];

/// The mutated scripts of the fault campaign that break the same rules, by name.
pub const MUTANTS: &[(char, &str)] = &[
    ('d', "no-token-check"),
    ('d', "no-run-bump"),
    ('h', "claim-before-due"),
    ('k', "no-dedupe"),
    ('s', "settle-keeps-record"),
    ('s', "settle-keeps-held"),
    ('s', "bury-forgets-letter"),
];
