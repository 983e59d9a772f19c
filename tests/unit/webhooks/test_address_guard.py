"""Where a given URL may not lead."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.address_guard import check_url, refusal
from workers.errors import AddressRefusedError, InputError
from workers.webhooks.policy import WebhookPolicy

PRIVATE = [
    *("127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("100.64.0.1", "100.127.255.255", "0.1.2.3", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.7"),
    *("203.0.113.9", "240.0.0.1", "192.88.99.1"),
    *("::1", "fc00::1", "fd12:3456::1", "fec0::1", "2001:db8::1", "3fff::1", "2001::1", "100::1", "5f00::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::10.0.0.1", "::ffff:0:10.0.0.1"),
    *("64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:0a00:0001::1"),
]
#: Closed even where private addresses are allowed.
CLOSED = [
    *("0.0.0.0", "::", "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "224.0.0.1", "239.1.1.1"),
    *("ff02::1", "255.255.255.255", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    *("fd00:ec2::254", "fd20:ce::254"),
    *(
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "::ffff:0.0.0.0",
        "::ffff:0:169.254.1.1",
    ),
]
PUBLIC = [
    *(
        "8.8.8.8",
        "93.184.216.34",
        "172.15.255.255",
        "172.32.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "11.0.0.1",
    ),
    *("2606:4700::1111", "2a00:1450:4001::200e", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:0808:0808::1"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_this_network_s_own_addresses_open_only_by_the_setting(address: str) -> None:
    refused = refusal(address, allow_private=False)
    assert refused is not None
    assert refused.is_private
    assert refusal(address, allow_private=True) is None


@pytest.mark.parametrize("address", CLOSED)
def test_metadata_link_local_and_multicast_addresses_stay_closed(address: str) -> None:
    for allow_private in (False, True):
        refused = refusal(address, allow_private=allow_private)
        assert refused is not None
        assert not refused.is_private


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_open(address: str) -> None:
    assert refusal(address, allow_private=False) is None


def test_a_disguised_address_is_named_with_what_it_means() -> None:
    refused = refusal("::ffff:10.1.2.3", allow_private=False)
    assert refused is not None
    assert refused.reason == "::ffff:a01:203 (10.1.2.3) is a private address"


@given(st.ip_addresses(v=4))
def test_whatever_python_calls_not_global_is_refused(address: ipaddress.IPv4Address) -> None:
    if not address.is_global or address.is_multicast:
        assert refusal(str(address), allow_private=False) is not None


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:{}", "64:ff9b::{}", "::ffff:0:{}"]))
def test_a_disguise_changes_nothing(address: ipaddress.IPv4Address, disguise: str) -> None:
    plain = refusal(str(address), allow_private=False)
    disguised = refusal(disguise.format(address), allow_private=False)
    assert (plain is None) == (disguised is None)


@given(st.ip_addresses(v=6))
def test_outside_global_unicast_and_the_disguises_no_ipv6_address_is_open(
    address: ipaddress.IPv6Address,
) -> None:
    is_disguise = address in ipaddress.ip_network("64:ff9b::/96") or int(address) >> 64 == 0
    if not is_disguise and address not in ipaddress.ip_network("2000::/3"):
        assert refusal(str(address), allow_private=False) is not None


@pytest.mark.parametrize(
    "url",
    [
        "https://receiver.example/hook?token=x",
        "http://receiver.example:8080/",
        "https://xn--bcher-kva.example/",
        "https://my_service.example./hook#part",
        "https://8.8.8.8:4443/hook",
        "https://[2606:4700::1111]:8443/hook",
        "https://1password.example/",
        "https://10.example/",
        "HTTPS://RECEIVER.EXAMPLE/",
    ],
)
def test_a_url_to_a_public_place_passes(url: str) -> None:
    check_url(url, allow_private=False)


@pytest.mark.parametrize(
    ("url", "clause"),
    [
        ("ftp://receiver.example/", "must look like https://host/path"),
        ("receiver.example/hook", "must look like https://host/path"),
        ("https://", "must look like https://host/path"),
        ("https:///hook", "must look like https://host/path"),
        ("https://user@receiver.example/", "holds a user name or password"),
        ("https://8.8.8.8@127.0.0.1/", "holds a user name or password"),
        ("https://receiver.example:0/", "has port 0"),
        ("https://receiver.example:65536/", "has a host or port that cannot be read"),
        ("https://receiver.example:x/", "has a host or port that cannot be read"),
        ("https://[::1/", "has a host or port that cannot be read"),
        ("https://[v1.x]/", "spells its host"),
        ("https://127.1/", "spells its host '127.1' as a number"),
        ("https://2130706433/", "spells its host '2130706433' as a number"),
        ("https://0x7f000001/", "spells its host '0x7f000001' as a number"),
        ("https://0x7f.0.0.1/", "spells its host"),
        ("https://127.0.0.0x1/", "spells its host"),
        ("https://0177.0.0.1/", "spells its host '0177.0.0.1' as a number"),
        ("https://127.0.0.1./", "spells its host"),
        ("https://1.2.3.4.5/", "spells its host"),
        ("https://receiver .example/", "holds spaces"),
        ("https://receiver.example\\@127.0.0.1/", "holds spaces, backslashes"),
        ("https://receiver.example/\n", "holds spaces, backslashes"),
        ("https://bücher.example/", "characters beyond ASCII"),
        ("https://１２７.0.0.1/", "characters beyond ASCII"),
        ("https://-x.example/", "cannot exist"),
        ("https://a..example/", "cannot exist"),
        ("https://%31%32%37.0.0.1/", "spells its host"),
        ("https://%6cocalhost/", "cannot exist"),
        ("https://" + "a." * 127 + "example/", "cannot exist"),
        ("https://receiver.example/" + "x" * 2000, "has more than 2,000 characters"),
        ("https://169.254.169.254/latest", "169.254.169.254 is a link-local address"),
        ("https://[fe80::1%25eth0]/", "is a link-local address"),
    ],
)
def test_a_url_that_no_setting_makes_right_is_refused(url: str, clause: str) -> None:
    for allow_private in (False, True):
        with pytest.raises(AddressRefusedError) as refused:
            check_url(url, allow_private=allow_private)
        assert clause in str(refused.value)
        assert not refused.value.is_private


@pytest.mark.parametrize(
    "url",
    [
        *("http://localhost:8000/", "http://api.localhost/", "http://LOCALHOST./", "http://127.0.0.1/"),
        *("http://10.0.0.1:9/", "http://[::1]/", "http://[::ffff:127.0.0.1]/"),
    ],
)
def test_a_url_into_this_network_passes_only_by_the_setting(url: str) -> None:
    check_url(url, allow_private=True)
    with pytest.raises(AddressRefusedError) as refused:
        check_url(url, allow_private=False)
    assert refused.value.is_private


def test_without_a_secret_no_webhook_is_taken_on() -> None:
    policy = WebhookPolicy(has_secret=False)
    policy.check(None)
    with pytest.raises(InputError, match=r"^webhook_url: .*CONSENSUS_WEBHOOK_SECRET"):
        policy.check("https://receiver.example/")


def test_a_refusal_names_the_setting_that_helps_and_only_where_it_does() -> None:
    policy = WebhookPolicy(has_secret=True)
    with pytest.raises(InputError, match=r"CONSENSUS_WEBHOOK_ALLOW_PRIVATE=1$"):
        policy.check("http://10.0.0.1/secret-path")
    with pytest.raises(InputError) as refused:
        policy.check("http://169.254.169.254/secret-path")
    assert "ALLOW_PRIVATE" not in str(refused.value)
    assert "secret-path" not in str(refused.value)
    WebhookPolicy(has_secret=True, allow_private=True).check("http://10.0.0.1/secret-path")
