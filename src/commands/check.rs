//! `plansmith check`.

use plansmith_attest::VerifyingKey;
use plansmith_files::Digest;
use plansmith_pipeline::{Against, Signed, check_bundle};
use plansmith_verify::Outcome as Verdict;

use crate::args::Check;
use crate::exit::{Failure, Outcome};
use crate::output::{Output, human_bytes};

pub(crate) fn run(args: &Check, output: &Output) -> Result<Outcome, Failure> {
    let digest = args.digest.as_ref().map(|text| text.parse::<Digest>()).transpose();
    let digest =
        digest.map_err(|error| Failure::new(error.to_string()).hint("`plansmith check BUNDLE` prints the digest of a manifest"))?;
    let key = args.key.as_deref().map(VerifyingKey::read).transpose()?;
    let checked = check_bundle(&args.bundle, &Against { digest, key: key.as_ref(), source: args.against.as_deref() })?;
    // A bundle that is whole, of artifacts that differ from their source: what a release gates on is the exit code.
    let outcome = if checked.verdict == Verdict::Agree.name() { Outcome::Done } else { Outcome::Disagreed };
    if args.json {
        output.json(&checked)?;
        return Ok(outcome);
    }
    let (files, bytes, folder) = (checked.files, human_bytes(checked.bytes), args.bundle.display());
    output.result(format!("{folder}: {files} files, {bytes}: every one as the manifest says; verdict {}", checked.verdict))?;
    if !checked.not_executed.is_empty() {
        output.result(format!("not_executed where it was built: {}", checked.not_executed.join(", ")))?;
    }
    if let Some(source) = &args.against {
        output.result(format!("made of {}: every file as the manifest says", source.display()))?;
    }
    match (checked.signed, &key) {
        (Signed::ByKey, Some(key)) => output.result(format!("signed by the key with the fingerprint {}", key.fingerprint()))?,
        (Signed::No, _) => output.result("not signed")?,
        _ => output.result("signed; --key FILE says by whom")?,
    }
    output.result(format!("manifest sha256 {}", checked.manifest_sha256))?;
    if outcome == Outcome::Disagreed {
        output.result(format!("its artifacts are not proved to compute what their source computes: see {folder}/report.html"))?;
    }
    Ok(outcome)
}
