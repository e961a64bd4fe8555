"""The secure port allows no request that the reference would refuse.

All kinds of clients request every page with every method. The program runs as deployed, under the two identities that
a scheduler has, with only their rights. The expected results come from one plain rule, `expected`. If
KUBEBUILDER_ASSETS has a kube-scheduler, the rule is checked against it, too.
"""

import base64
import datetime
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from support.http.certificates import Certificate, make_ca, make_client_certificate
from support.http.client_chains import SERVER_AUTH, Issued, client
from support.processes.beside_reference import AS_REFERENCE
from support.processes.rbac_servers import IDENTITIES, NOBODY, SCRAPER, embedded_guarded, real_guarded
from support.processes.scheduler_process import COMMAND, kube_scheduler
from support.processes.servers import assets

CLIENTS, PROXIES = make_ca("clients"), make_ca("proxies")
MASTERS = ("system:masters",)
ANONYMOUS = "system:anonymous"


def new_year(year):
    return datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)


LONG = {"begin": new_year(2020), "end": new_year(2120)}


def issuing(authority):
    key = serialization.load_pem_private_key(authority.key, None)
    return Issued(x509.load_pem_x509_certificate(authority.certificate), key)


def made(authority, name, groups=MASTERS, **options):
    issued = client(issuing(authority), name, groups, **{**LONG, **options})
    return Certificate(issued.pem, issued.key_pem)


YEAR_2020 = {"begin": new_year(2020), "end": new_year(2021)}
YEAR_2119 = {"begin": new_year(2119), "end": new_year(2120)}
ROOT = make_client_certificate(CLIENTS, "root", MASTERS)
ALICE = make_client_certificate(CLIENTS, "alice")
STALE = made(CLIENTS, "root", **YEAR_2020)
PROXY = make_client_certificate(PROXIES, "front-proxy")
SPOOFED = {"X_Remote_User": "admin", "X_Remote_Group": "system:masters"}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def base64url(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def web_socket(token):
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec_WebSocket_Protocol": f"x, base64url.bearer.authorization.k8s.io.{base64url(token)}",
    }


#: By name: client certificate and headers, with names of tokens in braces; then the expected user, None if not
#: authenticated.
CLIENTS_BY_NAME = {
    "anonymous": (None, {}, ANONYMOUS),
    "a wrong token": (None, bearer("wrong"), None),
    "a token with another signature": (None, bearer(f"{{{SCRAPER}}}x"), None),
    "a token without rights": (None, bearer(f"{{{NOBODY}}}"), NOBODY),
    "a token with the right to metrics": (None, bearer(f"{{{SCRAPER}}}"), SCRAPER),
    "such a token of a web socket": (None, web_socket(f"{{{SCRAPER}}}"), SCRAPER),
    "a wrong token of a web socket": (None, web_socket("wrong"), None),
    "a password": (None, {"Authorization": "Basic cm9vdDpyb290"}, ANONYMOUS),
    "an empty token": (None, {"Authorization": "Bearer "}, ANONYMOUS),
    "somebody who would act as another": (
        None,
        {**bearer(f"{{{NOBODY}}}"), "Impersonate_User": "admin", "Impersonate_Group": "system:masters"},
        NOBODY,
    ),
    "a certificate without rights": (ALICE, {}, "alice"),
    "the certificate of an administrator": (ROOT, {}, "root"),
    "a stale certificate": (STALE, {}, None),
    "a certificate of the future": (made(CLIENTS, "root", **YEAR_2119), {}, None),
    "a certificate for servers": (made(CLIENTS, "root", usages=[SERVER_AUTH]), {}, None),
    "a certificate of the authority's namesake": (
        make_client_certificate(make_ca("clients"), "root", MASTERS),
        {},
        None,
    ),
    "a certificate that a client has signed": (made(ALICE, "root"), {}, None),
    "a stale certificate and a token": (STALE, bearer(f"{{{SCRAPER}}}"), SCRAPER),
    "a certificate and a wrong token": (ROOT, bearer("wrong"), "root"),
    "headers of a proxy": (None, SPOOFED, ANONYMOUS),
    "headers of a proxy, from a client": (ALICE, SPOOFED, "alice"),
    "headers of a proxy, with a stale certificate": (STALE, SPOOFED, None),
    "headers of a proxy of another name": (make_client_certificate(PROXIES, "other-proxy"), SPOOFED, None),
    "headers of a proxy whose certificate is stale": (made(PROXIES, "front-proxy", (), **YEAR_2020), SPOOFED, None),
    "headers of a namesake's proxy": (make_client_certificate(make_ca("proxies"), "front-proxy"), SPOOFED, None),
    "a proxy for nobody": (PROXY, {}, None),
    "a proxy for a group": (PROXY, {"X_Remote_Group": "system:masters"}, None),
    "a proxy for somebody without rights": (PROXY, {"X_Remote_User": "carol"}, "carol"),
    "a proxy for an administrator": (PROXY, SPOOFED, "admin"),
}
PUBLIC = {"/healthz", "/livez", "/readyz"}
PAGES = {
    *("/healthz", "/livez", "/readyz", "/healthz?verbose", "/readyz?verbose&exclude=shutdown"),
    *("/healthz/leaderElection", "/livez/ping", "/readyz/shutdown", "/readyz/sched-handler-sync"),
    *("/metrics", "/metrics/slis", "/metrics/resources", "/metrics?x=/healthz", "/%6detrics"),
    *("/configz", "/flagz", "/statusz", "/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/flags"),
}
#: Paths that do not exist, and ways around those that do.
UNKNOWN_PATHS = {
    *("/", "/nowhere", "/metrics/", "/metrics/nothing", "/healthz/nothing", "/debug/pprof/cmdline"),
    *(
        "//metrics",
        "/healthz/../metrics",
        "/./metrics",
        "/metrics%2f",
        "/healthz%2f..%2fmetrics",
        "/HEALTHZ",
        "/healthzz",
    ),
    *("/healthz%00", "/healthz%20", "/healthz;/metrics", "/%2e%2e/metrics", "/healthz/%2e%2e/metrics", "/metrics%23"),
    *("/%2Fhealthz/../metrics", "/healthzz", "/healthz//", "/readyz/../configz"),
}
METHODS = ("HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")
ASKED = [
    *(("GET", path) for path in sorted(PAGES | UNKNOWN_PATHS)),
    *(
        (method, path)
        for method in METHODS
        for path in ("/healthz", "/metrics", "/metrics/slis", "/configz", "/nowhere")
    ),
    ("PUT", "/debug/flags/v"),
    ("DELETE", "/statusz"),
]


def expected(user, groups, method, path):
    """The code; and the message, if it is a refusal."""
    name = decoded(path)
    if user is None:
        return 401, "Unauthorized"
    scrapes = user == SCRAPER and method == "GET" and name in ("/metrics", "/metrics/slis")
    if name not in PUBLIC and not scrapes and "system:masters" not in groups:
        shown = name.replace("\0", r"\x00")
        return 403, f'forbidden: User "{user}" cannot {method.lower()} path "{shown}"'
    if path in UNKNOWN_PATHS:
        return 404, ""
    if (method, path) == ("PUT", "/debug/flags/v"):
        # The body is not a number.
        return 400, ""
    return 200, ""


def decoded(path):
    for written, meant in {"%6d": "m", "%2f": "/", "%2F": "/", "%2e": ".", "%00": "\0", "%20": " ", "%23": "#"}.items():
        path = path.partition("?")[0].replace(written, meant)
    return path


# --- the programs

REFERENCE = None if assets() is None else assets() / "kube-scheduler"
SERVERS = ["embedded"] if assets() is None else ["embedded", "real"]
RUNNING = [(server, identity, "stowplan") for server in SERVERS for identity in IDENTITIES]
if REFERENCE is not None and REFERENCE.exists():
    RUNNING += [("real", identity, "the reference") for identity in IDENTITIES]


@pytest.fixture(scope="module")
def embedded_rbac(tmp_path_factory):
    with embedded_guarded(tmp_path_factory.mktemp("embedded-rbac")) as guarded:
        yield guarded


@pytest.fixture(scope="module")
def real_rbac(tmp_path_factory):
    with real_guarded(tmp_path_factory.mktemp("real-rbac"), assets()) as guarded:
        yield guarded


@pytest.fixture(scope="module", params=RUNNING, ids=" as ".join)
def port(request, tmp_path_factory):
    """The secure port of a leader, and the tokens that its API server knows."""
    server, identity, program = request.param
    guarded = request.getfixturevalue(f"{server}_rbac")
    folder = tmp_path_factory.mktemp("scheduler")
    for name, authority in (("ca", CLIENTS), ("proxies", PROXIES)):
        (folder / f"{name}.crt").write_bytes(authority.certificate)
    flags = [
        f"--leader-elect-resource-name={IDENTITIES[identity]}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--requestheader-client-ca-file={folder / 'proxies.crt'}",
        "--requestheader-allowed-names=front-proxy",
    ]
    if server == "real":
        # Its roles are those of its version.
        flags.append(AS_REFERENCE)
    command = COMMAND if program == "stowplan" else [str(REFERENCE)]
    with kube_scheduler(folder, guarded.kubeconfigs[identity], *flags, program=command) as started:
        started.until("uccessfully acquired lease")
        yield started, guarded.tokens
        check_nothing_was_forbidden(started)
        assert started.end() == 0


def check_nothing_was_forbidden(scheduler):
    """The API server refused none of the scheduler's own requests."""
    for line in scheduler.log.read_text().splitlines():
        entry = json.loads(line)
        assert "is forbidden" not in line, line
        assert "Traceback" not in line, line
        if entry["msg"] != "HTTP":
            assert "wrong" not in line, line


@pytest.mark.parametrize("name", CLIENTS_BY_NAME)
def test_responses_by_client(port, name):
    scheduler, tokens = port
    certificate, headers, user = CLIENTS_BY_NAME[name]
    groups = MASTERS if user in ("root", "admin") else ()
    headers = with_tokens(headers, tokens)
    wrong = {}
    with scheduler.connected(certificate) as ask:
        for method, path in ASKED:
            code, fields, body = ask(path, method=method, **headers)
            found = code, message_of(method, code, fields, body)
            wanted = expected(user, groups, method, path)
            if method == "HEAD":
                wanted = wanted[0], ""
            if found != wanted:
                wrong[f"{method} {path}"] = found, wanted
            if code in (401, 403):
                assert fields["Cache-Control"] == "no-cache, private"
                assert fields["Content-Type"] == "application/json"
    assert wrong == {}


def with_tokens(headers, tokens):
    def filled(text):
        for user, token in tokens.items():
            text = text.replace(f"{{{user}}}", token)
        return text

    if "Sec_WebSocket_Protocol" in headers:
        first, _, encoded = headers["Sec_WebSocket_Protocol"].rpartition(".")
        token = filled(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
        return {
            **headers,
            "Sec_WebSocket_Protocol": f"{first}.{base64.urlsafe_b64encode(token.encode()).decode().rstrip('=')}",
        }
    return {key: filled(value) for key, value in headers.items()}


def message_of(method, code, fields, body):
    """The message of a refusal, which must contain nothing else."""
    if code not in (401, 403) or method == "HEAD":
        return ""
    status = json.loads(body)
    reason = {401: "Unauthorized", 403: "Forbidden"}[code]
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert (status["reason"], status["code"]) == (reason, code)
    assert set(status) <= {"kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"}
    return status["message"]


def test_the_log_has_no_token(port):
    scheduler, tokens = port
    scheduler.ask("/metrics", **bearer(tokens[SCRAPER]))
    text = scheduler.log.read_text()
    assert [user for user, token in tokens.items() if token in text] == []
