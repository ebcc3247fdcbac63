"""Pipelines that take the URLs of images from fields of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.pipelines.images import ImagesPipeline

if TYPE_CHECKING:
    from collections.abc import Iterator


class CoverPipeline(ImagesPipeline):
    """Its field is set by COVERPIPELINE_IMAGES_URLS_FIELD."""


class OwnFieldPipeline(ImagesPipeline):
    """Its field is an attribute of the class, and has one URL."""

    IMAGES_URLS_FIELD = "cover"

    def get_media_requests(self, item: Any, info: Any) -> Iterator[Request]:
        if isinstance(item, dict) and item[self.images_urls_field]:
            yield Request(item[self.images_urls_field])


class PortraitPipeline(ImagesPipeline):
    """It sets its field itself, and takes a tuple."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.images_urls_field = "portrait"

    def get_media_requests(self, item: Any, info: Any) -> Iterator[Request]:
        if isinstance(item, dict):
            yield from map(Request, item[self.images_urls_field])
