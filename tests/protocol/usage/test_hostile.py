"""Malicious statements: each is processed within the time limit."""

from __future__ import annotations

import json
from time import process_time
from typing import TYPE_CHECKING

import pytest

from scrapy_rep import RobotsTxt, UsagePreferences
from scrapy_rep.protocol.usage.tdmrep import TdmRep
from tests.protocol.usage.asking import stated

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = [pytest.mark.unmeasured, pytest.mark.slow]

# Far more than any input needs, far less than a quadratic input would take.
SECONDS = 5.0
KIB_500 = 512_000
URL = "https://example.com/" + "a" * 2000
QUERY = "https://example.com/" + "?" * 8 + "%2F" * 13_000
GROUP = b"User-agent: *\n"


def many(line: str) -> bytes:
    count = KIB_500 // len(line) + 1
    return b"".join((line % {"i": i}).encode() + b"\n" for i in range(count))[:KIB_500]


@pytest.mark.parametrize(
    "body",
    [
        GROUP + many("Content-Usage: train-ai=n"),
        GROUP + many("Content-Usage: /%(i)d train-ai=n"),
        GROUP + many("Content-Usage: /a*%(i)d* train-ai=n"),
        GROUP + many("Content-Usage: /*a*a*a*a*a*b%(i)06d train-ai=n"),
        GROUP + many("Content-Usage: /*?/*b%(i)d train-ai=n"),
        GROUP + b"Content-Usage: " + many("a%(i)d=1,").replace(b"\n", b""),
        GROUP + b"Content-Usage: " + b"a=(" * 150_000,
        GROUP + b"Content-Usage: " + b'a="' + b"x" * 400_000,
        GROUP + b"Content-Usage: /" + b"a" * 400_000,
        GROUP + b"Content-Signal: " + b"ai-train=no," * 40_000,
        many("Content-Signal: /%(i)d ai-train=no") + GROUP,
        GROUP + many("License: https://e.com/%(i)d"),
        many("User-agent: a%(i)d") + b"Content-Usage: train-ai=n",
        many("User-agent: *\nContent-Usage: /%(i)d train-ai=n"),
    ],
    ids=range(14),
)
def test_robots_txt(body: bytes) -> None:
    start = process_time()
    robots = RobotsTxt.parse(body[:KIB_500])
    for agent in ("bot", "a1"):
        for url in (URL, URL + "b", "https://example.com/1", QUERY):
            robots.usage(url, agent)
    assert process_time() - start < SECONDS
    # The evidence stays within a small multiple of the text.
    assert robots.weight < 64 * KIB_500


@pytest.mark.parametrize(
    "value",
    [
        b"<" * 60_000, b'<a>;rel="' * 7_000, b"<a>;rel=license," * 4_000,
        b"<a>" + b"; " * 30_000, b"a=1," * 16_000, b"a=:" + b"A" * 60_000,
        b"a" + b";b" * 30_000, b"=" * 60_000, b"," * 60_000,
    ],
)  # fmt: skip
def test_headers(value: bytes) -> None:
    start = process_time()
    names = ("Link", "Content-Usage", "Content-Signal", "tdm-reservation", "tdm-policy")
    found = UsagePreferences.parse([(name, value) for name in names * 200])
    assert process_time() - start < SECONDS
    assert len(found.statements) < 300
    assert all(len(each.text) <= 1_024 for each in found.statements)


@pytest.mark.parametrize(
    "html",
    [
        b"<link rel=license href=x>" * 20_000,
        b"<link " + b"a " * 100_000 + b"license",
        b"<link aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa " * 10_000 + b"license",
        b"<meta name=tdm-reservation content=1>" * 20_000,
        b"<meta name=tdm-policy content='" + b"x" * 500_000 + b"'>",
        b"<link rel='license' href='" * 20_000,
    ],
    ids=range(6),
)
def test_pages(html: bytes) -> None:
    start = process_time()
    found = UsagePreferences.parse(html=html)
    assert process_time() - start < SECONDS
    assert len(found.statements) < 300


def rules(locations: Iterable[str]) -> bytes:
    found = [{"location": each, "tdm-reservation": 1} for each in locations]
    return json.dumps(found).encode()[:KIB_500]


@pytest.mark.parametrize(
    "body",
    [
        rules(f"/a*{i}*" for i in range(10_000)),
        rules(f"/{i}" for i in range(10_000)),
        rules(f"/*{i}$" for i in range(10_000)),
        rules(["/" + "*a" * 50_000]),
        b"[" * KIB_500,
        b'{"a":' * 80_000,
        b"[" + b"1," * 200_000 + b"1]",
    ],
    ids=range(7),
)
def test_tdmrep_json(body: bytes) -> None:
    start = process_time()
    found = TdmRep.parse(body)
    for _ in range(3):
        found.usage(URL)
    assert process_time() - start < SECONDS


def test_a_target_too_long_to_compare() -> None:
    """On a URL too long to compare with all paths, every record that disallows a use counts,
    and none that allows one.
    """
    paths = "".join(f"Content-Usage: /*{i}z train-ai=n, ai-use=y\n" for i in range(100))
    body = f"User-agent: *\nContent-Usage: search=y\n{paths}"
    robots = RobotsTxt.parse(body.encode())
    for length, expected in ((30_000, {"search": True}), (50_000, {"train-ai": False})):
        usage = robots.usage("https://e.com/" + "a" * length, "mybot")
        assert stated(usage) == expected
