"""The team of the chaos, its providers (all of them the simulator) and what goes wrong with them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml

from workers.providers.simulator.faults.kind import KINDS, Group

#: Providers that stay; their limits are what the audit holds the arrivals against.
LIMITED = ("openai", "anthropic", "deepseek")
#: Providers each of which loses its account at some moment, each in another way. Nobody asks them again.
_DOOMED = {
    "xai": ("grok-4", "spend-limit"),
    "mistral": ("mistral-large-latest", "insufficient-quota"),
    "gemini": ("gemini-2.5-pro", "unauthorized"),
    "groq": ("llama-9", "forbidden"),
}
_KEYS = {
    "openai": "OPENAI",
    "anthropic": "ANTHROPIC",
    "deepseek": "DEEPSEEK",
    "xai": "XAI",
    "mistral": "MISTRAL",
    "gemini": "GEMINI",
    "groq": "GROQ",
}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "rate-limit": {"retry_after_seconds": 1},
    "rate-limit-in-200": {"retry_after_seconds": 1},
    "payment-required": {"retry_after_seconds": 1, "retry_after_as": "seconds"},
    "silence": {"seconds": 2},
    "slow-drip": {"piece_bytes": 400, "gap_seconds": 0.05},
}


def environment() -> dict[str, str]:
    """Every provider is on, and is the simulator; SIMULATOR stands for its address."""
    found = {}
    for provider, name in _KEYS.items():
        found[f"{name}_API_KEY"] = f"chaos-{provider}"
        found[f"{name}_BASE_URL"] = "SIMULATOR" if provider == "anthropic" else "SIMULATOR/v1"
    return found


def write_team(folder: Path) -> Path:
    """A small team of mixed families, each of whose chains begins with an account that will be lost."""

    def seat(*models: str) -> dict[str, Any]:
        return {"models": list(models), "max_tokens": 4000, "timeout_seconds": 20, "temperature": 0.2}

    doomed = {provider: f"{provider}/{model}" for provider, (model, _) in _DOOMED.items()}
    team = {
        "name": "chaos",
        "version": 1,
        "description": "A team whose providers fail in every way.",
        "coder": seat(doomed["xai"], "deepseek/deepseek-flash", "openai/gpt-6.2-sol"),
        "reviewers": {
            "left": seat(doomed["groq"], "openai/gpt-6-luna", "deepseek/deepseek-flash"),
            "middle": seat(doomed["mistral"], "deepseek/deepseek-v4-pro", "anthropic/claude-haiku-5-5"),
            "right": seat(doomed["gemini"], "anthropic/claude-haiku-5-5", "openai/gpt-6-luna"),
        },
        "consensus": seat("openai/gpt-6-luna", "deepseek/deepseek-flash"),
        "lead": seat("anthropic/claude-opus-5-5", "openai/gpt-6.2-sol"),
        "policy": {"quorum": {"heads": 2, "families": 2}, "retries": 2, "gate": "off"},
    }
    folder.mkdir()
    (folder / "chaos.yaml").write_text(yaml.safe_dump(team), encoding="utf-8")
    return folder


def write_faults(path: Path, *, dice: random.Random, probability: float, outages: int) -> Path:
    """Each kind once for certain, early, and then by chance; `outages` windows in which nobody listens."""
    rules: list[dict[str, Any]] = [
        {"fault": fault, "when": {"model": f"*{model}*", "nth": dice.randint(8, 16)}}
        for model, fault in _DOOMED.values()
    ]
    kinds = [
        name
        for name, kind in KINDS.items()
        if kind.group is not Group.LISTENER and name not in {fault for _, fault in _DOOMED.values()}
    ]
    dice.shuffle(kinds)
    for place, name in enumerate(kinds):
        rules.append({"fault": name, **_PARAMETERS.get(name, {}), "when": {"nth": 3 * place + 2}})
        if probability:
            chance = {"probability": round(probability / len(kinds), 5)}
            rules.append({"fault": name, **_PARAMETERS.get(name, {}), "when": chance})
    for number in range(outages):
        begin = 25 + 90 * number
        rules.append(
            {"fault": "refuse-connections", "when": {"from_seconds": begin, "until_seconds": begin + 2}}
        )
    path.write_text(yaml.safe_dump({"rules": rules}), encoding="utf-8")
    return path
