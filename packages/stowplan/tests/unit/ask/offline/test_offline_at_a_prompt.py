"""Cluster at a prompt or in a notebook: from files, reprs, and messages for mistakes."""

import inspect
import json
import sys
from types import SimpleNamespace

import pytest

import stowplan
from stowplan.ask.offline.cluster import ClusterOptions
from stowplan.kube.api.manifest_files import LoadError
from stowplan.testing import a_node, a_pod

SMALL = a_node("small").allocatable(cpu="1", pods="9").obj()
BIG = a_node("big").allocatable(cpu="8", pods="9").obj()
TAINTED = a_node("gpu").tainted("dedicated", "gpu").obj()
WEB = a_pod("web").requests(cpu="2").obj()
HUGE = a_pod("huge").requests(cpu="80").obj()


@pytest.fixture
def cluster():
    return stowplan.Cluster([SMALL, BIG, TAINTED, WEB, HUGE, a_pod("on").on("big").obj()])


class TestObjects:
    def test_lists_are_expanded(self):
        items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
        inner = {"kind": "PodList", "apiVersion": "v1", "items": items}
        outer = {"kind": "List", "apiVersion": "v1", "items": [BIG, inner]}
        for given in ([outer], outer):
            cluster = stowplan.Cluster(given)
            assert (cluster.state.table.count, cluster.pending()) == (1, ["default/a", "default/b"])

    @pytest.mark.parametrize("given", ["cluster.yaml", ["cluster.yaml"]])
    def test_a_path_is_for_from_files(self, given):
        with pytest.raises(stowplan.ClusterError, match=r"'cluster\.yaml'.*Cluster\.from_files reads files"):
            stowplan.Cluster(given)

    @pytest.mark.parametrize("given", [3, [3], [None], [[BIG]]])
    def test_values_that_are_no_objects_are_reported(self, given):
        with pytest.raises(stowplan.ClusterError, match="as Kubernetes serializes"):
            stowplan.Cluster(given)

    @pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
    def test_workloads_that_plugins_read_create_no_pods(self, kind):
        template = {"metadata": {"labels": {"app": "w"}}, "spec": WEB["spec"]}
        spec = {"selector": {"matchLabels": {"app": "w"}}, "template": template}
        made = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": spec}
        with pytest.warns(UserWarning, match=f"{kind} default/w creates no pods in a Cluster: .*from_files") as warned:
            stowplan.Cluster([made])
        assert warned[0].filename == __file__
        # No warning, which would be an error here: its pods are given, or it comes from an API server.
        stowplan.Cluster([made, a_pod("w-0").owner(kind, "w").obj()])
        stowplan.Cluster([{**made, "metadata": {"name": "w", "uid": "1"}}])

    def test_a_deployment_gets_a_hint(self):
        made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
        with pytest.warns(UserWarning, match=r"Deployment default/web has no effect in a Cluster: .*from_files"):
            stowplan.Cluster([made])


class TestMistakes:
    def test_an_unknown_pod(self, cluster):
        with pytest.raises(stowplan.ClusterError, match=r'pod "default/wbe" not found; did you mean default/web\?'):
            cluster.explain("wbe")
        with pytest.raises(stowplan.ClusterError, match=r"did you mean default/web\?"):
            cluster.evict("shop/web")

    def test_one_pod_instead_of_a_list(self, cluster):
        for pod in ("web", WEB):
            with pytest.raises(stowplan.ClusterError, match=r"schedule\(\[pod\]\)"):
                cluster.schedule(pod)

    @pytest.mark.parametrize(("given", "shown"), [(None, "None"), (3, "3"), ([WEB], r"\[\{")])
    def test_values_that_are_no_pods(self, cluster, given, shown):
        with pytest.raises(stowplan.ClusterError, match=f"want a pod .an object, or its namespace/name., got {shown}"):
            cluster.explain(given)

    def test_a_deployment_is_no_pod(self, cluster):
        with pytest.raises(stowplan.ClusterError, match=r"got a Deployment"):
            cluster.explain({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}})

    def test_a_builder_instead_of_its_object(self, cluster):
        expected = r"got <PodBuilder: late>: call its obj\(\)"
        with pytest.raises(stowplan.ClusterError, match=expected):
            cluster.explain(a_pod("late"))
        for given in (a_pod("late"), [a_pod("late")]):
            with pytest.raises(stowplan.ClusterError, match=expected):
                stowplan.Cluster(given)

    def test_pods_that_are_no_list(self, cluster):
        with pytest.raises(stowplan.ClusterError, match=r"schedule\(\[pod\]\)"):
            cluster.schedule(3)

    @pytest.mark.parametrize("given", [["GangScheduling"], {"GangScheduling": "yes"}, "GangScheduling"])
    def test_gates_that_are_no_dict_of_booleans(self, given):
        with pytest.raises(
            stowplan.ClusterError, match=r'feature_gates: want a dict such as \{"GenericWorkload": True\}'
        ):
            stowplan.Cluster(feature_gates=given)

    @pytest.mark.parametrize("given", [object, "plugins.mine:Mine", 3])
    def test_plugins_that_are_no_list(self, given):
        with pytest.raises(stowplan.ClusterError, match="plugins: want a list of classes of plugins, got "):
            stowplan.Cluster(plugins=given)

    @pytest.mark.parametrize(("given", "shown"), [((), "nothing"), ((["a.yaml"],), r"\['a.yaml'\]"), ((3,), "3")])
    def test_files_that_are_no_paths(self, given, shown):
        with pytest.raises(stowplan.ClusterError, match=f"from_files: want paths, got {shown}: from_files"):
            stowplan.Cluster.from_files(*given)

    @pytest.mark.parametrize("given", [3, [3]])
    def test_an_invalid_configuration(self, given):
        for load in (stowplan.load_config, lambda config: stowplan.Cluster(config=config)):
            with pytest.raises(stowplan.ConfigError, match=r"want a mapping or a path, got \[?3"):
                load(given)

    def test_a_plugin_by_its_name(self):
        with pytest.raises(stowplan.ClusterError, match="want classes of plugins, got 'MyPlugin'"):
            stowplan.Cluster(plugins=["MyPlugin"])


class TestSignatures:
    def test_forwarded_options_are_those_of_cluster(self):
        """Editors complete them from the type."""
        taken = inspect.signature(stowplan.Cluster.__init__).parameters
        assert list(ClusterOptions.__annotations__) == [name for name in taken if name not in ("self", "objects")]

    @pytest.mark.parametrize("made", [stowplan.Cluster, stowplan.Verdict, stowplan.Decision])
    def test_help_has_a_line_for_each_public_method(self, made):
        public = [member for name, member in vars(made).items() if name[0] != "_" and inspect.isroutine(member)]
        assert [one.__qualname__ for one in public if not inspect.getdoc(one)] == []


class TestFromFiles:
    def test_files_are_read_as_by_explain(self, tmp_path):
        template = {"metadata": {"labels": {"app": "w"}}, "spec": WEB["spec"]}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "w"}}, "template": template}
        made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}
        (tmp_path / "nodes.json").write_text(json.dumps(BIG))
        (tmp_path / "web.json").write_text(json.dumps(made))
        cluster = stowplan.Cluster.from_files(tmp_path)
        assert cluster.pending() == ["default/w-0", "default/w-1"]
        (note,) = cluster.notes
        assert note == "Deployment default/w has no pods yet; using its template: 2 pods (default/w-0…)"
        same = stowplan.Cluster.from_files(str(tmp_path / "nodes.json"), str(tmp_path / "web.json"), reuse=False)
        assert same.pending() == cluster.pending()

    def test_subfolders_are_read_on_request(self, tmp_path):
        (tmp_path / "nodes").mkdir()
        (tmp_path / "nodes" / "big.json").write_text(json.dumps(BIG))
        (tmp_path / "web.json").write_text(json.dumps(WEB))
        assert stowplan.Cluster.from_files(tmp_path).state.table.count == 0
        assert stowplan.Cluster.from_files(tmp_path, recursive=True).state.table.count == 1

    def test_every_problem_has_its_location(self, tmp_path):
        (tmp_path / "a.yaml").write_text("kind: [")
        with pytest.raises(LoadError, match=r"a\.yaml: line 2"):
            stowplan.Cluster.from_files(tmp_path)


class TestGates:
    def test_a_gate_that_is_off(self):
        """Without it, the plugin is disabled."""
        plain, without = (
            stowplan.Cluster([BIG], feature_gates={"DynamicResourceAllocation": on}) for on in (True, False)
        )
        filters = [
            {"name": "DynamicResources"} in made.config.effective_plugins()["default-scheduler"]["filter"]
            for made in (plain, without)
        ]
        assert filters == [True, False]

    def test_a_misspelled_gate(self):
        with pytest.raises(stowplan.ClusterError, match="no gate 'GenericWorkloads'; did you mean GenericWorkload"):
            stowplan.Cluster([BIG], feature_gates={"GenericWorkloads": True})

    def test_a_gate_without_the_one_it_needs(self):
        with pytest.raises(stowplan.ClusterError, match="TopologyAwareWorkloadScheduling needs GenericWorkload"):
            stowplan.Cluster([BIG], feature_gates={"TopologyAwareWorkloadScheduling": True})


class TestReprs:
    def test_one_line_repr(self, cluster):
        assert repr(cluster) == "<Cluster: 3 nodes with 1 pod, 2 pending>"
        assert repr(cluster.explain("web")) == "<Verdict: default/web goes to big: 1 of 3 nodes would take it>"
        assert repr(cluster.explain("huge")).startswith("<Verdict: default/huge goes nowhere: 0/3 nodes are available")
        placed, refused = sorted(cluster.schedule(), key=lambda decision: not decision.node_name)
        assert repr(placed) == "<Decision: default/web goes to big>"
        assert repr(refused).startswith("<Decision: default/huge goes nowhere: 0/3 nodes are available: ")

    def test_other_one_line_reprs(self, cluster):
        assert repr(a_pod("web-0")) == "<PodBuilder: web-0>"
        assert repr(a_node("n1")) == "<NodeBuilder: n1>"
        assert repr(stowplan.load_config()) == "<Configuration: profile default-scheduler>"
        [best, *_] = cluster.explain("huge").suggestions()
        assert repr(best) == f"<Suggestion: {best.text}>"

    def test_decisions_as_dicts(self, cluster):
        told = {one["pod"]: one for one in (decision.to_dict() for decision in cluster.schedule())}
        assert json.loads(json.dumps(told)) == told
        assert (told["default/web"]["node"], told["default/web"]["feasibleNodes"]) == ("big", 1)
        assert (told["default/huge"]["node"], told["default/huge"]["plugins"]) == (
            "",
            ["NodeResourcesFit", "TaintToleration"],
        )

    def test_decisions_as_tables(self, cluster):
        pages = {decision.pod.name: decision._repr_html_() for decision in cluster.schedule()}
        assert '<tr><th style="text-align:left">node</th><td style="text-align:left">big</td></tr>' in pages["web"]
        assert '>plugins</th><td style="text-align:left">NodeResourcesFit, TaintToleration</td></tr>' in pages["huge"]
        assert "Insufficient cpu" in pages["huge"]

    def test_html_has_scores_and_refusals(self, cluster):
        page = cluster.explain("web")._repr_html_()
        assert "<b>big</b>" in page
        assert "rgba(34,139,80,0.55)" in page
        assert "Insufficient cpu" in page
        assert "untolerated taint" in page

    def test_html_is_escaped(self):
        cluster = stowplan.Cluster([a_node("a").tainted("k", "<script>").obj(), a_node("<b>").obj()])
        pod = a_pod("<i>").requests(cpu="80").obj()
        for page in (cluster.explain(pod)._repr_html_(), cluster.schedule([pod])[0]._repr_html_()):
            assert "<script>" not in page
            assert "<i>" not in page

    def test_rows(self, cluster):
        rows = cluster.explain("web").rows()
        assert [(row["node"], row["feasible"], row["refused_by"]) for row in rows] == [
            ("big", True, ""),
            ("gpu", False, "TaintToleration"),
            ("small", False, "NodeResourcesFit"),
        ]
        assert {frozenset(row) for row in rows} == {frozenset(rows[0])}


class TestFrames:
    @pytest.fixture
    def library(self, monkeypatch):
        """A library that is installed, or a stand-in."""

        def frame(name):
            # polars would otherwise infer the types of all rows from the first hundred.
            expected = {"infer_schema_length": None} if name == "polars" else {}

            def made(rows, **options):
                assert options == expected
                return name, rows

            return made

        def become(name):
            for other in {"pandas", "polars"} - {name}:
                monkeypatch.setitem(sys.modules, other, None)
            monkeypatch.setitem(sys.modules, name, SimpleNamespace(DataFrame=frame(name)))

        return become

    @pytest.mark.parametrize("name", ["pandas", "polars"])
    def test_the_installed_library_is_used(self, cluster, library, name):
        library(name)
        assert cluster.explain("web").to_frame() == (name, cluster.explain("web").rows())
        found = stowplan.to_frame(cluster.schedule())
        assert found[0] == name
        assert {row["pod"] for row in found[1]} == {"default/web", "default/huge"}
        (decision,) = cluster.schedule([a_pod("late").obj()])
        assert decision.to_frame() == (name, [decision.to_dict()])

    def test_without_any_library(self, cluster, monkeypatch):
        for name in ("pandas", "polars"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match="pip install pandas"):
            cluster.explain("web").to_frame()
