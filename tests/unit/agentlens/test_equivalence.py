import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agentlens.steps import edit, finish, listing, shell, think, view
from workers.agentlens.equivalence import Codebook, confidence, confidence_matrix, signature
from workers.agentlens.trajectory import Intent, State


def sure(a: State, b: State) -> float:
    """The confidence of a pair, which the matrix must give too."""
    book = Codebook()
    value = confidence(signature(a), signature(b))
    matrix = confidence_matrix(book.encode([signature(a)]), book.encode([signature(b)]), threshold=0.70)
    assert matrix[0, 0] == pytest.approx(value)
    return value


def test_same_content_at_the_same_path_is_certain_whatever_the_intent() -> None:
    assert sure(view("a.py", (1, 9)), view("a.py", (1, 9), intent=Intent.V)) == 1.0


def test_the_same_text_in_two_files_is_not_the_same_step() -> None:
    assert sure(edit("a.py", "x", "y"), edit("b.py", "x", "y")) == 0.0


def test_one_file_and_scope_is_090_even_if_the_lines_are_far_apart() -> None:
    a = edit("a.py", "x", "y", at=(10, 12), scope="C.f")
    assert sure(a, edit("a.py", "p", "q", at=(90, 91), scope="C.f")) == 0.90


def test_overlapping_lines_score_by_their_jaccard_index() -> None:
    # 1-10 and 6-15 share 5 of 15 lines: ρ = 1/3, 0.80 + 0.15·(1/3 − 0.30)/0.70 = 0.80714…
    assert sure(view("a.py", (1, 10)), view("a.py", (6, 15))) == pytest.approx(0.8071428571)
    # 1-10 and 2-10 share 9 of 10: ρ = 0.9, 0.80 + 0.15·0.6/0.7 = 0.92857…
    assert sure(view("a.py", (1, 10)), view("a.py", (2, 10))) == pytest.approx(0.9285714286)


def test_one_line_is_a_range_too() -> None:
    # the same line whole: 0.80 + 0.15; one of two lines: ρ = ½, 0.80 + 0.15·0.2/0.7 = 0.84286
    one = edit("a.py", "x", "y", at=(5, 5))
    assert sure(one, edit("a.py", "p", "q", at=(5, 5))) == pytest.approx(0.95)
    assert sure(one, edit("a.py", "p", "q", at=(5, 6))) == pytest.approx(0.8428571429)
    assert sure(one, edit("a.py", "p", "q", at=(6, 6))) == 0.0


def test_reads_of_distant_ranges_of_a_file_differ() -> None:
    assert sure(view("a.py", (1, 10)), view("a.py", (500, 520))) == 0.0
    # 1-10 and 8-20: 3 of 20 lines, ρ = 0.15 < 0.30
    assert sure(view("a.py", (1, 10)), view("a.py", (8, 20))) == 0.0


def test_lines_counted_from_the_end_match_among_themselves_only() -> None:
    # the last 10 and the last 20 lines share 10 of 20: 0.80 + 0.15·0.2/0.7 = 0.84286
    a, b = shell("tail -n 10 a.py", intent=Intent.E), shell("tail -n 20 a.py", intent=Intent.E)
    assert sure(a, b) == pytest.approx(0.8428571429)
    assert sure(a, view("a.py", (1, 10))) == 0.0


def test_absurd_line_numbers_are_taken_as_the_end_of_the_file() -> None:
    assert sure(view("a.py", (1, 10**15)), view("a.py", (1, 10**12))) == pytest.approx(0.95)
    assert sure(view("a.py", (1, 10**15)), view("a.py", (5, 9))) == 0.0


def test_two_whole_file_views_match_and_a_range_does_not_match_a_whole_file() -> None:
    assert sure(view("a.py"), view("a.py", intent=Intent.E, scope=None)) == 1.0
    assert sure(shell("cat a.py", intent=Intent.E), view("a.py")) == 0.80
    assert sure(view("a.py"), view("a.py", (1, 5))) == 0.0


def test_levels_two_to_four_need_equal_intent_and_family() -> None:
    assert sure(edit("a.py", "x", "y", at=(1, 5)), view("a.py", (1, 5))) == 0.0
    assert sure(view("a.py", (1, 10)), view("a.py", (2, 10), intent=Intent.V)) == 0.0
    assert sure(shell("pytest a"), shell("pytest b", intent=Intent.E)) == 0.0


def test_checks_are_one_group_with_confidence_by_program_target_and_flags() -> None:
    # other target, other flags: 0.70 + 0.05 for the program
    assert sure(shell("pytest tests/a.py"), shell("pytest -q tests/b.py")) == pytest.approx(0.75)
    # program and flags agree
    assert sure(shell("pytest tests/a.py"), shell("pytest tests/b.py")) == pytest.approx(0.80)
    # program and target agree, flags do not
    assert sure(shell("pytest tests/a.py"), shell("pytest -q tests/a.py")) == pytest.approx(0.80)
    # nothing agrees but the group
    assert sure(shell("pytest -x tests/a.py"), shell("tox -e py")) == pytest.approx(0.70)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("cat a.py", "cat b.py"),
        ("grep -rn foo src", "grep -rn bar src"),
        ("ls src", "ls docs"),
        ("git log a.py", "git log b.py"),
    ],
)
def test_shell_lines_that_look_at_different_things_differ(a: str, b: str) -> None:
    assert sure(shell(a, intent=Intent.E), shell(b, intent=Intent.E)) == 0.0


def test_two_listings_of_one_folder_match_whether_tool_or_shell() -> None:
    assert sure(listing("src"), shell("ls src", intent=Intent.E)) == 0.80
    assert sure(listing("src"), listing("docs")) == 0.0


def test_searches_for_one_identifier_match() -> None:
    a, b = shell("grep -rn 'def needle' src", intent=Intent.E), shell("grep -n needle src", intent=Intent.E)
    # program and target agree, flags do not
    assert sure(a, b) == pytest.approx(0.80)


def test_bookkeeping_matches_on_finish_only() -> None:
    assert sure(finish(), finish()) == 1.0
    assert sure(think(), think()) == 0.0


def test_confidences_under_the_threshold_are_no_match() -> None:
    book = Codebook()
    rows = book.encode([signature(shell("pytest a"))])
    columns = book.encode([signature(shell("pytest -q b")), signature(shell("pytest b"))])
    # 0.75 and 0.80
    assert confidence_matrix(rows, columns, threshold=0.80).tolist() == [[0.0, pytest.approx(0.80)]]


PATHS = st.sampled_from(["a.py", "src/b.py"])
RANGES = st.none() | st.tuples(st.integers(1, 30), st.integers(0, 20)).map(lambda t: (t[0], t[0] + t[1]))
STEPS = st.one_of(
    st.builds(lambda p, r, i: view(p, r, intent=i), PATHS, RANGES, st.sampled_from([Intent.E, Intent.V])),
    st.builds(lambda p, r, s: edit(p, "x", s, at=r, scope=s), PATHS, RANGES, st.sampled_from(["f", "g"])),
    st.sampled_from(
        ["pytest a", "pytest -q b", "tox", "cat a.py", "grep foo a.py", "ls", "python x.py", "pip install x"]
    ).map(shell),
    st.just(think()),
    st.just(finish()),
)


@given(st.lists(STEPS, max_size=8), st.lists(STEPS, max_size=8), st.sampled_from([0.70, 0.80, 0.95]))
def test_the_matrix_holds_the_confidence_of_every_pair(
    rows: list[State], columns: list[State], threshold: float
) -> None:
    book = Codebook()
    a, b = [signature(s) for s in rows], [signature(s) for s in columns]
    matrix = confidence_matrix(book.encode(a), book.encode(b), threshold=threshold)
    assert matrix.shape == (len(a), len(b))
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            expected = confidence(one, other)
            assert matrix[i, j] == pytest.approx(expected if expected >= threshold else 0.0)


@given(STEPS, STEPS)
def test_confidence_is_symmetric_and_zero_or_at_least_070(a: State, b: State) -> None:
    value = sure(a, b)
    assert value == sure(b, a)
    assert value == 0.0 or 0.70 <= value <= 1.0
