//! `plansmith sign`.

use plansmith_attest::SecretKey;
use plansmith_pipeline::sign_bundle;
use serde_json::json;

use crate::args::Sign;
use crate::exit::{Failure, Outcome};
use crate::output::Output;

pub(crate) fn run(args: &Sign, output: &Output) -> Result<Outcome, Failure> {
    if let Some(path) = &args.new_key {
        let (key, public) = SecretKey::create(path)?;
        let fingerprint = key.verifying().fingerprint();
        if args.json {
            output.json(&json!({ "key": path.to_string_lossy(), "public_key": public.to_string_lossy(), "fingerprint": fingerprint }))?;
        } else {
            let (secret, public) = (path.display(), public.display());
            output.result(format!("{secret}: keep it secret; {public}: give it to those who check; fingerprint {fingerprint}"))?;
        }
        return Ok(Outcome::Done);
    }
    let (Some(bundle), Some(path)) = (&args.bundle, &args.key) else {
        return Err(Failure::new("a bundle and a key are needed").hint("plansmith sign BUNDLE --key FILE"));
    };
    let key = SecretKey::read(path)?;
    let signature = sign_bundle(bundle, &key)?;
    let fingerprint = key.verifying().fingerprint();
    if args.json {
        output.json(&json!({ "signature": signature.to_string_lossy(), "fingerprint": fingerprint }))?;
    } else {
        output.result(format!("{}: signed by the key with the fingerprint {fingerprint}", signature.display()))?;
    }
    Ok(Outcome::Done)
}
