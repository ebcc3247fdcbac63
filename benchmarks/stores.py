"""A crawl of a million hosts through the files in memory: do they stay within their bounds?

    python benchmarks/stores.py
    python benchmarks/stores.py --hosts 100000 --mb 20
    python benchmarks/stores.py --corpus PATH     real files: a folder, or a tar archive

The robots.txt of each host is put once, and requested three times, as is that of an
earlier host. Two pages are decided. The rate counts hosts. RSS is the
growth of the process since before the first host, with its peak, as the operating system
counts it.
"""

from __future__ import annotations

import argparse
import mmap
import random
import sys
import tarfile
import time
from pathlib import Path

from scrapy_rep.protocol.access.results import AccessResult, Entry, robots_of
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.stores import MEMORY
from scrapy_rep.stores.memory import Memory

START = 1_800_000_000.0
DAY = 24 * 3600.0
MEGABYTE = 1_000_000

# Sizes like those of real files: half are under 550 bytes, one in ten is over 4 KB, one
# in a hundred over 30 KB.
MEDIAN_SIZE = 550
SIZE_SPREAD = 1.7

DIRECTORIES = [
    "admin",
    "api",
    "app",
    "assets",
    "basket",
    "blog",
    "cart",
    "cgi-bin",
    "checkout",
    "cms",
    "comments",
    "content",
    "download",
    "feed",
    "files",
    "forum",
    "images",
    "includes",
    "login",
    "media",
    "modules",
    "node",
    "private",
    "profile",
    "search",
    "sites",
    "static",
    "store",
    "tag",
    "tmp",
    "user",
    "wp-admin",
    "wp-content",
    "wp-includes",
]
AGENTS = ["*", "AhrefsBot", "bingbot", "CCBot", "Googlebot", "GPTBot", "Yandex"]


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    generator = random.Random(20)
    bodies = corpus(options.corpus) if options.corpus else generated(generator, 5000)
    mean = sum(map(len, bodies)) / len(bodies)
    print(f"{len(bodies)} different robots.txt, {mean:.0f} bytes each on average")
    print(f"bound: {options.mb} MB\n")
    crawl(options, bodies, generator)
    return 0


def crawl(
    options: argparse.Namespace, bodies: list[bytes], generator: random.Random
) -> None:
    """Visit the hosts, and print the state after every tenth of them."""
    memory = Memory(options.mb * MEGABYTE, lambda _, entry: robots_of(entry, RFC9309))
    print(
        f"{'hosts':>9} {'entries':>8} {'counted MB':>10} {'RSS MB':>7} {'peak':>6}"
        f" {'hosts/s':>8} {'found':>6}"
    )
    before, peak, found = resident(), 0, 0
    started = time.perf_counter()
    step = max(options.hosts // 10, 1)
    for host in range(1, options.hosts + 1):
        now = START + host * 0.01
        meet(memory, host, generator.choice(bodies), now)
        other = generator.randrange(max(1, host - 100_000), host + 1)
        found += memory.get(origin(other)) is not None
        if host % 1000 == 0 or host == options.hosts:
            peak = max(peak, resident() - before)
        if host % step == 0 or host == options.hosts:
            rate = host / (time.perf_counter() - started)
            grown = resident() - before
            print(
                f"{host:9} {len(memory):8} {memory.size / MEGABYTE:10.1f}"
                f" {grown / MEGABYTE:7.1f} {peak / MEGABYTE:6.1f} {rate:8.0f}"
                f" {found / host:6.0%}",
                flush=True,
            )


def meet(memory: Memory, host: int, body: bytes, now: float) -> None:
    key = origin(host)
    headers = (
        ("content-type", "text/plain; charset=utf-8"),
        ("cache-control", "max-age=3600"),
        ("etag", f'"{host:x}-5f3"'),
        ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
    )
    url = key.robotstxt_url
    result = AccessResult(url=url, status=200, headers=headers, body=body)
    memory.put(key, Entry(result=result, fetched=now, expires=now + DAY), now)
    for path in ("first", "second"):
        robots = memory.get(key).parsed
        robots.is_allowed(key.url(f"/{path}"), "mybot")
        memory.weigh(key, robots)


def origin(host: int) -> Origin:
    return Origin("https", f"www.host-{host}.example", 443)


def generated(generator: random.Random, count: int) -> list[bytes]:
    """Return robots.txt files of invented sites, with the sizes of real ones."""
    bodies = []
    for _ in range(count):
        size = int(MEDIAN_SIZE * generator.lognormvariate(0, SIZE_SPREAD))
        size = min(size, RFC9309.size_limit)
        lines: list[str] = []
        length = 0
        while length < size:
            lines.append(line(generator, first=not lines))
            length += len(lines[-1])
        bodies.append("".join(lines)[:size].encode())
    return bodies


def line(generator: random.Random, *, first: bool) -> str:
    kind = generator.random()
    if first or kind < 0.08:
        return f"\nUser-agent: {generator.choice(AGENTS)}\n"
    if kind < 0.1:
        return f"Sitemap: https://example.com/sitemap-{generator.randrange(99)}.xml\n"
    path = "/".join(generator.choices(DIRECTORIES, k=generator.randint(1, 3)))
    number = generator.choice(["", "", f"{generator.randrange(10_000)}"])
    end = generator.choice(["/", "/*", "$", ".html", f"?id={number}"])
    field = "Allow" if kind < 0.2 else "Disallow"
    return f"{field}: /{path}{number}{end}\n"


def corpus(path: Path) -> list[bytes]:
    """Return the files at *path*, cut at the size limit."""
    if path.is_dir():
        found = [file.read_bytes() for file in path.rglob("*") if file.is_file()]
    else:
        with tarfile.open(path) as archive:
            members = [member for member in archive if member.isfile()]
            found = [archive.extractfile(member).read() for member in members]
    return [body[: RFC9309.size_limit] for body in found]


def resident() -> int:
    """Return the bytes of memory that this process occupies."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # Not Linux: the peak
        import resource  # noqa: PLC0415

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return pages * mmap.PAGESIZE


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--hosts", type=int, default=1_000_000)
    parser.add_argument("--mb", type=int, default=MEMORY)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
