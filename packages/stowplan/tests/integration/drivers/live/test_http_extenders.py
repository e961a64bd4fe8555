"""HTTP extenders in another process, called by a live scheduler."""

import asyncio
from base64 import b64encode

import pytest

from stowplan.testing import a_node, a_pod
from support.extenders.running import configuration, running_extender
from support.http.certificates import make_ca, make_client_certificate, make_server_certificate
from support.live.live_scheduler import live
from support.scheduling.preempting import priority_class


@pytest.fixture(scope="module")
def program():
    with running_extender() as found:
        yield found


@pytest.fixture
def extender(program):
    program.asked()
    program.dislikes()
    return program


def nodes(*names, **sizes):
    return [a_node(name).allocatable(**{"cpu": 4, "pods": 10, **sizes}).obj() for name in names or ("n1", "n2", "n3")]


def scheduling(*objects, extenders, **options):
    options.setdefault("overlaps", False)
    return live(*objects, config=configuration(*extenders), **options)


async def create(cluster, *objects):
    """Create objects, and run until all consequences, including the extender's responses, have been processed."""
    cluster.server.create_all(objects)
    for _ in range(1000):
        for _ in range(50):
            await asyncio.sleep(0)
        asking = [task for task in asyncio.all_tasks() if task.get_name().partition(" ")[0] in VERBS]
        if not asking:
            break
        await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    await cluster.settle()


VERBS = ("filter", "prioritize", "preempt", "bind")

BOTH_WAYS = pytest.mark.parametrize("capable", [False, True], ids=["whole nodes", "names of nodes"])


# -- the verbs; their bodies: test_calls and test_answers of extenders -------------------------------------------------


@BOTH_WAYS
async def test_filter(extender, capable):
    extender.dislikes("n1", "n3")
    async with scheduling(
        *nodes(), extenders=[extender.settings("good", "filter", nodeCacheCapable=capable)]
    ) as cluster:
        await create(cluster, a_pod("p").obj())
        assert cluster.node_of("p") == "n2"
    (asked,) = extender.asked()
    assert asked.path == "/good/filter"
    assert asked.headers["Content-Type"] == "application/json"


@BOTH_WAYS
async def test_prioritize(extender, capable):
    settings = extender.settings("good", "prioritize", nodeCacheCapable=capable, weight=100)
    async with scheduling(*nodes(), extenders=[settings]) as cluster:
        await create(cluster, a_pod("p").obj())
        assert cluster.node_of("p") == "n3"


@BOTH_WAYS
async def test_preempt(extender, capable):
    extender.dislikes("n1")
    victims = [a_pod(f"v{i}").on(f"n{i}").obj() for i in (1, 2)]
    settings = extender.settings("good", "preempt", nodeCacheCapable=capable)
    async with scheduling(
        *nodes("n1", "n2", pods=1), *victims, priority_class("high", 1000), extenders=[settings]
    ) as cluster:
        await create(cluster, a_pod("p").spec(priorityClassName="high").obj())
        assert cluster.pod("p")["status"]["nominatedNodeName"] == "n2"


async def test_bind(extender):
    async with scheduling(*nodes("n1"), extenders=[extender.settings("good", "bind")]) as cluster:
        await create(cluster, a_pod("p").obj())
        # The extender itself must bind it.
        assert cluster.node_of("p") == ""
        assert cluster.scheduler.state.is_assumed(cluster.pod("p")["metadata"]["uid"])
        assert cluster.events("p", "Scheduled")[0]["note"] == "Successfully assigned default/p to n1"


async def test_a_refusing_binder(extender):
    async with scheduling(*nodes("n1"), extenders=[extender.settings("error", "bind")]) as cluster:
        await create(cluster, a_pod("p").obj())
        assert cluster.condition("p")["reason"] == "SchedulerError"
        assert cluster.why_pending("p") == "the extender says no"
        assert not cluster.scheduler.state.is_assumed(cluster.pod("p")["metadata"]["uid"])


@pytest.mark.parametrize("behaviour", ["error", "fails", "closes", "html"])
async def test_plugins_bind_if_an_ignorable_binder_fails(extender, behaviour):
    async with scheduling(*nodes("n1"), extenders=[extender.settings(behaviour, "bind", ignorable=True)]) as cluster:
        await create(cluster, a_pod("p").obj())
        assert cluster.node_of("p") == "n1"


async def test_connections_are_reused(extender):
    async with scheduling(*nodes(), extenders=[extender.settings("good", "filter", "prioritize")]) as cluster:
        await create(cluster, *(a_pod(f"p{i}").obj() for i in range(10)))
    asked = extender.asked()
    assert len(asked) == 20
    assert len({one.port for one in asked}) == 1


# -- which extenders are called for which pods -------------------------------------------------------------------------


async def test_only_pods_that_ask_for_managed_resources(extender):
    settings = extender.settings(
        "good", "filter", "bind", managedResources=[{"name": "example.com/dongle", "ignoredByScheduler": True}]
    )
    async with scheduling(*nodes("n1"), extenders=[settings]) as cluster:
        await create(cluster, a_pod("plain").obj(), a_pod("other").requests(cpu=1).obj())
        assert cluster.node_of("plain") == cluster.node_of("other") == "n1"
        assert extender.asked() == []
        await create(
            cluster, a_pod("p").requests(**{"example.com/dongle": 1}).limits(**{"example.com/dongle": 1}).obj()
        )
    # The node has no dongles, which only the extender manages.
    assert [asked.verb for asked in extender.asked()] == ["filter", "bind"]


# -- misbehaving extenders ---------------------------------------------------------------------------------------------

HOSTILE = {
    "fails": "failed filter with extender at URL {url}/fails/filter, code 500",
    "redirects": "failed filter with extender at URL {url}/redirects/filter, code 307",
    "closes": 'Post "{url}/closes/filter": the server closed the connection without an answer',
    "hangs": 'Post "{url}/hangs/filter": the answer was not complete within the time limit',
    "huge": 'Post "{url}/huge/filter": the answer is longer than',
    "html": "cannot read what the extender at URL {url}/html/filter answers: it is not JSON",
    "list": "cannot read what the extender at URL {url}/list/filter answers: expected an object, got a list",
    "error": "the extender says no",
    "unknown": 'extender "{url}/unknown" claims a filtered node "no-such-node" which is not found',
}


def limit(behaviour):
    """Only the one that never responds runs into the limit; on a busy machine others may be slow."""
    return "300ms" if behaviour == "hangs" else "20s"


@pytest.mark.parametrize("behaviour", HOSTILE)
async def test_the_status_of_a_pod_with_a_hostile_extender(extender, behaviour):
    settings = extender.settings(behaviour, "filter", nodeCacheCapable=True, httpTimeout=limit(behaviour))
    settings |= {"managedResources": [{"name": "example.com/dongle", "ignoredByScheduler": True}]}
    async with scheduling(*nodes("n1"), extenders=[settings]) as cluster:
        await create(
            cluster, a_pod("p").requests(**{"example.com/dongle": 1}).limits(**{"example.com/dongle": 1}).obj()
        )
        assert cluster.condition("p")["reason"] == "SchedulerError"
        assert cluster.why_pending("p").startswith(HOSTILE[behaviour].format(url=extender.url))
        await create(cluster, a_pod("plain").obj())
        assert cluster.node_of("plain") == "n1"


@pytest.mark.parametrize("behaviour", HOSTILE)
async def test_an_ignorable_hostile_extender_is_ignored(extender, behaviour):
    verbs = ("filter", "prioritize", "bind")
    settings = extender.settings(behaviour, *verbs, nodeCacheCapable=True, httpTimeout=limit(behaviour), ignorable=True)
    async with scheduling(*nodes("n1", "n2"), extenders=[settings]) as cluster:
        await create(cluster, a_pod("p").obj())
        assert cluster.node_of("p")


async def test_unknown_victims(extender):
    victim = a_pod("v").on("n1").obj()
    settings = extender.settings("unknown", "preempt")
    async with scheduling(*nodes("n1", pods=1), victim, priority_class("high", 1000), extenders=[settings]) as cluster:
        await create(cluster, a_pod("p").spec(priorityClassName="high").obj())
        assert "no-such-node" in cluster.why_pending("p")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        pytest.param("http://127.0.0.1:1", "connection refused", id="connection refused"),
        pytest.param("no-url", "it is not an http or https URL", id="no scheme"),
        pytest.param("ftp://127.0.0.1", "it is not an http or https URL", id="another scheme"),
        pytest.param("http://[::1", "it is not an http or https URL", id="no address"),
    ],
)
async def test_unreachable_extenders(url, why):
    async with scheduling(*nodes("n1"), extenders=[{"urlPrefix": f"{url}/", "filterVerb": "filter"}]) as cluster:
        await create(cluster, a_pod("p").obj())
        assert cluster.why_pending("p") == f'Post "{url}/filter": {why}'


# -- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Paths of PEM files: the authority, a server pair for another name than its address, a client pair."""
    folder, ca = tmp_path_factory.mktemp("certificates"), make_ca()
    server, client = make_server_certificate(ca, ["extender.example"]), make_client_certificate(ca, "stowplan")
    files = {
        "ca": ca.certificate,
        "server": server.certificate,
        "server-key": server.key,
        "cert": client.certificate,
        "key": client.key,
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in files}


@pytest.fixture(scope="module")
def secure_program(certificates):
    with running_extender(certificates["server"], certificates["server-key"], certificates["ca"]) as found:
        yield found


def in_files(certificates, *names, **more):
    return {f"{name}File": str(certificates[name]) for name in names} | more


def as_data(certificates, *names, **more):
    return {f"{name}Data": b64encode(certificates[name].read_bytes()).decode() for name in names} | more


NAMED = {"serverName": "extender.example"}
CLIENT = ("cert", "key")


@pytest.mark.parametrize(
    ("tls", "more"),
    [
        pytest.param(lambda c: in_files(c, "ca", *CLIENT, **NAMED), {}, id="files"),
        pytest.param(lambda c: as_data(c, "ca", *CLIENT, **NAMED), {}, id="data"),
        pytest.param(
            lambda c: as_data(c, "ca", *CLIENT, **NAMED) | {"caFile": "/dev/null"}, {}, id="data beats a file"
        ),
        pytest.param(lambda c: in_files(c, *CLIENT, insecure=True), {}, id="insecure"),
        pytest.param(lambda c: in_files(c, *CLIENT), {"enableHTTPS": True}, id="enableHTTPS without authority"),
    ],
)
async def test_tls(secure_program, certificates, tls, more):
    settings = secure_program.settings("good", "filter", tlsConfig=tls(certificates), **more)
    async with scheduling(*nodes("n1"), extenders=[settings]) as cluster:
        await create(cluster, a_pod("p").obj())
        assert cluster.why_pending("p") == ""
        assert cluster.node_of("p") == "n1"


@pytest.mark.parametrize(
    ("tls", "more", "why"),
    [
        pytest.param(lambda c: in_files(c, *CLIENT, **NAMED), {}, "certificate is not trusted", id="no authority"),
        pytest.param(lambda c: in_files(c, "ca", *CLIENT), {}, "certificate has another name", id="another name"),
        pytest.param(
            lambda c: in_files(c, "ca", *CLIENT),
            {"enableHTTPS": True},
            "another name",
            id="enableHTTPS, and an authority",
        ),
        pytest.param(lambda c: in_files(c, "ca", **NAMED), {}, "", id="no certificate of ours"),
    ],
)
async def test_tls_that_fails(secure_program, certificates, tls, more, why):
    settings = secure_program.settings("good", "filter", tlsConfig=tls(certificates), **more)
    async with scheduling(*nodes("n1"), extenders=[settings]) as cluster:
        await create(cluster, a_pod("p").obj())
        assert cluster.why_pending("p").startswith(f'Post "{secure_program.url}/good/filter": ')
        assert why in cluster.why_pending("p")
