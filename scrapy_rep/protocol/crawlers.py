"""Well-known crawlers: their operators, their purposes, and the pages that document them.

The table lists the crawlers that site owners ask about. Two of the product tokens, Google-Extended
and Applebot-Extended, never appear in a ``User-Agent`` header. Groups for these two tokens control
how the operator may use content that its other crawlers fetch.
"""

from __future__ import annotations

from typing import NamedTuple

from scrapy_rep.protocol.dialect import GOOGLE, RFC9309, Dialect

CHECKED = "2026-11-22"
"""The date on which the entries of :data:`CRAWLERS` were last compared with the pages at their source URLs."""

_TRAINING = "AI training"
_AI_SEARCH = "AI search"
_ON_REQUEST = "AI, for a user's request"
_SEARCH = "search"

# For each operator: the URL of the page about its crawlers, and the product token and purpose of each crawler.
_DOCUMENTED = (
    ("Google",
        "https://developers.google.com/search/docs/crawling-indexing/google-common-crawlers",
        {"Googlebot": _SEARCH, "Google-Extended": _TRAINING, "GoogleOther": "research and development"}),
    ("Microsoft",
        "https://www.bing.com/webmasters/help/which-crawlers-does-bing-use-8c184ec0",
        {"Bingbot": _SEARCH}),
    ("OpenAI", "https://platform.openai.com/docs/bots",
        {"GPTBot": _TRAINING, "OAI-SearchBot": _AI_SEARCH, "ChatGPT-User": _ON_REQUEST}),
    ("Anthropic",
        ("https://support.anthropic.com/en/articles/8896518-does-anthropic-crawl-data-from-the-"
         "web-and-how-can-site-owners-block-the-crawler"),
        {"ClaudeBot": _TRAINING, "Claude-SearchBot": _AI_SEARCH, "Claude-User": _ON_REQUEST}),
    ("Common Crawl", "https://commoncrawl.org/ccbot", {"CCBot": "open archive, used for AI training"}),
    ("Apple", "https://support.apple.com/en-us/119829",
        {"Applebot": _SEARCH, "Applebot-Extended": _TRAINING}),
    ("Perplexity", "https://docs.perplexity.ai/docs/resources/perplexity-crawlers",
        {"PerplexityBot": _AI_SEARCH, "Perplexity-User": _ON_REQUEST}),
    ("Meta", "https://developers.facebook.com/docs/sharing/webmasters/web-crawlers/",
        {"Meta-ExternalAgent": _TRAINING, "Meta-WebIndexer": _AI_SEARCH,
         "Meta-ExternalFetcher": _ON_REQUEST, "facebookexternalhit": "link previews"}),
    ("Amazon", "https://developer.amazon.com/amazonbot",
        {"Amazonbot": _TRAINING, "Amzn-SearchBot": _AI_SEARCH, "Amzn-User": _ON_REQUEST}),
    # ByteDance has no page about its crawler, so the URL is that of a public list of crawlers.
    ("ByteDance",
        "https://github.com/ai-robots-txt/ai.robots.txt/blob/main/table-of-bot-metrics.md",
        {"Bytespider": _TRAINING}),
    ("Mistral AI", "https://docs.mistral.ai/robots", {"MistralAI-User": _ON_REQUEST}),
    ("DuckDuckGo", "https://duckduckgo.com/duckduckgo-help-pages/results/duckduckbot",
        {"DuckDuckBot": _SEARCH}),
    ("DuckDuckGo", "https://duckduckgo.com/duckduckgo-help-pages/results/duckassistbot",
        {"DuckAssistBot": _ON_REQUEST}),
    ("Yandex", "https://yandex.com/support/webmaster/en/robot-workings/user-agent", {"YandexBot": _SEARCH}),
    ("Baidu", "http://www.baidu.com/search/spider.html", {"Baiduspider": _SEARCH}),
)  # fmt: skip

_FALLBACK_TOKENS = {"Applebot": "Googlebot", "YandexBot": "Yandex"}
"""The fallback tokens, by the product tokens of the crawlers that have one. If no group of a robots.txt names
such a crawler, the crawler follows the groups that name its fallback token, according to its operator."""


class Crawler(NamedTuple):
    """A well-known crawler. Some instances are not crawlers, but uses of content that have their own product
    token, such as ``Google-Extended`` for AI training.
    """

    token: str
    """The product token, as the operator spells it."""

    operator: str
    purpose: str
    """The purpose for which the operator uses the content, in a few words."""

    source: str
    """The URL of a page that describes the crawler; the operator's own page, if there is one."""

    @property
    def is_ai(self) -> bool:
        """Whether the operator uses the content for AI models: for training, search or answers."""
        return "AI" in self.purpose

    @property
    def dialect(self) -> Dialect:
        """The dialect in which the crawler reads robots.txt: GOOGLE for Google's crawlers, RFC9309 for all
        others.
        """
        return GOOGLE if self.operator == "Google" else RFC9309

    @property
    def agents(self) -> tuple[str, ...]:
        """The crawler's product tokens, in order of preference: its own, and its fallback token if it has
        one.
        """
        return tuple(filter(None, (self.token, _FALLBACK_TOKENS.get(self.token))))


CRAWLERS = {
    token.lower(): Crawler(token, operator, purpose, source)
    for operator, source, purposes in _DOCUMENTED
    for token, purpose in purposes.items()
}
"""All crawlers, by their product tokens in lower case."""
