"""A corpus of robots.txt files of real sites. It is not in the repository.

The environment variable ``SCRAPY_REP_CORPUS`` names a folder or a ``.tar.gz`` with files
``robots/HOST.txt``. The tests use every twentieth file, or all files with ``--long``.
"""

from __future__ import annotations

import os
import tarfile
from functools import cache
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest

from tests import effort

VARIABLE = "SCRAPY_REP_CORPUS"
FIXED_PATHS = ("/", "/robots.txt", "/index.html", "/a/b.html?c=d", "/%7Ea/%E3%83%84")
SAFE = "/%?[]@!$&'()*+,;=:~|"


@cache
def read_corpus() -> list[tuple[str, bytes]]:
    """Return the host and content of each file. Skip the test if there is no corpus."""
    if not os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} names no folder or .tar.gz of robots.txt files")
    path, step = Path(os.environ[VARIABLE]), 1 if effort.is_long else 20
    if path.is_dir():
        files = sorted(path.glob("**/robots/*.txt"))
        return [(file.stem, file.read_bytes()) for file in files[::step]]
    with tarfile.open(path) as archive:
        members = {Path(member.name): member for member in archive if member.isfile()}
        paths = sorted(path for path in members if path.parent.name == "robots")
        return [
            (path.stem, archive.extractfile(members[path]).read())
            for path in paths[::step]
        ]


@cache
def urls_for(body: bytes, count: int) -> list[str]:
    """Return some fixed URLs, and up to *count* URLs that match rules from all parts of the file."""
    values = _values(body, (b"allow", b"disallow"))
    step = max(1, len(values) // count)
    paths = list(FIXED_PATHS)
    for i, value in enumerate(values[::step][:count]):
        path = value.replace(b"*", (b"", b"a", b"/a/b")[i % 3])
        if path.endswith(b"$"):
            path = path[:-1] + (b"", b"a")[i % 2]
        path += (b"", b"a", b"/", b"?a=b")[i % 4]
        paths.append("/" + quote_from_bytes(path, safe=SAFE).removeprefix("/"))
    return [f"https://example.com{path}" for path in paths]


@cache
def agents_for(body: bytes) -> list[tuple[str, ...]]:
    """Return the product tokens of several crawlers: a crawler that no file names, Googlebot-Image, and
    up to two crawlers that the file names.
    """
    names: list[str] = []
    for value in _values(body, (b"user-agent",)):
        words = value.replace(b"/", b" ").split()
        word = words[0].decode("ascii", "ignore") if words else ""
        if word.replace("-", "").replace("_", "").isalpha() and word not in names:
            names.append(word)
    tokens = [names[-1], names[len(names) // 2]] if names else []
    return [("examplebot",), ("Googlebot-Image", "googlebot"), *[(t,) for t in tokens]]


def _values(body: bytes, fields: tuple[bytes, ...]) -> list[bytes]:
    """Return the values of the records with these field names, without empty values."""
    pairs = (line.split(b"#")[0].partition(b":") for line in body.splitlines())
    return [
        value.strip()
        for name, _, value in pairs
        if name.strip().lower() in fields and value.strip()
    ]
