//! `plansmith check`.

use plansmith_files::Digest;
use plansmith_pipeline::check_bundle;

use crate::args::Check;
use crate::exit::{Failure, Outcome};
use crate::output::{Output, human_bytes};

pub(crate) fn run(args: &Check, output: &Output) -> Result<Outcome, Failure> {
    let digest = args.digest.as_ref().map(|text| text.parse::<Digest>()).transpose();
    let digest =
        digest.map_err(|error| Failure::new(error.to_string()).hint("`plansmith check BUNDLE` prints the digest of a manifest"))?;
    let checked = check_bundle(&args.bundle, digest)?;
    if args.json {
        output.json(&checked)?;
        return Ok(Outcome::Done);
    }
    let (files, bytes, folder) = (checked.files, human_bytes(checked.bytes), args.bundle.display());
    output.result(format!("{folder}: {files} files, {bytes}: every one as the manifest says; verdict {}", checked.verdict))?;
    if !checked.not_executed.is_empty() {
        output.result(format!("not_executed where it was built: {}", checked.not_executed.join(", ")))?;
    }
    output.result(format!("manifest sha256 {}", checked.manifest_sha256))?;
    Ok(Outcome::Done)
}
