"""Which family a model belongs to. Models of one family tend to miss the same things, so a panel that agrees
within one family has agreed less than it seems."""

from __future__ import annotations

import re

#: Words of model names → family. Several names of one maker count as one family where the models are
#: trained alike.
_FAMILY_BY_WORD = {
    "claude": "claude",
    "gpt": "gpt",
    "chatgpt": "gpt",
    "codex": "gpt",
    "gemini": "gemini",
    "gemma": "gemma",
    "mistral": "mistral",
    "mixtral": "mistral",
    "ministral": "mistral",
    "magistral": "mistral",
    "codestral": "mistral",
    "devstral": "mistral",
    "pixtral": "mistral",
    "deepseek": "deepseek",
    "grok": "grok",
    "llama": "llama",
    "codellama": "llama",
    "qwen": "qwen",
    "qwq": "qwen",
    "kimi": "kimi",
    "glm": "glm",
    "chatglm": "glm",
    "phi": "phi",
    "command": "command",
    "nova": "nova",
    "minimax": "minimax",
    "yi": "yi",
    "granite": "granite",
    "nemotron": "nemotron",
}
_OPENAI_REASONING = re.compile(r"o[1-9]")
_SIMULATED = re.compile(r"sim-[a-z]+")
_WORD = re.compile(r"[a-z]+")


def model_family(provider: str, model: str) -> str:
    """The family of `model` as `provider` names it, in lower case; for an unknown model its first word.

    Whoever serves it does not matter: `anthropic/claude-x` through a router is `claude`. A distilled model
    counts as what its name says first (`deepseek-r1-distill-llama` is `deepseek`).
    """
    makers, _, name = f"{provider}/{model}".lower().rpartition("/")
    simulated = _SIMULATED.match(name)
    if simulated:
        return simulated.group()
    if "openai" in makers and _OPENAI_REASONING.match(name):
        return "gpt"
    words = _WORD.findall(name)
    for word in words:
        if word in _FAMILY_BY_WORD:
            return _FAMILY_BY_WORD[word]
    return words[0] if words else name
