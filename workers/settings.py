"""The only reader of the environment. Every setting has a default; a wrong one is refused with a sentence."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, get_args

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from workers.core.schedule import Schedule
from workers.errors import SettingsError
from workers.key_text import read_key
from workers.provenance.signing import Signer, read_public_keys, read_signer
from workers.schedules import read_schedules
from workers.secret_files import SUFFIX, WithFiles, read_secret
from workers.secret_names import names_a_secret, secrets_in
from workers.webhooks.signature import signing_keys

_DOCKER_SCHEMES = ("unix://", "tcp://", "http://", "https://")
_REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
#: They may carry a password.
_URLS = frozenset({"database_url", "redis_url"})


def default_home() -> Path:
    """Where the embedded database and broker keep their data.

    Root gets `/var/lib`: the PostgreSQL wheel runs its server as another user and opens every folder above
    the data to it, which must not happen to a home directory.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/consensus")
    return Path(platformdirs.user_data_dir("consensus"))


class Settings(BaseSettings):
    """Settings of one process, from `CONSENSUS_*` variables."""

    model_config = SettingsConfigDict(
        env_prefix="CONSENSUS_", env_ignore_empty=True, extra="ignore", frozen=True
    )

    database_url: str | None = Field(
        default=None, repr=False, description="PostgreSQL; unset: the embedded one"
    )
    redis_url: str | None = Field(
        default=None, repr=False, description="Redis or Valkey; unset: the embedded one"
    )
    home: Path = Field(default_factory=default_home, description="data directory of the embedded servers")
    teams: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(),
        description="more folders or files with teams, separated by ':'; they win over built-in ones",
    )
    url: str | None = Field(default=None, description="the API that the command line talks to")
    api_key: SecretStr | None = Field(default=None, description="the key that the command line shows the API")
    require_keys: bool = Field(
        default=False, description="the API asks for keys also where only this machine reaches it"
    )
    simulator_url: str | None = Field(
        default=None, description="the simulated provider, used when no key is set"
    )
    docker_host: str | None = Field(
        default=None, description="the cage's Docker engine; unset: DOCKER_HOST, else the local socket"
    )
    cage_image: str | None = Field(
        default=None, description="what generated code runs in; unset: the image of `consensus sandbox build`"
    )
    cages: int | None = Field(
        default=None, ge=1, le=256, description="cages at once on one engine; unset: as many as it has cores"
    )
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR")
    log_json: bool = Field(default=False, description="one JSON object a line instead of readable text")

    flower_auth: SecretStr | None = Field(
        default=None,
        description="user:password for Flower, several between commas; unset: one is made and printed",
    )
    metrics_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="a worker serves its metrics there (`up`: its workers from there on); 0: not",
    )
    metrics_host: str = Field(default="127.0.0.1", description="the address that workers serve metrics at")
    metrics_token: SecretStr | None = Field(
        default=None,
        description="who wants metrics has to bring it as a bearer token; unset: only this machine gets the API's",
    )

    llm_concurrency: int = Field(
        default=640, ge=1, le=2000, description="model calls in flight per worker process"
    )
    sandbox_concurrency: int = Field(
        default=8,
        ge=1,
        le=256,
        description="programs in cages at once per worker process; also the threads of one that serves `sandbox` alone",
    )
    worker_processes: int = Field(
        default=1,
        ge=1,
        le=256,
        description="workers of the installation (`up` starts so many): batches fill their threads, "
        "limits are shared among them when Redis is away",
    )
    database_pool: int = Field(default=16, ge=2, le=200, description="connections per process")
    slot_wait_seconds: float = Field(
        default=20, gt=0, description="longest wait for the governor inside a worker"
    )
    lease_seconds: float = Field(
        default=30, gt=0, description="a seat's work belongs to its worker that long"
    )
    heartbeat_seconds: float = Field(
        default=3, gt=0, description="how often a worker renews and looks for cancels"
    )
    rescue_seconds: float = Field(default=15, gt=0, description="how often lost work is looked for")
    pending_seconds: float = Field(default=60, gt=0, description="a message older than this counts as lost")
    stalled_seconds: float = Field(
        default=20, gt=0, description="a run idle between stages this long is healed"
    )
    breaker_failures: int = Field(
        default=5, ge=1, description="failures in a row after which a provider is left alone for a while"
    )
    held_seconds: float = Field(
        default=300,
        gt=0,
        le=900,
        description="how often a batch's seat asks again at an account that is empty or refused its key",
    )
    batch_window: int = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="runs of all batches under way at once; fewer where workers have fewer threads",
    )
    dispatch_seconds: float = Field(
        default=1, gt=0, description="how often the next runs of batches are sent"
    )
    max_rescues: int = Field(default=3, ge=0, description="a seat whose worker died more often gives up")

    signing_key: SecretStr | None = Field(
        default=None,
        description="signs ledgers and exports (Ed25519): PEM, or base64 of 32 bytes, several between spaces, "
        "the first one signs; unset: unsigned",
    )
    trusted_keys: str | None = Field(
        default=None,
        description="public keys that `provenance verify` trusts besides, as `provenance keys` prints",
    )
    webhook_secret: SecretStr | None = Field(
        default=None,
        description="signs webhooks: whsec_… or at least 24 bytes of text, several between spaces; unset: no webhooks",
    )
    webhook_allow_private: bool = Field(
        default=False, description="webhooks may lead to loopback and private addresses"
    )
    webhook_seconds: float = Field(default=2, gt=0, description="how often due webhooks are looked for")
    max_batch_bytes: int = Field(
        default=1024**3, ge=1024, description="a batch's body may have that many bytes, unpacked"
    )
    max_batch_runs: int = Field(default=100_000, ge=1, le=10_000_000, description="lines of one batch")
    scoring_processes: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="scoring processes of a worker; unset: as many as there are cores",
    )
    max_upload_bytes: int = Field(
        default=1 << 30, ge=1 << 20, description="largest body of one upload of trajectories"
    )
    max_trajectory_bytes: int = Field(
        default=256 << 20, ge=1 << 10, description="largest trajectory file that is stored"
    )
    schedules: Annotated[tuple[Schedule, ...], NoDecode] = Field(
        default=(), description="scorings to be made every night: JSON, or a JSON or YAML file"
    )

    @field_validator("schedules", mode="before")
    @classmethod
    def _scheduled(cls, value: object) -> object:
        return read_schedules(value) if isinstance(value, str) else value

    @field_validator("teams", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part for part in value.split(os.pathsep) if part) if isinstance(value, str) else value

    @field_validator("flower_auth")
    @classmethod
    def _user_and_password(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None or not value.get_secret_value().strip():
            return None
        for pair in value.get_secret_value().split(","):
            user, colon, password = pair.strip().partition(":")
            if not (user and colon and password):
                raise ValueError("must look like user:password, several separated by commas")
        return value

    @field_validator("metrics_token")
    @classmethod
    def _token(cls, value: SecretStr | None) -> SecretStr | None:
        return value if value is not None and value.get_secret_value().strip() else None

    @field_validator("api_key")
    @classmethod
    def _key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None or not value.get_secret_value().strip():
            return None
        if read_key(value.get_secret_value().strip()) is None:
            raise ValueError("holds no API key; one looks like csk_…_…, as `consensus keys create` shows it")
        return SecretStr(value.get_secret_value().strip())

    @field_validator("webhook_secret")
    @classmethod
    def _signs(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None or not value.get_secret_value().strip():
            return None
        try:
            signing_keys(value.get_secret_value())
        except SettingsError as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("signing_key")
    @classmethod
    def _signs_ledgers(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None or not value.get_secret_value().strip():
            return None
        try:
            read_signer(value.get_secret_value())
        except SettingsError as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("trusted_keys")
    @classmethod
    def _are_public(cls, value: str | None) -> str | None:
        try:
            return value if value and read_public_keys(value) else None
        except SettingsError as error:
            raise ValueError(str(error)) from None

    @property
    def signer(self) -> Signer | None:
        """What ledgers are signed with; None: they stay unsigned."""
        return None if self.signing_key is None else read_signer(self.signing_key.get_secret_value())

    @property
    def trusted(self) -> dict[str, bytes]:
        """Public keys by id whose signatures need no comparing by eye."""
        own = self.signer
        return {**({} if own is None else own.trusted), **read_public_keys(self.trusted_keys or "")}

    @property
    def webhook_keys(self) -> tuple[bytes, ...]:
        """What webhooks are signed with; none: they are off."""
        return () if self.webhook_secret is None else signing_keys(self.webhook_secret.get_secret_value())

    @field_validator("database_url")
    @classmethod
    def _postgres(cls, value: str | None) -> str | None:
        if value is None or not value.strip():
            return None
        for scheme in ("postgresql+psycopg://", "postgresql://", "postgres://"):
            if value.startswith(scheme):
                return "postgresql+psycopg://" + value.removeprefix(scheme)
        raise ValueError("must look like postgresql+psycopg://user:password@host:5432/database")

    @field_validator("redis_url")
    @classmethod
    def _redis(cls, value: str | None) -> str | None:
        if value is None or not value.strip():
            return None
        if not value.startswith(_REDIS_SCHEMES):
            raise ValueError("must look like redis://host:6379/0")
        if value.startswith("rediss://") and "ssl_cert_reqs=" not in value:
            # Unasked, kombu would take any certificate, and Celery's backend refuses the address.
            return f"{value}{'&' if '?' in value else '?'}ssl_cert_reqs=required"
        return value

    @field_validator("docker_host")
    @classmethod
    def _docker(cls, value: str | None) -> str | None:
        if value is None or not value.strip():
            return None
        if not value.startswith(_DOCKER_SCHEMES):
            raise ValueError("must look like unix:///var/run/docker.sock or tcp://host:2376")
        return value

    @field_validator("url", "simulator_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is None or not value.strip():
            return None
        if not value.startswith(("http://", "https://")):
            raise ValueError("must look like http://127.0.0.1:8000")
        return value.rstrip("/")


def load(**overrides: Any) -> Settings:
    """Settings from the environment and the files that it names. Raises: SettingsError naming the variable and what
    would be right."""
    try:
        return Settings(**{**_from_files(), **overrides})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = "CONSENSUS_" + "_".join(str(part) for part in first["loc"][:1]).upper()
        path = os.environ.get(name + SUFFIX) if name in secret_settings() else None
        message = first["msg"].removeprefix("Value error, ")
        raise SettingsError(f"{f'{name}{SUFFIX}: {path}' if path else name}: {message}") from None


def secret_settings() -> tuple[str, ...]:
    """The variables that hold a secret, so that a file may hold it instead."""
    holding = (
        name
        for name, field in Settings.model_fields.items()
        if name in _URLS or SecretStr in (field.annotation, *get_args(field.annotation))
    )
    return tuple(f"CONSENSUS_{name.upper()}" for name in holding)


def _from_files() -> dict[str, str]:
    return {
        name.removeprefix("CONSENSUS_").lower(): value
        for name in secret_settings()
        if os.environ.get(name + SUFFIX) and (value := read_secret(name, os.environ)) is not None
    }


@lru_cache(maxsize=1)
def settings() -> Settings:
    """This process's settings, read once."""
    return load()


def environment() -> Mapping[str, str]:
    """The environment as providers see it (keys, base URLs, models), with what files hold of it."""
    return WithFiles(dict(os.environ), is_secret=_is_secret)


def secret_values() -> frozenset[str]:
    """Everything in the environment, and in the files that it names, that must not be written down."""
    return secrets_in(_with_contents())


def _is_secret(name: str) -> bool:
    return not name.endswith(SUFFIX) and (names_a_secret(name) or name in secret_settings())


def _with_contents() -> dict[str, str]:
    """The environment with what its files hold in the place of their names; a file that cannot be read has no secret
    that could be told."""
    found = {}
    for name, value in os.environ.items():
        held = name.removesuffix(SUFFIX)
        if held == name:
            found[name] = value
        elif value and _is_secret(held):
            with contextlib.suppress(SettingsError):
                found[held] = read_secret(held, {name: value}) or ""
    return found


def child_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that we start, with our changes, also of what a file held."""
    kept = {name: value for name, value in os.environ.items() if name.removesuffix(SUFFIX) not in changes}
    return {**kept, **changes}
