"""Tests of the simulated coder's programs, by sentence of their specs.

`GOOD` holds what must be true of a good solution; `SHOWS` names, for each planted bug, the check that a
program with this bug fails. The programs are this repository's own files, so they are simply imported."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

Check = Callable[[ModuleType], None]


class Clock:
    """Seconds that a test sets by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def intervals_touching(program: ModuleType) -> None:
    assert program.merge([(1, 3), (3, 5)]) == [(1, 5)]


def intervals_nested(program: ModuleType) -> None:
    assert program.merge([(1, 9), (2, 3)]) == [(1, 9)]


def intervals_rest(program: ModuleType) -> None:
    given = [(8, 9), (1, 4), (2, 6)]
    assert program.merge(given) == [(1, 6), (8, 9)]
    assert given == [(8, 9), (1, 4), (2, 6)]
    assert program.merge([]) == []
    with pytest.raises(ValueError, match=r"\(5, 2\)"):
        program.merge([(1, 2), (5, 2)])


def roman_grammar(program: ModuleType) -> None:
    for text in ("IIII", "VIIII", "IC", "VX", "XM", "IVI"):
        with pytest.raises(ValueError, match=text):
            program.from_roman(text)


def roman_zero(program: ModuleType) -> None:
    for number in (0, -1, 4000):
        with pytest.raises(ValueError, match=str(number)):
            program.to_roman(number)


def roman_small_letters(program: ModuleType) -> None:
    assert program.from_roman("xiv") == 14
    assert program.from_roman("McmxciV") == 1994


def roman_rest(program: ModuleType) -> None:
    assert program.to_roman(1994) == "MCMXCIV"
    assert all(program.from_roman(program.to_roman(number)) == number for number in range(1, 4000))
    # The dotless i (U+0131) turns into I in capitals, and is no Roman digit all the same.
    for text in ("", " ", "X ", "ABC", "\u0131"):
        with pytest.raises(ValueError, match="not a Roman numeral"):
            program.from_roman(text)
    for value in (True, 3.0, "3"):
        with pytest.raises(TypeError):
            program.to_roman(value)


def csv_quotes(program: ModuleType) -> None:
    assert program.split_line('"say ""hi""",2') == ['say "hi"', "2"]


def csv_last_field(program: ModuleType) -> None:
    assert program.split_line("a,") == ["a", ""]
    assert program.split_line(",") == ["", ""]


def csv_rest(program: ModuleType) -> None:
    assert program.split_line("") == [""]
    assert program.split_line('a, b ,"c,d",e"f') == ["a", " b ", "c,d", 'e"f']
    assert program.split_line("a;b,c", separator=";") == ["a", "b,c"]
    for line, column in (('a,"b', 3), ('"a"b', 4)):
        with pytest.raises(ValueError, match=f"column {column}"):
            program.split_line(line)
    for separator in ("", ",,", '"'):
        with pytest.raises(ValueError, match="separator"):
            program.split_line("a", separator)


def ttl_boundary(program: ModuleType) -> None:
    clock = Clock()
    cache = program.TtlCache(2, 10, clock)
    cache.put("a", 1)
    clock.seconds = 9.5
    assert cache.get("a") == 1
    clock.seconds = 10
    assert len(cache) == 0
    assert cache.get("a", "gone") == "gone"


def ttl_order(program: ModuleType) -> None:
    cache = program.TtlCache(2, 10, Clock())
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def ttl_rest(program: ModuleType) -> None:
    clock = Clock()
    cache = program.TtlCache(2, 10, clock)
    cache.put("old", 1)
    clock.seconds = 6
    cache.put("new", 2)
    cache.put("new", 3)
    clock.seconds = 12
    cache.put("newer", 4)
    assert (cache.get("old"), cache.get("new"), cache.get("newer"), len(cache)) == (None, 3, 4, 2)
    for capacity, ttl_seconds in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="0"):
            program.TtlCache(capacity, ttl_seconds, clock)


def duration_unread(program: ModuleType) -> None:
    for text in ("1h30", "30m1h", "1h1h", "1h 30m", "1hx"):
        with pytest.raises(ValueError, match=text):
            program.parse_seconds(text)


def duration_empty(program: ModuleType) -> None:
    for text in ("", "   "):
        with pytest.raises(ValueError, match=repr(text)):
            program.parse_seconds(text)


def duration_rest(program: ModuleType) -> None:
    assert program.parse_seconds("1d2h3m4s") == 93_784  # 86,400 + 7,200 + 180 + 4
    assert program.parse_seconds(" 90M ") == 5400
    assert program.parse_seconds("007s") == 7
    # U+0665 is an Arabic-Indic five, U+017F a long s that equals s when case is ignored.
    for text in ("h", "-1h", "1.5h", "\u0665s", "5\u017f", "1234567890s"):
        with pytest.raises(ValueError, match="duration"):
            program.parse_seconds(text)


def path_sibling(program: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"\.\./data-old/key"):
        program.safe_join("/srv/data", "../data-old/key")


def path_absolute_part(program: ModuleType) -> None:
    with pytest.raises(ValueError, match="/etc"):
        program.safe_join("/srv", "/etc")


def path_rest(program: ModuleType) -> None:
    assert program.safe_join("/srv//data/.", "a//b", "../c/") == "/srv/data/a/c"
    assert program.safe_join("/srv/data/") == "/srv/data"
    assert program.safe_join("/", "etc") == "/etc"
    assert program.safe_join("/") == "/"
    assert program.safe_join("/srv", "a/../..", "srv/x") == "/srv/x"
    for part in ("..", "a/../../b", "a\\b", "a\0b"):
        with pytest.raises(ValueError, match=r"leads out|holds a backslash"):
            program.safe_join("/srv/data", part)
    with pytest.raises(ValueError, match="srv"):
        program.safe_join("srv", "a")


def bucket_overflow(program: ModuleType) -> None:
    clock = Clock()
    bucket = program.TokenBucket(2, 1, clock)
    clock.seconds = 100
    assert [bucket.try_take() for _ in range(3)] == [True, True, False]


def bucket_backwards(program: ModuleType) -> None:
    clock = Clock()
    clock.seconds = 10
    bucket = program.TokenBucket(4, 1, clock)
    assert bucket.try_take(2)
    clock.seconds = 0
    assert bucket.try_take(2)
    clock.seconds = 1
    assert bucket.seconds_until(2) == 1.0  # one second after the new reading one token is back


def bucket_rest(program: ModuleType) -> None:
    clock = Clock()
    bucket = program.TokenBucket(2, 0.5, clock)
    assert bucket.try_take(2)
    assert bucket.seconds_until() == 2.0
    clock.seconds = 1
    assert not bucket.try_take()
    assert bucket.seconds_until() == 1.0
    clock.seconds = 2
    assert bucket.try_take()
    for amount in (0, -1, 3):
        with pytest.raises(ValueError, match=str(amount)):
            bucket.try_take(amount)
    for capacity, refill_per_second in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="above 0"):
            program.TokenBucket(capacity, refill_per_second, clock)


def order_tail(program: ModuleType) -> None:
    with pytest.raises(program.CycleError) as caught:
        program.order({"a": ["b"], "b": ["c"], "c": ["b"]})
    assert caught.value.cycle == ["b", "c"]


def order_alphabet(program: ModuleType) -> None:
    assert program.order({"b": [], "a": [], "c": []}) == ["a", "b", "c"]


def order_rest(program: ModuleType) -> None:
    needs = {"build": ["fetch", "configure"], "configure": ["fetch"]}
    assert program.order(needs) == ["fetch", "configure", "build"]
    assert needs == {"build": ["fetch", "configure"], "configure": ["fetch"]}
    assert program.order({}) == []
    for cyclic, cycle in (({"x": ["x"]}, ["x"]), ({"c": ["a"], "a": ["b"], "b": ["c"]}, ["a", "b", "c"])):
        with pytest.raises(program.CycleError) as caught:
            program.order(cyclic)
        assert caught.value.cycle == cycle
    assert issubclass(program.CycleError, ValueError)


def money_remainders(program: ModuleType) -> None:
    assert program.split(1, [0, 1]) == [0, 1]
    # 10 * 1/6 = 1.67, 10 * 2/6 = 3.33, 10 * 3/6 = 5: the cent left over goes to the first
    assert program.split(10, [1, 2, 3]) == [2, 3, 5]
    # 11 * 2/6 = 3.67, 11 * 3/6 = 5.5, 11 * 1/6 = 1.83: the two cents go to the third and the first
    assert program.split(11, [2, 3, 1]) == [4, 5, 2]


def money_sign(program: ModuleType) -> None:
    assert program.split(-5, [1]) == [-5]
    assert program.split(-10, [1, 2, 3]) == [-part for part in program.split(10, [1, 2, 3])]


def money_rest(program: ModuleType) -> None:
    assert program.split(100, [1, 1, 1]) == [34, 33, 33]
    assert program.split(0, [1, 2]) == [0, 0]
    large = 10**30 + 1
    assert sum(program.split(large, [3, 7, 11])) == large
    for weights in ([], [1, -1], [0, 0]):
        with pytest.raises(ValueError, match="weights"):
            program.split(1, weights)


def search_executes(program: ModuleType) -> None:
    for term in ("age>2*3", "age<len('ab')", "age>"):
        with pytest.raises(ValueError, match="whole number"):
            program.matches(term, {"age": 9})


def search_case(program: ModuleType) -> None:
    assert program.matches("name:ANN", {"name": "Ann"})
    assert program.matches("aNn", {"name": "Ann"})


def search_rest(program: ModuleType) -> None:
    record = {"name": "Ann Lee", "age": 41, "town": "Ulm"}
    for query in ("", "  ", "age>40 age<42", "age:4", "Lee town:Ulm", "age>-1"):
        assert program.matches(query, record), query
    for query in ("age>41", "age<41", "town>1", "size:4", "size>1", "ann bob", "9x:ann"):
        assert not program.matches(query, record), query
    with pytest.raises(ValueError, match="age>old"):
        program.matches("age>old", record)


def wrap_message(program: ModuleType) -> None:
    for width in (0, -3):
        with pytest.raises(ValueError, match=str(width)):
            program.wrap("a", width)


def wrap_exact_fit(program: ModuleType) -> None:
    assert program.wrap("ab cd ef", 5) == ["ab cd", "ef"]


def wrap_long_word(program: ModuleType) -> None:
    assert program.wrap("a bcdefgh i", 5) == ["a", "bcdef", "gh i"]


def wrap_rest(program: ModuleType) -> None:
    assert program.wrap("  one\ttwo\nthree  ", 8) == ["one two", "three"]
    assert program.wrap(" \n", 7) == []


def slug_whole_words(program: ModuleType) -> None:
    assert program.slugify("one two", 4) == "one"
    assert program.slugify("one two three", 9) == "one-two"


def slug_accents(program: ModuleType) -> None:
    assert program.slugify("Crème brûlée") == "creme-brulee"


def slug_rest(program: ModuleType) -> None:
    assert program.slugify("  Hello,  World! 2 ") == "hello-world-2"
    assert program.slugify("one two", 7) == "one-two"
    assert program.slugify("wonderful", 6) == "wonder"
    assert program.slugify("!?") == program.slugify("") == ""
    for longest in (0, -2):
        with pytest.raises(ValueError, match=str(longest)):
            program.slugify("a", longest)


KEY = b"0123456789abcdef"


def token_expiry_is_signed(program: ModuleType) -> None:
    name, _, signature = program.issue("ann", KEY, 100).split(".")
    with pytest.raises(ValueError, match="invalid token"):
        program.verify(f"{name}.101.{signature}", KEY, 50)


def token_ends_at_its_second(program: ModuleType) -> None:
    assert program.verify(program.issue("ann", KEY, 100), KEY, 99.9) == "ann"
    with pytest.raises(ValueError, match="invalid token"):
        program.verify(program.issue("ann", KEY, 100), KEY, 100)


def token_rest(program: ModuleType) -> None:
    token = program.issue("Zoë", KEY, 100)
    assert program.verify(token, KEY, 0) == "Zoë"
    name, expires_at, signature = token.split(".")
    assert (bytes.fromhex(name).decode(), expires_at, len(signature)) == ("Zoë", "100", 64)
    forged = f"{b'bob'.hex()}.100.{signature}"
    for wrong in ("", "a.b", token + "0", token.upper(), forged, f"{name}.100.{'é' * 64}"):
        with pytest.raises(ValueError, match=r"^invalid token$"):
            program.verify(wrong, KEY, 0)
    for now, key in ((101, KEY), (0, KEY[::-1])):
        with pytest.raises(ValueError, match=r"^invalid token$"):
            program.verify(token, key, now)
    for user, key in (("", KEY), ("ann", KEY[1:])):
        with pytest.raises(ValueError, match=r"user|key"):
            program.issue(user, key, 100)


class Failing:
    """A call that raises these errors, then gives 7; `pauses` is what was slept."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.pauses: list[float] = []

    def __call__(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return 7

    def under(self, program: ModuleType, *, attempts: int = 3, random: float = 1.0) -> int:
        return program.retry(
            self,
            is_retryable=lambda error: not isinstance(error, TypeError),
            attempts=attempts,
            base_seconds=2,
            cap_seconds=3,
            sleep=self.pauses.append,
            random=lambda: random,
        )


def retry_jitter(program: ModuleType) -> None:
    failing = Failing(OSError(), OSError())
    assert failing.under(program, random=0.5) == 7
    # Half of 2, and half of the cap of 3, which is below 4.
    assert failing.pauses == [1.0, 1.5]


def retry_interrupt(program: ModuleType) -> None:
    for error in (KeyboardInterrupt(), SystemExit()):
        failing = Failing(error)
        with pytest.raises(type(error)):
            failing.under(program)
        assert failing.calls == 1


def retry_rest(program: ModuleType) -> None:
    failing = Failing(OSError("one"), OSError("two"), OSError("three"))
    with pytest.raises(OSError, match="three"):
        failing.under(program)
    assert (failing.calls, len(failing.pauses)) == (3, 2)
    failing = Failing(TypeError())
    with pytest.raises(TypeError):
        failing.under(program)
    assert (failing.calls, failing.pauses) == (1, [])
    stated = OSError()
    stated.retry_after_seconds = 9.0  # type: ignore[attr-defined]
    failing = Failing(stated)
    assert failing.under(program) == 7
    assert failing.pauses == [9.0]
    with pytest.raises(ValueError, match="0"):
        Failing().under(program, attempts=0)


def backup_without_shell(program: ModuleType) -> None:
    for folder in ("a; reboot", "$(id)", "--checkpoint-action=exec=id", "a b"):
        assert program.backup_command(folder, "x") == [
            "tar", "--create", "--gzip", "--file=/var/backups/x.tar.gz", "--", folder,
        ]  # fmt: skip


def backup_name(program: ModuleType) -> None:
    for name in ("../x", "a/b", "a.b", "-x", "é"):
        with pytest.raises(ValueError, match=name):
            program.backup_command("a", name)


def backup_rest(program: ModuleType) -> None:
    seen: list[list[str]] = []
    assert program.run_backup("a", "Day1", lambda arguments: seen.append(list(arguments)) or 0)
    assert not program.run_backup("a", "Day1", lambda _: 2)
    assert seen == [program.backup_command("a", "Day1")]
    for folder, name in (("", "x"), ("a", "")):
        with pytest.raises(ValueError, match=r"empty|name"):
            program.backup_command(folder, name)


GOOD: dict[str, tuple[Check, ...]] = {
    "intervals": (intervals_touching, intervals_nested, intervals_rest),
    "roman": (roman_grammar, roman_zero, roman_small_letters, roman_rest),
    "csv_line": (csv_quotes, csv_last_field, csv_rest),
    "ttl_cache": (ttl_boundary, ttl_order, ttl_rest),
    "duration": (duration_unread, duration_empty, duration_rest),
    "safe_join": (path_sibling, path_absolute_part, path_rest),
    "token_bucket": (bucket_overflow, bucket_backwards, bucket_rest),
    "toposort": (order_tail, order_alphabet, order_rest),
    "split_money": (money_remainders, money_sign, money_rest),
    "search_filter": (search_executes, search_case, search_rest),
    "word_wrap": (wrap_message, wrap_exact_fit, wrap_long_word, wrap_rest),
    "slug": (slug_whole_words, slug_accents, slug_rest),
    "session_token": (token_expiry_is_signed, token_ends_at_its_second, token_rest),
    "retry": (retry_jitter, retry_interrupt, retry_rest),
    "backup": (backup_without_shell, backup_name, backup_rest),
}

SHOWS: dict[tuple[str, str], Check] = {
    ("intervals", "touching"): intervals_touching,
    ("intervals", "nested"): intervals_nested,
    ("roman", "loose-grammar"): roman_grammar,
    ("roman", "zero"): roman_zero,
    ("roman", "capitals-only"): roman_small_letters,
    ("csv_line", "lost-quotes"): csv_quotes,
    ("csv_line", "lost-last-field"): csv_last_field,
    ("ttl_cache", "late-expiry"): ttl_boundary,
    ("ttl_cache", "stale-order"): ttl_order,
    ("duration", "unread-rest"): duration_unread,
    ("duration", "empty"): duration_empty,
    ("safe_join", "sibling-prefix"): path_sibling,
    ("safe_join", "absolute-part"): path_absolute_part,
    ("token_bucket", "overflow"): bucket_overflow,
    ("token_bucket", "backwards"): bucket_backwards,
    ("toposort", "tail-in-cycle"): order_tail,
    ("toposort", "last-in-first-out"): order_alphabet,
    ("split_money", "first-come"): money_remainders,
    ("split_money", "lost-sign"): money_sign,
    ("search_filter", "executed-query"): search_executes,
    ("search_filter", "case-sensitive"): search_case,
    ("word_wrap", "vague-error"): wrap_message,
    ("word_wrap", "exact-fit"): wrap_exact_fit,
    ("word_wrap", "uncut-word"): wrap_long_word,
    ("slug", "cut-word"): slug_whole_words,
    ("slug", "lost-accents"): slug_accents,
    ("session_token", "unsigned-expiry"): token_expiry_is_signed,
    ("session_token", "late-expiry"): token_ends_at_its_second,
    ("retry", "no-jitter"): retry_jitter,
    ("retry", "caught-interrupt"): retry_interrupt,
    ("backup", "shell"): backup_without_shell,
    ("backup", "loose-name"): backup_name,
}
