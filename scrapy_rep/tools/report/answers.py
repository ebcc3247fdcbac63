"""Creates the content of a report as a dict: the headline, the answers to questions such as "What was fetched?", and
the tables. Formats values of a report, such as durations, as text.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy.settings import default_settings

from scrapy_rep.base.settings import DEFAULTS, OBEY
from scrapy_rep.protocol import text as texts
from scrapy_rep.protocol.reasons import REASONS
from scrapy_rep.tools.ledgers import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from sqlite3 import Row

    from scrapy_rep.tools.report.ledgers import ReportLedgers

_NAMED = 3
"""The maximum number of hosts, reasons or crawlers that an answer names."""

_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))

_DRY_RUN = (
    "A dry run (REP_DRY_RUN) fetches everything, and refuses, drops and delays nothing. Where this "
    "report mentions refusals, drops or delays, these would have happened in a real run."
)

Answer: TypeAlias = "tuple[list[str], bool]"
"""The sentences of an answer, and a boolean. For an answer about delays or pauses, the boolean is whether the crawl
kept all of them. For other answers, it is True."""


def headline(total: dict[str, int], check: dict[str, Any]) -> dict[str, Any]:
    """Return three values of a report by key: ``headline``, a sentence with the numbers of fetched pages and refused
    requests; ``kept``, which is True if no forbidden page was fetched; and ``notes``, which explain the headline.
    """
    forbidden = check["forbidden"] + total["arrived"]
    return {
        "headline": _sentence(total, check, forbidden),
        "kept": not forbidden,
        "notes": _notes(total, check),
    }


def _sentence(total: dict[str, int], check: dict[str, Any], forbidden: int) -> str:
    crawls, pages, refused = total["crawls"], total["pages"], total["refused"]
    if not crawls:
        return "No crawl has written to this ledger"
    fetched = "No page was fetched"
    if pages:
        fetched = f"{count(pages, 'page')} {_was(pages)} fetched"
    is_dry_run = total["dry_runs"] == crawls
    ignores = total["ignoring"] == crawls
    overridden, qualifiers = total["let_through_by_override"], []
    if overridden:
        qualifiers.append(f"{overridden:,} because of an override")
    if forbidden:
        qualifiers.append(f"{forbidden:,} forbidden")
    elif check["checked"] and not check["unchecked"] and total["complete"] == crawls:
        qualifiers.append("no other forbidden" if overridden else "none forbidden")
    if ignores and pages:
        fetched += " without regard to robots.txt"
    elif qualifiers and (pages or forbidden) and not is_dry_run:
        fetched += f" ({', '.join(qualifiers)})"
    would = _was(refused)
    if total["dry_runs"]:
        would = "would have been" if is_dry_run else f"{would} or would have been"
    refusals = f"{count(refused, 'request')} {would} refused"
    if not refused:
        refusals = "" if ignores and pages else f"no request {would} refused"
    parts = list(filter(None, (fetched, refusals)))
    if not_sent := total["not_sent"]:
        parts.append(
            f"{count(not_sent, 'request')} {_was(not_sent)} not sent because the network was gone"
        )
    *before, last = parts
    sentence = f"{', '.join(before)}, and {last}" if before else last
    return f"Dry run: {sentence[0].lower()}{sentence[1:]}" if is_dry_run else sentence


def _was(number: int) -> str:
    return "were" if number > 1 else "was"


def _notes(total: dict[str, int], check: dict[str, Any]) -> list[str]:
    crawls, notes = total["crawls"], []
    if total["dry_runs"]:
        notes.append(_DRY_RUN)
        if real := crawls - total["dry_runs"]:
            other_crawls = count(real, "other crawl was", "other crawls were")
            notes.append(f"{other_crawls} not a dry run.")
    if ignoring := total["ignoring"]:
        notes.append(
            f"{count(ignoring, 'crawl')} ignored robots.txt, because ROBOTSTXT_OBEY was False."
        )
    if arrived := total["arrived"]:
        notes.append(
            f"A browser fetched {count(arrived, 'forbidden page')}, because a redirect or a "
            "script led there; the spider did not receive the response."
        )
    if without_network := total["without_network"]:
        notes.append(
            f"{count(without_network, 'crawl')} ended because no host responded any more "
            "(network_gone). A new run with the same JOBDIR sends the remaining requests."
        )
    checked, unchecked = check["checked"], check["unchecked"]
    if checked:
        notes.append(
            f"{count(checked, 'request')} that robots.txt let through "
            f"{_was(checked)} checked again for this report, against the robots.txt that applied then."
        )
    without = total["let_through"] - checked - unchecked
    if without > 0:
        hosts = total["without"]
        notes.append(
            f"No robots.txt applied to {count(without, 'request')}"
            + (f": {count(hosts, 'host')} had none." if hosts else ".")
        )
    if pages := total["pages_for_robotstxt"]:
        notes.append(
            f"The robots.txt of {count(pages, 'host')} was an HTML page, such as a challenge of a "
            "bot wall. If such a page has no rules, everything is allowed on its host."
        )
    if unchecked:
        notes.append(
            f"{count(unchecked, 'request')} could not be checked again: the crawl used "
            "a custom dialect, or the ledger contains only a part of the URL."
        )
    only_refusals = crawls - total["complete"]
    if only_refusals and total["pages"] and ignoring < crawls:
        notes.append(
            f"The ledger of {count(only_refusals, 'crawl')} contains only refusals, so allowed "
            "requests could not be checked again. To have them checked, crawl with "
            'REP_LEDGER_LEVEL = "all".'
        )
    return notes


def answers(ledgers: ReportLedgers, total: dict[str, int]) -> list[dict[str, Any]]:
    """Answer questions about the crawls in *ledgers*, such as "What was fetched?". *total* is the result of
    :func:`figures`. Return a dict for each question, with these keys:

    - ``question``: the question.
    - ``answer``: the answer, in one or more sentences.
    - ``kept``: False if the question is whether delays or pauses were kept, and the answer is no. True for all other
      questions and answers.
    """
    answer_to: dict[str, Answer] = {
        "What was fetched?": _fetched(ledgers),
        "What was refused, and why?": _refused(ledgers, total),
        "Were the delays kept?": _delays(ledgers),
        "Were the pauses that hosts asked for kept?": _pauses(ledgers),
        "Which sites forbid AI crawlers by name?": _ai_crawlers(ledgers),
    }
    return [
        {"question": question, "answer": " ".join(sentences), "kept": kept}
        for question, (sentences, kept) in answer_to.items()
    ]


def _fetched(ledgers: ReportLedgers) -> Answer:
    (totals,) = ledgers.view("moved_in_all")
    pages, hosts = count(totals["pages"], "page"), count(totals["hosts"], "host")
    on = f", on {count(totals['days'], 'day')}" if totals["days"] else ""
    return [f"{pages} ({octets(totals['bytes'])}) from {hosts}{on}."], True


def _refused(ledgers: ReportLedgers, total: dict[str, int]) -> Answer:
    rows = ledgers.view("outcome", verdict="refused").fetchall()
    rows.sort(key=itemgetter("times"), reverse=True)
    reasons = [f"{row['times']:,} because {_reason(row)}" for row in rows]
    end = f": {_listed(reasons, 'reason')}"
    if len(rows) < 2:
        # A single reason needs no number, because the sentence begins with the total.
        end = f", because {_reason(rows[0])}" if rows else ""
    sentences = [f"{count(total['refused'], 'request')} refused{end}."]
    if total["dropped"]:
        withheld = count(
            total["dropped"], "item, link or file", "items, links and files"
        )
        sentences.append(f"{withheld} dropped.")
    return sentences, True


def _delays(ledgers: ReportLedgers) -> Answer:
    (totals,) = ledgers.view("delays_in_all")
    asking, measured = totals["asking"], totals["known"]
    if not asking:
        return ["No host asks for a delay."], True
    if not measured:
        hosts = count(asking, "host asks", "hosts ask")
        reason = "no request had to keep to it (a setting or a dry run ignores it, or none was sent)"
        return [f"{hosts} for a delay; {reason}."], True
    sentences, kept = _kept(totals, ledgers.view("delay").fetchall(), "delay", "gap")
    if asking > measured:
        more = count(asking - measured, "more host asks", "more hosts ask")
        sentences.append(f"{more} for a delay that no request had to keep to.")
    return sentences, kept


def _pauses(ledgers: ReportLedgers) -> Answer:
    (totals,) = ledgers.view("pauses_in_all")
    if not totals["hosts"]:
        return ["No host asked for a pause (429, 503)."], True
    pauses = count(totals["times"], "pause")
    if not totals["known"]:
        hosts = count(totals["hosts"], "host")
        return [
            f"{hosts} asked for {pauses}; it was not measured whether the crawl kept to them."
        ], True
    rows = ledgers.view("pause").fetchall()
    sentences, kept = _kept(totals, rows, "pause", "resumed")
    sentences.append(
        f"Hosts asked for {pauses}, with a maximum length of {duration(totals['longest'])}."
    )
    return sentences, kept


def _kept(totals: Row, rows: list[Row], asked: str, gap: str) -> Answer:
    """Return the answer to the question: did the crawl keep the delays, or the pauses, that hosts asked for?

    - *totals* contains two numbers of hosts. ``known`` is the number of hosts whose delay or pause was compared with
      the times of the requests. ``kept`` is the number of hosts whose delay or pause was kept.
    - *rows* contains a row for each host.
    - *asked* is the name of the column with the seconds that the host asked for: ``delay`` or ``pause``.
    - *gap* is the name of the column with the shortest time in seconds from an answer of the host to the next request.
    """
    if broken := totals["known"] - totals["kept"]:
        hosts = [
            f"{_origin(row)} (the next request after {duration(row[gap])}, asked for "
            f"{duration(row[asked])})"
            for row in rows
            if row["kept"] == 0
        ]
        of = count(totals["known"], "host")
        names = _listed(hosts, "host", broken)
        return [f"Not kept at {broken:,} of {of} with a {asked}: {names}."], False
    number = totals["known"]
    where = "the one host" if number == 1 else f"all {number:,} hosts"
    sentences = [f"Yes, at {where} with a {asked}."]
    # A host with a single request has no gap, and its delay counts as kept.
    measured = [row for row in rows if row["kept"] and row[gap] is not None]
    if measured:
        soonest = min(measured, key=lambda row: row[gap] / row[asked])
        sentences.append(
            "The shortest time from an answer to the next request was "
            f"{ratio(soonest[gap] / soonest[asked])} times the {asked}: "
            f"{duration(soonest[gap])} at {_origin(soonest)}, which asks for "
            f"{duration(soonest[asked])}."
        )
    return sentences, True


def _ai_crawlers(ledgers: ReportLedgers) -> Answer:
    (totals,) = ledgers.view("ai_crawlers_in_all")
    if not totals["hosts"]:
        return ["No robots.txt names a known AI crawler."], True
    hosts = count(totals["hosts"], "host names", "hosts name")
    sentences = [f"{hosts} AI crawlers in robots.txt."]
    rows = [
        row
        for row in ledgers.view("ai_crawler")
        if row["forbids"].startswith("everything")
    ]
    closed_hosts = [
        f"{visible(origin, 100)} ({_listed([row['crawler'] for row in group], 'crawler')})"
        for origin, group in groupby(rows, itemgetter("origin"))
    ]
    closing = totals["closing"]
    if closing:
        forbid = f"{closing:,} {'forbids' if closing == 1 else 'forbid'}"
        sentences.append(
            f"{forbid} everything to at least one of these crawlers: "
            f"{_listed(closed_hosts, 'host', closing)}."
        )
    else:
        sentences.append("No host forbids everything to any of these crawlers.")
    return sentences, True


def _reason(row: Row) -> str:
    reason = REASONS.get(row["reason"])
    return visible(reason.text if reason else row["reason"], 80)


def _origin(row: Row) -> str:
    return visible(row["origin"], 100)


def _listed(items: Sequence[str], noun: str, total: int | None = None) -> str:
    """Return the first three of *items* and the number of further items as text, such as ``"a, b, c and 2 more
    hosts"``. *total* is the number of all items if *items* contains only some of these.
    """
    more = (len(items) if total is None else total) - len(items[:_NAMED])
    text = ", ".join(items[:_NAMED])
    return f"{text} and {count(more, f'more {noun}')}" if more > 0 else text


# The report as a dict.

TABLES = {
    "fetched": "fetched",
    "delays": "delay",
    "pauses": "pause",
    "timeline": "timeline",
    "reasons": "outcome",
    "robotstxt-answers": "answer",
    "hosts": "host",
    "rules": "rule",
    "urls": "judged_url",
    "ai-crawlers": "ai_crawler",
    "usage": "purpose",
    "without-robotstxt": "without",
    "unreachable": "outage",
    "overridden": "overridden",
}
"""The tables of a report, each with the SQL view that returns the table's rows."""

# The columns that only the HTML page needs, and that the JSON leaves out. The JSON also leaves out columns whose names
# end with "_of_host".
_OF_PAGE = frozenset({
    "crawl", "example", "first", "file", "number", "judged", "place", "of_all",
})  # fmt: skip


def as_dict(ledgers: ReportLedgers, now: float) -> dict[str, Any]:
    """Return the whole report as a dict, with all rows of all tables. *now* is the time of the report, in seconds since
    the epoch.
    """
    return {
        **overall(ledgers, now),
        "tables": {name: list(rows(ledgers, name)) for name in TABLES},
    }


def overall(ledgers: ReportLedgers, now: float) -> dict[str, Any]:
    """Return the part of a report before its tables: headline, answers, figures, crawls and settings. *now* is the time
    of the report, in seconds since the epoch.
    """
    total, checked = figures(ledgers), ledgers.check()
    unchanged = "spider", "user_agent", "agents", "dialect", "versions", "path"
    return {
        "made_at": iso_time(now),
        **headline(total, checked),
        "answers": answers(ledgers, total),
        "figures": total,
        "checked_again": checked,
        "crawls": [
            {
                **{name: crawl[name] for name in unchanged},
                "started_at": iso_time(crawl["started"]),
                "ended_at": iso_time(crawl["ended"]),
                "finish_reason": crawl["finish_reason"],
                "has_every_decision": crawl["every_decision"],
            }
            for crawl in ledgers.crawls
        ],
        "settings": _changed_settings(ledgers),
    }


def figures(ledgers: ReportLedgers) -> dict[str, int]:
    """Return the numbers of a report, added up over all crawls, such as the number of crawls (``crawls``), of fetched
    pages (``pages``) and of refused requests (``refused``).

    ``let_through_by_override`` is the number of requests that were allowed by an override. ``let_through`` is the
    number of all other allowed requests. These two numbers include only crawls that recorded every decision.
    """
    crawls, through = ledgers.crawls, [0, 0]
    for row in ledgers.view("let_through"):
        crawl = ledgers.by_number.get(row["crawl"])
        if crawl and crawl["every_decision"]:
            through[row["by_override"]] += row["times"]
    (total,) = ledgers.view("total")
    return {
        "crawls": len(crawls),
        "complete": sum(crawl["every_decision"] for crawl in crawls),
        "dry_runs": sum(crawl["is_dry_run"] for crawl in crawls),
        "ignoring": sum(crawl["ignores"] for crawl in crawls),
        "without_network": sum(crawl["without_network"] for crawl in crawls),
        "not_sent": sum(crawl["not_sent"] for crawl in crawls),
        "let_through": through[0],
        "let_through_by_override": through[1],
        **dict(total),
    }


def _changed_settings(ledgers: ReportLedgers) -> list[dict[str, Any]]:
    """Return the settings of all crawls that differ from the defaults of Scrapy and this package. Each entry contains
    the name and value of a setting, and the spider of the crawl that used it.
    """
    changed = []
    for crawl in ledgers.crawls:
        for name, value in crawl["settings"].items():
            default = DEFAULTS.get(name, getattr(default_settings, name, None))
            # The add-on sets ROBOTSTXT_OBEY to True, so True counts as the default.
            if value != (True if name == OBEY else default):
                changed.append(
                    {"name": name, "value": value, "spider": crawl["spider"]}
                )
    return changed


def rows(ledgers: ReportLedgers, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a report's table. Each row is a dict by column name, in which times are text."""
    for row in ledgers.view(TABLES[table]):
        yield {
            name: iso_time(row[name]) if name.endswith("_at") else row[name]
            for name in columns(row.keys())
        }


def columns(names: list[str]) -> list[str]:
    """Return *names*, the column names of a view, without the columns that only the HTML page needs."""
    return [
        name for name in names if not (name in _OF_PAGE or name.endswith("_of_host"))
    ]


# The format of values.


def visible(text: object, limit: int = 1000) -> str:
    """Return *text* as one line, with invisible characters replaced by their codes.

    If *text* is longer than *limit* characters, it is cut, and ends with the number of further characters.
    """
    shown = str(text)
    more = len(shown) - limit
    if more > 0:
        shown = shown[:limit]
    shown = texts.visible(shown)
    return f"{shown}… ({more:,} more characters)" if more > 0 else shown


def setting(value: object) -> str:
    """Return the value of a setting as text. User names and passwords in URLs are masked."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return texts.without_credentials(text)


def whole(number: float) -> str:
    return f"{number:,.0f}"


def duration(seconds: float | None) -> str:
    """Return a duration as text, such as ``2 h 5 min``. The smaller unit is left out if there are ten or more of the
    larger unit, as in ``12 h``. None, an unknown duration, becomes a dash.
    """
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{round(max(0, seconds), 3):g} s"
    size, unit, smaller, smaller_unit = next(
        units for units in _UNITS if seconds >= units[0]
    )
    rest = int(seconds % size // smaller) if seconds < 10 * size else 0
    text = f"{int(seconds // size)} {unit}"
    return f"{text} {rest} {smaller_unit}" if rest else text


def moment(seconds: float) -> str:
    """Return a time in UTC as text, such as ``2026-11-21 09:30``. *seconds* counts from the epoch."""
    time = iso_time(seconds)
    return "–" if time is None else time[:16].replace("T", " ")


def span(first: float, last: float) -> str:
    """Return a period in UTC as text, such as ``2026-11-21 09:30 to 10:15``. If the period ends on another day, the end
    includes the date.
    """
    start, end = moment(first), moment(last)
    if end == start:
        return start
    day, _, time = end.partition(" ")
    return f"{start} to {time if start.startswith(f'{day} ') else end}"


def ratio(value: float | None) -> str:
    """Return a ratio as text with two decimals, rounded down, such as ``0.99``. None, an unknown ratio, becomes a dash.
    A report shows how well a crawl kept the delay or pause that a host asked for: 0.50 means that the next request was
    sent after half of this time.
    """
    # The value is rounded down. Otherwise, 0.999 would become 1.00, which would mean that the delay was kept.
    return "–" if value is None else f"{int(value * 100) / 100:,.2f}"


def octets(number: int) -> str:
    """Return a number of bytes as text, such as ``123 bytes`` or ``45.6 MB``. A megabyte is 1,000,000 bytes."""
    if number < 10_000:
        return count(number, "byte")
    size, unit = next(
        (size, unit)
        for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (1000, "kB"))
        if number >= size
    )
    return f"{number / size:,.{1 if number < 100 * size else 0}f} {unit}"


def count(number: int, singular: str, many: str | None = None) -> str:
    """Return *number* with its noun as text, such as ``1 host`` or ``2,000 hosts``. *many* is an irregular plural."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"


def status(number: int | None, error: str | None) -> str:
    """Return the outcome of a request for robots.txt as text. The text contains the HTTP status *number*, such
    as ``404 Not Found``, and the *error*, such as ``TLS failed``. If both are missing, the text is ``no answer``.
    """
    if number is None:
        return error or "no answer"
    try:
        status_text = f"{number} {HTTPStatus(number).phrase}"
    except ValueError:
        status_text = f"status {number}"
    return f"{error} ({status_text})" if error else status_text
