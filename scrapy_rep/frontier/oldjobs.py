"""Moves the requests of a JOBDIR that Scrapy, or an earlier version of this package, wrote."""

from __future__ import annotations

import json
from hashlib import sha256
from shutil import copytree, ignore_patterns, rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue

from scrapy_rep.exceptions import JobError
from scrapy_rep.frontier.requests import pickled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrapy import Request

    from scrapy_rep.frontier.jobfile import JobFile
    from scrapy_rep.frontier.requests import QueueClasses

NAME = "scrapy_rep.HostQueue"
"""How a state of this package begins."""

_STATE = "active.json"

# What stays in the folder: the new file, its lock, and the state while the queues are there.
_NEW = ("requests.sqlite*", "lock", _STATE)

_COPY = "moving-"

# The hexadecimal digits in the name of a folder that an earlier version wrote.
_NAME_LENGTH = 32


def move_older_queues(
    kinds: QueueClasses,
    file: JobFile,
    folder: Path,
    state: Any,
    host_of: Callable[[Request], str],
) -> None:
    """Move the requests of the queues in *folder*, with the *state* that their class wrote, to
    *file*: all of them or none. Raises JobError if they cannot be read.
    """
    name = sha256(json.dumps(state).encode()).hexdigest()
    for old in folder.glob(f"{_COPY}*"):  # A run was killed while it moved them.
        rmtree(old, ignore_errors=True)
    if not file.has_moved(name):
        kinds.logger.info(
            "Moving the requests in %(folder)s to %(file)s",
            folder=folder,
            file=file.path.name,
        )
        try:
            # To read a queue changes it, and this process may be killed.
            with TemporaryDirectory(prefix=_COPY, dir=folder) as copy:
                copytree(
                    folder,
                    copy,
                    ignore=ignore_patterns(*_NEW, f"{_COPY}*"),
                    dirs_exist_ok=True,
                )
                file.move(
                    name,
                    (
                        (
                            host or host_of(request),
                            kinds.rank(request),
                            pickled(request, kinds.methods),
                        )
                        for host, request in _requests(kinds, copy, state)
                    ),
                )
        except (
            AttributeError,
            LookupError,
            OSError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            why = f"it is damaged, or another SCHEDULER_PRIORITY_QUEUE wrote it ({error!r})"
            raise JobError.unusable(folder, why) from error
    kept = ignore_patterns(*_NEW)("", [each.name for each in folder.iterdir()])
    for old in folder.iterdir():
        if old.name in kept:
            continue
        if old.is_dir():
            rmtree(old, ignore_errors=True)
        else:
            old.unlink()
    # The same class may write the same state again, for other requests.
    (folder / _STATE).unlink(missing_ok=True)
    file.forget_moved()


def _requests(
    kinds: QueueClasses, folder: str, state: Any
) -> Iterator[tuple[str, Request]]:
    """Yield each request, best first, with the name of its host in a file of an earlier version."""
    if isinstance(state, dict):
        yield from _popped(kinds, DownloaderAwarePriorityQueue, folder, state)
        return
    if isinstance(state, list) and all(isinstance(each, int) for each in state):
        yield from _popped(kinds, ScrapyPriorityQueue, folder, state)
        return
    name, queues, unsorted = state
    if name != NAME:
        raise ValueError(name)
    for *row, priorities in queues:
        host = json.dumps(row)
        own = f"{folder}/{sha256(host.encode()).hexdigest()[:_NAME_LENGTH]}"
        slot, origin, _, *is_service = row
        written = json.dumps([slot, origin, *is_service])
        for _, request in _popped(kinds, ScrapyPriorityQueue, own, priorities):
            yield written, request
    if unsorted:
        yield from _requests(kinds, folder, unsorted)


def _popped(
    kinds: QueueClasses, kind: Any, folder: str, state: Any
) -> Iterator[tuple[str, Request]]:
    queue = kind(
        kinds.crawler, kinds.usual, folder, state, start_queue_cls=kinds.of_start
    )
    left = len(queue)
    while left:
        try:
            request = queue.pop()
        except Exception:
            kinds.logger.exception(
                "A request in the queues of an earlier run cannot be read, and is lost"
            )
        else:
            if request is None:
                break
            yield "", request
        if len(queue) >= left:
            break
        left = len(queue)
    queue.close()
