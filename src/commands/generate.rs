//! `plansmith completions` and `plansmith man`.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{Failure, Outcome};
use crate::output::Output;

pub(crate) fn completions(shell: Shell, output: &Output) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "plansmith", &mut script);
    output.write(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}

pub(crate) fn man(folder: &Path, output: &Output) -> Result<Outcome, Failure> {
    plansmith_files::create_dir_all(folder)?;
    let command = Cli::command();
    let pages = std::iter::once(("plansmith".to_owned(), command.clone())).chain(command.get_subcommands().map(|verb| {
        let name = format!("plansmith-{}", verb.get_name());
        (name.clone(), verb.clone().display_name(name))
    }));
    for (name, command) in pages {
        let mut page = Vec::new();
        let path = folder.join(format!("{name}.1"));
        clap_mangen::Man::new(command).render(&mut page).map_err(|error| Failure::new(format!("cannot render {name}: {error}")))?;
        plansmith_files::write_atomic(&path, &page)?;
        output.detail(format!("wrote {}", path.display()));
    }
    Ok(Outcome::Done)
}
