//! Pictures of figures, as SVG.

mod charts;
mod scale;
mod svg;

use std::path::PathBuf;

use clap::Args;

use crate::Res;
use crate::all::Results;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The file that `all --out` wrote, or what a figure printed with `--json`.
    results: PathBuf,
    /// The folder for the pictures.
    #[arg(long, default_value = ".")]
    out: PathBuf,
}

/// Draws what the results have something for.
pub(crate) fn run(options: &Options) -> Res<()> {
    let results = Results::read(&options.results)?;
    let pictures = [
        ("lateness.svg", charts::lateness(&results)),
        ("throughput.svg", charts::throughput(&results)),
        ("backlog.svg", charts::backlog(&results)),
    ];
    std::fs::create_dir_all(&options.out)?;
    let mut drawn = 0;
    for (name, picture) in pictures {
        let Some(picture) = picture else {
            eprintln!("{name} is not drawn: its figures are not among the results");
            continue;
        };
        let path = options.out.join(name);
        std::fs::write(&path, picture)?;
        println!("{}", path.display());
        drawn += 1;
    }
    if drawn == 0 { Err("nothing was drawn".into()) } else { Ok(()) }
}
