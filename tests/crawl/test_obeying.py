"""Tests that denied requests are not sent, and that errback, signal, stats and log have the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import redirect, robots
from tests.crawl.crawl import ADDON, BY_HAND, run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

RULES = "# Mind the line.\n\nUser-agent: *\nAllow: /private/open\nDisallow: /private\n"
BOTH_WAYS = pytest.mark.parametrize(
    "enable", [ADDON, BY_HAND], ids=["add-on", "by hand"]
)


@BOTH_WAYS
def test_errback_signal_stats_and_log_of_a_denial_have_the_reason(
    site: Site, enable: dict[str, object], mode: str
) -> None:
    """Each of them also has the rule and its line. A denial for an unreachable robots.txt has no rule and no line.
    URLs of schemes without a robots.txt are fetched as usual.
    """
    host, down = site.add(RULES), site.add(robots("", status=500))
    paths = ("/private/1", "/private/open", "/public")
    urls = [*map(host.url, paths), "data:text/plain,hello", f"file://{__file__}"]
    result = run_crawl([*urls, down.url("/")], enable=enable, mode=mode)
    assert host.pages == ["/private/open", "/public"]
    assert len(host.robots_hits) == 1
    assert len(result.responses) == 4
    evidence = {
        "url": host.url("/private/1"),
        "reason": "rule",
        "rule": "/private",
        "line": 5,
        "agent": "*",
        "allowed": False,
        "robotstxt_url": host.robotstxt,
    }
    error = result.error(host.url("/private/1"))
    (signal,) = (signal for signal in result.denied if signal["url"] == error["url"])
    assert error["error"] == "RobotsDenied"
    assert error.items() >= evidence.items()
    assert signal.items() >= {**evidence, "spider": "plan"}.items()
    assert result.stats["robotstxt/forbidden"] == 2
    assert result.stats["robotstxt/request_count"] == 2
    assert result.stats["rep/denied/rule"] == 1
    assert result.stats["rep/robotstxt/successful"] == 1
    (line,) = result.lines("DEBUG", host.url("/private/1"))
    assert f"Refused by {host.robotstxt}, line 5 (disallow: /private)" in line
    no_evidence = {"reason": "unreachable", "line": 0, "rule": None, "agent": None}
    assert result.error(down.url("/")).items() >= no_evidence.items()
    assert down.pages == []
    assert len(result.lines("WARNING", down.origin, "500")) == 1


@pytest.mark.newest
def test_a_browsers_user_agent_follows_the_group_of_user_agent(site: Site) -> None:
    """A request with the User-Agent header of a browser obeys the group for the crawler in the setting USER_AGENT."""
    host = site.add("User-agent: mybot\nDisallow: /private\n")
    header = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"}
    plan = [
        {"url": host.url(f"/{path}"), "headers": header} for path in ("private", "")
    ]
    result = run_crawl(plan, settings={"USER_AGENT": "mybot/1.0"})
    assert host.pages == ["/"]
    assert result.error(host.url("/private"))["agent"] == "mybot"


def test_a_redirect_to_a_forbidden_url_is_not_followed(site: Site, mode: str) -> None:
    """The URL may be on the same host or on another host. A request with ``dont_obey_robotstxt`` is sent
    without a fetch of robots.txt. So are its redirects within the same origin, but not its redirects to
    another origin.
    """
    host, other, exempt = site.add(RULES), site.add(RULES), site.add(RULES)
    host.answers |= {
        "/same": redirect("/private/same"),
        "/other": redirect(other.url("/private/other"), 301),
        "/twice": redirect("/again", 307),
        "/again": redirect(other.url("/private/twice"), 308),
        "/open": redirect(other.url("/public")),
    }
    exempt.answers |= {
        "/private/here": redirect("/private/2"),
        "/private/there": redirect(other.url("/private/3")),
    }
    meta = {"dont_obey_robotstxt": True}
    requests: list[object] = [
        {"url": exempt.url(path), "meta": meta}
        for path in ("/private/here", "/private/there")
    ]
    requests += [host.url(path) for path in ("/same", "/other", "/twice", "/open")]
    result = run_crawl(requests, mode=mode)
    assert host.pages == ["/again", "/open", "/other", "/same", "/twice"]
    assert other.pages == ["/public"]
    assert exempt.pages == ["/private/2", "/private/here", "/private/there"]
    assert exempt.robots_hits == []
    assert {error["url"]: error["robotstxt_url"] for error in result.errors} == {
        host.url("/private/same"): host.robotstxt,
        other.url("/private/other"): other.robotstxt,
        other.url("/private/twice"): other.robotstxt,
        other.url("/private/3"): other.robotstxt,
    }


@BOTH_WAYS
def test_robotstxt_obey_false_switches_the_package_off(
    site: Site, enable: dict[str, object]
) -> None:
    host = site.add(RULES)
    url = host.url("/private/1")
    result = run_crawl([url], enable={**enable, "ROBOTSTXT_OBEY": False})
    assert [hit.path for hit in host.hits] == ["/private/1"]
    assert not [key for key in result.stats if key.startswith(("rep/", "robotstxt/"))]


@pytest.mark.newest
def test_overrides_obey_ignore_or_replace_the_robotstxt_of_a_host(site: Site) -> None:
    """Each use of an override is counted once, even if its request waits. Each host is logged once."""
    # All ports of a host share the delay.
    obeyed, ignored, replaced, plain = hosts = [
        site.add(RULES + delay) for delay in ("Crawl-delay: 0.05\n", "", "", "")
    ]
    overrides = {
        f"127.0.0.1:{ignored.port}": "ignore",
        f"127.0.0.1:{replaced.port}": "User-agent: *\nDisallow: /public\nNoindex: /a",
        f"127.0.0.1:{obeyed.port}": "obey",
        # The last day of this override has passed, so that it has no effect.
        f"127.0.0.1:{plain.port}": {"obey": False, "until": "2026-01-01"},
        "exmaple.com": "ignore",
    }
    urls = [host.url(path) for host in hosts for path in ("/private", "/public")]
    result = run_crawl(urls, settings={"REP_OVERRIDES": overrides})
    assert obeyed.pages == plain.pages == ["/public"]
    assert ignored.pages == ["/private", "/public"]
    assert replaced.pages == ["/private"]
    assert [len(host.robots_hits) for host in hosts] == [1, 0, 0, 1]
    error = result.error(replaced.url("/public"))
    assert (error["reason"], error["line"], error["rule"]) == ("rule", 2, "/public")
    pattern = f"REP_OVERRIDES['127.0.0.1:{replaced.port}']"
    refused = f"Refused by {pattern}, line 2 (disallow: /public)"
    assert error["message"] == f"{refused}, in the group of line 1 (user-agent: *)"
    assert error["robotstxt_url"] == ""
    assert replaced.robotstxt not in result.log
    for kind in ("obey", "ignore", "robotstxt"):
        assert result.stats[f"rep/override/{kind}"] == 2
    (line,) = result.lines("WARNING", "has ended")
    assert f"REP_OVERRIDES['127.0.0.1:{plain.port}'] has ended" in line
    (line,) = result.lines("WARNING", "line 3")
    assert (
        f"{pattern}, line 3: crawlers of this dialect ignore the field 'Noindex'"
        in line
    )
    (line,) = result.lines("INFO", "matched no request of this crawl")
    assert "crawl: 'exmaple.com'. If" in line
    for host in (ignored, replaced, obeyed):
        assert len(result.lines("INFO", "REP_OVERRIDES[", str(host.port))) == 1
