"""A scored cohort as the terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from workers.agentlens.mechanisms import MEANING
from workers.agentlens.tier import Tier
from workers.plain import plain
from workers.scoring.cohort import Cohort
from workers.trajectories import Skipped

TIER_STYLE: Final = {
    Tier.IDEAL: "green",
    Tier.SOLID: "cyan",
    Tier.LUCKY: "yellow",
    Tier.PARTIAL_FAILURE: "magenta",
    Tier.OFF_TRACK: "dim",
}
INTENT_STYLE: Final = {"E": "blue", "I": "yellow", "V": "green", "O": "dim"}
_SKIPPED_SHOWN = 10
_MODELS_SHOWN = 40


def print_cohort(cohort: Cohort, console: Console) -> None:
    """Leaderboard, tiers, mechanisms, deployment risk, what was skipped, and what a score is not."""
    summary: Mapping[str, Any] = cohort.summary
    profile = cohort.settings.profile
    outcomes = summary["outcomes"]
    counts = ", ".join(
        f"{outcomes[name]:,} {name}" for name in ("passed", "failed", "unknown") if name in outcomes
    )
    console.print(
        f"[bold]{count(summary['runs'], 'run')}[/] of {origin(summary)}: {counts}   "
        f"[dim]profile {profile}[/]\n"
    )
    parts: list[RenderableType] = []
    if summary["models"]:
        parts += [leaderboard(summary["models"]), ""]
    if any(sum(counts.values()) for counts in summary["tiers"].values()):
        parts += [tiers(summary["tiers"], profile), ""]
    if summary["mechanisms"]["lucky"]:
        parts += [mechanisms(summary["mechanisms"]), ""]
    if any(entry["passed"] for entry in summary["deployment_risk"]):
        parts += [deployment_risk(summary["deployment_risk"]), ""]
    if not summary["models"]:
        parts += [
            Text("no run's outcome is known: name a --labels file to get tiers and ranks", "yellow"),
            "",
        ]
    console.print(Group(*parts))
    for line in notes(cohort):
        console.print(Text(line, "yellow"))
    for line in changes(cohort.comparison):
        console.print(Text(line))
    if cohort.skipped:
        console.print(skipped(cohort))
    console.print(Text(str(summary["caution"]), "italic"))


def changes(comparison: Mapping[str, Any] | None) -> list[str]:
    """What is different from the night before, in sentences; none for a cohort that was not compared."""
    if comparison is None:
        return []
    counts = comparison["counts"]
    said = [
        f"since the night of {comparison['night']}: {counts['new']:,} new, {counts['gone']:,} gone, "
        f"{count(counts['moved'], 'run')} in another tier, {counts['same']:,} in the same"
    ]
    said += [
        f"  {move['runs']:,} from {_tier_name(move['from'])} to {_tier_name(move['to'])}"
        for move in comparison["moves"]
    ]
    lucky = comparison["lucky_by_mechanism"]
    mechanisms = sorted(lucky["now"].keys() | lucky["before"].keys())
    if mechanisms:
        parts = (
            f"{name} {lucky['before'].get(name, 0)} → {lucky['now'].get(name, 0)}" for name in mechanisms
        )
        said.append(f"  Lucky passes by mechanism: {', '.join(parts)}")
    return said


def _tier_name(tier: str | None) -> str:
    return "no tier" if tier is None else tier.replace("_", " ")


def notes(cohort: Cohort) -> list[str]:
    """What a reader must know before comparing these scores."""
    counted = list(cohort.counted)
    alone = sum(run.row.profile == "unreferenced" for run in counted)
    found = []
    if alone:
        found.append(
            f"{alone:,} of {count(len(counted), 'run')}: fewer than 2 other passing runs of the problem, "
            "scored without a reference, with low confidence"
        )
    copies = [run.entry for run in cohort.runs if run.entry.original is not None]
    if copies:
        first = copies[0]
        assert first.original is not None  # noqa: S101 - for the type checker: chosen by it
        more = f", and {count(len(copies) - 1, 'more copy', 'more copies')}" if len(copies) > 1 else ""
        found.append(
            f"{count(len(copies), 'run')} given again, counted once: {plain(first.trajectory_id)} in "
            f"{plain(first.path)} is also {plain(first.original.trajectory_id)} in {plain(first.original.path)}{more}"
        )
    return found


def origin(summary: Mapping[str, Any]) -> str:
    """Of how many problems the runs are."""
    alone = summary["runs_without_problem"]
    named = count(summary["problems"], "problem")
    if not alone:
        return named
    return f"{named} and of none that is named" if summary["problems"] else "no problem that is named"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def leaderboard(models: list[dict[str, Any]]) -> Table:
    """One row a model, both ranks and the shift between them."""
    table = _table(
        "Leaderboard",
        "by pass, by quality: the ranks. quality: mean score, 95 % interval. ▲: ranks higher by quality",
    )
    table.add_column("model", min_width=8)
    for name in ("runs", "passed", "by pass", "quality", "by quality", "shift", "lucky"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in models[:_MODELS_SHOWN]:
        quality = entry["quality"]
        table.add_row(
            _name(entry["model"]),
            f"{entry['runs']:,}",
            _percent(entry["pass_rate"]),
            str(entry["rank_by_pass_rate"]),
            _interval(quality),
            str(entry["rank_by_quality"]),
            shift(entry["shift"]),
            _percent(entry["lucky_rate"]),
        )
    if len(models) > _MODELS_SHOWN:
        table.caption = (
            f"the {len(models) - _MODELS_SHOWN} models with lower pass rates are in --json and --html"
        )
    return table


def shift(places: int) -> Text:
    """How far a model moves when it is ranked by quality."""
    if places == 0:
        return Text("–", "dim")
    return Text(f"{'▲' if places > 0 else '▼'}{abs(places)}", "green" if places > 0 else "red")


def tiers(counts: Mapping[str, Mapping[str, int]], profile: str) -> Table:
    """Tier counts of each profile side by side."""
    table = _table("Tiers")
    table.add_column("profile", no_wrap=True)
    for tier in Tier:
        table.add_column(Text(tier.value.replace("_", " "), TIER_STYLE[tier]), justify="right")
    for name, row in counts.items():
        mark = " ◂" if name == profile else ""
        table.add_row(f"{name}{mark}", *(f"{row[tier.value]:,}" for tier in Tier))
    return table


def mechanisms(found: Mapping[str, Any]) -> Table:
    """Why passing runs were Lucky."""
    table = _table(f"{found['lucky']:,} Lucky passes, by mechanism")
    table.add_column("", no_wrap=True)
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("meaning", overflow="fold")
    named = 0
    for mechanism, meaning in MEANING.items():
        number = found["counts"][mechanism.value]
        named += number
        if number:
            table.add_row(mechanism.value, f"{number:,}", meaning)
    if named < found["lucky"]:
        table.add_row("–", f"{found['lucky'] - named:,}", "not told apart without a reference")
    return table


def deployment_risk(entries: list[dict[str, Any]]) -> Table:
    """Which models lean on luck."""
    table = _table("Deployment risk", "shares of each model's passing runs, riskiest first")
    table.add_column("model", min_width=8)
    for name in ("passes", "lucky", "blind retries", "unverified patches"):
        table.add_column(name, justify="right")
    for entry in [entry for entry in entries if entry["passed"]][:_MODELS_SHOWN]:
        table.add_row(
            _name(entry["model"]),
            f"{entry['passed']:,}",
            _percent(entry["lucky"]),
            _percent(entry["blind_retries"]),
            _percent(entry["unverified_patches"]),
        )
    return table


def skipped(cohort: Cohort) -> Text:
    """What could not be read, the first of it with the reason."""
    number = len(cohort.skipped)
    text = Text(f"skipped {what_was_skipped(cohort.skipped)} that could not be read:\n", "bold yellow")
    for item in cohort.skipped[:_SKIPPED_SHOWN]:
        text.append(f"  {plain(item.error)}\n", "yellow")
    if number > _SKIPPED_SHOWN:
        text.append(f"  and {number - _SKIPPED_SHOWN:,} more, all of them in --json\n", "yellow")
    return text


def what_was_skipped(items: Sequence[Skipped]) -> str:
    """How many files, and how many records of files that were read."""
    records = sum(item.is_record for item in items)
    parts = ((len(items) - records, "file"), (records, "record"))
    return " and ".join(count(number, noun) for number, noun in parts if number)


def _table(title: str, caption: str | None = None) -> Table:
    return Table(
        title=title,
        caption=caption,
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        caption_style="dim",
        box=None,
        pad_edge=False,
    )


def _name(model: str) -> Text:
    """On one line, but not so for its column: where the table is too wide, a name is cut and no number."""
    return Text(plain(model), no_wrap=True, overflow="ellipsis")


def _interval(mean: Mapping[str, float]) -> str:
    """With one problem there is nothing to resample, and the interval is a point."""
    low, high = mean["low"], mean["high"]
    return f"{mean['value']:.1f}" + (f" [dim]{low:.0f}–{high:.0f}[/]" if low < high else "")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
