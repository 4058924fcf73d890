"""Unpacks wheels: unpack.py FOLDER_OF_WHEELS INTO [PATTERN...]

With patterns, the members that match one are put side by side; every pattern must match. Without, everything is unpacked as it is.
"""

import fnmatch
import pathlib
import shutil
import sys
import zipfile

wheels, into, patterns = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
into.mkdir(parents=True, exist_ok=True)
unmatched = set(patterns)
for wheel in sorted(wheels.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        if not patterns:
            archive.extractall(into)
            continue
        for member in archive.infolist():
            matching = [pattern for pattern in patterns if fnmatch.fnmatchcase(member.filename, pattern)]
            unmatched.difference_update(matching)
            if matching and not member.is_dir():
                with archive.open(member) as source, open(into / pathlib.PurePosixPath(member.filename).name, "wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
if unmatched:
    sys.exit(f"no member matches {', '.join(sorted(unmatched))}")
