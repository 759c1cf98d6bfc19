"""Configuration: `joulebook.toml` in JOULEBOOK_HOME, over it the environment; secrets never in the file.

Environment: JOULEBOOK_HOME, JOULEBOOK_PORT, and every setting as JOULEBOOK_<SECTION>__<NAME>
(JOULEBOOK_OFFLINE=true, JOULEBOOK_WAREHOUSE__PATH=...). Secrets come from the environment
(JOULEBOOK_SECRET_<NAME>) or from `[joulebook]` in `.streamlit/secrets.toml` of the home.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from app.errors import BadRequest, ConfigError
from ingest.errors import IngestError

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
    evidence_max_age: Duration = "30 d"  # type: ignore[assignment]
    """Older reference measurements do not steer decisions."""
    tiers: dict[str, int] = Field(default_factory=dict)
    """Capability tier (1 to 3) per base model, over the shipped ones."""
    allowed_access: tuple[str, ...] = ("open",)
    """Access levels that this account has: open, gated, canary."""


class Guardrails(Section):
    """Limits on how eagerly the desk proposes and how long a proposal lives."""

    min_gain: float = Field(0.05, ge=0, lt=1)
    """Smallest relative gain worth a recommendation."""
    expires_after: Duration = "7 d"  # type: ignore[assignment]
    """A proposal that nobody approves expires after this."""
    min_dwell: Duration = "30 min"  # type: ignore[assignment]
    """A cell that was changed stays for at least this long."""
    max_changes_per_day: int = Field(30, ge=1)
    """Most cells that proposals may change per day."""
    success_margin: float = Field(0.02, ge=0, lt=1)
    """Largest acceptable loss of success rate, as a fraction."""
    targets: tuple[str, ...] = ("router",)
    """Names of the downstream targets that must carry out a change."""


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
    period: Duration = "200 ms"  # type: ignore[assignment]
    """Time between two readings."""
    window: Duration = "10 s"  # type: ignore[assignment]
    """Length of an energy observation."""
    flush: Duration = "5 s"  # type: ignore[assignment]
    """Readings are stored this often."""
    stale_after: Duration = "60 s"  # type: ignore[assignment]
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
    recent: Duration = "7 d"  # type: ignore[assignment]
    """Prices, tariffs and removals are told for this long after they were learned."""
    expiring_within: Duration = "7 d"  # type: ignore[assignment]
    """An offer with an end closer than this is told."""
    unpriced_share: float = Field(0.05, ge=0, lt=1)
    """Share of tokens without any known price that is told."""
    usage_window: Duration = "7 d"  # type: ignore[assignment]
    """The newest usage of a provider that its unpriced share is taken over."""
    coverage_drop: float = Field(0.1, ge=0, lt=1)
    """Fall of the share of requests with energy, against the week before, that is told."""
    quarantine_growth: float = Field(0.01, ge=0, lt=1)
    """Rise of the share of refused rows of a source, against its loads before, that is told."""
    frozen_for: Duration = "5 min"  # type: ignore[assignment]
    """A power sensor that tells the same for this long is frozen."""
    implausible_within: Duration = "1 d"  # type: ignore[assignment]
    """Energy that was refused as impossible is told for this long."""
    mqtt: MqttSettings = MqttSettings()
    webhook_url: str | None = None
    """Address that each alert is sent to as a POST with JSON; unset: none is."""
    webhook_secret: str | None = None
    """Name of the secret that signs each webhook (HMAC-SHA256)."""
    timeout: Duration = "10 s"  # type: ignore[assignment]
    """Longest wait for the broker or the webhook, per attempt."""

    @field_validator("webhook_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"https?://[^/\s]+", value):
            raise ValueError("it is no http or https address")
        return value


class SqlSettings(Section):
    timeout: Duration = "10 s"  # type: ignore[assignment]
    """A statement of the SQL lab is stopped after this."""
    row_cap: int = Field(10_000, ge=1, le=1_000_000)
    """Most rows that a statement returns."""


DEFAULT_SOURCES: dict[str, dict[str, Any]] = {
    "openrouter": {"kind": "openrouter"},
    "uk-carbon": {"kind": "uk-carbon"},
    "uk-carbon-forecast": {"kind": "uk-carbon", "url": "https://api.carbonintensity.org.uk/intensity/{now}/fw48h"},
    "neuralwatt-models": {"kind": "neuralwatt-models", "enabled": False},
}


class Settings(BaseSettings):
    """All settings; unknown names are refused, each with the file's own words."""

    model_config = SettingsConfigDict(
        env_prefix="JOULEBOOK_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        validate_default=True,
        use_attribute_docstrings=True,
    )

    home: Path = Path()
    """JOULEBOOK_HOME: where configuration, warehouse and state live."""
    offline: bool = False
    """No outgoing call is made."""
    warehouse: WarehouseSettings = WarehouseSettings()
    server: ServerSettings = ServerSettings()
    sample: SampleSettings = SampleSettings()
    weights: Weights = Weights()
    policy: PolicySettings = PolicySettings()
    guardrails: Guardrails = Guardrails()
    sources: dict[str, SourceSettings] = Field(default_factory=dict)
    power: PowerSettings = PowerSettings()
    routing: RoutingSettings = RoutingSettings()
    auth: AuthSettings = AuthSettings()
    sql: SqlSettings = SqlSettings()
    alerts: AlertSettings = AlertSettings()

    @model_validator(mode="before")
    @classmethod
    def _default_sources(cls, data: Any) -> Any:
        """A source of the file is laid over the default of the same name."""
        if isinstance(data, dict):
            told = data.get("sources") or {}
            merged = {name: dict(value) for name, value in DEFAULT_SOURCES.items()}
            for name, value in told.items():
                merged[name] = {**merged.get(name, {}), **value} if isinstance(value, dict) else value
            data = {**data, "sources": merged}
        return data

    @property
    def warehouse_path(self) -> Path:
        return (self.home / self.warehouse.path).absolute()

    @property
    def state_dir(self) -> Path:
        """Runtime file, SQL snapshot and other things that may be deleted while nothing runs."""
        return (self.home / ".joulebook").absolute()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        toml = TomlConfigSettingsSource(settings_cls, config_path(home_dir()))
        return init_settings, env_settings, toml


def home_dir() -> Path:
    return Path(os.environ.get("JOULEBOOK_HOME") or ".").absolute()


def config_path(home: Path) -> Path:
    return home / "joulebook.toml"


# Environment variables that carry our prefix but are no settings.
_NOT_SETTINGS = ("JOULEBOOK_HOME", "JOULEBOOK_PORT", "JOULEBOOK_REQUIRE_", "JOULEBOOK_SECRET_")


def load_settings() -> Settings:
    """Read file and environment. Raises ConfigError with one sentence per mistake."""
    home = home_dir()
    path = config_path(home)
    overrides: dict[str, Any] = {"home": home}
    port = os.environ.get("JOULEBOOK_PORT")
    try:
        if port:
            told = tomllib.loads(path.read_text()).get("server", {}) if path.exists() else {}
            overrides["server"] = {**told, "port": port}
        settings = Settings(**overrides)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.", fix="correct that line") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason}.", fix="save it as UTF-8") from error
    except ValidationError as error:
        raise ConfigError(f"The configuration is wrong: {_sentences(error)}.", fix=f"correct {path}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", fix="check its permissions") from error
    _check_sources(settings)
    return settings


def _check_sources(settings: Settings) -> None:
    """Refuse a source that could never be fetched, instead of failing in every command. Raises ConfigError."""
    from app.sources import http_source_of  # it needs Settings

    for name, told in settings.sources.items():
        try:
            http_source_of(name, told)
        except (BadRequest, IngestError) as error:
            raise ConfigError(
                f"The configuration is wrong: sources.{name}: {error.message}.".replace("..", "."), fix=error.fix
            ) from error


def _sentences(error: ValidationError) -> str:
    parts = []
    for item in error.errors():
        where = ".".join(str(p) for p in item["loc"])
        parts.append(f"{where}: {item['msg'].removeprefix('Value error, ')}")
    return "; ".join(parts)


def unknown_environment() -> list[str]:
    """JOULEBOOK_* variables that set nothing, for `doctor`: a misspelt name is silent otherwise."""
    known = {f"JOULEBOOK_{name}".upper() for name in Settings.model_fields}
    return sorted(
        name
        for name in os.environ
        if name.startswith("JOULEBOOK_")
        and not name.startswith(_NOT_SETTINGS)
        and name.split("__")[0].upper() not in known
    )
