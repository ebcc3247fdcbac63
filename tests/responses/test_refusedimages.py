"""Refused images that items of several pages name."""

from __future__ import annotations

import pytest
from scrapy import Request

from scrapy_rep.responses.refusedimages import INDEXING, USAGE, RefusedImages

pytestmark = pytest.mark.newest

IMAGE, OTHER = "http://example.com/a.png", "http://example.com/b.png"
BY_ONE = {INDEXING: ("http://example.com/1", None)}
BY_TWO = {
    INDEXING: ("http://example.com/2", None),
    USAGE: ("http://example.com/2", None),
}


def test_two_items_name_one_image() -> None:
    """The last page counts; the image is refused until the last item that names it is
    discarded.
    """
    images = RefusedImages()
    first, second = {"image": IMAGE}, {"images": [IMAGE]}
    images.add(first, BY_ONE)
    images.add(second, BY_TWO)
    request = Request(IMAGE)
    assert images.because(request, INDEXING) == BY_TWO[INDEXING]
    assert images.because(request, USAGE) == BY_TWO[USAGE]
    images.discard(second)
    assert images.because(request, USAGE) is None
    assert images.because(request, INDEXING) is not None
    images.discard(first)
    assert images.because(request, INDEXING) is None


def test_an_item_without_urls_refuses_nothing() -> None:
    """Only URLs in an item are remembered."""
    images = RefusedImages()
    item = {"text": "a.png", "number": 1}
    images.add(item, BY_ONE)
    assert images.refusals(item, IMAGE) == {}
    assert images.because(Request("http://example.com/a.png"), INDEXING) is None


def test_a_pipeline_replaces_an_item() -> None:
    """An unknown item may replace a known one. If it names a URL of an item that no pipeline
    has seen yet, the refusals of that item apply.
    """
    images = RefusedImages()
    item = {"image": IMAGE}
    images.add(item, BY_TWO)
    replaced = {"image": IMAGE}
    assert images.refusals(replaced, IMAGE) == BY_TWO
    assert images.refusals(replaced, OTHER) == {}
    # A pipeline sees the item itself, so it was not replaced.
    assert images.refusals(item, IMAGE) == BY_TWO
    assert images.refusals({"image": IMAGE}, IMAGE) == {}


def test_requests_that_say_whose_they_are() -> None:
    """The refusals in the meta of a request count, not those of other items."""
    images = RefusedImages()
    images.add({"image": IMAGE}, BY_ONE)
    free = Request(IMAGE, meta={"_rep_refusals": {}})
    assert Request(IMAGE).meta.get("_rep_refusals") is None
    assert images.because(free, INDEXING) is None
