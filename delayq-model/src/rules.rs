//! The rules by their letters in the protocol, and the parts of each that a step can be run without.

/// A set of parts of rules: those that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    off: u64,
}

impl Rules {
    /// All of them, as the scripts keep them.
    pub const ALL: Rules = Rules { off: 0 };

    /// All but one.
    pub fn without(part: Part) -> Rules {
        Rules { off: 1 << part as u64 }
    }

    /// Whether this part is kept.
    pub fn keeps(self, part: Part) -> bool {
        self.off & (1 << part as u64) == 0
    }
}

macro_rules! parts {
    ($($part:ident $letter:literal $without:literal,)+) => {
        /// A part of a rule that can be switched off. The first letter is the rule's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Part {
            $(#[doc = concat!("Without it: ", $without, ".")] $part,)+
        }

        /// All parts.
        pub const PARTS: &[Part] = &[$(Part::$part),+];

        impl Part {
            /// The rule's letter in the protocol.
            pub fn letter(self) -> char {
                match self { $(Part::$part => $letter),+ }
            }

            /// What happens without it.
            pub fn without(self) -> &'static str {
                match self { $(Part::$part => $without),+ }
            }
        }
    };
}

parts! {
    AFence 'a' "a session that is lost claims and settles on",
    ARenew 'a' "a beat puts a session back that was lost",
    AOnce 'a' "an id of a session can be opened twice",
    BRecheck 'b' "a session is drained whose lease stands",
    BFence 'b' "a session that is being drained is not fenced",
    BListed 'b' "a half-drained session is no longer listed",
    BEmpty 'b' "a drained session stays listed",
    CSeq 'c' "a call is taken that a newer one came before",
    CHandBack 'c' "what a session doesn't know that it holds stays with it",
    CReport 'c' "a session isn't told what it no longer holds",
    DToken 'd' "a verdict counts whatever run it names",
    DRise 'd' "a job that comes back keeps its run number",
    DClock 'd' "a run number's floor is not the clock",
    EHold 'e' "sessions are lost right after an outage",
    ECut 'e' "a lease that reaches too far, since the clock was set back, stays",
    GHolds 'g' "a session is closed that holds jobs",
    HDue 'h' "a claim takes what is not due",
    HRound 'h' "a due time is rounded down",
    HAlone 'h' "a job taken by its id may have been put off",
    ITomb 'i' "an id that ended is forgotten",
    IKept 'i' "a record is kept for a moment, and then its id is forgotten",
    KOnce 'k' "a send that is repeated makes the job anew",
    LEnqueue 'l' "a send arms no timer",
    LSettle 'l' "a verdict that brings a job back arms no timer",
    LReconcile 'l' "a job handed back arms no timer",
    LRescue 'l' "a job taken back arms no timer",
    LReschedule 'l' "a job moved earlier arms no timer",
    LRedrive 'l' "a redriven job arms no timer",
    LResume 'l' "a resumed queue wakes nobody",
    MFull 'm' "a full claim keeps the baton",
    MClose 'm' "a session that ends keeps the baton",
    MPass 'm' "a worker that can't claim keeps the baton",
    MWatch 'm' "a claim that leaves jobs for later arms no timer",
    MBeat 'm' "a beat doesn't see that the baton was lost",
    NScanned 'n' "a claim is full when as many came out as it asked for",
    OFlag 'o' "a cancel ends a running job at once",
    OSettle 'o' "a verdict overlooks a cancel",
    OReconcile 'o' "handing back overlooks a cancel",
    ORescue 'o' "taking back overlooks a cancel",
    PCharge 'p' "each crash in company costs an attempt",
    PLimit 'p' "a crash on the last attempt gives another",
    PBuried 'p' "a crash in company buries as a crash loop",
    PLast 'p' "a crash alone gives another life",
    PApart 'p' "a second crash brings all its jobs back at once",
    PEmpty 'p' "a job on its last life is claimed in company",
    QCount 'q' "a snooze is not counted",
    RRefuse 'r' "a key that is taken can be taken",
    ROwner 'r' "a job releases a key that it doesn't own",
    RRelease 'r' "a job that ends keeps its key",
    RRedrive 'r' "a redriven job doesn't take its key again",
    RConflict 'r' "a redriven job takes its key from another",
    SRecord 's' "a done job's record stays",
    SHeld 's' "a settled run stays held",
    SCounted 's' "an end is not counted",
    SRunning 's' "running jobs are counted by subtraction",
    UMissing 'u' "a claim gives up at a job without a record",
    VShards 'v' "another number of shards is let in",
    WSchema 'w' "another layout is let in",
}
