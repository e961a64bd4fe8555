"""Pods bound by another scheduler, compared with this one's evaluation of the nodes."""

from io import StringIO

from stowplan.ask.explain.text.tables import write
from stowplan.history.shadow.bind_comparison import Kind
from stowplan.history.shadow.decision_order import MAX_SECONDS
from stowplan.history.shadow.shadow import Shadow
from stowplan.history.shadow.shadow_report import Report
from stowplan.kube.api.decode import convert
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import load_config
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.inputs import Changes
from stowplan.scheduler.extenders.calls import Calls, asking, posting_to
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod

REGISTRY = in_tree_registry()
API = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Other:
    """A cluster in which another scheduler binds pods, observed by the shadow."""

    def __init__(self, *nodes, config=None, ask=None, gpus="0"):
        given = None if config is None else {**API, **config}
        configuration = load_config(given, plugins=REGISTRY.declarations)
        self.report, self.judged, self.now = Report(), [], 100.0
        self.engine = Engine(
            configuration,
            registry=REGISTRY,
            now=self.now,
            meter=ManualTime(),
            settings=EngineSettings(stories=False, events=False),
        )
        asks = None if ask is None else asking(Calls(configuration, Documents(())), ask)
        self.shadow = Shadow(self._hear, meter=ManualTime(), ask=asks)
        self._room = {"memory": "32Gi", "pods": 110, "example.com/gpu": gpus}
        self.nodes(*nodes)
        self._tell(Pod)

    def _hear(self, judged):
        self.judged.append(judged)
        self.report.add(judged)

    def _tell(self, kind, *changes):
        self.shadow.step(self.engine, Changes(kind, changes), self.now)

    def nodes(self, *nodes):
        made = [convert(a_node(name).allocatable(cpu=cpu, **self._room).obj(), Node) for name, cpu in nodes]
        self._tell(Node, *(Change(None, node) for node in made))

    def pods(self, resource=None, **cpus):
        more = {} if resource is None else {resource: "1"}
        made = [convert(a_pod(name).uid(name).requests(cpu=cpu, **more).obj(), Pod) for name, cpu in cpus.items()]
        self._tell(Pod, *(Change(None, pod) for pod in made))
        return made

    def bind(self, *binds, seconds=1.0):
        """(pod, node) pairs at once; then time advances."""
        self._tell(Pod, *(Change(pod, on(pod, node)) for pod, node in binds))
        self.now += seconds
        self.shadow.tick(self.engine, self.now)
        return [one.comparison for one in self.judged[-(len(binds) or 1) :]]


def on(pod, node):
    return convert(a_pod(pod.metadata.name).uid(pod.metadata.uid).on(node).requests(cpu="1").obj(), Pod)


def test_the_same_node():
    other = Other(("small", "2"), ("large", "8"))
    (p,) = other.pods(p="1")
    (found,) = other.bind((p, "large"))
    assert (found.kind, found.best, found.equals) == (Kind.SAME, "large", 1)
    assert other.report.agreement == 1.0


def test_ties_are_counted_separately():
    other = Other(("a", "4"), ("b", "4"))
    (p,) = other.pods(p="1")
    (found,) = other.bind((p, "b"))
    assert (found.kind, found.equals) == (Kind.TIE, 2)
    assert other.report.agreement == 1.0


def test_a_difference_names_the_plugins():
    other = Other(("small", "2"), ("large", "8"))
    (p,) = other.pods(p="1")
    (found,) = other.bind((p, "small"))
    assert (found.kind, found.best) == (Kind.SCORE, "large")
    assert found.by_plugin["NodeResourcesFit"] > 0
    assert "large scores +" in found.text()
    assert "NodeResourcesFit +" in found.text()
    assert other.report.agreement == 0.0
    assert other.report.plugins == {"NodeResourcesFit": 1}


def test_a_node_that_a_plugin_refuses():
    other = Other(("small", "1"), ("large", "8"))
    (p,) = other.pods(p="2")
    (found,) = other.bind((p, "small"))
    assert (found.kind, found.plugin) == (Kind.REFUSED, "NodeResourcesFit")
    assert found.text() == "NodeResourcesFit refuses small: Insufficient cpu"


def test_no_feasible_node_and_an_unknown_node():
    other = Other(("small", "1"))
    p, q = other.pods(p="2", q="1")
    (found,) = other.bind((p, "small"))
    assert found.kind is Kind.NOWHERE
    assert "0/1 nodes are available: 1 Insufficient cpu" in found.text()
    (found,) = other.bind((q, "elsewhere"), seconds=MAX_SECONDS)
    assert found.text() == "node elsewhere is not known"


def test_a_bind_waits_for_its_node():
    """Nodes and pods are watched separately."""
    other = Other(("a", "4"))
    (p,) = other.pods(p="1")
    assert other.bind((p, "b"), seconds=1) == []
    other.nodes(("b", "8"))
    (found,) = other.bind()
    assert (found.kind, found.node) == (Kind.SAME, "b")


def test_nothing_is_evaluated_before_the_first_lists():
    other = Other(("a", "4"))
    other.shadow.synced = lambda: False
    (p,) = other.pods(p="1")
    assert other.bind((p, "a"), seconds=2 * MAX_SECONDS) == []
    other.nodes(("b", "8"))
    other.shadow.synced = lambda: True
    (found,) = other.bind()
    assert (found.kind, found.best) == (Kind.SCORE, "b")


def test_each_bind_counts_for_the_next():
    other = Other(("a", "4"), ("b", "4"))
    p, q = other.pods(p="1", q="1")
    first, second = other.bind((p, "a"), (q, "b"))
    assert (first.kind, second.kind) == (Kind.TIE, Kind.SAME)
    assert other.engine.state.placed("p").node_name == "a"


def test_binds_written_in_another_order_than_decided():
    """The other scheduler decided p, then q; both existed before we started, and q was written first."""
    other = Other(("a", "4"), ("b", "3"))
    p = convert(a_pod("p").uid("p").requests(cpu="1").obj(), Pod)
    q = convert(a_pod("q").uid("q").requests(cpu="1").obj(), Pod)
    other.shadow = Shadow(other._hear, meter=ManualTime())
    other._tell(Pod, Change(None, p), Change(None, q))
    other._tell(Pod, Change(p, on(p, "a")))
    other.now += 0.1
    (found,) = other.bind((q, "a"))
    first, second = other.judged
    assert first.comparison.kind.agrees
    assert found is second.comparison
    # After p, b would be better for q; without p, a is.
    assert (second.order, second.swapped) == ("swapped", ("default/p",))
    assert other.report.agreement == 1.0
    assert other.report.strict_agreement < 1.0


def test_a_known_order_does_not_excuse_a_difference():
    """As above, but both were created while we watched: p was decided first, so a is not the best node for q."""
    other = Other(("a", "4"), ("b", "3"))
    p, q = other.pods(p="1", q="1")
    other._tell(Pod, Change(p, on(p, "a")))
    other.now += 0.1
    (found,) = other.bind((q, "a"))
    assert (found.kind, found.best) == (Kind.SCORE, "b")


def test_pods_observed_before_the_first_list_count_as_created():
    other = Other(("a", "4"), ("b", "4"))
    other.shadow = Shadow(other._hear, meter=ManualTime())
    other._tell(Node)
    p, q = (
        convert(a_pod(name).uid(name).created("1970-01-01T00:01:41Z").requests(cpu="1").obj(), Pod) for name in "pq"
    )
    other._tell(Pod, Change(None, p), Change(None, q))
    other.bind((q, "b"), (p, "a"))
    assert [(one.pod, one.order) for one in other.judged] == [("default/p", "queue"), ("default/q", "queue")]


def test_a_pod_deleted_before_its_evaluation():
    other = Other(("a", "4"), ("b", "4"))
    p, q = other.pods(p="1", q="1")
    bound = on(q, "a")
    other._tell(Pod, Change(q, bound))
    assert other.judged == []
    other._tell(Pod, Change(bound, None))
    assert [one.pod for one in other.judged] == ["default/q"]
    assert other.engine.state.placed("q") is None
    other.bind((p, "a"))
    assert len(other.judged) == 2


def test_pods_of_other_schedulers_count_but_are_not_evaluated():
    other = Other(("a", "1"), ("b", "1"))
    theirs = convert(a_pod("x").uid("x").scheduler("other").requests(cpu="1").obj(), Pod)
    placed = convert(a_pod("x").uid("x").scheduler("other").on("a").requests(cpu="1").obj(), Pod)
    other._tell(Pod, Change(None, theirs))
    other._tell(Pod, Change(theirs, placed))
    (p,) = other.pods(p="1")
    (found,) = other.bind((p, "b"))
    assert found.kind is Kind.SAME
    assert len(other.judged) == 1


def test_the_report():
    other = Other(("small", "2"), ("large", "8"))
    p, q = other.pods(p="1", q="1")
    other.bind((p, "large"))
    other.bind((q, "small"))
    found = other.report.to_dict()
    assert found["results"] == {"same": 1, "score": 1}
    assert found["agreementOutsideTies"] == 0.5
    assert found["differences"][0]["pod"] == "default/q"
    text = other.report.metrics_text()
    assert 'stowplan_shadow_pods_total{result="same"} 1' in text
    assert "stowplan_shadow_agreement_ratio 0.5" in text
    assert 'stowplan_shadow_differences_total{plugin="NodeResourcesFit"} 1' in text


# -- samples and extenders --------------------------------------------------------------------------------------------

SAMPLING = {"percentageOfNodesToScore": 50}


def full(*, better, worse, of="1"):
    """A cluster with this many nodes with more free resources than the others; the result for one of the others."""
    nodes = [(f"better-{i}", "16") for i in range(better)] + [(f"worse-{i}", "8") for i in range(worse)]
    other = Other(*nodes, config=SAMPLING)
    (pod,) = other.pods(p=of)
    return other, other.bind((pod, "worse-0"))[0]


def test_a_better_node_may_have_been_outside_of_the_sample():
    # Of 200 nodes, 100 are sampled.
    other, found = full(better=100, worse=100)
    assert found.kind is Kind.SAMPLE
    assert "NodeResourcesFit" in found.by_plugin
    assert other.report.agreement == 1.0
    assert (other.report.different, other.report.not_compared) == (0, 1)
    assert "none of which could be compared" in page(other.report)


def test_one_of_so_many_better_nodes_must_have_been_in_the_sample():
    other, found = full(better=101, worse=99)
    assert found.kind is Kind.SCORE
    assert other.report.agreement == 0.0


def test_nodes_that_refuse_the_pod_fill_no_sample():
    # Of the feasible nodes, more are better than are left out of the sample.
    _, found = full(better=101, worse=99, of="8")
    assert found.kind is Kind.SCORE


EXTENDER = {
    "extenders": [
        {
            "urlPrefix": "http://localhost:1",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 10,
            "managedResources": [{"name": "example.com/gpu"}],
        }
    ]
}


def answer(url, body):
    """Refuses "refused", and prefers "small"."""
    if url.endswith("filter"):
        kept = [node for node in body["Nodes"]["items"] if node["metadata"]["name"] != "refused"]
        return {"Nodes": {"items": kept}, "FailedNodes": {"refused": "no licence"}}
    return [{"Host": "small", "Score": 10}]


def with_extender(ask):
    other = Other(("small", "2"), ("large", "8"), ("refused", "4"), config=EXTENDER, ask=ask, gpus="4")
    (plain,) = other.pods(plain="1")
    (gpu,) = other.pods(gpu="1", resource="example.com/gpu")
    return other, plain, gpu


def test_pods_of_extenders_are_counted_separately():
    other, plain, gpu = with_extender(None)
    (first,) = other.bind((plain, "large"))
    (second,) = other.bind((gpu, "small"))
    assert (first.kind, second.kind) == (Kind.SAME, Kind.EXTENDER)
    assert "was not called" in second.text()
    assert (other.report.pods, other.report.not_compared, other.report.agreement) == (2, 1, 1.0)
    assert "1 not compared: an extender is interested" in page(other.report)


def test_extenders_are_called():
    for node, kind, name in (("small", Kind.SAME, ""), ("large", Kind.SCORE, ""), ("refused", Kind.REFUSED, "licence")):
        other, plain, gpu = with_extender(posting_to(answer))
        other.bind((plain, "large"))
        (found,) = other.bind((gpu, node))
        assert (found.kind, found.extenders_called) == (kind, True)
        assert name in found.text()
        if kind is Kind.SCORE:
            assert found.best == "small"


def test_an_extender_that_fails_is_an_error():
    def broken(url, body):
        raise OSError("connection refused")

    other, plain, gpu = with_extender(posting_to(broken))
    other.bind((plain, "large"))
    (found,) = other.bind((gpu, "small"))
    assert found.kind is Kind.ERROR
    assert "connection refused" in found.text()


def page(report):
    text = StringIO()
    write(report.page(), text)
    return text.getvalue()
