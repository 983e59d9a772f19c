"""What the code does not bear out is kept and not counted (PANEL §2.1)."""

from __future__ import annotations

import pytest

from tests.cpu_time import within_cpu_seconds
from tests.factories import FILES, make_finding, make_review
from workers.core.artefact import Span
from workers.core.consensus import tally
from workers.core.finding import Evidence, Evidenced, unsupported_reason


def span(start: int, end: int, path: str = "a.py") -> Span:
    return Span(path=path, start=start, end=end)


def quotes(*texts: str, path: str = "a.py") -> tuple[Evidence, ...]:
    return tuple(Evidence(path=path, line=1, quote=text) for text in texts)


@pytest.mark.parametrize(
    "changes",
    [
        {"span": span(1, 1, "b.py")},
        {"span": span(1, 1, "./a.py")},
        {"span": span(1, 1, "A.py")},
        {"span": span(1, 1, "")},
        {"span": span(0, 1)},
        {"span": span(-3, 2)},
        {"span": span(10, 11)},  # the file has ten lines
        {"span": span(11, 11)},
        {"span": span(5, 4)},
        {"span": span(1, 10**30)},
        {"evidence": quotes("line_3 = 4")},
        {"evidence": quotes("")},
        {"evidence": quotes(" \t\n")},
        {"evidence": quotes("line_3=3")},  # white space is folded, not removed
        {"evidence": quotes("line_3 = 3", "invented")},  # one bad quote spoils the finding
        {"evidence": quotes("line_3 = 3", path="b.py")},
        {"evidence": quotes("line_3 = 3\x00")},
    ],
)
def test_a_finding_that_the_code_does_not_bear_out_is_not_counted(changes: dict[str, object]) -> None:
    finding = make_finding(**changes)  # type: ignore[arg-type]
    counted = tally([make_review("rigor", finding)], FILES)
    assert counted.claims == ()
    assert [item.finding_id for item in counted.unsupported] == ["rigor/1/1"]
    assert counted.unsupported[0].reason == unsupported_reason(finding, Evidenced(FILES))
    assert counted.reviewers == ("rigor",), "the review is valid all the same and stays in the denominator"


@pytest.mark.parametrize(
    "changes",
    [
        {"span": span(1, 10)},
        {"span": span(10, 10)},
        {"evidence": quotes("line_3   =\t3")},
        {"evidence": quotes("  line_3 = 3\n")},
        {"evidence": quotes("line_3 = 3\r\nline_4 = 4")},  # a quote may run over lines
        {"evidence": quotes("line_9 = 9")},  # the quote may stand elsewhere than the finding points
        {"evidence": ()},  # nothing quoted: held to its place alone
    ],
)
def test_a_finding_that_the_code_bears_out_counts(changes: dict[str, object]) -> None:
    counted = tally([make_review("rigor", make_finding(**changes))], FILES)  # type: ignore[arg-type]
    assert len(counted.claims) == 1
    assert counted.unsupported == ()


def test_an_empty_file_has_no_line_to_point_at() -> None:
    finding = make_finding(span=span(1, 1), evidence=())
    assert unsupported_reason(finding, Evidenced({"a.py": ""})) == "lines 1-1 are outside the file's 0"


def test_reasons_name_what_is_wrong() -> None:
    artefact = Evidenced(FILES)
    assert unsupported_reason(make_finding(span=span(1, 1, "b.py")), artefact) == "there is no file 'b.py'"
    assert (
        unsupported_reason(make_finding(span=span(9, 12)), artefact) == "lines 9-12 are outside the file's 10"
    )
    assert (
        unsupported_reason(make_finding(evidence=quotes("nope")), artefact)
        == "the quote is not found in 'a.py'"
    )


def test_many_quotes_of_a_large_file_are_looked_up_in_bounded_time() -> None:
    text = "".join(f"value_{number} = {number}\n" for number in range(20_000))
    evidence = quotes(*["value_19999 = 19999"] * 20)
    reviews = [
        make_review(
            f"r{seat}",
            *(
                make_finding(f"claim {seat} {number}", reviewer=f"r{seat}", number=number, evidence=evidence)
                for number in range(40)
            ),
        )
        for seat in range(5)
    ]
    # half a second; folding the file for each quote took 20
    within_cpu_seconds(5, lambda: tally(reviews, {"a.py": text}))
