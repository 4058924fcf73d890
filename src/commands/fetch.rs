//! `plansmith fetch`.

use std::time::Duration;

use plansmith_hub::{Address, Hub, Options, Place, find_offline, is_offline};

use crate::args::Fetch;
use crate::exit::{Failure, Outcome};
use crate::output::{Output, human_bytes};
use crate::progress::Meter;

pub(crate) fn run(args: &Fetch, offline: bool, output: &Output) -> Result<Outcome, Failure> {
    let address: Address = args.address.parse()?;
    let place = match &args.output {
        Some(folder) => Place::Folder(folder.clone()),
        None => Place::cache(&address)?,
    };
    let timeout = Duration::from_secs(args.timeout);
    let options = Options { allow_moving: args.allow_moving, force: args.force, jobs: args.jobs, timeout, ..Options::default() };
    let offline = offline || is_offline();
    let what = if offline { "hashing" } else { "fetching" };
    let meter = Meter::of(output, what);
    let fetched = if offline {
        find_offline(&address, &place, &options)?
    } else {
        Hub::from_env()?.fetch(&address, &place, &options, &|progress| meter.bytes(what, progress.done, progress.total))?
    };
    drop(meter);
    if args.json {
        output.json(&fetched)?;
        return Ok(Outcome::Done);
    }
    for file in &fetched.files {
        let how = if file.taken_over { "there already" } else { "fetched" };
        output.detail(format!("{}: {}, sha256 {}, {how}", file.name, human_bytes(file.bytes), file.sha256));
    }
    let bytes = human_bytes(fetched.files.iter().map(|file| file.bytes).sum());
    let (count, new) = (fetched.files.len(), fetched.files.iter().filter(|file| !file.taken_over).count());
    let now = if offline { "all there".to_owned() } else { format!("{new} of them fetched now") };
    output.note(format!("{}@{}: {count} files, {bytes}, {now}, each with the hub's hash", fetched.repository, fetched.commit));
    // Alone on stdout, for `$(plansmith fetch …)`.
    output.result(fetched.folder.display().to_string())?;
    Ok(Outcome::Done)
}
