//! The table of scripts: each file with the pieces of `lua/lib` that it uses put before it.

use crate::engine::Script;

/// A script and what it was made of.
#[derive(Debug)]
pub struct ScriptFile {
    /// What the engine runs.
    pub script: &'static Script,
    /// The pieces of `lua/lib`, in order.
    pub uses: &'static [&'static str],
    /// The script's own file.
    pub own: &'static str,
}

macro_rules! scripts {
    ($($constant:ident = $name:literal uses $($lib:literal)*;)+) => {
        $(
            pub(super) static $constant: Script = Script::new(
                $name,
                concat!(
                    $(include_str!(concat!("../../lua/lib/", $lib, ".lua")), "\n",)*
                    include_str!(concat!("../../lua/", $name, ".lua"))
                ),
            );
        )+

        /// Every script.
        pub static SCRIPTS: &[ScriptFile] = &[
            $(ScriptFile {
                script: &$constant,
                uses: &[$($lib),*],
                own: include_str!(concat!("../../lua/", $name, ".lua")),
            }),+
        ];
    };
}

scripts! {
    AUDIT = "audit" uses "base" "orphan" "shard";
    BEAT = "beat" uses "base" "arm" "shard";
    CANCEL = "cancel" uses "base" "record" "ends" "shard";
    CLAIM = "claim" uses "base" "record" "arm" "ends" "fence" "settle" "take" "shard";
    CLOSE = "close" uses "base" "arm" "shard";
    DEAD_DELETE = "dead_delete" uses "base" "record" "ends" "shard";
    DEAD_LIST = "dead_list" uses "base" "shard";
    DEAD_REDRIVE = "dead_redrive" uses "base" "record" "arm" "ends" "shard";
    DONE_LIST = "done_list" uses "base" "shard";
    DUE_LIST = "due_list" uses "base" "shard";
    ENQUEUE = "enqueue" uses "base" "record" "arm" "ends";
    FORECAST = "forecast" uses "base" "shard";
    INSPECT = "inspect" uses "base" "record" "ends" "shard";
    OPEN = "open" uses "base" "arm" "shard";
    PASS = "pass" uses "base" "arm" "shard";
    PAUSE = "pause" uses "base" "arm" "shard";
    PROBE = "probe" uses "base";
    QUEUES = "queues" uses "base";
    RECONCILE = "reconcile" uses "base" "record" "arm" "ends" "fence" "shard";
    REGISTER = "register" uses "base";
    REPAIR = "repair" uses "base" "record" "arm" "ends" "orphan" "shard";
    RESCHEDULE = "reschedule" uses "base" "record" "arm" "ends" "shard";
    RESCUE = "rescue" uses "base" "record" "arm" "ends" "shard";
    RUNNING_LIST = "running_list" uses "base" "shard";
    SESSIONS = "sessions" uses "base" "shard";
    SETTLE = "settle" uses "base" "record" "arm" "ends" "fence" "settle" "shard";
    STATS = "stats" uses "base" "arm" "shard";
    WORKERS = "workers" uses "base" "shard";
}
