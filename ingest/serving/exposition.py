"""Prometheus text 0.0.4 and OpenMetrics 1.0, read strictly: what is not in the grammar is an error with its line.

A scrape is one fact. A line that cannot be read means that the rest cannot be trusted either (Prometheus
drops such a scrape, too), so there is no lenient mode. What the two formats differ in:

    text 0.0.4     ends with a line feed; times are whole milliseconds; comments and blank lines are free
    OpenMetrics    ends with `# EOF`; times are seconds; exemplars; no blank lines and no free comments

Names are kept exactly as written; nothing is matched by prefix. Grammar:
https://prometheus.io/docs/instrumenting/exposition_formats/ and the OpenMetrics 1.0 specification.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"  # with one more + it takes all it can
_SAMPLE = re.compile(
    rf"({_NAME}+)(?:[ \t]*+\{{((?:[^\"}}]++|\"(?:[^\"\\]++|\\.)*+\")*+)\}})?"
    r"[ \t]++([^\s{]\S*)(?:[ \t]++([^\s#]\S*))?(?:[ \t]++(#.*))?"
)
_LABEL = re.compile(r"[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*\"((?:[^\"\\]++|\\.)*+)\"[ \t]*(,|$)")
_EXEMPLAR = re.compile(r"#[ \t]+\{((?:[^\"}]++|\"(?:[^\"\\]++|\\.)*+\")*+)\}[ \t]+(\S+)(?:[ \t]+(\S+))?")
_ABOUT = re.compile(rf"#[ \t]+(HELP|TYPE|UNIT)[ \t]+({_NAME})(?:[ \t]+(.*))?")
_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])"
)
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_ESCAPE = re.compile(r"\\(.)", re.S)
_ESCAPES = {"\\": "\\", '"': '"', "n": "\n"}
_SPACE = " \t\r"

_TEXT_TYPES = frozenset({"counter", "gauge", "histogram", "summary", "untyped"})
_OPEN_TYPES = frozenset({"counter", "gauge", "histogram", "gaugehistogram", "stateset", "info", "summary", "unknown"})
_SUFFIXES = ("_bucket", "_count", "_sum", "_total", "_created", "_info", "_gcount", "_gsum")


class Malformed(ValueError):
    """Text that is no exposition; `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Sample:
    """One series at one instant. `value` may be NaN or infinite; `at_s` is its own Unix time, where it has one."""

    name: str
    labels: Mapping[str, str]
    value: float
    at_s: float | None
    line: int


@dataclass(frozen=True)
class Exposition:
    """All samples in the order they came, repeats included, and the declared type per metric name."""

    samples: tuple[Sample, ...]
    types: Mapping[str, str]
    open_metrics: bool


def parse(text: str, *, open_metrics: bool | None = None) -> Exposition:
    """`text` as samples. `open_metrics` None: it is OpenMetrics where its last line is `# EOF`.

    Raises Malformed, naming the line and what was there.
    """
    if open_metrics is None:
        open_metrics = text.rstrip(" \t\r\n").rpartition("\n")[2].strip(_SPACE) == "# EOF"
    return _Reader(open_metrics).read(text)


def number(text: str) -> float | None:
    """A value as the formats write it, NaN and infinities included; None where it is no number."""
    return float(text) if _NUMBER.fullmatch(text) and len(text) <= 400 else None


class _Reader:
    def __init__(self, open_metrics: bool) -> None:
        self.open_metrics = open_metrics
        self.samples: list[Sample] = []
        self.about: set[tuple[str, str]] = set()
        self.types: dict[str, str] = {}
        self.named: set[str] = set()
        self.labels: dict[str, Mapping[str, str]] = {}
        self.ended = False

    def read(self, text: str) -> Exposition:
        lines = text.split("\n")
        last = lines.pop()
        if last.strip(_SPACE):
            if not self.open_metrics or last.strip(_SPACE) != "# EOF":
                raise Malformed(len(lines) + 1, "the last line has no line end; the text is truncated")
            lines.append(last)
        for at, raw in enumerate(lines, 1):
            line = raw.strip(_SPACE)
            if self.ended:
                raise Malformed(at, "there is text after # EOF; one file holds one scrape")
            if not line:
                if self.open_metrics:
                    raise Malformed(at, "OpenMetrics has no blank lines")
            elif line[0] == "#":
                self._comment(at, line)
            else:
                self._sample(at, line)
        if self.open_metrics and not self.ended:
            raise Malformed(len(lines), "# EOF is missing; the text is truncated")
        return Exposition(tuple(self.samples), self.types, self.open_metrics)

    def _comment(self, at: int, line: str) -> None:
        if self.open_metrics and line == "# EOF":
            self.ended = True
            return
        match = _ABOUT.fullmatch(line)
        if match is None or (match[1] == "UNIT" and not self.open_metrics):
            if self.open_metrics or re.match(r"#[ \t]+(HELP|TYPE)(?![^\s])", line):
                raise Malformed(at, f"cannot read {_excerpt(line)}")
            return  # a free comment
        what, name, rest = match[1], match[2], (match[3] or "").strip(_SPACE)
        if (what, name) in self.about:
            raise Malformed(at, f"# {what} {name} comes twice; one file holds one scrape")
        self.about.add((what, name))
        if what == "TYPE":
            allowed = _OPEN_TYPES if self.open_metrics else _TEXT_TYPES
            if rest not in allowed:
                raise Malformed(at, f"the type of {name} is {_excerpt(rest)}, not one of {', '.join(sorted(allowed))}")
            if name in self.named:
                raise Malformed(at, f"# TYPE {name} comes after its samples")
            self.types[name] = rest

    def _sample(self, at: int, line: str) -> None:
        match = _SAMPLE.fullmatch(line)
        if match is None:
            raise Malformed(at, f"cannot read {_excerpt(line)}")
        name, labels, value, stamp, exemplar = match.groups()
        found = number(value)
        if found is None:
            raise Malformed(at, f"the value of {name} is {_excerpt(value)}, not a number")
        if exemplar is not None:
            self._exemplar(at, name, exemplar)
        if name not in self.named:
            self.named.add(name)
            self.named.update(name.removesuffix(s) for s in _SUFFIXES if name.endswith(s) and s != "_created")
        told = self.labels.get(labels or "")
        if told is None:
            told = self.labels[labels or ""] = _labels(at, labels or "")
        self.samples.append(Sample(name, told, found, self._stamp(at, name, stamp), at))

    def _stamp(self, at: int, name: str, text: str | None) -> float | None:
        if text is None:
            return None
        if not self.open_metrics:
            if not _WHOLE.fullmatch(text):
                raise Malformed(at, f"the time of {name} is {_excerpt(text)}, not whole milliseconds")
            return int(text) / 1000
        found = number(text)
        if found is None or found != found or abs(found) > 1e15:
            raise Malformed(at, f"the time of {name} is {_excerpt(text)}, not seconds")
        return found

    def _exemplar(self, at: int, name: str, text: str) -> None:
        match = _EXEMPLAR.fullmatch(text) if self.open_metrics else None
        if match is None or number(match[2]) is None or (match[3] is not None and number(match[3]) is None):
            raise Malformed(at, f"cannot read {_excerpt(text)} after the value of {name}")
        _labels(at, match[1])


def _labels(at: int, text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        match = _LABEL.match(text, place)
        if match is None:
            if not text[place:].strip(_SPACE):
                break  # a trailing comma
            raise Malformed(at, f"cannot read the label at {_excerpt(text[place:])}")
        name, value = match[1], match[2]
        if name in found:
            raise Malformed(at, f"the label {name} comes twice")
        found[name] = _unescaped(at, value) if "\\" in value else value
        place = match.end()
    return MappingProxyType(found)


def _unescaped(at: int, text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise Malformed(at, f'the escape {match[0]!r} is none of \\\\, \\" and \\n')
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(one, text)


def _excerpt(text: str) -> str:
    return repr(text[:60] + ("…" if len(text) > 60 else ""))
