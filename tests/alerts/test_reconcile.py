"""From conditions to alerts, over any history: one open alert per key, honest counts, acknowledgements that last."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.alerts import Alert, AlertKind, Condition, Plan, Severity, reconcile

START = datetime(2026, 11, 29)
KEYS = [(kind, subject) for kind in (AlertKind.GPU_LOST, AlertKind.PRICE_CHANGE) for subject in ("a", "b")]


def condition(
    kind: AlertKind = AlertKind.GPU_LOST,
    subject: str = "a",
    severity: Severity = Severity.WARNING,
    degree: float | None = None,
) -> Condition:
    return Condition(kind, subject, severity, f"{subject} is wrong", {"after": degree}, degree)


@dataclass
class Table:
    """ops.alert in memory."""

    rows: dict[str, Alert] = field(default_factory=dict)
    at: datetime = START

    @property
    def open(self) -> list[Alert]:
        return [a for a in self.rows.values() if a.cleared_at is None]

    def look(self, *conditions: Condition) -> Plan:
        self.at += timedelta(minutes=1)
        plan = reconcile(self.open, conditions, self.at)
        for alert in (*plan.raised, *plan.seen, *plan.worse, *plan.cleared):
            self.rows[alert.alert_id] = alert
        return plan

    def acknowledge(self, alert: Alert) -> None:
        self.rows[alert.alert_id] = replace(
            alert, acknowledged_at=self.at, acknowledged_by="ada", version=alert.version + 1
        )

    def one(self) -> Alert:
        (alert,) = self.open
        return alert


def test_an_alert_is_raised_counted_and_cleared() -> None:
    table = Table()
    assert table.look(condition()).news
    assert not table.look(condition()).news
    assert not table.look(condition()).news
    alert = table.one()
    assert (alert.first_seen_at, alert.last_seen_at) == (START + timedelta(minutes=1), START + timedelta(minutes=3))
    assert (alert.times_seen, alert.version) == (3, 1)
    plan = table.look()
    assert [a.cleared_at for a in plan.cleared] == [START + timedelta(minutes=4)]
    assert table.open == []
    assert not table.look().news


def test_what_comes_back_is_a_new_alert() -> None:
    table = Table()
    table.look(condition())
    table.look()
    table.look(condition())
    assert len(table.rows) == 2
    assert table.one().times_seen == 1


def test_an_acknowledged_alert_is_no_news_until_it_clears_and_comes_again() -> None:
    table = Table()
    table.look(condition())
    table.acknowledge(table.one())
    for _ in range(5):
        assert not table.look(condition()).news
    assert table.one().acknowledged_by == "ada"
    table.look()
    assert table.look(condition()).raised
    assert table.one().acknowledged_at is None


def test_an_acknowledged_alert_that_gets_worse_is_news_again() -> None:
    table = Table()
    table.look(condition())
    table.acknowledge(table.one())
    (worse,) = table.look(condition(severity=Severity.BAD)).worse
    assert (worse.severity, worse.acknowledged_at, worse.version) == ("bad", None, 3)
    table.acknowledge(table.one())
    assert not table.look(condition(severity=Severity.WARNING)).news  # better is no news
    assert table.one().acknowledged_by == "ada"


def test_twice_as_far_beyond_the_limit_is_worse_once_and_not_with_every_step() -> None:
    table = Table()
    told = [bool(table.look(condition(degree=d)).worse) for d in (1.5, 2.0, 2.9, 3.1, 4.0, 6.1, 6.3, 1.5, 6.0)]
    assert told == [False, False, False, True, False, False, True, False, False]


def test_two_conditions_of_one_key_are_one_alert_of_the_worse_severity() -> None:
    table = Table()
    table.look(condition(), condition(severity=Severity.BAD), condition())
    assert table.one().severity == "bad"
    assert table.one().times_seen == 1


def test_two_open_alerts_of_one_key_are_made_one() -> None:
    table = Table()
    table.look(condition())
    twin = replace(table.one(), alert_id="twin", first_seen_at=START + timedelta(minutes=2))
    table.rows["twin"] = twin
    table.look(condition())
    assert table.one().alert_id != "twin"


def test_a_clock_that_runs_backwards_never_makes_an_alert_end_before_it_was_seen() -> None:
    table = Table()
    table.look(condition())
    table.at -= timedelta(hours=1)
    table.look(condition())
    assert table.one().last_seen_at == START + timedelta(minutes=1)
    (cleared,) = table.look().cleared
    assert cleared.cleared_at == START + timedelta(minutes=1)


conditions = st.builds(
    lambda key, severity, degree: condition(*key, severity, degree),
    st.sampled_from(KEYS),
    st.sampled_from(list(Severity)),
    st.none() | st.floats(0.1, 100),
)
looks = st.lists(st.tuples(st.lists(conditions, max_size=6), st.booleans()), max_size=25)


@settings(deadline=None)  # a busy machine is no counterexample
@given(looks)
def test_any_history_keeps_the_promises(history: list[tuple[list[Condition], bool]]) -> None:
    table = Table()
    runs: dict[tuple[str, str], int] = {}  # key -> looks in a row in which its condition held
    for seen, acknowledges in history:
        before = {a.key: a for a in table.open}
        plan = table.look(*seen)
        keys = {c.key for c in seen}
        runs = {k: runs.get(k, 0) + 1 for k in keys}
        now = {a.key: a for a in table.open}
        assert len(now) == len(table.open), "never two open alerts of one key"
        assert set(now) == keys, "open exactly while the condition holds"
        for key, alert in now.items():
            assert alert.times_seen == runs[key]
            assert alert.first_seen_at <= alert.last_seen_at == table.at
            if key in before:
                assert alert.alert_id == before[key].alert_id
                worse = alert.alert_id in {a.alert_id for a in plan.worse}
                assert alert.version == before[key].version + worse
                assert (alert.acknowledged_at is None) == (before[key].acknowledged_at is None or worse)
        assert {a.key for a in plan.raised} == keys - set(before)
        assert {a.key for a in plan.cleared} == set(before) - keys
        if acknowledges:
            for alert in table.open:
                table.acknowledge(alert)
    assert len({a.alert_id for a in table.rows.values()}) == len(table.rows)


@settings(deadline=None)
@given(st.lists(conditions, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_conditions_does_not_matter(found: list[Condition], random: object) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    def keyed(plan: Plan) -> list[tuple[str, str, str]]:
        return [(a.kind, a.subject, a.severity) for a in plan.raised]

    assert keyed(reconcile([], found, START)) == keyed(reconcile([], shuffled, START))
