"""The zip file with which somebody else can check decisions."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile, ZipInfo

from scrapy.exceptions import UsageError

from scrapy_rep.commands.output import notify, output_file
from scrapy_rep.protocol.display import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MARK = b"scrapy rep why"
"""The comment of the archive, with which the file ends."""

_README = """\
HOW TO CHECK THESE DECISIONS

A crawler fetched the robots.txt files of some hosts, and decided by them which pages it may fetch. It
wrote down each decision in a file, its ledger. This archive is a part of that ledger: what it has on

    {asked}

Files
-----

record.json     The decisions, oldest first; the crawls that made them; and for each robots.txt when it
                was fetched, from which URL, and the status and the headers of the answer. All times
                are in UTC.
robots-N.txt    The robots.txt files, byte for byte as the crawler received them. Of a file that is longer
                than crawlers read (500 KiB), it is the part that the crawler read.

Each robots.txt in record.json has a "file" (in this archive) and a "sha256". A robots.txt without a
"file" had no content to follow: its "access", "status" and "error" say why.

Decisions
---------

{decisions}
A decision with "times" above 1 in record.json is the first of that many like ones, which differ in their
times, and perhaps in their URLs, alone.

Step 1: are the robots.txt files the recorded ones?
---------------------------------------------------

Compute the SHA-256 of each robots-N.txt, for example with "sha256sum robots-*.txt", and compare it with
the "sha256" in record.json.

Step 2: do the rules say what the crawler decided?
--------------------------------------------------

A decision with a "check" was made by the rules of a robots.txt. Give a parser of robots.txt the "file",
the "url" and the "agent" of the check. It must say that the URL is allowed if "allowed" is true, and
that it is not if "allowed" is false. By hand: "line" is the line of the rule that decided, and
"statement" is its text. RFC 9309 (https://www.rfc-editor.org/rfc/rfc9309), section 2.2, says which rule
decides: of those that match the path of the URL, in the group for the agent, the longest.

With Python and Protego, the parser of the Scrapy project (pip install protego), save this beside
record.json as check.py, and run "python3 check.py":

{script}
The "dialect" of a crawl says how it read robots.txt: "rfc9309" as RFC 9309 says, "google" as Google's
crawlers do, "classic" as the conventions of 1994 and 1996 say. Where those differ, a parser of another
dialect may decide otherwise.

A decision without a "check" was made by something else, which its "layer" and "reason" name: there was
no robots.txt (a status from 400 to 499, but not 429: RFC 9309 allows everything); its server failed or
did not answer (RFC 9309 forbids everything); the page itself stated something ("statement"); the host
asked for a delay; or the user of the crawler overrode the site ("override").

Step 3: is the record the one that the crawl wrote?
---------------------------------------------------

The "digest" of a crawl is a SHA-256 over all that its ledger has of it. If it was published or
timestamped after the crawl, ask for the ledger, and for the digest from where it was published. Then run

    pip install scrapy-rep
    scrapy rep verify LEDGER DIGEST

It says "intact", and "as published" beside the digest, if nothing of the crawl was changed since. A
digest of null means that the crawl did not end, or that an earlier version of scrapy-rep wrote the ledger.
"""

_SCRIPT = """\
    import hashlib, json, pathlib
    from protego import Protego

    record = json.loads(pathlib.Path("record.json").read_text())
    for file in record["robotstxts"]:
        if file["file"]:
            body = pathlib.Path(file["file"]).read_bytes()
            same = hashlib.sha256(body).hexdigest() == file["sha256"]
            print(file["file"], "is as recorded" if same else "WAS CHANGED")
    for decision in record["decisions"]:
        if check := decision["check"]:
            text = pathlib.Path(check["file"]).read_bytes().decode("utf-8", "replace")
            allowed = Protego.parse(text).can_fetch(check["url"], check["agent"])
            agree = allowed == check["allowed"]
            print(decision["verdict"], check["url"], "confirmed" if agree else "NOT CONFIRMED")
"""


def write_bundle(
    path: str,
    record: dict[str, Any],
    bodies: Mapping[str, bytes],
    ledgers: Iterable[str],
) -> None:
    """Write a zip file with *record* and robots.txt files. Equal arguments give equal bytes.
    Raises UsageError if *path* cannot be written, or is a file that is not a bundle.
    """
    if not _may_be_replaced(path):
        raise UsageError(f"{path} exists and is not a bundle; choose another file")
    decisions = "".join(
        f"{number}. {each['time']}  {each['verdict']}  {visible(each['url'])}\n"
        f"   {visible(each['why'])}\n"
        for number, each in enumerate(record["decisions"], 1)
    )
    readme = _README.format(
        asked=visible(record["asked"]), decisions=decisions, script=_SCRIPT
    )
    files = {
        "README.txt": readme.encode("utf-8", "replace"),
        "record.json": json.dumps(record, indent=2).encode() + b"\n",
        **bodies,
    }
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        for name, content in files.items():
            # The first date that the format has.
            info = ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            file.writestr(info, content)
        file.comment = _MARK
    with output_file(path, path, ledgers) as write:
        write(archive.getvalue())
    notify(f"{path} is written; its README.txt says how to check the decisions")


def _may_be_replaced(path: str) -> bool:
    """Whether *path* does not exist, is empty or is a bundle."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return not content or content.endswith(_MARK)
