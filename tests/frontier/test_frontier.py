"""Download slots: which queues wait for a free place in a slot, and which one gets it."""

from __future__ import annotations

from scrapy_rep.exceptions import SpiderClosing
from tests.frontier.fakes import Crawl, FakeClock, page

RULES = "User-agent: *\nDisallow: /private/\n"


def test_a_place_that_the_first_in_line_has_no_use_for() -> None:
    """A free place in a slot goes to the next queue if the host of
    the first one is not ready.
    """
    crawl = Crawl(
        CONCURRENT_REQUESTS_PER_DOMAIN=1, REP_MAX_AGE=600, REP_REQUEST_META_KEYS=[]
    )
    for host in ("http://a.example", "http://b.example"):
        crawl.outside(f"{host}/private/")
        crawl.answer(f"{host}/robots.txt", RULES)
    slot = {"download_slot": "slot"}
    busy = crawl.push(page("http://a.example/1", **slot))
    crawl.run()
    first = crawl.push(page("http://b.example/2", **slot))
    second = crawl.push(page("data:,3", **slot))
    assert crawl.run() == []
    crawl.clock.advance(600)
    assert crawl.answer(busy) == [second]
    crawl.answer(second)
    assert crawl.answer("http://b.example/robots.txt", RULES) == [first]


def test_room_that_a_robotstxt_has_left() -> None:
    """The room that the downloader gets while robots.txt files are fetched is for those
    alone, also at the moment at which one of them ends.
    """
    crawl = Crawl(CONCURRENT_REQUESTS=2)
    crawl.outside("http://a.example/private/")
    crawl.answer("http://a.example/robots.txt", RULES)
    first = [crawl.push(f"http://a.example/{number}") for number in range(3)]
    others = [crawl.push(f"http://{host}.example/") for host in "bcd"]

    def ask_again(_: object) -> None:
        crawl.engine.wake()
        crawl.run()

    crawl.run()
    assert len(crawl.on_network) == 2 + len(others)
    crawl.engine.on_gone.append(ask_again)
    pages = [*first, *others]
    for request in others:
        crawl.answer(f"{request.url}robots.txt", RULES)
        assert sum(page in crawl.downloader.active for page in pages) == 2
    while len(crawl.ended) < 1 + len(pages):
        crawl.answer(next(page for page in pages if page in crawl.network.requests))
        assert sum(page in crawl.downloader.active for page in pages) <= 2


def test_a_download_delay() -> None:
    """No more than one request waits in a download slot for DOWNLOAD_DELAY."""
    crawl = Crawl(obey=False, DOWNLOAD_DELAY=10)
    for number in range(5):
        crawl.push(f"http://a.example/{number}")
    crawl.run()
    assert len(crawl.on_network) == 1
    sent = []
    for _ in range(100):
        crawl.pass_time(1)
        sent.append(len(crawl.sent))
        (slot,) = crawl.downloader.slots.values()
        assert len(slot.queue) <= 1
    assert [sent.count(number) for number in (1, 2, 3, 4)] == [9, 10, 10, 10]


def test_a_pause_that_another_crawl_has_seen() -> None:
    """A request that waits in its download slot is not sent within a pause that its host has asked
    another crawl of the process for. If it is cancelled meanwhile, it is not sent at all.
    """
    clock = FakeClock()
    first, second = (
        Crawl(obey=False, clock=clock, DOWNLOAD_DELAY=10) for _ in range(2)
    )
    asking = first.push("http://a.example/0")
    first.run()
    for number in (1, 2):
        second.push(f"http://a.example/{number}")
    for _ in range(3):
        second.pass_time(1)
    (slot,) = second.downloader.slots.values()
    ((waiting, result),) = slot.queue
    first.answer(asking, status=429, Retry_After="100")
    assert not slot.queue
    second.pass_time(99)
    assert len(second.sent) == 1
    result.cancel()
    second.pass_time(100)
    assert waiting not in second.sent


def test_a_spider_that_closes_within_a_pause() -> None:
    """A request that waited in its download slot when its host asked for a pause does not keep a
    closing spider open.
    """
    crawl = Crawl(obey=False, DOWNLOAD_DELAY=10)
    for number in range(2):
        crawl.push(f"http://a.example/{number}")
    crawl.run()
    crawl.pass_time(1)
    (asking,) = crawl.sent
    (waiting,) = crawl.downloader.active - {asking}
    crawl.answer(asking, status=429, Retry_After="100")
    crawl.close()
    assert isinstance(crawl.ended[waiting], SpiderClosing)
