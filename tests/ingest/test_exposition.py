"""Prometheus text and OpenMetrics: exactly the grammar, nothing beside it."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from ingest.serving.exposition import Malformed, Sample, parse


def one(line: str) -> Sample:
    (sample,) = parse(line + "\n").samples
    return sample


def test_a_sample_has_name_labels_value_and_time() -> None:
    sample = one(' vllm:e2e_seconds_bucket {le="0.5", model_name="m",}\t1.5e+3  1764417600123 ')
    assert (sample.name, dict(sample.labels)) == ("vllm:e2e_seconds_bucket", {"le": "0.5", "model_name": "m"})
    assert (sample.value, sample.at_s, sample.line) == (1500.0, 1764417600.123, 1)


def test_label_values_may_hold_anything_escaped() -> None:
    assert one(r'a{x="}, \"b\" \\ \n",y="π # {"} 1').labels == {"x": '}, "b" \\ \n', "y": "π # {"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("+Inf", math.inf), ("-Inf", -math.inf), ("inf", math.inf), ("-2.5", -2.5), (".5", 0.5), ("3.", 3.0), ("0", 0.0)],
)
def test_values_are_as_go_writes_them(text: str, value: float) -> None:
    assert one(f"a {text}").value == value


def test_nan_is_a_value() -> None:
    assert math.isnan(one("a NaN").value)


@pytest.mark.parametrize(
    "line",
    [
        "a", "a1", "1a 3", "a b", "a 1_0", "a 0x1p3", "a １", "a 1 2 3", "a 1 1.5", 'a"b" 1', '{"a.b"} 1', "a{b} 1",
        'a{b="c} 1', 'a{b="c"', 'a{b="c"}1', 'a{b="c"}{d="e"} 1', "a{b='c'} 1", 'a{b="c" d="e"} 1', 'a{,} 1',
        'a{b="1",b="2"} 1', r'a{b="\x"} 1', 'a{1b="c"} 1', "a 1 # {} 1", "# TYPE a", "# TYPE a meter", "# HELP",
        "# TYPE a gauge\n# TYPE a gauge", "# HELP a x\n# HELP a y", "a 1\n# TYPE a gauge",
        "a_bucket 1\n# TYPE a histogram",
    ],
)  # fmt: skip
def test_what_is_not_in_the_grammar_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(Malformed, match=r"line \d"):
        parse(f"# a comment\n\n{line}\n")


def test_a_text_that_was_cut_is_refused() -> None:
    with pytest.raises(Malformed, match="line 2: the last line has no line end"):
        parse("a 1\nb 123")
    with pytest.raises(Malformed, match="EOF is missing"):
        parse("a 1\n", open_metrics=True)


class TestOpenMetrics:
    TEXT = (
        '# TYPE foo histogram\n# UNIT foo seconds\n# HELP foo A \\"b\\".\n'
        'foo_bucket{le="1.0"} 3 1764417600.5 # {trace="a b"} 0.7 1764417600.1\n'
        "foo_count 3\nfoo_created 1764410000.25\n# EOF\n"
    )

    def test_its_last_line_tells_it(self) -> None:
        found = parse(self.TEXT)
        assert found.open_metrics
        assert found.types == {"foo": "histogram"}
        assert [(s.name, s.value, s.at_s) for s in found.samples] == [
            ("foo_bucket", 3.0, 1764417600.5), ("foo_count", 3.0, None), ("foo_created", 1764410000.25, None),
        ]  # fmt: skip

    def test_times_are_seconds_there_and_milliseconds_elsewhere(self) -> None:
        assert parse("a 1 1764417600\n# EOF\n").samples[0].at_s == 1764417600
        assert parse("a 1 1764417600\n").samples[0].at_s == 1764417.6

    @pytest.mark.parametrize(
        "text",
        [
            "a 1\n\n# EOF\n",
            "# free\na 1\n# EOF\n",
            "a 1\n# EOF\na 2\n# EOF\n",
            "a 1 # x\n# EOF\n",
            "# TYPE a untyped\n# EOF\n",
        ],
    )
    def test_its_own_rules_hold(self, text: str) -> None:
        with pytest.raises(Malformed):
            parse(text, open_metrics=True)


def test_a_name_is_never_another_that_begins_with_it() -> None:
    found = parse("vllm:num_requests_waiting 1\nvllm:num_requests_waiting_by_reason 9\n")
    assert [s.name for s in found.samples] == ["vllm:num_requests_waiting", "vllm:num_requests_waiting_by_reason"]


_LABELS = st.dictionaries(
    st.sampled_from(["model_name", "engine", "x"]), st.text(st.characters(codec="utf-8"), max_size=12), max_size=3
)


@given(
    labels=_LABELS,
    gauge=st.floats(),
    counted=st.floats(0, 1e18),
    observed=st.lists(st.floats(0, 100), max_size=8),
    open_metrics=st.booleans(),
)
@settings(deadline=None)
def test_it_reads_what_the_reference_library_writes(
    labels: dict[str, str], gauge: float, counted: float, observed: list[float], open_metrics: bool
) -> None:
    registry = CollectorRegistry()
    names = list(labels)
    a = Gauge("a:gauge", "x \\ y", names, registry=registry)
    b = Counter("b:tokens", "x", names, registry=registry)
    c = Histogram("c:seconds", "x", names, registry=registry, buckets=(0.1, 1, 10))
    (a.labels(**labels) if names else a).set(gauge)
    (b.labels(**labels) if names else b).inc(counted)
    timed = c.labels(**labels) if names else c
    for value in observed:
        timed.observe(value)
    text = (generate_openmetrics if open_metrics else generate_latest)(registry).decode()
    found = parse(text)
    assert found.open_metrics == open_metrics
    expected = {
        # its OpenMetrics writer escapes the colon
        (s.name.replace(":", "_") if open_metrics else s.name, tuple(sorted(s.labels.items()))): s.value
        for family in registry.collect()
        for s in family.samples
    }
    told = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in found.samples}
    assert told.keys() == expected.keys()
    assert all(v == expected[k] or (math.isnan(v) and math.isnan(expected[k])) for k, v in told.items())


_LINE = st.text(st.sampled_from('ab_:{}="\\,#. \t\r019eE+-nNIif'), max_size=24)


@given(st.lists(_LINE, max_size=4))
def test_any_other_text_is_an_error_or_samples(lines: list[str]) -> None:
    line = 0
    try:
        found = parse("\n".join(lines) + "\n").samples
    except Malformed as error:
        line, found = error.line, ()
    assert 0 <= line <= len(lines)
    assert len(found) <= len(lines)


@given(
    st.lists(
        st.sampled_from(['a{b="c"} 1', "a 2.5 7", "a NaN", 'a{b="\\""} 3', "# TYPE a gauge", "", "# x"]), max_size=5
    )
)
def test_where_it_reads_a_text_the_reference_library_reads_the_same(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    try:
        found = parse(text)
    except Malformed:
        return  # stricter than the library about repeated and late types
    reference = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert sorted((s.name, str(dict(s.labels)), str(s.value)) for s in found.samples) == sorted(
        (s.name, str(s.labels), str(float(s.value))) for s in reference
    )


@pytest.mark.parametrize(
    "text", ['a{b="' + "\\\\" * 200_000, 'a{b="c",' * 50_000, 'a{b="' + '"' * 200_000, "a" * 400_000]
)
def test_hostile_lines_cost_no_more_than_their_length(text: str) -> None:
    started = time.process_time()
    with pytest.raises(Malformed):
        parse(text + "\n")
    assert time.process_time() - started < 2
