"""Which images are refused, while the items of several pages name them."""

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
    """The word of the last page counts, until the last item that names the image is gone."""
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
    """Texts that are no URLs are not remembered."""
    images = RefusedImages()
    item = {"text": "a.png", "number": 1}
    images.add(item, BY_ONE)
    assert images.refusals(item, IMAGE) == {}
    assert images.because(Request("http://example.com/a.png"), INDEXING) is None


def test_a_pipeline_replaces_an_item() -> None:
    """An item that is not known may be one that an earlier pipeline has made of another: for
    the URLs of an item that no pipeline has met, the word of its page counts.
    """
    images = RefusedImages()
    item = {"image": IMAGE}
    images.add(item, BY_TWO)
    replaced = {"image": IMAGE}
    assert images.refusals(replaced, IMAGE) == BY_TWO
    assert images.refusals(replaced, OTHER) == {}
    # Now a pipeline has met it, so it has not been replaced.
    assert images.refusals(item, IMAGE) == BY_TWO
    assert images.refusals({"image": IMAGE}, IMAGE) == {}


def test_requests_that_say_whose_they_are() -> None:
    """A request that carries what its item refuses is not judged by other items."""
    images = RefusedImages()
    images.add({"image": IMAGE}, BY_ONE)
    free = Request(IMAGE, meta={"_rep_refusals": {}})
    assert Request(IMAGE).meta.get("_rep_refusals") is None
    assert images.because(free, INDEXING) is None
