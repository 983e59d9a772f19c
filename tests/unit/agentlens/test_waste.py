"""The finer points of each detector of waste, and what of its findings is charged."""

import pytest

from tests.unit.agentlens.steps import edit, listing, patch, run, shell, think, undo, view
from tests.unit.agentlens.waste_patterns import SHOWN, found
from workers.agentlens.trajectory import Intent, State
from workers.agentlens.waste import blind_retries, blind_retry, charge, scan


def test_news_between_two_tries_makes_the_second_one_no_retry() -> None:
    fail = shell("pytest t", outcome="error", seen="E")
    assert found("blind_retry", (fail, edit("a.py"), fail)) == []
    assert found("blind_retry", (fail, view("new.py"), fail)) == []
    assert found("blind_retry", (fail, shell("tox", outcome="error", seen="F"), fail)) == []
    # a file read before is no news, nor is a thought; the error itself was news to the second look
    seen = view("old.py")
    assert found("blind_retry", (seen, fail, seen, think(), fail))[0].steps == (4,)


def test_another_answer_to_the_same_command_is_no_retry() -> None:
    assert found("blind_retry", (shell("date", seen="1"), shell("date", seen="2"))) == []


def test_an_edit_that_failed_and_comes_back_almost_alike_is_a_retry() -> None:
    text = " ".join(f"w{n}" for n in range(20))
    # 20 words and the separator on the old side, 20 new ones: 1 of 41 words differs, Dice 2·40/82 = 0.976
    first = edit("a.py", text, text + "!", outcome="error")
    second = edit("a.py", text, text + "?", outcome="error")
    assert found("blind_retry", (first, second))[0].steps == (1,)
    assert found("blind_retry", (first, edit("a.py", "x", "y"))) == []


def test_edits_are_alike_from_nine_tenths_of_their_words_on() -> None:
    nine = edit("a.py", "a b c d", "e f g h", outcome="error")  # 4 + the separator + 4
    # 11 words, 9 shared: Dice 2·9/20 = 0.9; 12 words: 18/21
    assert found("blind_retry", (nine, edit("a.py", "a b c d", "e f g h i j")))[0].steps == (1,)
    assert found("blind_retry", (nine, edit("a.py", "a b c d", "e f g h i j k"))) == []


def test_edits_that_were_made_are_no_retry_of_each_other_however_alike() -> None:
    text = " ".join(f"w{n}" for n in range(20))
    assert found("blind_retry", (edit("a.py", text, text + "!"), edit("a.py", text, text + "?"))) == []


def test_an_edit_that_failed_as_one_before_is_no_news() -> None:
    fail = shell("pytest t", outcome="error", seen="E")
    first, second = (edit("a.py", old, "new", outcome="error", observation="none found") for old in "pq")
    assert [f.steps for f in found("blind_retry", (first, fail, second, fail))] == [(3,)]


def test_a_bar_in_a_name_stays_in_the_sentence() -> None:
    look = view("a|b.py")
    assert [finding.evidence for finding in scan(run(look, look).trace)] == [
        "view a|b.py was tried 1 more time(s) without news",
        "view a|b.py was looked at 1 more time(s), unchanged",
    ]


def test_blind_retries_are_counted_for_coherence() -> None:
    states, _ = SHOWN["blind_retry"]
    mine = run(*states)
    assert sum(len(f.steps) for f in blind_retry.find(mine.trace)) == 2
    # a look repeated after an edit elsewhere is redundant, not a retry
    look = view("a.py", (1, 40))
    both = run(*states, look, edit("b.py"), look)
    assert {f.category for f in both.findings} == {"blind_retry", "redundant_step"}
    assert blind_retries(both.findings) == 2


def test_one_repair_round_is_no_regression_loop() -> None:
    states, _ = SHOWN["regression_loop"]
    assert found("regression_loop", states[:4]) == []


def test_an_edit_elsewhere_in_the_file_breaks_the_loop() -> None:
    states, _ = SHOWN["regression_loop"]
    assert found("regression_loop", (*states[:4], edit("a.py", "3", "4", at=(90, 95)))) == []


def test_taking_an_edit_back_wastes_both_edits_and_the_failed_checks_between() -> None:
    fail = shell("pytest t", outcome="error", seen="E")
    back = found("regression_loop", (edit("a.py", "x", "y"), view("b.py"), fail, edit("a.py", "y", "x")))
    assert [finding.steps for finding in back] == [(0, 2, 3)]
    undone = found("regression_loop", (edit("a.py", "x", "y"), undo("a.py")))
    assert [finding.steps for finding in undone] == [(0, 1)]


def test_an_edit_that_failed_took_nothing_and_is_not_taken_back() -> None:
    assert found("regression_loop", (edit("a.py", "x", "y", outcome="error"), edit("a.py", "y", "x"))) == []


def test_an_edit_taken_back_says_where_it_was_made_and_where_it_ended() -> None:
    fail = shell("pytest t", outcome="error", seen="E")
    (back,) = found("regression_loop", (edit("a.py", "x", "y"), fail, edit("a.py", "y", "x")))
    assert back.evidence == "an edit of a.py at step 0 was taken back at step 2"
    assert (back.pattern, back.repeats) == ("undo a.py", 1)
    assert back.hint == "try the idea in a scratch file first"


def rounds(path: str, *places: tuple[int, int]) -> tuple[State, ...]:
    """An edit of each place with other texts, and a failing check after each."""
    return tuple(
        step
        for n, at in enumerate(places)
        for step in (
            edit(path, f"{path} old {n}", f"{path} new {n}", at=at),
            shell("pytest t", outcome="error", seen=f"{path} E{n}"),
        )
    )


def test_places_are_one_region_from_three_tenths_of_their_lines_on() -> None:
    # 18-20 is 3 of the 10 lines 11-20; 18-21 shares 3 of 11 with them
    assert found("regression_loop", rounds("a.py", (11, 20), (18, 20), (18, 20)))[0].steps == (2, 3, 4, 5)
    assert found("regression_loop", rounds("a.py", (11, 20), (18, 21), (18, 21))) == []


def test_a_loop_stays_found_when_an_edit_elsewhere_ends_it() -> None:
    loops = [
        (*rounds(path, (5, 9), (5, 9), (5, 9)), edit(path, "p", "q", at=(90, 95))) for path in ("a", "b")
    ]
    # each loop is 6 steps and an edit elsewhere; from its second edit to its last failing check
    assert [(f.pattern, f.steps, f.repeats) for f in found("regression_loop", (*loops[0], *loops[1]))] == [
        ("a", (2, 3, 4, 5), 2),
        ("b", (9, 10, 11, 12), 2),
    ]


def test_an_edit_taken_back_is_found_whichever_file_of_a_patch_it_was_in() -> None:
    both = patch(("a.py", "x", "y"), ("b.py", "p", "q"))
    (back,) = found("regression_loop", (both, view("c.py"), edit("b.py", "q", "p")))
    assert (back.steps, back.pattern) == ((0, 2), "undo b.py")
    (undone,) = found("regression_loop", (both, undo("b.py")))
    assert (undone.steps, undone.pattern) == ((0, 1), "undo b.py")
    # the same two texts in two files are two edits
    assert found("regression_loop", (both, edit("a.py", "q", "p"))) == []


def test_rounds_of_repair_are_followed_in_every_file_of_a_patch() -> None:
    first = patch(("a.py", "x", "y"), ("b.py", "1", "2"))
    second = patch(("c.py", "r", "s"), ("b.py", "2", "3"))
    third = edit("b.py", "3", "4")
    fails = [shell("pytest t", outcome="error", seen=said) for said in ("E1", "E2")]
    (loop,) = found("regression_loop", (first, fails[0], second, fails[1], third))
    # b.py: 1 → 2 → 3 → 4, each time on the text just written; from the second edit to the last failing check
    assert (loop.steps, loop.pattern, loop.repeats) == ((2, 3), "b.py", 2)


def test_looking_again_after_a_write_to_that_file_is_not_redundant() -> None:
    look = view("a.py", (1, 40))
    assert found("redundant_step", (look, patch(("b.py", "p", "q"), ("a.py", "x", "y")), look)) == []
    assert found("redundant_step", (look, edit("a.py"), look)) == []
    assert found("redundant_step", (look, edit("b.py"), look))[0].steps == (2,)


def test_ranges_are_one_look_from_four_fifths_of_their_lines_on() -> None:
    look = view("a.py", (11, 14))
    assert found("redundant_step", (look, view("a.py", (11, 15))))[0].steps == (1,)  # 4 of 5 lines
    assert found("redundant_step", (view("a.py", (11, 13)), look)) == []  # 3 of 4
    assert found("redundant_step", (look, view("a.py", (500, 510)))) == []
    assert found("redundant_step", (look, view("b.py", (11, 14)))) == []


def test_a_listing_is_new_after_any_write_and_not_after_a_check() -> None:
    look = listing("src")
    assert found("redundant_step", (look, shell("pytest t"), look))[0].steps == (2,)
    assert found("redundant_step", (look, edit("a.py"), look)) == []
    assert found("redundant_step", (look, undo("a.py"), look)) == []
    assert found("redundant_step", (view("a.py"), undo("a.py"), view("a.py"))) == []


def test_a_look_that_failed_may_be_repeated() -> None:
    failed = view("a.py", outcome="error")
    assert found("redundant_step", (failed, view("a.py"))) == []


def test_exploring_before_the_check_or_on_edited_files_is_necessary() -> None:
    looks = (view("b.py"), view("c.py"))
    assert found("unnecessary_exploration", (edit("a.py"), *looks, shell("pytest t"))) == []
    assert (
        found("unnecessary_exploration", (edit("a.py"), shell("pytest t"), view("a.py"), view("b.py"))) == []
    )
    assert found("unnecessary_exploration", (edit("a.py"), shell("pytest t", outcome="error"), *looks)) == []


def test_only_an_executed_check_of_a_patch_ends_necessary_exploration() -> None:
    looks = (view("b.py"), view("c.py"))
    assert found("unnecessary_exploration", (shell("pytest t"), *looks)) == []
    assert found("unnecessary_exploration", (edit("a.py"), view("a.py", intent=Intent.V), *looks)) == []
    executed = (edit("a.py"), shell("python repro.py"), *looks)
    assert found("unnecessary_exploration", executed)[0].steps == (2, 3)


def test_exploration_names_three_of_its_files_and_a_step_without_one_by_its_action() -> None:
    looks = (*(view(f"{name}.py") for name in "edcb"), shell("git log", intent=Intent.E))
    (finding,) = found("unnecessary_exploration", (edit("a.py"), shell("pytest t"), *looks))
    assert finding.pattern == "b.py c.py d.py e.py view|git log"
    assert finding.evidence == "5 steps explored b.py, c.py, d.py after the patch had been verified"


def test_exploration_that_the_reference_matches_is_not_charged() -> None:
    states, steps = SHOWN["unnecessary_exploration"]
    mine = run(*states)
    assert charge(mine.trace, mine.findings, matched=frozenset({steps[0]})).steps == ()
    assert charge(mine.trace, mine.findings).steps == steps


def test_a_regression_loop_keeps_only_the_steps_that_the_reference_does_not_match() -> None:
    states, steps = SHOWN["regression_loop"]
    mine = run(*states)
    charged = charge(mine.trace, mine.findings, matched=frozenset({steps[0]}))
    assert [f.steps for f in charged.findings if f.category == "regression_loop"] == [steps[1:]]


def test_one_action_repeated_is_no_cycle_and_the_shortest_period_counts_once() -> None:
    assert found("cyclic_pattern", tuple(view("a.py", (n, n)) for n in range(1, 7))) == []
    a, b = view("a.py"), view("b.py")
    # a b × 4 has period 2, and 4 as well: found once, 3 repetitions of 2 steps
    (finding,) = found("cyclic_pattern", (a, b) * 4)
    assert (finding.repeats, finding.steps) == (3, (2, 3, 4, 5, 6, 7))


def test_one_cycle_hides_no_other() -> None:
    a, b, c, d, e = (view(f"{name}.py") for name in "abcde")
    # four looks at one file are no cycle of two, and the cycle after them is one: 6 and 7 repeat 4 and 5
    same = tuple(view("z.py", (n, n)) for n in range(1, 5))
    assert [f.steps for f in found("cyclic_pattern", (*same, *(a, b) * 2))] == [(6, 7)]
    # one of period 2 from step 1 on and one of period 3 right behind it
    two = (view("z.py"), *(a, b) * 2, *(c, d, e) * 2)
    assert [f.steps for f in found("cyclic_pattern", two)] == [(3, 4), (8, 9, 10)]


def test_a_cycle_is_the_same_pattern_wherever_it_starts() -> None:
    a, b, c = view("a.py"), view("b.py"), view("c.py")
    (one,) = found("cyclic_pattern", (a, b, c) * 2)
    (other,) = found("cyclic_pattern", (b, c, a) * 2)
    assert one.pattern == other.pattern


def test_a_donor_that_repeats_less_excuses_nothing() -> None:
    a, b = view("a.py"), view("b.py")
    mine, donor = run(*(a, b) * 4), run(*(a, b) * 2)
    kept = charge(mine.trace, mine.findings, donors=[donor.findings]).findings
    assert "cyclic_pattern" in {finding.category for finding in kept}


def test_a_finding_that_is_excused_excuses_no_later_one() -> None:
    look, other = view("a.py", (1, 40)), view("b.py", (1, 40))
    mine = run(look, other, think(), look, edit("c.py"), other)
    first, second = (f for f in mine.findings if f.category == "redundant_step")
    assert charge(mine.trace, [first, second], donors=[[first]]).findings == (second,)
    states, _ = SHOWN["unnecessary_exploration"]
    longer = run(*states, look, look)
    explored, *rest = sorted(longer.findings, key=lambda f: f.category != "unnecessary_exploration")
    assert rest
    matched = frozenset(explored.steps)
    assert charge(longer.trace, [explored, *rest], matched=matched).findings == tuple(rest)


@pytest.mark.parametrize(
    ("known", "tokens"),
    [
        ({"tokens_in": 100, "tokens_out": None}, 100),
        ({"tokens_in": None, "tokens_out": 7}, 7),
        ({"tokens_in": 100, "tokens_out": 0}, 100),
        ({"tokens_in": 0, "tokens_out": 7}, 7),
    ],
)
def test_tokens_known_on_one_side_only_count_as_they_are(known: dict[str, int | None], tokens: int) -> None:
    look = view("a.py", (1, 40), **known)
    mine = run(look, look)
    assert charge(mine.trace, mine.findings).tokens == tokens


def test_tokens_of_wasted_steps_are_added_where_known() -> None:
    look = view("a.py", (1, 40), tokens_in=100, tokens_out=7)
    mine = run(look, look, look)
    assert charge(mine.trace, mine.findings).tokens == 2 * 107
    blind = run(view("a.py"), view("a.py"))
    assert charge(blind.trace, blind.findings).tokens is None
