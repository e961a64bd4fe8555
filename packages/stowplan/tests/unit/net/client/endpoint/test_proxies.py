"""Choosing a proxy: proxy-url, and Go's reading of HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""

import pytest

from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.endpoint.proxies import proxy_from_environment, proxy_problem

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        pytest.param("https://k8s.example:6443", {}, None, id="nothing set"),
        pytest.param("https://k8s.example:6443", {"HTTPS_PROXY": PROXY}, PROXY, id="https"),
        pytest.param("https://k8s.example:6443", {"https_proxy": PROXY}, PROXY, id="lower case"),
        pytest.param("https://k8s.example", {"HTTPS_PROXY": PROXY, "https_proxy": "http://x"}, PROXY, id="upper wins"),
        pytest.param("https://k8s.example", {"HTTPS_PROXY": "", "https_proxy": PROXY}, PROXY, id="empty is unset"),
        pytest.param("https://k8s.example", {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, None, id="not for https"),
        pytest.param("http://k8s.example", {"HTTP_PROXY": PROXY}, PROXY, id="http"),
        pytest.param("https://k8s.example", {"HTTPS_PROXY": "proxy:3128"}, PROXY, id="without a scheme"),
        pytest.param("https://k8s.example", {"HTTPS_PROXY": "https://u:p@proxy"}, "https://u:p@proxy", id="password"),
        pytest.param("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None, id="localhost"),
        pytest.param("https://127.0.0.5:6443", {"HTTPS_PROXY": PROXY}, None, id="loopback"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, None, id="IPv6 loopback"),
        pytest.param("https://[::ffff:127.0.0.1]:6443", {"HTTPS_PROXY": PROXY}, None, id="IPv4 loopback as IPv6"),
    ],
)
def test_from_the_environment(server, environ, proxy):
    assert proxy_from_environment(server, environ) == proxy


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        ("https://a.example", "*", True),
        ("https://a.example", "a.example", True),
        ("https://a.example", "A.EXAMPLE", True),
        ("https://a.example", "example", True),
        ("https://a.example", ".example", True),
        ("https://a.example", "*.example", True),
        ("https://a.example", "*a.example", False),
        ("https://example", ".example", False),
        ("https://example", "*.example", False),
        ("https://notexample", "example", False),
        ("https://a.example", "b.example, ,a.example", True),
        ("https://a.example", "a.example:443", True),
        ("https://a.example:6443", "a.example:443", False),
        ("https://a.example:6443", ":6443", False),
        ("https://10.0.0.1", "10.0.0.0/8", True),
        ("https://11.0.0.1", "10.0.0.0/8", False),
        ("https://10.0.0.1", "10.0.0.1", True),
        ("https://10.0.0.1:6443", "10.0.0.1:6443", True),
        ("https://10.0.0.1:6443", "10.0.0.1:1", False),
        ("https://10.0.0.1", "0.0.1", False),
        ("https://[fd00::1]:6443", "fd00::/16", True),
        ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:1", False),
        ("https://[::ffff:10.0.0.1]", "10.0.0.0/8", True),
        ("https://10.0.0.1", "::ffff:10.0.0.1", True),
        ("https://a.example", "10.0.0.0/8", False),
        ("https://10.0.0.1", "10.0.0.0/99", False),
        ("https://10.0.0.1", "nonsense/,/", False),
    ],
)
def test_no_proxy(server, no_proxy, direct):
    proxy = proxy_from_environment(server, {"HTTPS_PROXY": PROXY, "no_proxy": no_proxy})
    assert proxy == (None if direct else PROXY)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", ""),
        ("http://proxy", ""),
        ("https://u:p@proxy:1", ""),
        ("socks5://proxy", "socks5 proxies are not supported"),
        ("ftp://proxy", "unsupported scheme 'ftp', must be http or https"),
        ("proxy:3128", "unsupported scheme 'proxy'"),
        ("http://", "it names no host"),
        ("http://proxy\n", "there are spaces or control characters in it"),
        ("http://proxy:port", "it could not be parsed"),
        ("http://[proxy", "it could not be parsed"),
    ],
)
def test_problems(url, problem):
    assert proxy_problem(url).startswith(problem)
    assert bool(proxy_problem(url)) is bool(problem)


def test_an_unsupported_proxy_in_the_environment():
    with pytest.raises(ClientConfigError) as caught:
        proxy_from_environment("https://k8s.example", {"HTTPS_PROXY": "socks5://u:secret@proxy"})
    assert str(caught.value).startswith("environment variable HTTPS_PROXY: socks5 proxies are not supported")
    assert "secret" not in str(caught.value)
