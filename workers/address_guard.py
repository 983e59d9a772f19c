"""Which addresses a URL that somebody gave us may lead to: not into this network, unless the operator allows it.

Pure. `check_url` reads the URL alone, when it is given; the name behind it can change at any time, so what counts is
`refusal` of the address that is really connected to (`guarded_http`)."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from workers.errors import AddressRefusedError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_URL_CHARACTERS = 2000
MAX_HOST_CHARACTERS = 253

#: Where clouds answer a machine's questions about itself, keys included, and link-local addresses beside them: no
#: setting opens these. The last three lie among ordinary addresses.
_NEVER = tuple(
    (ipaddress.ip_network(network), kind)
    for network, kind in (
        ("0.0.0.0/32", "no address at all"),
        ("::/128", "no address at all"),
        ("169.254.0.0/16", "a link-local address"),
        ("fe80::/10", "a link-local address"),
        ("224.0.0.0/4", "a multicast address"),
        ("ff00::/8", "a multicast address"),
        ("255.255.255.255/32", "a broadcast address"),
        ("100.100.100.200/32", "a metadata service"),
        ("168.63.129.16/32", "a metadata service"),
        ("192.0.0.192/32", "a metadata service"),
        ("fd00:ec2::254/128", "a metadata service"),
        ("fd20:ce::254/128", "a metadata service"),
    )
)
#: The special-purpose registries of IANA (RFC 6890 and its successors), and what is not handed out.
_PRIVATE = tuple(
    (ipaddress.ip_network(network), kind)
    for network, kind in (
        ("127.0.0.0/8", "a loopback address"),
        ("::1/128", "a loopback address"),
        ("10.0.0.0/8", "a private address"),
        ("172.16.0.0/12", "a private address"),
        ("192.168.0.0/16", "a private address"),
        ("fc00::/7", "a private address"),
        ("fec0::/10", "a private address"),
        ("100.64.0.0/10", "an address of carrier-grade NAT"),
        ("0.0.0.0/8", "a reserved address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "a reserved address"),
        ("198.18.0.0/15", "an address for benchmarks"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("240.0.0.0/4", "a reserved address"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "an address for documentation"),
        ("3fff::/20", "an address for documentation"),
    )
)
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")

#: IPv6 addresses that stand for an IPv4 one, and how far from the right its 32 bits begin: mapped (RFC 4291), the
#: deprecated compatible form, translated (RFC 2765), NAT64 (RFC 6052) and 6to4 (RFC 3056).
_EMBEDDING = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
#: No IPv4 addresses in disguise, although they look like the compatible form.
_PLAIN = {ipaddress.IPv6Address("::"), ipaddress.IPv6Address("::1")}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an address is not connected to, as a clause; `is_private`: the operator could allow it."""

    reason: str
    is_private: bool


def refusal(address: str, *, allow_private: bool) -> Refusal | None:
    """Why this IP address is not connected to, or None if it may be.

    `allow_private` opens this network's own addresses; metadata services, link-local and multicast stay closed.
    """
    try:
        # A scope says through which interface, not to whom.
        parsed: IPAddress = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return Refusal(reason=f"{address[:80]!r} is no IP address", is_private=False)
    meant = _meant(parsed)
    never = _kind(meant, _NEVER)
    kind = never or _private_kind(meant)
    if kind is None or (never is None and allow_private):
        return None
    disguised = "" if meant == parsed else f" ({meant})"
    return Refusal(reason=f"{parsed}{disguised} is {kind}", is_private=never is None)


def _meant(address: IPAddress) -> IPAddress:
    """The IPv4 address that packets to this one end at, or the address itself."""
    if isinstance(address, ipaddress.IPv6Address) and address not in _PLAIN:
        for network, shift in _EMBEDDING:
            if address in network:
                return ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return address


def _private_kind(address: IPAddress) -> str | None:
    kind = _kind(address, _PRIVATE)
    if kind is None and address.version == 6 and address not in _GLOBAL_IPV6:
        return "a reserved address"
    return kind


def _kind(address: IPAddress, table: Sequence[tuple[IPNetwork, str]]) -> str | None:
    return next((kind for network, kind in table if address in network), None)


_LABEL = "[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
_HOST_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
#: A name whose last part is a number is an IPv4 address to some parsers and a name to others (WHATWG URL §3.5).
_NUMERIC_END = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)\.?")
_LOCAL_NAME = re.compile(r"(.*\.)?localhost\.?")


def check_url(url: str, *, allow_private: bool) -> None:
    """Refuse a URL that cannot be right wherever its name leads: form, host spelled as a number, literal address.

    Raises: AddressRefusedError with a clause that does not repeat the URL, whose path may be a secret.
    """
    if len(url) > MAX_URL_CHARACTERS:
        raise AddressRefusedError(f"has more than {MAX_URL_CHARACTERS:,} characters")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise AddressRefusedError(
            "holds spaces, backslashes or characters beyond ASCII; write names as xn--… and the rest as %XX"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise AddressRefusedError(
            "has a host or port that cannot be read; write https://host:port/path"
        ) from None
    if parts.scheme not in {"http", "https"} or not host:
        raise AddressRefusedError("must look like https://host/path")
    if "@" in parts.netloc:
        raise AddressRefusedError("holds a user name or password; leave it out")
    if port == 0:
        raise AddressRefusedError("has port 0; ports go from 1 to 65535")
    _check_host(host, is_bracketed="[" in parts.netloc, allow_private=allow_private)


def _check_host(host: str, *, is_bracketed: bool, allow_private: bool) -> None:
    """`host` in lower case, without brackets."""
    if is_bracketed or _NUMERIC_END.fullmatch(host):
        try:
            literal = ipaddress.ip_address(host)
        except ValueError:
            raise AddressRefusedError(
                f"spells its host {host[:80]!r} as a number; write the address as 192.0.2.1 or [2001:db8::1]"
            ) from None
        refused = refusal(str(literal), allow_private=allow_private)
        if refused is not None:
            raise AddressRefusedError(
                f"leads into a closed network: {refused.reason}", is_private=refused.is_private
            )
    elif len(host) > MAX_HOST_CHARACTERS or not _HOST_NAME.fullmatch(host):
        raise AddressRefusedError(f"names a host {host[:80]!r} that cannot exist")
    elif _LOCAL_NAME.fullmatch(host) and not allow_private:
        raise AddressRefusedError("leads to this machine itself", is_private=True)


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own and reaches it alone."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
