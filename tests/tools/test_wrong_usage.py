"""Tests of wrong usage of the commands, which exits with status 2 and prints one sentence on
standard error.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.tools.rep import Rep, new_ledger, write_ledger

URL = "https://shop.example/tea"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "the following arguments are required"),
        (f"check {URL} --nonsense", "unrecognized arguments: --nonsense"),
        ("check shop.example/tea", "'shop.example/tea' is not an http"),
        ("check file:///etc/passwd", "'file:///etc/passwd' is not an http"),
        ("check http://[", "is not an http, https or ftp URL"),
        ("check \udcff", "is not an http, https or ftp URL"),
        ("check '' ' '", "all URLs are empty"),
        (f"check {URL} -", "'-' means standard input, which can be read only once"),
        ("check - --robots -", "'-' means standard input, which can be read only once"),
        (f"check {URL} --robots nowhere.txt", "nowhere.txt: No such file"),
        (f"check {URL} --robots a\0b", "null"),
        (f"check {URL} --agent 'bot 2'", "--agent is"),
        (f"check {URL} --agent ''", "--agent is"),
        (f"check {URL} --dialect latin", "--dialect is 'latin'"),
        (f"check {URL} --purpose mining", "--purpose is"),
        (f"check {URL} -s REP_OVERRIDES=a.example:ignore", "in JSON, as in -s 'REP_OVERRIDES={\"example.com\""),
        (f"check {URL} -s REP_DIALECT=latin", "REP_DIALECT is 'latin'"),
        ("lint", "give a file, a URL, or"),
        ("lint --explain nonsense", "one of these codes: absolute-url, "),
        ("lint robots.txt --ignore nonsense", "--ignore is 'nonsense', but it must be one of"),
        ("page nowhere.html", "nowhere.html: No such file"),
        ("page http://[", "is not an http, https or ftp URL"),
        ("page robots.txt --header noindex", "--header is 'noindex'"),
        ("page robots.txt --header 'Date: noindex'", 'must have the form "NAME: VALUE"'),
        (f"page {URL} --header 'X-Robots-Tag: all'", "the command reads the response headers"),
        ("diff robots.txt nowhere", "nowhere: No such file"),
        ("diff - -", "'-' means standard input, which can be read only once"),
        ("diff - robots.txt --urls -", "'-' means standard input, which can be read only once"),
        ("diff robots.txt robots.txt --urls .", ".: Is a directory"),
        ("diff robots.txt robots.txt --urls a\0b", "null"),
        ("diff robots.txt robots.txt --urls broken", "broken: "),
        ("diff robots.txt robots.txt --urls two", "several hosts, but a robots.txt applies to a single host"),
        ("diff robots.txt robots.txt --origin shop", "'shop' is not an http, https or ftp URL"),
        ("diff ledger .", ".: Is a directory"),
        ("diff ledger robots.txt robots.txt", "ledger, robots.txt: more than one OLD is given"),
        ("diff robots.txt robots.txt classic", "To compare two robots.txt files, give exactly two"),
        ("diff ledger robots.txt --purge-list no/such", "no/such: No such"),
        ("diff robots.txt classic --purge-list ledger", "ledger: this file is a ledger, or another SQLite file"),
        ("diff ledger robots.txt --purge-list .", "--purge-list .: Is a directory"),
        ("diff ledger robots.txt --purge-list ./ledger", "./ledger: this is an input file"),
        ("diff ledger#1 robots.txt --purge-list link", "link: this is an input file"),
        ("diff ledger#7 robots.txt", "the ledger ledger does not contain a crawl 7"),
        ("diff ledger@noon robots.txt", "'noon' is not a valid time"),
        ("why '' ledger", "'' is neither a URL nor a host"),
        ("why 'a b' ledger", "'a b' is neither a URL nor a host"),
        ("why 'mailto:x y' ledger", "is neither a URL nor a host"),
        (f"why ledger {URL}", f"as in 'scrapy rep why {URL} ledger'"),
        ("why ledger shop.example", "as in 'scrapy rep why shop.example ledger'"),
        (f"why shop.example {URL} ledger", f"{URL} is not a ledger; give the URL or the host before the ledgers"),
        ("why a.example ledger --limit 0", "--limit must be 1 or greater"),
        ("report ledger -o two", "two is an existing file that this command did not write"),
        ("report ledger -o .", ".: Is a directory"),
        ("report ledger -o link", "link: this is an input file"),
        ("report ledger two -o two", "two: this is an input file"),
        ("report ledger --json -o -", "standard output"),
        ("report late", "late: "),
        ("why shop.example robots.txt", "robots.txt: "),
    ],
)  # fmt: skip
def test_wrong_usage_is_reported_before_any_output(
    rep: Rep, command: str, message: str
) -> None:
    """Wrong usage, unreadable input and an output file that cannot be written are reported before
    any output, and no file is changed.
    """
    Path("broken").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    Path("link").symlink_to("ledger")
    write_ledger(Path("ledger"), [(URL, "allowed")])
    write_ledger(Path("two"), [(URL, "allowed"), ("http://a.example/", "allowed")])
    # The damage in this ledger is found only while "report" writes the HTML page.
    late_ledger = new_ledger("late", [])
    late_ledger.snapshot("https://shop.example", b"", redirects="{}")
    late_ledger.close()
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    result = rep(*shlex.split(command))
    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before
