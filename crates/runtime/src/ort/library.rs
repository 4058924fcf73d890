//! Finds ONNX Runtime's library on this machine.

use std::env;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::version::version_of;
use crate::error::{Error, Searched};

/// An ONNX Runtime library that this program can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrtLibrary {
    /// The file.
    pub path: PathBuf,
    /// What it says of itself, `1.32.0` for example.
    pub version: String,
}

/// Finds ONNX Runtime 1.24 or later and asks it for its version; nothing of it stays loaded.
///
/// A path that the user names, by `explicit` or else by `ORT_DYLIB_PATH`, is the only one tried: the library's file or the folder that
/// holds it. Otherwise these are searched, the newest version of a folder first: `onnxruntime-*` in the cache folder, the folder of the
/// running program and its `deps`, and the `onnxruntime` package of the `python3` on `PATH`.
///
/// # Errors
/// [`Error::LibraryMissing`] with every place that was searched and what was found there.
pub fn find_ort(explicit: Option<&Path>) -> Result<OrtLibrary, Error> {
    let named = explicit.map(|path| ("the library named on the command line", path.to_path_buf()));
    let named = named.or_else(|| {
        let value = env::var_os("ORT_DYLIB_PATH").filter(|value| !value.is_empty())?;
        Some(("ORT_DYLIB_PATH", PathBuf::from(value)))
    });
    let places = match named {
        Some((place, path)) => vec![named_place(place, path)],
        None => vec![cache_place(), program_place(), python_place()],
    };
    first_usable(places)
}

/// A place to search: what it is called, and the libraries there or why there are none.
struct Place {
    name: String,
    found: Result<Vec<PathBuf>, String>,
}

fn first_usable(places: Vec<Place>) -> Result<OrtLibrary, Error> {
    let mut searched = Vec::new();
    for Place { name, found } in places {
        match found {
            Err(outcome) => searched.push(Searched { place: name, outcome }),
            Ok(paths) if paths.is_empty() => searched.push(Searched { place: name, outcome: "no library there".to_owned() }),
            Ok(paths) => {
                for path in paths {
                    match usable(&path) {
                        Ok(version) => return Ok(OrtLibrary { path, version }),
                        Err(reason) => {
                            searched.push(Searched { place: name.clone(), outcome: format!("{}: {reason}", path.display()) });
                        }
                    }
                }
            }
        }
    }
    Err(Error::LibraryMissing { searched })
}

/// The version of the library at `path` if it is new enough.
fn usable(path: &Path) -> Result<String, String> {
    // A bare name would be looked for in the system's folders and not where we found it.
    let path = plansmith_files::canonicalize(path).map_err(|error| error.to_string())?;
    let version = version_of(&path)?;
    let least = ort::MINOR_VERSION;
    match release(&version) {
        Some((major, minor, _)) if (major, minor) >= (1, least) => Ok(version),
        _ => Err(format!("it is version {version}; 1.{least} or later is needed")),
    }
}

fn named_place(name: &str, path: PathBuf) -> Place {
    let found = if plansmith_files::is_dir(&path) { libraries_in(&path) } else { Ok(vec![path]) };
    Place { name: name.to_owned(), found }
}

fn cache_place() -> Place {
    let Some(folder) = plansmith_files::cache_folder() else {
        return Place {
            name: "the cache folder".to_owned(),
            found: Err("none of PLANSMITH_CACHE, XDG_CACHE_HOME and HOME is set".to_owned()),
        };
    };
    let name = folder.join("onnxruntime-*").display().to_string();
    let Ok(entries) = plansmith_files::list(&folder) else {
        return Place { name, found: Err(format!("no folder {}", folder.display())) };
    };
    let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("onnxruntime-"));
    let mut found: Vec<PathBuf> = entries
        .into_iter()
        .filter(ours)
        // A release archive has `lib`, a wheel `onnxruntime/capi`; an installer of ours may have put the library at the top.
        .flat_map(|folder| ["", "lib", "capi", "onnxruntime/capi"].map(|below| folder.join(below)))
        .flat_map(|folder| libraries_in(&folder).unwrap_or_default())
        .collect();
    newest_first(&mut found);
    Place { name, found: Ok(found) }
}

fn program_place() -> Place {
    let folder = env::current_exe().ok().and_then(|program| program.parent().map(Path::to_path_buf));
    let Some(folder) = folder else {
        return Place { name: "the program's folder".to_owned(), found: Err("it is unknown".to_owned()) };
    };
    let name = format!("{} and its deps", folder.display());
    let found = [folder.clone(), folder.join("deps")].iter().flat_map(|folder| libraries_in(folder).unwrap_or_default()).collect();
    Place { name, found: Ok(found) }
}

fn python_place() -> Place {
    Place {
        name: "the onnxruntime package of python3 on PATH".to_owned(),
        found: python_package().and_then(|folder| libraries_in(&folder)),
    }
}

/// The `capi` folder of Python's `onnxruntime` package, which is located and not imported.
fn python_package() -> Result<PathBuf, String> {
    const LOCATE: &str = "import importlib.util as u; s = u.find_spec('onnxruntime'); print(s.submodule_search_locations[0] if s else '')";
    let output = Command::new("python3")
        .args(["-c", LOCATE])
        // Python looks in the current folder first: what lies where the user happens to be must not be loaded.
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("python3 does not run: {error}"))?;
    let package = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || package.is_empty() {
        return Err("the package is not installed".to_owned());
    }
    Ok(Path::new(&package).join("capi"))
}

fn libraries_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = plansmith_files::list(folder).map_err(|error| error.to_string())?;
    let mut found: Vec<PathBuf> = entries.into_iter().filter(|path| is_library_name(path)).collect();
    newest_first(&mut found);
    Ok(found)
}

/// `libonnxruntime.so`, `libonnxruntime.so.1.32.0`, `libonnxruntime.1.32.0.dylib`, `onnxruntime.dll`; not the libraries of providers.
fn is_library_name(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let Some(rest) = name.strip_prefix(DLL_PREFIX).and_then(|rest| rest.strip_prefix("onnxruntime")) else { return false };
    rest.starts_with('.') && (rest.ends_with(DLL_SUFFIX) || rest.contains(&format!("{DLL_SUFFIX}.")))
}

fn newest_first(paths: &mut [PathBuf]) {
    paths.sort_by_key(|path| std::cmp::Reverse(path.file_name().and_then(|name| release(&name.to_string_lossy()))));
}

/// The first three numbers in `text`: a version, or a file name that ends in one.
fn release(text: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next().and_then(Result::ok).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn names_of_the_library_and_of_its_providers_are_told_apart() {
        for name in ["libonnxruntime.so", "libonnxruntime.so.1", "libonnxruntime.so.1.32.0"] {
            assert!(is_library_name(Path::new(name)), "{name}");
        }
        for name in ["libonnxruntime_providers_shared.so", "libonnxruntime.a", "onnxruntime.dll", "libonnxruntime4j.so"] {
            assert!(!is_library_name(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn the_newest_release_is_tried_first() {
        let mut paths = ["a/libonnxruntime.so", "a/libonnxruntime.so.1.9.1", "a/libonnxruntime.so.1.32.0"].map(PathBuf::from);
        newest_first(&mut paths);
        assert_eq!(paths, ["a/libonnxruntime.so.1.32.0", "a/libonnxruntime.so.1.9.1", "a/libonnxruntime.so"].map(PathBuf::from));
    }

    #[test]
    fn a_named_file_that_is_no_library_is_refused_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libonnxruntime.so");
        plansmith_files::write_atomic(&path, b"not a library").unwrap();
        for named in [path.as_path(), folder.path()] {
            let error = find_ort(Some(named)).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("the library named on the command line") && text.contains(&path.display().to_string()), "{text}");
            assert!(error.hint().unwrap().contains("pip install onnxruntime"));
        }
    }

    #[test]
    fn a_named_file_that_is_absent_is_refused_with_its_path() {
        let text = find_ort(Some(Path::new("/nowhere/libonnxruntime.so"))).unwrap_err().to_string();
        assert!(text.contains("/nowhere/libonnxruntime.so"), "{text}");
    }
}
