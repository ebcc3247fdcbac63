"""How fast robots.txt is read and asked, beside the other parsers of Python.

    python benchmarks/parsers.py [--corpus PATH] [--json FILE] [--rounds N] [--only WORD]

PATH, or the environment variable SCRAPY_REP_CORPUS, is a folder or a ``.tar.gz`` of
robots.txt files; without it, files are made up that look like real ones. All parsers take
turns, so the ratios hold whatever else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import corpus, measures
from benchmarks.peers import PEERS
from benchmarks.table import HEAD, Row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    path = os.environ.get("SCRAPY_REP_CORPUS")
    parser.add_argument("--corpus", type=Path, default=path and Path(path))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="measures with this word alone")
    options = parser.parse_args()
    files = corpus.read(options.corpus) if options.corpus else corpus.generate()
    print_setting(files, real=bool(options.corpus))
    rows: list[Row] = []
    for measure in measures.ALL:
        if options.only in measure.__name__:
            for row in measure(files, options.rounds):
                rows.append(row)
                print(row, flush=True)
    if options.json:
        options.json.write_text(json.dumps([row._asdict() for row in rows], indent=1))


def print_setting(files: list[bytes], *, real: bool) -> None:
    size = sum(map(len, files)) / 1e6
    kind = "real" if real else "generated"
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores;", end=" ")
    print(f"{len(files)} {kind} files, {size:.1f} MB;", end=" ")
    print(", ".join(peer.label for peer in PEERS))
    print(f"\n{HEAD}", flush=True)


if __name__ == "__main__":
    main()
