"""``scrapy rep check`` with a robots.txt file: nothing is fetched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.usage.vocabulary import CATEGORIES

if TYPE_CHECKING:
    from tests.commands.conftest import Rep

BASKET = "https://shop.example/basket/1"
FILE = ("--robots", "robots.txt")


def test_denied(rep: Rep) -> None:
    """A denied URL is shown with its rule in context, a caret under the pattern, the
    group, the crawl delay and the sitemaps.
    """
    ended = rep("check", BASKET, *FILE)
    assert ended.status == 1
    assert ended.out == (
        f"denied   {BASKET}\n"
        "  line 5, Disallow: /basket/, in the group for mybot (it names otherbot, mybot)\n"
        "\n"
        "  3 | User-agent: mybot\n"
        "  4 | Crawl-delay: 2\n"
        "  5 | Disallow: /basket/  # no robots\n"
        "    |           ^^^^^^^^\n"
        "  6 | Allow: /basket/help\n"
        "  7 | Sitemap: https://shop.example/sitemap.xml\n"
        "\n"
        "  robots.txt: robots.txt, given with --robots\n"
        "  crawl delay: 2 seconds\n"
        "  sitemap: https://shop.example/sitemap.xml\n"
        "\n"
    )


def test_the_form_that_is_denied(rep: Rep) -> None:
    """A URL with a form that is denied is denied, as in a crawl, and the form is named."""
    around = BASKET.replace("/basket", "/tea/../basket")
    ended = rep("check", around, *FILE, "--brief")
    assert ended.status == 1
    assert ended.out == f"denied\t{around}\tline 5, Disallow: /basket/ (as {BASKET})\n"
    (record,) = rep("check", around, *FILE, "--json").records("check")
    assert record["form"] == BASKET
    (record,) = rep("check", BASKET, *FILE, "--json").records("check")
    assert record["form"] is None


def test_a_handler_that_decodes(rep: Rep) -> None:
    """If the project downloads with aiohttp, URLs are judged in the form that aiohttp sends."""
    Path("and.txt").write_text("User-agent: *\nDisallow: /a&b\n")
    url, given = "https://shop.example/a%26b", ("--robots", "and.txt")
    assert rep("check", url, *given).status == 0
    handler = "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"
    settings = {"DOWNLOAD_HANDLERS": {"https": handler}}
    assert rep("check", url, *given, **settings).status == 1


def test_allowed(rep: Rep) -> None:
    """The exit status is 0 if every URL is allowed."""
    ended = rep("check", "https://shop.example/tea", f"{BASKET[:-1]}help", *FILE)
    assert ended.status == 0
    assert "no rule matches" in ended.out
    assert "line 6, Allow: /basket/help" in ended.out


def test_one_denied_of_several(rep: Rep) -> None:
    """One denied URL is enough for an exit status of 1."""
    assert rep("check", BASKET, "https://shop.example/tea", *FILE).status == 1


@pytest.mark.parametrize(
    ("agents", "group"),
    [
        pytest.param(["--agent", "otherbot"], "otherbot", id="one"),
        pytest.param(["--agent", "nobot,mybot"], "mybot", id="separated by commas"),
        pytest.param(["--agent", "nobot", "--agent", "mybot"], "mybot", id="repeated"),
        pytest.param(["--agent", "nobot,mybot,*"], "mybot", id="and everyone"),
        pytest.param(["--agent", "mybot,"], "mybot", id="a comma at the end"),
        pytest.param(["--agent", "nobot"], "*", id="of whom nothing is said"),
        pytest.param(["--agent", "*"], "*", id="everyone"),
        pytest.param(
            ["--agent", "Mozilla/5.0 (X11, Linux; compatible; mybot/1.0)"],
            "mybot",
            id="header",
        ),
    ],
)
def test_agent(rep: Rep, agents: list[str], group: str) -> None:
    """``--agent`` is parsed like ROBOTSTXT_USER_AGENT."""
    (record,) = rep("check", BASKET, *FILE, *agents, "--json").records("check")
    assert record["agent"] == group


@pytest.mark.parametrize(
    ("settings", "agents"),
    [
        ({"ROBOTSTXT_USER_AGENT": ["mybot-news", "mybot"]}, ["mybot-news", "mybot"]),
        ({"USER_AGENT": "otherbot/2"}, ["otherbot"]),
        ({"DEFAULT_REQUEST_HEADERS": {"user-agent": b"otherbot"}}, ["otherbot"]),
    ],
)
def test_agent_of_settings(
    rep: Rep, settings: dict[str, object], agents: list[str]
) -> None:
    """Without ``--agent``, the agent comes from the settings, as in a crawl."""
    ended = rep("check", BASKET, *FILE, "--json", **settings)
    assert ended.records("check")[0]["agents"] == agents


def test_no_setting_names_the_crawler(rep: Rep) -> None:
    """If no setting names a crawler, the rules for everyone apply, and the output says so."""
    ended = rep("check", BASKET, *FILE, "--brief", USER_AGENT="Mozilla/5.0")
    assert ended.out == f"denied\t{BASKET}\tline 10, Disallow: /\n"
    assert "'Mozilla/5.0' does not name a crawler" in ended.err


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["--agent", "Scrapy"], {"USER_AGENT": None}),
        (["--agent", "*"], {"USER_AGENT": None}),
        ([], {"USER_AGENT": "Scrapy/2.19.0"}),
        ([], {"USER_AGENT": None, "ROBOTSTXT_USER_AGENT": "mybot"}),
        ([], {"USER_AGENT": None, "DEFAULT_REQUEST_HEADERS": {"User-Agent": "mybot"}}),
    ],
)
def test_a_crawler_with_a_name(
    rep: Rep, options: list[str], settings: dict[str, object]
) -> None:
    """If an option or a setting names the crawler, nothing is said about its name."""
    ended = rep("check", BASKET, *FILE, *options, "--json", **settings)
    assert ended.err == ""
    assert ended.records("check")[0]["agents_named"] is True


def test_dialect(rep: Rep) -> None:
    """``--dialect`` overrides the settings."""
    Path("robots.txt").write_text("User-agent: *\nDisallow: /a\nAllow: /a/b\n")
    url = "http://shop.example/a/b"
    for dialect, status in (("rfc9309", 0), ("classic", 1), ("google", 0)):
        ended = rep("check", url, *FILE, "--dialect", dialect, REP_DIALECT="google")
        assert ended.status == status
    path = "scrapy_rep.protocol.dialect.CLASSIC"
    assert rep("check", url, *FILE, "--dialect", path).status == 1


def test_dialects(rep: Rep) -> None:
    """``--dialects`` shows the decisions of all dialects side by side, and marks differences."""
    Path("robots.txt").write_text("User-agent: *\nDisallow: /a\nAllow: /a/b\n")
    url = "http://shop.example/a/b"
    ended = rep("check", url, *FILE, "--dialects")
    assert ended.status == 0
    assert "  rfc9309    allowed  line 3, Allow: /a/b\n" in ended.out
    assert "  classic    denied   line 2, Disallow: /a\n" in ended.out
    assert "The dialects disagree." in ended.out
    (record,) = rep("check", url, *FILE, "--dialects", "--json").records("check")
    assert record["agree"] is False
    found = {name: each["allowed"] for name, each in record["dialects"].items()}
    assert found == {"rfc9309": True, "google": True, "classic": False}
    assert "The dialects agree." in rep("check", BASKET, *FILE, "--dialects").out


def test_json(rep: Rep) -> None:
    """JSON output has all details of a decision."""
    (record,) = rep("check", BASKET, *FILE, "--json").records("check")
    context = record.pop("context")
    assert context[2] == {"line": 5, "text": "Disallow: /basket/  # no robots"}
    assert record == {
        "url": BASKET,
        "agents": ["mybot"],
        "agents_named": True,
        "dialect": "rfc9309",
        "allowed": False,
        "reason": "rule",
        "agent": "mybot",
        "rule": {"kind": "disallow", "pattern": "/basket/", "line": 5},
        "form": None,
        "why": "line 5, Disallow: /basket/",
        "group": ["otherbot", "mybot"],
        "robotstxt": "robots.txt",
        "access": {
            "outcome": "file",
            "status": None,
            "redirects": [],
            "error": "",
            "html": False,
        },
        "crawl_delay": 2.0,
        "request_rate": None,
        "visit_time": None,
        "sitemaps": ["https://shop.example/sitemap.xml"],
        "usage": {
            "purposes": {
                purpose: {"allowed": None, "because": None} for purpose in CATEGORIES
            },
            "statements": [],
            "licenses": [],
            "denied": False,
        },
    }


def test_brief_json(rep: Rep) -> None:
    """Brief JSON output has only the verdict and the rule."""
    (record,) = rep("check", BASKET, *FILE, "--brief", "--json").records("check")
    assert set(record) == {
        "url", "agents", "agents_named", "dialect", "allowed", "reason", "agent", "rule",
        "form", "why",
    }  # fmt: skip


def test_list(rep: Rep) -> None:
    """``-`` reads a list of URLs; blank lines are ignored, and the last needs no line end."""
    ended = rep(
        "check",
        "-",
        *FILE,
        "--brief",
        stdin=f"{BASKET}\n\n  \nhttps://shop.example/tea",
    )
    assert ended.status == 1
    assert [line.split("\t")[:2] for line in ended.out.splitlines()] == [
        ["denied", BASKET],
        ["allowed", "https://shop.example/tea"],
    ]


def test_list_with_what_is_no_url(rep: Rep) -> None:
    """Invalid URLs in a list are reported with their line, and the others are judged."""
    bad = (
        b"shop.example\n\nhttp://[\n\xff\xfe\n" + b"http://a.example/" + b"a" * 300_000
    )
    ended = rep("check", "-", *FILE, "--brief", stdin=bad + b"\n" + BASKET.encode())
    assert ended.status == 2
    assert "line 1: 'shop.example' is not a URL" in ended.err
    assert "line 3: 'http://[' is not a URL" in ended.err
    assert "line 4: " in ended.err
    assert ended.out.endswith(f"denied\t{BASKET}\tline 5, Disallow: /basket/\n")


def test_long_list(rep: Rep) -> None:
    """For a list beyond the limits of concurrency and batch size, the output is in order."""
    urls = [f"https://h{n % 700}.example/basket/{n}" for n in range(5_000)]
    ended = rep("check", "-", *FILE, "--brief", stdin="\n".join(urls))
    assert [line.split("\t")[1] for line in ended.out.splitlines()] == urls


def test_a_bad_argument_among_others(rep: Rep) -> None:
    """With an invalid argument, the other URLs are judged, and the exit status is 2."""
    urls = ["shop.example", "https://shop.example/tea", "http://[", BASKET]
    ended = rep("check", *urls, *FILE, "--brief")
    assert ended.status == 2
    assert [line.split("\t")[1] for line in ended.out.splitlines()] == [
        urls[1],
        urls[3],
    ]
    assert "did you mean https://shop.example ?" in ended.err
    assert "'http://[' is not a URL" in ended.err


def test_summary_of_a_list(rep: Rep) -> None:
    """A list ends with a line on standard error that counts the allowed URLs."""
    urls = [BASKET, "https://shop.example/tea", "nothing", "https://shop.example/"]
    ended = rep("check", "-", *FILE, "--brief", stdin="\n".join(urls))
    assert ended.err.endswith(
        "\nscrapy rep: 3 URLs: 2 allowed, 1 denied; lines that are not URLs: 1\n"
    )
    ended = rep("check", "-", *FILE, "--json", stdin=BASKET)
    assert ended.err == "scrapy rep: 1 URL: 0 allowed, 1 denied\n"
    assert rep("check", BASKET, *FILE).err == ""
    Path("robots.txt").write_text("User-agent: *\nContent-Usage: train-ai=n\n")
    ended = rep("check", "-", *FILE, "--purpose", "train-ai", "--brief", stdin=BASKET)
    assert ended.err == (
        "scrapy rep: 1 URL: 1 allowed, 0 denied; 1 of the allowed may not be used for a purpose of the crawl\n"
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            [BASKET.replace("https://", "")],
            "did you mean https://shop.example/basket/1 ?",
        ),
        (["shop.example/tea"], "did you mean https://shop.example/tea ?"),
        (["file:///etc/passwd"], "'file:///etc/passwd' is not a URL of http"),
        (["http://["], "is not a URL"),
        (["\udcff"], "is not a URL"),
        ([BASKET, "-"], "- reads all of standard input"),
        (["-", "--robots", "-"], "- reads all of standard input"),
        ([BASKET, "--robots", "nowhere.txt"], "nowhere.txt: No such file"),
        ([BASKET, "--robots", "a\0b"], "null"),
        ([BASKET, "--agent", "bot 2"], "--agent is"),
        ([BASKET, "--agent", ""], "--agent is"),
        ([BASKET, "--dialect", "latin"], "--dialect is 'latin'"),
        ([BASKET, "--nonsense"], "unrecognized arguments: --nonsense"),
        ([], "the following arguments are required"),
    ],
)
def test_wrong_usage(rep: Rep, arguments: list[str], why: str) -> None:
    """Wrong usage is reported in a sentence on standard error, with exit status 2."""
    ended = rep("check", *arguments)
    assert ended.status == 2
    assert ended.out == ""
    assert why in ended.err
    assert "Traceback" not in ended.err


def test_wrong_setting(rep: Rep) -> None:
    """An invalid setting is reported in a sentence on standard error, with exit status 2."""
    ended = rep("check", BASKET, *FILE, REP_DIALECT="latin")
    assert ended.status == 2
    assert "REP_DIALECT is 'latin'" in ended.err


def test_what_a_site_wrote_is_shown_visibly(rep: Rep) -> None:
    """Escape sequences and bidi controls of a robots.txt or a URL are shown as escapes."""
    evil = "\x1bcowned\x07\u202e\x9b2J"
    Path("robots.txt").write_bytes(
        f"User-agent: *\nDisallow: /{evil}\nSitemap: http://a.example/{evil}\n".encode()
    )
    url = f"http://a.example/{evil}"
    for options in ([], ["--brief"], ["--dialects"], ["--json"]):
        ended = rep("check", url, *FILE, *options)
        assert ended.status == 1
        # Only line ends, and the tabs between cells.
        left = ended.out.replace("\n", "").replace("\t", "")
        assert left.isprintable()
    assert json.loads(ended.out)["rule"]["pattern"] == f"/{evil}"
    ended = rep("check", evil)
    assert ended.err.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("line", "shown", "carets"),
    [
        pytest.param("Disallow:/", "Disallow:/", (9, 1), id="no space"),
        pytest.param("\tDisallow: /", r"\tDisallow: /", (12, 1), id="a tab before"),
        pytest.param(
            "Disallow: /日本", "Disallow: /日本", (10, 5), id="wide characters"
        ),
        pytest.param(
            f"Disallow: /{'a*' * 200}",
            f"Disallow: /{'a*' * 54}a…",
            (10, 111),
            id="a long pattern",
        ),
        pytest.param(
            f"Disallow:{' ' * 200}/", f"…{' ' * 30}/", (31, 1), id="far to the right"
        ),
    ],
)
def test_caret(rep: Rep, line: str, shown: str, carets: tuple[int, int]) -> None:
    """The carets are under the pattern, in terminal columns."""
    Path("robots.txt").write_text(f"User-agent: *\n{line}\n", encoding="utf-8")
    url = "http://a.example/" + ("日本" if "日" in line else "a" * 300)
    lines = rep("check", url, *FILE).out.splitlines()
    at = lines.index("  1 | User-agent: *")
    indent, count = carets
    assert lines[at + 1] == f"  2 | {shown}"
    assert lines[at + 2] == "    | " + " " * indent + "^" * count


def test_caret_without_a_pattern(rep: Rep) -> None:
    """For an empty rule, the caret is after the colon."""
    Path("robots.txt").write_text("User-agent: *\nDisallow:\n")
    out = rep("check", BASKET, *FILE, "--dialect", "classic").out
    assert "  2 | Disallow:\n    |          ^\n" in out


def test_overrides(rep: Rep) -> None:
    """Overrides in the settings count; if they decide everything, nothing is fetched."""
    ended = rep("check", BASKET, *FILE, REP_OVERRIDES={"shop.example": "ignore"})
    assert ended.status == 1, "--robots is more precise"


def test_a_project_that_turns_robots_txt_off(rep: Rep) -> None:
    """With ROBOTSTXT_OBEY = False in the settings, the verdict is that of robots.txt, and a note
    says that a crawl fetches the URL all the same.
    """
    off = rep("check", BASKET, *FILE, ROBOTSTXT_OBEY=False)
    assert off.status == 1
    assert "ROBOTSTXT_OBEY is False in the settings" in off.err
    assert not rep("check", BASKET, *FILE).err
    assert not rep("check", BASKET, *FILE, ROBOTSTXT_OBEY=True).err
