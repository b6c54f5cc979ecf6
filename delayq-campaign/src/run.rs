//! One run: a world, a fault that is fired again and again, healing, draining, judging.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use delayq::BoxError;
use serde::Serialize;

use crate::dice::Dice;
use crate::faults::{Fault, Group, Seen};
use crate::history::{Event, Tail, What};
use crate::judge::{Judgement, Verdict, id_of, judge};
use crate::world::{EngineKind, Mutant, World};

/// What all runs of a campaign have in common.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) engine: EngineKind,
    /// How long each fault goes on.
    pub(crate) time: Duration,
    pub(crate) is_smoke: bool,
    pub(crate) keep: Option<PathBuf>,
    pub(crate) mutant: Option<&'static Mutant>,
}

/// What came of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) number: u8,
    pub(crate) name: &'static str,
    pub(crate) group: Group,
    pub(crate) seconds: f64,
    pub(crate) seen: String,
    #[serde(flatten)]
    pub(crate) judgement: Judgement,
    /// The lines of the history that the findings are about.
    pub(crate) lines: Vec<String>,
}

/// How many lines of the history a finding shows, and how many findings show some.
const LINES: usize = 40;
const SHOWN: usize = 6;

/// The folder of a run, gone with it, also where the run is broken off.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs one fault and judges it.
pub(crate) async fn run(fault: &Fault, plan: &Plan) -> Report {
    let started = Instant::now();
    let place =
        std::env::temp_dir().join(format!("delayq-campaign-{}-{}-{}", std::process::id(), plan.seed, fault.number));
    let folder = Folder(place);
    let told = match std::fs::create_dir_all(&folder.0) {
        Ok(()) => in_folder(fault, plan, &folder.0).await,
        Err(error) => Err(format!("no folder for the run: {error}").into()),
    };
    let (events, malformed, trouble) = match told {
        Ok((events, malformed)) => (events, malformed, None),
        Err(error) => (Vec::new(), 0, Some(error.to_string())),
    };
    let mut judgement = judge(&events, malformed);
    if let Some(trouble) = trouble {
        judgement.why = Some(format!("the campaign itself failed: {trouble}"));
    }
    if let Some(keep) = &plan.keep {
        let to = keep.join(format!("{:02}-{}-seed{}.jsonl", fault.number, fault.name, plan.seed));
        let kept = std::fs::create_dir_all(keep).and_then(|()| std::fs::copy(folder.0.join("history.jsonl"), &to));
        if let Err(error) = kept {
            eprintln!("the history can't be kept at {}: {error}", to.display());
        }
    }
    drop(folder);
    let report = report(&events, judgement, (plan.seed, fault), started.elapsed());
    let found = report.judgement.findings.len();
    say(fault, plan.seed, &format!("{:?}, {found} findings, {:.0} s", report.judgement.verdict, report.seconds));
    report
}

/// Judges a history that was kept.
pub(crate) fn again(history: &Path, seed: u64) -> Result<Report, BoxError> {
    let (mut tail, mut events) = (Tail::open(history)?, Vec::new());
    tail.read(&mut events)?;
    let number = events.iter().find_map(|event| match event.what {
        What::FaultOn { number, .. } => Some(number),
        _ => None,
    });
    let fault = crate::faults::all().into_iter().find(|fault| Some(fault.number) == number);
    let fault = fault.ok_or("no fault begins in it")?;
    let judgement = judge(&events, tail.malformed.len());
    Ok(report(&events, judgement, (seed, &fault), Duration::ZERO))
}

fn report(events: &[Event], judgement: Judgement, (seed, fault): (u64, &Fault), took: Duration) -> Report {
    let seen = events.iter().rev().find_map(|event| match &event.what {
        What::FaultOff { seen, .. } => Some(seen.clone()),
        _ => None,
    });
    let lines = if judgement.verdict == Verdict::Fail { lines(events, &judgement) } else { Vec::new() };
    let (number, name, group) = (fault.number, fault.name, fault.group);
    Report { seed, number, name, group, seconds: took.as_secs_f64(), seen: seen.unwrap_or_default(), judgement, lines }
}

async fn in_folder(fault: &Fault, plan: &Plan, folder: &Path) -> Result<(Vec<Event>, usize), BoxError> {
    let mut setup = fault.setup(plan.engine);
    setup.mutant = plan.mutant;
    let seed = Dice::part(plan.seed, fault.number.into()).roll();
    say(fault, plan.seed, "starting servers and processes");
    let mut world = World::start(setup, seed, plan.time, plan.is_smoke, folder).await?;
    world.round = plan.seed;
    let outcome = torment(fault, plan.seed, &mut world).await;
    if let Err(error) = &outcome {
        // What was found until then counts; that the run is not whole, the missing end says.
        say(fault, plan.seed, &format!("the run broke off: {error}"));
        world.tick().await?;
        if world.events.iter().any(|event| matches!(event.what, What::Demand { met: false, .. })) {
            return Ok((world.events.clone(), world.malformed()));
        }
    }
    outcome?;
    say(fault, plan.seed, "judging");
    Ok((world.events.clone(), world.malformed()))
}

async fn torment(fault: &Fault, seed: u64, world: &mut World) -> Result<(), BoxError> {
    if !world.warm_up().await? {
        return Err("the load did not come up within 30 s".into());
    }
    say(fault, seed, "firing");
    world.tell(What::FaultOn { number: fault.number, name: fault.name.to_owned() });
    let until = Instant::now() + world.time;
    let mut seen = Seen { fired: false, by: String::new() };
    let mut times = 0;
    loop {
        let this = (fault.fire)(world).await?;
        times += 1;
        world.turn += 1;
        // One time that struck is enough for the run to prove something.
        if this.fired || !seen.fired {
            seen = this;
        }
        if Instant::now() >= until {
            break;
        }
        let pause = world.dice.between(50, 600);
        world.rest_ms(pause).await?;
    }
    if let Some(0) = world.servers.rewritten() {
        return Err("the mutant changed no script".into());
    }
    let by = if times > 1 { format!("{} (fired {times} times)", seen.by) } else { seen.by };
    world.tell(What::FaultOff { fired: seen.fired, seen: by });
    say(fault, seed, "healing and draining");
    world.heal().await?;
    world.anchor();
    let whole = world.finish().await?;
    if !whole {
        say(fault, seed, "not everything had ended when the patience had");
    }
    Ok(())
}

fn say(fault: &Fault, seed: u64, what: &str) {
    eprintln!("  seed {seed} {:>2} {:<24} {what}", fault.number, fault.name);
}

/// The history of the jobs that the first findings are about.
fn lines(events: &[Event], judgement: &Judgement) -> Vec<String> {
    let mut lines = Vec::new();
    let mut shown = Vec::new();
    for id in judgement.findings.iter().filter_map(|finding| finding.id) {
        if shown.len() == SHOWN || shown.contains(&id) {
            continue;
        }
        shown.push(id);
        let of_it = events.iter().filter(|event| id_of(&event.what) == Some(id)).take(LINES);
        lines.extend(of_it.filter_map(|event| serde_json::to_string(event).ok()));
    }
    let around = events.iter().filter(|event| {
        let what = &event.what;
        matches!(what, What::Signal { .. } | What::Down { .. } | What::Disturbed { .. } | What::Calm { .. })
            || matches!(what, What::FaultOn { .. } | What::FaultOff { .. } | What::Healed | What::Counted { .. })
    });
    lines.extend(around.take(LINES).filter_map(|event| serde_json::to_string(event).ok()));
    lines
}
