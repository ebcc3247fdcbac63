"""The resolver in SECURITY.md, which refuses private addresses."""

from ipaddress import ip_address

from scrapy.resolver import CachingThreadedResolver
from twisted.internet.error import DNSLookupError


class PublicResolver(CachingThreadedResolver):
    """Fails to resolve hosts with a private address.

    In the settings: TWISTED_DNS_RESOLVER = "myproject.resolver.PublicResolver"
    """

    def getHostByName(self, name, timeout=()):
        return super().getHostByName(name, timeout).addCallback(self.check)

    def check(self, address):
        if not ip_address(address).is_global:
            raise DNSLookupError(f"{address} is not a public address")
        return address
