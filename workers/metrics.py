"""What a worker process counts of its own doings: what no row can tell. The API exports what rows tell.

Labels take few values, all known before: providers, lanes, endings, tasks. Never ids. A pool of processes counts
nothing here, since each would count for itself: of scoring, everything is in rows."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

_WAIT_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_CAGE_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)

CALLS_IN_FLIGHT = Gauge(
    "consensus_calls_in_flight",
    "Model calls under way in this process, those that wait for the governor included",
    ("provider",),
    registry=REGISTRY,
)
REFUSALS = Counter(
    "consensus_provider_refusals_total",
    "Answers that ask for fewer requests: rate_limited (a 429, or any refusal that states a wait), overloaded",
    ("provider", "kind"),
    registry=REGISTRY,
)
GOVERNOR_WAIT = Histogram(
    "consensus_governor_wait_seconds",
    "From asking the governor for a slot to holding it",
    ("provider", "lane"),
    buckets=_WAIT_SECONDS,
    registry=REGISTRY,
)
GOVERNOR_TIMEOUTS = Counter(
    "consensus_governor_timeouts_total",
    "Waits that were given up because they would have lasted too long; the seat comes back later",
    ("provider", "lane"),
    registry=REGISTRY,
)
GOVERNOR_ALONE = Gauge(
    "consensus_governor_alone",
    "1 while Redis is away and this process keeps to its own share of the limits",
    registry=REGISTRY,
)
CAGES_RUNNING = Gauge("consensus_cages_running", "Programs in cages of this process", registry=REGISTRY)
CAGES_ENDED = Counter(
    "consensus_cages_ended_total",
    "Programs that ran in a cage: exited by themselves, or killed (timed_out, out_of_memory, output_limit)",
    ("ending",),
    registry=REGISTRY,
)
CAGE_DURATION = Histogram(
    "consensus_cage_duration_seconds",
    "From the start of a cage to the end of its program's output",
    buckets=_CAGE_SECONDS,
    registry=REGISTRY,
)
CAGES_REFUSED = Counter(
    "consensus_cages_refused_total",
    "Programs that were not run for want of a cage",
    ("reason",),
    registry=REGISTRY,
)
CAGES_BROKEN = Counter(
    "consensus_cages_broken_total", "Cages whose engine failed on the way", registry=REGISTRY
)
