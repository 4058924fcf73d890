//! From the text of a pipeline file to its types, with errors that name line, column and the nearest key.

use std::path::Path;

use plansmith_engine::{ArchitecturesAs, Compatible, Flavor, ModelLengths, ProfilesAs, Weights};
use serde_yaml::{Mapping, Value};

use crate::Error;
use crate::clients::RTX_IN_TRITON;
use crate::file::{Layout, PipelineFile, first_duplicate};

/// Bytes of a pipeline file.
const MOST_BYTES: u64 = 1 << 20;

/// Reads and checks a pipeline file; `overrides` are `PATH=VALUE`, with dots and indices.
///
/// # Errors
/// The file cannot be read or is no valid pipeline; says where.
pub fn read_pipeline(path: &Path, overrides: &[String]) -> Result<PipelineFile, Error> {
    let text = plansmith_files::text(plansmith_files::read_limited(path, MOST_BYTES)?, path)?;
    parse_pipeline(path, &text, overrides)
}

pub(crate) fn parse_pipeline(path: &Path, text: &str, overrides: &[String]) -> Result<PipelineFile, Error> {
    // Straight into the types: through a `Value` the line and column of an error would be lost.
    let pipeline: PipelineFile = serde_yaml::from_str(text).map_err(|error| yaml_error(path, text, &error))?;
    let pipeline = if overrides.is_empty() {
        pipeline
    } else {
        let mut value: Value = serde_yaml::from_str(text).map_err(|error| yaml_error(path, text, &error))?;
        for assignment in overrides {
            set(&mut value, assignment)?;
        }
        PipelineFile::deserialize_value(value).map_err(|problem| Error::Override { assignment: overrides.join(" "), problem })?
    };
    check(path, &pipeline)?;
    Ok(pipeline)
}

impl PipelineFile {
    fn deserialize_value(value: Value) -> Result<Self, String> {
        serde_yaml::from_value(value).map_err(|error| error.to_string())
    }
}

/// What no type says: references and names across the file.
fn check(path: &Path, pipeline: &PipelineFile) -> Result<(), Error> {
    let invalid = |key: String, problem: String, hint: Option<String>| Error::Invalid { path: path.to_owned(), key, problem, hint };
    if pipeline.export.is_empty() && pipeline.verify.graphs.is_empty() {
        let hint = "give at least `- { id: fp32, dtype: source }`, or graphs to judge under `verify.graphs`";
        return Err(invalid("export".into(), "is empty".into(), Some(hint.into())));
    }
    if pipeline.layouts.iter().enumerate().any(|(index, layout)| pipeline.layouts[..index].contains(layout)) {
        return Err(invalid("layouts".into(), "names one twice".into(), None));
    }
    if pipeline.layouts.contains(&Layout::Triton)
        && let Some(engine) = pipeline.engines.iter().position(|engine| engine.flavor == Flavor::Rtx)
    {
        let problem = format!("asks for plans of the rtx flavour beside `layouts: [triton]`: {RTX_IN_TRITON}");
        let hint = "leave them out, or build on the GPU that serves, with `flavor: enterprise` and `architectures: native`";
        return Err(invalid(format!("engines[{engine}].flavor"), problem, Some(hint.into())));
    }
    for (index, engine) in pipeline.engines.iter().enumerate().filter(|_| pipeline.layouts.contains(&Layout::Triton)) {
        let beside = "beside `layouts: [triton]`, whose server";
        if engine.weights != Weights::Embedded {
            let problem = format!("is `{}` {beside} does not put weights into plans", engine.weights);
            return Err(invalid(format!("engines[{index}].weights"), problem, Some("write `weights: embedded`".into())));
        }
        if engine.profiles_as == ProfilesAs::OnePlan && engine.profiles.len() > 1 {
            let problem = format!("is `one-plan` {beside} would take the first profile only");
            return Err(invalid(format!("engines[{index}].profiles_as"), problem, Some("write `profiles_as: plan-each`".into())));
        }
    }
    let ids = || pipeline.export.iter().map(|export| export.id.0.as_str());
    if let Some(id) = first_duplicate(ids()) {
        return Err(invalid("export".into(), format!("has two entries with id `{id}`"), None));
    }
    for (index, engine) in pipeline.engines.iter().enumerate() {
        if !ids().any(|id| id == engine.from) {
            let hint = nearest(&engine.from, ids()).map(|id| format!("did you mean `{id}`?"));
            let known: Vec<&str> = ids().collect();
            let problem = format!("is `{}`, which is no id under `export` ({})", engine.from, known.join(", "));
            return Err(invalid(format!("engines[{index}].from"), problem, hint));
        }
        if engine.profiles.is_empty() {
            return Err(invalid(format!("engines[{index}].profiles"), "is empty".into(), None));
        }
        let key = |name: &str| format!("engines[{index}].{name}");
        let by_engine = |name: &str, error: plansmith_engine::Error| invalid(key(name), format!("cannot be: {error}"), error.hint());
        engine.flavor.check_targets(&engine.architectures).map_err(|error| by_engine("architectures", error))?;
        if engine.architectures_as == ArchitecturesAs::OnePlan {
            engine.weights.check(&engine.architectures).map_err(|error| by_engine("weights", error))?;
        }
        Compatible::check(&engine.compatible, engine.flavor).map_err(|error| by_engine("compatible", error))?;
        engine.timing_cache(path).check(engine.flavor).map_err(|error| by_engine("timing_cache", error))?;
        for (name, profile) in &engine.profiles {
            profile.profile(name, &ModelLengths::default())?;
        }
    }
    Ok(())
}

/// Sets one value. A map that is not there is made, unless its name is near to one that is: whether the file may have it is seen later.
fn set(root: &mut Value, assignment: &str) -> Result<(), Error> {
    let fail = |problem: String| Error::Override { assignment: assignment.to_owned(), problem };
    let (path, text) = assignment.split_once('=').ok_or_else(|| fail("has no `=`; PATH=VALUE is needed".into()))?;
    let new: Value = serde_yaml::from_str(text).map_err(|error| fail(format!("the value is no YAML: {error}")))?;
    let mut place = root;
    let mut walked = String::new();
    let parts: Vec<&str> = path.split('.').collect();
    for (depth, part) in parts.iter().enumerate() {
        let last = depth + 1 == parts.len();
        place = match place {
            Value::Sequence(list) => {
                let length = list.len();
                let index = part.parse::<usize>().ok().filter(|&index| index < length);
                let index = index.ok_or_else(|| {
                    fail(format!("`{}` has {length} entries, and `{part}` is none of them", walked.trim_end_matches('.')))
                })?;
                &mut list[index]
            }
            Value::Mapping(map) => {
                let key = Value::String((*part).to_owned());
                if !last && !map.contains_key(&key) {
                    let keys: Vec<&str> = map.keys().filter_map(Value::as_str).collect();
                    if let Some(nearest) = nearest(part, keys.into_iter()) {
                        return Err(fail(format!("there is no key `{walked}{part}`; did you mean `{nearest}`?")));
                    }
                }
                map.entry(key).or_insert_with(|| if last { Value::Null } else { Value::Mapping(Mapping::new()) })
            }
            _ => return Err(fail(format!("`{}` is neither a map nor a list", walked.trim_end_matches('.')))),
        };
        walked.push_str(part);
        walked.push('.');
    }
    *place = new;
    Ok(())
}

fn yaml_error(path: &Path, text: &str, error: &serde_yaml::Error) -> Error {
    let message = error.to_string();
    // The library ends its message with the place, which we say first.
    let problem = message.split(" at line ").next().unwrap_or(&message).to_owned();
    let (line, column) = error.location().map_or((0, 0), |location| (location.line(), location.column()));
    let enterprise = problem.contains("is not an architecture of TensorRT for RTX");
    let enterprise = enterprise.then(|| {
        "plans for it are of `flavor: enterprise` with `architectures: native` in place of names, built on a machine with that GPU"
            .to_owned()
    });
    let hint =
        unknown_field(&problem).and_then(|(name, known)| nearest(name, known.into_iter()).map(|key| format!("did you mean `{key}`?")));
    let hint = hint.or(enterprise);
    let source_line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default().to_owned();
    Error::Yaml { path: path.to_owned(), line, column, problem, source_line, hint }
}

/// The name and the known names in serde's words for an unknown key or variant.
fn unknown_field(problem: &str) -> Option<(&str, Vec<&str>)> {
    let start = problem.find("unknown field `").or_else(|| problem.find("unknown variant `"))?;
    let mut quoted = problem[start..].split('`').skip(1).step_by(2);
    let name = quoted.next()?;
    Some((name, quoted.collect()))
}

pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.4)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plansmith_engine::{ArchitecturesAs, ModelLengths, ProfilesAs};

    use super::parse_pipeline;
    use crate::Error;
    use crate::file::Storage;

    const GOOD: &str = "\
name: smollm2
source:
  checkpoint: ../model
export:
  - { id: fp32, dtype: source }
  - { id: fp16, dtype: fp16, logits: last }
engines:
  - from: fp16
    flavor: rtx
    architectures: [sm86, sm89]
    profiles:
      prefill: { batch: 1, sequence: [1, 128, 1024], past: 0 }
      decode: { batch: 1, sequence: 1, past: [0, 512, 2048] }
output: ../dist/smollm2
";

    fn error(text: &str) -> Error {
        parse_pipeline(Path::new("p.yaml"), text, &[]).expect_err("the text is wrong")
    }

    fn shown(error: &Error) -> String {
        format!("{error} | {}", error.hint().unwrap_or_default())
    }

    #[test]
    fn the_contracts_example_is_read() {
        let pipeline = parse_pipeline(Path::new("p.yaml"), GOOD, &["export.0.dtype=bf16".into()]).unwrap();
        assert_eq!(pipeline.export[0].dtype, Storage::Bf16);
        assert_eq!(pipeline.engines[0].architectures.len(), 2);
        let decode = pipeline.engines[0].profiles["decode"].profile("decode", &ModelLengths::default()).unwrap();
        assert_eq!(decode.past().to_array(), [0, 512, 2048]);
    }

    #[test]
    fn presets_and_layouts_are_read() {
        let text = GOOD.replace("decode: { batch: 1, sequence: 1, past: [0, 512, 2048] }", "decode: chat");
        let text = text.replace("    profiles:\n", "    architectures_as: one-plan\n    profiles_as: one-dynamic\n    profiles:\n");
        let engine = parse_pipeline(Path::new("p.yaml"), &text, &[]).unwrap().engines.remove(0);
        assert_eq!((engine.architectures_as, engine.profiles_as), (ArchitecturesAs::OnePlan, ProfilesAs::OneDynamic));
        let lengths = ModelLengths { max_positions: Some(2048), ..ModelLengths::default() };
        let decode = engine.profiles["decode"].profile("decode", &lengths).unwrap();
        assert_eq!(decode.to_string(), "decode:batch=1,sequence=1..1..2048,past=0..512..2047");
        let unknown = shown(&error(&text.replace("decode: chat", "decode: chatt")));
        assert!(unknown.contains("`chatt` is no preset; they are chat, batch, long-prompt"), "{unknown}");
        let unknown = shown(&error(&text.replace("one-dynamic", "one-dynamik")));
        assert!(unknown.contains("one-dynamik") && unknown.ends_with("did you mean `one-dynamic`?"), "{unknown}");
        let unknown = shown(&error(&GOOD.replace("past: 0", "passt: 0")));
        assert!(unknown.contains("unknown field `passt`") && unknown.starts_with("p.yaml:12"), "{unknown}");
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place_and_the_nearest() {
        let error = error(&GOOD.replace("architectures:", "architecture:"));
        assert!(shown(&error).starts_with("p.yaml:10:5: "), "{}", shown(&error));
        assert!(shown(&error).contains("`architecture`") && shown(&error).ends_with("did you mean `architectures`?"), "{}", shown(&error));
    }

    #[test]
    fn plans_that_triton_does_not_load_are_refused_beside_its_layout() {
        let error = error(&GOOD.replace("output:", "layouts: [hub, triton]\noutput:"));
        assert!(shown(&error).contains("engines[0].flavor") && shown(&error).contains("`ftrt`"), "{}", shown(&error));
        let unknown = shown(&self::error(&GOOD.replace("output:", "layouts: [triten]\noutput:")));
        assert!(unknown.starts_with("p.yaml:14") && unknown.ends_with("did you mean `triton`?"), "{unknown}");
        let twice = shown(&self::error(&GOOD.replace("output:", "layouts: [hub, hub]\noutput:")));
        assert!(twice.contains("names one twice"), "{twice}");
    }

    #[test]
    fn duplicates_are_refused() {
        let twice = GOOD.replace("      decode:", "      prefill:");
        assert!(shown(&error(&twice)).contains("duplicate key `prefill`"), "{}", shown(&error(&twice)));
        let twice = GOOD.replace("output:", "name: x\noutput:");
        assert!(shown(&error(&twice)).contains("duplicate"), "{}", shown(&error(&twice)));
        let twice = GOOD.replace("id: fp32", "id: fp16");
        assert!(shown(&error(&twice)).contains("two entries with id `fp16`"));
    }

    #[test]
    fn bad_ranges_and_references_are_refused() {
        let range = error(&GOOD.replace("[1, 128, 1024]", "[1, 2048, 1024]"));
        assert!(
            shown(&range).contains("optimum 2048 is above the maximum 1024") && shown(&range).contains("p.yaml:12"),
            "{}",
            shown(&range)
        );
        let two = error(&GOOD.replace("[1, 128, 1024]", "[1, 128]"));
        assert!(shown(&two).contains("2 numbers"), "{}", shown(&two));
        let from = error(&GOOD.replace("from: fp16", "from: fp17"));
        assert!(shown(&from).contains("engines[0].from") && shown(&from).contains("did you mean `fp16`?"), "{}", shown(&from));
        let arch = error(&GOOD.replace("sm86, sm89", "sm86, sm90"));
        assert!(shown(&arch).contains("sm90"), "{}", shown(&arch));
    }

    #[test]
    fn overrides_say_what_they_miss() {
        let miss = |assignment: &str| shown(&parse_pipeline(Path::new("p.yaml"), GOOD, &[assignment.into()]).expect_err("no such path"));
        assert!(miss("export.7.dtype=fp16").contains("`export` has 2 entries"), "{}", miss("export.7.dtype=fp16"));
        assert!(miss("sorce.checkpoint=x").contains("did you mean `source`?"));
        assert!(miss("name").contains("has no `=`"));
        assert!(miss("export.0.dtype=fp33").contains("fp33"));
        assert!(miss("nonsense.of.mine=1").contains("unknown field `nonsense`"));
        // A section that the file does without.
        let short = "name: a\nsource: { checkpoint: m }\nexport: [{ id: b }]\noutput: c\n";
        let set = parse_pipeline(Path::new("p.yaml"), short, &["verify.golden=g".into()]).expect("a golden");
        assert_eq!(set.verify.golden.map(|golden| golden.0).as_deref(), Some("g"));
    }
}
