"""Unpacks members of a Debian package: fetch_deb.py URL SHA256 INTO PATTERN... puts side by side what matches; every pattern must match."""

import fnmatch
import hashlib
import io
import pathlib
import shutil
import sys
import tarfile
import urllib.request

url, sha256, into, patterns = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4:]
with urllib.request.urlopen(url, timeout=60) as response:
    package = response.read()
found = hashlib.sha256(package).hexdigest()
if found != sha256:
    sys.exit(f"{url} has the SHA-256 {found}; {sha256} is pinned")

# An ar archive: a header of 60 bytes before each member, which begins at an even offset.
at, data = 8, None
while at < len(package):
    name, size = package[at:at + 16].decode().strip().rstrip("/"), int(package[at + 48:at + 58])
    if name.startswith("data.tar"):
        data = package[at + 60:at + 60 + size]
    at += 60 + size + size % 2
unmatched = set(patterns)
with tarfile.open(fileobj=io.BytesIO(data)) as archive:
    for member in archive:
        matching = [pattern for pattern in patterns if fnmatch.fnmatchcase(member.name, pattern)]
        unmatched.difference_update(matching)
        if matching and member.isfile():
            with archive.extractfile(member) as source, open(into / pathlib.PurePosixPath(member.name).name, "wb") as target:
                shutil.copyfileobj(source, target)
if unmatched:
    sys.exit(f"no member matches {', '.join(sorted(unmatched))}")
