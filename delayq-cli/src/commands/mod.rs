//! The commands, one a file; each has its options, and `run`.

pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod dead;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod forecast;
pub(crate) mod job;
pub(crate) mod jobs;
mod lines;
pub(crate) mod pause;
pub(crate) mod queues;
pub(crate) mod reschedule;
pub(crate) mod workers;

use delayq::Client;

use crate::audit::Audit;
use crate::cli::{Cli, Command, Global};
use crate::connect::connect;
use crate::failure::Outcome;
use crate::output::Out;
use crate::{serve, top};

/// What a command works with.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) out: Out,
    pub(crate) audit: Audit,
}

pub(crate) async fn run(cli: Cli) -> Outcome {
    if let Command::Completions(options) = &cli.command {
        return completions::run(options);
    }
    if let Command::Top(options) = cli.command {
        return top::run(&cli.global, options).await;
    }
    if let Command::Serve(options) = &cli.command {
        options.check()?;
    }
    let (name, creates) = (name(&cli.command), matches!(cli.command, Command::Enqueue(_)));
    let mut session = begin(&cli.global, name, creates).await?;
    let result = match cli.command {
        Command::Enqueue(options) => enqueue::run(&mut session, options).await,
        Command::Job(options) => job::run(&mut session, options).await,
        Command::Jobs(options) => jobs::run(&mut session, options).await,
        Command::Cancel(options) => cancel::run(&mut session, options).await,
        Command::Reschedule(options) => reschedule::run(&mut session, options).await,
        Command::Dead(command) => dead::run(&mut session, command).await,
        Command::Queues(options) => queues::run(&mut session, options).await,
        Command::Pause(options) => pause::run(&mut session, options, true).await,
        Command::Resume(options) => pause::run(&mut session, options, false).await,
        Command::Forecast(options) => forecast::run(&mut session, options).await,
        Command::Workers(options) => workers::run(&mut session, options).await,
        Command::Doctor(options) => doctor::run(&mut session, options).await,
        Command::Serve(options) => serve::run(&mut session, cli.global.audit_log.as_deref(), options).await,
        Command::Completions(options) => completions::run(&options),
        Command::Top(options) => top::run(&cli.global, options).await,
    };
    // What was printed before a failure is shown as well.
    let flushed = session.out.flush();
    result.and(flushed.map_err(Into::into))
}

pub(crate) async fn begin(global: &Global, name: &'static str, creates: bool) -> Outcome<Session> {
    let out = Out::new(global.json);
    let audit = Audit::open(global.audit_log.as_deref(), name)?;
    Ok(Session { client: connect(global, creates).await?, out, audit })
}

/// The command's name in the audit log.
fn name(command: &Command) -> &'static str {
    match command {
        Command::Enqueue(_) => "enqueue",
        Command::Job(_) => "job",
        Command::Jobs(_) => "jobs",
        Command::Cancel(_) => "cancel",
        Command::Reschedule(_) => "reschedule",
        Command::Dead(command) => command.name(),
        Command::Queues(_) => "queues",
        Command::Pause(_) => "pause",
        Command::Resume(_) => "resume",
        Command::Forecast(_) => "forecast",
        Command::Workers(_) => "workers",
        Command::Doctor(_) => "doctor",
        Command::Serve(_) => "serve",
        Command::Completions(_) => "completions",
        Command::Top(_) => "top",
    }
}
