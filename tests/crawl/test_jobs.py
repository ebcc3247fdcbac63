"""Crawls with a JOBDIR that are stopped or killed, and resumed. They lose no request of any kind, and fetch
again only the pages that were in flight. ``tests/simulation`` ends crawls at any moment.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests import effort
from tests.crawl.answers import HANGS, Answer, busy
from tests.crawl.crawl import RETRIED_SOON, ROOT, run_crawl, start_crawl
from tests.crawl.pauses import EARLY, was_busy
from tests.crawl.server import PAGE
from tests.crawl.trials import HTML, RULES, Trial, interrupt_twice, kill

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.newest

KILLS = 30 if effort.is_long else 3
SPIDERS = "tests.crawl.surviving_spiders."
COMPONENTS = "tests.crawl.component_spiders."
MIDDLEWARES = {
    f"{SPIDERS}{name}": 600 for name in ("DropSome", "AnswerSome", "ReplaceSome")
}


def page_with_links(*paths: str, root: str = "/") -> Answer:
    """Return a page that links to *paths*, each with *root* in front."""
    body = "".join(f'<a href="{root}{path}">' for path in paths)
    return Answer(body.encode(), headers=HTML)


def pages(host: Host, count: int) -> list[str]:
    return [host.url(f"/{number}") for number in range(count)]


def sequential_trial(
    site: Site, folder: Path, requests: list[Any], **arguments: Any
) -> Trial:
    """Return a trial whose crawls send one request at a time. *arguments* are those of :class:`Trial`."""
    settings = {"CONCURRENT_REQUESTS": 1, **arguments.pop("settings", {})}
    return Trial(site, folder, requests, settings=settings, **arguments)


def kill_while_in_flight(
    trial: Trial, host: Host, path: str, path_in_file: str = ""
) -> None:
    """Kill a run while its request for *path* is in flight, since the host does not answer it.

    Before the kill, wait until the file of the queue says that the request for *path_in_file* is in flight.
    By default, *path_in_file* is *path*.
    """
    previous_answer = host.answers.get(path)
    host.answers[path] = HANGS
    crawl = trial.start()
    crawl.until(lambda: host.hits_on(path))
    trial.wait_for_file(crawl, host.url(path_in_file or path))
    kill(crawl)
    crawl.wait()
    del host.answers[path]
    if previous_answer is not None:
        host.answers[path] = previous_answer


class Case(NamedTuple):
    """Requests that are sent one by one, in a crawl that is killed and resumed.

    Paths have no leading slash, and are separated by spaces.
    """

    start_paths: str
    hanging_path: str
    """The path of the request that is in flight when the process is killed."""

    fetched_paths: str
    """The paths that both runs together fetch."""

    path_in_file: str = ""
    """The path of the request that the file of the queue lists as in flight at the kill. If ``path_in_file`` is empty,
    the path is ``hanging_path``.
    """

    answers: dict[str, Any] = {}
    spider: str = "SurvivorSpider"
    settings: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    """Lines that the journal of the spider must have exactly once, such as "item 3"."""


CASES = {
    # The links of the page are fetched, the last one first, and the page is not fetched again.
    "a callback that fails": Case(
        "fails later", "2", "fails later 0 1 2 2",
        answers={"/fails": page_with_links("0", "1", "2")}, spider="FailingSpider",
    ),
    # A dropped or answered request is finished. A replaced request is finished once its replacement is in the file.
    "middlewares": Case(
        "0 1 2 3 4 5 6 7 8 9", "8", "0 1 2 4 5-instead 6 8 8 9",
        settings={"DOWNLOADER_MIDDLEWARES": MIDDLEWARES}, notes=("item 3", "error 7"),
    ),
    # Requests of engine.download_async are in no queue. They are sent again together with their page.
    "engine.download_async": Case(
        "page", "more", "more more page page", path_in_file="page",
        spider="DownloadingSurvivorSpider", settings={"CONCURRENT_REQUESTS": 4},
    ),
    # This filter drops only /9. So the second run sends the start requests again, in addition to requests in the file.
    "a DUPEFILTER_CLASS of the project": Case(
        "0 1 2 9", "1", "0 0 1 1 1 2 2", settings={"DUPEFILTER_CLASS": f"{SPIDERS}OwnFilter"}
    ),
    # Start requests have dont_filter: each run makes them again, in addition to those in the file.
    "start_urls": Case("0 1 2 3", "2", "0 0 1 1 2 2 2 3 3", spider="StartUrlsSpider"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_only_requests_in_flight_at_a_kill_are_sent_again(
    site: Site, mode: str, name: str, tmp_path: Path
) -> None:
    """Requests that were finished before the kill are not sent again."""
    case = CASES[name]
    host = site.add(RULES)
    host.answers |= case.answers
    urls = [host.url(f"/{path}") for path in case.start_paths.split()]
    trial = sequential_trial(
        site,
        tmp_path,
        urls,
        mode=mode,
        spider=case.spider,
        settings=case.settings,
        more=host.url("/more"),
    )
    path_in_file = case.path_in_file and f"/{case.path_in_file}"
    kill_while_in_flight(trial, host, f"/{case.hanging_path}", path_in_file)
    result = trial.start().result()
    assert result.stats["finish_reason"] == "finished"
    assert "log_count/ERROR" not in result.stats, result.log
    assert host.pages == sorted(f"/{path}" for path in case.fetched_paths.split())
    note_counts = Counter(
        f"{note.event} {note.url.rpartition('/')[2]}" for note in trial.notes()
    )
    assert [note_counts[note] for note in case.notes] == [1] * len(case.notes)


@pytest.mark.parametrize(
    ("path", "settings", "reason"),
    [
        ("closes", {}, "enough"),
        ("stops", {}, "shutdown"),
        ("fails", {"CLOSESPIDER_ERRORCOUNT": 1}, "closespider_errorcount"),
    ],
)
def test_the_next_run_resumes_a_crawl_that_a_callback_has_ended(  # noqa: PLR0917
    site: Site,
    mode: str,
    path: str,
    settings: dict[str, int],
    reason: str,
    tmp_path: Path,
) -> None:
    """The callback raises CloseSpider or calls ``crawler.stop()``, or its error reaches a limit of Scrapy's
    CloseSpider extension. The next run fetches the links of the page, and not the page itself.
    """
    host = site.add(RULES)
    paths = [*"01234", *(f"later/{number}" for number in range(5))]
    host.answers |= {
        f"/{page}": Answer(PAGE, headers=HTML, delay=0.1) for page in paths
    }
    host.answers[f"/{path}"] = page_with_links(*paths[:5])
    urls = [host.url(f"/{page}") for page in (path, *paths[5:])]
    trial = sequential_trial(site, tmp_path, urls, mode=mode, spider="FailingSpider")
    first = trial.start(**settings).result()
    assert first.stats["finish_reason"] in (reason, "finished")
    assert len(host.pages) < 8
    trial.finish()
    assert host.pages == sorted(f"/{page}" for page in (path, *paths))


def test_a_page_whose_callback_still_waits_when_the_crawl_ends_is_fetched_again(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """When the crawl ends, the callback of the page waits for a download from a host whose robots.txt
    hangs. The next run fetches the page again.
    """
    host = site.add(RULES)
    slow = site.add([HANGS, Answer(RULES.encode())], name="127.0.0.2")
    trial = sequential_trial(
        site,
        tmp_path,
        pages(host, 1),
        mode=mode,
        spider="DownloadingSurvivorSpider",
        more=slow.url("/more"),
    )
    crawl = trial.start()
    crawl.until(lambda: slow.robots_hits)
    crawl.process.send_signal(signal.SIGINT)
    assert crawl.result().stats["finish_reason"] == "shutdown"
    assert trial.notes("end") == []
    trial.finish()
    assert host.pages == ["/0", "/0"]
    assert slow.pages == ["/more"]
    assert [note.url for note in trial.notes("end")] == pages(host, 1)


UNUSUAL: list[dict[str, Any]] = [
    {"path": "/high", "priority": 2**70},
    # This URL is too long for the server, but not for the crawl.
    {"path": "/" + "a" * 1_000_000},
    {"path": "/a%00b", "meta": {"a\0b": "c\0"}},
    {"path": "/a", "meta": {"text": "\ud800"}},
    {"path": "/large", "method": "POST", "body": "b" * 3_000_000},
    {"path": "/slot", "meta": {"download_slot": "\0/../'\udcff"}},
    {"path": "/headers", "headers": {"X-A": "\xff\xfe"}},
    {"path": "/meta", "meta": {"a": [{"b": None}, 1e300, "é"]}},
    {"path": "/low", "priority": -(2**70)},
]


def test_requests_with_unusual_values_survive_a_kill(
    site: Site, tmp_path: Path
) -> None:
    """The requests return from the file of the queue with their meta, their body and their priority."""
    host = site.add(RULES)
    arguments_by_url = {host.url(request["path"]): request for request in UNUSUAL}
    requests = [{"url": host.url("/0"), "priority": 2**200}]
    requests += [
        {"url": url, **{key: request[key] for key in request if key != "path"}}
        for url, request in arguments_by_url.items()
    ]
    settings = {"URLLENGTH_LIMIT": 0, "RETRY_ENABLED": False}
    trial = sequential_trial(
        site, tmp_path, requests, settings=settings, spider="EchoSpider"
    )
    kill_while_in_flight(trial, host, "/0")
    result = trial.finish()
    assert [error["url"] for error in result.errors] == [list(arguments_by_url)[1]]
    response_of = {response["url"]: response for response in result.responses}
    assert len(response_of) == len(UNUSUAL)
    order = [hit.path for hit in host.hits]
    assert order.index("/high") < order.index("/meta") < order.index("/low")
    for url in arguments_by_url.keys() - {error["url"] for error in result.errors}:
        meta = arguments_by_url[url].get("meta", {})
        assert {key: response_of[url]["meta"][key] for key in meta} == meta
        assert response_of[url]["size"] == len(arguments_by_url[url].get("body", ""))


def test_requests_that_cannot_be_pickled_wait_in_memory(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """As with Scrapy's own scheduler, these requests are lost with the process. They do not count as seen, so
    that a later run fetches them when it finds their links again.
    """
    host = site.add(RULES)
    host.answers["/start"] = page_with_links(*map(str, range(20)))
    trial = sequential_trial(
        site, tmp_path, [host.url("/start")], mode=mode, spider="UnpicklableSpider"
    )
    result = trial.finish(SCHEDULER_DEBUG=True)
    assert host.pages == sorted(["/start", *(f"/{n}" for n in range(20))])
    assert result.stats["scheduler/unserializable"] == 10
    assert result.stats["scheduler/enqueued/memory"] == 10
    assert result.log.count("Unable to serialize request") == 1


def test_a_request_that_cannot_be_pickled_returns_to_the_scheduler_for_a_pause(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """Two requests wait in memory, since they cannot be pickled. Just before they are sent, their host asks
    for a pause. They return to the scheduler, wait there until the pause ends, and are then sent once each.
    """
    host, other = site.add(RULES, name="127.0.0.2"), site.add(RULES)
    host.answers["/busy"] = busy(429, "1")
    urls = [
        host.url("/busy"),
        host.url("/held/1"),
        other.url("/go"),
        host.url("/held/3"),
    ]
    other.answers["/start"] = page_with_links(*urls, root="")
    other.answers["/go"] = Answer(after=lambda: was_busy(host))
    trial = Trial(
        site,
        tmp_path,
        [other.url("/start")],
        mode=mode,
        spider="UnpicklableSpider",
        settings={
            "CONCURRENT_REQUESTS": 8,
            "DOWNLOADER_MIDDLEWARES": {
                f"{COMPONENTS}HoldBack": 500,
                f"{COMPONENTS}CountPasses": 600,
            },
            "REP_BACKOFF_MAX": 60,
            "REP_WAIT_TIMEOUT": 60,
        },
    )
    result = trial.finish()
    assert result.stats["scheduler/enqueued/memory"] == 2
    # The two requests that have returned to the scheduler pass the middlewares twice.
    assert result.stats["passes"] == 5 + 2
    assert host.pages == ["/busy", "/held/1", "/held/3"]
    (answered,) = (hit.answered for hit in host.hits_on("/busy"))
    assert answered is not None
    held_times = [hit.time for hit in host.hits if hit.path.startswith("/held")]
    assert min(held_times) > answered + 1 - EARLY


@pytest.mark.parametrize("stop", ["CLOSESPIDER_TIMEOUT", "SIGINT", "SIGINT twice"])
def test_requests_that_wait_for_robotstxt_when_the_crawl_ends_are_judged_by_the_next_run(
    site: Site, mode: str, stop: str, tmp_path: Path
) -> None:
    """The crawl is closed by a timeout, or by Ctrl-C once or twice. The robots.txt that the next run fetches
    decides about the requests.
    """
    down, silent, other = (
        site.add(answer) for answer in (Answer(status=503), HANGS, RULES)
    )
    urls = [url for host in (down, silent, other) for url in pages(host, 5)]
    urls += [host.url("/private/") for host in (down, silent, other)]
    trial = Trial(
        site,
        tmp_path,
        urls,
        mode=mode,
        settings={"REP_WAIT_TIMEOUT": 60},
        constants=RETRIED_SOON,
    )
    close_settings = {"CLOSESPIDER_TIMEOUT": 1} if stop == "CLOSESPIDER_TIMEOUT" else {}
    crawl = trial.start(**close_settings)
    if not close_settings:
        crawl.until(lambda: len(trial.notes("end")) == 5 and silent.robots_hits)
        trial.wait_for_file(crawl, *pages(down, 5), *pages(silent, 5))
    if stop == "SIGINT":
        crawl.process.send_signal(signal.SIGINT)
    elif stop == "SIGINT twice":
        interrupt_twice(crawl)
    crawl.wait(25)
    assert (down.pages, silent.pages) == ([], [])
    for host in (down, silent):
        host.answers["/robots.txt"] = Answer(RULES.encode())
    trial.finish()
    for host in (down, silent, other):
        assert host.pages == [f"/{number}" for number in range(5)]
    refused = sorted(note.url for note in trial.notes("rule"))
    assert refused == sorted(urls[-3:])


def test_a_page_in_flight_at_a_second_interrupt_is_fetched_again(
    site: Site, mode: str, tmp_path: Path
) -> None:
    host = site.add(RULES)
    urls = pages(host, 5)
    host.answers["/0"] = HANGS
    trial = Trial(site, tmp_path, urls, mode=mode)
    crawl = trial.start()
    crawl.until(lambda: len(trial.notes("end")) == 4 and host.hits_on("/0"))
    trial.wait_for_file(crawl, host.url("/0"))
    interrupt_twice(crawl)
    crawl.wait(25)
    host.answers["/0"] = Answer(b"A page")
    trial.finish()
    assert {note.url for note in trial.notes("end")} == set(urls)
    assert len(host.hits_on("/0")) == 2


@pytest.mark.slow
@pytest.mark.unmeasured
def test_a_crawl_that_is_killed_at_its_start_begins_with_all_start_requests(
    site: Site, tmp_path: Path
) -> None:
    """The process is killed while the crawl creates its files, or while the spider yields its start requests."""
    host = site.add(RULES)
    paths = {f"/public/{number}" for number in range(200)}
    trial = Trial(site, tmp_path, map(host.url, paths))
    rng = random.Random(7)
    for _ in range(KILLS):
        crawl = trial.start()
        time.sleep(rng.uniform(0.1, 0.6))
        kill(crawl)
        crawl.wait()
    trial.finish()
    assert set(host.pages) == paths


@pytest.mark.slow
@pytest.mark.unmeasured
def test_a_page_that_is_finished_while_the_spider_closes_is_not_fetched_again(
    site: Site, tmp_path: Path
) -> None:
    """The process is killed while the spider waits for the last answer before it closes."""
    host = site.add(RULES)
    is_closing: list[bool] = []
    # The spider begins to close while two requests are in flight, so that the third page is not requested.
    host.answers |= {"/0": Answer(after=lambda: is_closing), "/1": HANGS}
    settings = {"CONCURRENT_REQUESTS": 2}
    trial = Trial(site, tmp_path, pages(host, 3), settings=settings)
    crawl = trial.start()
    crawl.until(lambda: host.hits_on("/1"))
    crawl.process.send_signal(signal.SIGINT)
    crawl.until(lambda: "Closing spider (shutdown)" in crawl.log)
    is_closing.append(True)
    crawl.until(lambda: trial.notes("end"))
    trial.wait_for_file(crawl, host.url("/1"))
    kill(crawl)
    crawl.wait()
    del host.answers["/1"]
    trial.finish()
    assert host.pages == ["/0", "/1", "/1", "/2"]


def test_the_documented_pipeline_keeps_the_items_of_all_pages_in_spite_of_kills(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """The pipeline is that of ``docs/jobs.md``. The crawl is killed four times, and then finishes."""
    page = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    code = Path(__file__).with_name("own_pipeline.py").read_text(encoding="utf-8")
    assert f"```python\n{code.partition(chr(10))[2].lstrip()}```" in page
    host = site.add(RULES)
    paths = [f"/{number}" for number in range(40)]
    items = tmp_path / "items.sqlite"
    arguments: dict[str, Any] = {
        "mode": mode,
        "spider": "tests.crawl.surviving_spiders.SurvivorSpider",
        "settings": {
            "CONCURRENT_REQUESTS": 2,
            "ITEMS_DATABASE": str(items),
            "ITEM_PIPELINES": {"tests.crawl.own_pipeline.DatabasePipeline": 300},
            "JOBDIR": str(tmp_path / "job"),
        },
        "journal": str(tmp_path / "journal"),
    }
    urls = [host.url(path) for path in paths]
    for run in range(1, 5):
        crawl = start_crawl(urls, **arguments)
        crawl.until(lambda pages=8 * run: len(host.pages) >= pages)
        kill(crawl)
        crawl.wait()
    assert run_crawl(urls, **arguments).stats["finish_reason"] == "finished"
    with closing(sqlite3.connect(items)) as db:
        assert {url for (url,) in db.execute("SELECT url FROM items")} == set(urls)
    assert len(host.pages) < 2 * len(urls)
