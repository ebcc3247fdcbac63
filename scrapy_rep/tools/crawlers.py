"""Well-known crawlers: who runs them, what for, and where the operator says so.

The table has the crawlers that site owners ask about, and two tokens that no crawler sends
(Google-Extended, Applebot-Extended): a group for one of them says what may be done with content
that another crawler has fetched.
"""

from __future__ import annotations

from typing import NamedTuple

from scrapy_rep.protocol.dialect import GOOGLE, RFC9309, Dialect

CHECKED = "2026-11-22"
"""The date on which the entries were last compared with their sources."""

_GOOGLE = (
    "https://developers.google.com/search/docs/crawling-indexing/google-common-crawlers"
)
_OPENAI = "https://platform.openai.com/docs/bots"
_ANTHROPIC = (
    "https://support.anthropic.com/en/articles/8896518-does-anthropic-crawl-data-from-the-"
    "web-and-how-can-site-owners-block-the-crawler"
)
_APPLE = "https://support.apple.com/en-us/119829"
_PERPLEXITY = "https://docs.perplexity.ai/docs/resources/perplexity-crawlers"
_META = "https://developers.facebook.com/docs/sharing/webmasters/web-crawlers/"
_AMAZON = "https://developer.amazon.com/amazonbot"
_HELP_OF_DUCKDUCKGO = "https://duckduckgo.com/duckduckgo-help-pages/results"

_TRAINING = "AI training"
_AI_SEARCH = "AI search"
_ON_REQUEST = "AI, for a user's request"
_SEARCH = "search"


class Crawler(NamedTuple):
    """A crawler with a product token of its own."""

    token: str
    """Its product token, in the operator's spelling."""

    operator: str
    purpose: str
    """What its operator uses the content for, in a few words."""

    source: str
    """The URL of the page that describes it: the operator's, where there is one."""

    is_ai: bool = True
    """Whether what it fetches is used by AI models: for training, for search, or for answers."""

    followed_next: tuple[str, ...] = ()
    """The tokens whose group it follows, by its operator's documentation, if it has none."""

    dialect: Dialect = RFC9309
    """The dialect in which it reads robots.txt: Google's for Google's, else RFC 9309."""

    @property
    def agents(self) -> tuple[str, ...]:
        """Its product tokens, in order of preference."""
        return (self.token, *self.followed_next)


CRAWLERS = {
    crawler.token.lower(): crawler
    for crawler in (
        Crawler("Googlebot", "Google", _SEARCH, _GOOGLE, is_ai=False, dialect=GOOGLE),
        Crawler("Google-Extended", "Google", _TRAINING, _GOOGLE, dialect=GOOGLE),
        Crawler(
            "GoogleOther", "Google", "research and development", _GOOGLE,
            is_ai=False, dialect=GOOGLE,
        ),
        Crawler(
            "Bingbot", "Microsoft", _SEARCH,
            "https://www.bing.com/webmasters/help/which-crawlers-does-bing-use-8c184ec0",
            is_ai=False,
        ),
        Crawler("GPTBot", "OpenAI", _TRAINING, _OPENAI),
        Crawler("OAI-SearchBot", "OpenAI", _AI_SEARCH, _OPENAI),
        Crawler("ChatGPT-User", "OpenAI", _ON_REQUEST, _OPENAI),
        Crawler("ClaudeBot", "Anthropic", _TRAINING, _ANTHROPIC),
        Crawler("Claude-SearchBot", "Anthropic", _AI_SEARCH, _ANTHROPIC),
        Crawler("Claude-User", "Anthropic", _ON_REQUEST, _ANTHROPIC),
        Crawler(
            "CCBot", "Common Crawl", "open archive, used for AI training",
            "https://commoncrawl.org/ccbot",
        ),
        Crawler(
            "Applebot", "Apple", _SEARCH, _APPLE,
            is_ai=False, followed_next=("Googlebot",),
        ),
        Crawler("Applebot-Extended", "Apple", _TRAINING, _APPLE),
        Crawler("PerplexityBot", "Perplexity", _AI_SEARCH, _PERPLEXITY),
        Crawler("Perplexity-User", "Perplexity", _ON_REQUEST, _PERPLEXITY),
        Crawler("Meta-ExternalAgent", "Meta", _TRAINING, _META),
        Crawler("Meta-WebIndexer", "Meta", _AI_SEARCH, _META),
        Crawler("Meta-ExternalFetcher", "Meta", _ON_REQUEST, _META),
        Crawler("facebookexternalhit", "Meta", "link previews", _META, is_ai=False),
        Crawler("Amazonbot", "Amazon", _TRAINING, _AMAZON),
        Crawler("Amzn-SearchBot", "Amazon", _AI_SEARCH, _AMAZON),
        Crawler("Amzn-User", "Amazon", _ON_REQUEST, _AMAZON),
        # ByteDance has no page about it.
        Crawler(
            "Bytespider", "ByteDance", _TRAINING,
            "https://github.com/ai-robots-txt/ai.robots.txt/blob/main/table-of-bot-metrics.md",
        ),
        Crawler("MistralAI-User", "Mistral AI", _ON_REQUEST, "https://docs.mistral.ai/robots"),
        Crawler(
            "DuckDuckBot", "DuckDuckGo", _SEARCH,
            f"{_HELP_OF_DUCKDUCKGO}/duckduckbot", is_ai=False,
        ),
        Crawler(
            "DuckAssistBot", "DuckDuckGo", _ON_REQUEST,
            f"{_HELP_OF_DUCKDUCKGO}/duckassistbot",
        ),
        Crawler(
            "YandexBot", "Yandex", _SEARCH,
            "https://yandex.com/support/webmaster/en/robot-workings/user-agent",
            is_ai=False, followed_next=("Yandex",),
        ),
        Crawler(
            "Baiduspider", "Baidu", _SEARCH, "http://www.baidu.com/search/spider.html",
            is_ai=False,
        ),
    )
}  # fmt: skip
"""Each crawler, by its product token in lower case."""
