"""Sections of the configuration: names, types, limits, and one sentence of meaning each.

`app.settings` reads them from file and environment; docs/reference.md is made from the sentences.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from policies.errors import ParametersInvalid
from policies.recommend.freeze import parse

_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHORTEST_CADENCE_S = 10.0
_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*$")


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        match = _DURATION.match(value)
        if match is None:
            raise ValueError(f"{value!r} is not a duration; write a number with ms, s, min, h or d, such as '15 min'")
        return float(match[1]) * _UNITS[match[2]]
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"{value!r} has no unit; write it as '{value} s'")
    return value


Duration = Annotated[float, BeforeValidator(_seconds), Field(ge=0)]


def _span(text: str) -> Any:
    """A default as an operator would write it, which pydantic reads as it reads theirs."""
    return text


def _unhurried(seconds: float) -> float:
    if seconds < _SHORTEST_CADENCE_S:
        raise ValueError(f"{seconds:g} s is shorter than {_SHORTEST_CADENCE_S:g} s, which no public source bears")
    return seconds


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True)


class WarehouseSettings(Section):
    path: Path = Path("joulebook.duckdb")
    """The warehouse file, relative to the home."""


class ServerSettings(Section):
    address: str = "127.0.0.1"
    """Where the console listens; beyond loopback sign-in must be configured."""
    port: int = Field(8501, ge=1, le=65535)
    """Port of console and API; JOULEBOOK_PORT overrides it."""


class SampleSettings(Section):
    load_when_empty: bool | None = None  # None: only while there is no joulebook.toml
    """Load sample data into an empty warehouse at start; unset: only while there is no joulebook.toml."""


class Weights(Section):
    """Weights of the router's score; they are compared, not summed to one."""

    cost: float = Field(0.3, ge=0)
    """Weight of measured dollars."""
    eco: float = Field(0.3, ge=0)
    """Weight of measured carbon."""
    prof: float = Field(0.4, ge=0)
    """Weight of proficiency in the category."""


class PolicySettings(Section):
    context_factor: float = Field(0.75, gt=0, le=1)
    """Share of the advertised context window that is relied on."""
    context_factors: dict[str, float] = Field(default_factory=dict)
    """The same per base model or offer, over the general one."""
    reserved_output_tokens: int = Field(4096, ge=0)
    """Tokens kept free for the answer."""
    self_eval_min_n: int = Field(10, ge=1)
    """Self-evaluations needed before they outweigh the leaderboard (0.7 to 0.3)."""
    evidence_max_age: Duration = _span("30 d")
    """Older reference measurements do not steer decisions."""
    tiers: dict[str, int] = Field(default_factory=dict)
    """Capability tier (1 to 3) per base model, over the shipped ones."""
    allowed_access: tuple[str, ...] = ("open",)
    """Access levels that this account has: open, gated, canary."""


class Guardrails(Section):
    """Limits on how eagerly the desk proposes and how long a proposal lives."""

    min_gain: float = Field(0.05, ge=0, lt=1)
    """Smallest relative gain worth a recommendation."""
    expires_after: Duration = _span("7 d")
    """A proposal that nobody approves expires after this."""
    min_dwell: Duration = _span("30 min")
    """A cell that was changed stays for at least this long."""
    max_changes_per_day: int = Field(30, ge=1)
    """Most cells that proposals may change per day."""
    max_changes_per_pool: int = Field(30, ge=1)
    """Most cells per day that may move to or from one offer on one target."""
    backoff: Duration = _span("1 h")
    """A cell whose change failed, was rejected or rolled back rests for this; doubled each time until one succeeds."""
    backoff_max: Duration = _span("7 d")
    """Longest such rest."""
    success_margin: float = Field(0.02, ge=0, lt=1)
    """Largest acceptable loss of success rate, as a fraction."""
    targets: tuple[str, ...] = ("router",)
    """Names of the downstream targets that must carry out a change."""


class StageSettings(Section):
    name: str = Field(min_length=1, max_length=40)
    """What the stage is called, such as canary."""
    share: float = Field(gt=0, le=1)
    """Share of the traffic that the candidate gets."""


class EnvironmentSettings(Section):
    """What a change must pass before it reaches traffic here, and who may let it."""

    require_pass: bool = True
    """Whether only a recommendation whose gate passed can be approved."""
    auto_shadow: bool = True
    """Whether a proposal begins to be shadowed by itself, under the configured margins."""
    approvals: int = Field(1, ge=1, le=5)
    """How many different people must approve."""
    roles: tuple[str, ...] = ("operator",)
    """Roles that may approve."""
    self_approval: bool = False
    """Whether whoever set the margins of a shadow may approve the result."""
    approval_expires: Duration = _span("2 d")
    """An approval that no target has collected, or that still waits for others, lapses after this."""
    freeze: tuple[str, ...] = ()
    """Times in which nothing is approved or handed out: 'Fri 16:00 - Mon 08:00', or two ISO dates, in UTC."""
    stages: tuple[StageSettings, ...] = (StageSettings(name="full", share=1.0),)
    """Shares of the traffic, rising to 1; each stage but the last has a gate of its own."""
    max_step: float = Field(1.0, gt=0, le=1)
    """Largest share of the traffic that one stage may move."""
    auto_rollback: bool = False
    """Whether a breach of success, latency or energy rolls back by itself; otherwise it alerts."""
    acknowledge_within: Duration = _span("15 min")
    """A target that has not acknowledged after this is an alert."""
    actuate_within: Duration = _span("30 min")
    """A target that has not actuated after this is an alert."""

    @field_validator("freeze")
    @classmethod
    def _windows(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            try:
                parse(text)
            except ParametersInvalid as error:
                raise ValueError(f"{error.message.removeprefix('freeze: ').rstrip('.')}; {error.fix}") from error
        return value

    @model_validator(mode="after")
    def _rising(self) -> EnvironmentSettings:
        shares = [0.0, *(s.share for s in self.stages)]
        if shares[-1] != 1.0 or any(b <= a for a, b in itertools.pairwise(shares)):
            raise ValueError("stages must rise to a share of 1, such as 0.1, 0.5, 1.0")
        if len({s.name for s in self.stages}) < len(self.stages) or any(s.name == "shadow" for s in self.stages):
            raise ValueError("each stage needs a name of its own other than shadow")
        if len(self.stages) > 1 and not self.require_pass:
            raise ValueError("several stages need require_pass: each moves on only after a gate has passed")
        steps = [b - a for a, b in itertools.pairwise(shares)]
        if max(steps) > self.max_step + 1e-9:
            raise ValueError(f"a stage moves {max(steps):.0%} of the traffic, and max_step is {self.max_step:.0%}")
        return self


class MarginSettings(Section):
    """What the gate holds a candidate to; stored in the ledger before a shadow begins (see docs/proof.md)."""

    success_margin: float = Field(0.02, gt=0, lt=1)
    """Largest acceptable loss of success rate, as a fraction."""
    slo_s: float | None = Field(None, gt=0)
    """Latency that a request should stay under, in seconds; unset: no share over it is judged."""
    over_slo_margin: float = Field(0.02, gt=0, lt=1)
    """Largest acceptable rise of the share of requests over that latency."""
    p95_margin: float | None = Field(0.10, ge=0)
    """Largest acceptable rise of the 95th percentile of latency relative to the incumbent."""
    p95_limit_s: float | None = Field(None, gt=0)
    """The candidate's 95th percentile must be shown to lie at or below it, in seconds; unset: not judged."""
    energy_gain: float = Field(0.05, ge=0, lt=1)
    """Joules per success must be shown to fall by at least this."""
    usd_margin: float | None = Field(0.05, ge=0)
    """Largest acceptable rise of dollars per success."""
    carbon_margin: float | None = Field(0.05, ge=0)
    """Largest acceptable rise of grams CO2 equivalent per success."""
    violation_rate: float = Field(0.01, gt=0, lt=1)
    """Rate of violations of a sampled constraint that must be excluded (1 %: none in 299 requests)."""
    planned_n: int | None = Field(None, ge=30)
    """Pairs that are planned; unset: from success_margin, discordance, confidence and power."""
    discordance: float = Field(0.10, gt=0, lt=1)
    """Expected share of pairs that only one side answers, for planning."""
    power: float = Field(0.90, gt=0.5, lt=1)
    """Power of the plan where the candidate does no harm."""
    confidence: float = Field(0.95, gt=0.5, lt=1)
    """Confidence of the two-sided intervals of the gate."""
    min_coverage: float = Field(0.95, gt=0, le=1)
    """Share of pairs that must tell a figure; below it that figure is inconclusive."""
    resamples: int = Field(1000, ge=200, le=100_000)
    """Resamples of the bootstrap intervals."""


class ShadowSettings(Section):
    sample_share: float = Field(1.0, gt=0, le=1)
    """Share of the logged requests that shadowing policies are asked about; chosen by the hash of the request."""
    max_age: Duration = _span("30 d")
    """Logged requests older than this are not shadowed."""
    batch: int = Field(5000, ge=1)
    """Most requests that one round decides."""
    cadence: Annotated[Duration, AfterValidator(_unhurried)] = _span("5 min")
    """Time between two rounds."""
    category: str = "general_chat"
    """Category that a logged request counts as where no label tells it."""
    give_up_after: Duration = _span("14 d")
    """A shadow that is undecided after this becomes INCONCLUSIVE."""
    margins: MarginSettings = MarginSettings()


class SourceSettings(Section):
    kind: str
    """Kind of payload; see docs/sources.md."""
    url: str | None = None
    """Where to fetch it; {now} stands for the current half hour (UTC). Default: that of the kind."""
    title: str | None = None
    """What the Sources page calls it."""
    enabled: bool = True
    """Whether it is fetched."""
    cadence: Annotated[Duration, AfterValidator(_unhurried)] | None = None
    """Time between two fetches; default: that of the kind."""
    stale_after: Duration | None = None
    """Age after which its data is stale; default: that of the kind."""
    expire_after: Duration | None = None
    """Age after which its data is expired; default: that of the kind."""
    options: dict[str, str] = Field(default_factory=dict)
    """What the payload does not tell, such as the zone of naive time stamps; see docs/sources.md."""
    secret: str | None = None  # the name of a secret, sent as a bearer token
    """Name of a secret that is sent as a bearer token."""


class PowerSettings(Section):
    enabled: bool = True
    """Whether GPU power of this host is sampled."""
    period: Duration = _span("200 ms")
    """Time between two readings."""
    window: Duration = _span("10 s")
    """Length of an energy observation."""
    flush: Duration = _span("5 s")
    """Readings are stored this often."""
    stale_after: Duration = _span("60 s")
    """Power without a stored reading for this long is stale."""
    replicas: dict[str, tuple[int | str, ...]] = Field(default_factory=dict)
    """Replica name to the GPUs that serve it together, by UUID or NVML index; each has energy windows of its own."""

    @field_validator("replicas")
    @classmethod
    def _each_gpu_once(cls, value: dict[str, tuple[int | str, ...]]) -> dict[str, tuple[int | str, ...]]:
        seen: dict[int | str, str] = {}
        for name, gpus in value.items():
            if not gpus:
                raise ValueError(f"the replica {name!r} has no GPU; name its UUIDs, or indexes such as 0")
            for gpu in gpus:
                if seen.setdefault(gpu, name) != name or gpus.count(gpu) > 1:
                    raise ValueError(f"the GPU {gpu!r} is named twice; a GPU belongs to one replica, once")
        return value


class RoutingSettings(Section):
    """The incumbent table: what routes today, where nothing has been actuated by the desk yet."""

    incumbent_file: Path | None = None
    """JSON file of the routing table in force before the desk changed anything."""
    latencies: tuple[Literal["interactive", "batch"], ...] = ("interactive",)
    """Latency classes that the routing table has rows for."""


class AuthSettings(Section):
    """Who may do what once sign-in is on: e-mail address -> role."""

    roles: dict[str, Literal["reader", "operator"]] = Field(default_factory=dict)
    """E-mail address of a signed-in person to role."""


class MqttSettings(Section):
    """A broker that alerts are published to; off while `host` is unset."""

    host: str | None = None
    """Name or address of the broker; unset: nothing is published."""
    port: int | None = Field(None, ge=1, le=65535)
    """Port of the broker; unset: 8883 with TLS, 1883 without."""
    topic: str = Field("joulebook", min_length=1, max_length=200, pattern=r"^[^+#\u0000/$][^+#\u0000]*$")
    """Topic prefix: alerts go to TOPIC/alerts/KIND/SUBJECT, retained, and the state of the desk to TOPIC/status."""
    tls: bool = False
    """Whether the connection is encrypted; the certificate of the broker is checked."""
    ca_file: Path | None = None
    """File of certificates to trust, relative to the home; unset: those of the system."""
    user_secret: str | None = None
    """Name of the secret that holds the user name."""
    password_secret: str | None = None
    """Name of the secret that holds the password."""


class AlertSettings(Section):
    """Limits beyond which something is an alert, and where alerts are sent."""

    price_change: float = Field(0.1, ge=0)
    """Relative change of a list price that is told."""
    tariff_change: float = Field(0.01, ge=0)
    """Relative change of a billing rule that is told."""
    recent: Duration = _span("7 d")
    """Prices, tariffs and removals are told for this long after they were learned."""
    expiring_within: Duration = _span("7 d")
    """An offer with an end closer than this is told."""
    unpriced_share: float = Field(0.05, ge=0, lt=1)
    """Share of tokens without any known price that is told."""
    usage_window: Duration = _span("7 d")
    """The newest usage of a provider that its unpriced share is taken over."""
    coverage_drop: float = Field(0.1, ge=0, lt=1)
    """Fall of the share of requests with energy, against the week before, that is told."""
    quarantine_growth: float = Field(0.01, ge=0, lt=1)
    """Rise of the share of refused rows of a source, against its loads before, that is told."""
    frozen_for: Duration = _span("5 min")
    """A power sensor that tells the same for this long is frozen."""
    implausible_within: Duration = _span("1 d")
    """Energy that was refused as impossible is told for this long."""
    mqtt: MqttSettings = MqttSettings()
    webhook_url: str | None = None
    """Address that each alert is sent to as a POST with JSON; unset: none is."""
    webhook_secret: str | None = None
    """Name of the secret that signs each webhook (HMAC-SHA256)."""
    timeout: Duration = _span("10 s")
    """Longest wait for the broker or the webhook, per attempt."""

    @field_validator("webhook_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"https?://[^/\s]+", value):
            raise ValueError("it is no http or https address")
        return value


class SqlSettings(Section):
    timeout: Duration = _span("10 s")
    """A statement of the SQL lab is stopped after this."""
    row_cap: int = Field(10_000, ge=1, le=1_000_000)
    """Most rows that a statement returns."""
