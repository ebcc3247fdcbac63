"""What becomes of each kind of request in a crawl with a JOBDIR that is stopped or killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, redirect
from tests.crawl.crawl import wait_until
from tests.crawl.server import PAGE
from tests.crawl.trials import HTML, RULES, Trial, interrupt_twice, kill

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import RunningCrawl
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.newest

SPIDERS = "tests.crawl.surviving_spiders."


def links(*urls: str) -> Answer:
    body = "".join(f'<a href="{url}">' for url in urls)
    return Answer(body.encode(), headers=HTML)


def pages(host: Host, count: int) -> list[str]:
    return [host.url(f"/{number}") for number in range(count)]


def until(crawl: RunningCrawl, condition: Any) -> None:
    wait_until(lambda: condition() or crawl.process.poll() is not None)
    assert crawl.process.poll() is None, crawl.log


def kill_while_it_hangs(trial: Trial, host: Host, path: str, in_file: str = "") -> None:
    """Kill a run that has requested *path*, which is not answered, when its file says so, or says
    so of *in_file*.
    """
    usual = host.answers.get(path)
    host.answers[path] = Answer(hang=True)
    crawl = trial.start()
    until(crawl, lambda: host.hits_on(path))
    trial.wait_for_file(host.url(in_file or path))
    kill(crawl, 0)
    crawl.wait()
    del host.answers[path]
    if usual is not None:
        host.answers[path] = usual


def one_by_one(site: Site, folder: Path, requests: list[Any], **how: Any) -> Trial:
    settings = {"CONCURRENT_REQUESTS": 1, **how.pop("settings", {})}
    return Trial(site, folder, requests, settings=settings, **how)


def test_a_callback_that_fails(site: Site, mode: str, tmp_path: Path) -> None:
    """A page whose callback raised is done: the links that it yielded before are fetched, and
    it is not fetched again.
    """
    host = site.add(RULES)
    host.answers["/fails"] = links(*pages(host, 3))
    urls = [host.url("/fails"), host.url("/later")]
    trial = one_by_one(site, tmp_path, urls, mode=mode, spider="FailingSpider")
    kill_while_it_hangs(trial, host, "/2")  # The last link is the first request.
    trial.finish()
    assert host.pages == sorted(["/fails", "/later", "/0", "/1", "/2", "/2"])


@pytest.mark.parametrize("how", ["closes", "stops"])
def test_a_callback_that_ends_the_crawl(
    site: Site, mode: str, how: str, tmp_path: Path
) -> None:
    """After CloseSpider or ``crawler.stop()`` in a callback, the next run goes on with what
    the page linked to, and does not fetch the page again.
    """
    host = site.add(RULES)
    host.answers[f"/{how}"] = links(*pages(host, 5))
    urls = [host.url(f"/{how}"), *(host.url(f"/later/{n}") for n in range(5))]
    trial = one_by_one(site, tmp_path, urls, mode=mode, spider="FailingSpider")
    first = trial.start().result()
    assert first.stats["finish_reason"] in ("enough", "shutdown", "finished")
    assert len(host.pages) < 8
    trial.finish()
    assert host.pages == sorted(
        [f"/{how}", *(f"/{n}" for n in range(5)), *(f"/later/{n}" for n in range(5))]
    )


def test_the_extension_that_closes_spiders(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """After a limit of Scrapy's CloseSpider, the next run fetches the rest, once."""
    host = site.add(RULES)
    host.answers |= {f"/{n}": Answer(PAGE, headers=HTML, delay=0.2) for n in range(40)}
    requests = [{"url": host.url("/fails"), "priority": 1}, *pages(host, 40)]
    trial = Trial(site, tmp_path, requests, mode=mode, spider="FailingSpider")
    first = trial.start(CLOSESPIDER_ERRORCOUNT=1).result()
    assert first.stats["finish_reason"] == "closespider_errorcount"
    assert len(host.pages) < 41
    trial.finish()
    assert host.pages == sorted(["/fails", *(f"/{n}" for n in range(40))])


def test_what_a_middleware_does(site: Site, mode: str, tmp_path: Path) -> None:
    """A request that a downloader middleware drops or answers is done. One that it replaces is
    done when the replacement is in the file.
    """
    host = site.add(RULES)
    middlewares = {
        f"{SPIDERS}{name}": 600 for name in ("DropSome", "AnswerSome", "ReplaceSome")
    }
    urls = pages(host, 10)
    trial = one_by_one(
        site,
        tmp_path,
        urls,
        mode=mode,
        settings={"DOWNLOADER_MIDDLEWARES": middlewares},
    )
    kill_while_it_hangs(trial, host, "/8")
    result = trial.finish()
    assert host.pages == sorted(
        [*(f"/{n}" for n in (0, 1, 2, 4, 6, 8, 8, 9)), "/5-instead"]
    )
    assert not result.errors
    assert [note.url for note in trial.notes("item")].count(host.url("/3")) == 1
    assert [note.url for note in trial.notes("error")] == [host.url("/7")]


def test_redirects(site: Site, mode: str, tmp_path: Path) -> None:
    """If the process dies while the target of a redirect is in flight, the next run fetches
    the target, not the first URL.
    """
    host = site.add(RULES)
    host.answers["/1"] = redirect("/target")
    trial = one_by_one(site, tmp_path, pages(host, 4), mode=mode)
    kill_while_it_hangs(trial, host, "/target")
    trial.finish()
    assert host.pages == sorted(["/0", "/1", "/2", "/3", "/target", "/target"])


def test_retries(site: Site, mode: str, tmp_path: Path) -> None:
    """If the process dies while a retry waits or is in flight, the next run goes on with the
    retry, and with its number.
    """
    host = site.add(RULES)
    trial = one_by_one(
        site, tmp_path, pages(host, 4), mode=mode,
        settings={"RETRY_ENABLED": True, "RETRY_TIMES": 2, "RETRY_HTTP_CODES": [500]},
    )  # fmt: skip
    broken = Answer(status=500)
    host.answers["/1"] = [broken, Answer(hang=True), broken]
    crawl = trial.start()
    until(crawl, lambda: len(host.hits_on("/1")) == 2)
    trial.wait_for_file(host.url("/1"))
    kill(crawl, 0)
    crawl.wait()
    assert trial.start().result().stats["finish_reason"] == "finished"
    # It is given up after the second retry, which was repeated once.
    assert host.pages.count("/1") == 4
    assert [host.pages.count(f"/{n}") for n in (0, 2, 3)] == [1, 1, 1]


def test_order(site: Site, tmp_path: Path) -> None:
    """After a kill, requests of one host go on in the order that they would have had."""
    host = site.add(RULES)
    requests = [
        {"url": url, "priority": number % 3}
        for number, url in enumerate(pages(host, 12))
    ]
    host.answers["/2"] = links(host.url("/a"), host.url("/b"))
    trial = one_by_one(site, tmp_path, requests)
    kill_while_it_hangs(trial, host, "/8")
    trial.finish()
    order = [hit.path[1:] for hit in host.hits if hit.path != "/robots.txt"]
    (at, _) = [number for number, path in enumerate(order) if path == "8"]
    del order[at]
    wanted = "2 5 8 11 1 4 7 10 b a 0 3 6 9"
    # The first requests may be sent before the others are in the queue.
    assert set(order) == set(wanted.split())
    assert " ".join(order).endswith("b a 0 3 6 9")


PRIORITIES = [2**63, -(2**63), 2**70, -(2**70), 10**30, 2**62, -(2**62), 0, 1, -1]


def test_priorities_beyond_any_integer(site: Site, tmp_path: Path) -> None:
    """Priorities beyond 64 bits are allowed, and keep their order as far as they fit."""
    host = site.add(RULES)
    requests = [
        {"url": host.url(f"/{number}"), "priority": priority}
        for number, priority in enumerate(PRIORITIES)
    ]
    requests.insert(0, {"url": host.url("/first"), "priority": 2**200})
    trial = one_by_one(site, tmp_path, requests)
    kill_while_it_hangs(trial, host, "/8")
    trial.finish()
    order = [hit.path for hit in host.hits if hit.path != "/robots.txt"]
    assert set(order) == {"/first", *(f"/{n}" for n in range(len(PRIORITIES)))}
    assert order.index("/7") < order.index("/9") < order.index("/1")


STRANGE: list[dict[str, Any]] = [
    {"path": "/" + "a" * 1_000_000},  # The server refuses it, the JOBDIR does not.
    {"path": "/a%00b", "meta": {"a\0b": "c\0"}},
    {"path": "/a", "meta": {"text": "\ud800"}},
    {"path": "/large", "method": "POST", "body": "b" * 3_000_000},
    {"path": "/slot", "meta": {"download_slot": "\0/../'\udcff"}},
    {"path": "/headers", "headers": {"X-A": "\xff\xfe"}},
    {"path": "/meta", "meta": {"a": [{"b": None}, 1e300, "é"]}},
]


def test_strange_requests(site: Site, tmp_path: Path) -> None:
    """Whatever a URL or a meta has in it, the request survives a kill, with all its parts."""
    host = site.add(RULES)
    wanted = {host.url(one["path"]): one for one in STRANGE}
    requests = [{"url": host.url("/0"), "priority": 1}]
    requests += [
        {"priority": -1, "url": url, **{key: one[key] for key in one if key != "path"}}
        for url, one in wanted.items()
    ]
    settings = {"URLLENGTH_LIMIT": 0, "RETRY_ENABLED": False}
    trial = one_by_one(site, tmp_path, requests, settings=settings, spider="EchoSpider")
    kill_while_it_hangs(trial, host, "/0")
    result = trial.finish()
    assert [error["url"] for error in result.errors] == list(wanted)[:1]
    found = {one["url"]: one for one in result.responses}
    assert len(found) == len(STRANGE)
    for url, one in list(wanted.items())[1:]:
        meta = one.get("meta", {})
        assert {key: found[url]["meta"][key] for key in meta} == meta
        assert found[url]["size"] == len(one.get("body", ""))


def test_requests_that_cannot_be_pickled(site: Site, mode: str, tmp_path: Path) -> None:
    """Requests that cannot be serialized wait in memory, as in Scrapy. They are lost with the
    process, and are not seen: they are fetched when they are found again.
    """
    host = site.add(RULES)
    host.answers["/start"] = links(*pages(host, 20))
    trial = one_by_one(
        site, tmp_path, [host.url("/start")], mode=mode, spider="UnpicklableSpider"
    )
    settings = {"SCHEDULER_DEBUG": True}
    result = trial.finish(**settings)
    assert host.pages == sorted(["/start", *(f"/{n}" for n in range(20))])
    assert result.stats["scheduler/unserializable"] == 10
    assert result.stats["scheduler/enqueued/memory"] == 10
    assert result.log.count("Unable to serialize request") == 1


def test_what_the_state_of_a_spider_says(site: Site, tmp_path: Path) -> None:
    """``spider.state`` is written at a clean end only, as in Scrapy: after a kill it is that
    of the last clean end. The requests do not depend on it.
    """
    host = site.add(RULES)
    urls = pages(host, 12)
    trial = one_by_one(
        site, tmp_path, urls, spider="CountingStateSpider", settings={"EXTENSIONS": {}}
    )
    trial.start(CLOSESPIDER_PAGECOUNT=4).result()
    done = len(host.pages)
    kill_while_it_hangs(trial, host, f"/{done + 2}")
    trial.finish()
    assert set(host.pages) == {f"/{number}" for number in range(12)}
    assert len(host.pages) == 13
    states = [note.what for note in trial.notes() if note.what.startswith("state")]
    assert states.count(f"state-{done + 1}") == 2


def test_ctrl_c_while_a_host_waits(site: Site, mode: str, tmp_path: Path) -> None:
    """Requests that wait for robots.txt when Ctrl-C is pressed twice are fetched later."""
    host, other = site.add(Answer(hang=True)), site.add(RULES)
    urls = [*pages(host, 5), *pages(other, 5)]
    trial = Trial(site, tmp_path, urls, mode=mode, settings={"REP_WAIT_MAX": 60})
    crawl = trial.start()
    until(crawl, lambda: len(trial.notes("end")) == 5 and host.robots_hits)
    trial.wait_for_file(*pages(host, 5))
    interrupt_twice(crawl, 0)
    crawl.wait()
    host.answers["/robots.txt"] = Answer(RULES.encode())
    trial.finish()
    assert host.pages == [f"/{number}" for number in range(5)]
    assert other.pages == [f"/{number}" for number in range(5)]


def test_an_errback_that_takes_time(site: Site, mode: str, tmp_path: Path) -> None:
    """A request that is refused in the queue is in flight until its errback has ended."""
    host, other = site.add(Answer(status=503)), site.add(RULES)
    trial = Trial(
        site,
        tmp_path,
        [host.url("/page")],
        mode=mode,
        spider="FallbackSpider",
        fallback=other.url("/fallback"),
    )
    crawl = trial.start()
    until(crawl, lambda: trial.notes("unreachable"))
    trial.wait_for_file(host.url("/page"))
    kill(crawl, 0)
    crawl.wait()
    assert not other.pages
    trial.finish()
    assert other.pages == ["/fallback"]


def test_a_pipeline_that_takes_time(site: Site, mode: str, tmp_path: Path) -> None:
    """A page is in flight until the pipelines have its items: after a kill, an item can come
    twice, and none is lost.
    """
    host = site.add(RULES)
    settings = {"ITEM_PIPELINES": {f"{SPIDERS}SlowPipeline": 1}}
    trial = Trial(site, tmp_path, pages(host, 3), mode=mode, settings=settings)
    crawl = trial.start()
    until(crawl, lambda: len(trial.notes("got")) == 3)
    kill(crawl, 0)
    crawl.wait()
    assert not trial.notes("kept")
    trial.finish()
    assert {note.url for note in trial.notes("kept")} == set(pages(host, 3))


def test_without_robotstxt(site: Site, tmp_path: Path) -> None:
    """A crawl that does not obey robots.txt survives kills as well."""
    host = site.add(RULES)
    urls = [*pages(host, 20), host.url("/private/1")]
    trial = Trial(site, tmp_path, urls, settings={"ROBOTSTXT_OBEY": False})
    trial.run_until(5)
    trial.run_until(5)
    trial.finish()
    assert set(trial.hits()) == set(urls)
    assert not host.robots_hits
    trial._check_repeated(trial.hits())


def test_requests_of_the_engine(site: Site, tmp_path: Path) -> None:
    """Requests that a callback sends with ``engine.download_async`` are in no queue: they are
    sent again with their page.
    """
    host = site.add(RULES)
    trial = one_by_one(
        site,
        tmp_path,
        [host.url("/page")],
        spider="DownloadingSurvivorSpider",
        more=host.url("/more"),
        settings={"CONCURRENT_REQUESTS": 4},
    )
    kill_while_it_hangs(trial, host, "/more", in_file="/page")
    trial.finish()
    assert host.pages == ["/more", "/more", "/page", "/page"]


def test_start_urls(site: Site, tmp_path: Path) -> None:
    """Scrapy's own ``start()`` makes its requests without filter: each run fetches start_urls
    again, and so does one after a kill, beside those that are in the file.
    """
    host = site.add(RULES)
    urls = pages(host, 4)
    trial = one_by_one(site, tmp_path, [], spider="StartUrlsSpider", start_urls=urls)
    kill_while_it_hangs(trial, host, "/2")
    trial.finish()
    assert [host.pages.count(f"/{number}") for number in range(4)] == [2, 2, 3, 2]
