"""Configuration: `joulebook.toml` in JOULEBOOK_HOME, over it the environment; secrets never in the file.

Environment: JOULEBOOK_HOME, JOULEBOOK_PORT, and every setting as JOULEBOOK_<SECTION>__<NAME>
(JOULEBOOK_OFFLINE=true, JOULEBOOK_WAREHOUSE__PATH=...). Secrets come from the environment
(JOULEBOOK_SECRET_<NAME>) or from `[joulebook]` in `.streamlit/secrets.toml` of the home.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from app.errors import BadRequest, ConfigError
from app.sections import (
    AlertSettings,
    AuthSettings,
    EnvironmentSettings,
    Guardrails,
    PolicySettings,
    PowerSettings,
    RoutingSettings,
    SampleSettings,
    ServerSettings,
    ShadowSettings,
    SourceSettings,
    SqlSettings,
    WarehouseSettings,
    Weights,
)
from ingest.errors import IngestError

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
    environment: str = "local"
    """Which of the environments this desk changes."""
    environments: dict[str, EnvironmentSettings] = Field(default_factory=lambda: {"local": EnvironmentSettings()})
    shadow: ShadowSettings = ShadowSettings()

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

    @model_validator(mode="after")
    def _known_environment(self) -> Settings:
        if self.environment not in self.environments:
            raise ValueError(
                f"environment is {self.environment!r}, and environments has {', '.join(sorted(self.environments))}"
            )
        return self

    @property
    def approval_policy(self) -> EnvironmentSettings:
        """What a change must pass in the environment of this desk."""
        return self.environments[self.environment]

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
