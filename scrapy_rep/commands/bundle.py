"""The zip file with which somebody else can check decisions."""

from __future__ import annotations

import json
from importlib.resources import files
from io import BytesIO
from string import Template
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile, ZipInfo

from scrapy_rep.commands.output import notify, output_file
from scrapy_rep.protocol.display import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MARK = b"scrapy rep why"
"""The comment of the archive, with which the file ends."""

_README = files("scrapy_rep").joinpath("commands/bundle.txt")


def write_bundle(
    path: str,
    record: dict[str, Any],
    bodies: Mapping[str, bytes],
    ledgers: Iterable[str],
) -> None:
    """Write a zip file with *record* and robots.txt files. Equal arguments give equal bytes.
    Raises UsageError if *path* cannot be written, or is a file that is not a bundle.
    """
    decisions = "".join(
        f"{number}. {each['time']}  {each['verdict']}  {visible(each['url'])}\n"
        f"   {visible(each['why'])}\n"
        for number, each in enumerate(record["decisions"], 1)
    )
    readme = Template(_README.read_text("utf-8")).substitute(
        asked=visible(record["asked"]), decisions=decisions
    )
    contents = {
        "README.txt": readme.encode("utf-8", "replace"),
        "record.json": json.dumps(record, indent=2).encode() + b"\n",
        **bodies,
    }
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        for name, content in contents.items():
            # The first date that the format has.
            info = ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            file.writestr(info, content)
        file.comment = _MARK
    with output_file(path, path, ledgers, _MARK) as write:
        write(archive.getvalue())
    notify(f"{path} is written; its README.txt says how to check the decisions")
